"""A model as a tree of nodes, each with a kind, values (JSON), arrays and children.

Whoever reads a node takes from it what it must have, checked; what is left over at the end is an error, as is what was
missing. So a file cannot say more than its reader asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from multimargin.models.errors import ModelFormatError, refuse
from multimargin.models.values import decode, encode


class Writer:
    """A node that is being filled."""

    def __init__(self, kind: str, arrays: dict[str, np.ndarray], prefix: str = "") -> None:
        self.kind, self._arrays, self._prefix = kind, arrays, prefix
        self._values: dict[str, Any] = {}
        self._children: dict[str, Writer] = {}

    def value(self, name: str, value: Any) -> None:
        """Store what JSON can hold."""
        self._values[name] = encode(value, f"{name} of {self.kind}")

    def array(self, name: str, array: np.ndarray) -> None:
        """Store an array of numbers."""
        self._arrays[self._prefix + name] = array

    def child(self, name: str, kind: str) -> Writer:
        """A new node below this one."""
        child = Writer(kind, self._arrays, f"{self._prefix}{name}.")
        self._children[name] = child
        return child

    def description(self) -> dict[str, Any]:
        """The node and all below it as JSON."""
        found: dict[str, Any] = {"kind": self.kind, "values": self._values}
        if self._children:
            found["nodes"] = {name: child.description() for name, child in self._children.items()}
        return found


class Reader:
    """A node that is being taken apart."""

    def __init__(self, path: Any, description: Any, arrays: dict[str, np.ndarray], prefix: str = "") -> None:
        self.path, self._arrays, self._prefix = path, arrays, prefix
        self._description = description
        where = prefix.rstrip(".") or "the model"
        if not isinstance(description, dict) or not set(description) <= {"kind", "values", "nodes"}:
            raise refuse(path, f"the description of {where} must have kind, values and nodes")
        kind, values = description.get("kind"), description.get("values")
        nodes = description.get("nodes", {})
        if not isinstance(kind, str) or not isinstance(values, dict) or not isinstance(nodes, dict):
            raise refuse(path, f"kind, values and nodes of {where} must be a string and two objects")
        self.kind, self._values, self._nodes = kind, dict(values), dict(nodes)

    def copy(self) -> Reader:
        """The same node, with all that it had, for a reader who may not go through with it."""
        return Reader(self.path, self._description, dict(self._arrays), self._prefix)

    def wrong(self, what: str) -> ModelFormatError:
        """The error for something in this node."""
        where = f" (at {self._prefix.rstrip('.')})" if self._prefix else ""
        return refuse(self.path, f"{self.kind}{where}: {what}", "save the model again")

    def value(self, name: str, *types: type, check: Callable[[Any], bool] | None = None) -> Any:
        """A value of one of the types that passes the check."""
        if name not in self._values:
            raise self.wrong(f"{name} is missing")
        try:
            value = decode(self._values.pop(name))
        except ValueError as error:
            raise self.wrong(f"{name}: {error}") from None
        good = not types or type(value) in types
        if good and check is not None:
            try:
                good = bool(check(value))
            except (TypeError, ValueError):
                good = False
        if not good:
            raise self.wrong(f"{name} cannot be {str(value)[:100]!r}")
        return value

    def number(self, name: str, *, finite: bool = False) -> float:
        """A real number."""
        value = self.value(name, int, float, check=lambda value: not finite or value - value == 0)
        return float(value)

    def size(self, name: str) -> int:
        """An integer that is not negative and not absurd."""
        return self.value(name, int, check=lambda value: 0 <= value < 2**48)

    def has(self, name: str) -> bool:
        """Whether there is a value, an array or a node of that name."""
        return name in self._values or name in self._nodes or self.has_array(name)

    def has_array(self, name: str) -> bool:
        """Whether there is an array of that name."""
        return self._prefix + name in self._arrays

    def array(self, name: str, kinds: str, shape: tuple[int | None, ...], *, finite: bool = True) -> np.ndarray:
        """An array whose dtype is of the kinds and whose shape is as expected, where that is not None."""
        full = self._prefix + name
        if full not in self._arrays:
            raise self.wrong(f"array {name} is missing")
        array = self._arrays.pop(full)
        if array.dtype.kind not in kinds:
            raise self.wrong(f"array {name} cannot be of {array.dtype.name}")
        fits = len(shape) == array.ndim and all(n is None or n == m for n, m in zip(shape, array.shape, strict=True))
        if not fits:
            wanted = " x ".join("any" if n is None else str(n) for n in shape)
            raise self.wrong(f"array {name} has the shape {' x '.join(map(str, array.shape))}, not {wanted}")
        if finite and array.dtype.kind == "f" and not _all_finite(array):
            raise self.wrong(f"array {name} has values that are not finite")
        return array

    def child(self, name: str) -> Reader:
        """A node below this one."""
        if name not in self._nodes:
            raise self.wrong(f"the node {name} is missing")
        return Reader(self.path, self._nodes.pop(name), self._arrays, f"{self._prefix}{name}.")

    def finish(self) -> None:
        """Refuse what nobody has asked for."""
        left = [*self._values, *self._nodes]
        left += [name for name in self._arrays if name.startswith(self._prefix)]
        if left:
            raise self.wrong(f"it should not have {', '.join(map(repr, sorted(left)))}")


def _all_finite(array: np.ndarray) -> bool:
    """Whether all values are finite; a sum is faster, and is finite if they are, unless it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(array.sum(dtype=np.float64))) or bool(np.isfinite(array).all())
