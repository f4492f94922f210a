"""Tables from end to end: columns become features inside the model."""

import numpy as np
import pytest

from multimargin.models import load

TEXT = ["--label", "queue", "--text", "subject"]


def lines(path):
    with open(path) as file:
        return file.read().splitlines()


def test_text(run, folder):
    done = run("train", folder / "tickets.csv", "m", *TEXT, "--holdout", "0.3")
    assert done.code == 0
    assert float(done.fields["accuracy"].split()[0]) > 0.9
    assert run("predict", folder / "more.csv", "m", "out.txt").code == 0
    assert len(lines("out.txt")) == 20 and set(lines("out.txt")) <= {"billing", "login", "shipping"}
    with_labels = run("predict", folder / "tickets.csv", "m", "out.txt", "--label", "queue")
    assert "accuracy: " in with_labels.out


def test_text_options_reach_the_vectorizer(run, folder):
    run("train", folder / "tickets.csv", "m", *TEXT, "--ngrams", "1", "2", "--min-df", "3", "-q")
    (_, vectorizer, column), *_ = load("m").steps[0][1].transformers_
    assert column == "subject"
    assert (vectorizer.ngram_range, vectorizer.min_df, vectorizer.sublinear_tf) == ((1, 2), 3, True)
    assert any(" " in word for word in vectorizer.vocabulary_)


def test_text_beside_other_columns(run, folder):
    more = ["--numeric", "age", "--categorical", "priority"]
    done = run("train", folder / "tickets.csv", "m", *TEXT, *more, "--json")
    plain = run("train", folder / "tickets.csv", "n", *TEXT, "--json")
    assert done.json["features"] == plain.json["features"] + 1 + 3  # age; low, high and missing
    assert run("predict", folder / "more.csv", "m", "out.txt").code == 0


def test_numbers_and_categories(run, folder):
    result = run("train", folder / "houses.csv", "m", "--label", "price", "--json").json
    assert result["features"] == 1 + 4 + 1  # rooms; kinds, "NA" and "TRUE" among them; zip is taken for a number
    assert result["accuracy"] > 0.95
    categorical = run("train", folder / "houses.csv", "m", "--label", "price", "--categorical", "zip", "--json").json
    assert categorical["features"] == 1 + 4 + 2
    dropped = run("train", folder / "houses.csv", "m", "--label", "price", "--drop", "zip", "--json").json
    assert dropped["features"] == 5


def test_unknown_categories_and_other_orders_of_columns(run, folder):
    run("train", folder / "houses.csv", "m", "--label", "price", "--drop", "zip", "-q")
    with open("new.csv", "w") as file:
        file.write("colour,kind,rooms\nred,castle,9\nred,,1\nblue,flat,\n")
    done = run("predict", "new.csv", "m", "-")
    assert done.code == 0, done.err
    assert done.out.splitlines()[:2] == ["dear", "cheap"]
    assert "new.csv: column 'kind': 2 of 3 rows have a category that no training row has, 'castle' for one" in done.err
    assert "rooms" not in done.err  # a row without a number is nothing to talk of


def test_a_column_without_a_number_is_noted(run, folder):
    run("train", folder / "houses.csv", "m", "--label", "price", "--drop", "zip", "-q")
    with open("new.csv", "w") as file:
        file.write("kind,rooms\nflat,\nflat,\n")
    done = run("predict", "new.csv", "m", "-")
    assert (done.code, len(done.out.splitlines())) == (0, 2)
    assert "new.csv: column 'rooms' is empty: each row gets what the model has for a missing number" in done.err
    assert "kind" not in done.err


def test_numeric_looking_categories_are_the_text_of_the_file(run):
    with open("t.csv", "w") as file:
        file.write("code,y\n" + "1,a\n01,b\nx,a\n" * 5)
    assert run("train", "t.csv", "m", "--label", "y", "--json").json["features"] == 3
    with open("p.csv", "w") as file:
        file.write("code\n1\n01\n")  # pandas would call these numbers
    assert run("predict", "p.csv", "m", "-", "--json").json["labels"] == ["a", "b"]


def test_a_column_that_looks_like_a_key_is_noted(run, folder):
    with open("t.csv", "w") as file:
        file.write("id,x,y\n" + "".join(f"T{i},{i % 7},{i % 2}\n" for i in range(60)))
    done = run("train", "t.csv", "m", "--label", "y")
    assert "column 'id' has 60 different values in 60 rows" in done.err
    assert run("train", "t.csv", "m", "--label", "y", "--drop", "id").err == ""


@pytest.mark.parametrize(("labels", "noted"), [(("0.5", "1.5"), True), (("1", "2"), False), (("v1.5", "v2"), False)])
def test_labels_with_decimals_are_noted(run, labels, noted):
    with open("t.csv", "w") as file:
        file.write("size,y\n" + "".join(f"{i},{labels[i % 2]}\n" for i in range(20)))
    done = run("train", "t.csv", "m", "--label", "y")
    assert done.code in (0, 3), done.err
    told = "t.csv: labels in column 'y' are numbers with decimals: each of the 2 is a class of its own"
    assert (told in done.err) is noted


def test_labels_that_pandas_would_lose(run):
    with open("t.csv", "w") as file:
        file.write("x,country\n" + "1,NA\n2,NA\n-1,None\n-2,None\n" * 3)
    assert run("train", "t.csv", "m", "--label", "country", "--json").json["classes"] == ["NA", "None"]


def test_the_model_needs_its_columns_by_name(run, folder, models):
    done = run("predict", folder / "houses.csv", models / "tickets", "-")
    assert done.code == 1
    assert "houses.csv: there is no column 'subject'; the model needs it; the file has 'rooms', 'kind'" in done.err


def test_text_where_a_number_was_names_the_row(run, models):
    with open("bad.csv", "w") as file:
        file.write("rooms,kind,zip\n3,flat,0101\nmany,flat,0101\n")
    done = run("predict", "bad.csv", models / "houses", "-")
    assert done.code == 1
    assert done.err == "multimargin: error: bad.csv: row 2: column 'rooms' holds 'many', not a number\n"


def test_kernel_machine_of_a_table(run, folder):
    done = run("train", folder / "houses.csv", "m", "--label", "price", "--kernel", "rbf", "-c", "10", "--json")
    assert done.code == 0 and done.json["accuracy"] > 0.95
    assert run("predict", folder / "houses.csv", "m", "o", "--label", "price").code == 0


def test_the_model_is_a_pipeline_for_python(run, folder):
    import pandas

    run("train", folder / "tickets.csv", "m", *TEXT, "-q")
    frame = pandas.read_csv(folder / "tickets.csv")
    assert np.mean(load("m").predict(frame) == frame["queue"]) > 0.95


@pytest.mark.parametrize("command", ["tune", "compare"])
def test_other_commands_read_tables(run, folder, command):
    done = run(command, folder / "tickets.csv", *TEXT, "--json")
    assert done.code == 0, done.err
    assert done.json["command"] == command
