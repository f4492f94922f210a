"""The program run in this process, and small files for it to read."""

import csv
import json
import random
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.datasets import load_digits

from multimargin.commands.main import main
from multimargin.data.svmlight_writing import write_svmlight

WORDS = {
    "billing": ["invoice", "refund", "charge", "card", "payment", "price", "bill", "money", "paid", "twice"],
    "login": ["password", "account", "locked", "reset", "email", "login", "sign", "factor", "code", "user"],
    "shipping": ["parcel", "delivery", "late", "courier", "address", "tracking", "box", "arrived", "broken", "lost"],
}
COMMON = ["my", "the", "please", "help", "with", "is", "not", "was", "and", "it"]


@dataclass
class Result:
    """What a run of the program said, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def fields(self):
        """The lines of a summary by their first word."""
        return dict(line.split(maxsplit=1) for line in self.out.splitlines() if line.strip())


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Run the program in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MULTIMARGIN_TRACEBACK", raising=False)

    def run(*argv):
        capsys.readouterr()
        code = main([str(word) for word in argv])
        said = capsys.readouterr()
        return Result(code, said.out, said.err)

    return run


@pytest.fixture(scope="session")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:400] / 16, y[:400]


@pytest.fixture(scope="session")
def folder(tmp_path_factory, digits):
    """digits.svm, digits.npz, tickets.csv, more.csv (without labels) and houses.csv."""
    folder = tmp_path_factory.mktemp("data")
    X, y = digits
    write_svmlight(folder / "digits.svm", X, y)
    np.savez(folder / "digits.npz", X=X, y=y)
    choice = random.Random(0)
    with (
        open(folder / "tickets.csv", "w", newline="") as file,
        open(folder / "more.csv", "w", newline="") as unlabelled,
    ):
        tickets, more = csv.writer(file), csv.writer(unlabelled)
        tickets.writerow(["subject", "priority", "age", "queue"])
        more.writerow(["age", "subject", "priority"])
        for i in range(150):
            queue = choice.choice(list(WORDS))
            pick = [choice.choice(WORDS[queue] if choice.random() < 0.4 else COMMON) for _ in range(9)]
            priority, age = choice.choice(["low", "high", ""]), choice.choice(["", str(choice.randint(1, 90))])
            tickets.writerow([" ".join(pick), priority, age, queue])
            if i < 20:
                more.writerow([age, " ".join(pick), priority])
    with open(folder / "houses.csv", "w", newline="") as file:
        houses = csv.writer(file)
        houses.writerow(["rooms", "kind", "price", "zip"])
        for _ in range(120):
            rooms, kind = choice.randint(1, 9), choice.choice(["flat", "house", "TRUE", "NA"])
            price = "dear" if rooms + 3 * (kind == "house") > 6 else "cheap"
            houses.writerow([rooms if rooms != 5 else "", kind, price, choice.choice(["0101", "0202"])])
    return folder


@pytest.fixture(scope="session")
def models(folder, tmp_path_factory):
    """Trained once: digits (linear), kernel, tickets (text), houses (numbers and categories)."""
    made = tmp_path_factory.mktemp("models")
    common = ["--quiet"]
    assert main(["train", f"{folder}/digits.svm", f"{made}/digits", *common]) == 0
    assert main(["train", f"{folder}/digits.svm", f"{made}/kernel", "--kernel", "rbf", *common]) == 0
    table = ["--label", "queue", "--text", "subject"]
    assert main(["train", f"{folder}/tickets.csv", f"{made}/tickets", *table, *common]) == 0
    assert main(["train", f"{folder}/houses.csv", f"{made}/houses", "--label", "price", *common]) == 0
    (made / "xy.csv").write_text("x,y\n1,a\n2,b\n")
    assert main(["train", f"{made}/xy.csv", f"{made}/xy", "--label", "y", *common]) == 0
    return made
