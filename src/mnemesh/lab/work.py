"""What a worker does with a batch: choose a rate, or play. Tables come back."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any

import numpy as np

from mnemesh.engine import Trace, simulate_many
from mnemesh.errors import DivergenceError, SweepError, require
from mnemesh.lab.build import Made, World, bring, make
from mnemesh.lab.plan import Batch, Job
from mnemesh.lab.points import shown
from mnemesh.lab.record import versions
from mnemesh.lab.spec import Line
from mnemesh.regret import static
from mnemesh.steps import Step, inverse_sqrt
from mnemesh.topology import neighbours
from mnemesh.tuning import tune

__all__ = ["do", "home"]

_PER_AGENT = 1_000  # agents up to which each one's regret is kept
_NOTHING = {"delay_mean": None, "delay_weighted": None, "delay_max": None, "queries": None, "replies_aggregated": None, "replies_single": None, "busiest_link": None}


def home() -> tuple[str, int]:
    """This process, so that a worker knows whether it is another one."""
    return socket.gethostname(), os.getpid()


def do(batch: Batch, sender: tuple[str, int], made_with: Mapping[str, str]) -> Any:
    """A batch's table, a pyarrow.Table. A worker with other versions refuses: its numbers could not be compared."""
    spec = batch.jobs[0].point.spec
    bring(spec)
    if sender != home():
        os.environ["MNEMESH_THREADS"] = "1"  # the other cores have workers of their own
        here = versions(spec.imports)
        differ = [f"{name} {made_with.get(name, 'missing')} there and {here.get(name, 'missing')} here" for name in sorted({*here, *made_with}) if here.get(name) != made_with.get(name)]
        if differ:
            raise SweepError(f"the worker on {socket.gethostname()} has other versions than the sweep: {'; '.join(differ)}. Their numbers could not be compared.")
    made = Made()
    worlds = [World(job.point.spec, job.seed, batch.rounds, made) for job in batch.jobs]
    rows = _choose(batch, worlds) if batch.chooses else _play(batch, worlds)
    return _table(batch, rows)


def _choose(batch: Batch, worlds: list[World]) -> list[dict[str, Any]]:
    line, (engine,) = batch.line, batch.engines
    dtype = worlds[0].spec.dtype
    found = tune(
        [world.problem for world in worlds], lambda step: [world.algorithm(line, step) for world in worlds], [world.stream for world in worlds],
        batch.grid, engine=engine, dtype=dtype,
    )  # fmt: skip
    return [
        _place(batch, job, line) | {"c": float(c), "regret": float(found.per_stream[g, s]), "chosen": bool(c == found.best)}
        for g, c in enumerate(found.c)
        for s, job in enumerate(batch.jobs)
    ]


def _play(batch: Batch, worlds: list[World]) -> list[dict[str, Any]]:
    by_line = []
    for place, engine in enumerate(batch.engines):
        lines = [world.spec.algorithms[place] for world in worlds]
        steps = [_step(line, None if not batch.rates else batch.rates[j][place]) for j, line in enumerate(lines)]
        traces = _traces(worlds, lines, steps, engine)
        by_line.append([_rows(batch, *run) for run in zip(batch.jobs, worlds, lines, steps, traces, strict=True)])
    return [row for run in zip(*by_line, strict=True) for rows in run for row in rows]


def _step(line: Line, c: float | None) -> Step:
    return inverse_sqrt(c) if c is not None else make("step", line.step, f"algorithms.{line.called}.step")


def _traces(worlds: list[World], lines: list[Line], steps: list[Step], engine: str) -> list[Trace | None]:
    """The traces of all runs; None for one that diverged."""
    problems, streams = [world.problem for world in worlds], [world.stream for world in worlds]
    algorithms = [world.algorithm(line, step) for world, line, step in zip(worlds, lines, steps, strict=True)]
    try:
        trace = simulate_many(problems, algorithms, streams, engine=engine, dtype=worlds[0].spec.dtype, horizons=worlds[0].spec.horizon_list)
        return [trace.run(i) for i in range(len(worlds))]
    except DivergenceError:
        if len(worlds) == 1:
            return [None]
        return [_traces([world], [line], [step], engine)[0] for world, line, step in zip(worlds, lines, steps, strict=True)]


