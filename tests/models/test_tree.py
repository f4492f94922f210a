"""What a node gives to its reader, value by value: every bound of what is taken, and one beyond it."""

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin.models import ModelFormatError
from multimargin.models.text import integer_labels
from multimargin.models.tree import Reader, Writer
from multimargin.models.values import NotStorable, decode, encode
from multimargin.models.vectors import read_csr, read_strings, read_vector, write_csr, write_strings, write_vector
from tests.models.examples import same


def node(values=None, arrays=None, nodes=None, prefix=""):
    return Reader("file", {"kind": "Thing", "values": values or {}, "nodes": nodes or {}}, dict(arrays or {}), prefix)


def again(writer, arrays):
    return Reader("file", writer.description(), dict(arrays))


@pytest.mark.parametrize(
    "description",
    [
        None,
        [],
        {"kind": "Thing", "values": {}, "more": 1},
        {"values": {}},
        {"kind": "Thing"},
        {"kind": "Thing", "values": []},
        {"kind": "Thing", "values": {}, "nodes": []},
        {"kind": 3, "values": {}, "nodes": {}},
    ],
)
def test_descriptions_that_are_wrong(description):
    for prefix, where in (("", "the model"), ("a.b.", "a.b")):
        with pytest.raises(ModelFormatError, match=f"file: .*of {where} must (have|be)"):
            Reader("file", description, {}, prefix)


def test_a_description_may_lack_nodes():
    assert Reader("file", {"kind": "Thing", "values": {}}, {}).kind == "Thing"


def test_errors_name_the_node_and_where_it_is():
    assert str(node().wrong("bad")) == "file: Thing: bad; save the model again"
    assert str(node(prefix="a.b.").wrong("bad")) == "file: Thing (at a.b): bad; save the model again"


@pytest.mark.parametrize("size", [0, 1, 2**48 - 1])
def test_sizes(size):
    assert node({"n": size}).size("n") == size


@pytest.mark.parametrize("size", [-1, 2**48, 1.0, True, "1", None])
def test_sizes_that_are_none(size):
    with pytest.raises(ModelFormatError, match="n cannot be"):
        node({"n": size}).size("n")


def test_numbers():
    found = node({"a": 2, "b": 0.5, "c": {"float": "inf"}})
    assert [found.number(name) for name in "abc"] == [2.0, 0.5, np.inf]
    for told in ({"float": "nan"}, {"float": "-inf"}, "1", True):
        with pytest.raises(ModelFormatError, match="x cannot be"):
            node({"x": told}).number("x", finite=True)


def test_a_value_is_taken_once():
    found = node({"a": 1})
    assert found.value("a") == 1
    with pytest.raises(ModelFormatError, match="a is missing"):
        found.value("a")


def test_a_check_that_fails_is_a_check_that_is_not_passed():
    for check in (lambda value: value > 0, lambda value: int("x"), lambda value: False):
        with pytest.raises(ModelFormatError, match="a cannot be 'text'"):
            node({"a": "text"}).value("a", str, check=check)
    with pytest.raises(ModelFormatError, match="a cannot be"):
        node({"a": "text"}).value("a", int, check=lambda value: True)


def test_a_copy_has_all_that_was_there():
    arrays = {"x": np.ones(2)}
    found = node({"a": 1}, arrays, {"below": {"kind": "Other", "values": {}}})
    copy = found.copy()
    for reader in (copy, found):
        assert reader.has("a") and reader.has("x") and reader.has("below") and reader.has_array("x")
        reader.value("a")
        reader.array("x", "f", (2,))
        assert reader.child("below").kind == "Other"
        reader.finish()
        assert not reader.has("a") and not reader.has("x") and not reader.has("below")


def test_what_nobody_asked_for_is_named():
    found = node({"b": 1}, {"p.a": np.ones(1), "q.z": np.ones(1)}, {"c": {"kind": "Other", "values": {}}}, "p.")
    with pytest.raises(ModelFormatError, match=r"it should not have 'b', 'c', 'p\.a'; save"):
        found.finish()


