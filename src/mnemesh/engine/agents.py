"""Agent by agent: plays a stage with the compiled kernel, its agents spread over the cores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from mnemesh.cores import each, threads
from mnemesh.domains import Ball, Box, Everything
from mnemesh.engine.kernel import BALL, BOX, EVERYTHING, kernel
from mnemesh.engine.layout import Layout, aligned
from mnemesh.engine.rounds import same_state
from mnemesh.engine.stage import Stage
from mnemesh.streams.stream import Block

__all__ = ["AgentsByKernel"]

_DOMAINS = {Everything: EVERYTHING, Ball: BALL, Box: BOX}
_WORTH_THREADS = 2**23  # multiply-adds of a stretch; below, starting threads costs more than they save
_PIECES = 5  # of work for each thread, so that one that is held up delays little


def _lanes(d_v: int, dtype: np.dtype) -> int:
    """Lanes of one piece of a memory's row: as wide as the registers carry without waste."""
    for width in (4, 8, 16, 32):
        if d_v <= width:
            return width
    widest = 64 if dtype.itemsize == 4 else 32
    return widest if -d_v % widest <= d_v // 4 and _wide_registers() else 16


def _wide_registers() -> bool:
    from llvmlite import binding

    return bool(binding.get_host_cpu_features().get("avx512f", False))


class AgentsByKernel:
    """The fast way to play Table 1's losses under OGD, local OGD and DAM-TOGD on a CPU. Agents are kept by place, as they are laid out."""

    name = "numba"

    def __init__(self, stage: Stage, memories: np.ndarray, dtype: Any, longest: int) -> None:
        self.stage, self.dtype = stage, np.dtype(dtype)
        (d_v, d_phi), total = stage.shape, stage.total
        self._lanes = _lanes(d_v, self.dtype)
        d_v = -(-d_v // self._lanes) * self._lanes
        self._at = Layout(stage, self.dtype, d_v, longest)
        domain = _DOMAINS[type(stage.domain)]
        self._play = kernel(d_phi, d_v, self._lanes, int(stage.loss.curvature or 0), self._at.axis, int(self._at.shared), domain)
        self._low, self._high = self._ends(d_phi, d_v)
        rounds = stage.ages[-1] + 1
        history = rounds if self._at.axis else 0
        self._memories = aligned((total, d_phi, d_v), self.dtype)
        self._memories[:, :, : stage.shape[0]] = memories[self._at.order].swapaxes(1, 2)
        self._pending = aligned((total, rounds * self._at.learn.shape[1] * d_v), self.dtype)
        self._coefficients = aligned((total, history * len(stage.ages) * self._at.width), self.dtype)
        self._iterates = aligned((total, history * d_phi * d_v), self.dtype)

    def _ends(self, d_phi: int, padded: int) -> tuple[np.ndarray, np.ndarray]:
        """The ends of a box, or a ball's radius, as the memories lie."""
        domain, (d_v, _) = self.stage.domain, self.stage.shape
        low, high = np.zeros((2, d_phi, padded), dtype=self.dtype)
        if isinstance(domain, Box):
            low[:, :d_v], high[:, :d_v] = (np.broadcast_to(end, self.stage.shape).T for end in (domain.low, domain.high))
        elif isinstance(domain, Ball):
            high[:] = domain.limit
        return low.ravel(), high.ravel()

    @property
    def memories(self) -> np.ndarray:
        """X_{n,t} of the next round."""
        memories = self._memories[:, :, : self.stage.shape[0]].swapaxes(1, 2)
        return memories[self._at.place] if self._at.permuted else np.ascontiguousarray(memories)

    def play(self, blocks: Sequence[Block], start: int, rates: np.ndarray) -> np.ndarray:
        """Play the sources' blocks, whose first round is start + 1, at rates that reach τ_max rounds further; losses (R, B·N)."""
        at, stage = self._at, self.stage
        losses = np.empty((stage.total, len(blocks[0].keys)), dtype=self.dtype)
        lines = np.ascontiguousarray(rates.T, dtype=self.dtype)
        rate_at = at.order // (stage.total // len(lines)) * lines.shape[1]
        ages = np.array(stage.ages, dtype=np.int64)
        memories = self._memories.reshape(stage.total, -1)

        def some(cut: tuple[int, int]) -> None:
            scratch, slot = aligned((max(self._lanes, at.width),), self.dtype), np.zeros(at.learn.shape[1], dtype=np.int64)
            self._play(
                *cut, start, at.back, at.keys.ravel(), at.key_at, at.key_step, at.values.ravel(), at.value_at, at.value_step,
                at.share.ravel(), at.share_at, at.share_step, at.score, at.learn, at.delays, lines.ravel(), rate_at, memories, self._pending, losses,
                at.decays.ravel(), at.decay_at, at.decay_step, at.decay_score, at.decay_learn, at.decay_age, ages, self._coefficients, self._iterates,
                self._low, self._high, scratch, slot,
            )  # fmt: skip

        workers = threads() if losses.size * at.score.shape[1] * at.padded * stage.shape[1] > _WORTH_THREADS else 1
        pieces = [(source, *cut) for source in range(len(blocks)) for cut in _cuts(stage.agents, 1 if len(blocks) >= workers else workers)]
        shares = [pieces[first:last] for first, last in _cuts(len(pieces), workers)]
        each(at.keep, shares, workers)
        each(partial(at.fill, blocks), shares, workers)
        each(some, _cuts(stage.total, workers * _PIECES), workers)
        at.filled(losses.shape[1])
        return losses[at.place].T if at.permuted else losses.T

    def dump(self) -> dict[str, np.ndarray]:
        """The state as arrays by name."""
        names = ("memories", "pending", "coefficients", "iterates")
        return {**{name: getattr(self, f"_{name}") for name in names}, "keys": self._at.kept()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Take up a dumped state."""
        same_state(self.dump(), arrays)
        for name in ("memories", "pending", "coefficients", "iterates"):
            getattr(self, f"_{name}")[:] = arrays[name]
        self._at.restore(arrays["keys"])


def _cuts(count: int, pieces: int) -> list[tuple[int, int]]:
    ends = np.linspace(0, count, min(pieces, count) + 1).astype(int)
    return list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))
