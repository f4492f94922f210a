"""Files piece by piece: bytes, svmlight text and tables, and which columns a model asks of a table."""

import bz2
import gzip
import io
import lzma
import os
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Perceptron
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from multimargin.data import file_bytes, svmlight
from multimargin.data.file_bytes import CompressionError, compressed, name_of, read_bytes, stream_bytes
from multimargin.data.folder_lock import FolderInUse, locked_folder
from multimargin.data.svmlight import SvmlightFormatError, _n_threads, read_svmlight
from multimargin.data.svmlight_stream import IndexZero, Place, stream_svmlight
from multimargin.data.svmlight_writing import write_svmlight
from multimargin.data.table_features import columns_of, n_features_of, transformer, unfamiliar
from multimargin.data.table_stream import Features, features_of, stream_table
from multimargin.data.tables import (
    Columns,
    TableError,
    Wanted,
    labels_as,
    listed,
    nearly_numeric,
    read_table,
    read_training_table,
    row_counters,
    suspicious_columns,
)

pandas = pytest.importorskip("pandas")
TEXT = b"".join(b"%d 1:%d 3:0.5\n" % (row % 2, row) for row in range(1, 41))
PACK = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


# Bytes


@pytest.mark.parametrize("suffix", PACK)
def test_bytes_from_anywhere(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(file_bytes, "_CHUNK", 64)
    path = tmp_path / f"text{suffix}"
    path.write_bytes(PACK[suffix](TEXT))
    assert bytes(read_bytes(path)) == bytes(read_bytes(str(path))) == TEXT
    assert bytes(read_bytes(io.BytesIO(PACK[suffix](TEXT)))) == TEXT
    with path.open("rb") as file:
        assert bytes(read_bytes(file.fileno())) == TEXT and not file.closed
    for begin in (0, 1, 100, len(TEXT)):
        pieces = list(stream_bytes(path, begin))
        assert b"".join(pieces) == TEXT[begin:] and all(0 < len(piece) <= 64 for piece in pieces)
    assert b"".join(compressed([TEXT[:50], TEXT[50:]], path))[:4] == path.read_bytes()[:4]
    assert PACK[suffix] is bytes or len(b"".join(compressed([TEXT], path))) < len(TEXT)


def test_a_name_that_promises_a_compression_must_keep_it(tmp_path):
    for suffix in (".gz", ".BZ2", ".xz"):
        path = tmp_path / f"text{suffix}"
        path.write_bytes(TEXT)
        for read in (read_bytes, lambda path: list(stream_bytes(path))):
            with pytest.raises(CompressionError, match=f"no .* data, although its name ends with {suffix.lower()}"):
                read(path)
        path.write_bytes(b"")
        assert bytes(read_bytes(path)) == b"" and list(stream_bytes(path)) == []
    path = tmp_path / "plain"
    path.write_bytes(gzip.compress(TEXT))
    assert bytes(read_bytes(path)) == TEXT
    path.write_bytes(gzip.compress(TEXT)[:-9])
    for read in (read_bytes, lambda path: list(stream_bytes(path))):
        with pytest.raises(CompressionError, match="plain: broken gzip data"):
            read(path)


def test_an_open_file_is_read_from_where_it_is_to_its_end(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(TEXT)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.lseek(descriptor, 100, os.SEEK_SET)
        assert bytes(read_bytes(descriptor)) == TEXT[100:]
        assert os.lseek(descriptor, 0, os.SEEK_CUR) == len(TEXT)
        assert bytes(read_bytes(descriptor)) == b""
    finally:
        os.close(descriptor)
    read, write = os.pipe()
    os.write(write, TEXT[:100])
    os.close(write)
    assert bytes(read_bytes(read)) == TEXT[:100]
    os.close(read)


def test_what_is_no_file():
    for wrong in (None, 1.5, True, [1]):
        with pytest.raises(TypeError, match=f"a binary file object is needed, got {type(wrong).__name__}"):
            read_bytes(wrong)
    with pytest.raises(TypeError, match="must be opened in binary mode"):
        read_bytes(io.StringIO("text"))
    assert name_of(3) == "file descriptor 3" and name_of(b"a") == "<bytes>" and name_of("a") == "a"
    assert name_of(io.BytesIO()) == "<BytesIO>"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="this system does not list what is open")
def test_a_folder_that_is_refused_leaves_nothing_open(tmp_path):
    def opened():
        return len(os.listdir("/proc/self/fd"))

    with locked_folder(tmp_path / "f"):
        before = opened()
        for _ in range(3):
            with pytest.raises(FolderInUse, match="another program is writing there"), locked_folder(tmp_path / "f"):
                pass
        assert opened() == before
    with locked_folder(tmp_path / "f"):
        pass
    assert opened() < before


# svmlight text


@pytest.mark.parametrize("chunk", [7, 64, 10**6])
def test_pieces_of_text_are_whole_lines(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(file_bytes, "_CHUNK", chunk)
    path = tmp_path / "text"
    for content in (TEXT, TEXT[:-1], b"\xef\xbb\xbf" + TEXT, b"\n# nothing\n" + TEXT):
        path.write_bytes(content)
        found = list(stream_svmlight(path, dtype=np.dtype(np.float64)))
        assert np.concatenate([X.toarray()[:, 0] for X, _, _ in found]).tolist() == [*range(1, 41)]
        assert np.concatenate([y for _, y, _ in found]).tolist() == [1.0, 0.0] * 20
        for X, _, place in found:  # it can be begun again at any piece, and may have others then
            rest = list(stream_svmlight(path, dtype=np.dtype(np.float64), start=place))
            values = np.concatenate([X.toarray()[:, 0] for X, _, _ in rest])
            assert values.tolist() == [*range(int(X.toarray()[0, 0]), 41)]
            assert rest[0][2] == place and content[: place.byte].count(b"\n") == place.line


def test_faults_of_text_name_their_lines(tmp_path, monkeypatch):
    path, options = tmp_path / "text", {"dtype": np.dtype(np.float64)}
    path.write_bytes(TEXT + b"1 2:x\n")
    for chunk in (50, 10**6):
        monkeypatch.setattr(file_bytes, "_CHUNK", chunk)
        with pytest.raises(SvmlightFormatError, match="line 41: "):
            list(stream_svmlight(path, **options))
    path.write_bytes(b"1 0:1\n")
    with pytest.raises(IndexZero, match="index 0 occurs"):
        list(stream_svmlight(path, **options))
    ((X, _, place),) = stream_svmlight(path, zero_based=True, **options)
    assert X.shape == (1, 1) and place == Place(0, 0)
    path.write_bytes(b"1 3:1\n")
    for zero_based, needed in ((True, 4), (False, 3)):
        ((X, _, _),) = stream_svmlight(path, zero_based=zero_based, n_features=needed, **options)
        assert X.shape == (1, needed)
        with pytest.raises(SvmlightFormatError, match=f"at least {needed} features, but n_features={needed - 1}"):
            list(stream_svmlight(path, zero_based=zero_based, n_features=needed - 1, **options))
    path.write_bytes(b"1\n")
    ((X, _, _),) = stream_svmlight(path, **options)
    assert X.shape == (1, 1)
    path.write_bytes(gzip.compress(TEXT)[:-9])
    with pytest.raises(SvmlightFormatError, match="broken gzip data"):
        list(stream_svmlight(path, **options))


def test_errors_in_threads_are_raised(monkeypatch):
    def fails(*args):
        raise RuntimeError("of a thread")

    monkeypatch.setattr(svmlight, "PART_BYTES", 64)
    monkeypatch.setattr(svmlight.Arrays, "read", fails)
    for n_jobs in (1, 2):
        with pytest.raises(RuntimeError, match="of a thread"):
            read_svmlight(io.BytesIO(TEXT), n_jobs=n_jobs)


def test_numbers_of_threads(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3}, raising=False)
    assert [_n_threads(n) for n in (None, 1, 7, -1, -2, -4, -5, np.int64(2))] == [1, 1, 7, 4, 3, 1, 1, 2]
    for wrong in (0, 1.0, True, "2"):
        with pytest.raises(ValueError, match="n_jobs must be None"):
            _n_threads(wrong)


@pytest.mark.parametrize("largest", [2**53, -(2**53)])
def test_whole_numbers_that_read_back(tmp_path, largest):
    path, beyond = tmp_path / "text", largest + (1 if largest > 0 else -1)
    write_svmlight(path, np.array([[largest]]), np.array([largest]))
    X, y = read_svmlight(path)
    assert X.toarray().tolist() == [[largest]] and y.tolist() == [largest]
    for X, y in ((np.array([[beyond]]), [1]), (np.array([[1]]), np.array([beyond])), (sp.csr_array([[beyond]]), [1])):
        with pytest.raises(ValueError, match=r"beyond 2\*\*53"):
            write_svmlight(path, X, y)
    write_svmlight(path, np.eye(2), [0, 1], query_id=np.array([1, 2**63 - 1], np.uint64))
    assert read_svmlight(path, query_id=True)[2].tolist() == [1, 2**63 - 1]
    with pytest.raises(ValueError, match="query_id must fit into int64"):
        write_svmlight(path, np.eye(2), [0, 1], query_id=np.array([1, 2**63], np.uint64))


# Tables


@pytest.fixture(params=[".csv", ".tsv", ".parquet"])
def table(request, tmp_path):
    def make(name="t", **columns):
        path, frame = tmp_path / f"{name}{request.param}", pandas.DataFrame(columns)
        if request.param == ".parquet":
            frame.to_parquet(path)
        else:
            frame.to_csv(path, index=False, sep="\t" if request.param == ".tsv" else ",")
        return path

    return make


def test_rows_of_a_table_in_pieces(table):
    path = table(b=np.arange(5.0), y=list("pqpqp"), a=[5, 4, 3, 2, 1])
    pieces = list(stream_table(path, "y", 2))
    assert [piece.row for piece in pieces] == [0, 2, 4] and [len(piece.y) for piece in pieces] == [2, 2, 1]
    np.testing.assert_array_equal(np.vstack([piece.X for piece in pieces]), np.c_[np.arange(5.0), [5, 4, 3, 2, 1]])
    assert np.concatenate([piece.y for piece in pieces]).tolist() == list("pqpqp")
    assert features_of(path, "y").names == ["b", "a"] == pieces[0].features.names
    (piece,) = stream_table(path, "y", 9, Features("first", ["a", "b"]))
    np.testing.assert_array_equal(piece.X[:, 0], [5, 4, 3, 2, 1])
    (piece,) = stream_table(path, "y", 9, wanted=Wanted(drop=("b",)))
    assert piece.X.shape == (5, 1) and piece.features.names == ["a"]


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        (
            {"a": [1.0, 2, 3], "y": ["p", "q", "p"]},
            {"features": Features("first", ["a", "b"])},
            "no column 'b', which first",
        ),
        ({"a": [1.0, 2, 3], "y": ["p", "q", "p"]}, {"features": Features("first", ["b"])}, "no column 'b'"),
        (
            {"a": [1, 2, 3], "c": [1, 2, 3], "y": ["p"] * 3},
            {"features": Features("f", ["a"])},
            "has a column 'c', which f",
        ),
        ({"a": [1.0, 2, None], "y": ["p", "q", "p"]}, {}, "row 3: column 'a' holds no number"),
        ({"a": ["1", "2", "x"], "y": ["p", "q", "p"]}, {}, "row 3: column 'a' holds 'x', not a number"),
        ({"a": [1.0, 2, 3], "y": ["p", "q", ""]}, {}, "row 3: column 'y' holds no label"),
        ({"y": ["p", "q", "p"]}, {}, "has no column for features besides 'y'"),
        ({"a": [1.0, 2, 3]}, {}, "there is no column 'y'; the file has 'a'"),
        ({"a": [1.0, 2, 3], "y": ["p"] * 3}, {"wanted": Wanted(drop=("z",))}, "there is no column 'z'"),
        ({"a": [1.0, 2, 3], "y": ["p"] * 3}, {"wanted": Wanted(drop=("a",))}, "has no column for features"),
        ({"a": ["1", "2", "x"], "y": ["p"] * 3}, {"wanted": Wanted()}, "column 'a' holds more than numbers"),
        ({"a": [True, False, True], "y": ["p"] * 3}, {"wanted": Wanted()}, "column 'a' holds more than numbers"),
    ],
)
def test_tables_that_cannot_be_streamed(table, columns, options, words):
    with pytest.raises(TableError, match=words):
        list(stream_table(table(**columns), "y", 2, **options))


