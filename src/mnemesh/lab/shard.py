"""One shard of a simulation, from its first round to its last: its agents play, those they care about are only read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np

from mnemesh.algorithms import Rows
from mnemesh.engine.rounds import NumpyRounds
from mnemesh.engine.stage import Stage
from mnemesh.errors import RegretError, require
from mnemesh.lab.cuts import Cut
from mnemesh.regret.minimum import minimum
from mnemesh.statistics import Statistics, add, empty

__all__ = ["Ask", "Diverged", "Played", "play"]

_AT_ONCE = 2**23  # numbers of data and losses held at once, if these are not fewer rounds than streams draw at once
_MOST, _DRAWN = 4_096, 16  # rounds: of one stretch at the most, and drawn at once


class Ask(NamedTuple):
    """What every shard is asked for, checked."""

    engine: str
    dtype: str
    horizons: np.ndarray


class Played(NamedTuple):
    """What comes back of a shard."""

    memories: np.ndarray  # (n, d_v, d_φ)
    cumulative: np.ndarray  # the losses up to each horizon, (H, n), in float64
    comparator: np.ndarray  # those of the best fixed memories


class Diverged(Exception):
    """The agent and the round, from 1, whose numbers are not finite: who has the whole can say more."""


@final
class _Shard(Stage):
    """A cut as a stage: fewer agents play than rows of data are read."""

    def __init__(self, cut: Cut, padded: bool) -> None:
        self._cut, self._padded = cut, padded
        super().__init__((cut.problem,), (cut.algorithm,), (cut.stream,), cut.shape)

    def _once(self) -> tuple[list[Rows], list[np.ndarray]]:
        return [self._wide(self._cut.learn, 1)], [self._cut.tau_min]

    @property
    def total(self) -> int:
        return len(self._cut.players)

    @cached_property
    def score(self) -> Rows:
        return self._wide(self._cut.score, 0)

    @cached_property
    def complete(self) -> int:
        return int(self._cut.complete)

    def _wide(self, rows: Rows, which: int) -> Rows:
        """The rows, the last one filled up to the whole's width: what is a padded product there must be no narrower here, or bits would differ."""
        more = self._cut.widths[which] - (rows.starts[-1] - rows.starts[-2]) if self._padded else 0
        starts = np.append(rows.starts[:-1], rows.starts[-1] + more)
        return Rows(starts, *(np.append(part, np.zeros(more, part.dtype)) for part in rows[1:]))


def play(cut: Cut, ask: Ask) -> Played:
    """Play a shard and find its comparators."""
    stage, count = _Shard(cut, padded=ask.engine != "numba"), len(cut.players)
    a_round = stage.samples * stage.associations * sum(stage.shape) + count
    longest = min(max(_AT_ONCE // a_round // _DRAWN, 1) * _DRAWN, _MOST)
    player = _player(stage, ask, longest)
    sums, statistics = np.zeros(count), empty(cut.problem, cut.shape)
    cumulative, comparator = [], []
    for start in range(0, stage.rounds, longest):
        (block,) = stage.read(start, min(start + longest, stage.rounds))
        for first, last in _stretches(start, start + len(block.keys), ask.horizons):
            part = block.part(first - start, last - start)
            losses = player.play([part], first, stage.rates_reaching(first, last))
            _refuse_divergence(cut, losses, first)
            sums += losses.sum(0, dtype=np.float64)
            if last <= ask.horizons[-1]:
                statistics = add(cut.problem, statistics, part)
            if last in ask.horizons:
                cumulative.append(sums.copy())
                comparator.append(_comparator(cut, statistics, last))
    memories = player.memories
    _refuse_divergence(cut, memories.sum((1, 2))[None], stage.rounds - 1)
    return Played(memories, np.array(cumulative), np.array(comparator))


def _stretches(first: int, last: int, horizons: np.ndarray) -> Iterator[tuple[int, int]]:
    """From `first` to `last`, with a stop at every horizon."""
    for stop in (*horizons[(horizons > first) & (horizons < last)].tolist(), last):
        yield first, stop
        first = stop


def _player(stage: Stage, ask: Ask, longest: int) -> Any:
    start = np.broadcast_to(stage.problems[0].start(stage.shape)[:1], (stage.total, *stage.shape))
    if ask.engine == "numba":
        from mnemesh.engine.agents import AgentsByKernel

        return AgentsByKernel(stage, start, ask.dtype, longest)
    if ask.engine == "jax":
        from mnemesh.engine.compiled import JaxRounds

        return JaxRounds(stage, start, ask.dtype, longest)
    return NumpyRounds(stage, start, ask.dtype)


def _refuse_divergence(cut: Cut, numbers: np.ndarray, start: int) -> None:
    wrong = np.argwhere(~np.isfinite(numbers))
    if len(wrong):
        i, n = wrong[0].tolist()
        raise Diverged(int(cut.players[n]), start + i + 1)


def _comparator(cut: Cut, statistics: Statistics, horizon: int) -> np.ndarray:
    """Σ_t Σ_m w_{n,m} f_{m,t}(U*) of the agents that play, (n,)."""
    sparse = require("scipy.sparse", "regret in shards")
    starts, partners, weights, _ = cut.score
    weighted = sparse.csr_matrix((weights, partners, starts), shape=(len(cut.players), cut.problem.agents))
    mixed = Statistics(*(None if part is None else (weighted @ part.reshape(len(part), -1)).reshape(-1, *part.shape[1:]) for part in statistics))  # type: ignore[arg-type]
    try:
        return minimum(cut.problem, mixed, np.array([horizon]))[1]
    except RegretError:
        everyone = (None if part is None else np.zeros((int(cut.players[-1]) + 1, *part.shape[1:])) for part in mixed)
        whole = Statistics(*everyone)  # type: ignore[arg-type]
        for part, own in zip(whole, mixed, strict=True):
            if part is not None and own is not None:
                part[cut.players] = own
        minimum(cut.problem, whole, np.array([horizon]))  # refused again, by the agents' own numbers
        raise
