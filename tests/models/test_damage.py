"""Files that were cut short, changed or are something else: all are refused, by what they are."""

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import zipfile
import zlib

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from safetensors.numpy import save_file
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from multimargin import KernelSVM, LinearSVM, LinearSVMCV
from multimargin.data.container import LARGEST_HEADER, read_container
from multimargin.models import ModelFormatError, load, save
from multimargin.models.envelope import MODEL
from multimargin.models.light import load_light
from tests.models.examples import WORDS, X, Y
from tests.models.forge import changed, parts, signed
from tests.models.forge import without as left_out


def text_model():
    words = ["red green", "blue sky", "green field", "sky and sea", "red rose", "blue sea"]
    return make_pipeline(TfidfVectorizer(), LinearSVM()).fit(words, list("abaaab"))


SMALL = {
    "linear": lambda: LinearSVM().fit(X[:20, 20:24], WORDS[Y[:20] % 3]),
    "kernel": lambda: KernelSVM("one_vs_one").fit(sp.csr_array(X[:12, 20:24]), Y[:12] % 3),
    "pipeline": text_model,
}
# benchmarks/damage.py does all of it for these, too.
SAMPLED = {
    "one-vs-one": lambda: LinearSVM("one_vs_one").fit(X[:20, 20:24], Y[:20] % 3),
    "calibrated": lambda: LinearSVM(probability=True).fit(X[:20, 20:24], Y[:20] % 3),
}


@pytest.fixture
def small(tmp_path, request):
    path = tmp_path / "model"
    save((SMALL | SAMPLED)[request.param](), path)
    return path


ALL = pytest.mark.parametrize("small", SMALL, indirect=True)


@ALL
def test_every_truncation_is_refused(small):
    content = small.read_bytes()
    for length in reversed(range(len(content))):
        os.truncate(small, length)
        with pytest.raises(ModelFormatError, match="model: "):
            load(small)
    small.write_bytes(content)
    load(small)


@ALL
@pytest.mark.parametrize("mask", [0x01, 0x80, None])
def test_every_changed_byte_is_refused(small, mask):
    content = small.read_bytes()
    rng = np.random.default_rng(0)
    damaged = bytearray(content)
    with small.open("r+b", buffering=0) as file:
        for place in range(len(content)):
            damaged[place] ^= int(rng.integers(1, 256)) if mask is None else mask
            file.seek(place)
            file.write(damaged[place : place + 1])
            with pytest.raises(ModelFormatError, match="model: "):
                load(small)
            damaged[place] = content[place]
            file.seek(place)
            file.write(damaged[place : place + 1])
    load(small)


@pytest.mark.parametrize("small", SAMPLED, indirect=True)
def test_other_models_cut_or_changed_anywhere(small):
    """Every 13th length and byte."""
    content = small.read_bytes()
    rng = np.random.default_rng(1)
    for place in range(0, len(content), 13):
        for damaged in (
            content[:place],
            content[:place] + bytes([content[place] ^ int(rng.integers(1, 256))]) + content[place + 1 :],
        ):
            small.write_bytes(damaged)
            with pytest.raises(ModelFormatError, match="model: "):
                load(small)
    small.write_bytes(content)
    load(small)


@ALL
def test_more_bytes_are_refused(small):
    content = small.read_bytes()
    for more in (b"\0", b" ", content):
        small.write_bytes(content + more)
        with pytest.raises(ModelFormatError, match="belong to no array"):
            load(small)


# Other files


def archive():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("model", "model")
    return content.getvalue()


def array():
    content = io.BytesIO()
    np.save(content, np.arange(3))
    return content.getvalue()


def joblib_dump(**options):
    content = io.BytesIO()
    joblib.dump(LinearSVM(), content, **options)
    return content.getvalue()


