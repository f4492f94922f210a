"""Ours and the peers train to the same objective and are timed, whatever the model. README.md says how and why."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from report import machine, progress, shown
from worker import Worker

OUR_TOL = 1e-3  # and by how much more than P* a primal may be, relative, unless a contest says otherwise
TIGHT_TOL = 1e-5  # of the run that finds P*
UNLIMITED = 1_000_000  # iterations: the tolerance alone ends a run

# Settings from the loosest on; the first one that reaches the target, or one just before it, is the peer's best.
TOLERANCES = (10, 3, 1, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 5e-3, 3e-3, 2e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)
EPOCHS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 5000)


@dataclass(frozen=True)
class Peer:
    """A peer, the problems that it solves, and the one setting that says how well."""

    name: str
    family: str
    package: str
    train: Callable[..., Any]
    formulation: str
    losses: tuple[str, ...] = ("hinge",)
    setting: str = "tol"
    ladder: tuple[float, ...] = TOLERANCES
    version_of: Callable[[str], str] = importlib.metadata.version

    @property
    def version(self) -> str | None:
        """None where it is not installed."""
        try:
            return self.version_of(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None

    def solves(self, problem: Any) -> bool:
        return problem.formulation == self.formulation and problem.loss in self.losses

    def between(self, loose: float, tight: float) -> list[float]:
        """Two settings more between neighbours of the ladder, evenly spaced in the logarithm."""
        middle = [loose * (tight / loose) ** share for share in (1 / 3, 2 / 3)]
        rounded = [round(value) if self.ladder is EPOCHS else float(f"{value:.2g}") for value in middle]
        return [value for value in dict.fromkeys(rounded) if value not in (loose, tight)]


class Cache:
    """A JSON file: for each problem the best primal and dual values known, and what each peer's settings gave."""

    def __init__(self, file: Path):
        self.file = file
        self.content: dict[str, Any] = {"machine": machine(), "problems": {}}
        if file.exists():
            stored = json.loads(file.read_text())
            if stored["machine"] == machine():
                self.content = stored
            else:
                progress(f"{file} is of another machine ({stored['machine']}): starting anew")

    def entry(self, key: str) -> dict[str, Any]:
        return self.content["problems"].setdefault(key, {"peers": {}})

    def save(self) -> None:
        unfinished = self.file.with_suffix(".part")
        unfinished.write_text(json.dumps(self.content, indent=1))
        unfinished.replace(self.file)


class Duel(NamedTuple):
    """Ours against one peer; cells of a table."""

    peer: str
    setting: str
    seconds: float | str
    ratio: float | str
    at_least: float  # the ratio as a number, 0 where there is none
    notes: list[str]


class Outcome(NamedTuple):
    """What one problem gave."""

    optimum: str  # P*
    optimum_gap: str  # how far it can be from the true one
    ours: dict[str, Any]  # the fastest run
    memory: float  # MB
    flaws: list[str]
    duels: list[Duel]


def reached(record: dict, entry: dict, within: float) -> bool:
    return record.get("primal", np.inf) <= (1 + within) * entry["primal"]


def percent(primal: float, best: float) -> str:
    return f"{100 * (primal / best - 1):.2g} % above P*"


