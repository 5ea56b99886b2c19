"""How a stage lies in memory for the compiled kernel: whose data each agent reads, with what weights, and where the next rounds are put."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mnemesh.algorithms.algorithm import Rows
from mnemesh.engine.kernel import KEY, NONE, SCALAR, VALUE, scatter
from mnemesh.engine.stage import Stage, pad
from mnemesh.errors import require
from mnemesh.features import Identity
from mnemesh.streams.stream import Block

__all__ = ["Layout", "Piece", "aligned"]

_AXES = {"value": VALUE, "key": KEY, "scalar": SCALAR}
_LINE = 64  # bytes of a cache line
_SPARSE = 4  # with fewer than one partner in so many agents, each agent's rounds lie together
_SCATTERED = 4_096  # agents from which it pays to play sparse ones along the network


def aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros that begin on a cache line."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.zeros(size + _LINE, dtype=np.uint8)
    start = -raw.ctypes.data % _LINE
    return raw[start : start + size].view(dtype).reshape(shape)


Piece = tuple[int, int, int]  # a source and some of its places, from .. to; where places are permuted, agents as far as keys and values go


class Layout:
    """Agents by place, which is the order they are played in; their entries (partner, association), those that teach first; and room for rounds."""

    def __init__(self, stage: Stage, dtype: np.dtype, padded: int, longest: int) -> None:
        self.stage, self.dtype, self.padded, self.longest = stage, dtype, padded, longest
        self.axis = _AXES[stage.loss.gate or "scalar"] if stage.loss.decays else NONE
        self.width = {NONE: 0, VALUE: padded, KEY: stage.shape[1], SCALAR: 1}[self.axis]
        self.back = stage.ages[-1]
        self.shared = stage.associations > 1 or any(stream.masked for stream in stage.sources)
        sparse = int(np.diff(stage.score.starts).max()) * _SPARSE <= stage.agents
        self.together = not sparse
        self.permuted = sparse and stage.runs == 1 and stage.samples == stage.total >= _SCATTERED
        self.order = _along_the_network(stage.score) if self.permuted else np.arange(stage.total)
        self.place = np.argsort(self.order)
        self._rows()
        self._room()
        self._filled = 0

    def _rows(self) -> None:
        """score (N, E), learn and delays (N, U), by place; for decays the same by partner."""
        stage = self.stage
        teachers, people = pad(stage.learn, 4), pad(_teachers_first(stage.learn, stage.score), 4)
        if self.permuted:
            teachers, people = (Rows(rows.starts, *(part[self.order] for part in rows[1:])) for rows in (teachers, people))
        spread = lambda part, dtype: np.ascontiguousarray(np.repeat(part.astype(dtype), stage.associations, axis=1))  # noqa: E731
        self.score, self.learn = spread(people.weights, self.dtype), spread(teachers.weights, self.dtype)
        self.delays = spread(teachers.delays, np.int64)
        beyond = ((0, 0), (0, people.partners.shape[1] - teachers.partners.shape[1]))
        self.decay_score, self.decay_learn = people.weights.astype(self.dtype), np.pad(teachers.weights, beyond).astype(self.dtype)
        self.decay_age = np.pad(np.searchsorted(stage.ages, teachers.delays), beyond).astype(np.int64)
        self._people = people.partners

    def _room(self) -> None:
        """Buffers for a stretch of rounds, and where in them each entry begins. Agents of a round lie together, or rounds of an agent."""
        stage, sources = self.stage, len(self.stage.sources)
        agents, associations = stage.agents, stage.associations
        source, agent = np.divmod(self._people, agents)
        if self.permuted:
            agent = self.place[agent]

        def room(rounds: int, width: int, count: int) -> tuple[np.ndarray, np.ndarray, int]:
            row = width * count
            shape = (sources, rounds, agents, count, width) if self.together else (sources, agents, rounds, count, width)
            at = source * rounds * agents * row + agent * (row if self.together else rounds * row)
            at = (at[:, :, None] + np.arange(count) * width).reshape(len(at), -1)
            return aligned(shape, self.dtype), np.ascontiguousarray(at), agents * row if self.together else row

        self.keys, self.key_at, self.key_step = room(self.longest + self.back, stage.shape[1], associations)
        self.values, self.value_at, self.value_step = room(self.longest, self.padded, associations)
        self.share, self.share_at, self.share_step = room(self.longest if self.shared else 1, 1, associations)
        self.decays, self.decay_at, self.decay_step = room(self.longest, self.width, 1)

    def _view(self, array: np.ndarray, source: int, first: int, last: int) -> np.ndarray:
        """Some places of a source, the rounds first whichever way the array lies."""
        return array[source][:, first:last] if self.together else array[source][first:last].swapaxes(0, 1)

    def keep(self, pieces: Sequence[Piece]) -> None:
        """Move to the front the keys that the longest delay still needs."""
        for piece in pieces:
            keys = self._view(self.keys, *piece)
            keys[: self.back] = keys[self._filled : self._filled + self.back].copy()

    def fill(self, blocks: Sequence[Block], pieces: Sequence[Piece]) -> None:
        """Put the next rounds after the keys that were kept."""
        for source, first, last in pieces:
            self._fill(blocks[source], source, first, last)

    def _fill(self, block: Block, source: int, first: int, last: int) -> None:
        rounds, stage = len(block.keys), self.stage
        here: Any = self.order[first:last] if self.permuted else slice(first, last)
        if self.permuted:
            if isinstance(stage.features, Identity):
                scatter(self.keys[source], block.keys, self.place, first, last, self.back)
            else:  # of these agents alone: every thread comes by here
                features = stage.features(block.keys[:, first:last])
                scatter(self.keys[source], features, self.place[first:last], 0, last - first, self.back)
            scatter(self.values[source], block.values, self.place, first, last, 0)
        else:
            self._view(self.keys, source, first, last)[self.back : self.back + rounds] = stage.features(block.keys[:, here])
            self._view(self.values, source, first, last)[:rounds, ..., : stage.shape[0]] = block.values[:, here]
        share, active = block.share, block.active
        if self.shared:
            self._view(self.share, source, first, last)[:rounds, ..., 0] = 1 if share is None else share[:, here]
        if self.axis:
            decay = np.ones((1, 1, 1)) if stage.loss.gate is None else 1 - block.gates[:, here].reshape(rounds, last - first, -1)  # type: ignore[index]
            seeing = 1 if active is None else active[:, here, None]
            self._view(self.decays, source, first, last)[:rounds, :, 0, : decay.shape[-1]] = decay * seeing

    def filled(self, rounds: int) -> None:
        """Say how many rounds were put in."""
        self._filled = rounds

    def kept(self) -> np.ndarray:
        """The keys that the next stretch will keep, (sources, rounds, places, A, d_φ)."""
        span = slice(self._filled, self._filled + self.back)
        return np.stack([self._view(self.keys, source, 0, self.stage.agents)[span] for source in range(len(self.keys))])

    def restore(self, kept: np.ndarray) -> None:
        """Take up keys from `kept`."""
        self._filled = 0
        for source, keys in enumerate(kept):
            self._view(self.keys, source, 0, self.stage.agents)[: self.back] = keys


def _along_the_network(rows: Rows) -> np.ndarray:
    """Agents in an order in which partners are near each other, so that their data are in cache when they are read."""
    csgraph, sparse = (require(name, 'engine="numba"') for name in ("scipy.sparse.csgraph", "scipy.sparse"))
    agents = len(rows.starts) - 1
    links = sparse.csr_matrix((np.ones(len(rows.partners), np.int8), rows.partners, rows.starts), shape=(agents, agents))
    return np.asarray(csgraph.reverse_cuthill_mckee(links), dtype=np.int64)


def _teachers_first(learn: Rows, score: Rows) -> Rows:
    """Every agent's partners in learning, in their order, then the others in its loss; weighted by the loss."""
    if np.array_equal(learn.starts, score.starts) and np.array_equal(learn.partners, score.partners):
        return score
    agents, span = len(score.starts) - 1, 1 + int(max(learn.partners.max(), score.partners.max()))
    of_learn, of_score = (np.repeat(np.arange(agents), np.diff(rows.starts)) for rows in (learn, score))
    learnt, scored = of_learn * span + learn.partners, of_score * span + score.partners
    found = np.searchsorted(scored, learnt)
    found[found == len(scored)] = 0
    once = np.zeros(len(learnt), dtype=bool)
    once[np.unique(learnt, return_index=True)[1]] = True  # who teaches at two delays counts once in the loss
    weights = np.where(once & (scored[found] == learnt), score.weights[found], 0.0)
    rest = ~np.isin(scored, learnt)
    owner = np.concatenate([of_learn, of_score[rest]])
    order = np.argsort(owner, kind="stable")
    partners, weights = np.concatenate([learn.partners, score.partners[rest]])[order], np.concatenate([weights, score.weights[rest]])[order]
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=agents))])
    return Rows(starts, partners, weights, np.zeros(len(partners), dtype=np.int64))
