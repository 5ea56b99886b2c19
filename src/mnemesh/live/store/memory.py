"""A store that lasts as long as its process: for networks in one process, and for tests."""

from __future__ import annotations

from typing import final

import numpy as np

from mnemesh.live.store.base import Store
from mnemesh.live.store.kinds import Association, Entry, Facts

__all__ = ["MemoryStore"]


@final
class MemoryStore(Store):
    """Keeps everything in memory; its agent may crash and `load` again, its process may not."""

    def __init__(self, *, agent: str, shape: tuple[int, int], dtype: str, key_dim: int, max_age: int, commit_every: int = 1) -> None:
        super().__init__(Facts(agent, shape, dtype, key_dim), max_age, commit_every)
        self._told: dict[int, Association] = {}
        self._memory = np.zeros(shape, dtype)

    def _add(self, told: list[Association]) -> None:
        self._told.update((one.id, one) for one in told)

    def _record(self, entry: Entry, memory: np.ndarray | None, old: list[int]) -> None:
        if memory is not None:
            self._memory = memory
        for r in old:
            for number in self._made[r]:
                del self._told[number]

    def _get(self, numbers: tuple[int, ...]) -> tuple[Association, ...]:
        return tuple(self._told[number] for number in numbers)

    def _newest(self) -> np.ndarray:
        return self._memory

    def _release(self) -> None:
        pass
