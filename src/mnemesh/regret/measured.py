"""Static regret (2): what the memories that were played lost, above the best fixed memory in hindsight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from mnemesh.errors import RegretError
from mnemesh.problem import Problem
from mnemesh.regret.minimum import minimum
from mnemesh.statistics import Statistics, add, empty, log_spaced, mix, stack
from mnemesh.streams.stream import Stream

__all__ = ["Regret", "static"]

SOLVED_AT_ONCE = 2**22  # numbers of statistics whose comparators are found together


@final
@dataclass(frozen=True, repr=False)
class Regret:
    """Regret up to each of `horizons` (H,): `per_agent` (H, N), its sum `total` (H,), and the best fixed memories' losses `comparator` (H, N)."""

    horizons: np.ndarray
    per_agent: np.ndarray
    total: np.ndarray
    comparator: np.ndarray

    def __repr__(self) -> str:
        last, agents = self.horizons[-1], self.per_agent.shape[1]
        return f"Regret(agents={agents}, {len(self.horizons)} horizons up to T={last}, total {self.total[-1]:.6g}, {self.total[-1] / last:.4g} a round)"


def static(problem: Problem, stream: Stream, trace: Any, horizons: Any = None) -> Regret:
    """Reg(T) = Σ_n [ Σ_t Σ_m w_{n,m} f_{m,t}(X_{n,t}) − min_{U∈𝒳} Σ_t Σ_m w_{n,m} f_{m,t}(U) ] at every horizon T, of a run's `trace`.

    `horizons` are rounds, 1-based; by default about 24 on a logarithmic axis that end at the last round, or those that the run kept.
    """
    if not isinstance(problem, Problem) or not isinstance(stream, Stream) or not hasattr(trace, "losses"):
        found = ", ".join(type(part).__name__ for part in (problem, stream, trace))
        raise RegretError(f"static({found}): a Problem, a Stream and the Trace of a run are needed, in this order.")
    shape = problem.shape(stream)
    if trace.losses is None:
        kept, chosen = _kept(trace, horizons)
        _check_sums(problem, stream, trace, shape)
        cumulative = np.asarray(trace.cumulative, dtype=np.float64)[chosen]
        snapshots: Iterable[Statistics] = (_at(trace.statistics, place) for place in chosen.tolist())
        if trace.statistics is None:  # the data were drawn inside a compiled run: the host draws them once more
            snapshots = _snapshots(problem, stream, kept[chosen])
        return _regret(kept[chosen], cumulative, _values(problem, snapshots, kept[chosen]))
    losses = np.asarray(trace.losses)
    if losses.shape != (stream.rounds, problem.agents):
        raise RegretError(f"losses of shape {losses.shape} for {stream.rounds} rounds of {problem.agents} agents: the trace is of another stream or problem.")
    chosen = log_spaced(stream.rounds) if horizons is None else _checked(horizons, stream.rounds)
    cumulative = np.add.reduceat(losses, np.concatenate([[0], chosen[:-1]]), axis=0, dtype=np.float64)
    if chosen[-1] < len(losses):  # the last sum ran to the end of the trace
        cumulative[-1] = losses[chosen[-2] if len(chosen) > 1 else 0 : chosen[-1]].sum(0, dtype=np.float64)
    return _regret(chosen, cumulative.cumsum(0), _values(problem, _snapshots(problem, stream, chosen), chosen))


def _check_sums(problem: Problem, stream: Stream, trace: Any, shape: tuple[int, int]) -> None:
    """Refuse sums over other rounds, agents or runs, and statistics of another loss: their difference would be no regret."""
    sums, agents = np.shape(trace.cumulative), problem.agents
    if len(sums) > 2:
        raise RegretError(f"a trace of {sums[0]} runs: a regret is one run's, so pass trace.run(i) with that run's problem and stream.")
    if sums[1] != agents or trace.rounds != stream.rounds:
        played = f"{trace.rounds} rounds of {sums[1]} agents for {stream.rounds} rounds of {agents} agents"
        raise RegretError(f"sums over {played}: the trace is of another stream or problem.")
    if trace.statistics is not None:
        wanted = tuple(part if part is None else part.shape for part in empty(problem, shape))
        found = tuple(part if part is None else np.shape(part)[1:] for part in trace.statistics)
        if wanted != found:
            raise RegretError(f"the trace's statistics are not those of the loss {problem.loss.name!r} on these memories: it is of another problem.")


def _regret(horizons: np.ndarray, cumulative: np.ndarray, comparator: np.ndarray) -> Regret:
    per_agent = cumulative - comparator
    return Regret(horizons, per_agent, per_agent.sum(1), comparator)


def _checked(horizons: Any, rounds: int) -> np.ndarray:
    chosen = np.unique(np.asarray(horizons))
    if chosen.dtype.kind not in "iu" or not len(chosen) or chosen[0] < 1 or chosen[-1] > rounds:
        raise RegretError(f"horizons={horizons!r}: whole rounds from 1 to {rounds} are needed, there is no loss to sum elsewhere.")
    return chosen.astype(np.int64)


def _kept(trace: Any, horizons: Any) -> tuple[np.ndarray, np.ndarray]:
    if trace.horizons is None or trace.cumulative is None:
        raise RegretError("the trace holds neither losses nor cumulative losses at horizons: run it with horizons=, or let it keep all losses.")
    kept = np.asarray(trace.horizons)
    if horizons is None:
        return kept, np.arange(len(kept))
    chosen = _checked(horizons, int(trace.rounds))
    missing = np.setdiff1d(chosen, kept)
    if len(missing):
        raise RegretError(f"round {missing[0]} is not among the horizons that the run kept: {kept.tolist()}. Give it to the run, or let it keep all losses.")
    return kept, np.searchsorted(kept, chosen)


def _at(statistics: Statistics, place: int) -> Statistics:
    return Statistics(*(None if part is None else np.asarray(part[place]) for part in statistics))  # type: ignore[arg-type]


def _snapshots(problem: Problem, stream: Stream, horizons: np.ndarray) -> Iterator[Statistics]:
    """The statistics at each horizon, in one pass over the stream."""
    statistics, waiting = empty(problem, problem.shape(stream)), horizons.tolist()
    for first, block in stream.blocks():
        at, rounds = 0, len(block.keys)
        while at < rounds:
            end = min(rounds, waiting[0] - first)
            statistics = add(problem, statistics, block.part(at, end))
            at = end
            if first + end == waiting[0]:
                yield statistics
                waiting.pop(0)
                if not waiting:
                    return


def _values(problem: Problem, snapshots: Iterable[Statistics], horizons: np.ndarray) -> np.ndarray:
    """The comparators' losses at each horizon, (H, N)."""
    values: list[np.ndarray] = []
    batch: list[Statistics] = []
    for snapshot in snapshots:
        batch.append(snapshot)
        size = sum(part.size for part in snapshot if part is not None)
        if (len(batch) + 1) * size > SOLVED_AT_ONCE or len(values) + len(batch) == len(horizons):
            values.extend(minimum(problem, mix(problem.interest, stack(batch)), horizons[len(values) :])[1])
            batch.clear()
    return np.array(values)
