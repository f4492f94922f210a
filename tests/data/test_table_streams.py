"""Tables piece by piece, tables that nothing can be learnt from, and which columns a model asks of a table."""

import warnings
from decimal import Decimal

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Perceptron
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from multimargin.data.file_bytes import compressed
from multimargin.data.table_features import columns_of, n_features_of, transformer, unfamiliar
from multimargin.data.table_lines import CutShort, TableError
from multimargin.data.table_stream import Features, features_of, stream_table
from multimargin.data.tables import (
    Columns,
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


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "csv.bz2", "csv.xz"])
def test_lines_that_have_too_little_are_told(tmp_path, suffix):
    """pandas takes what they lack for empty cells, as it is in files of spreadsheets; not in one that was cut short."""
    path = tmp_path / f"t.{suffix}"
    separator = "\t" if suffix == "tsv" else ","

    def write(text):
        path.write_bytes(b"".join(compressed([text.replace(",", separator).encode()], path)))

    plain = "\ufeffy,a,b\r\n\r\np,1,\r\nq,2,3\r\n  \r\nr,4,5"
    quoted = plain.replace("q,2", 'q,"2"').replace("r,4", '"r\r\n,",4')
    for whole, last in ((plain, "r"), (quoted, "r\r\n" + separator)):
        write(whole)
        assert read_training_table(path, "y", Wanted())[1].tolist() == ["p", "q", last]
        for short, told in (
            (whole.replace("p,1,", "p,1"), "a line has fewer cells than the header, first line 3"),
            (whole.replace("p,1,", "p,1") + "\ns\n", "2 lines have fewer cells than the header, first line 3"),
            (whole[:-2] + "\r\n", "a line has fewer cells than the header, first line 6"),
        ):
            write(short)
            for read in (lambda: read_training_table(path, "y", Wanted()), lambda: read_table(path, COLUMNS, "y")):
                with pytest.warns(UserWarning, match=rf"t\.{suffix}: {told}"):
                    frame, *_ = read()
                assert np.isnan(frame["b"].iloc[0])
        write(whole[:-2])
        for read in (
            lambda: read_training_table(path, "y", Wanted()),
            lambda: read_table(path, COLUMNS),
            lambda: list(stream_table(path, "y", 9)),
        ):
            with pytest.raises(CutShort, match=rf"t\.{suffix}: ends in line 6, with 2 of the header's 3 columns"):
                read()


COLUMNS = Columns(numeric=("a", "b"))


def test_lines_that_are_not_empty_are_rows(tmp_path):
    """Other blanks than those of ASCII are something to pandas."""
    (tmp_path / "t.csv").write_text("y,a\n0,1\n\u00a0\n1,2\n")
    with pytest.warns(UserWarning, match="a line has fewer cells than the header, first line 3"):
        assert len(read_training_table(tmp_path / "t.csv", "y", Wanted())[1]) == 3
    (tmp_path / "t.csv").write_bytes("y,a\n0,1\n1,2\n".encode("utf-16"))
    with pytest.raises(TableError, match="is not UTF-8 text: byte 0xff"):
        read_training_table(tmp_path / "t.csv", "y", Wanted())


def test_a_text_may_be_long(tmp_path):
    (tmp_path / "t.csv").write_text(f'a,y\n"{"word " * 50_000}",p\nb,q\n')
    frame, labels, _ = read_training_table(tmp_path / "t.csv", "y", Wanted(text=("a",)))
    assert len(frame["a"][0]) == 250_000 and labels.tolist() == ["p", "q"]


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_packed_tables_of_several_streams(tmp_path, suffix):
    """Zeros between them are no end."""
    path = tmp_path / f"t.csv{suffix}"
    parts = [b"".join(compressed([text], path)) for text in (b"y,a\n" + b"0,1\n1,2\n" * 50, b"2,1\n" * 10)]
    path.write_bytes(bytes(8 * (suffix != ".gz")).join(parts))
    assert len(read_training_table(path, "y", Wanted())[1]) == 110
    assert sum(len(piece.y) for piece in stream_table(path, "y", 9)) == 110


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_broken_packed_tables_are_named(tmp_path, suffix):
    path = tmp_path / f"t.csv{suffix}"
    content = b"".join(compressed([b"a,y\n" + b"1,p\n2,q\n" * 1000], path))
    for broken in (content[:-5], content[:20] + b"????" + content[24:], content + b"garbage"):
        path.write_bytes(broken)
        for read in (lambda: read_training_table(path, "y", Wanted()), lambda: list(stream_table(path, "y", 9))):
            with pytest.raises(ValueError, match=rf"t\.csv{suffix}: (broken|cannot be read as a table)"):
                read()


