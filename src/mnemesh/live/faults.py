"""What may go wrong, as a function of a seed and the period: so that any failure can be played again."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from mnemesh.draws import generator
from mnemesh.errors import FaultError, MnemeshError

__all__ = ["Fate", "Faults", "Span", "spans"]

_CHANCES = ("loss", "duplicate", "corrupt")


class Span(NamedTuple):
    """What is gone from one period to another, both included: a link's two ends, an agent, or one side of a partition."""

    who: tuple[int, ...]
    first: int
    last: int

    def holds(self, period: int) -> bool:
        """Whether it is gone in this period."""
        return self.first <= period <= self.last


class Fate(NamedTuple):
    """What becomes of one frame: the extra periods after which each copy arrives (none: it is lost), and whether a copy is corrupted."""

    delays: tuple[int, ...]
    corrupted: tuple[bool, ...]


@final
@dataclass(frozen=True)
class Faults:
    """Chances and the largest extra delay hold in periods up to `until`; spans say for themselves when they hold."""

    seed: int = 0
    loss: float = 0.0
    delay: int = 0
    duplicate: float = 0.0
    corrupt: float = 0.0
    cuts: tuple[Span, ...] = ()
    partitions: tuple[Span, ...] = ()
    crashes: tuple[Span, ...] = ()
    pauses: tuple[Span, ...] = ()
    until: int | None = None

    def __post_init__(self) -> None:
        generator(self.seed, "live/faults", 0, 0, 0)  # refuses what is no seed
        if self.until is not None and (not isinstance(self.until, int | np.integer) or self.until < 0):
            raise FaultError(f"until={self.until!r}: a whole number of periods, or None for ever.")
        for name in _CHANCES:
            if not isinstance(getattr(self, name), int | float) or not 0 <= getattr(self, name) <= 1:
                raise FaultError(f"{name}={getattr(self, name)!r} is a probability: it lies in [0, 1].")
        if not isinstance(self.delay, int | np.integer) or self.delay < 0:
            raise FaultError(f"delay={self.delay!r}: the largest extra delay is a whole number of periods, 0 or more.")
        for span in self._spans():
            if not span.who:
                raise FaultError(f"periods {span.first}..{span.last} of nobody: name who is meant.")
            if span.first < 1 or span.last < span.first:
                raise FaultError(f"periods {span.first}..{span.last} of {span.who}: periods count from 1, and the first is not after the last.")

    def _spans(self) -> Iterable[Span]:
        return (*self.cuts, *self.partitions, *self.crashes, *self.pauses)

    @property
    def healed(self) -> int:
        """The first period in which nothing is wrong any more, for frames that are sent then."""
        chances = any(getattr(self, name) for name in _CHANCES) or self.delay
        ends = [span.last for span in self._spans()]
        if chances and self.until is None:
            raise FaultError("chances without until= never end: there is no period in which nothing is wrong any more.")
        return max([*ends, self.until or 0 if chances else 0], default=0) + 1

    def cut(self, a: int, b: int, period: int) -> bool:
        """Whether the link between two agents is down."""
        for span in self.cuts:
            if span.holds(period) and {a, b} == set(span.who):
                return True
        return any(span.holds(period) and (a in span.who) != (b in span.who) for span in self.partitions)

    def crashed(self, agent: int, period: int) -> bool:
        """Whether an agent is down."""
        return any(span.holds(period) and agent in span.who for span in self.crashes)

    def paused(self, agent: int, period: int) -> bool:
        """Whether an agent does nothing, without anybody noticing but by its silence."""
        return any(span.holds(period) and agent in span.who for span in self.pauses)

    def fate(self, sender: int, receiver: int, period: int) -> Fate:
        """What becomes of the frame that is sent on this link in this period."""
        if not (self.loss or self.delay or self.duplicate or self.corrupt) or (self.until is not None and period > self.until):
            return Fate((0,), (False,))
        rng = generator(self.seed, "live/faults", sender, receiver, period)
        if rng.random() < self.loss:
            return Fate((), ())
        copies = 1 + (rng.random() < self.duplicate)
        delays = tuple(int(rng.integers(0, self.delay + 1)) for _ in range(copies))
        return Fate(delays, tuple(bool(rng.random() < self.corrupt) for _ in range(copies)))

    def damage(self, data: bytes, sender: int, receiver: int, period: int) -> bytes:
        """A frame with one to four bits flipped."""
        rng = generator(self.seed, "live/damage", sender, receiver, period)
        damaged = bytearray(data)
        for _ in range(int(rng.integers(1, 5))):
            damaged[int(rng.integers(len(damaged)))] ^= 1 << int(rng.integers(8))
        return bytes(damaged)


def spans(kind: str, given: Iterable[Any], number: Any) -> tuple[Span, ...]:
    """Spans from tuples of names and two periods; `number` turns a name into an agent."""
    found = []
    for one in given:
        try:
            *who, first, last = one
            flat = [name for part in who for name in (part if isinstance(part, list | tuple | set | frozenset) else (part,))]
            found.append(Span(tuple(sorted(number(name) for name in flat)), operator.index(first), operator.index(last)))
        except MnemeshError:
            raise
        except (TypeError, ValueError):
            raise FaultError(f"{kind}: {one!r} names no agents and two periods, such as (\"lisbon\", \"porto\", 10, 20).") from None
    return tuple(found)
