"""A root's books: which terms it has asked for, and what became of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from mnemesh.live.messages import Reply, Term

__all__ = ["FATES", "Books", "Ledger", "opened"]

FATES = ("launched", "applied", "missed", "discarded", "lost")


class Books(NamedTuple):
    """Per partner, counts by fate; and the terms in flight. launched = applied + missed + discarded + lost + in flight, always."""

    partners: tuple[int, ...]
    counts: np.ndarray  # (P, 5), in the order of FATES
    flight: frozenset[Term]

    def in_flight(self) -> np.ndarray:
        """How many terms of each partner are in flight, (P,)."""
        found = np.zeros(len(self.partners), np.int64)
        for term in self.flight:
            found[self.partners.index(term.agent)] += 1
        return found


class Ledger:
    """Books while a round is played: what is written here leaves the old ones as they were."""

    def __init__(self, books: Books) -> None:
        self._place: Mapping[int, int] = {m: i for i, m in enumerate(books.partners)}
        self._partners, self._counts, self._flight = books.partners, books.counts.copy(), set(books.flight)

    def launch(self, terms: Iterable[Term]) -> None:
        """These were asked for."""
        for term in terms:
            self._flight.add(term)
            self._counts[self._place[term.agent], 0] += 1

    def close(self, terms: Iterable[Term], fate: str) -> None:
        """This became of these, which were in flight."""
        column = FATES.index(fate)
        for term in terms:
            self._flight.remove(term)
            self._counts[self._place[term.agent], column] += 1

    def book(self, reply: Reply) -> bool:
        """Whether a reply is to be applied: if every term in it is still in flight, and then none is any more; else it is discarded whole."""
        told = (*reply.terms, *reply.missed)
        known = [term for term in dict.fromkeys(told) if term in self._flight]
        if len(known) != len(told):
            self.close(known, "discarded")
            return False
        self.close(reply.terms, "applied")
        self.close(reply.missed, "missed")
        return True

    def expire(self, before: int) -> int:
        """Give up what was launched before this round; returns how many."""
        late = [term for term in self._flight if term.stamp < before]
        self.close(late, "lost")
        return len(late)

    @property
    def oldest(self) -> int | None:
        """The stamp of the oldest term in flight."""
        return min((term.stamp for term in self._flight), default=None)

    def written(self) -> Books:
        """The books as they are now."""
        return Books(self._partners, self._counts, frozenset(self._flight))


def opened(partners: Iterable[int]) -> Books:
    """Empty books about these partners."""
    known = tuple(sorted(partners))
    return Books(known, np.zeros((len(known), len(FATES)), np.int64), frozenset())
