"""What stores keep: associations, rounds and memories, checked against the facts of their agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple, final

import numpy as np

from mnemesh.errors import StoreError

__all__ = ["Association", "Counts", "Entry", "Facts", "Kept", "allowed"]


class Association(NamedTuple):
    """What an agent was told, in the network's dtype; nobody can write to it."""

    id: int  # 1, 2, 3, … in the order of acknowledgement
    key: np.ndarray  # (d_k,)
    value: np.ndarray  # (d_v,)
    gate: np.ndarray | None  # (), (d_v,) or (d_φ,)
    batch: int  # the id of the first one that it was told together with


class Kept(NamedTuple):
    """What a restart goes on from."""

    incarnation: int  # of the last round
    round: int  # the last one that may have left the agent: no later incarnation makes it again
    memory: np.ndarray  # (d_v, d_φ), as round `memory_round` left it
    credit: float
    time: float  # wall clock of the last round
    made: Mapping[int, tuple[Association, ...]]  # the rounds of the last max_age, those in which nothing was played included
    memory_round: int
    lost: tuple[int, ...]  # rounds after it: they count as played, are answered from `made`, and what they learned is gone


class Counts(NamedTuple):
    """How many associations there ever were; acknowledged = played + waiting."""

    acknowledged: int
    played: int
    waiting: int


class Entry(NamedTuple):
    """What is written of a round."""

    round: int
    incarnation: int
    time: float
    credit: float
    memory_round: int  # the round whose memory is the newest one written
    acknowledged: int  # associations so far
    played: int
    assigned: tuple[int, ...]


@final
@dataclass(frozen=True)
class Facts:
    """Whose store it is, and the sizes of what it holds: they never change."""

    agent: str
    shape: tuple[int, int]  # (d_v, d_φ)
    dtype: str
    key_dim: int

    def __post_init__(self) -> None:
        if not self.agent:
            raise StoreError("an agent without a name: a store belongs to one agent, and says which.")
        if self.dtype not in ("float32", "float64"):
            raise StoreError(f"dtype={self.dtype!r}: float32 or float64, as the network's memories are.")
        if min(*self.shape, self.key_dim) < 1:
            raise StoreError(f"shape={self.shape}, key_dim={self.key_dim}: every size is at least 1.")

    def memory(self, memory: Any) -> np.ndarray:
        """A memory that may be kept: of this shape and dtype, finite, and written to by nobody."""
        if getattr(memory, "shape", None) != self.shape or memory.dtype != self.dtype:
            given = f"{getattr(memory, 'shape', type(memory).__name__)} of {getattr(memory, 'dtype', 'no dtype')}"
            raise StoreError(f"a memory {given}: {self.agent}'s are {self.shape} of {self.dtype}, and nothing was written.")
        if not np.isfinite(memory).all():
            raise StoreError(f"a memory of {self.agent} that is not finite: it would outlive every restart, and nothing was written.")
        return _frozen(memory)

    def association(self, number: int, batch: int, key: Any, value: Any, gate: Any = None) -> Association:
        """An association that may be kept."""
        rows, columns = self.shape
        told = None if gate is None else self._numbers("gate", gate, (), (rows,), (columns,))
        return Association(number, self._numbers("key", key, (self.key_dim,)), self._numbers("value", value, (rows,)), told, batch)

    def _numbers(self, what: str, given: Any, *shapes: tuple[int, ...]) -> np.ndarray:
        try:
            with np.errstate(over="ignore"):
                array = np.array(given, self.dtype)
        except (TypeError, ValueError):
            raise StoreError(f"a {what} of {type(given).__name__}: numbers are needed, and nothing was kept.") from None
        if array.shape not in shapes:
            raise StoreError(f"a {what} of shape {array.shape}: {' or '.join(map(str, shapes))} is needed, and nothing was kept.")
        if not np.isfinite(array).all():
            raise StoreError(f"a {what} that is not finite in {self.dtype}: nothing can be learned from it, and nothing was kept.")
        return _frozen(array)

    def differences(self, wanted: Facts) -> list[str]:
        """What another agent, or another setting, would make of it: "shape (64, 64), not (32, 32)"."""
        fields = ("agent", "shape", "dtype", "key_dim")
        return [f"{f} {getattr(self, f)!r}, not {getattr(wanted, f)!r}" for f in fields if getattr(self, f) != getattr(wanted, f)]


def allowed(entry: Entry, last: Entry | None) -> None:
    """Refuse what would go back, or is no number."""
    if not (isfinite(entry.credit) and isfinite(entry.time)):
        raise StoreError(f"credit {entry.credit}, time {entry.time}: both are finite, and round {entry.round} was not written.")
    if last is None:
        if entry.round < 1 or entry.incarnation < 0:
            raise StoreError(f"round {entry.round} of incarnation {entry.incarnation}: rounds begin at 1, incarnations at 0.")
    elif entry.round <= last.round:
        raise StoreError(f"round {entry.round} after round {last.round}: rounds never go back, or two of one number would be answered for.")
    elif entry.incarnation < last.incarnation:
        raise StoreError(f"incarnation {entry.incarnation} after {last.incarnation}: incarnations never go back, or old replies would be believed.")


def _frozen(array: np.ndarray) -> np.ndarray:
    if not array.flags.writeable:
        return array
    array = array.copy()
    array.setflags(write=False)
    return array
