"""The best c of c/√(t − τ_min), by trying."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from mnemesh import steps
from mnemesh.algorithms.algorithm import Algorithm
from mnemesh.engine import simulate_many
from mnemesh.errors import AlgorithmError, DivergenceError, ShapeError, StepError
from mnemesh.problem import Problem
from mnemesh.regret import static
from mnemesh.steps import Step
from mnemesh.streams.stream import Stream
from mnemesh.types import numbers

__all__ = ["GRID", "Tuning", "tune"]

GRID = tuple(0.05 * 2**k for k in range(7))  # .05, .1, …, 3.2
_EXTENSIONS = 12  # doublings past an edge of the grid before giving up


@final
@dataclass(frozen=True, repr=False)
class Tuning:
    """Regret at the end for every c tried, ascending in c, averaged over the streams; infinite where the run diverged."""

    c: np.ndarray  # (G,)
    regret: np.ndarray  # (G,)
    per_stream: np.ndarray  # (G, S)

    @property
    def best(self) -> float:
        """The c of least mean regret."""
        return float(self.c[np.argmin(self.regret)])

    @property
    def at_edge(self) -> bool:
        """Whether the best c is the smallest or largest tried, so that a better one may lie beyond."""
        return int(np.argmin(self.regret)) in (0, len(self.c) - 1)

    def __repr__(self) -> str:
        edge = ", at the edge of the grid" if self.at_edge else ""
        return f"Tuning(best c={self.best:g}, regret {self.regret.min():.6g}, {len(self.c)} tried from {self.c[0]:g} to {self.c[-1]:g}{edge})"


def tune(
    problem: Problem | Sequence[Problem],
    make: Callable[[Step], Algorithm | Sequence[Algorithm]],
    streams: Stream | Sequence[Stream],
    grid: Any = None,
    *,
    engine: str = "auto",
    dtype: str = "float32",
) -> Tuning:
    """Play `make(mm.steps.inverse_sqrt(c))` on every stream for every c of the grid, and extend the grid while the best c sits at its edge.

    `problem` may be one problem or one per stream; `make` may return one algorithm per stream. All c of a grid are played as one batch.
    """
    streams = [streams] if isinstance(streams, Stream) else list(streams) if isinstance(streams, list | tuple) else []
    if not streams or not all(isinstance(stream, Stream) for stream in streams):
        raise ShapeError("tune needs a stream, or a list of at least one: rates are chosen by the regret on them.")
    if not callable(make) or isinstance(make, Algorithm):
        raise AlgorithmError(f"make={make!r} must be a function from a step to an algorithm, such as lambda step: mm.algorithms.ogd(step=step).")
    problems = [problem] * len(streams) if isinstance(problem, Problem) else list(problem) if isinstance(problem, list | tuple) else []
    if len(problems) != len(streams):
        raise ShapeError(f"{len(problems)} problems for {len(streams)} streams: give one for all, or one each.")
    wanted = np.unique(numbers("grid", GRID if grid is None else grid, StepError))
    if not len(wanted) or not (np.isfinite(wanted) & (wanted > 0)).all():
        raise StepError(f"grid={grid!r}: a grid holds positive finite rates c, at least one, or there is nothing to choose from.")
    comparators: list[float] = []

    def regrets(cs: np.ndarray) -> list[np.ndarray]:
        try:
            return _regrets(problems, make, streams, cs, comparators, engine, dtype)
        except DivergenceError:
            if len(cs) > 1:
                return [regrets(cs[i : i + 1])[0] for i in range(len(cs))]
            return [np.array([_regret_or_inf(problems, make, streams, float(cs[0]), s, comparators, engine, dtype) for s in range(len(streams))])]

    tried = dict(zip(wanted.tolist(), regrets(wanted), strict=True))
    ratio = float(wanted[1] / wanted[0]) if len(wanted) > 1 else 2.0
    for _ in range(_EXTENSIONS):
        order = sorted(tried)
        best = min(order, key=lambda c: tried[c].mean())
        beyond = best / ratio if best == order[0] else best * ratio if best == order[-1] else None
        if beyond is None:
            break
        tried[beyond] = regrets(np.array([beyond]))[0]
    order = sorted(tried)
    per_stream = np.stack([tried[c] for c in order])
    return Tuning(np.array(order), per_stream.mean(1), per_stream)


def _algorithms(make: Callable[[Step], Any], c: float, count: int) -> list[Algorithm]:
    made = make(steps.inverse_sqrt(c))
    if not isinstance(made, Algorithm | list | tuple):
        raise AlgorithmError(f"make returned {made!r}: an algorithm is needed, or a list with one per stream.")
    return [made] * count if isinstance(made, Algorithm) else list(made)


def _regrets(
    problems: list[Problem], make: Callable[[Step], Any], streams: list[Stream], cs: np.ndarray, comparators: list[float], engine: str, dtype: str
) -> list[np.ndarray]:
    """Regret at the end, (S,) for each c. The comparators do not depend on c and are found once."""
    count, last = len(streams), streams[0].rounds
    algorithms = [algorithm for c in cs for algorithm in _algorithms(make, float(c), count)]
    trace = simulate_many(problems * len(cs), algorithms, streams * len(cs), engine=engine, dtype=dtype, horizons=[last])
    assert trace.cumulative is not None
    if not comparators:
        comparators.extend(float(static(p, s, trace.run(i)).comparator.sum()) for i, (p, s) in enumerate(zip(problems, streams, strict=True)))
    return list(trace.cumulative[:, -1].sum(-1).reshape(len(cs), count) - np.array(comparators))


def _regret_or_inf(
    problems: list[Problem], make: Callable[[Step], Any], streams: list[Stream], c: float, s: int, comparators: list[float], engine: str, dtype: str
) -> float:
    """Regret of one c on one stream, infinite if the run diverges."""
    try:
        algorithm = _algorithms(make, c, len(streams))[s]
        return float(_regrets(problems[s : s + 1], lambda step: algorithm, streams[s : s + 1], np.array([c]), comparators[s : s + 1], engine, dtype)[0][0])
    except DivergenceError:
        return float("inf")