def _rows(batch: Batch, job: Job, world: World, line: Line, step: Step, trace: Trace | None) -> list[dict[str, Any]]:
    """One row for every horizon."""
    horizons, c = world.spec.horizon_list, getattr(step, "c", None)
    same = _place(batch, job, line) | {"c": c if isinstance(c, float) else None, "engine": None if trace is None else trace.engine} | _traffic(world, line)
    bounds = _bounds(world, line, step, horizons)
    if trace is None:
        lost = {"regret": float("inf"), "regret_per_round": float("inf"), "cumulative_loss": float("inf"), "comparator": None, "per_agent": None}
        return [same | {"horizon": int(t)} | lost | bounds[h] for h, t in enumerate(horizons)]
    regret = static(world.problem, world.stream, trace)
    each = world.problem.agents <= _PER_AGENT
    rows = []
    for h, t in enumerate(regret.horizons.tolist()):
        total, best = float(regret.total[h]), float(regret.comparator[h].sum())
        rows.append(same | {
            "horizon": t, "regret": total, "regret_per_round": total / t, "cumulative_loss": total + best, "comparator": best,
            "per_agent": regret.per_agent[h].tolist() if each else None,
        } | bounds[h])  # fmt: skip
    return rows


def _place(batch: Batch, job: Job, line: Line) -> dict[str, Any]:
    cells = {key: shown(value) for key, value in job.point.values}
    words = {key for key, kind in batch.columns if kind == "string"}
    return {"point": job.point.number, **{key: str(cell) if key in words else cell for key, cell in cells.items()}, "algorithm": line.called, "seed": job.seed}


def _bounds(world: World, line: Line, step: Step, horizons: np.ndarray) -> list[dict[str, float | None]]:
    """The bounds at every horizon; None where a form does not apply."""
    bound, _ = world.bound(line, step)
    found = []
    for t in horizons.tolist():
        at = {name: getattr(bound, name, None) for name in ("printed", "repaired", "sharp")}
        found.append({f"bound_{name}": None if total is None else float(total[t - 1]) for name, total in at.items()})
    return found


def _traffic(world: World, line: Line) -> dict[str, Any]:
    """Delays, and messages a round."""
    if not world.routed(line):
        starts, _ = neighbours(world.graph)
        return _NOTHING | {"messages": {"c_dogd": int(starts[-1]), "local_ogd": 0}.get(line.name)}
    trees, cares = world.trees(line), world.problem.interest
    queries, together, single = trees.messages_per_round()
    return {
        "delay_mean": float(trees.delays.mean()), "delay_weighted": float((cares.weights * trees.delays).sum() / cares.agents), "delay_max": int(trees.delays.max()),
        "queries": queries, "replies_aggregated": together, "replies_single": single, "busiest_link": max(trees.load().values(), default=0), "messages": queries + together,
    }  # fmt: skip


def _table(batch: Batch, rows: list[dict[str, Any]]) -> Any:
    pa = require("pyarrow", "keeping results")
    whole, real = pa.int64(), pa.float64()
    swept = [(key, {"double": real, "int64": whole, "bool": pa.bool_(), "string": pa.string()}[kind]) for key, kind in batch.columns]
    fields = [("point", whole), *swept, ("algorithm", pa.string())]
    if batch.chooses:
        fields += [("c", real), ("seed", whole), ("regret", real), ("chosen", pa.bool_())]
    else:
        fields += [("seed", whole), ("c", real), ("engine", pa.string()), ("horizon", whole)]
        fields += [(name, real) for name in ("regret", "regret_per_round", "cumulative_loss", "comparator")] + [("per_agent", pa.list_(real))]
        fields += [(name, real) for name in ("bound_printed", "bound_repaired", "bound_sharp", "delay_mean", "delay_weighted")]
        fields += [(name, whole) for name in ("delay_max", "queries", "replies_aggregated", "replies_single", "messages", "busiest_link")]
    schema = pa.schema(fields)
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in fields}, schema=schema)
