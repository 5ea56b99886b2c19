"""What every stream of associations is: rounds of keys and values, read block by block, by whoever needs which agents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from mnemesh.draws import ROUND_BLOCK
from mnemesh.errors import DataError

__all__ = ["Block", "Stream"]

WHOLE_LIMIT = 2**31  # numbers that `keys` or `values` may hold before they are refused as one array
STRETCH = 2**22  # numbers of keys and values that `blocks` hands out at once
ROUNDS_AT_ONCE = 16  # streams that draw do so this many rounds at a time


@final
@dataclass(frozen=True, repr=False)
class Block:
    """Some agents' associations of R rounds. Every array has the axis of associations; absent places hold zeros."""

    keys: np.ndarray  # (R, N, A, d_k)
    values: np.ndarray  # (R, N, A, d_v)
    gates: np.ndarray | None = None  # (R, N), (R, N, d_v) or (R, N, d_φ)
    present: np.ndarray | None = None  # (R, N, A); None: all are present

    @property
    def share(self) -> np.ndarray | None:
        """What each association counts in its agent's mean loss, (R, N, A): 0 where absent. None where each round has exactly one."""
        associations = self.keys.shape[2]
        if self.present is None:
            return None if associations == 1 else np.full(self.keys.shape[:3], 1 / associations)
        return self.present / np.maximum(self.present.sum(-1, keepdims=True), 1)

    @property
    def active(self) -> np.ndarray | None:
        """Whether an agent sees anything in a round, (R, N); None where all always do."""
        return None if self.present is None else np.any(self.present, axis=-1)

    def __repr__(self) -> str:
        rounds, agents, associations, d_k = self.keys.shape
        more = "".join(f", {name}" for name in ("gates", "present") if getattr(self, name) is not None)
        return f"Block(rounds={rounds}, agents={agents}, associations={associations}, d_k={d_k}, d_v={self.values.shape[-1]}{more})"

    def part(self, first: int, last: int, agents: np.ndarray | None = None) -> Block:
        """Rounds `first` .. `last` - 1 of this block, a view; of some agents, a copy."""
        stretch = slice(first, last)
        arrays = (self.keys, self.values, self.gates, self.present)
        return Block(*(None if a is None else a[stretch] if agents is None else a[stretch, agents] for a in arrays))  # type: ignore[arg-type]


class Stream(ABC):
    """T rounds of what N agents see. A subclass says how a block comes about, the same for whoever asks and in whatever order.

    It sets `agents`, `rounds`, `key_dim` and `value_dim`; `associations` where a round may hold several, `masked` where its blocks have
    `present`, `gated` where they have `gates`.
    """

    agents: int
    rounds: int
    key_dim: int
    value_dim: int
    associations: int = 1
    masked: bool = False
    gated: bool = False

    @abstractmethod
    def block(self, first: int, last: int, agents: np.ndarray | None = None) -> Block:
        """Rounds first + 1 .. last, that is, places first .. last - 1 of the whole arrays; of these agents, or of all."""

    def blocks(self, size: int = STRETCH) -> Iterator[tuple[int, Block]]:
        """(first, block) from the first round to the last, each of about `size` numbers and at most 256 rounds."""
        a_round = self.agents * self.associations * (self.key_dim + self.value_dim)
        step = min(max(size // a_round // ROUNDS_AT_ONCE, 1) * ROUNDS_AT_ONCE, ROUND_BLOCK)
        for first in range(0, self.rounds, step):
            yield first, self.block(first, min(first + step, self.rounds))

    def check_range(self, first: int, last: int) -> None:
        """Refuse a stretch of rounds that is not one of this stream's."""
        if not 0 <= first <= last <= self.rounds:
            raise DataError(f"block({first}, {last}) of a stream of {self.rounds} rounds: a block is places first .. last - 1 within 0..{self.rounds}.")

    @cached_property
    def _whole(self) -> Block:
        size = self.rounds * self.agents * self.associations * max(self.key_dim, self.value_dim)
        if size > WHOLE_LIMIT:
            raise DataError(f"{self!r} as one array would hold {size:,} numbers: read it with block(first, last), which draws what is asked for.")
        return self._read_whole()

    def _read_whole(self) -> Block:
        return self.block(0, self.rounds)

    @property
    def _flat(self) -> bool:
        return self.associations == 1 and not self.masked

    @property
    def keys(self) -> np.ndarray:
        """(T, N, d_k); (T, N, A, d_k) where rounds may hold zero or several associations."""
        return self._whole.keys[:, :, 0] if self._flat else self._whole.keys

    @property
    def values(self) -> np.ndarray:
        """(T, N, d_v), or (T, N, A, d_v)."""
        return self._whole.values[:, :, 0] if self._flat else self._whole.values

    @property
    def gates(self) -> np.ndarray | None:
        """(T, N), (T, N, d_v) or (T, N, d_φ); None where there are none."""
        return self._whole.gates

    @property
    def present(self) -> np.ndarray | None:
        """(T, N, A); None where every round holds all its associations."""
        return self._whole.present

    def __repr__(self) -> str:
        several = f", up to {self.associations} associations a round" if self.masked else f", {self.associations} associations a round"
        return (
            f"{type(self).__name__}(agents={self.agents}, rounds={self.rounds}, key_dim={self.key_dim}, value_dim={self.value_dim}"
            f"{'' if self._flat else several}{', gated' if self.gated else ''})"
        )
