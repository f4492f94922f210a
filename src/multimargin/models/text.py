"""What the text formats of LIBLINEAR and LIBSVM have in common: lines of words, labels that are integers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from multimargin.models.errors import ModelFormatError, refuse

_LARGEST_LABEL = 2**31 - 1  # they are C's int there


def integer_labels(classes: np.ndarray, library: str) -> list[int]:
    """Labels as integers, which are all that the library has."""
    numbers = classes.dtype.kind in "biu" or (classes.dtype.kind == "f" and (classes == np.rint(classes)).all())
    if not numbers or max(abs(int(classes[0])), abs(int(classes[-1]))) > _LARGEST_LABEL:
        raise TypeError(
            f"{library} has labels that are integers of 32 bits, which {classes[:3].tolist()} are not; number the "
            "classes before training (sklearn.preprocessing.LabelEncoder)"
        )
    return [int(label) for label in classes]


class TextModel:
    """Header and body of a text file: lines ``key value value ...`` up to one that only has the last key.

    Parameters
    ----------
    path : str or path
    keys : iterable of str
        Keys that may be there.
    last : str
        The key after which the body follows.
    library : str
    """

    def __init__(self, path: str | os.PathLike, keys: Iterable[str], last: str, library: str) -> None:
        self.path = path
        try:
            lines = Path(path).read_bytes().decode("ascii").split("\n")
        except UnicodeDecodeError as error:
            raise refuse(path, f"byte {error.start} is not text: this is not a model of {library}") from None
        self._header: dict[str, tuple[int, list[str]]] = {}
        allowed = set(keys)
        for number, line in enumerate(lines, 1):
            words = line.split()
            if words == [last]:
                self.first = number + 1
                self.body = lines[number:]
                while self.body and not self.body[-1].strip():
                    self.body.pop()
                return
            if not words or words[0] not in allowed or words[0] in self._header:
                what = "is there twice" if words and words[0] in self._header else f"is no key of {library}"
                raise self.wrong(number, f"{words[0] if words else ''!r} {what}")
            self._header[words[0]] = number, words[1:]
        raise refuse(path, f"there is no line {last!r}: it was cut short, or is not a model of {library}")

    def wrong(self, line: int, what: str) -> ModelFormatError:
        """The error for something in a line."""
        return refuse(self.path, f"line {line}: {what}", "write the model again")

    def has(self, key: str) -> bool:
        return key in self._header

    def words(self, key: str, count: int) -> tuple[int, list[str]]:
        """The number of the line with the key, and its words."""
        if key not in self._header:
            raise refuse(self.path, f"the line {key!r} is missing", "write the model again")
        line, words = self._header[key]
        if len(words) != count:
            raise self.wrong(line, f"{key} has {len(words)} entries, not {count}")
        return line, words

    def word(self, key: str, known: Iterable[str]) -> str:
        """A word, one of those that are known."""
        line, (word,) = self.words(key, 1)
        if word not in known:
            raise self.wrong(line, f"{key} {word!r} is unknown")
        return word

    def integers(self, key: str, count: int, least: int, most: int = _LARGEST_LABEL) -> list[int]:
        return self._numbers(key, count, int, lambda number: least <= number <= most)

    def floats(self, key: str, count: int) -> list[float]:
        return self._numbers(key, count, float, lambda number: number - number == 0)

    def _numbers(self, key: str, count: int, convert: Callable[[str], Any], good: Callable[[Any], bool]) -> list:
        line, words = self.words(key, count)
        return [self.number(line, word, convert, good) for word in words]

    def number(self, line: int, word: str, convert: Callable[[str], Any], good: Callable[[Any], bool]) -> Any:
        """The number that a word of a line is."""
        try:
            number = convert(word)
        except ValueError:
            number = None
        if number is None or "_" in word or not good(number):
            raise self.wrong(line, f"{word[:40]!r} cannot stand here")
        return number

    def finite(self, line: int, word: str) -> float:
        """The finite number that a word of a line is."""
        return self.number(line, word, float, lambda number: number - number == 0)
