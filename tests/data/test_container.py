"""Files of arrays: what is written comes back, and each thing that a forged header can have wrong is refused."""

import json
import os

import numpy as np
import pytest

from multimargin.data import container
from multimargin.data.container import Kind, parse_json, read_container, write_container
from tests.models.forge import parts, signed


class Refused(ValueError):
    pass


KIND = Kind("file of numbers", Refused, "copy it anew", "give another file")
ARRAYS = {
    "wide": np.arange(6.0).reshape(2, 3),
    "narrow": np.array([1, -1, 3], np.int8),
    "none": np.empty((0, 4), np.float32),
    "yes": np.array([True, False]),
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    write_container(path, KIND, {"name": "déjà", "n": 3}, ARRAYS)
    return path


def refused(path, words):
    with pytest.raises(Refused, match=words) as caught:
        read_container(path, KIND)
    return str(caught.value)


def test_all_comes_back(file):
    description, arrays = read_container(file, KIND)
    assert description == {"name": "déjà", "n": 3} and set(arrays) == set(ARRAYS)
    for name, array in arrays.items():
        assert array.dtype == ARRAYS[name].dtype and array.flags.writeable
        np.testing.assert_array_equal(array, ARRAYS[name])
    header, data = parts(file)
    assert [*header] == ["__metadata__", "wide", "none", "narrow", "yes"]  # large items first
    assert header["narrow"] == {"dtype": "I8", "shape": [3], "data_offsets": [48, 51]}
    assert len(data) == 48 + 3 + 2 and (file.stat().st_size - len(data)) % 64 == 0


def test_every_type_and_order_of_bytes(tmp_path):
    arrays = {str(code): np.array([1, 0], code) for code in container._DTYPES.values()}
    arrays |= {
        "big": np.arange(3, dtype=">i4"),
        "strided": np.arange(6.0)[::2],
        "columns": np.asfortranarray(np.eye(3)),
    }
    write_container(tmp_path / "file", KIND, {}, arrays)
    found = read_container(tmp_path / "file", KIND)[1]
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype.newbyteorder("=")


def test_a_description_has_room_up_to_a_limit(tmp_path, monkeypatch):
    write_container(tmp_path / "file", KIND, {"text": "x" * 500}, {})
    size = int.from_bytes((tmp_path / "file").read_bytes()[:8], "little")
    monkeypatch.setattr(container, "LARGEST_HEADER", size)
    write_container(tmp_path / "other", KIND, {"text": "x" * 500}, {})
    assert read_container(tmp_path / "other", KIND)[0] == {"text": "x" * 500}
    monkeypatch.setattr(container, "LARGEST_HEADER", size - 1)
    with pytest.raises(
        ValueError, match=f"the description of the file of numbers takes {size} bytes; at most {size - 1}"
    ):
        write_container(tmp_path / "third", KIND, {"text": "x" * 500}, {})
    assert not (tmp_path / "third").exists()
    refused(tmp_path / "other", f"the header claims {size} bytes")
    with pytest.raises(ValueError, match="JSON compliant"):
        write_container(tmp_path / "third", KIND, {"number": np.nan}, {})


@pytest.mark.parametrize(
    ("content", "words", "advice"),
    [
        (b"", "the file is empty", "give another file"),
        (b"\x80\x04", "this is a pickle", "give another file"),
        (b"PK\x03\x04" + bytes(300), "this is a zip archive", "give another file"),
        (b"\x93NUMPY" + bytes(300), "this is a NumPy array", "give another file"),
        (b"svm_type c_svc\n", "this is a model of LIBSVM", "give another file"),
        (bytes(8) + b'{"a":1}' + bytes(300), "a safetensors file that multimargin did not write", "give another file"),
        (bytes(8) + b'{"__met', "the file ends after 15 bytes: it was cut short", "copy it anew"),
        (b"plain text" + bytes(300), "this is not a file of numbers of multimargin", "give another file"),
        (bytes(8), "the file ends after 8 bytes: it was cut short", "copy it anew"),
        (b"short", "this is not a file of numbers of multimargin", "give another file"),
    ],
)
def test_files_of_others(tmp_path, content, words, advice):
    (tmp_path / "file").write_bytes(content)
    said = refused(tmp_path / "file", words)
    assert said.startswith(f"{tmp_path / 'file'}: ") and said.endswith(f"; {advice}")


def test_other_lengths_are_refused(file):
    content = file.read_bytes()
    for size in range(8, len(content), 7):
        file.write_bytes(content[:size])
        assert refused(file, "cut short|bytes follow the header").endswith("; copy it anew")
    for more in (b"x", bytes(64)):
        file.write_bytes(content + more)
        refused(file, f"{len(more)} bytes at the end belong to no array")


def test_bytes_everywhere_are_covered(file):
    content = file.read_bytes()
    for at in range(0, len(content), 7):
        file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        refused(file, "file: ")


@pytest.mark.parametrize(
    ("name", "place", "words"),
    [
        ("wide", {"shape": [2, 3, 1]}, "has 3 dimensions; 2 are the most"),
        ("wide", {"shape": [7]}, "has 48 bytes, but its shape is"),
        ("wide", {"shape": [6]}, ""),
        ("wide", {"shape": [6.0]}, "impossible shape"),
        ("wide", {"shape": [-2, -3]}, "impossible shape"),
        ("wide", {"shape": [2**48]}, "impossible shape"),
        ("wide", {"shape": [2**48 - 1]}, "but its shape is"),
        ("wide", {"shape": [True, 6]}, "impossible shape"),
        ("none", {"shape": [4, 0]}, ""),
        ("wide", {"dtype": "I64"}, ""),
        ("wide", {"dtype": "F33"}, "unknown dtype 'F33'"),
        ("wide", {"dtype": 5}, "unknown dtype 5"),
        ("wide", {"data_offsets": [0, 47]}, "has 47 bytes"),
        ("wide", {"data_offsets": [0, 48, 48]}, "impossible data_offsets"),
        ("wide", {"data_offsets": [48]}, "impossible data_offsets"),
        ("wide", {"data_offsets": [48, 0]}, "impossible data_offsets"),
        ("wide", {"data_offsets": [-1, 47]}, "impossible data_offsets"),
        ("wide", {"data_offsets": [1, 49]}, "begins at 1, not where the last one ends, 0"),
        ("none", {"data_offsets": [0, 0]}, "begins at 0, not where the last one ends, 48"),
        ("yes", {"data_offsets": [51, 54], "shape": [3]}, "ends at 54, but only 53 bytes follow the header"),
        ("yes", {"data_offsets": [51, 52], "shape": [1]}, "1 bytes at the end belong to no array"),
        ("yes", {"more": 1}, "must have dtype, shape and data_offsets"),
    ],
)
def test_places_that_are_wrong(file, name, place, words):
    header, data = parts(file)
    header[name] |= place
    file.write_bytes(signed(header, data))
    if words:
        refused(file, words)
    else:
        read_container(file, KIND)


def test_places_that_are_none(file):
    header, data = parts(file)
    for place in ([], None, {"dtype": "F64", "shape": [1]}):
        file.write_bytes(signed(header | {"wide": place}, data))
        refused(file, "'wide' must have dtype, shape and data_offsets")


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"multimargin": 3}, "the description of the file of numbers must be a string"),
        ({}, "__metadata__ must hold checksum and multimargin, and nothing else"),
        ({"multimargin": "{}", "more": "x"}, "__metadata__ must hold"),
        ({"multimargin": "[]"}, "the header is not a JSON object"),
        ({"multimargin": '{"a": Infinity}'}, "Infinity is not a number in JSON"),
        ({"multimargin": '{"a": {"b": 1, "b": 2}}'}, "the key 'b' is there twice"),
        ({"multimargin": '{"a": 1'}, "is not JSON as it should be"),
    ],
)
def test_descriptions_that_are_wrong(file, metadata, words):
    header, data = parts(file)
    header["__metadata__"] = {"checksum": "0" * 64} | metadata
    file.write_bytes(signed(header, data))
    refused(file, words)