@pytest.mark.parametrize(
    ("columns", "wanted", "words"),
    [
        ({"a": [1, 2]}, Wanted(), "there is no column 'y'"),
        ({"a": [1, 2], "y": [0, 1]}, Wanted(numeric=("a",), drop=("a",)), "column 'a' is named twice"),
        ({"a": [1, 2], "y": [0, 1]}, Wanted(drop=("y",)), "column 'y' is named twice"),
        ({"a": [1, 2], "y": [0, 1]}, Wanted(drop=("a",)), "has no column for features besides 'y', 'a'"),
        (
            {"a": [None, None], "b": [1, 2], "y": [0, 1]},
            Wanted(numeric=("a",)),
            "column 'a' has no values; leave it out",
        ),
        ({"a": np.empty(0), "y": np.empty(0)}, Wanted(), "has no rows"),
        ({"a": [1.0, np.inf], "y": [0, 1]}, Wanted(), "row 2: column 'a' holds 'inf', not a number"),
    ],
)
def test_tables_that_nothing_can_be_learnt_from(table, columns, wanted, words):
    with pytest.raises(TableError, match=words):
        read_training_table(table(**columns), "y", wanted)


def test_columns_that_a_model_needs(table):
    path = table(a=[1, 2], t=["x", "y"], y=["p", "q"])
    frame, y = read_table(path, Columns(numeric=("a",), text=("t",)))
    assert y is None and list(frame.columns) == ["a", "t"] and frame["a"].tolist() == [1.0, 2.0]
    assert read_table(path, Columns(numeric=("a",)), "y")[1].tolist() == ["p", "q"]
    with pytest.raises(TableError, match="there is no column 'b'; the model needs it; the file has 'a', 't', 'y'"):
        read_table(path, Columns(numeric=("b",)))
    with pytest.raises(TableError, match="column 'a' is a feature of the model, not the label"):
        read_table(path, Columns(numeric=("a",)), "a")
    assert listed("ab") == "'a', 'b'"
    assert listed(map(str, range(12))).endswith(", '11'") and listed(map(str, range(14))).endswith("'11' and 2 more")


