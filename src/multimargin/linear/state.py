"""What a training goes on from, as arrays by name: whoever keeps something has ``state()`` and ``set_state(state)``.

Names of a part begin with that of the part. Arrays have one dimension; a number is an array of one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

State = dict[str, np.ndarray]


class Stateful(Protocol):
    """Something that can go on where another one stopped."""

    def state(self) -> State:
        """Copies of all that its future depends on."""

    def set_state(self, state: State) -> None:
        """Go on from there. A state that cannot be is a ValueError, TypeError or KeyError."""


def prefixed(name: str, state: State) -> State:
    """A state as a part of a larger one."""
    return {f"{name}.{key}": value for key, value in state.items()}


def part(state: State, name: str) -> State:
    """The part of that name."""
    begin = f"{name}."
    return {key.removeprefix(begin): value for key, value in state.items() if key.startswith(begin)}


def parts(state: State) -> dict[str, State]:
    """All parts, by name."""
    found: dict[str, State] = {}
    for key, value in state.items():
        name, _, inner = key.partition(".")
        found.setdefault(name, {})[inner] = value
    return found


def attributes(of: Any, names: Iterable[str]) -> State:
    """Attributes that are numbers or arrays."""
    return {name: np.array(getattr(of, name)).reshape(-1) for name in names}


def set_attributes(of: Any, names: Iterable[str], state: State) -> None:
    """The same attributes as they were; arrays have the shape that they have already."""
    for name in names:
        now, given = getattr(of, name), state[name]
        if isinstance(now, np.ndarray):
            if given.dtype != now.dtype or given.size != now.size:
                raise ValueError(f"{name!r} must be {now.size} values of {now.dtype}")
            setattr(of, name, given.reshape(now.shape).copy())
        else:
            setattr(of, name, number(state, name))


def check_counts(of: Any, names: Iterable[str]) -> None:
    """Refuse counts that nobody can have counted: what goes on from them would not end, or not end well."""
    for name in names:
        counted = np.asarray(getattr(of, name))
        if not (np.isfinite(counted).all() and (counted >= 0).all()):
            raise ValueError(f"{name!r} must be finite and not negative")


def number(state: State, name: str) -> Any:
    """A bool, int or float."""
    if state[name].size != 1 or state[name].dtype.kind not in "bif":
        raise ValueError(f"{name!r} must be one number")
    return state[name].item()


def index(state: State, name: str, end: int) -> int:
    """An int from 0 to below ``end``."""
    found = number(state, name)
    if type(found) is not int or not 0 <= found < end:
        raise ValueError(f"{name!r} must be a number below {end}")
    return found


def stacked(states: list[State]) -> State:
    """Many states with the same names as one, with few arrays."""
    if not states:
        return {}
    stack: State = {}
    for name in states[0]:
        values = [np.asarray(state[name]).reshape(-1) for state in states]
        stack[name] = np.concatenate(values)
        stack[f"{name}#"] = np.array([len(value) for value in values], dtype=np.int64)
    return stack


def unstacked(stack: State) -> list[State]:
    """The states of a stack."""
    names = [name for name in stack if not name.endswith("#")]
    pieces: dict[str, list[np.ndarray]] = {}
    for name in names:
        sizes = stack[f"{name}#"]
        if sizes.dtype.kind != "i" or np.any(sizes < 0) or sizes.sum() != len(stack[name]):
            raise ValueError(f"{name!r} is not of the sizes that it should have")
        pieces[name] = np.split(stack[name], np.cumsum(sizes)[:-1]) if len(sizes) else []
    if len({len(piece) for piece in pieces.values()}) > 1:
        raise ValueError("some states have names that others have not")
    return [dict(zip(names, values, strict=True)) for values in zip(*pieces.values(), strict=True)]