class Bomb:
    """What runs a program when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was read",))


OTHERS = {
    "pickle": [pickle.dumps(Bomb(), protocol) for protocol in (2, 3, 4, 5)] + [joblib_dump()],
    "not a model": [b"\n", b"hello", bytes(1000), b"\xff" * 1000],
    "this is": [pickle.dumps(Bomb(), 0), pickle.dumps(Bomb(), 1)],  # which begin like any text
    "gzip": [gzip.compress(pickle.dumps(Bomb())), joblib_dump(compress=("gzip", 3))],
    "zip archive": [archive()],
    "bz2": [bz2.compress(b"model")],
    "xz": [lzma.compress(b"model")],
    "zlib": [zlib.compress(pickle.dumps(Bomb())), joblib_dump(compress=3)],
    "a NumPy array": [array()],
    "read_liblinear reads it": [b"solver_type MCSVM_CS\nnr_class 3\n"],
    "read_libsvm reads it": [b"svm_type c_svc\nkernel_type rbf\n"],
    "the file is empty": [b""],
}


@pytest.mark.parametrize("what", OTHERS)
def test_other_files_are_refused_unread_by_name(tmp_path, what):
    path = tmp_path / "other"
    for content in OTHERS[what]:
        path.write_bytes(content)
        for read in (load, load_light):
            with pytest.raises(ModelFormatError, match=f"other: .*{what}.*load reads what multimargin.save wrote"):
                read(path)


def test_other_safetensors_are_refused(tmp_path):
    for metadata in (None, {"multimargin": "{}"}):
        save_file({"weights": np.ones((2, 2))}, tmp_path / "other", metadata=metadata)
        with pytest.raises(ModelFormatError, match="safetensors file that multimargin did not write"):
            load(tmp_path / "other")


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)


# The container, with a checksum that is right


def refused(path, header, data, what):
    path.write_bytes(signed(header, data))
    with pytest.raises(ModelFormatError, match=what):
        load(path)


@pytest.fixture
def linear(tmp_path):
    path = tmp_path / "model"
    save(LinearSVM().fit(X[:, 20:24], Y), path, duals=False)
    return path


def test_the_forgery_itself_is_right(linear):
    header, data = parts(linear)
    linear.write_bytes(signed(header, data))
    load(linear)


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("shape", [4, 11], r"has 320 bytes, but its shape is \(4, 11\)"),
        ("shape", [2**40, 2**40], "but its shape is"),
        ("shape", [2**60, 10], "impossible shape"),
        ("shape", [-4, -10], "impossible shape"),
        ("shape", [4.0, 10], "impossible shape"),
        ("shape", [True, 40], "impossible shape"),
        ("shape", "4", "impossible shape"),
        ("shape", None, "impossible shape"),
        ("shape", [2, 2, 10], "has 3 dimensions"),
        ("shape", [10, 4], "array weights has the shape 10 x 4, not any x 10"),
        ("dtype", "F32", "has 320 bytes"),
        ("dtype", "I64", "array weights cannot be of int64"),
        ("dtype", "BF16", "unknown dtype 'BF16'"),
        ("dtype", ["F64"], "unknown dtype"),
        ("data_offsets", [-320, 0], "impossible data_offsets"),
        ("data_offsets", [320, 0], "impossible data_offsets"),
        ("data_offsets", [0], "impossible data_offsets"),
        ("data_offsets", [160, 2**40], "ends at 1099511627776, but only"),
        ("data_offsets", [8, 328], "begins at"),
        ("more", 1, "must have dtype, shape and data_offsets"),
    ],
)
def test_places_that_are_wrong(linear, key, value, what):
    header, data = parts(linear)
    header["weights"][key] = value
    if key == "data_offsets" and len(value) == 2 and value[0] == 8:
        value[:] = [header["weights"]["data_offsets"][0] + 8] * 2
    refused(linear, header, data, what)


def test_places_that_overlap_or_leave_gaps(linear):
    header, data = parts(linear)
    places = [place for name, place in header.items() if name != "__metadata__"]
    places[1]["data_offsets"] = places[0]["data_offsets"]
    refused(linear, header, data, "not where the last one ends")
    places[1]["data_offsets"] = [80, 160]
    refused(linear, header, data + bytes(8), "8 bytes at the end belong to no array")
    refused(linear, left_out(header, "weights"), data, "not where the last one ends|belong to no array")


def test_duplicate_keys(linear):
    header, data = parts(linear)
    text = json.dumps(header, separators=(",", ":"))
    twice = text[:-1] + ',"weights":' + json.dumps(header["weights"]) + "}"
    refused(linear, twice.encode(), data, "the key 'weights' is there twice")
    inner = json.loads(text)
    description = inner["__metadata__"]["multimargin"]
    inner["__metadata__"]["multimargin"] = description[:-1] + ',"format_version":1}'
    refused(linear, json.dumps(inner, separators=(",", ":")).encode(), data, "the key 'format_version' is there twice")


def test_many_duplicate_keys(linear):
    """Which take no longer to find than the others take to read."""
    header, data = parts(linear)
    keys = ",".join(f'"{number}":0' for number in range(200_000))
    header["__metadata__"]["multimargin"] = "{" + keys + ',"199999":0}'
    refused(linear, header, data, "the key '199999' is there twice")


@pytest.mark.parametrize(
    "text",
    ["[]", "3", "{", "", '{"format": NaN}', "[" * 5000 + "]" * 5000, '{"a":' * 200 + "1" + "}" * 200, "1" * 5000],
)
def test_descriptions_that_are_no_json(linear, text):
    header, data = parts(linear)
    header["__metadata__"]["multimargin"] = text
    refused(linear, header, data, "header")


@pytest.mark.parametrize("metadata", [{}, {"multimargin": 3}, {"multimargin": "{}", "more": "x"}])
def test_metadata_that_is_wrong(linear, metadata):
    header, data = parts(linear)
    header["__metadata__"] = {"checksum": "0" * 64} | metadata
    refused(linear, header, data, "__metadata__ must hold|must be a string")


@pytest.mark.parametrize("claimed", [0, 1, 90, 10**6, LARGEST_HEADER, LARGEST_HEADER + 1, 2**40, 2**63, 2**64 - 1])
def test_headers_that_claim_a_wrong_size(linear, claimed):
    content = linear.read_bytes()
    linear.write_bytes(claimed.to_bytes(8, "little") + content[8:])
    with pytest.raises(ModelFormatError, match="the header claims"):
        load(linear)


def test_truth_values(linear):
    def change(description, arrays):
        arrays["more"] = np.array([0, 1, 2], dtype=np.uint8).view(np.bool_)

    changed(linear, change)
    with pytest.raises(ModelFormatError, match="a truth value that is neither 0 nor 1"):
        read_container(linear, MODEL)


# Descriptions


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"format": "other"}, "not one of a model of multimargin"),
        ({"more": 1}, "not one of a model of multimargin"),
        ({"format_version": 2}, "version of the format is 2, written by multimargin .*upgrade multimargin"),
        ({"format_version": 0}, "version of the format cannot be 0"),
        ({"format_version": "1"}, "version of the format cannot be '1'"),
        ({"versions": []}, "versions must name who wrote"),
        ({"model": None}, "must have kind, values and nodes"),
        ({"model": {"kind": 3, "values": {}}}, "must be a string and two objects"),
        ({"model": {"kind": "NuSVM", "values": {}}}, "NuSVM: this kind of model is not known"),
        ({"model": {"kind": "os.system", "values": {}}}, "this kind of model is not known"),
        ({"model": {"kind": "StandardScaler", "values": {}}}, "StandardScaler: parameters is missing"),
    ],
)
def test_envelopes(linear, change, what):
    changed(linear, lambda description, arrays: description.update(change))
    with pytest.raises(ModelFormatError, match=what):
        load(linear)


def values_of(description):
    return description["model"]["values"]


def parameters(**changes):
    def change(description, arrays):
        stored = dict(map(tuple, values_of(description)["parameters"]["dict"])) | changes
        values_of(description)["parameters"]["dict"] = [list(item) for item in stored.items()]

    return change


def value(name, told):
    return lambda description, arrays: values_of(description).__setitem__(name, told)


def array_of(name, told):
    return lambda description, arrays: arrays.__setitem__(name, told)


def without(name):
    def change(description, arrays):
        del (arrays if name in arrays else values_of(description))[name]

    return change


def at(name, place, number):
    def change(description, arrays):
        arrays[name][place] = number

    return change


CALIBRATION = [
    (array_of("calibration", np.ones(2)), "array calibration has the shape 2, not 3"),
    (array_of("calibration", np.ones((3, 1))), "array calibration has the shape 3 x 1, not 3"),
    (array_of("calibration", np.array([1.0, -1e-9, 0.0])), "calibration must be numbers of float64, and not negative"),
    (array_of("calibration", np.ones(3, dtype=np.float32)), "calibration must be numbers of float64"),
    (array_of("calibration", np.array([1.0, np.nan, 0.0])), "array calibration has values that are not finite"),
    (array_of("calibration", np.ones(3, dtype=np.int64)), "array calibration cannot be of int64"),
]
LINEAR = [
    (array_of("more", np.ones(3)), "should not have 'more'"),
    (value("more", 1), "should not have 'more'"),
    (
        lambda description, arrays: description["model"].update(nodes={"more": {"kind": "LinearSVM", "values": {}}}),
        "'more'",
    ),
    (without("weights"), "array weights is missing"),
    (without("intercept"), "array intercept is missing"),
    (without("classes"), "array classes is missing"),
    (without("n_iter"), "n_iter is missing"),
    (without("parameters"), "parameters is missing"),
    (without("caps"), "array caps is missing"),
    (without("support"), "array support is missing"),
    (at("weights", (0, 0), np.nan), "array weights has values that are not finite"),
    (at("weights", (3, 9), np.inf), "array weights has values that are not finite"),
    (at("intercept", 0, -np.inf), "array intercept has values that are not finite"),
    (at("classes", 1, 0), "classes must be two labels or more, sorted and different"),
    (array_of("classes", np.arange(9)), "array weights has the shape 4 x 10, not any x 9"),
    (array_of("classes", np.arange(1)), "classes must be two labels or more"),
    (array_of("intercept", np.zeros(9)), "array intercept has the shape 9, not 10"),
    (array_of("intercept", np.zeros(10, dtype=np.float32)), "must be float64"),
    (value("n_features", 5), "n_features is not that of the weights, 4"),
    (value("n_features", -4), "n_features cannot be"),
    (value("n_iter", -1), "n_iter cannot be"),
    (value("n_iter", True), "n_iter cannot be"),
    (value("converged", 1), "converged cannot be"),
    (value("certificate", [1.0]), "certificate cannot be"),
    (value("problem", ["one_vs_one", "hinge"]), "10 machines are not those of crammer_singer with 10 classes"),
    (value("problem", ["nu", "hinge"]), "problem cannot be"),
    (value("n_machines", 9), "9 machines are not those"),
    (at("support", 0, -1), "support must be ascending"),
    (at("support", -1, 10**9), "support must be ascending"),
    (at("labels", 0, 10), "labels must be numbers of classes"),
    (at("labels", 0, -1), "labels must be numbers of classes"),
    (at("caps", 0, -1.0), "caps must be"),
    (array_of("caps", np.ones(7)), "array labels has the shape 120, not 7"),
    (at("duals.indices", 0, 10), "column index 10 in row 0 is outside 0..9"),
    (at("duals.indices", 0, -1), "outside 0..9"),
    (at("duals.indptr", 1, 10**6), "indptr decreases"),
    (at("duals.indptr", 0, 1), "indptr must go from 0"),
    (at("duals.data", 0, np.nan), "array duals.data has values that are not finite"),
    (array_of("history.gap", np.ones(1)), "array history.gap has the shape"),
    (without("history.gap"), "array history.gap is missing"),
    (value("classes.type", "pickle"), "classes.type cannot be"),
    (value("classes.type", "mixed"), "classes.type cannot be"),
    (parameters(formulation="nu"), "its parameters are not possible: formulation='nu'"),
    (parameters(formulation="one_vs_one"), "array weights has the shape 4 x 10, not any x 45"),
    (parameters(C=-1.0), "its parameters are not possible: C must be"),
    (parameters(C={"dtype": "float64"}), "its parameter 'C' cannot be the callable float64"),
    (parameters(n_jobs=1025), "n_jobs=1025 is more than the 1024 a file may ask for"),
    (parameters(n_jobs=0), "its parameters are not possible: n_jobs must not be 0"),
    (parameters(fit_intercept=3), "fit_intercept must be True or False"),
    (parameters(penalty="l1"), "its parameters 'penalty' are not known to this version of multimargin"),
    (parameters(C={"object": 3}), "no value is written as"),
    (parameters(C={"float": "1.5"}), "float cannot be made of '1.5'"),
    (parameters(C={"array": ["object", 3]}), "array cannot be made of"),
    (parameters(C={"array": ["c16", [1]]}), "array cannot be made of"),
    (parameters(C={"bytes": "xx"}), "non-hexadecimal"),
    (value("parameters", [1]), "parameters cannot be"),
    *CALIBRATION,
]


@pytest.mark.parametrize(("change", "what"), LINEAR)
def test_linear_models_that_are_wrong(tmp_path, change, what):
    path = tmp_path / "model"
    save(LinearSVM().fit(X[:, 20:24], Y), path)
    changed(path, change)
    with pytest.raises(ModelFormatError, match=f"model: LinearSVM: .*{what}.*save the model again"):
        load(path)


KERNEL = [
    (value("kernel", ["callable", 1.0, 3, 0.0]), "kernel cannot be"),
    (value("kernel", ["rbf", -1.0, 3, 0.0]), "kernel cannot be"),
    (value("kernel", ["rbf", {"float": "nan"}, 3, 0.0]), "kernel cannot be"),
    (value("kernel", ["rbf", 1.0]), "kernel cannot be"),
    (value("shape_fit", {"tuple": [120, 5]}), "n_features is not that of the weights, 5"),
    (value("shape_fit", {"tuple": [121, 4]}), "duals of 120 rows, but 121 were trained on"),
    (value("shape_fit", {"tuple": [120, -4]}), "shape_fit cannot be"),
    (at("vectors", (0, 0), np.nan), "array vectors has values that are not finite"),
    (at("n_support", 0, 99), "n_support does not fit"),
    (array_of("intercept", np.zeros(3)), "array intercept has the shape 3, not 10"),
    (value("sparse", True), "array vectors.data is missing"),
    (without("duals.data"), "array duals.data is missing"),
    (array_of("more", np.ones(3)), "should not have 'more'"),
    (parameters(kernel={"dtype": "float64"}), "its parameter 'kernel' cannot be the callable float64"),
    *CALIBRATION,
]


@pytest.mark.parametrize(("change", "what"), KERNEL)
def test_kernel_models_that_are_wrong(tmp_path, change, what):
    path = tmp_path / "model"
    save(KernelSVM().fit(X[:, 20:24], Y), path)
    changed(path, change)
    with pytest.raises(ModelFormatError, match=f"model: KernelSVM: .*{what}"):
        load(path)


TEXT = [
    (at("classes.ends", 0, 100), "the ends of the strings do not fit"),
    (at("classes.ends", -1, 3), "the ends of the strings do not fit"),
    (at("classes.text", 0, 0xFF), "not UTF-8"),
    (value("classes.width", 2), "is 2 characters wide, but the longest string has 6"),
    (value("classes.width", 2**23), "characters wide"),
    (value("classes.width", 2**40), "classes.width cannot be"),
]


@pytest.mark.parametrize(("change", "what"), TEXT)
def test_labels_that_are_wrong(tmp_path, change, what):
    path = tmp_path / "model"
    save(LinearSVM().fit(X[:, 20:24], WORDS[Y]), path)
    changed(path, change)
    for read in (load, load_light):
        with pytest.raises(ModelFormatError, match=what):
            read(path)


def test_paths_that_are_wrong(tmp_path):
    path = tmp_path / "model"
    save(LinearSVMCV(Cs=[0.1, 1.0], cv=2).fit(X[:, 20:24], Y), path)
    changed(path, value("C", 0.5))
    with pytest.raises(ModelFormatError, match=r"C_=0\.5 is not among the values"):
        load(path)


def test_arrays_are_aligned(tmp_path):
    """So that they can be read where they lie."""
    for length in range(1, 70):
        save(LinearSVM().fit(X, np.array(["a" * length, *"bcdefghijk"])[Y]), path := tmp_path / "m")
        header, _ = parts(path)
        begin = 8 + int.from_bytes(path.read_bytes()[:8], "little")
        assert begin % 64 == 0
        for name in header.keys() - {"__metadata__"}:
            item = int(header[name]["dtype"][1:]) // 8
            assert (begin + header[name]["data_offsets"][0]) % item == 0


@pytest.mark.parametrize(("name", "dtype"), [("indices", "i8"), ("indptr", "i8"), ("data", "f2")])
def test_parts_of_sparse_arrays_are_alike(tmp_path, name, dtype):
    save(KernelSVM().fit(sp.csr_array(X), Y), path := tmp_path / "m")

    def change(description, arrays):
        key = f"vectors.{name}"
        arrays[key] = arrays[key].astype(dtype)

    changed(path, change)
    with pytest.raises(ModelFormatError, match=r"int32 or int64 alike, data float32 or float64|must be of"):
        load(path)