@pytest.mark.parametrize(
    ("array", "kinds", "shape", "what"),
    [
        (np.ones(3), "iu", (3,), "array x cannot be of float64"),
        (np.ones(3), "f", (2,), "array x has the shape 3, not 2"),
        (np.ones((3, 2)), "f", (None, 3), "array x has the shape 3 x 2, not any x 3"),
        (np.ones(3), "f", (3, 1), "array x has the shape 3, not 3 x 1"),
        (np.ones((3, 1)), "f", (None,), "array x has the shape 3 x 1, not any"),
        (np.array([1.0, np.nan]), "f", (None,), "array x has values that are not finite"),
        (np.array([1.0, -np.inf]), "f", (None,), "array x has values that are not finite"),
    ],
)
def test_arrays_that_are_wrong(array, kinds, shape, what):
    with pytest.raises(ModelFormatError, match=what):
        node(arrays={"x": array}).array("x", kinds, shape)


def test_arrays():
    large = np.full(3, 1.7e308)  # whose sum is not finite
    for array in (large, np.arange(3), np.empty(0), np.ones(2, dtype=np.float32)):
        assert node(arrays={"x": array}).array("x", "fi", (len(array),)) is array
    missing = np.array([1.0, np.nan])
    assert node(arrays={"x": missing}).array("x", "f", (2,), finite=False) is missing


# Values


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, None),
        (np.int32(3), 3),
        (np.float64(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (float("inf"), {"float": "inf"}),
        (float("-inf"), {"float": "-inf"}),
        (b"\x01\xff", {"bytes": "01ff"}),
        ((1, [2]), {"tuple": [1, [2]]}),
        (slice(1, None, 2), {"slice": [1, None, 2]}),
        ({1: "a"}, {"dict": [[1, "a"]]}),
        (float, {"dtype": "float"}),
        (bool, {"dtype": "bool"}),
        (np.float32, {"dtype": "float32"}),
        (np.array([1, 2], dtype=np.int16), {"array": ["int16", [1, 2]]}),
        (np.array([0.5, np.nan]), {"array": ["float64", [0.5, {"float": "nan"}]]}),
        (np.array(["a", "bb"]), {"array": ["str", ["a", "bb"]]}),
        (np.array([1, "a", None], dtype=object), {"array": ["object", [1, "a", None]]}),
        (np.array([], dtype=np.float32), {"array": ["float32", []]}),
    ],
    ids=repr,
)
def test_values_as_they_are_written(value, told):
    assert encode(value, "it") == told
    back = decode(told)
    if isinstance(value, np.ndarray):
        assert back.dtype == value.dtype and back.tolist()[:1] == value.tolist()[:1] and len(back) == len(value)
    else:
        assert back == value


def test_a_dtype_is_written_as_its_type():
    assert encode(np.dtype("int8"), "it") == {"dtype": "int8"}
    assert decode({"dtype": "int8"}) is np.int8


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (np.longdouble(1), "it is a longdouble"),
        (np.ones((2, 2)), "it is a ndarray"),
        (np.array([1j]), "it is a ndarray"),
        (np.dtype("complex128"), "it is a "),
        (np.complex128, "it is the callable complex128"),
        (len, "it is the callable len"),
        ([object()], "it is a object"),
        ({"a": {1, 2}}, "it is a set"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # addresses differ from process to process
)
def test_values_that_cannot_be_written(value, what):
    with pytest.raises(NotStorable, match=f"the thing cannot be stored in a file: {what}"):
        encode(value, "the thing")


@pytest.mark.parametrize(
    "told",
    [
        {"array": ["str", [1]]},
        {"array": ["str", "ab"]},
        {"array": ["int64", ["1"]]},
        {"array": ["int64", [None]]},
        {"array": ["int8", [300]]},
        {"array": ["float64", 1.0]},
        {"array": ["complex128", [1]]},
        {"dtype": "object"},
        {"float": "infinity"},
        {"slice": 3},
        {"tuple": "ab"},
        {"dict": [[1]]},
        {"dict": [[[1], 2]]},
        {"bytes": 3},
        {"list": []},
        {"tuple": [], "slice": []},
    ],
    ids=repr,
)
def test_what_nothing_is_written_as(told):
    with pytest.raises(ValueError, match=r"cannot be made of|no value is written as|not enough values"):
        decode(told)


