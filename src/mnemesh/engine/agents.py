"""Agent by agent: lays a stage out for the compiled kernel and spreads its agents over the cores."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from mnemesh.algorithms.algorithm import Rows
from mnemesh.domains import Ball, Box, Everything
from mnemesh.engine.kernel import BALL, BOX, EVERYTHING, KEY, NONE, SCALAR, VALUE, kernel
from mnemesh.engine.stage import Stage, pad
from mnemesh.errors import require
from mnemesh.streams.stream import Block

__all__ = ["AgentsByKernel", "threads"]

_AXES = {None: NONE, "value": VALUE, "key": KEY, "scalar": SCALAR}
_DOMAINS = {Everything: EVERYTHING, Ball: BALL, Box: BOX}
_LINE = 64  # bytes of a cache line
_MANY = 256  # agents from which work is cut finer than one piece a thread
_SCATTERED = 4_096  # agents from which it pays to play them along the network
_SPARSE = 4  # with fewer than one partner in so many agents, each agent's rounds lie together


def threads() -> int:
    """How many threads play: the cores this process may use, or what the environment variable MNEMESH_THREADS says."""
    if asked := os.environ.get("MNEMESH_THREADS"):
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _lanes(d_v: int, dtype: np.dtype) -> int:
    """Lanes of one piece of a memory's row: as wide as the registers carry without waste."""
    widest = 64 if dtype.itemsize == 4 else 32
    for width in (4, 8, 16, 32):
        if d_v <= width:
            return width
    waste = -d_v % widest
    return widest if waste <= d_v // 4 and _wide_registers() else 16


def _wide_registers() -> bool:
    from llvmlite import binding

    return bool(binding.get_host_cpu_features().get("avx512f", False))


def _aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.zeros(size + _LINE, dtype=np.uint8)
    start = -raw.ctypes.data % _LINE
    return raw[start : start + size].view(dtype).reshape(shape)


