"""Tables: roles of columns, text as it stands in the file, and the transformer."""

import io
import os
import sys
import threading

import numpy as np
import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multimargin.data.table_features import columns_of, transformer
from multimargin.data.tables import (
    Columns,
    TableError,
    Wanted,
    exact_numbers,
    nearly_numeric,
    read_table,
    read_training_table,
    row_counters,
    rows_as_text,
    suffix_of,
    suspicious_columns,
)

TABLE = """size,colour,note,flag,y
1,red,good thing,TRUE,a
2.5,,bad thing,false,b
,blue,"a, b",TRUE,a
-3e2,red,,False,b
"""


@pytest.fixture(params=["csv", "tsv", "csv.gz", "parquet"])
def path(request, tmp_path):
    """The same table in every format; parquet has it typed."""
    path = tmp_path / f"table.{request.param}"
    exact = pandas.read_csv(io.StringIO(TABLE), dtype=str, keep_default_na=False)
    if request.param == "parquet":
        exact["size"] = pandas.to_numeric(exact["size"])
        exact.to_parquet(path)
    else:
        exact.to_csv(path, index=False, sep="\t" if request.param == "tsv" else ",")
    return path


def test_roles_are_found(path):
    frame, y, columns = read_training_table(path, "y", Wanted())
    assert columns == Columns(numeric=("size",), categorical=("colour", "note", "flag"))
    assert y.tolist() == ["a", "b", "a", "b"]
    np.testing.assert_array_equal(frame["size"], [1, 2.5, np.nan, -300])
    assert frame["colour"].tolist() == ["red", "", "blue", "red"]
    assert frame["flag"].tolist() == ["TRUE", "false", "TRUE", "False"]
    assert "y" not in frame


def test_text_alone_unless_others_are_named(path):
    _, _, columns = read_training_table(path, "y", Wanted(text=("note",)))
    assert columns == Columns(text=("note",))
    _, _, columns = read_training_table(path, "y", Wanted(text=("note",), numeric=("size",), categorical=("flag",)))
    assert columns == Columns(("size",), ("flag",), ("note",))


def test_dropped_and_forced_columns(path):
    frame, _, columns = read_training_table(path, "y", Wanted(drop=("note", "flag"), categorical=("size",)))
    assert columns == Columns(categorical=("size", "colour"))
    assert frame["size"].tolist()[1] == "2.5"


def test_reading_again_by_the_roles(path):
    frame, y, columns = read_training_table(path, "y", Wanted())
    again, labels = read_table(path, columns, "y")
    pandas.testing.assert_frame_equal(frame, again)
    np.testing.assert_array_equal(y, labels)
    _, none = read_table(path, columns)
    assert none is None


def test_features(path):
    frame, _, columns = read_training_table(path, "y", Wanted(drop=("note",)))
    fitted = transformer(columns).fit(frame)
    X = fitted.transform(frame)
    names = fitted.get_feature_names_out().tolist()
    assert names[0] == "numeric__size" and "categorical__colour_blue" in names
    size = np.array([1, 2.5, 1, -300])  # the median of 1, 2.5 and -300 is what is missing
    dense = X.toarray() if hasattr(X, "toarray") else X
    np.testing.assert_allclose(dense[:, 0], (size - size.mean()) / size.std())
    np.testing.assert_array_equal(dense[:, names.index("categorical__colour_blue")], [0, 0, 1, 0])


def test_one_kind_of_columns_needs_no_prefix(path):
    frame, _, columns = read_training_table(path, "y", Wanted(text=("note",)))
    assert set(transformer(columns).fit(frame).get_feature_names_out()) == {"good", "bad", "thing"}


def test_columns_of_a_model_are_its_roles(path):
    from sklearn.pipeline import Pipeline

    from multimargin import LinearSVM

    _, _, columns = read_training_table(path, "y", Wanted(text=("note",), numeric=("size",), categorical=("flag",)))
    assert columns_of(Pipeline([("features", transformer(columns)), ("svm", LinearSVM())])) == columns
    assert columns_of(LinearSVM()) is None
    assert columns_of(Pipeline([("svm", LinearSVM())])) is None


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("1 2 10", np.array([1, 2, 10])),
        ("-1 +1 0", np.array(["-1", "+1", "0"])),
        ("01 2 3", np.array(["01", "2", "3"])),
        ("1.0 2.0 1.0", np.array(["1.0", "2.0", "1.0"])),
        ("NA null 3", np.array(["NA", "null", "3"])),
        ("99999999999999999999 1 2", np.array(["99999999999999999999", "1", "2"])),
    ],
)
def test_labels_are_integers_only_when_nothing_is_lost(tmp_path, labels, expected):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels.split())))
    _, y, _ = read_training_table(path, "y", Wanted())
    assert y.dtype.kind == expected.dtype.kind
    np.testing.assert_array_equal(y, expected)


def test_labels_of_typed_files(tmp_path):
    path = tmp_path / "t.parquet"
    pandas.DataFrame({"x": [1.0, 2.0], "y": [7, 8], "flag": [True, False]}).to_parquet(path)
    frame, y, columns = read_training_table(path, "y", Wanted())
    assert y.tolist() == [7, 8] and columns.categorical == ("flag",)
    assert frame["flag"].tolist() == ["True", "False"]


