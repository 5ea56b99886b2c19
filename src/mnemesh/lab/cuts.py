"""A large simulation cut into shards: who plays in each, whose data they read, and what a worker is sent, nothing of which grows with N."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple, final

import numpy as np

from mnemesh.algorithms import Algorithm, Rows
from mnemesh.engine.stage import Stage
from mnemesh.errors import require
from mnemesh.interest import identity
from mnemesh.problem import Problem
from mnemesh.routing import Trees
from mnemesh.steps import Constant, Inverse, InverseSqrt, Step
from mnemesh.streams import Block, Given, Stream

__all__ = ["Cut", "Part", "cuts"]


class Cut(NamedTuple):
    """One shard. The entries of `score` and `learn` point at rows of what `stream` holds, in the order that the whole has them in."""

    players: np.ndarray  # the agents that play here, (n,), as the whole numbers them
    problem: Problem  # the loss, domain and features; its agents are those that are read
    algorithm: Algorithm
    stream: Stream
    shape: tuple[int, int]
    score: Rows
    learn: Rows
    tau_min: np.ndarray
    widths: tuple[int, int]  # of the widest row of the whole, in `score` and in `learn`
    complete: bool  # whether every agent of the whole cares about all


@final
class Part(Stream):
    """Some agents of a stream. Sent to another process, arrays go as these agents' share of them; every other stream goes as it is."""

    def __init__(self, stream: Stream, agents: np.ndarray) -> None:
        self._stream, self._who = stream, agents
        self.agents, self.rounds, self.key_dim, self.value_dim = len(agents), stream.rounds, stream.key_dim, stream.value_dim
        self.associations, self.masked, self.gated = stream.associations, stream.masked, stream.gated

    def block(self, first: int, last: int, agents: np.ndarray | None = None) -> Block:
        if agents is None and self.agents == self._stream.agents:
            return self._stream.block(first, last)  # a small stream is then drawn once, and kept
        return self._stream.block(first, last, self._who if agents is None else self._who[agents])

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self._stream, Given):
            return Given, (self._stream.block(0, self.rounds, self._who),)
        return Part, (self._stream, self._who)


@final
class _Own(Step):
    """The rates of some agents by a rule of somebody's own, which may give one for every agent."""

    name = "own"

    def __init__(self, rule: Step, players: np.ndarray, agents: int) -> None:
        self._rule, self._players, self._agents = rule, players, agents

    def rate(self, rounds: np.ndarray, tau_min: np.ndarray) -> np.ndarray:
        everyone = np.zeros((1, self._agents), dtype=np.int64)
        everyone[:, self._players] = tau_min
        rates = np.asarray(self._rule.rate(rounds, everyone))
        return rates[:, self._players] if rates.shape[-1] == self._agents else rates


def cuts(stage: Stage, shards: int, *, shared: bool) -> Iterator[Cut]:
    """The shards of a stage of one run. Unless `shared`, each reads the stream by itself, keeping its own place in it."""
    problem, algorithm, stream = stage.problems[0], stage.algorithms[0], stage.streams[0]
    tau_min = algorithm.tau_min(problem)
    widths = int(np.diff(stage.score.starts).max()), int(np.diff(stage.learn.starts).max())
    for players in _shares(stage, shards):
        score, learn = _rows(stage.score, players), _rows(stage.learn, players)
        read = np.unique(np.concatenate([score.partners, learn.partners]))
        yield Cut(
            players,
            Problem(problem.loss, problem.domain, identity(len(read)), problem.features),
            _alone(algorithm, players, stage.agents),
            Part(stream if shared else copy.copy(stream), read),
            stage.shape,
            score._replace(partners=np.searchsorted(read, score.partners)),
            learn._replace(partners=np.searchsorted(read, learn.partners)),
            tau_min[players],
            widths,
            bool(stage.complete),
        )


def _shares(stage: Stage, shards: int) -> list[np.ndarray]:
    """Who plays where: agents as they are numbered or, where that leaves less to read, as they lie along the network."""
    rows, agents = stage.score, stage.agents
    numbered = np.array_split(np.arange(agents), shards)
    if shards == 1 or len(rows.partners) * 4 > agents**2:
        return numbered
    csgraph, sparse = (require(name, "cutting a simulation") for name in ("scipy.sparse.csgraph", "scipy.sparse"))
    links = sparse.csr_matrix((np.ones(len(rows.partners), np.int8), rows.partners, rows.starts), shape=(agents, agents))
    along = [np.sort(part) for part in np.array_split(csgraph.reverse_cuthill_mckee(links), shards)]
    return min((numbered, along), key=lambda parts: sum(len(np.unique(_rows(rows, part).partners)) for part in parts))


def _rows(rows: Rows, agents: np.ndarray) -> Rows:
    """The rows of some agents."""
    sizes = np.diff(rows.starts)[agents]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    places = np.repeat(rows.starts[agents] - starts[:-1], sizes) + np.arange(starts[-1])
    return Rows(starts, *(part[places] for part in rows[1:]))


def _alone(algorithm: Algorithm, players: np.ndarray, agents: int) -> Algorithm:
    """The algorithm without its trees, which its rows stand for, and with the rates of these agents."""
    alone = copy.copy(algorithm)
    for name in [name for name, value in vars(alone).items() if isinstance(value, Trees)]:
        delattr(alone, name)
    rule: Any = algorithm.rule
    if not isinstance(rule, Constant | InverseSqrt | Inverse):
        alone.rule = _Own(rule, players, agents)
    elif np.ndim(rule.c):
        alone.rule = replace(rule, c=rule.c[players])
    return alone
