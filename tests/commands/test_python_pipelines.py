"""Pipelines that were saved from Python, used by the program: columns by the types of transformers, not their names."""

import numpy as np
import pandas
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from multimargin import LinearSVM
from multimargin.data.table_features import columns_of, n_features_of
from multimargin.models import save


@pytest.fixture
def tickets(folder):
    return pandas.read_csv(folder / "tickets.csv")


def predicted(run, *words):
    done = run("predict", *words, "--json")
    assert done.code == 0, done.err
    return done.json["labels"]


def test_roles_do_not_depend_on_names(run, folder, tickets):
    model = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), ["priority"]),
            (make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
            (make_pipeline(CountVectorizer()), "subject"),
        ),
        LinearSVM(),
    ).fit(tickets, tickets["queue"])
    save(model, "m")
    columns = columns_of(model)
    assert (columns.numeric, columns.categorical, columns.text) == (("age",), ("priority",), ("subject",))
    assert predicted(run, folder / "tickets.csv", "m", "-") == model.predict(tickets).tolist()
    report = run("report", "m", folder / "tickets.csv", "r.html", "--label", "queue")
    assert report.code == 0, report.err


def test_missing_categories_are_imputed_as_in_python(run, folder, tickets):
    priority = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="error"))
    model = make_pipeline(
        ColumnTransformer([("numeric", priority, ["priority"]), ("t", TfidfVectorizer(), "subject")]), LinearSVM()
    ).fit(tickets, tickets["queue"])
    save(model, "m")
    assert tickets["priority"].isna().any()
    assert predicted(run, folder / "tickets.csv", "m", "-") == model.predict(tickets).tolist()


def test_categories_that_were_numbers_in_python(run):
    frame = pandas.DataFrame({"zip": [10, 20, 30] * 4, "x": np.arange(12) % 5, "y": ["a", "b", "c"] * 4})
    frame.to_csv("t.csv", index=False)
    features = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["zip"]), remainder="passthrough")
    model = make_pipeline(features, LinearSVM(C=10)).fit(frame[["zip", "x"]], frame["y"])
    save(model, "m")
    assert predicted(run, "t.csv", "m", "-") == frame["y"].tolist()


@pytest.mark.parametrize("values", [[True, False], [True, False, None], ["no", "yes", None]])
def test_truth_and_nothing_are_categories_as_in_python(run, values):
    frame = pandas.DataFrame({"flag": pandas.Series(values * 6, dtype=bool if len(values) == 2 else object)})
    labels = list("abc"[: len(values)]) * 6
    features = make_column_transformer((OneHotEncoder(handle_unknown="error"), ["flag"]))
    save(make_pipeline(features, LinearSVM(C=10)).fit(frame, labels), "m")
    frame.to_csv("t.csv")
    assert predicted(run, "t.csv", "m", "-") == labels
    frame.to_parquet("t.parquet")
    assert predicted(run, "t.parquet", "m", "-") == labels


def test_selectors_are_resolved_and_dropped_columns_are_not_asked_for(run, tickets):
    features = ColumnTransformer(
        [
            ("n", make_pipeline(SimpleImputer(), StandardScaler()), make_column_selector(dtype_include="number")),
            ("gone", "drop", ["subject", "queue"]),
            ("c", OneHotEncoder(handle_unknown="ignore"), ["priority"]),
        ]
    )
    model = Pipeline([("inner", Pipeline([("f", features)])), ("none", "passthrough"), ("svm", LinearSVM())])
    model.fit(tickets, tickets["queue"])
    save(model, "m")
    tickets[["priority", "age"]].to_csv("few.csv", index=False)
    assert predicted(run, "few.csv", "m", "-") == model.predict(tickets).tolist()


def test_columns_by_number_are_of_matrices(run, folder, digits):
    X, y = digits
    features = make_column_transformer((StandardScaler(), [0, 1, 20]), (StandardScaler(), slice(30, 40)))
    model = make_pipeline(features, LinearSVM()).fit(X, y)
    save(model, "m")
    assert columns_of(model) is None
    assert predicted(run, folder / "digits.npz", "m", "-") == model.predict(X).tolist()
    assert "is a table; the model was trained on a matrix" in run("predict", folder / "tickets.csv", "m", "-").err


def test_report_of_a_pipeline_that_begins_with_nothing(run, folder, digits):
    model = Pipeline([("none", "passthrough"), ("svm", LinearSVM())]).fit(*digits)
    save(model, "m")
    assert n_features_of(model) == 64
    done = run("report", "m", folder / "digits.svm", "r.html")
    assert done.code == 0, done.err


@pytest.mark.parametrize("vectorizer", [TfidfVectorizer(), CountVectorizer(), HashingVectorizer(n_features=256)])
def test_leading_vectorizer_needs_the_name_of_the_column(run, folder, tickets, vectorizer):
    model = make_pipeline(vectorizer, LinearSVM()).fit(tickets["subject"], tickets["queue"])
    save(model, "m")
    words = ["--text", "subject"]
    assert predicted(run, folder / "more.csv", "m", "-", *words) == model.predict(tickets["subject"][:20]).tolist()
    report = run("report", "m", folder / "tickets.csv", "r.html", "--label", "queue", *words)
    assert report.code == 0, report.err

    name = type(vectorizer).__name__
    for more in ([], ["--text", "subject", "--text", "priority"]):
        refused = run("predict", folder / "more.csv", "m", "-", *more)
        assert refused.code == 2
        assert f"more.csv: the model begins with a {name}; which column holds the text? Say --text COL" in refused.err
    assert f"is a matrix; the model begins with a {name}" in run("predict", folder / "digits.svm", "m", "-").err
    assert "there is no column 'no'" in run("predict", folder / "more.csv", "m", "-", "--text", "no").err


def test_other_models_know_their_text(run, folder, models):
    refused = run("predict", folder / "more.csv", models / "tickets", "-", "--text", "priority")
    assert refused.code == 2 and "this one knows its columns by name" in refused.err
    refused = run("predict", folder / "digits.svm", models / "digits", "-", "--text", "priority")
    assert refused.code == 2 and "--text is for tables" in refused.err


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ([("d", "drop", slice(0, 1)), ("n", StandardScaler(), ["size"])], ""),
        ([("d", "drop", 0), ("n", StandardScaler(), ["size"])], ""),
        ([("c", OneHotEncoder(handle_unknown="ignore"), ["kind"])], "1 of 2 rows have a category"),
        ([("c", OneHotEncoder(handle_unknown="infrequent_if_exist"), ["kind"])], ""),
        (
            [
                (
                    "c",
                    make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")),
                    ["kind"],
                )
            ],
            "",
        ),
        ([("c", make_pipeline(StandardScaler(), OneHotEncoder(handle_unknown="ignore")), ["size"])], ""),
    ],
)
def test_what_is_said_of_other_pipelines(run, parts, told):
    """A note is advice: it never stops a prediction, and is silent where it cannot know."""
    frame = pandas.DataFrame({"kind": ["a", "b", "a", "b"] * 3, "size": [1.0, 2.0, 1.5, 2.5] * 3})
    model = make_pipeline(ColumnTransformer(parts), LinearSVM()).fit(frame, ["x", "y", "x", "y"] * 3)
    save(model, "m")
    with open("new.csv", "w") as file:
        file.write("kind,size\na,1\nz,2\n")
    done = run("predict", "new.csv", "m", "-")
    assert (done.code, len(done.out.splitlines())) == (0, 2), done.err
    assert told in done.err and (told or "category" not in done.err)
