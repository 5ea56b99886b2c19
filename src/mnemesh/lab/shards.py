"""One large simulation in shards of agents, on whatever executor: given the streams, no agent reads another's memory."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from mnemesh.algorithms import Algorithm
from mnemesh.engine.choose import choose
from mnemesh.engine.divergence import refuse_divergence
from mnemesh.engine.run import known_dtype
from mnemesh.engine.stage import Stage, check_same
from mnemesh.errors import MnemeshError, ShardError
from mnemesh.lab.cuts import Cut, cuts
from mnemesh.lab.shard import Ask, Diverged, Played, play
from mnemesh.problem import Problem
from mnemesh.regret import Regret
from mnemesh.statistics import empty, log_spaced
from mnemesh.streams import Stream
from mnemesh.types import numbers

__all__ = ["Sharded", "simulate_shards"]


@final
@dataclass(frozen=True, repr=False, eq=False)
class Sharded:
    """What a simulation in shards leaves behind."""

    memories: np.ndarray  # the final X_{n,T+1}, (N, d_v, d_φ)
    regret: Regret  # of all agents, at the horizons asked for
    engine: str
    shards: int

    def __repr__(self) -> str:
        agents, d_v, d_phi = self.memories.shape
        return f"Sharded(agents={agents}, {self.shards} shards, memories {d_v}×{d_phi}, engine={self.engine!r}, {self.regret!r})"


def simulate_shards(
    problem: Problem,
    algorithm: Algorithm,
    stream: Stream,
    *,
    shards: int,
    executor: Executor | None = None,
    horizons: Any = None,
    engine: str = "auto",
    dtype: str = "float32",
    progress: Callable[[float, float, str], None] | None = None,
) -> Sharded:
    """Let every agent learn from the whole stream, in shards of agents that are played apart.

    Each shard is a task of its own on `executor` (concurrent.futures' interface: processes, threads, Dask; None: one after the other, here). It
    plays its agents and reads the data of those that they care about, and needs memory for these alone. `horizons` are the rounds at which
    regret is measured, about 24 on a logarithmic axis unless given. `progress(done, total, words)` is called as shards end.

    Memories are those of `mm.simulate` to the bit; with JAX, and with NumPy where everybody cares about everybody, to rounding, since one product
    serves all agents there. Regret is the same to float64's rounding: comparators are found for a shard's agents together.

    What shards cost beyond one piece is reading. In 8 shards of 50,000 agents with 8 partners each, one core worked 0.7 times as long as in one
    piece where partners are neighbours on a ring, 0.9 on a random geometric network (2.3 if its data are a `teacher`'s, which draws 1,024 agents
    at once, as they are numbered), and 3 times where partners are scattered, as every shard then reads nearly everybody.
    """
    if executor is not None and not hasattr(executor, "submit"):
        raise ShardError(f"executor={executor!r} is none: pass what has the interface of concurrent.futures.Executor, or None to play here.")
    stage = _stage(problem, algorithm, stream)
    if not isinstance(shards, int | np.integer) or isinstance(shards, bool) or not 1 <= shards <= stage.agents:
        raise ShardError(f"shards={shards!r}: a whole number from 1 to {stage.agents} is needed, so that each has an agent to play.")
    ask = Ask(choose(stage, engine), known_dtype(dtype), _horizons(horizons, stream.rounds))
    empty(problem, stage.shape)  # refuses a loss without a comparator before anything is played
    memories = np.empty((stage.agents, *stage.shape), dtype=ask.dtype)
    cumulative, comparator = np.empty((2, len(ask.horizons), stage.agents))
    try:
        for done, (cut, played) in enumerate(_played(stage, ask, int(shards), executor), 1):
            memories[cut.players], cumulative[:, cut.players], comparator[:, cut.players] = played
            if progress is not None:
                progress(done, shards, f"shard {done} of {shards}")
    except Diverged as diverged:
        _say(stage, *diverged.args)
    per_agent = cumulative - comparator
    return Sharded(memories, Regret(ask.horizons, per_agent, per_agent.sum(1), comparator), ask.engine, int(shards))


def _stage(problem: Problem, algorithm: Algorithm, stream: Stream) -> Stage:
    """The whole, checked."""
    for name, part, kind in (("problem", problem, Problem), ("algorithm", algorithm, Algorithm), ("stream", stream, Stream)):
        if not isinstance(part, kind):
            raise ShardError(f"{name}: {type(part).__name__} is no {kind.__name__}. simulate_shards(problem, algorithm, stream) takes them in this order.")
    if not algorithm.agent_by_agent:
        raise ShardError(
            f"{algorithm.name} cannot be cut into shards: an agent there reads others' memories, which lie in other shards, or has a rule of its own. "
            "Play it in one piece with mm.simulate."
        )
    stage = Stage((problem,), (algorithm,), (stream,), check_same((problem,), (stream,)))
    stage.rates(1, 1)  # rates for other agents are refused
    return stage


def _horizons(horizons: Any, rounds: int) -> np.ndarray:
    if horizons is None:
        return log_spaced(rounds)
    wanted = np.unique(numbers("horizons", list(horizons) if isinstance(horizons, range) else horizons, ShardError))
    if not len(wanted) or (wanted % 1).any() or wanted[0] < 1 or wanted[-1] > rounds:
        raise ShardError(f"horizons={horizons!r}: whole numbers of rounds within 1..{rounds} are needed, where regret is to be measured.")
    return wanted.astype(np.int64)


def _played(stage: Stage, ask: Ask, shards: int, executor: Executor | None) -> Iterator[tuple[Cut, Played]]:
    """Every shard with what came of it, as they end."""
    if executor is None:
        for cut in cuts(stage, shards, shared=True):
            yield cut, play(cut, ask)
        return
    running: dict[Future[Played], Cut] = {}
    try:
        for cut in cuts(stage, shards, shared=False):
            running[executor.submit(play, cut, ask)] = cut
        for future in as_completed(list(running)):
            cut = running.pop(future)
            yield cut, _result(future, cut)
    finally:
        for future in running:
            future.cancel()


def _result(future: Future[Played], cut: Cut) -> Played:
    try:
        return future.result()
    except (MnemeshError, Diverged):
        raise
    except BrokenExecutor as broken:
        raise ShardError(
            "a worker process ended before its shard was done. In a script, call it under `if __name__ == \"__main__\":`. Otherwise memory may have run "
            "out: try more shards, or fewer workers."
        ) from broken
    except Exception:
        try:
            pickle.dumps(cut)
        except Exception as why:
            raise ShardError(f"a part of this simulation cannot be sent to another process ({why}): make it of functions and classes of a module.") from None
        raise


def _say(stage: Stage, agent: int, t: int) -> None:
    """Refuse the divergence as a run in one piece would."""
    numbers = np.zeros((1, stage.agents))
    numbers[0, agent] = np.nan
    refuse_divergence(stage, numbers, t - 1)
