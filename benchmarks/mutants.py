"""Small mistakes made on purpose: every mutant is a text that differs from the source in one place.

Python (by the syntax tree) and C++ (by its tokens, as clang-format spaces them):

    comparison     < <= > >= == !=, is, in: the boundary moved, or the contrary
    arithmetic     + - * / // % ** & | << >>, also in +=; a minus left out
    number         n + 1 and n - 1; x + 1 for decimals
    logic          and, or; not left out; True, False; a condition without operators turned round
    statement      a call, a change of an attribute or element, raise, assert, break or continue left out
    return         None in the place of what is returned                             (Python)
    extremes       larger and smaller, horizontal_max and horizontal_min exchanged   (C++)

Left out by rule, because no test should care:

    type hints, docstrings, overloads and ``if TYPE_CHECKING``     nothing runs
    ``__all__`` and ``__slots__``                                  names
    what is inside ``raise ...(...)`` or a warning                 words of a message; leaving out the whole is a mutant
    f-strings                                                      words, too
    constants of SPEED_ONLY, and expressions with one of them      slices, chunks, the faster way: the same result
    constants and keywords of LOOKS                                widths of lines and sizes of letters in pictures
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
# How much is done at a time, how often something is looked at, and where one way becomes faster than another.
_SPEED_ONLY = (
    "BUDGET PART_BYTES SLAB_BYTES _BUDGET _CERTIFY_EVERY _CHUNK _CHUNK_SCORES _COST _COST_OF_A_NUMBER "
    "_CURVATURE_SHARE _DUAL_BYTES _EFFORT _EXAMPLES_OF_BATCH _EXAMPLES_OF_SMALL _EXPECTED_LANES _FEW_NONZEROS "
    "_FIRST_ROUNDS _IDLE _INNER_STEPS _KAPPA _LARGE _LARGE_WEIGHTS _LEAST_RATIO _LEAST_SECONDS _LEVEL _LINES "
    "_LITTLE_WORK _MANY_ZEROS _MOST_ROUNDS _NEWTON_FEATURES _NEWTON_SIZE _NEWTON_SIZE_OF_MANY _NEWTON_WORK "
    "_NONZEROS_PER_WEIGHT _OF_LOSS _PATIENCE _PLAIN_EVERY _PROMISING _REFRESH _REST_SHARE _ROUNDS_TO_HALVE "
    "_ROWS_OF_A_CALL _SHARE _SHORT_WORK _SHRUNK_EFFORT _SHRUNK_EFFORT_ACCELERATED _SLAB _SLAB_BYTES _SLAB_ROWS "
    "_SPARSE_COEF _SPARSE_COST _STRENGTH _TABLE_ROWS _TAU_FALLS_BY _TAU_RISES_BY _TIGHTER _TOLERANCE_OF_LANES "
    "_TWO_MODELS _VALUES_AT_ONCE _VARIANCE_BYTES _WRITTEN_ENTRIES "
)
SPEED_ONLY = frozenset(_SPEED_ONLY.split())
# How pictures look: names of constants and of keywords.
_LOOKS = (
    "_DOTS _INCHES _INCHES_OF_PAIR _MOST_POINTS _STYLE alpha figsize fontsize framealpha labelpad length "
    "linewidth markersize nbins pad padding zorder "
)
LOOKS = frozenset(_LOOKS.split())


@dataclass(frozen=True, order=True)
class Mutant:
    """One change: ``after`` in the place of the bytes from ``start`` to ``stop`` of the file at ``path``."""

    path: str
    start: int
    stop: int
    after: str
    operator: str
    line: int
    before: str
    code: str  # the line as it is, without its indentation: what the mutant is known by when lines have moved
    which: int = 1  # of those that are alike in all this

    @property
    def name(self) -> str:
        again = f" | {self.which}" if self.which > 1 else ""
        return f"{self.path} | {self.code} | {' '.join(self.before.split())} -> {self.after.strip()}{again}".rstrip()

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.stop :]


def told_apart(mutants: Iterable[Mutant]) -> list[Mutant]:
    """The mutants of a file in the order of their places, each with a name of its own."""
    seen: Counter[str] = Counter()
    found = []
    for mutant in sorted(set(mutants)):
        seen[mutant.name] += 1
        found.append(replace(mutant, which=seen[mutant.name]))
    return found


class PythonMutants(ast.NodeVisitor):
    """Collects the mutants of one module."""

    def __init__(self, path: str, source: bytes):
        self.path, self.source = path, source
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.found: list[Mutant] = []
        self.visit(ast.parse(source))

    # Places

    def start(self, node: ast.AST) -> int:
        return self.lines[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]

    def stop(self, node: ast.AST) -> int:
        return self.lines[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def add(self, operator: str, start: int, stop: int, after: str) -> None:
        line = self.source.count(b"\n", 0, start) + 1
        code = self.source[self.lines[line - 1] : self.lines[line]].decode().strip()
        before = self.source[start:stop].decode()
        # Lines stay where they are: what is left out leaves its line ends behind.
        self.found.append(Mutant(self.path, start, stop, after, operator, line, before, code))

    def between(self, operator: str, left: ast.AST, right: ast.AST, before: str, after: str) -> None:
        start, stop = self.stop(left), self.start(right)
        pattern = re.escape(before).replace(r"\ ", r"\s+")
        if before[0].isalpha():
            pattern = rf"\b{pattern}\b"
        match = re.search(pattern.encode(), self.source[start:stop])
        if match:
            self.add(operator, start + match.start(), start + match.end(), after)

    def leave_out(self, node: ast.AST) -> None:
        start, stop = self.start(node), self.stop(node)
        self.add("statement", start, stop, "pass" + "\n" * self.source.count(b"\n", start, stop))

    def turn_round(self, node: ast.expr) -> None:
        if not isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant | ast.NamedExpr):
            text = self.source[self.start(node) : self.stop(node)].decode()
            self.add("logic", self.start(node), self.stop(node), f"(not ({text}))")

    # Expressions

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Compare | ast.BinOp | ast.Assign) and any(
            isinstance(part, ast.Name) and part.id in SPEED_ONLY | LOOKS for part in ast.walk(node)
        ):
            return
        super().visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in LOOKS:
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            self.between("comparison", left, right, *COMPARISONS[type(op)])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in ARITHMETIC:
            self.between("arithmetic", node.left, node.right, *ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between("logic", left, right, *words)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub):
            word, operator = (b"not ", "logic") if isinstance(node.op, ast.Not) else (b"-", "arithmetic")
            if self.source[self.start(node) :].startswith(word):
                self.add(operator, self.start(node), self.start(node) + len(word), "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        start, stop = self.start(node), self.stop(node)
        if isinstance(value, bool):
            self.add("logic", start, stop, str(not value))
        elif isinstance(value, int):
            self.add("number", start, stop, str(value + 1))
            self.add("number", start, stop, str(value - 1) if value else "-1")
        elif isinstance(value, float):
            self.add("number", start, stop, repr(value + 1))

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.turn_round(node.test)
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_Call(self, node: ast.Call) -> None:
        if ast.unparse(node.func).endswith(("warn", "warn_explicit")):
            return
        self.generic_visit(node)

    # Statements

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            return
        self.turn_round(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self.turn_round(node.test)
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.leave_out(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        self.leave_out(node)
        self.generic_visit(node)

    def visit_Break(self, node: ast.Break) -> None:
        self.leave_out(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self.leave_out(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring, or "..."
        if isinstance(node.value, ast.Call):
            self.leave_out(node)
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            start, stop = self.start(node.value), self.stop(node.value)
            if self.source[start - 1 : start] != b"(":
                self.add("return", start, stop, "None")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        if names & {"__all__", "__slots__"}:
            return
        if not names and not any(isinstance(target, ast.Tuple) for target in node.targets):
            self.leave_out(node)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in ARITHMETIC:
            before, after = ARITHMETIC[type(node.op)]
            self.between("arithmetic", node.target, node.value, before + "=", after + "=")
        self.leave_out(node)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and not (isinstance(node.target, ast.Name) and node.target.id in LOOKS):
            self.visit(node.value)

    def visit_arg(self, node: ast.arg) -> None:
        pass  # its annotation

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if any(ast.unparse(decorator).endswith("overload") for decorator in node.decorator_list):
            return
        for part in (*node.decorator_list, node.args, *node.body):
            self.visit(part)


def python_mutants(path: str, source: bytes) -> list[Mutant]:
    """All mutants of a module, in the order of their places. A few are no Python any more: see ``is_python``."""
    return told_apart(PythonMutants(path, source).found)


def is_python(source: bytes) -> bool:
    try:
        compile(source, "a mutant", "exec")
    except SyntaxError:
        return False
    return True


CPP = [
    ("comparison", r" (<=|>=|==|!=|<|>) ", {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}),
    ("arithmetic", r" ([-+*/]=?) ", {"+": "-", "-": "+", "*": "/", "/": "*", "+=": "-=", "-=": "+="}),
    ("arithmetic", r"(?<=[(\[,=?:{] )(-)(?=[\w(])", {"-": ""}),
    ("arithmetic", r"(?<=[(\[{])(-)(?=[\w(])", {"-": ""}),
    ("logic", r" (&&|\|\|) ", {"&&": "||", "||": "&&"}),
    ("logic", r"\b(true|false)\b", {"true": "false", "false": "true"}),
    ("logic", r"(!)(?=[(\w])", {"!": ""}),
    ("logic", r"(?<=[( ])(Squared)(?= \?|\)| \|\|)", {"Squared": "(!Squared)"}),
    ("extremes", r"\b(larger|smaller)(?=\()", {"larger": "smaller", "smaller": "larger"}),
    (
        "extremes",
        r"\b(horizontal_max|horizontal_min)(?=\()",
        {"horizontal_max": "horizontal_min", "horizontal_min": "horizontal_max"},
    ),
]
CPP_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?![\w.])")
CPP_STATEMENT = re.compile(r"^ *((?:store\(.*\)|[\w\]\[.+]+ [-+]?= [^;]*|break|[\w.:]+\([^;{]*\));)", re.MULTILINE)


def cpp_mutants(path: str, source: bytes) -> list[Mutant]:
    """All mutants of a header, of which some do not compile; comments, directives and templates are left alone."""
    text = source.decode()
    assert text.isascii()
    blank = re.compile(r"//[^\n]*|^#[^\n]*|template <[^>]*>|static constexpr[^\n]*|[A-Za-z_]\w*<[\w:]+>", re.MULTILINE)
    masked = blank.sub(lambda match: "~" * len(match.group()), text)
    masked = re.sub(
        r"~+", lambda match: "z" * len(match.group()), masked
    )  # a word: what stands beside it is kept apart

    def changes() -> Iterator[tuple[str, int, int, str]]:
        for operator, pattern, after in CPP:
            for match in re.finditer(pattern, masked):
                if match[1] in after:
                    yield operator, match.start(1), match.end(1), after[match[1]]
        for match in CPP_NUMBER.finditer(masked):
            number = match[1]
            if number.isdigit():
                yield "number", match.start(1), match.end(1), str(int(number) + 1)
                yield "number", match.start(1), match.end(1), str(int(number) - 1) if int(number) else "(-1)"
            else:
                yield "number", match.start(1), match.end(1), repr(float(number) + 1)
        for match in CPP_STATEMENT.finditer(masked):
            yield "statement", match.start(1), match.end(1), ";"

    found = []
    for operator, start, stop, after in changes():
        line = text.count("\n", 0, start)
        code = text.splitlines()[line].strip()
        found.append(Mutant(path, start, stop, after, operator, line + 1, text[start:stop], code))
    return told_apart(found)


def all_python_mutants(package: Path, folders: Iterable[str]) -> list[Mutant]:
    files = sorted(file for folder in folders for file in (package / folder).glob("**/*.py"))
    return [m for file in files for m in python_mutants(file.relative_to(package).as_posix(), file.read_bytes())]
