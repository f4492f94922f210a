"""The mutator: it makes the mutants that it says, each differs in one place, and what cannot matter is left alone."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from mutants import SPEED_ONLY, all_python_mutants, cpp_mutants, is_python, python_mutants
from mutation import LAYERS

MODULE = b'''"""About 1 < 2."""
__all__ = ["f"]
_CHUNK = 7


def f(x: int | None = 3, *, flag=True) -> "int | None":
    """Not 5."""
    if not x or x < 2:
        raise ValueError(f"{x + 1}", 4)
    while flag:
        x += 1
        break
    step = x // _CHUNK
    return x - step
'''


def changes(mutants):
    return [(mutant.line, mutant.before, mutant.after) for mutant in mutants]


def test_python_mutants_of_a_module():
    assert "_CHUNK" in SPEED_ONLY
    assert changes(python_mutants("f.py", MODULE)) == [
        (6, "3", "2"),
        (6, "3", "4"),
        (6, "True", "False"),
        (8, "not ", ""),
        (8, "or", "and"),
        (8, "<", "<="),
        (8, "2", "1"),
        (8, "2", "3"),
        (9, 'raise ValueError(f"{x + 1}", 4)', "pass"),
        (10, "flag", "(not (flag))"),
        (11, "x += 1", "pass"),
        (11, "+=", "-="),
        (11, "1", "0"),
        (11, "1", "2"),
        (12, "break", "pass"),
        (14, "x - step", "None"),
        (14, "-", "+"),
    ]


def test_cpp_mutants_of_a_header():
    source = b"""// 1 < 2
#include "vec2.hpp"
template <bool Squared> double f(double *s) {
  const double a = Squared ? -s[0] : 0.5; // + 1
  if (a <= 1e-3 && load<Double4>(s) == a) break;
  store(s, larger(a, 2 * s[1]));
}
"""
    assert changes(cpp_mutants("f.hpp", source)) == [
        (4, "Squared", "(!Squared)"),
        (4, "-", ""),
        (4, "0", "(-1)"),
        (4, "0", "1"),
        (4, "0.5", "1.5"),
        (5, "<=", "<"),
        (5, "1e-3", "1.001"),
        (5, "&&", "||"),
        (5, "==", "!="),
        (6, "store(s, larger(a, 2 * s[1]));", ";"),
        (6, "larger", "smaller"),
        (6, "2", "1"),
        (6, "2", "3"),
        (6, "*", "/"),
        (6, "1", "0"),
        (6, "1", "2"),
    ]


@pytest.mark.parametrize("make, source", [(python_mutants, MODULE), (cpp_mutants, b"a = b < 1 ? b + 2 : -b;\n")])
def test_a_mutant_is_one_change(make, source):
    mutants = make("a file", source)
    assert len({mutant.name for mutant in mutants}) == len(mutants) > 3
    for mutant in mutants:
        changed = mutant.apply(source)
        assert changed != source
        assert changed.count(b"\n") == source.count(b"\n")
        assert changed[: mutant.start] == source[: mutant.start]
        assert changed[mutant.start + len(mutant.after) :] == source[mutant.stop :]
        assert make is not python_mutants or is_python(changed)


def test_the_same_change_twice_has_two_names():
    names = [mutant.name for mutant in cpp_mutants("f.hpp", b"x = a + b;\nx = a + b;\n") if mutant.before == "+"]
    assert names == ["f.hpp | x = a + b; | + -> -", "f.hpp | x = a + b; | + -> - | 2"]


def test_what_is_called_equivalent_is_a_mutant_of_today():
    """A line that has moved or changed is read again, or its entry is of no use."""
    root = Path(__file__).resolve().parents[2]
    listed = (root / "benchmarks" / "mutation_equivalent.txt").read_text().splitlines()
    names = {line for line in listed if line and not line.startswith("#")}
    steps = [name for name in names if name.split(" | ")[0].endswith(".hpp")]
    mutants = {mutant.name for mutant in all_python_mutants(root / "src" / "multimargin", LAYERS)}
    for name in steps:
        path = root / "src" / "core" / name.split(" | ")[0]
        mutants |= {mutant.name for mutant in cpp_mutants(path.name, path.read_bytes())}
    assert names and names <= mutants, sorted(names - mutants)
