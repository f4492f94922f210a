"""Mutants of the core's steps: all of a sample compiled into one library, which the environment chooses from.

To compile the hot loops takes a minute or more, so not every mutant gets a library. In a copy of the sources a policy,
say CrammerSinger, becomes a table: the policy as it is, each mutant in a namespace of its own, and one of the old name
whose functions ask MULTIMARGIN_MUTANT which of them to call. The others are compiled as ever, without optimisation.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutants import Mutant, cpp_mutants

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "src" / "core"
ARGUMENTS = {
    "losses": ("static Double4", "double *s, const Example &e, Double4 scales"),
    "loss": ("static void", "const double *s, const Example &e, double scale, double *parts"),
    "dual": ("static void", "const double *a, const Example &e, double *parts"),
    "solve": ("static Solved", "double *s, const double *a, double *next, const Example &e, double threshold"),
    "margins": ("static void", "double *s, const Example &e"),
    "range": ("static typename Unchanged::Range", "const double *g, const double *a, const Example &e"),
    "lane_loss": ("template <class T> static T", "T zs, double cap"),
    "implied_dual": ("template <class T> static T", "T residual, double cap"),
}


@dataclass(frozen=True)
class Policy:
    header: str
    name: str
    functions: tuple[str, ...]
    tests: str  # what its tests are called

    def body(self, text: str) -> str:
        begin = text.index(f"template <bool Squared> struct {self.name}")
        return text[begin : text.index("\n};", begin) + 3]


POLICIES = (
    Policy(
        "subproblem_crammer_singer.hpp",
        "CrammerSinger",
        ("losses", "dual", "solve", "margins", "range"),
        "crammer_singer",
    ),
    Policy("subproblem_weston_watkins.hpp", "WestonWatkins", ("losses", "dual", "solve"), "weston_watkins"),
    Policy(
        "binary.hpp", "OneVsRest", ("loss", "dual", "solve", "lane_loss", "implied_dual"), "(one_vs_rest or one_lane)"
    ),
)
CHOICE = """
#ifndef MM_MUTANT
#define MM_MUTANT
#include <cstdlib>
namespace mm {
inline const int chosen = std::getenv("MULTIMARGIN_MUTANT") ? std::atoi(std::getenv("MULTIMARGIN_MUTANT")) : 0;
}
#endif
"""


def dispatcher(policy: Policy, numbers: list[int]) -> str:
    """The policy of the old name: every function asks which mutant it is to be."""
    lines = [
        f"template <bool Squared> struct {policy.name} : unchanged::{policy.name}<Squared> {{",
        f"  using Unchanged = unchanged::{policy.name}<Squared>;",
    ]
    for function in policy.functions:
        result, arguments = ARGUMENTS[function]
        names = ", ".join(re.findall(r"(\w+)(?:,|$)", arguments))
        needs = "requires Squared " if function == "implied_dual" else ""
        lines += [f"  {result} {function}({arguments}) {needs}{{", "    switch (chosen) {"]
        for number in numbers:
            call = f"m{number}::{policy.name}<Squared>::{function}({names})"
            if function == "range":
                call = f"of_range<typename Unchanged::Range>({call})"
            lines.append(f"    case {number}: return {call};")
        lines += [f"    default: return Unchanged::{function}({names});", "    }", "  }"]
    return "\n".join([*lines, "};"])


def schema(policy: Policy, source: str, mutants: dict[int, Mutant]) -> str:
    """The header with the mutants beside the policy; ``#line`` numbers them, so that errors of the compiler do."""
    body = policy.body(source)
    begin = source.index(body)
    parts = [source[: source.index("namespace mm::MM_ISA")], CHOICE, "namespace mm::MM_ISA {"]
    if policy.name == "CrammerSinger":
        parts.append("template <class To, class From> To of_range(From r) { return {r.top, r.low}; }")
    parts.append(f"namespace unchanged {{\n{body}\n}}")
    for number, mutant in mutants.items():
        changed = mutant.apply(source.encode()).decode()
        end = begin + len(body) + len(changed) - len(source)
        parts.append(f'namespace m{number} {{\n#line 1 "mutant{number}"\n{changed[begin:end]}\n}}')
    parts.append(f'#line 1 "dispatcher"\n{dispatcher(policy, list(mutants))}\n}} // namespace mm::MM_ISA\n')
    return "\n".join(parts)


def that_compile(policy: Policy, source: str, mutants: dict[int, Mutant], folder: Path) -> dict[int, Mutant]:
    """Those of the mutants that a compiler takes: all are asked at once, and the errors name them."""
    folder.mkdir(exist_ok=True)
    (folder / policy.header).write_text(schema(policy, source, mutants))
    lines = [f'#include "{policy.header}"', "namespace mm::MM_ISA {"]
    lines += [f"template struct m{n}::{policy.name}<{squared}>;" for n in mutants for squared in ("true", "false")]
    (folder / "try.cpp").write_text("\n".join([*lines, "}"]))
    command = [
        "g++",
        "-std=gnu++20",
        "-fsyntax-only",
        "-DMM_ISA=baseline",
        "-Wno-psabi",
        "-fmax-errors=0",
        f"-I{CORE}",
        "try.cpp",
    ]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True).stderr
    bad = {int(number) for number in re.findall(r"^mutant(\d+):\d+:\d+: error", said, re.MULTILINE)}
    return {number: mutant for number, mutant in mutants.items() if number not in bad}


def all_step_mutants() -> list[tuple[Policy, Mutant]]:
    found = []
    for policy in POLICIES:
        source = (CORE / policy.header).read_bytes()
        body = policy.body(source.decode())
        begin = source.decode().index(body)
        inside = (m for m in cpp_mutants(policy.header, source) if begin <= m.start and m.stop <= begin + len(body))
        found += [(policy, mutant) for mutant in inside]
    return found


