"""A batch of runs as one bigger network: rows of partners laid end to end, so that whatever plays one run plays many."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mnemesh.algorithms.algorithm import Algorithm, Rows, rows_of
from mnemesh.cores import each, threads
from mnemesh.errors import ShapeError
from mnemesh.problem import Problem
from mnemesh.steps import Constant, Inverse, InverseSqrt, Rates
from mnemesh.streams.stream import Block, Stream

__all__ = ["Stage", "check_same", "pad"]

_SEVERAL = 4  # sources from which they are read side by side


class Stage:
    """Runs of one shape, loss, feature map, domain and kind of algorithm. Agent n of run b is agent b·N + n here; rows point into the sample."""

    def __init__(self, problems: Sequence[Problem], algorithms: Sequence[Algorithm], streams: Sequence[Stream], shape: tuple[int, int]) -> None:
        self.problems, self.algorithms, self.streams, self.shape = problems, algorithms, streams, shape
        first = problems[0]
        self.loss, self.features, self.domain, self.algorithm = first.loss, first.features, first.domain, algorithms[0]
        self.runs, self.agents = len(problems), first.agents
        self.sources = list({id(stream): stream for stream in streams}.values())  # a stream shared by runs is read once
        where = {id(stream): place for place, stream in enumerate(self.sources)}
        self._data_offset = np.array([where[id(stream)] * self.agents for stream in streams])
        self._rows, tau_mins = self._once()
        self._rates = self._joined(tau_mins)

    @property
    def total(self) -> int:
        """Agents of all runs together."""
        return self.runs * self.agents

    @property
    def samples(self) -> int:
        """Rows of a sample."""
        return len(self.sources) * self.agents

    @property
    def rounds(self) -> int:
        """T."""
        return self.streams[0].rounds

    @property
    def associations(self) -> int:
        """A."""
        return self.streams[0].associations

    @cached_property
    def score(self) -> Rows:
        """𝒲_n and w of every run."""
        posed = {id(problem): rows_of(problem) for problem in self.problems}
        return _stack([posed[id(problem)] for problem in self.problems], self._data_offset)

    @cached_property
    def learn(self) -> Rows:
        """𝒫_n, p and δ of every run."""
        return _stack(self._rows, self._data_offset)

    @cached_property
    def mixing(self) -> Rows | None:
        """a_{n,m} of every run, pointing at agents."""
        rows = [a.mixing(p) for a, p in zip(self.algorithms, self.problems, strict=True)]
        kept = [row for row in rows if row is not None]
        return _stack(kept, np.arange(self.runs) * self.agents) if kept else None

    @cached_property
    def ages(self) -> tuple[int, ...]:
        """The delays in use."""
        return tuple(np.flatnonzero(np.bincount(self.learn.delays)).tolist())

    def rates(self, first: int, last: int) -> np.ndarray:
        """η of rounds first .. last, counted from 1, both included: (R, B) where the agents of a run share it, else (R, B·N)."""
        by_rule = [rates(first, last) for rates in self._rates]
        if len(by_rule) == 1 or all(rates.shape[1] == 1 for rates in by_rule):
            return np.concatenate(by_rule, axis=1)
        return np.concatenate([np.broadcast_to(rates, (len(rates), self.agents)) for rates in by_rule], axis=1)

    def _once(self) -> tuple[list[Rows], list[np.ndarray]]:
        """Rows and τ_min of every run; found once for runs that share a problem and what their algorithms are made of."""
        known: dict[Any, tuple[Rows, np.ndarray]] = {}
        found = []
        for algorithm, problem in zip(self.algorithms, self.problems, strict=True):
            made_of = ((name, id(value)) for name, value in vars(algorithm).items() if name != "rule")
            key = (id(problem), type(algorithm), *made_of)
            if key not in known:
                known[key] = algorithm.rows(problem), algorithm.tau_min(problem)
            found.append(known[key])
        return [rows for rows, _ in found], [tau for _, tau in found]

    def _joined(self, tau_mins: list[np.ndarray]) -> list[Rates]:
        """The rates of every run; of many runs that differ in one number each, as one rule with many numbers."""
        rules: list[Any] = [algorithm.rule for algorithm in self.algorithms]
        kinds = {type(rule) for rule in rules}
        plain = self.runs > 1 and len(kinds) == 1 and kinds <= {Constant, InverseSqrt} and all((tau == tau[0]).all() for tau in tau_mins)
        if plain and all(np.ndim(rule.c) == 0 for rule in rules):
            joined = kinds.pop()(np.array([rule.c for rule in rules]))
            return [Rates(joined, np.array([tau[0] for tau in tau_mins]))]
        return [Rates(rule, tau) for rule, tau in zip(rules, tau_mins, strict=True)]

    @cached_property
    def complete(self) -> int:
        """How many sources there are where each run cares about all its agents, and runs and sources pair up; 0 elsewhere."""
        rows, n = self.score, self.agents
        full = len(rows.partners) == self.total * n and len(self.sources) in (1, self.runs)
        if not full or not (rows.partners.reshape(self.runs, n, n) == np.arange(n) + self._data_offset[:, None, None]).all():
            return 0
        return len(self.sources) if len(self.sources) == 1 or (np.diff(self._data_offset) == n).all() else 0

    @property
    def endless(self) -> bool:
        """Whether the rates are known past the horizon: a callable of somebody's own may end there."""
        return all(isinstance(algorithm.rule, Constant | InverseSqrt | Inverse) for algorithm in self.algorithms)

    def rates_reaching(self, first: int, last: int) -> np.ndarray:
        """η of the rounds first + 1 .. last and of τ_max more, for replies under way; where they are not known, nothing uses them either."""
        reach = last + self.ages[-1]
        rates = self.rates(first + 1, reach if self.endless else min(reach, self.rounds))
        return np.concatenate([rates, np.repeat(rates[-1:], reach - first - len(rates), axis=0)])

    def read(self, first: int, last: int) -> list[Block]:
        """Rounds first + 1 .. last of every source."""
        workers = threads() if len(self.sources) >= _SEVERAL else 1
        parts = [self.sources[place::workers] for place in range(workers)]
        read = each(lambda part: [stream.block(first, last) for stream in part], parts, workers)
        blocks = [read[place % workers][place // workers] for place in range(len(self.sources))]
        for block, stream in zip(blocks, self.sources, strict=True):
            if block.present is not None and not stream.masked:
                raise ShapeError(f"{stream!r} masks associations and says masked=False: engines would count absent ones. Set masked=True.")
            self.problems[0].check_gates(block, self.shape)
        return blocks

    def side_by_side(self, blocks: Sequence[Block]) -> Block:
        """All sources' agents as the agents of one block."""
        if len(blocks) == 1:
            return blocks[0]
        keys, values = (np.concatenate(parts, axis=1) for parts in ([block.keys for block in blocks], [block.values for block in blocks]))
        gates = None if self.loss.gate is None else np.concatenate([np.asarray(block.gates) for block in blocks], axis=1)
        present = None
        if any(block.present is not None for block in blocks):
            present = np.concatenate([np.ones(b.keys.shape[:3], dtype=bool) if b.present is None else b.present for b in blocks], axis=1)
        return Block(keys, values, gates, present)

    def by_source(self, array: np.ndarray) -> np.ndarray:
        """The first axis of all sources' agents as (sources, agents)."""
        return array.reshape(len(self.sources), self.agents, *array.shape[1:])

    def split(self, array: np.ndarray, axis: int = 0) -> np.ndarray:
        """The axis of all agents as (runs, agents), the runs first."""
        shape = array.shape
        return np.moveaxis(array.reshape(*shape[:axis], self.runs, self.agents, *shape[axis + 1 :]), axis, 0)


def _stack(rows: Sequence[Rows], offsets: np.ndarray) -> Rows:
    if len(rows) == 1 and offsets[0] == 0:
        return rows[0]
    if all(row is rows[0] for row in rows):  # many runs of one network, at once
        sizes = np.tile(np.diff(rows[0].starts), len(rows))
        partners = (rows[0].partners + offsets[:, None]).ravel()
        weights, delays = (np.tile(rows[0][place], len(rows)) for place in (2, 3))
        return Rows(np.concatenate([[0], np.cumsum(sizes)]), partners, weights, delays)
    sizes = np.concatenate([np.diff(row.starts) for row in rows])
    partners = np.concatenate([row.partners + offset for row, offset in zip(rows, offsets, strict=True)])
    weights, delays = (np.concatenate([row[place] for row in rows]) for place in (2, 3))
    return Rows(np.concatenate([[0], np.cumsum(sizes)]), partners, weights, delays)


def pad(rows: Rows, fill: int = 1) -> Rows:
    """Ragged rows as (N, P), P a multiple of `fill`: partner 0, weight 0 and delay 0 beyond a row's end."""
    sizes = np.diff(rows.starts)
    width = max(-(-int(sizes.max()) // fill) * fill, fill)
    inside = np.arange(width) < sizes[:, None]
    padded = [np.zeros((len(sizes), width), dtype=part.dtype) for part in rows[1:]]
    for full, part in zip(padded, rows[1:], strict=True):
        full[inside] = part
    return Rows(rows.starts, *padded)


def check_same(problems: Sequence[Problem], streams: Sequence[Stream]) -> tuple[int, int]:
    """The memory shape that all runs share, or an error."""
    shapes = {problem.shape(stream) for problem, stream in zip(problems, streams, strict=True)}
    sizes = {(stream.rounds, stream.agents, stream.associations) for stream in streams}
    if len(shapes) > 1 or len(sizes) > 1:
        raise ShapeError(f"runs of different shapes (rounds, agents, associations {sorted(sizes)}; memories {sorted(shapes)}) cannot be stacked: run them apart.")
    return shapes.pop()