class AgentsByKernel:
    """The fast way to play Table 1's losses under OGD, local OGD and DAM-TOGD on a CPU."""

    name = "numba"

    def __init__(self, stage: Stage, memories: np.ndarray, dtype: Any, longest: int) -> None:
        self.stage, self.dtype, self.longest = stage, np.dtype(dtype), longest
        d_v, self._d = stage.shape
        lanes = _lanes(d_v, self.dtype)
        self._dv = -(-d_v // lanes) * lanes
        self._axis = _AXES["scalar" if stage.loss.decays and stage.loss.gate is None else stage.loss.gate]
        self._lay_out_rows()
        self._rounds = stage.ages[-1] + 1  # H
        self._back = self._rounds - 1
        self._lay_out_data()
        self._domain = _DOMAINS[type(stage.domain)]
        self._low, self._high = self._ends()
        self._play = kernel(self._d, self._dv, lanes, int(stage.loss.curvature or 0), self._axis, int(self._shared), self._domain)
        self._lanes, self._filled = lanes, 0
        total, history = stage.total, self._rounds if self._axis else 0
        self._memories = _aligned((total, self._d * self._dv), self.dtype)
        self._memories.reshape(total, self._d, self._dv)[:, :, :d_v] = memories.swapaxes(1, 2)
        self._pending = _aligned((total, self._rounds * self._learn.shape[1] * self._dv), self.dtype)
        width = {NONE: 0, VALUE: self._dv, KEY: self._d, SCALAR: 1}[self._axis]
        self._width = width
        self._coefficients = _aligned((total, history * len(stage.ages) * width), self.dtype)
        self._iterates = _aligned((total, history * self._d * self._dv), self.dtype)

    def _lay_out_rows(self) -> None:
        """Entries (partner, association) of each agent: those that teach first, then those that only count in the loss."""
        stage, count = self.stage, self.stage.associations
        teachers, self._people = pad(stage.learn, 4), pad(_teachers_first(stage.learn, stage.score), 4)
        spread = lambda part, dtype: np.ascontiguousarray(np.repeat(part.astype(dtype), count, axis=1))  # noqa: E731
        self._score = spread(self._people.weights, self.dtype)
        self._learn, self._delays = spread(teachers.weights, self.dtype), spread(teachers.delays, np.int64)
        beyond = ((0, 0), (0, self._people.partners.shape[1] - teachers.partners.shape[1]))
        self._decay_score, self._decay_learn = self._people.weights.astype(self.dtype), np.pad(teachers.weights, beyond).astype(self.dtype)
        self._decay_age = np.pad(np.searchsorted(stage.ages, teachers.delays), beyond).astype(np.int64)

    def _lay_out_data(self) -> None:
        """Where a chunk's keys and values lie. Dense interests: the agents of a round together; sparse ones: the rounds of an agent together."""
        stage, A = self.stage, self.stage.associations
        self._together = self._people.partners.shape[1] * _SPARSE > stage.agents
        self._shared = A > 1 or any(stream.masked for stream in stage.sources)
        sources, agents, kept = len(stage.sources), stage.agents, self.longest + self._back
        lead = (lambda rounds: (sources, rounds, agents, A)) if self._together else (lambda rounds: (sources, agents, rounds, A))
        self._keys = _aligned((*lead(kept), self._d), self.dtype)
        self._values = _aligned((*lead(self.longest), self._dv), self.dtype)
        self._share = _aligned(lead(self.longest), self.dtype) if self._shared else _aligned((1, 1, 1, 1), self.dtype)
        width = {NONE: 0, VALUE: self._dv, KEY: self._d, SCALAR: 1}[self._axis]
        self._decays = _aligned((*lead(self.longest)[:3], width), self.dtype)
        who = self._people.partners
        self._arrange()
        source, agent = who // agents, self._place[who]

        def places(rounds: int, width: int, associations: int) -> tuple[np.ndarray, int]:
            row = width * associations
            at = source * rounds * agents * row + agent * (row if self._together else rounds * row)
            at = (at[:, :, None] + np.arange(associations) * width).reshape(len(at), -1)
            return np.ascontiguousarray(at), agents * row if self._together else row

        self._key_at, self._key_step = places(kept, self._d, A)
        self._value_at, self._value_step = places(self.longest, self._dv, A)
        self._share_at, self._share_step = places(self.longest, 1, A)
        self._decay_at, self._decay_step = places(self.longest, width, 1)

    def _arrange(self) -> None:
        """In which order agents are played and their data lie: for many sparse ones, along the network, so that partners' data are in cache."""
        stage = self.stage
        self._order, self._place, self._permuted = np.arange(stage.total), np.tile(np.arange(stage.agents), len(stage.sources)), False
        if self._together or stage.runs > 1 or stage.agents < _SCATTERED:
            return
        csgraph = require("scipy.sparse.csgraph", 'engine="numba"')
        sparse = require("scipy.sparse", 'engine="numba"')
        links = sparse.csr_matrix((np.ones(len(stage.score.partners), np.int8), stage.score.partners, stage.score.starts), shape=(stage.agents,) * 2)
        self._order = csgraph.reverse_cuthill_mckee(links).astype(np.int64)
        self._place[self._order] = np.arange(stage.agents)
        self._permuted = True

    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        domain, (d_v, d_phi) = self.stage.domain, self.stage.shape
        low, high = np.zeros((2, self._d, self._dv), dtype=self.dtype)
        if isinstance(domain, Box):
            low[:, :d_v], high[:, :d_v] = (np.broadcast_to(end, (d_v, d_phi)).T for end in (domain.low, domain.high))
        elif isinstance(domain, Ball):
            high[:] = domain.limit
        return low.ravel(), high.ravel()

    @property
    def memories(self) -> np.ndarray:
        """X_{n,t} of the next round."""
        rows = self._memories.reshape(self.stage.total, self._d, self._dv)
        return np.ascontiguousarray(rows[:, :, : self.stage.shape[0]].swapaxes(1, 2))

    def play(self, block: Block, start: int, rates: np.ndarray) -> np.ndarray:
        """Play the block, whose first round is start + 1, at rates that reach τ_max rounds further; losses (R, B·N)."""
        losses = np.empty((self.stage.total, len(block.keys)), dtype=self.dtype)
        lines = np.ascontiguousarray(rates.T, dtype=self.dtype)
        rate_at = np.arange(self.stage.total) // (self.stage.total // len(lines)) * lines.shape[1]
        ages = np.array(self.stage.ages, dtype=np.int64)

        def some(cut: tuple[int, int]) -> None:
            scratch = _aligned((max(self._lanes, self._width),), self.dtype)
            slot = np.zeros(self._learn.shape[1], dtype=np.int64)
            self._play(
                self._order[slice(*cut)], start, self._back, self._keys.ravel(), self._key_at, self._key_step, self._values.ravel(), self._value_at, self._value_step,
                self._share.ravel(), self._share_at, self._share_step, self._score, self._learn, self._delays, lines.ravel(), rate_at,
                self._memories, self._pending, losses, self._decays.ravel(), self._decay_at, self._decay_step,
                self._decay_score, self._decay_learn, self._decay_age, ages, self._coefficients, self._iterates, self._low, self._high, scratch, slot,
            )  # fmt: skip

        workers = threads()
        if workers == 1:
            self._fill(block, 0, self.stage.agents)
            some((0, self.stage.total))
        else:
            with ThreadPoolExecutor(workers) as pool:
                list(pool.map(lambda cut: self._fill(block, *cut), _cuts(self.stage.agents, workers)))
                list(pool.map(some, _cuts(self.stage.total, workers * (1 if self.stage.total < _MANY else 8))))
        self._filled = len(block.keys)
        return losses.T

    def _fill(self, block: Block, first: int, last: int) -> None:
        """Lay out these agents' data, after what the longest delay still needs of the rounds before."""
        rounds, back, stage = len(block.keys), self._back, self.stage
        share, active = block.share, block.active
        for source in range(len(stage.sources)):
            here: Any = slice(source * stage.agents + first, source * stage.agents + last)
            if self._permuted:
                here = self._order[first:last]
            keys = self._view(self._keys, source, first, last)
            keys[:back] = keys[self._filled : self._filled + back].copy()
            keys[back : back + rounds] = stage.features(block.keys[:, here])
            self._view(self._values, source, first, last)[:rounds, ..., : stage.shape[0]] = block.values[:, here]
            if self._shared:
                self._view(self._share, source, first, last)[:rounds] = 1 if share is None else share[:, here]
            if self._axis:
                seeing = np.ones(1) if active is None else active[:, here, None].astype(np.float64)
                gates = 0 if stage.loss.gate is None else block.gates[:, here].reshape(rounds, last - first, -1)  # type: ignore[index]
                self._view(self._decays, source, first, last)[:rounds, :, : np.shape(gates)[-1] if np.ndim(gates) else 1] = (1 - gates) * seeing

    def _view(self, array: np.ndarray, source: int, first: int, last: int) -> np.ndarray:
        """Some agents of a source, the rounds first whichever way the array lies."""
        return array[source][:, first:last] if self._together else array[source][first:last].swapaxes(0, 1)

    def dump(self) -> dict[str, np.ndarray]:
        """The state as arrays by name."""
        keys = [self._view(self._keys, source, 0, self.stage.agents)[self._filled : self._filled + self._back] for source in range(len(self.stage.sources))]
        return {
            "memories": self._memories, "pending": self._pending, "coefficients": self._coefficients, "iterates": self._iterates,
            "keys": np.stack(keys),
        }  # fmt: skip

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Take up a dumped state."""
        self._memories[:], self._pending[:] = arrays["memories"], arrays["pending"]
        self._coefficients[:], self._iterates[:] = arrays["coefficients"], arrays["iterates"]
        self._filled = 0
        for source, keys in enumerate(arrays["keys"]):
            self._view(self._keys, source, 0, self.stage.agents)[: self._back] = keys


def _teachers_first(learn: Rows, score: Rows) -> Rows:
    """Every agent's partners in learning, in their order, then the others in its loss; weighted by the loss."""
    if np.array_equal(learn.starts, score.starts) and np.array_equal(learn.partners, score.partners):
        return score
    agents, span = len(score.starts) - 1, 1 + int(max(learn.partners.max(), score.partners.max()))
    of_learn, of_score = (np.repeat(np.arange(agents), np.diff(rows.starts)) for rows in (learn, score))
    learnt, scored = of_learn * span + learn.partners, of_score * span + score.partners
    found = np.searchsorted(scored, learnt)
    found[found == len(scored)] = 0
    weights = np.where(scored[found] == learnt, score.weights[found], 0.0)
    rest = ~np.isin(scored, learnt)
    owner = np.concatenate([of_learn, of_score[rest]])
    order = np.argsort(owner, kind="stable")
    partners, weights = np.concatenate([learn.partners, score.partners[rest]])[order], np.concatenate([weights, score.weights[rest]])[order]
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=agents))])
    return Rows(starts, partners, weights, np.zeros(len(partners), dtype=np.int64))


def _cuts(count: int, pieces: int) -> list[tuple[int, int]]:
    ends = np.linspace(0, count, min(pieces, count) + 1).astype(int)
    return list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))
