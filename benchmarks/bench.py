"""`make bench`: how fast mnemesh is, beside straightforward NumPy and the bare products of the same work, in one run. Ratios count.

python benchmarks/bench.py [--out FILE.json] [--only small|batch|wide|network|million|start] [--repeats N]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import mnemesh as mm
from rivals import bare_products, literal, straightforward

RADIUS, RATE = 500.0, 0.02
SIZES = {(20, 10): 2500, (20, 64): 800, (200, 32): 60}


def best_of(repeats: int, contenders: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The best time of each, taking turns."""
    times: dict[str, float] = {}
    for _ in range(repeats):
        for name, contender in contenders.items():
            begin = time.perf_counter()
            contender()
            times[name] = min(times.get(name, np.inf), time.perf_counter() - begin)
    return times


def with_threads(count: int, play: Callable[[], Any]) -> Callable[[], Any]:
    """`play` on so many threads of ours."""

    def wrapped() -> Any:
        os.environ["MNEMESH_THREADS"] = str(count)
        try:
            return play()
        finally:
            del os.environ["MNEMESH_THREADS"]

    return wrapped


class Setting:
    """One size of the paper's problem, for everybody alike."""

    def __init__(self, agents: int, dim: int, rounds: int, seed: int = 1) -> None:
        self.agents, self.dim, self.rounds = agents, dim, rounds
        graph = mm.topology.random_geometric(agents, radius=0.35 if agents <= 20 else 0.15, seed=seed)
        self.interest = mm.interest.dirichlet(agents, own=10.0, others=2.0, seed=seed)
        self.trees = mm.routing.shortest_path(graph, self.interest)
        drawn = mm.streams.teacher(agents=agents, key_dim=dim, value_dim=dim, rounds=rounds, correlation=0.75, seed=seed)
        self.stream = mm.streams.from_arrays(drawn.keys.astype(np.float32), drawn.values.astype(np.float32))
        self.problem = mm.Problem("delta", mm.domains.ball(RADIUS), self.interest)
        self.algorithm = mm.algorithms.dam_togd(self.trees, step=mm.steps.inverse_sqrt(RATE))

    def play(self, engine: str, dtype: str = "float32") -> Any:
        return mm.simulate(self.problem, self.algorithm, self.stream, engine=engine, dtype=dtype)

    def numpy(self, dtype: str = "float32") -> Any:
        keys, values = (part.astype(dtype)[None] for part in (self.stream.keys, self.stream.values))
        dense = np.asarray(self.interest).astype(dtype)
        return straightforward(keys, values, dense, self.trees.delay, np.array([RATE]), RADIUS)

    def literal(self, rounds: int) -> Any:
        keys, values = self.stream.keys[:rounds].astype(float), self.stream.values[:rounds].astype(float)
        return literal(keys, values, np.asarray(self.interest), self.trees.parents, self.trees.delay, RATE, RADIUS)


def engines() -> list[str]:
    """What is installed here."""
    from importlib.util import find_spec

    return ["numpy", *(name for name in ("numba", "jax") if find_spec(name))]


def players() -> list[tuple[str, int, str]]:
    """Engines with a number of threads and a name."""
    plain = [(engine, 1, f"mnemesh {engine}") for engine in engines() if engine != "numba"]
    return plain + [("numba", count, f"mnemesh numba, {count} thread{'s' * (count > 1)}") for count in (1, 2) if "numba" in engines()]


def small(repeats: int, peak: dict[int, float]) -> list[dict[str, Any]]:
    """One run at the three dense sizes."""
    return [line for (agents, dim), rounds in SIZES.items() for line in one_size(Setting(agents, dim, rounds), repeats, peak)]


