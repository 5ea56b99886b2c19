"""One agent's place in a network: its state, its store, its inbox, and what becomes of them when it crashes and comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import final

import numpy as np

from mnemesh.errors import MeshError
from mnemesh.live.books import FATES, Books
from mnemesh.live.learning import Sample
from mnemesh.live.messages import Bundle
from mnemesh.live.protocol import Agent, Report, State, begun, restarted
from mnemesh.live.store import Association, Store
from mnemesh.live.view import View

__all__ = ["Seat"]


@final
class Seat:
    """What one agent has beside its state: its store, its inbox, and when it last made a round."""

    def __init__(self, agent: Agent, view: View, store: Store) -> None:
        self.agent, self.view, self.store = agent, view, store
        self.last = 0  # the period of the last round
        self.state = self.begin()
        self.inbox: list[Bundle] = []
        self.down = False
        self.closed: list[Books] = []  # of earlier incarnations
        self.report: Report | None = None
        self.counts: Counter[str] = Counter()

    def begin(self) -> State:
        """The state that the store holds, in a new incarnation; or that of an agent that has made no round."""
        kept = self.store.load()
        if kept is None:
            return begun(self.agent, self.view)
        self.last = int(kept.time)
        samples = {r: self.sample(told) for r, told in kept.made.items()}
        return restarted(self.agent, self.view, incarnation=kept.incarnation + 1, round=kept.round, memory=kept.memory, credit=kept.credit, samples=samples)

    def sample(self, told: Sequence[Association]) -> Sample:
        """What was told together as the sample of a round."""
        if not told:
            return self.agent.learner.nothing()
        if self.agent.learner.loss.gate is not None and told[0].gate is None:
            raise MeshError(f"{self.store.facts.agent} was told associations without gates, and the loss {self.agent.learner.loss.name!r} needs them: another folder is needed.")
        return self.agent.learner.sample(np.stack([one.key for one in told]), np.stack([one.value for one in told]), told[0].gate)

    def end(self) -> None:
        """The books of an incarnation that is over: what was in flight is lost."""
        books = self.state.books
        counts = books.counts.copy()
        counts[:, FATES.index("lost")] += books.in_flight()
        self.closed.append(books._replace(counts=counts, flight=frozenset()))
