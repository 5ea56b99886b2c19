"""`make peers`: mnemesh beside libraries that other people wrote. The same iterates on the same problems, and how many rounds a second.

python benchmarks/peers/compare.py [--json FILE] [--only tvopt|river] [--repeats N] [--python PYTHON]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from ours import Case
from turns import Peer, PeerError, timed

import mnemesh as mm

HERE = Path(__file__).parent
PYTHON = HERE.parents[1] / ".venv-peers" / "bin" / "python"
TOLERANCE = 1e-9
MOST = 400e6  # bytes that tvopt's own costs may take, which hold a square matrix per agent and round
CASES = {
    "tvopt": [(10, 4, 5000, 8.0), (20, 10, 2000, 20.0), (100, 10, 300, 18.0), (20, 64, 200, 34.0)],
    "river": [(10, 4, 5000), (20, 10, 2000), (20, 64, 200)],
}
WAYS = {
    "tvopt": {"own": "tvopt, a cost of one's own", "shipped": "tvopt, its own costs", "together": "tvopt, all agents in one cost"},
    "river": {"rows": "river"},
}
PROGRAMS = {"tvopt": HERE / "tvopt_dpgm.py", "river": HERE / "river_sgd.py"}


def difference(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference of an entry in a round, relative to the largest entry of that round; the worst round."""
    return float((abs(found - wanted).max((1, 2, 3)) / abs(wanted).max((1, 2, 3))).max())


def compare(peer: str, size: tuple[Any, ...], repeats: int, python: Path) -> list[dict[str, Any]]:
    """Everybody on one problem: first whether they agree, then the best of several turns each."""
    case = Case(*size)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        peers, rounds = {}, {}
        for way, name in WAYS[peer].items():
            few = min(case.rounds, int(MOST / (8 * case.agents * case.dim**4))) if way == "shipped" else case.rounds
            if few >= 20:
                started = Peer(python, PROGRAMS[peer], {**case.arrays(few), "way": way}, folder / way)
                peers[name], rounds[name] = stack.enter_context(started), few
        differences, facts = agreement(case, list(peers.values()))
        turns = {name: other.turn for name, other in peers.items()} | {name: partial(timed, play) for name, play in case.ways().items()}
        times = best_of(repeats, turns)
    speeds = {name: rounds.get(name, case.rounds) / seconds for name, seconds in times.items()}
    fastest = max(speeds[name] for name in peers)
    return [
        {"problem": case.name, "contender": name, "rounds/s": speed, "x peer": speed / fastest, "difference": difference, **facts}
        for (name, speed), difference in zip(speeds.items(), differences)
    ]


def agreement(case: Case, peers: list[Peer]) -> tuple[list[float | None], dict[str, Any]]:
    """How far everybody is from the peer's first way, which is None far from itself; and what there is to know about the problem."""
    answer = peers[0].answer()
    wanted, facts = answer["iterates"], {"peer": str(answer["version"])}
    found: list[float | None] = [None]
    for other in peers[1:]:
        iterates = other.answer()["iterates"]
        found.append(difference(iterates, wanted[: len(iterates)]))
    for play in case.ways().values():
        found.append(max(difference(play(True), wanted), difference(play(False), wanted[-1:])))
    if case.radius is not None:
        norms = np.sqrt((wanted**2).sum((2, 3)))
        facts["projected"] = float((norms >= case.radius * (1 - 1e-12)).mean())
        facts["mixing"] = float(abs(answer["mixing"] - case.arrays(1)["weights"]).max())
    return found, facts


def best_of(repeats: int, contenders: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The best seconds of each, taking turns."""
    times = dict.fromkeys(contenders, np.inf)
    for _ in range(repeats):
        for name, turn in contenders.items():
            times[name] = min(times[name], turn())
    return times


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as text."""
    lines = [("problem", "contender", "rounds/s", "x peer's fastest", "largest difference")]
    for row in rows:
        apart = "" if row["difference"] is None else f"{row['difference']:.1e}"
        lines.append((row["problem"], row["contender"], f"{row['rounds/s']:,.0f}", f"{row['x peer']:.3g}", apart))
    widths = [max(map(len, column)) for column in zip(*lines)]
    padded = [[cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths))] for line in lines]
    return "\n".join("  ".join(line).rstrip() for line in padded)


def disagreement(rows: list[dict[str, Any]]) -> str | None:
    """What to say, in a line, if somebody computed something else."""
    wrong = [row for row in rows if row["difference"] is not None and not row["difference"] <= TOLERANCE]
    if not wrong:
        return None
    worst = max(wrong, key=lambda row: np.nan_to_num(row["difference"], nan=np.inf))
    who, much, where = worst["contender"], worst["difference"], worst["problem"]
    return f"{who} differs by {much:.1e} on {where}, more than {TOLERANCE:g}: the speeds above compare nothing."


def main() -> None:
    """Compare, print, write, and fail if somebody disagrees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything to this file as well")
    parser.add_argument("--only", choices=sorted(CASES), help="one peer")
    parser.add_argument("--repeats", type=int, default=5, help="turns each, of which the best counts (5)")
    parser.add_argument("--python", type=Path, default=PYTHON, help="the peers' Python (.venv-peers)")
    asked = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one core for everybody, peers included: one thread each
    rows: list[dict[str, Any]] = []
    try:
        for peer in [asked.only] if asked.only else CASES:
            some = [row for size in CASES[peer] for row in compare(peer, size, asked.repeats, asked.python)]
            print(table(some), end="\n\n", flush=True)
            rows += some
    except PeerError as wrong:
        sys.exit(str(wrong))
    if mixed := {row["problem"]: row for row in rows if "mixing" in row}:
        shares = ", ".join(f"{row['projected']:.0%} of {name}" for name, row in mixed.items())
        mixing = max(row["mixing"] for row in mixed.values())
        print(f"Iterates on the ball's edge: {shares}. tvopt's own Metropolis matrix is ours to {mixing:.1e}.")
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        versions = {"python": platform.python_version(), "numpy": np.__version__, "mnemesh": mm.__version__}
        asked.json.write_text(json.dumps({**versions, "repeats": asked.repeats, "rows": rows}, indent=1))
    if wrong := disagreement(rows):
        sys.exit(wrong)


if __name__ == "__main__":
    main()