def test_a_line_that_has_too_much_is_an_error(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,p\n2,q,3\n")
    for read in (lambda p: read_training_table(p, "y", Wanted()), lambda p: list(stream_table(p, "y", 9))):
        with pytest.raises(TableError, match=r"t\.csv: cannot be read as a table"):
            read(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("a,y\n1,p,3\n2,q,3\n")
    with warnings.catch_warnings():  # whatever becomes of warnings otherwise
        warnings.simplefilter("ignore")
        with pytest.raises(TableError, match="lines have more columns than the header"):
            read_training_table(tmp_path / "t.csv", "y", Wanted())
    (tmp_path / "t.csv").write_bytes(b"a,y\n1,\xff\n")
    with pytest.raises(TableError, match="is not UTF-8 text: byte 0xff"):
        read_training_table(tmp_path / "t.csv", "y", Wanted())
    (tmp_path / "t.csv").write_text("a;y\n1;p\n")
    with pytest.raises(TableError, match="columns must be separated by commas"):
        read_training_table(tmp_path / "t.csv", "y", Wanted())


def test_columns_that_look_odd():
    n = 60
    frame = pandas.DataFrame(
        {
            "key": [f"k{i}" for i in range(n)],
            "half": [f"k{i // 2}" for i in range(n)],
            "few": ["a", "b"] * (n // 2),
            "nearly": [str(i) for i in range(n - 6)] + ["x"] * 6,
            "less": [str(i) for i in range(n - 7)] + ["x"] * 7,
            "Unnamed: 0": np.arange(n),
            "Unnamed: 1": np.arange(1, n + 1),
            "Unnamed: 2": np.arange(2, n + 2),
            "counts": np.arange(n),
        }
    )
    columns = Columns(
        numeric=("Unnamed: 0", "Unnamed: 1", "Unnamed: 2", "counts"),
        categorical=("key", "half", "few", "nearly", "less"),
    )
    assert suspicious_columns(frame, columns) == [("key", 60), ("nearly", 55), ("less", 54)]
    assert nearly_numeric(frame, columns) == [("nearly", 55, "x")]
    assert row_counters(frame, columns) == ["Unnamed: 0", "Unnamed: 1"]
    few = frame.iloc[:21]
    assert suspicious_columns(few, Columns(categorical=("key", "half"))) == [("key", 21)]
    assert suspicious_columns(frame.iloc[:20], Columns(categorical=("key",))) == []


@pytest.mark.parametrize(
    ("classes", "labels", "wanted"),
    [
        ([1, 2], [2, 1], [2, 1]),
        ([1, 2], ["2", "1"], [2, 1]),
        ([1, 2], ["2", "x"], [2, "x"]),
        ([1.0, 2.5], ["1", "2.5", "1.0"], [1.0, 2.5, 1.0]),
        (["1", "b"], [1, 3], ["1", "3"]),
        (["1.0", "b"], [1.0, 3.0], ["1.0", "3"]),
        (["a", "b"], ["b", "c"], ["b", "c"]),
    ],
)
def test_labels_are_the_same_however_they_are_written(classes, labels, wanted):
    made = labels_as(np.array(classes), np.array(labels))
    assert made.tolist() == wanted
    assert made.dtype.kind == ("O" if {type(label) for label in wanted} == {int, str} else np.array(wanted).dtype.kind)


# What a model asks of a table

FRAME = pandas.DataFrame({"n": [1.0, 2.0], "c": ["u", "v"], "t": ["one", "two"], "d": [0.0, 1.0]})


def fitted(*parts, **more):
    return Pipeline([("features", ColumnTransformer(list(parts), **more)), ("machine", Perceptron())]).fit(
        FRAME, [0, 1]
    )


def test_roles_are_those_of_the_transformers():
    scaled = Pipeline([("impute", SimpleImputer()), ("scale", StandardScaler())])
    parts = [("a", scaled, ["n"]), ("b", OneHotEncoder(), ["c"]), ("e", TfidfVectorizer(), "t"), ("f", "drop", ["d"])]
    assert columns_of(fitted(*parts)) == Columns(("n",), ("c",), ("t",))
    assert columns_of(fitted(("a", "passthrough", ["n", "d"]))) == Columns(("n", "d"))
    assert columns_of(fitted(("a", StandardScaler(), [0]))) is None
    assert columns_of(fitted(("a", StandardScaler(), slice(0, 1)))) is None
    for vectorizer in (CountVectorizer(), TfidfVectorizer(), HashingVectorizer(n_features=8)):
        model = Pipeline([("text", vectorizer), ("machine", Perceptron())]).fit(FRAME["t"], [0, 1])
        assert columns_of(model) == Columns(one_text=type(vectorizer).__name__)
    plain = Pipeline([("scale", StandardScaler()), ("machine", Perceptron())]).fit(FRAME[["n"]].to_numpy(), [0, 1])
    assert columns_of(plain) is None and columns_of(Perceptron()) is None
    assert n_features_of(plain) == 1 and n_features_of(Perceptron()) is None


def test_what_text_of_a_file_means_to_categories():
    def meanings(values, *before):
        frame = pandas.DataFrame({"c": pandas.Series(values, dtype=object)})
        steps = [*((type(step).__name__, step) for step in before), ("encode", OneHotEncoder())]
        return columns_of(
            Pipeline([("f", ColumnTransformer([("c", Pipeline(steps), ["c"])])), ("m", Perceptron())]).fit(
                frame, [0, 1]
            )
        )

    assert meanings(["u", "v"]) == Columns(categorical=("c",))
    assert dict(meanings(["u", None]).meanings) == {"c": {"": None}}
    truths = dict(meanings([True, False]).meanings)["c"]
    assert truths == {
        text: value for value in (True, False) for text in (str(value), str(value).lower(), str(value).upper())
    }
    imputed = dict(meanings(["u", np.nan], SimpleImputer(strategy="most_frequent")).meanings)["c"]
    assert np.isnan(imputed[""])
    numbers = fitted(("c", OneHotEncoder(), ["n"]))
    assert columns_of(numbers) == Columns(("n",))


def test_what_is_unfamiliar():
    ignoring = OneHotEncoder(handle_unknown="ignore")
    model = fitted(("n", StandardScaler(), ["n"]), ("c", ignoring, ["c"]), ("t", TfidfVectorizer(), "t"))
    assert unfamiliar(model, FRAME) == []
    other = pandas.DataFrame({"n": [np.nan, np.nan], "c": ["u", "w"], "t": ["one", "two"]})
    empty, unknown = unfamiliar(model, other)
    assert empty.startswith("column 'n' is empty") and unknown.startswith("column 'c': 1 of 2 rows have a category")
    assert "'w' for one" in unknown
    assert unfamiliar(model, other[["t"]]) == [] and unfamiliar(Perceptron(), other) == []
    strict = fitted(("c", OneHotEncoder(), ["c"]))
    assert unfamiliar(strict, other) == []
    assert unfamiliar(model, other.iloc[:0].astype({"n": float})) == []
    half = pandas.DataFrame({"n": [np.nan, 1.0], "c": ["u", "v"], "t": ["one", "two"]})
    assert unfamiliar(model, half) == []


def test_features_are_made_by_roles():
    made = transformer(Columns(("n",), ("c",), ("t", "t2")), ngrams=(1, 2), min_df=2, missing="mean")
    names = [name for name, _, _ in made.transformers]
    assert names == ["text", "text_1", "numeric", "categorical"] and made.verbose_feature_names_out is True
    (_, text, _), _, (_, numeric, _), (_, encoder, _) = made.transformers
    assert (text.ngram_range, text.min_df, text.sublinear_tf) == ((1, 2), 2, True)
    assert numeric.named_steps["impute"].strategy == "mean" and encoder.handle_unknown == "ignore"
    one = transformer(Columns(("n",)))
    assert one.verbose_feature_names_out is False and len(one.transformers) == 1
    assert one.transformers[0][1].named_steps["impute"].strategy == "median"
