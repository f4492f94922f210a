"""Models of text without scikit-learn: bit for bit what scikit-learn makes of them."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from multimargin import LinearSVM, load, save
from multimargin.data.table_features import transformer
from multimargin.data.tables import Columns
from multimargin.models.errors import ModelFormatError
from multimargin.models.light import load_to_predict
from multimargin.models.light_text import LightTextModel

WORDS = (
    "bank",
    "card",
    "loan",
    "Straße",
    "naïve",
    "data",
    "DATA",
    "row_1",
    "x",
    "42",
    "lost",
    "e-mail",
    "İstanbul",
    "I'm",
)


def texts(n, seed):
    rng = np.random.default_rng(seed)
    found = [" ".join(rng.choice(WORDS, rng.integers(1, 30))) for _ in range(n)]
    return np.array([*found[2:], "", "unseen, only unseen"], dtype=object)


def frame(n=60, seed=0):
    return pd.DataFrame({"title": texts(n, seed), "body": texts(n, seed + 1)})


Y = np.resize(["a", "b", "c"], 60)


def same(pipeline, rows, tmp_path):
    save(pipeline, tmp_path / "model")
    light = load_to_predict(tmp_path / "model")
    assert isinstance(light, LightTextModel)
    full = load(tmp_path / "model")
    np.testing.assert_array_equal(light.decision_function(rows), full.decision_function(rows))
    np.testing.assert_array_equal(light.predict(rows), full.predict(rows))
    return light


@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(ngram_range=(1, 2), sublinear_tf=True),
        dict(ngram_range=(2, 3), min_df=2),
        dict(lowercase=False, token_pattern=r"(?u)\b(\w+)\b"),
        dict(smooth_idf=False, vocabulary=["bank", "card", "lost"]),
    ],
)
def test_one_column_of_text(tmp_path, options):
    model = Pipeline([("words", TfidfVectorizer(**options)), ("svm", LinearSVM("one_vs_one"))])
    light = same(model.fit(texts(60, 3), Y), texts(80, 4), tmp_path)
    assert light.columns.one_text == "TfidfVectorizer"


@pytest.mark.parametrize("columns", [("title",), ("title", "body"), ("body", "title")])
def test_what_train_makes_of_text(tmp_path, columns):
    features = transformer(Columns(text=columns), ngrams=(1, 2), min_df=2)
    model = Pipeline([("features", features), ("svm", LinearSVM(probability=True))]).fit(frame(), Y)
    light = same(model, frame(50, 7), tmp_path)
    assert light.columns == Columns(text=columns)
    np.testing.assert_array_equal(light.predict_proba(frame(50, 7)), model.predict_proba(frame(50, 7)))


@pytest.mark.parametrize(
    "features",
    [
        CountVectorizer(),
        TfidfVectorizer(analyzer="char"),
        TfidfVectorizer(stop_words="english"),
        TfidfVectorizer(norm=None),
        TfidfVectorizer(use_idf=False),
        TfidfVectorizer(strip_accents="unicode"),
    ],
)
def test_others_are_read_as_they_are(tmp_path, features):
    model = Pipeline([("words", features), ("svm", LinearSVM())]).fit(texts(60, 3), Y)
    save(model, tmp_path / "model")
    again = load_to_predict(tmp_path / "model")
    assert isinstance(again, Pipeline)
    np.testing.assert_array_equal(again.decision_function(texts(9, 1)), model.decision_function(texts(9, 1)))


def test_mixed_columns_are_read_as_they_are(tmp_path):
    features = ColumnTransformer([("t", TfidfVectorizer(), "title"), ("c", OneHotEncoder(), ["kind"])])
    rows = frame().assign(kind=np.resize(["u", "v"], 60))
    save(Pipeline([("f", features), ("svm", LinearSVM())]).fit(rows, Y), tmp_path / "model")
    assert isinstance(load_to_predict(tmp_path / "model"), Pipeline)


def test_a_damaged_file_is_refused(tmp_path):
    save(Pipeline([("w", TfidfVectorizer()), ("svm", LinearSVM())]).fit(texts(60, 3), Y), tmp_path / "model")
    content = bytearray((tmp_path / "model").read_bytes())
    content[-20] ^= 1
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(ModelFormatError):
        load_to_predict(tmp_path / "model")


def test_the_command_does_not_import_scikit_learn(tmp_path):
    model = Pipeline([("f", transformer(Columns(text=("title",)))), ("svm", LinearSVM())]).fit(frame(), Y)
    save(model, tmp_path / "model")
    rows = frame(20, 5)
    rows.assign(label=np.resize(["a", "b"], 20)).to_csv(tmp_path / "rows.csv", index=False)
    program = """
import json, sys
from multimargin.commands.main import main
main(["predict", sys.argv[1], sys.argv[2], sys.argv[3], "--top", "2", "--label", "label"])
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "rows.csv", tmp_path / "model", tmp_path / "out"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "sklearn" not in json.loads(done.stdout.splitlines()[-1])
    told = [line.split("\t")[0] for line in (tmp_path / "out").read_text().splitlines()]
    assert told == model.predict(rows).tolist()