def test_numbers_that_only_objects_have_room_for(tmp_path):
    """Decimals of Parquet, and integers beyond 64 bits."""
    path = tmp_path / "t.parquet"
    prices = [Decimal("1.50"), None, Decimal("3.25"), Decimal("4.00")]
    pandas.DataFrame({"price": prices, "sold": [True, None, False, True], "y": [*"abab"]}).to_parquet(path)
    frame, _, columns = read_training_table(path, "y", Wanted())
    assert columns == Columns(numeric=("price",), categorical=("sold",))
    np.testing.assert_array_equal(frame["price"], [1.5, np.nan, 3.25, 4.0])
    path = tmp_path / "t.csv"
    path.write_text(f"a,y\n1,p\n{10**25},q\n")
    frame, _, columns = read_training_table(path, "y", Wanted())
    assert columns.numeric == ("a",) and frame["a"].tolist() == [1.0, 1e25]


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


TWICE = "has 2 columns 'y'; give each a name of its own"


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz"])
def test_a_column_twice_in_text(tmp_path, name):
    """pandas calls the second one y.1: the label would be a feature."""
    path, separator = tmp_path / name, "\t" if ".tsv" in name else ","
    frame = pandas.DataFrame([["a", 1, "a"], ["b", 3, "b"]], columns=["y", "x", "y"])
    frame.to_csv(path, index=False, sep=separator)
    check_twice(path)
    fine = pandas.DataFrame([["a", 1, 2, 3, 4], ["b", 3, 2, 1, 0]], columns=["y", "x", "x.1", "", ""])
    fine.to_csv(path, index=False, sep=separator)
    assert read_training_table(path, "y", Wanted())[2].numeric == ("x", "x.1", "Unnamed: 3", "Unnamed: 4")


def test_a_column_twice_in_parquet(tmp_path):
    import pyarrow
    from pyarrow import parquet

    path, column = tmp_path / "t.parquet", pyarrow.array([1, 2])
    parquet.write_table(pyarrow.Table.from_arrays([column] * 3, names=["y", "x", "y"]), path)
    check_twice(path)


def check_twice(path):
    readers = (
        lambda: read_training_table(path, "y", Wanted()),
        lambda: read_table(path, Columns(numeric=("x",))),
        lambda: features_of(path, "y"),
        lambda: next(stream_table(path, "y", 1)),
    )
    for reader in readers:
        with pytest.raises(TableError) as told:
            reader()
        assert str(told.value) == f"{path}: {TWICE}"


def test_parquet_columns_of_nothing(tmp_path):
    """Whatever their type, as the empty columns of text are."""
    import pyarrow
    from pyarrow import parquet

    path = tmp_path / "t.parquet"
    for kind in (pyarrow.null(), pyarrow.string(), pyarrow.float64()):
        columns = {"x": [1, 2], "z": pyarrow.nulls(2, kind), "y": ["a", "b"]}
        parquet.write_table(pyarrow.table(columns), path)
        with pytest.raises(TableError, match=r"column 'z' has no values; leave it out \(--drop z\)"):
            read_training_table(path, "y", Wanted())
        assert read_training_table(path, "y", Wanted(drop=("z",)))[2].names == ("x",)


@pytest.mark.parametrize("value", [[0], {"a": 0}])
def test_parquet_values_that_are_several(tmp_path, value):
    path = tmp_path / "t.parquet"
    frame = pandas.DataFrame({"x": [1, 2, 3], "y": [None, value, value]})
    frame.to_parquet(path)
    with pytest.raises(TableError, match=r"row 2: column 'y' holds .*, more than one value: make a column"):
        read_training_table(path, "y", Wanted())
    frame["y"] = [value] * 3
    frame.to_parquet(path)
    with pytest.raises(TableError, match="row 1: column 'y' holds"):
        next(stream_table(path, "y", 1))
    with pytest.raises(TableError, match="row 1: column 'y' holds"):
        read_training_table(path, "x", Wanted())