# Vectors


@pytest.mark.parametrize("words", [[], [""], ["a", "", "bc"], ["ä", "\ud800", "日本"]], ids=ascii)
def test_strings(words):
    arrays = {}
    writer = Writer("Thing", arrays)
    write_strings(writer, "w", words)
    assert read_strings(again(writer, arrays), "w", len(words)) == words


@pytest.mark.parametrize(
    ("text", "ends", "what"),
    [
        (b"abc", [1, 4], "do not fit their text"),
        (b"abc", [1, 2], "do not fit their text"),
        (b"abc", [-1, 3], "do not fit their text"),
        (b"abc", [2, 1, 3], "do not fit their text"),
        (b"abc", [], "do not fit their text"),
        (b"\xc3", [1], "not UTF-8"),
    ],
)
def test_strings_that_are_wrong(text, ends, what):
    arrays = {"w.text": np.frombuffer(text, dtype=np.uint8), "w.ends": np.array(ends, dtype=np.int64)}
    with pytest.raises(ModelFormatError, match=f"w: .*{what}"):
        read_strings(node(arrays=arrays), "w")
    wide = arrays | {"w.text": arrays["w.text"].astype(np.uint16)}
    with pytest.raises(ModelFormatError, match="w: text must be bytes"):
        read_strings(node(arrays=wide), "w")


@pytest.mark.parametrize(
    "vector",
    [
        np.array([1, 2], dtype=np.uint8),
        np.array([True, False]),
        np.array(["a", "bcd"], dtype="U9"),
        np.array([], dtype="U1"),
        np.array([""], dtype="U1"),
        np.array([b"a", b"bcd"]),
        np.array(["a", "bcd"], dtype=object),
    ],
    ids=repr,
)
def test_vectors(vector):
    arrays = {}
    writer = Writer("Thing", arrays)
    write_vector(writer, "v", vector)
    reader = again(writer, arrays)
    assert same(read_vector(reader, "v", len(vector)), vector)
    reader.finish()
    with pytest.raises(ModelFormatError, match=r"has the shape|entries"):
        read_vector(again(writer, arrays), "v", len(vector) + 1)


def test_vectors_of_anything():
    vector = np.array(["a", None, 1.5], dtype=object)
    writer = Writer("Thing", {})
    write_vector(writer, "v", vector, mixed=True)
    assert read_vector(again(writer, {}), "v", 3, mixed=True).tolist() == vector.tolist()
    with pytest.raises(ModelFormatError, match="v has 3 entries, not 2"):
        read_vector(again(writer, {}), "v", 2, mixed=True)
    with pytest.raises(ModelFormatError, match=r"v\.type cannot be 'mixed'"):
        read_vector(again(writer, {}), "v", 3)
    with pytest.raises(TypeError, match=r"v of Thing cannot be stored .*: it holds objects of NoneType, float, str"):
        write_vector(Writer("Thing", {}), "v", vector)
    with pytest.raises(ModelFormatError, match="v cannot be"):
        read_vector(node({"v.type": "mixed", "v": {"array": ["int8", [1]]}}), "v", mixed=True)


def test_a_wide_vector_is_stored_as_wide_as_its_strings():
    half = 2**20 // 2
    cases = (
        (["a", "bcd"], half, half),
        (["a", "bcd"], half + 1, 3),
        (["a", "b"], half + 1, 1),
        (["", ""], half + 1, 1),
    )
    for strings, width, stored in cases:
        arrays = {}
        writer = Writer("Thing", arrays)
        write_vector(writer, "v", np.array(strings, dtype=f"U{width}"))
        assert read_vector(again(writer, arrays), "v").dtype == f"U{stored}"