@dataclass(frozen=True)
class Contest:
    """How to run both sides: functions that a `Worker` can call on its data.

    ``run_ours(data, problem, threads, **parameters)`` gives seconds, primal, claimed_primal, dual, gap, worst_gap,
    epochs and converged; ``run_peer(data, name, problem, setting)`` seconds, primal and exhausted; and
    ``memory_of_ours(data, problem, threads, **parameters)`` megabytes. A run counts when its primal is at most
    ``(1 + within) P*``; ours is told to certify a gap of as much.
    """

    run_ours: Callable[..., dict[str, Any]]
    run_peer: Callable[..., dict[str, Any]]
    memory_of_ours: Callable[..., float]
    peers: dict[str, Peer]
    within: float = OUR_TOL

    def hold(self, worker: Worker, problem: Any, entry: dict, cache: Cache, options: argparse.Namespace) -> Outcome:
        """P*, the peers' best settings, the times in turn, and our memory."""
        self._find_optimum(worker, problem, entry, options.limit)
        cache.save()
        rivals = [peer for peer in self.peers.values() if peer.family in options.peers and peer.solves(problem)]
        present = [peer for peer in rivals if peer.version]
        best = None
        while best != entry["primal"]:  # a peer may have lowered P*, and so the target of the others
            best = entry["primal"]
            chosen = {p: self._best_setting(worker, p, problem, entry, cache, options.limit) for p in present}
        records = {p: entry["peers"][f"{p.name} {p.version}"][str(setting)] for p, setting in chosen.items()}
        timed = [] if options.peers_from_cache else [p for p in present if reached(records[p], entry, self.within)]

        ours, seconds = [], {peer: [] for peer in timed}
        for _ in range(options.repeats):
            ours.append(worker.call(self.run_ours, problem, options.threads, tol=self.within, time_limit=options.limit))
            for peer in timed:
                try:
                    run = worker.call(self.run_peer, peer.name, problem, chosen[peer], limit=options.limit)
                    seconds[peer].append(run["seconds"])
                except TimeoutError:
                    progress(f"{peer.name}: more than {options.limit:g} s this time")
        for peer in timed:
            if seconds[peer]:
                records[peer]["timed"] = min(seconds[peer])
        cache.save()
        with Worker(*worker.source, threads=options.threads) as fresh:
            memory = fresh.call(
                self.memory_of_ours, problem, options.threads, tol=self.within, time_limit=options.limit
            )

        run = min(ours, key=lambda run: run["seconds"])
        entry["primal"] = min(entry["primal"], run["primal"])
        gap_of_best = max(0.0, entry["primal"] - entry["dual"]) / entry["primal"]
        duels = []
        for peer in rivals:
            if peer not in present:
                duels.append(Duel(peer.name, "", "", "", 0.0, ["not installed"]))
                continue
            result = duel(peer, chosen[peer], records[peer], entry, run["seconds"], self.within)
            if peer not in timed and reached(records[peer], entry, self.within):
                result.notes.append("peer from cache")
            duels.append(result)
        return Outcome(
            f"{entry['primal']:.8g}", f"{gap_of_best:.1e}", run, memory, flaws(run, entry, self.within), duels
        )

    def _find_optimum(self, worker: Worker, problem: Any, entry: dict, limit: float) -> None:
        """A tight run of ours: ``entry`` gets an upper and a lower bound of the optimum."""
        if entry.get("converged") or entry.get("limit", 0) >= limit:
            return
        run = worker.call(self.run_ours, problem, tol=TIGHT_TOL, max_iter=UNLIMITED, time_limit=limit)
        progress(f"P* = {run['primal']:.8g}, gap {run['gap']:.1e}, {run['epochs']} epochs, {run['seconds']:.2f} s")
        entry["primal"] = min(run["primal"], entry.get("primal", np.inf))
        entry["dual"] = max(run["dual"], entry.get("dual", -np.inf))
        entry["converged"], entry["limit"] = run["converged"], limit

    def _best_setting(self, worker: Worker, peer: Peer, problem: Any, entry: dict, cache: Cache, limit: float) -> float:
        """The loosest setting that reaches the target; else the first that takes too long; else the nearest.

        Every record, {seconds, primal, exhausted} or {at_least: seconds}, stays in the cache.
        """
        records = entry["peers"].setdefault(f"{peer.name} {peer.version}", {})

        def record_of(setting: float) -> dict:
            record = records.get(str(setting))
            if record is None or record.get("at_least", np.inf) < limit:
                try:
                    record = worker.call(self.run_peer, peer.name, problem, setting, limit=limit)
                    entry["primal"] = min(entry["primal"], record["primal"])
                    result = f"{percent(record['primal'], entry['primal'])}, {record['seconds']:.2f} s"
                except TimeoutError:
                    record = {"at_least": limit}
                    result = f"more than {limit:g} s"
                records[str(setting)] = record
                cache.save()
                progress(f"{peer.name} {peer.setting} {setting:g}: {result}")
            return record

        missed: dict[float, dict] = {}
        for setting in peer.ladder:
            record = record_of(setting)
            if reached(record, entry, self.within):
                finer = peer.between(list(missed)[-1], setting) if missed else []
                return next((s for s in finer if reached(record_of(s), entry, self.within)), setting)
            if "at_least" in record:
                return setting
            before = list(missed.values())[-1] if missed else None
            missed[setting] = record
            if before and before["exhausted"] and np.isclose(record["primal"], before["primal"], rtol=1e-4, atol=0):
                break  # at its own iteration limit, where a tighter tolerance changes nothing
        return min(missed, key=lambda setting: missed[setting]["primal"])


def duel(peer: Peer, setting: float, record: dict, entry: dict, ours: float, within: float) -> Duel:
    """The cells of a peer that is there."""
    name = f"{peer.setting} {setting:g}"
    if "at_least" in record:
        ratio = record["at_least"] / ours
        return Duel(peer.name, name, f">= {record['at_least']:g}", f">= {shown(ratio)}", ratio, [])
    if not reached(record, entry, within):
        note = f"peer ends {percent(record['primal'], entry['primal'])}"
        return Duel(peer.name, name, record["seconds"], "", 0.0, [note])
    seconds = record.get("timed", record["seconds"])
    return Duel(peer.name, name, seconds, seconds / ours, seconds / ours, [])


def flaws(run: dict, entry: dict, within: float) -> list[str]:
    """What is wrong with a run of ours; nothing, one hopes."""
    found = []
    if not run["converged"]:
        found.append("OURS DID NOT CONVERGE")
    if max(run["gap"], run["worst_gap"]) > within:
        found.append(f"OUR GAP IS ABOVE {within:g}")
    if not reached(run, entry, within):
        found.append(f"OURS IS {percent(run['primal'], entry['primal']).upper()}")
    if not np.isclose(run["primal"], run["claimed_primal"], rtol=1e-6):
        found.append(f"OURS CLAIMS PRIMAL {run['claimed_primal']:.8g}, IT IS {run['primal']:.8g}")
    if entry["primal"] < entry["dual"] * (1 - 1e-9) or run["dual"] > entry["primal"] * (1 + 1e-9):
        found.append("A DUAL VALUE OF OURS IS ABOVE P*")
    return found
