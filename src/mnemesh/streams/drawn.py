"""Teachers' data drawn on the host: NumPy's Philox per block of agents and rounds, so that whoever draws a part draws the same numbers."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, final

import numpy as np

from mnemesh.cores import each, threads
from mnemesh.draws import AGENT_BLOCK, ROUND_BLOCK, generator
from mnemesh.streams.stream import ROUNDS_AT_ONCE, Block
from mnemesh.streams.taught import Taught

__all__ = ["Teacher", "teacher"]

KEPT_SIZE = 2**26  # bytes of a stream that is drawn once and kept
KEPT_TOTAL = 2**29  # bytes that all of them keep
PIECE = 2**16  # numbers drawn at once: they stay in cache until they are in place
WORTH_THREADS = 2**18  # numbers; below, starting threads costs more than they save

_kept = 0


class _Sources(NamedTuple):
    keys: np.random.Generator
    noise: np.random.Generator
    gates: np.random.Generator
    presence: np.random.Generator


@final
@dataclass(eq=False, repr=False)
class Teacher(Taught):
    """The paper's generator. A small stream is kept after the first pass; of a large one nothing is, so read it in stretches of 16 rounds or more.

    A longer horizon begins with a shorter one's data. More agents keep the data of whole blocks of 1,024 agents, and everybody's teacher.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._cursors: dict[int, tuple[int, int, _Sources]] = {}  # where the next stretch of an agent block begins

    def block(self, first: int, last: int, agents: np.ndarray | None = None) -> Block:
        self.check_range(first, last)
        if "_whole" in vars(self) or (agents is None and self._may_keep()):
            return self._whole.part(first, last, agents)
        return self._draw(first, last, agents)

    def _may_keep(self) -> bool:
        global _kept
        numbers = self.associations * (self.key_dim + self.value_dim) + (np.prod(self.gate_shape, dtype=int) if self.gated else 0)
        size = int(self.rounds * self.agents * (numbers * np.dtype(self.dtype).itemsize + (self.associations if self.masked else 0)))
        if size > KEPT_SIZE or _kept + size > KEPT_TOTAL:
            return False
        _kept += size
        weakref.finalize(self, _release, size)
        return True

    def _read_whole(self) -> Block:
        block = self._draw(0, self.rounds, None)
        for array in (block.keys, block.values, block.gates, block.present):
            if array is not None:
                array.setflags(write=False)  # everybody who reads the stream shares it
        return block

    def _draw(self, first: int, last: int, agents: np.ndarray | None) -> Block:
        chosen = np.arange(self.agents) if agents is None else np.arange(self.agents)[agents]
        shape, dtype = (last - first, len(chosen)), np.dtype(self.dtype)
        places = (*shape, self.associations)
        block = Block(
            np.empty((*places, self.key_dim), dtype),
            np.empty((*places, self.value_dim), dtype),
            np.empty((*shape, *self.gate_shape), dtype) if self.gated else None,
            np.empty(places, bool) if self.masked else None,
        )
        agent_blocks = np.unique(chosen // AGENT_BLOCK).tolist()
        for agent_block in agent_blocks:
            self.teachers(agent_block)  # before the threads, which would each draw them
        tasks = list(product(range(first // ROUND_BLOCK, -(-last // ROUND_BLOCK)), agent_blocks))

        def fill(task: tuple[int, int]) -> None:
            self._fill(block, first, last, chosen, *task)

        each(fill, tasks, min(len(tasks), threads()) if block.keys.size + block.values.size >= WORTH_THREADS else 1)
        return block

    def _fill(self, block: Block, first: int, last: int, chosen: np.ndarray, round_block: int, agent_block: int) -> None:
        """Draw what `block` needs of one block of agents and rounds, and put it in its place."""
        start = round_block * ROUND_BLOCK
        low = (max(first - start, 0) // ROUNDS_AT_ONCE) * ROUNDS_AT_ONCE
        high = min(-(-(last - start) // ROUNDS_AT_ONCE) * ROUNDS_AT_ONCE, ROUND_BLOCK)
        count = min(self.agents - agent_block * AGENT_BLOCK, AGENT_BLOCK)
        columns = np.flatnonzero(chosen // AGENT_BLOCK == agent_block)
        local = chosen[columns] - agent_block * AGENT_BLOCK
        everyone = len(local) == count and (local == np.arange(count)).all() and columns[-1] - columns[0] == count - 1
        into: Any = slice(columns[0], columns[-1] + 1) if everyone else columns
        take: Any = slice(None) if everyone else local
        for at, piece in self._pieces(round_block, agent_block, count, low, high):
            begin, end = max(first - start, at), min(last - start, at + len(piece.keys))
            for target, source in ((block.keys, piece.keys), (block.values, piece.values), (block.gates, piece.gates), (block.present, piece.present)):
                if target is not None and source is not None:
                    target[start + begin - first : start + end - first, into] = source[begin - at : end - at, take]

    def _pieces(self, round_block: int, agent_block: int, count: int, low: int, high: int) -> Iterable[tuple[int, Block]]:
        """Rounds `low` to `high` of a block, in pieces that fit the cache, from where the last reader stopped or from the block's beginning."""
        at, sources = 0, None
        cursor = self._cursors.pop(agent_block, None)
        if cursor is not None and cursor[0] == round_block and cursor[1] <= low:
            _, at, sources = cursor
        if sources is None:
            sources = _Sources(*(generator(self.seed, f"teacher/{purpose}", agent_block, round_block) for purpose in _Sources._fields))
        size = count * self.associations * (self.key_dim + self.value_dim)
        step = max(PIECE // size // ROUNDS_AT_ONCE, 1) * ROUNDS_AT_ONCE
        while at < high:
            rounds = min(step, (low if at < low else high) - at)
            piece = self._piece(sources, agent_block * AGENT_BLOCK, count, rounds)
            if at >= low:
                yield at, piece
            at += rounds
        if at < ROUND_BLOCK:
            self._cursors[agent_block] = (round_block, at, sources)

    def _piece(self, sources: _Sources, first_agent: int, count: int, rounds: int) -> Block:
        """The next rounds of an agent block. Values are computed 16 rounds at a time: the same product, so the same bits, for every reader."""
        dtype: Any = np.dtype(self.dtype).type
        places = (rounds, count, self.associations)
        keys = sources.keys.random((*places, self.key_dim), dtype=dtype)
        keys -= dtype(0.5)
        keys *= dtype(2 * self.key_range)
        values = sources.noise.standard_normal((*places, self.value_dim), dtype=dtype)
        values *= dtype(self.noise)
        answers = np.empty((rounds // ROUNDS_AT_ONCE, ROUNDS_AT_ONCE, *values.shape[1:]), dtype)
        by_agent = (0, 2, 3, 1, 4)
        matrices = self.teachers(first_agent // AGENT_BLOCK)
        keys_then = keys.reshape(*answers.shape[:-1], self.key_dim)
        np.matmul(keys_then.transpose(by_agent), matrices.swapaxes(1, 2)[:, None], out=answers.transpose(by_agent))
        values += answers.reshape(values.shape)
        gates = present = None
        if self.gated:
            gates = (sources.gates.random((rounds, count, *self.gate_shape), dtype=np.float32) < self.gate_probability).astype(dtype)
        if self.masked:
            present = sources.presence.random(places, dtype=np.float32) < self.presence
            keys *= present[..., None]
            values *= present[..., None]
        return Block(keys, values, gates, present)


def _release(size: int) -> None:
    global _kept
    _kept -= size


def teacher(*, agents: int, key_dim: int, value_dim: int, rounds: int, correlation: float, seed: int, **options: Any) -> Teacher:
    """The paper's data with correlation ρ, drawn on the host. Options and their defaults: those of `Teacher`.

    >>> import mnemesh as mm
    >>> mm.streams.teacher(agents=3, key_dim=2, value_dim=2, rounds=50, correlation=0.5, seed=1, noise=0.1).keys.shape
    (50, 3, 2)
    """
    return Teacher(agents=agents, key_dim=key_dim, value_dim=value_dim, rounds=rounds, correlation=correlation, seed=seed, **options)