cells = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), max_size=12)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(values=st.lists(cells, min_size=2, max_size=6))
def test_text_is_kept_as_it_is(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("table") / "t.csv"
    pandas.DataFrame({"x": values, "z": range(len(values)), "y": ["l"] * len(values)}).to_csv(path, index=False)
    frame, _, _ = read_training_table(path, "y", Wanted(text=("x",)))
    assert frame["x"].tolist() == values


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6))
def test_numbers_are_what_they_are(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("table") / "t.csv"
    path.write_text("x,y\n" + "".join(f"{value!r},l\n" for value in values))
    frame, _, columns = read_training_table(path, "y", Wanted())
    assert columns.numeric == ("x",)
    assert frame["x"].tolist() == values


def test_pandas_is_asked_for_the_nearest_numbers_where_that_is_an_option():
    assert exact_numbers("2.0.3") == exact_numbers("3.0.3") == {"float_precision": "round_trip"}
    assert exact_numbers("3.1.1") == exact_numbers("4.0.0.dev0+12") == {}  # asking is deprecated there


def test_a_number_too_many_on_a_line_is_an_error(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,2,3\n1,2,3\n")
    with pytest.raises(TableError, match=r"t\.csv: "):
        read_training_table(path, "y", Wanted())


def test_rows_for_people(path):
    frame, _, columns = read_training_table(path, "y", Wanted(text=("note",)))
    assert rows_as_text(frame, columns)[2] == "a, b"
    frame, _, columns = read_training_table(path, "y", Wanted(drop=("note", "flag")))
    assert rows_as_text(frame, columns)[0] == "size=1.0, colour=red"


def test_keys_are_suspicious():
    frame = pandas.DataFrame({"id": [f"T{i}" for i in range(60)], "kind": ["a", "b"] * 30})
    assert suspicious_columns(frame, Columns(categorical=("id", "kind"))) == [("id", 60)]


def test_columns_that_are_nearly_numeric(tmp_path):
    path = tmp_path / "table.csv"
    lines = [f"{age},{i % 3},{i % 2}" for i, age in enumerate([*range(30), "?", "", *range(30)])]
    path.write_text("\n".join(["age,few,y", *lines]))
    frame, _, columns = read_training_table(str(path), "y", Wanted())
    assert columns.categorical == ("age",)
    assert nearly_numeric(frame, columns) == [("age", 31, "?")]
    path.write_text("\n".join(["age,few,y", *(line.replace("?", "") for line in lines)]))
    frame, _, columns = read_training_table(str(path), "y", Wanted())
    assert columns.categorical == () and nearly_numeric(frame, columns) == []


@pytest.mark.parametrize("first", [0, 1])
def test_a_nameless_column_that_counts_rows(tmp_path, first):
    path = tmp_path / "table.csv"
    path.write_text("\n".join([",age,y", *(f"{i + first},{i},{i % 2}" for i in range(9))]))
    frame, _, columns = read_training_table(str(path), "y", Wanted())
    (name,) = row_counters(frame, columns)
    assert name == "Unnamed: 0"
    path.write_text("\n".join([",age,y", *(f"{i // 2},{i},{i % 2}" for i in range(9))]))
    assert row_counters(*read_training_table(str(path), "y", Wanted())[::2]) == []


@pytest.mark.parametrize(
    ("path", "suffix"),
    [
        ("a.csv", ".csv"),
        ("a.CSV.gz", ".csv"),
        ("a.b/c", ""),
        ("data.xz", ""),
        ("a.svm.bz2", ".svm"),
        ("x/.hidden", ".hidden"),
    ],
)
def test_suffixes(path, suffix):
    assert suffix_of(path) == suffix


@pytest.mark.parametrize("unit", ["datetime64[ns]", "datetime64[s]", "timedelta64[s]"])
def test_dates_are_no_numbers(tmp_path, unit):
    path = tmp_path / "t.parquet"
    moments = np.arange(4).astype(unit)
    pandas.DataFrame({"when": moments, "x": [1.0, 2.0, 3.0, 4.0], "y": [0, 1, 0, 1]}).to_parquet(path)
    with pytest.raises(TableError, match=r"column 'when' is of type .*64.*make numbers of it.*--drop when"):
        read_training_table(path, "y", Wanted(numeric=("when",)))
    with pytest.raises(TableError, match="column 'when' is of type"):
        read_table(path, Columns(numeric=("when",)))
    _, _, columns = read_training_table(path, "y", Wanted())
    assert columns == Columns(numeric=("x",), categorical=("when",))


@pytest.mark.parametrize(
    ("label", "kind"), [("7", "i"), ("1000000", "i"), (str(2**62 - 1), "i"), (str(2**62), "U"), ("07", "U")]
)
def test_labels_are_integers_where_they_are_written_so(tmp_path, label, kind):
    (tmp_path / "t.csv").write_text(f"a,label\n1,{label}\n2,3\n")
    _, labels = read_table(tmp_path / "t.csv", Columns(numeric=("a",)), "label")
    assert labels.dtype.kind == kind and labels.astype(str).tolist() == [label, "3"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_table_may_come_through_a_pipe(path):
    """Which can be read but once, though roles are found before values are read."""
    pipe = path.with_name(f"pipe.{path.name}")
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[path.read_bytes()])
    writer.start()
    frame, y, columns = read_training_table(pipe, "y", Wanted())
    writer.join()
    expected, labels, roles = read_training_table(path, "y", Wanted())
    assert frame.equals(expected) and y.tolist() == labels.tolist() and columns == roles


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    pandas.DataFrame({"x": [1.0, 2.0], "y": [0, 1]}).to_parquet(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"t\.parquet: .*need pyarrow: pip install .multimargin\[text\]"):
        read_training_table(path, "y", Wanted())