def build(work: Path, sample: dict[int, tuple[Policy, Mutant]]) -> dict[int, tuple[Policy, Mutant]]:
    """A library with the sample in it, of which those that do not compile are left out."""
    tree, core = work / "steps-tree", work / "steps-tree" / "src" / "core"
    core.mkdir(parents=True, exist_ok=True)
    texts = {f"src/core/{file.name}": file.read_text() for file in CORE.iterdir()}
    kept: dict[int, tuple[Policy, Mutant]] = {}
    for policy in POLICIES:
        source = (CORE / policy.header).read_text()
        mutants = {number: mutant for number, (of, mutant) in sample.items() if of == policy}
        compiled = that_compile(policy, source, mutants, work / "steps-try")
        texts[f"src/core/{policy.header}"] = schema(policy, source, compiled)
        kept |= {number: (policy, mutant) for number, mutant in compiled.items()}
    rules = (ROOT / "CMakeLists.txt").read_text()
    rules = rules.replace("set(optimisation -O3)", "set(optimisation -O1)")
    rules = rules.replace(
        "target_compile_options(_core PRIVATE ${optimisation}", "target_compile_options(_core PRIVATE -O0"
    )
    texts["CMakeLists.txt"] = re.sub(r"if\(CMAKE_SYSTEM_PROCESSOR[^\n]*", "if(FALSE)", rules)
    for name, text in texts.items():  # those that are the same keep their time, and are not compiled again
        if not (tree / name).exists() or (tree / name).read_text() != text:
            (tree / name).write_text(text)
    folder = tree / "build"
    if not (folder / "build.ninja").exists():
        nanobind = subprocess.check_output([sys.executable, "-m", "nanobind", "--cmake_dir"], text=True).strip()
        options = ["-DCMAKE_BUILD_TYPE=None", f"-DPython_EXECUTABLE={sys.executable}", f"-Dnanobind_DIR={nanobind}"]
        subprocess.run(
            ["cmake", "-G", "Ninja", "-S", tree, "-B", folder, *options], check=True, stdout=subprocess.DEVNULL
        )
    subprocess.run(["ninja", "-C", folder, "-j1", "--quiet", "_core"], check=True)
    return dict(sorted(kept.items()))


# Quick and likely ones first; then the seconds of processor time that they may take, four times what they do.
QUICK = ("tests/core/test_steps.py", "(tied or one_lane or nothing_is_violated)", 20)
SUMS = ("tests/core/test_block.py", "(evaluate or propose_leaves or between_its_bounds)", 20)
STAGES = (
    QUICK,
    SUMS,
    ("tests/core/test_steps.py", "(minimiser or first_visit or restricted)", 120),
    ("tests/core/test_block.py", "", 240),
)


def stages(policy: Policy, mutant: Mutant) -> list[tuple[str, str, float]]:
    """The tests that are run one after the other; of losses and dual terms those of their sums first."""
    source = (CORE / policy.header).read_bytes()[: mutant.start].decode()
    function = re.findall(r"static [\w<>]+ (\w+)\(", source)[-1]
    if function == "implied_dual":  # of the primal methods
        return [("tests/linear/test_primal.py", "", 240)]
    ordered = (SUMS, *(stage for stage in STAGES if stage != SUMS))
    return list(ordered if re.search("loss|dual", function) else STAGES)


def run_steps(args: argparse.Namespace, results: Any, skipped: set[str]) -> None:
    from mutation import draw, make_copy
    from mutation_runs import in_child, prepare, run_tests

    every = dict(enumerate(all_step_mutants(), 1))
    numbers = {mutant: number for number, (_, mutant) in every.items()}
    # Some do not compile: more are drawn than asked for.
    drawn = draw(list(numbers), args.count + args.count // 4, args.seed, lambda _: True)
    kept = build(args.work, {numbers[mutant]: every[numbers[mutant]] for mutant in drawn})
    sample = [mutant for mutant in drawn if numbers[mutant] in kept][: args.count]
    print(f"{len(every)} mutants, a sample of {len(sample)}", flush=True)
    copy = make_copy(args.work, "steps-copy")
    (library,) = (args.work / "steps-tree" / "build").glob("_core*.so")
    shutil.copy(library, copy / "multimargin")
    prepare(copy, ROOT)
    known = {(r["name"], r["seed"]) for r in results.found}
    log = args.work / "steps.log"
    for mutant in sample:
        if (mutant.name, args.seed) in known:
            continue
        if mutant.name in skipped:
            results.add(name=mutant.name, layer=mutant.path, seed=args.seed, line=mutant.line, killed=False)
            continue
        number = numbers[mutant]
        os.environ["MULTIMARGIN_MUTANT"] = str(number)
        policy = every[number][0]
        for file, which, seconds in stages(policy, mutant)[: None if args.more else 3]:
            words = f"{policy.tests} and {which}" if which else policy.tests
            outcome = in_child(lambda: run_tests(["-x", file, "-k", words]), seconds, log)  # noqa: B023
            if outcome not in ("0", "5"):
                break
        killed = outcome not in ("0", "5")
        failed = (
            re.search(r"^(?:FAILED|ERROR) (\S+)", log.read_text(errors="replace"), re.MULTILINE) if killed else None
        )
        results.add(
            name=mutant.name, layer=mutant.path, seed=args.seed, line=mutant.line, operator=mutant.operator,
            killed=killed, outcome=outcome, by=failed[1] if failed else "",
        )  # fmt: skip
        print("killed  " if killed else "SURVIVED", f"{outcome:4s} {mutant.line}:", mutant.name, flush=True)