def test_how_deep_json_may_be():
    def nested(levels):
        return json.dumps({"a": 0}).replace("0", "[" * (levels - 1) + "]" * (levels - 1)).encode()

    assert parse_json("file", KIND, b"{}") == {}
    for levels in (2, 99):
        parse_json("file", KIND, nested(levels))
    for levels in (101, 102, 900):
        with pytest.raises(Refused, match="nested more than 100 levels deep"):
            parse_json("file", KIND, nested(levels))
    deep = '{"a":' * 101 + "{}" + "}" * 101
    with pytest.raises(Refused, match="nested more than 100 levels deep"):
        parse_json("file", KIND, deep.encode())


def test_truth_values_are_zero_or_one(file):
    header, data = parts(file)
    file.write_bytes(signed(header, data[:-1] + b"\x02"))
    refused(file, "'yes' has a truth value that is neither 0 nor 1")


def test_files_that_change_while_they_are_read(file, monkeypatch):
    content, size = file.read_bytes(), file.stat().st_size
    check = container._check_beginning

    def then(change):
        def checked(path, kind, start, size):
            n_header = check(path, kind, start, size)
            change()
            return n_header

        return checked

    monkeypatch.setattr(container, "_check_beginning", then(lambda: os.truncate(file, size + 1)))
    refused(file, "it grew while it was read")
    file.write_bytes(content)
    monkeypatch.setattr(container, "_check_beginning", then(lambda: os.truncate(file, size - 1)))
    refused(file, "it got shorter while it was read")


def test_what_is_said_without_advice():
    assert str(KIND.refuse("f", "it is wrong")) == "f: it is wrong"
    assert str(KIND.refuse("f", "it is wrong", "do this")) == "f: it is wrong; do this"