def one_size(setting: Setting, repeats: int, peak: dict[int, float]) -> list[dict[str, Any]]:
    """Everybody at one size."""
    agents, dim, rounds = setting.agents, setting.dim, setting.rounds
    keys = np.ascontiguousarray(setting.stream.keys)
    few = min(max(rounds // 50, int(setting.trees.delays.max()) + 3), rounds)  # every delay's gradient shows in a loss
    agree(setting, few)
    contenders: dict[str, Callable[[], Any]] = {"straightforward NumPy": setting.numpy, "bare products": lambda: bare_products(keys, dim)}
    for engine, count, name in players():
        contenders[name] = with_threads(count, partial(setting.play, engine))
        if engine == "numba":
            contenders[f"{name}, float64"] = with_threads(count, partial(setting.play, engine, "float64"))
    for contender in contenders.values():
        contender()  # compile, and fill the caches
    times = best_of(repeats, contenders)
    times = {"literal Algorithm 1": best_of(1, {"": lambda: setting.literal(few)})[""] / few * rounds, **times}
    work = 2 * agents * agents * dim * dim * rounds
    return [row(f"({agents}, {dim})", name, rounds, time_, times, work, peak.get(2 if "2 threads" in name else 1)) for name, time_ in times.items()]


def agree(setting: Setting, rounds: int) -> None:
    """Refuse to time programs that compute different things."""
    wanted, _ = setting.literal(rounds)
    found = setting.numpy("float64")[0][0, :rounds]
    ours = [setting.play(engine, "float64").losses[:rounds] for engine in engines()]
    for other in (found, *ours):
        assert abs(other / wanted - 1).max() < 1e-9, "the contenders disagree: their times mean nothing"


def row(case: str, name: str, rounds: int, seconds: float, times: dict[str, float], work: float, peak: float | None) -> dict[str, Any]:
    """One line of the table."""
    line = {"case": case, "contender": name, "rounds/s": rounds / seconds, "us/round": seconds / rounds * 1e6}
    for short, other in (("x literal", "literal Algorithm 1"), ("x NumPy", "straightforward NumPy"), ("of bare", "bare products")):
        if other in times:
            line[short] = seconds / times[other] if short == "of bare" else times[other] / seconds
    if peak and name.startswith("mnemesh numba"):
        line["% of peak"] = 100 * work / seconds / (peak / (2 if "float64" in name else 1))
    return line


def batch(repeats: int, runs: int = 256, rounds: int = 200) -> list[dict[str, Any]]:
    """Many runs at (20, 10): seeds of the stream and rates differ."""
    setting = Setting(20, 10, rounds)
    drawn = [mm.streams.teacher(agents=20, key_dim=10, value_dim=10, rounds=rounds, correlation=0.75, seed=seed) for seed in range(runs)]
    streams = [mm.streams.from_arrays(s.keys.astype(np.float32), s.values.astype(np.float32)) for s in drawn]
    rates = np.linspace(0.01, 0.03, runs)
    algorithms = [mm.algorithms.dam_togd(setting.trees, step=mm.steps.inverse_sqrt(c)) for c in rates]
    keys, values = (np.stack([getattr(s, part) for s in streams]) for part in ("keys", "values"))
    dense = np.asarray(setting.interest).astype(np.float32)
    contenders: dict[str, Callable[[], Any]] = {"straightforward NumPy": lambda: straightforward(keys, values, dense, setting.trees.delay, rates, RADIUS)}
    for engine, count, name in players():
        contenders[name] = with_threads(count, partial(mm.simulate_many, setting.problem, algorithms, streams, engine=engine))
    for name, contender in contenders.items():
        if name.startswith("mnemesh"):
            contender()
    times = best_of(max(repeats // 2, 1), contenders)
    return [row(f"{runs} runs of (20, 10)", name, runs * rounds, seconds, times, 0, None) for name, seconds in times.items()]


def wide(agents: int = 100_000, count: int = 10, dim: int = 16, rounds: int = 80) -> list[dict[str, Any]]:
    """Many agents that care about few, whose partners lie anywhere in memory."""
    from machine import copy_bandwidth

    begin = time.perf_counter()
    local = mm.topology.random_geometric(agents, radius=1.9 / np.sqrt(agents), seed=1)
    names = np.random.default_rng(1).permutation(agents)
    graph = mm.topology.from_edges([(names[a], names[b]) for a, b in local.edges], agents)
    interest = mm.interest.nearest(graph, count)
    built = time.perf_counter()
    trees = mm.routing.shortest_path(graph, interest)
    routed = time.perf_counter()
    rng = np.random.default_rng(1)
    keys = rng.random((rounds, agents, dim), dtype=np.float32) - 0.5
    stream = mm.streams.from_arrays(keys, rng.standard_normal((rounds, agents, dim), dtype=np.float32))
    problem = mm.Problem("delta", mm.domains.ball(RADIUS), interest)
    algorithm = mm.algorithms.dam_togd(trees, step=mm.steps.inverse_sqrt(RATE))
    del local, graph
    play = lambda: mm.simulate(problem, algorithm, stream, engine="numba")  # noqa: E731
    seconds = best_of(4, {"": play})[""]
    partners = len(interest.partners)
    moved = 4 * (2 * agents * dim * dim + 2 * partners * dim + 2 * agents * dim)  # X in and out, residuals out and in, keys and values in
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # before the copies, which take a GiB
    bandwidth = copy_bandwidth()
    line = row(f"{agents:,} agents, P = {count}, d = {dim}", "mnemesh numba", rounds, seconds, {}, 0, None)
    return [
        {
            **line, "one pass a round would allow": bandwidth / moved, "of one pass": rounds / seconds / (bandwidth / moved), "copy GB/s": bandwidth / 1e9,
            "peak GB": peak, "graph s": built - begin, "routing s": routed - built,
        }
    ]  # fmt: skip


def million(agents: int = 1_000_000, count: int = 7, dim: int = 8, rounds: int = 4096) -> list[dict[str, Any]]:
    """A million agents and thousands of runs, for a GPU; data are drawn inside the run."""
    import jax

    rows = []
    graph = mm.topology.ring(agents)
    offsets = np.array([0, 1, -1, 2, -2, 3, -3, 4][: count + 1])
    partners = (np.arange(agents)[:, None] + offsets) % agents
    weights = np.full(partners.shape, 1 / len(offsets))
    interest = mm.interest.Interest(np.arange(agents + 1) * len(offsets), partners.ravel(), weights.ravel())
    begin = time.perf_counter()
    trees = mm.routing.shortest_path(graph, interest)
    routing = time.perf_counter() - begin
    stream = mm.streams.computed_teacher(agents=agents, key_dim=dim, value_dim=dim, rounds=rounds, correlation=1.0, seed=1)
    problem = mm.Problem("delta", mm.domains.ball(RADIUS), interest)
    algorithm = mm.algorithms.dam_togd(trees, step=mm.steps.inverse_sqrt(RATE))
    play = lambda: mm.simulate(problem, algorithm, stream, engine="jax", horizons=[rounds])  # noqa: E731
    play()
    seconds = best_of(2, {"": play})[""]
    rows.append({**row(f"{agents:,} agents, P = {len(offsets)}, d = {dim}", "mnemesh jax", rounds, seconds, {}, 0, None), "routing s": routing})
    setting = Setting(20, 10, 64)
    runs = 4096
    stream = mm.streams.computed_teacher(agents=20, key_dim=10, value_dim=10, rounds=5000, correlation=0.75, seed=1)
    algorithms = [mm.algorithms.dam_togd(setting.trees, step=mm.steps.inverse_sqrt(c)) for c in np.linspace(0.01, 0.03, runs)]
    many = lambda: mm.simulate_many(setting.problem, algorithms, stream, engine="jax", horizons=[5000])  # noqa: E731
    many()
    seconds = best_of(2, {"": many})[""]
    rows.append(row(f"{runs:,} runs of (20, 10)", f"mnemesh jax on {jax.devices()[0].device_kind}", runs * 5000, seconds, {}, 0, None))
    return rows


def alone(part: str) -> list[dict[str, Any]]:
    """A part in a process of its own, so that its peak memory is its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "part.json"
        subprocess.run([sys.executable, __file__, "--only", part, "--out", str(out)], check=True, capture_output=True)
        return list(json.loads(out.read_text())[part])


class Network:
    """A live network in one process, and the arithmetic of its rounds without any message."""

    def __init__(self, aggregation: str, agents: int = 20, dim: int = 64, rounds: int = 400) -> None:
        graph, self.weights = mm.topology.default(), mm.interest.dirichlet(agents, own=10.0, others=2.0, seed=1)
        self.problem = mm.Problem("delta", mm.domains.ball(RADIUS), self.weights)
        self.stream = mm.streams.teacher(agents=agents, key_dim=dim, value_dim=dim, rounds=rounds, correlation=0.75, seed=1)
        settings = {"step": mm.steps.inverse_sqrt(0.3), "key_dim": dim, "value_dim": dim, "deadline": float("inf"), "aggregation": aggregation}
        self.mesh = mm.live.Mesh(self.problem, graph, **settings)
        self.memories, self.dense = np.zeros((agents, dim, dim), np.float32), np.asarray(self.weights).astype(np.float32)

    def play(self, rounds: int) -> None:
        """So many periods, on the stream's data again and again."""
        for _ in range(rounds):
            t = self.mesh.period % self.stream.rounds
            self.mesh.learn({name: (self.stream.keys[t, n], self.stream.values[t, n]) for n, name in enumerate(self.mesh.names)})

    def arithmetic(self, rounds: int) -> None:
        """The residuals, rank-one updates and projections of so many rounds, pair by pair."""
        for t in range(rounds):
            keys, values = self.stream.keys[t], self.stream.values[t]
            for n, memory in enumerate(self.memories):
                for m, weight in enumerate(self.dense[n]):
                    memory -= np.float32(0.01) * np.outer((memory @ keys[m] - values[m]) * weight, keys[m])
                memory[:] = self.problem.domain.project(memory)


def network(repeats: int, rounds: int = 30) -> list[dict[str, Any]]:
    """Live agents in one process at 64×64, everybody caring about everybody: frames, checks and all, beside the arithmetic alone."""
    ways = {aggregation: Network(aggregation) for aggregation in ("auto", "dense", "factored")}
    for way in ways.values():
        way.play(12)  # until replies come from everywhere
    sent = {name: dict(way.mesh.bytes) for name, way in ways.items()}
    times = best_of(repeats, {"arithmetic alone": partial(ways["auto"].arithmetic, rounds), **{name: partial(way.play, rounds) for name, way in ways.items()}})
    rows = []
    for name, seconds in times.items():
        line: dict[str, Any] = {"case": "live, in one process (20, 64)", "contender": name, "rounds/s": rounds / seconds, "x arithmetic's time": seconds / times["arithmetic alone"]}
        if name in ways:
            played = rounds * repeats
            line |= {f"{kind} kB/round": (ways[name].mesh.bytes[kind] - sent[name][kind]) / played / 1e3 for kind in ("query", "reply")}
        rows.append(line)
    return rows


PROGRAM = Path(__file__).parents[1] / "examples" / "first.py"


def start() -> list[dict[str, Any]]:
    """From nothing to the first program's printed number."""
    rows = []
    for name in ("first", "second", "third"):
        begin = time.perf_counter()
        subprocess.run([sys.executable, str(PROGRAM)], check=True, capture_output=True)
        rows.append({"case": "examples/first.py in a fresh process", "contender": f"{name} time", "seconds": time.perf_counter() - begin})
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as text; a column for everything some row knows."""
    names = list(dict.fromkeys(name for line in rows for name in line))
    cells = [[_cell(line.get(name)) for name in names] for line in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(names)]
    lines = [names, *cells]
    return "\n".join("  ".join(f"{cell:<{w}}" if i < 2 else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(line, widths, strict=True))) for line in lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def main() -> None:
    """Run the parts asked for; print tables and write everything to a JSON file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/bench.json"))
    parser.add_argument("--only", nargs="*", choices=["start", "small", "batch", "wide", "network", "million"])
    parser.add_argument("--repeats", type=int, default=7)
    asked = parser.parse_args()
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        print("note: OPENBLAS_NUM_THREADS is not 1, so NumPy may be timed with a second BLAS thread that spins; `make bench` sets it.\n")
    gpu = "jax" in engines() and __import__("jax").default_backend() != "cpu"
    parts = asked.only or ["start", "small", "batch", "wide", "network", *(["million"] if gpu else [])]
    found: dict[str, Any] = {"python": platform.python_version(), "cores": os.cpu_count(), "mnemesh": mm.__version__, "numpy": np.__version__}
    peak: dict[int, float] = {}
    if "numba" in engines():
        from machine import multiply_adds

        peak = {count: multiply_adds(count) for count in (1, 2)}
        found["multiply-adds/s"] = peak
        print(f"a register-only loop: {peak[1] / 1e9:.1f} billion float32 multiply-adds a second on one thread, {peak[2] / 1e9:.1f} on two\n")
    jobs: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "start": start, "small": lambda: small(asked.repeats, peak), "batch": lambda: batch(asked.repeats), "wide": wide,
        "network": lambda: network(asked.repeats), "million": million,
    }  # fmt: skip
    for part in parts:
        found[part] = alone(part) if part == "wide" and len(parts) > 1 else jobs[part]()
        print(table(found[part]), end="\n\n", flush=True)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(found, indent=1))
    print(f"everything is in {asked.out}")


if __name__ == "__main__":
    main()
