"""Tables: ``.csv``, ``.tsv`` and ``.parquet`` files.

Conventions
-----------
A column has one of three roles. Numeric ones are scaled to mean 0 and deviation 1, what is missing is the median;
categorical ones become a 0/1 feature a value, what is missing is a value of its own, values that training did not know
are none; text columns become TF-IDF weights of words. Text and categories are kept as they stand in the file ("01" is
not "1", "NA" is not missing). Rows are counted from 1, the header not among them.

The roles are in the transformer (table_features.py), and so in the model: a table to be predicted is read by
them.
"""

from __future__ import annotations

import contextlib
import csv
import io
import lzma
import os
import shlex
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from os import fspath
from typing import Any

import numpy as np

from multimargin.data.file_bytes import CompressionError, read_bytes
from multimargin.data.table_lines import TableError, check_lines

COMPRESSED = (".gz", ".bz2", ".xz")
SUFFIXES = (".csv", ".tsv", ".parquet")
_MANY_VALUES = 20  # of a categorical column, before it is suspected of being a key
_SHOWN = 12  # columns that an error lists


@dataclass(frozen=True)
class Columns:
    """Which columns are features, by role."""

    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    meanings: tuple[tuple[str, dict[str, Any]], ...] = ()  # of text in categorical ones, in models that Python made
    one_text: str = ""  # the vectorizer of a model that takes the text of one column, whatever its name

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.text, *self.numeric, *self.categorical)

    @property
    def as_text(self) -> tuple[str, ...]:
        return (*self.text, *self.categorical)


@dataclass(frozen=True)
class Wanted:
    """What somebody says about columns; the rest is found."""

    text: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


def is_table(path) -> bool:
    """Whether the name of a file says that it is a table."""
    return suffix_of(path) in SUFFIXES


def suffix_of(path) -> str:
    """The suffix of a file, that of its compression aside."""
    name = fspath(path).lower()
    for compressed in COMPRESSED:
        name = name.removesuffix(compressed)
    dot = name.rfind(".")
    return name[dot:] if dot > max(name.rfind("/"), name.rfind("\\")) else ""


def read_training_table(path, label: str, wanted: Wanted, kind: str | None = None) -> tuple[Any, np.ndarray, Columns]:
    """A table to train on: the frame of its features, the labels, and which column has which role.

    With text columns only those that ``wanted`` names are features; without, all but the label and ``wanted.drop``.
    ``kind`` is csv, tsv or parquet, where the name of the file does not say it.
    """
    pandas = import_pandas()
    file = _File(path, kind)
    raw = _whole(pandas, file)
    named = (label, *wanted.text, *wanted.numeric, *wanted.categorical, *wanted.drop)
    check_there(path, raw, named, "the file")
    _check_once(path, named)
    if not len(raw):
        raise TableError(f"{path}: has no rows")
    free = [] if wanted.text else [name for name in raw.columns if name not in named]
    numeric = {name for name in free if is_numeric(pandas, raw[name])} | set(wanted.numeric)
    categorical = (set(free) - numeric) | set(wanted.categorical)
    columns = Columns(
        tuple(name for name in raw.columns if name in numeric),
        tuple(name for name in raw.columns if name in categorical),
        tuple(name for name in raw.columns if name in wanted.text),
    )
    if not columns.names:
        raise TableError(f"{path}: has no column for features besides {', '.join(map(repr, named))}")
    frame = _frame(pandas, file, raw, columns, extra=(label,))
    for name in columns.numeric + tuple(free):  # Parquet has columns of nothing that are no numbers
        if raw[name].isna().all():
            raise TableError(f"{path}: column {name!r} has no values; leave it out (--drop {shlex.quote(name)})")
    y = labels_in(path, frame.pop(label), label)
    return frame, y, columns


