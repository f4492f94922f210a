"""The program multimargin: how long its commands take from the shell, against LIBLINEAR's train. See README.md here."""

from __future__ import annotations

import argparse
import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from datasets import load
from report import Report, progress
from sklearn import datasets as bundled

from multimargin import LinearSVM, save, write_svmlight
from multimargin import load as load_model

PROGRAM = [sys.executable, "-m", "multimargin"]
# LIBLINEAR's tolerances that are just within 0.1 % of the optimum at C = 1, found by compare.py.
TOLERANCES = {"news20": "0.042", "mnist": "0.036"}
TEXTS = ("load_breast_cancer", "load_diabetes", "load_digits", "load_iris", "load_wine")


# Modules are compiled once, as in an installed package, even where the shell asks Python not to keep them.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def seconds(command: list[str]) -> float:
    """From the shell's point of view."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    return time.perf_counter() - begin


def best(command: list[str], repeats: int) -> float:
    """Of several runs, after one that leaves the modules compiled."""
    seconds(command)
    return min(seconds(command) for _ in range(repeats))


def train(options: argparse.Namespace, report: Report, folder: Path) -> None:
    """From text to a model, Crammer-Singer, C = 1, without an intercept."""
    report.heading("multimargin train against LIBLINEAR's train, from text to a model")
    report.table("set", "MB", "ours s", "peer", "setting", "peer s", "ratio", "bar")
    peer = shutil.which("liblinear-train") or shutil.which("train")
    if peer is None:
        report.line("LIBLINEAR's program train is not on PATH (Debian: liblinear-tools).")
        return
    for name in options.sets:
        data, text = load(name, "float64"), folder / f"{name}.txt"
        write_svmlight(text, data.X, data.y.astype(int))
        progress(f"train {name}")
        setting = ["-s", "4", "-c", "1", "-e", TOLERANCES[name]]
        commands = (
            [*PROGRAM, "train", str(text), str(folder / "ours"), *["-s", "4", "-c", "1", "-B", "-1", "-q"]],
            [peer, *setting, "-q", str(text), str(folder / "theirs")],
        )
        seconds(commands[0])
        rounds = [[seconds(command) for command in commands] for _ in range(options.repeats)]
        ours, theirs = map(min, zip(*rounds, strict=True))
        report.row(name, text.stat().st_size / 1e6, ours, "liblinear", " ".join(setting), theirs, theirs / ours, 3)


def start(options: argparse.Namespace, report: Report, folder: Path) -> None:
    """What a command costs that has next to nothing to do."""
    report.heading("multimargin from the shell, and models in files")
    report.table("what", "seconds", "bar")
    X, y = bundled.load_digits(return_X_y=True)
    write_svmlight(folder / "one.txt", X[:1] / 16, y[:1])
    save(LinearSVM().fit(X / 16, y), folder / "digits.model")
    rows = [
        (name.removeprefix("load_"), sentence)
        for name in TEXTS
        for sentence in re.split(r"[.\n]\s", getattr(bundled, name)().DESCR)
        if len(sentence.split()) > 3
    ]
    for file, part in (("texts.csv", rows), ("text.csv", rows[:1])):
        with (folder / file).open("w", newline="") as out:
            csv.writer(out).writerows([("label", "text"), *part])
    texts = [
        *PROGRAM,
        "train",
        str(folder / "texts.csv"),
        str(folder / "texts.model"),
        "--label",
        "label",
        "--text",
        "text",
    ]
    subprocess.run([*texts, "-q"], check=True)
    predict = [*PROGRAM, "predict", "-q"]
    plain = [*predict, str(folder / "one.txt"), str(folder / "digits.model"), str(folder / "out")]
    text = [*predict, str(folder / "text.csv"), str(folder / "texts.model"), str(folder / "out"), "--label", "label"]
    repeats = 3 * options.repeats
    report.row("`--help`", best([*PROGRAM, "--help"], repeats), 0.3)
    report.row("`predict`, one row, linear model", best(plain, repeats), 0.6)
    report.row("`predict`, one row, text model", best(text, repeats), 2)
    report.row("`import sklearn.base`", best([sys.executable, "-c", "import sklearn.base"], repeats), "")

    data = load("news20", "float64")
    model, path = LinearSVM(fit_intercept=False).fit(data.X, data.y), folder / "news20.model"
    times: dict[str, list[float]] = {"save": [], "load": []}
    for _ in range(repeats):
        begin = time.perf_counter()
        save(model, path)
        between = time.perf_counter()
        load_model(path)
        times["save"].append(between - begin)
        times["load"].append(time.perf_counter() - between)
    size = f"{path.stat().st_size / 1e6:.1f} MB"
    for what, found in times.items():
        report.row(f"`{what}` of news20's model with its duals, {size}", min(found), 0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=list(TOLERANCES), default=list(TOLERANCES))
    parser.add_argument("--repeats", type=int, default=3, help="of which the best counts")
    parser.add_argument("--output", type=Path, metavar="FILE.md", help="append the tables to this file")
    options = parser.parse_args()
    report = Report(options.output)
    with tempfile.TemporaryDirectory() as folder:
        start(options, report, Path(folder))
        train(options, report, Path(folder))


if __name__ == "__main__":
    main()
