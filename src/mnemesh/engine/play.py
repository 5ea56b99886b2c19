"""`simulate` and `simulate_many`: what users call, with everything they may ask for checked at the door."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from mnemesh.algorithms.algorithm import Algorithm
from mnemesh.engine.run import Ask, known_dtype, run
from mnemesh.engine.stage import Stage, check_same
from mnemesh.engine.trace import Trace
from mnemesh.errors import EngineError, ShapeError
from mnemesh.problem import Problem
from mnemesh.statistics import log_spaced, stack
from mnemesh.streams.stream import Stream
from mnemesh.types import numbers

__all__ = ["simulate", "simulate_many"]

FULL_LIMIT = 10**8  # losses kept unasked


def simulate(
    problem: Problem,
    algorithm: Algorithm,
    stream: Stream,
    *,
    engine: str = "auto",
    dtype: str = "float32",
    initial: Any = None,
    record_every: int | None = None,
    horizons: Any = None,
    keep_losses: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool = False,
) -> Trace:
    """Let every agent learn from the whole stream.

    `engine` is "numpy", "numba" (agent by agent, compiled), "jax", or "auto", which answers first. `initial` is X_{n,1}, (N, d_v, d_φ), in the
    domain; Π(0) unless given. `record_every=r` keeps X_{n,t} for t = r, 2r, …. `horizons=[…]` keeps cumulative losses and the comparator's
    statistics at these rounds instead of all losses; so does a run of more than 10⁸ losses of itself, at rounds of its own choice.
    `keep_losses=True` keeps all losses whatever else is asked. `checkpoint=path` writes the run's state there now and then and at the end;
    `resume=True` takes it up if the file exists, to the same bits, also for a stream that goes on where the first one ended (with the same
    `horizons` up to there: those that a run chooses by itself depend on its length; sums at later horizons are then the same to rounding).

    >>> import mnemesh as mm
    >>> stream = mm.streams.teacher(agents=4, key_dim=3, value_dim=2, rounds=50, correlation=0.5, seed=1)
    >>> problem = mm.Problem("delta", mm.domains.ball(100.0), mm.interest.uniform(4))
    >>> mm.simulate(problem, mm.algorithms.ogd(step=mm.steps.inverse_sqrt(0.3)), stream)
    Trace(agents=4, rounds=50, memories 2×3, losses, engine='numpy')
    """
    if any(isinstance(part, list | tuple) for part in (problem, algorithm, stream)):
        raise ShapeError("simulate plays one run, and here is a list: simulate_many(problems, algorithms, streams) plays many.")
    return simulate_many(
        problem, algorithm, stream, engine=engine, dtype=dtype, initial=initial, record_every=record_every, horizons=horizons,
        keep_losses=keep_losses, checkpoint=checkpoint, resume=resume, progress=progress,
    ).run(0)  # fmt: skip


def simulate_many(
    problems: Problem | Sequence[Problem],
    algorithms: Algorithm | Sequence[Algorithm],
    streams: Stream | Sequence[Stream],
    *,
    engine: str = "auto",
    dtype: str = "float32",
    initial: Any = None,
    record_every: int | None = None,
    horizons: Any = None,
    keep_losses: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool = False,
) -> Trace:
    """Many runs at once: lists of one length, single items standing for all. The trace has the runs as its first axis; `trace.run(i)` is one of them.

    Runs of one kind (algorithm, loss, features, domain) are played together, compiled once; streams that runs share are read once.
    """
    runs = _aligned(problems, algorithms, streams)
    shape = check_same([problem for problem, _, _ in runs], [stream for _, _, stream in runs])
    initial = None if initial is None else numbers("initial", initial, ShapeError)
    if np.ndim(initial) == 4 and len(initial) != len(runs):
        raise ShapeError(f"{len(initial)} initial memories for {len(runs)} runs: give one for all, (N, d_v, d_φ), or one each.")
    rounds, total = runs[0][2].rounds, sum(problem.agents for problem, _, _ in runs)
    keep = (horizons is None and rounds * total <= FULL_LIMIT) if keep_losses is None else keep_losses
    if not keep and horizons is None:
        horizons = log_spaced(rounds) if 24 * total * shape[1] * sum(shape) <= FULL_LIMIT else [rounds]
    if resume and checkpoint is None:
        raise EngineError("resume=True without checkpoint=: it is not said which file to take the run up from.")
    ask = Ask(engine, known_dtype(dtype), initial, _every(record_every), _horizons(horizons, rounds), keep, checkpoint, resume, progress)
    kinds: dict[Any, list[int]] = {}
    posed = {id(problem): (problem.loss, problem.features, problem.domain) for problem, _, _ in runs}
    order = {kind: place for place, kind in enumerate(dict.fromkeys(posed.values()))}
    posed_as = {problem: order[kind] for problem, kind in posed.items()}
    for place, (problem, algorithm, _) in enumerate(runs):
        kinds.setdefault((algorithm.signature(), posed_as[id(problem)]), []).append(place)
    if len(kinds) > 1 and checkpoint is not None:
        raise EngineError(f"a checkpoint holds runs of one kind, and these are of {len(kinds)}: give every kind its own call and its own file.")
    traces = []
    for places in kinds.values():
        problems_, algorithms_, streams_ = zip(*(runs[place] for place in places), strict=True)
        begin = initial if np.ndim(initial) != 4 else [initial[place] for place in places]
        traces.append(run(Stage(problems_, algorithms_, streams_, shape), Ask(**{**vars(ask), "initial": begin})))
    return traces[0] if len(traces) == 1 else _reassembled(traces, list(kinds.values()), len(runs))


def _aligned(problems: Any, algorithms: Any, streams: Any) -> list[tuple[Problem, Algorithm, Stream]]:
    """The runs, each with its problem, algorithm and stream."""
    given = {"problems": (problems, Problem), "algorithms": (algorithms, Algorithm), "streams": (streams, Stream)}
    lists = {name: list(part) if isinstance(part, list | tuple) else [part] for name, (part, _) in given.items()}
    for name, (_, kind) in given.items():
        if not lists[name]:
            raise ShapeError(f"an empty list of {name}: there is no run to play.")
        for part in lists[name]:
            if not isinstance(part, kind):
                found = repr(part) if isinstance(part, str) else type(part).__name__
                raise ShapeError(f"{name}: {found} is no {kind.__name__}. simulate(problem, algorithm, stream) takes them in this order.")
    count = max(map(len, lists.values()))
    for name, parts in lists.items():
        if len(parts) not in (1, count):
            raise ShapeError(f"{len(parts)} {name} for {count} runs: give one for all, or one each, or it is not said which belong together.")
    return list(zip(*(parts * count if len(parts) == 1 else parts for parts in lists.values()), strict=True))


def _every(record_every: Any) -> int | None:
    if record_every is not None and (not isinstance(record_every, int | np.integer) or isinstance(record_every, bool) or record_every < 1):
        raise EngineError(f"record_every={record_every!r}: a whole number of rounds, at least 1, or None to record nothing.")
    return None if record_every is None else int(record_every)


def _horizons(horizons: Any, rounds: int) -> np.ndarray | None:
    if horizons is None:
        return None
    wanted = np.unique(numbers("horizons", list(horizons) if isinstance(horizons, range) else horizons, EngineError))
    if not len(wanted) or (wanted % 1).any() or wanted[0] < 1 or wanted[-1] > rounds:
        raise EngineError(f"horizons={horizons!r}: whole numbers of rounds within 1..{rounds} are needed, where the sums are to be kept.")
    return wanted.astype(np.int64)


def _reassembled(traces: list[Trace], places: list[list[int]], count: int) -> Trace:
    """Traces of several kinds, back in the order of the runs."""
    single = {place: trace.run(i) for trace, group in zip(traces, places, strict=True) for i, place in enumerate(group)}
    each = [single[place] for place in range(count)]
    join = lambda name: None if getattr(each[0], name) is None else np.stack([getattr(trace, name) for trace in each])  # noqa: E731
    statistics = [trace.statistics for trace in each if trace.statistics is not None]
    if len({tuple(None if part is None else part.shape for part in known) for known in statistics}) > 1:
        raise EngineError("runs of different losses cannot be stacked at horizons=: their comparators need different sums. Simulate them apart.")
    names = "+".join(dict.fromkeys(trace.engine for trace in each))
    return Trace(
        np.stack([trace.memories for trace in each]), join("losses"), each[0].rounds, names, join("history"), each[0].recorded_rounds,
        each[0].horizons, join("cumulative"), stack(statistics) if len(statistics) == count else None,
    )  # fmt: skip
