"""The interface of stores, and what all of them do: number, assign, forget, and write the memory every `commit_every` rounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import islice, takewhile
from threading import RLock
from typing import Any, TypeVar

import numpy as np

from mnemesh.errors import StoreError
from mnemesh.live.store.kinds import Association, Counts, Entry, Facts, Kept, allowed

__all__ = ["Store"]

_Self = TypeVar("_Self", bound="Store")


class Store(ABC):
    """What one agent must not lose. Any thread may call it; each call is whole or has not happened, whatever it raises.

    What `learn` returned is kept; what `commit` returned from was written together: the round, its incarnation, and which associations it played.
    The memory is written every `commit_every` rounds, in the first round after a start, and on `close`. `load` is what a start goes on from:
    it forgets a memory that was not written, as a crash does.
    """

    def __init__(self, facts: Facts, max_age: int, commit_every: int) -> None:
        if max_age < 1 or commit_every < 1:
            raise StoreError(f"max_age={max_age}, commit_every={commit_every}: both count rounds, and are at least 1.")
        self.facts, self.max_age, self.commit_every = facts, max_age, commit_every
        self._guard = RLock()
        self._open = True
        self._last: Entry | None = None
        self._acknowledged = 0
        self._waiting: OrderedDict[int, int] = OrderedDict()  # id -> batch
        self._made: OrderedDict[int, tuple[int, ...]] = OrderedDict()  # the rounds that are not forgotten, and what each played
        self._unwritten: np.ndarray | None = None  # the memory of the last round, where it waits for its turn
        self._since = commit_every  # rounds since the memory was written

    # --- what an agent calls -----------------------------------------------------------------------------------------------------------------

    def learn(self, key: Any, value: Any, gate: Any = None) -> int:
        """Keep an association, and return its number: what returns is acknowledged, and survives."""
        return self.learn_all([(key, value, gate)])[0]

    def learn_all(self, associations: Iterable[Sequence[Any]]) -> tuple[int, ...]:
        """Keep several, (key, value) or (key, value, gate), at the price of one: all of them or none."""
        given = list(associations)
        if odd := [one for one in given if not isinstance(one, tuple | list) or len(one) not in (2, 3)]:
            raise StoreError(f"{type(odd[0]).__name__} is no association: (key, value) is needed, or (key, value, gate), and nothing was kept.")
        with self._guard:
            self._usable()
            first = self._acknowledged + 1
            told = [self.facts.association(number, first, *one) for number, one in enumerate(given, first)]
            numbers = tuple(one.id for one in told)
            if told:
                self._add(told)
            self._acknowledged += len(told)
            self._waiting.update(dict.fromkeys(numbers, first))
            return numbers

    def waiting(self, limit: int | None = None) -> tuple[Association, ...]:
        """What no round has played yet, oldest first; the first `limit` of it."""
        with self._guard:
            self._usable()
            return self._get(tuple(islice(self._waiting, limit)))

    def oldest(self) -> tuple[Association, ...]:
        """What the coming round may play: the association that waits longest, and those that it was told together with."""
        with self._guard:
            self._usable()
            batch = next(iter(self._waiting.values()), 0)
            return self._get(tuple(takewhile(lambda number: self._waiting[number] == batch, self._waiting)))

    def commit(self, round: int, incarnation: int, memory: Any, credit: float, time: float, assigned: Iterable[int] = ()) -> None:
        """A round that was made: its number, the memory it left, and what it played. Only then may its bundles leave."""
        kept, numbers = self.facts.memory(memory), tuple(int(number) for number in assigned)
        with self._guard:
            self._usable()
            last, due = self._last, self._since + 1 >= self.commit_every
            played = len(numbers) + (0 if last is None else last.played)
            newest = round if last is None or due else last.memory_round
            entry = Entry(int(round), int(incarnation), float(time), float(credit), int(newest), self._acknowledged, played, numbers)
            allowed(entry, last)
            if strange := [number for number in numbers if number not in self._waiting]:
                raise StoreError(f"association {strange[0]} is not waiting: each is played in one round, and round {round} was not written.")
            if len(set(numbers)) < len(numbers):
                raise StoreError(f"an association twice in round {round}: each is played once, and nothing was written.")
            old = [r for r in self._made if r <= entry.round - self.max_age] if due else []
            self._record(entry, kept if due else None, old)
            self._last, self._unwritten, self._since = entry, None if due else kept, 0 if due else self._since + 1
            for r in old:
                del self._made[r]
            for number in numbers:
                del self._waiting[number]
            self._made[entry.round] = numbers

    def load(self) -> Kept | None:
        """What a start goes on from; None where no round was ever made."""
        with self._guard:
            self._usable()
            self._unwritten, self._since, last = None, self.commit_every, self._last
            if last is None:
                return None
            made = {r: self._get(numbers) for r, numbers in self._made.items() if r > last.round - self.max_age}
            lost = tuple(r for r in self._made if r > last.memory_round)
            return Kept(last.incarnation, last.round, self._newest(), last.credit, last.time, made, last.memory_round, lost)

    @property
    def counts(self) -> Counts:
        """How many associations were acknowledged, played, and are waiting."""
        with self._guard:
            return Counts(self._acknowledged, 0 if self._last is None else self._last.played, len(self._waiting))

    def flush(self) -> None:
        """Write the last round's memory now."""
        with self._guard:
            self._usable()
            if self._last is None or self._unwritten is None:
                return
            entry = self._last._replace(memory_round=self._last.round)
            self._record(entry, self._unwritten, [])
            self._last, self._unwritten, self._since = entry, None, 0

    def close(self) -> None:
        """Write what waits to be written, and let go; again is harmless."""
        with self._guard:
            if self._open:
                try:
                    self.flush()
                finally:
                    self._open = False
                    self._release()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _usable(self) -> None:
        if not self._open:
            raise StoreError(f"the store of {self.facts.agent} is closed: nothing can be kept in it any more.")

    # --- what a store brings -----------------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _add(self, told: list[Association]) -> None:
        """Keep associations: all of them or none."""

    @abstractmethod
    def _record(self, entry: Entry, memory: np.ndarray | None, old: list[int]) -> None:
        """Keep a round, in place of one of the same number, with its memory if there is one; forget `old` rounds and what they played."""

    @abstractmethod
    def _get(self, numbers: tuple[int, ...]) -> tuple[Association, ...]:
        """Associations by number."""

    @abstractmethod
    def _newest(self) -> np.ndarray:
        """The newest memory that was written."""

    @abstractmethod
    def _release(self) -> None:
        """Let go of whatever is held."""