def read_table(
    path, columns: Columns, label: str | None = None, kind: str | None = None
) -> tuple[Any, np.ndarray | None]:
    """A table with the columns that a model needs: the frame of its features, and the labels if a column is named."""
    pandas = import_pandas()
    file = _File(path, kind)
    raw = _whole(pandas, file)
    check_there(path, raw, columns.names, "the model needs it; the file")
    if label in columns.names:
        raise TableError(f"{path}: column {label!r} is a feature of the model, not the label")
    extra = () if label is None else (label,)
    check_there(path, raw, extra, "the file")
    frame = _frame(pandas, file, raw, columns, extra)
    return frame, None if label is None else labels_in(path, frame.pop(label), label)


def column_names(path, kind: str | None = None) -> list[str]:
    """The columns of a table."""
    file = _File(path, kind)
    return list(_read(import_pandas(), file, **({} if file.kind == "parquet" else {"nrows": 0})).columns)


def labels_as(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Labels of another file as the classes of a model are: 3, 3.0 and "3" are the same label.

    A file has whole numbers for labels only where all of them are, so the same label may be a number here and text
    there. A label that is no class stays itself (among classes that are numbers: in an array of objects).
    """
    as_text = classes.dtype.kind in "USO"
    if (labels.dtype.kind in "USO") == as_text:
        return labels
    classes_by_spelling = {spelling: label for label in classes.tolist() for spelling in _spellings(label)}
    found = {}
    for label in set(labels.tolist()):
        spellings = _spellings(label)
        known = next((spelling for spelling in spellings if spelling in classes_by_spelling), None)
        stays = spellings[0] if as_text else label
        found[label] = stays if known is None else classes_by_spelling[known]
    made = np.empty(len(labels), dtype=object)
    made[:] = [found[label] for label in labels.tolist()]
    if as_text:
        return made.astype(str)
    return made if any(isinstance(label, str) for label in found.values()) else made.astype(classes.dtype)


def _spellings(label: Any) -> list[str]:
    whole = isinstance(label, float) and label.is_integer()
    return [str(int(label)), str(label)] if whole else [str(label)]


def suspicious_columns(frame: Any, columns: Columns) -> list[tuple[str, int]]:
    """Categorical columns that look like keys or dates, with how many values they have."""
    counts = [(name, int(frame[name].nunique())) for name in columns.categorical]
    return [(name, count) for name, count in counts if count > max(_MANY_VALUES, len(frame) // 2)]


def nearly_numeric(frame: Any, columns: Columns) -> list[tuple[str, int, str]]:
    """Categorical columns of many values, nearly all of them numbers, with the row and the value of the first other."""
    pandas = import_pandas()
    found = []
    for name in columns.categorical:
        given = frame[name].dropna()
        number = pandas.to_numeric(given, errors="coerce").notna()
        if given.nunique() > _MANY_VALUES and 0.9 <= number.mean() < 1:
            row = int(np.flatnonzero(~number)[0])
            found.append((name, int(given.index[row]) + 1, str(given.iloc[row])))
    return found


def row_counters(frame: Any, columns: Columns) -> list[str]:
    """Numeric columns without a name that count the rows: the index, as pandas writes it."""
    counts = np.arange(len(frame))
    return [
        name
        for name in columns.numeric
        if name.startswith("Unnamed: ") and any(np.array_equal(frame[name], counts + first) for first in (0, 1))
    ]


def rows_as_text(frame: Any, columns: Columns) -> list[str]:
    """Every row for people to read: its text, or its columns with their names."""
    if columns.one_text:
        return [str(text) for text in frame]
    if columns.text:
        return [" | ".join(map(str, row)) for row in frame[list(columns.text)].itertuples(index=False)]
    names = list(columns.names)
    return [
        ", ".join(f"{name}={value}" for name, value in zip(names, row, strict=True))
        for row in frame[names].itertuples(index=False)
    ]


def import_pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError('tables need pandas and pyarrow: pip install "multimargin[text]"') from None
    return pandas


class _File:
    """A table that may be read more than once, even if it comes through a pipe. Compressed text is unpacked here, as
    pandas leaves out what comes after the padding of a stream."""

    def __init__(self, path, kind: str | None = None):
        self.path = path
        self.kind = kind or suffix_of(path).removeprefix(".")
        piped = os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
        packed = self.kind != "parquet" and fspath(path).lower().endswith(COMPRESSED)
        self.content = bytes(read_bytes(path)) if piped or packed else None

    def open(self) -> Any:
        """What pandas reads."""
        return self.path if self.content is None else io.BytesIO(self.content)


@contextlib.contextmanager
def table_errors(pandas: Any, path) -> Iterator[None]:
    """Errors of pandas with the name of the file."""
    try:
        with warnings.catch_warnings():  # such as that it leaves out what a line has too much of
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            yield
    except ImportError as error:
        raise ImportError(f'{path}: .parquet files need pyarrow: pip install "multimargin[text]"') from error
    except (TableError, CompressionError):
        raise
    except UnicodeDecodeError as error:
        raise TableError(f"{path}: is not UTF-8 text: byte {error.object[error.start]:#04x}") from None
    except pandas.errors.ParserWarning:
        raise TableError(f"{path}: cannot be read as a table: lines have more columns than the header") from None
    except (ValueError, OSError, KeyError, EOFError, csv.Error, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        said = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
        raise TableError(f"{path}: cannot be read as a table: {said}") from None


def check_header(pandas: Any, path, source: Any, kind: str) -> None:
    """Refuse a table with a column twice: pandas gives the second one another name, and the label is a feature then."""
    if kind == "parquet":
        from pyarrow.parquet import ParquetFile

        with ParquetFile(source) as file:
            names = file.schema_arrow.names
    else:
        first = read_text(pandas, source, kind, header=None, nrows=1, dtype=str, keep_default_na=False)
        names = first.iloc[0].tolist()
    for name, count in Counter(names).items():
        if name and count > 1:  # those without a name are told apart
            raise TableError(f"{path}: has {count} columns {name!r}; give each a name of its own")


def read_text(pandas: Any, source: Any, kind: str, **options: Any) -> Any:
    """What pandas reads of .csv or .tsv text; numbers are the nearest ones."""
    precision = exact_numbers(pandas.__version__)
    return pandas.read_csv(source, sep="\t" if kind == "tsv" else ",", index_col=False, **precision, **options)


def exact_numbers(version: str) -> dict[str, str]:
    """Before 3.1 pandas reads numbers that are off in the last digits, unless it is asked not to."""
    major, minor = map(int, version.split(".")[:2])
    return {"float_precision": "round_trip"} if (major, minor) < (3, 1) else {}


def _read(pandas: Any, file: _File, **options: Any) -> Any:
    """The file as pandas sees it; its errors with the name of the file."""
    path = file.path
    with table_errors(pandas, path):
        check_header(pandas, path, file.open(), file.kind)
        if file.kind == "parquet":
            frame = pandas.read_parquet(file.open())
            frame.columns = [str(name) for name in frame.columns]
            return frame
        frame = read_text(pandas, file.open(), file.kind, low_memory=False, **options)
    if len(frame.columns) == 1 and any(mark in frame.columns[0] for mark in ";\t"):
        raise TableError(f"{path}: columns must be separated by commas (csv) or tabs (tsv)")
    return frame


def _whole(pandas: Any, file: _File) -> Any:
    """All columns, after a look at the lines."""
    if file.kind != "parquet":
        with table_errors(pandas, file.path):
            odd = check_lines(file.path, file.kind, file.content)
        if odd:
            warnings.warn(odd, stacklevel=3)
    return _read(pandas, file)


def listed(names: Iterable[str]) -> str:
    """Columns for a message; the first ones, if there are many."""
    quoted = list(map(repr, names))
    more = f" and {len(quoted) - _SHOWN} more" if len(quoted) > _SHOWN else ""
    return ", ".join(quoted[:_SHOWN]) + more


def check_there(path, raw: Any, names: Iterable[str], who: str) -> None:
    for name in names:
        if name not in raw.columns:
            raise TableError(f"{path}: there is no column {name!r}; {who} has {listed(raw.columns)}")


def _check_once(path, names: tuple[str, ...]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise TableError(
                f"{path}: column {name!r} is named twice: it can be the label, text, numeric or categorical"
            )


def _is_real(pandas: Any, column: Any) -> bool:
    types = pandas.api.types
    return types.is_numeric_dtype(column) and not types.is_complex_dtype(column)


def is_numeric(pandas: Any, column: Any) -> bool:
    """Whether a column without a role is one of numbers; also of those that only objects have room for."""
    if pandas.api.types.is_object_dtype(column):
        given = column.dropna()
        return len(given) > 0 and all(
            isinstance(value, int | Decimal) and not isinstance(value, bool) for value in given
        )
    return _is_real(pandas, column) and not pandas.api.types.is_bool_dtype(column)


def _frame(pandas: Any, file: _File, raw: Any, columns: Columns, extra: tuple[str, ...]) -> Any:
    """The columns of a raw frame as their roles want them: numbers, or text as it stands in the file."""
    as_text = (*columns.as_text, *extra)
    exact = raw
    if as_text and file.kind != "parquet":  # pandas guessed types; read what is text again without
        exact = _read(pandas, file, usecols=list(dict.fromkeys(as_text)), dtype=str, keep_default_na=False)
    made = {name: numbers_in(pandas, file.path, raw[name]) for name in columns.numeric}
    made |= {name: text_in(pandas, file.path, exact[name]) for name in as_text}
    for name, meanings in columns.meanings:
        values = [meanings.get(text, text) for text in made[name]]
        made[name] = pandas.Series(values, dtype=object)  # as it is: pandas would take None for NaN
    return pandas.DataFrame({name: made[name] for name in raw.columns if name in made})


def numbers_in(pandas: Any, path, column: Any, first_row: int = 0) -> np.ndarray:
    """A column as numbers; what is none is refused, as are dates, which pandas would count in some unit."""
    types = pandas.api.types
    plain = types.is_object_dtype(column) or types.is_string_dtype(column)
    if not (plain or isinstance(column.dtype, pandas.CategoricalDtype) or _is_real(pandas, column)):
        raise TableError(
            f"{path}: column {column.name!r} is of type {column.dtype}, not of numbers: make numbers of it (days since "
            f"a day, say) before, or leave it out (--drop {shlex.quote(str(column.name))})"
        )
    values = pandas.to_numeric(column, errors="coerce").astype("float64").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = (np.isnan(values) & ~column.isna().to_numpy()) | np.isinf(values)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        found = str(column.iloc[row])
        raise TableError(f"{path}: row {first_row + row + 1}: column {column.name!r} holds {found!r}, not a number")
    return values


def text_in(pandas: Any, path, column: Any, first_row: int = 0) -> np.ndarray:
    """Strings; what is missing is the empty one. Lists, which Parquet has, are refused."""
    if pandas.api.types.is_object_dtype(column):
        plain = np.fromiter(map(pandas.api.types.is_scalar, column), dtype=bool, count=len(column))
        if not plain.all():
            row = int(np.flatnonzero(~plain)[0])
            raise TableError(
                f"{path}: row {first_row + row + 1}: column {column.name!r} holds {str(column.iloc[row])!r}, more than "
                "one value: make a column of each, or leave them out"
            )
    values = np.empty(len(column), dtype=object)
    values[:] = ["" if gone else str(value) for value, gone in zip(column, column.isna(), strict=True)]
    return values


def labels_in(path, column: Any, label: str) -> np.ndarray:
    """Integers where every label is one, written plainly; else the text of the file."""
    values = column.to_numpy()
    gone = np.flatnonzero(values == "")
    if len(gone):
        raise TableError(f"{path}: row {gone[0] + 1}: column {label!r} holds no label")
    try:
        numbers = [int(value) for value in values]
    except ValueError:
        return values.astype(str)
    plain = all(str(number) == value for number, value in zip(numbers, values, strict=True))
    small = plain and all(abs(number) < 2**62 for number in numbers)
    return np.array(numbers, dtype=np.int64) if small else values.astype(str)