@pytest.mark.parametrize(
    ("width", "good"), [(3, True), (4, True), (2**19, True), (2, False), (2**19 + 1, False), (0, False), (-3, False)]
)
def test_widths_are_not_taken_on_trust(width, good):
    arrays = {"v.text": np.frombuffer(b"abcd", dtype=np.uint8), "v.ends": np.array([1, 4])}
    found = node({"v.type": "str", "v.width": width}, arrays)
    if good:
        assert read_vector(found, "v").dtype == f"U{width}"
    else:
        with pytest.raises(ModelFormatError, match=r"v is \S+ characters wide|v.width cannot be"):
            read_vector(found, "v")


def test_one_string_as_long_as_can_be():
    for width, good in ((2**24 - 1, True), (2**24, False)):
        arrays = {"v.text": np.full(width, 97, dtype=np.uint8), "v.ends": np.array([width])}
        found = node({"v.type": "str", "v.width": width}, arrays)
        if good:
            assert len(read_vector(found, "v")[0]) == width
        else:
            with pytest.raises(ModelFormatError, match=r"v\.width cannot be"):
                read_vector(found, "v")


@pytest.mark.parametrize("raw", [np.ones((2, 0), dtype=np.uint8), np.ones((2, 3), dtype=np.uint16)])
def test_bytes_that_are_none(raw):
    with pytest.raises(ModelFormatError, match="v: not an array of bytes"):
        read_vector(node({"v.type": "bytes"}, {"v": raw}), "v")


def csr(**changes):
    matrix = sp.csr_array(np.array([[0, 1.0, 2.0], [3.0, 0, 0]]))
    parts = {name: np.array(getattr(matrix, name)) for name in ("data", "indices", "indptr")} | changes
    return node(arrays={f"m.{name}": np.asarray(part) for name, part in parts.items()})


def test_sparse_matrices():
    assert read_csr(csr(), "m", (2, 3)).toarray().tolist() == [[0, 1, 2], [3, 0, 0]]
    wide = {"indices": np.array([1, 2, 0]), "indptr": np.array([0, 2, 3])}
    assert read_csr(csr(**wide, data=np.ones(3, dtype=np.float32)), "m", (2, 3)).dtype == np.float32
    arrays = {}
    slack = sp.csr_array((np.array([1.0, 9.0]), np.array([0, 1]), np.array([0, 1])), shape=(1, 2))
    write_csr(Writer("Thing", arrays), "m", slack)  # whose arrays are longer than what it holds
    assert {name: array.tolist() for name, array in arrays.items()} == {
        "m.data": [1.0],
        "m.indices": [0],
        "m.indptr": [0, 1],
    }


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"indices": np.array([1, 2, 0])}, "int32 or int64 alike"),
        ({"data": np.ones(3, dtype=np.float16)}, "data float32 or float64"),
        ({"indices": np.array([1, 2, 0], np.int16), "indptr": np.array([0, 2, 3], np.int16)}, "int32 or int64 alike"),
        ({"indptr": np.array([1, 2, 3], np.int32)}, "indptr must go from 0 to the number of values, 3"),
        ({"indptr": np.array([0, 2, 2], np.int32)}, "indptr must go from 0 to the number of values, 3"),
        ({"indptr": np.array([0, 3], np.int32)}, "has the shape 2, not 3"),
        ({"indices": np.array([1, 3, 0], np.int32)}, "outside 0..2"),
        ({"indices": np.array([2, 1, 0], np.int32)}, "sorted and unique"),
        ({"indices": np.array([1, 1, 0], np.int32)}, "sorted and unique"),
    ],
)
def test_sparse_matrices_that_are_wrong(changes, what):
    with pytest.raises(ModelFormatError, match=what):
        read_csr(csr(**changes), "m", (2, 3))


# Labels of libraries in C


@pytest.mark.parametrize("classes", [[-(2**31) + 1, 2**31 - 1], [0.0, 2.0], [False, True]])
def test_labels_that_are_integers_of_c(classes):
    assert integer_labels(np.array(classes), "LIB") == [int(label) for label in classes]


@pytest.mark.parametrize("classes", [[-(2**31), 0], [0, 2**31], [0.0, 1.5], ["a", "b"]])
def test_labels_that_are_not(classes):
    with pytest.raises(TypeError, match="LIB has labels that are integers of 32 bits"):
        integer_labels(np.array(classes), "LIB")
