"""What makes features of the columns of a table, and which columns a model asks for."""

from __future__ import annotations

from typing import Any

import numpy as np

from multimargin.data.tables import Columns


def transformer(columns: Columns, *, ngrams: tuple[int, int] = (1, 1), min_df: int = 1, missing: str = "median") -> Any:
    """What makes features of a frame; not fitted. Numbers that are missing become the median, or the mean."""
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    parts: list[tuple[str, Any, Any]] = [
        (f"text_{i}" if i else "text", TfidfVectorizer(ngram_range=ngrams, min_df=min_df, sublinear_tf=True), name)
        for i, name in enumerate(columns.text)
    ]
    if columns.numeric:
        scaled = Pipeline([("impute", SimpleImputer(strategy=missing)), ("scale", StandardScaler())])
        parts.append(("numeric", scaled, list(columns.numeric)))
    if columns.categorical:
        parts.append(("categorical", OneHotEncoder(handle_unknown="ignore"), list(columns.categorical)))
    return ColumnTransformer(parts, verbose_feature_names_out=len(parts) > 1)


def columns_of(model: Any) -> Columns | None:
    """The columns that a model asks of a table; None for a model of matrices.

    Roles are those that the transformers have, whatever they are called; they may be inside pipelines.
    """
    if hasattr(model, "columns"):  # it says so itself
        return model.columns
    steps = _steps(model)
    if len(steps) < 2:
        return None
    if _vectorizer_in([steps[0]]):
        return Columns(one_text=type(steps[0]).__name__)
    parts = getattr(steps[0], "transformers_", None) or getattr(steps[0], "transformers", None)
    if parts is None:
        return None
    roles: dict[str, list[str]] = {"numeric": [], "categorical": [], "text": []}
    meanings: dict[str, dict[str, Any]] = {}
    for _, part, chosen in parts:
        names = [chosen] if isinstance(chosen, str) else chosen
        if isinstance(part, str) and part == "drop":
            continue
        if isinstance(names, slice) or callable(names) or not hasattr(names, "__iter__"):
            return None
        if not all(isinstance(name, str) for name in names):
            return None
        for i, name in enumerate(names):
            role, meant = _role(_steps(part), i)
            roles[role].append(str(name))
            if meant:
                meanings[str(name)] = meant
    once = {role: tuple(dict.fromkeys(names)) for role, names in roles.items()}
    return Columns(once["numeric"], once["categorical"], once["text"], tuple(meanings.items()))


def n_features_of(model: Any) -> int | None:
    """The columns that a model asks of a matrix; None if it does not say."""
    return getattr(_steps(model)[0], "n_features_in_", None)


def unfamiliar(model: Any, frame: Any) -> list[str]:
    """What a model of a table makes nothing of, column by column: categories that it does not know, and columns of
    numbers that are empty throughout. Of columns that are changed before they are encoded, nothing is said."""
    found = []
    for _, part, chosen in getattr(_steps(model)[0], "transformers_", ()):
        names = [chosen] if isinstance(chosen, str) else chosen
        if not isinstance(names, list) or not all(isinstance(name, str) and name in frame for name in names):
            continue
        steps = _steps(part)
        encoder = _encoder_in(steps)
        for i, name in enumerate(names):
            column = frame[name]
            if encoder is None:
                if steps and column.dtype.kind == "f" and len(column) and column.isna().all():
                    found.append(f"column {name!r} is empty: each row gets what the model has for a missing number")
            elif steps == [encoder] and encoder.handle_unknown == "ignore":
                unknown = np.flatnonzero(~column.isin(encoder.categories_[i].tolist()))
                if len(unknown):
                    rows = f"{len(unknown)} of {len(column)} rows have a category that no training row has"
                    found.append(
                        f"column {name!r}: {rows}, {str(column.iloc[unknown[0]])!r} for one: it counts as none"
                    )
    return found


def _steps(part: Any) -> list[Any]:
    """The estimators one after the other, those of pipelines in pipelines among them."""
    if part is None or isinstance(part, str):  # passthrough
        return []
    if not hasattr(part, "steps"):
        return [part]
    return [step for _, inner in part.steps for step in _steps(inner)]


def _vectorizer_in(steps: list[Any]) -> bool:
    from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer  # TfidfVectorizer is the first

    return any(isinstance(step, CountVectorizer | HashingVectorizer) for step in steps)


def _encoder_in(steps: list[Any]) -> Any:
    from sklearn.preprocessing import OneHotEncoder

    return next((step for step in steps if isinstance(step, OneHotEncoder)), None)


def _role(steps: list[Any], column: int) -> tuple[str, dict[str, Any]]:
    """The role of a transformer's column; and of a category, what text of the file means that is no text to it."""
    from sklearn.impute import SimpleImputer

    if _vectorizer_in(steps):
        return "text", {}
    encoder = _encoder_in(steps)
    if encoder is None:
        return "numeric", {}
    learnt = getattr(encoder, "categories_", [])
    categories = learnt[column] if column < len(learnt) else np.empty(0, dtype=object)
    if categories.dtype.kind in "iuf":
        return "numeric", {}  # they were numbers in training, not the text of a file
    meanings: dict[str, Any] = {}
    for value in categories.tolist():
        if value is None or value != value:
            meanings[""] = value
        elif isinstance(value, bool):
            meanings |= dict.fromkeys((str(value), str(value).lower(), str(value).upper()), value)
    if any(isinstance(step, SimpleImputer) for step in steps):
        meanings[""] = np.nan
    return "categorical", meanings
