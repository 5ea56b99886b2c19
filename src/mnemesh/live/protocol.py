"""The protocol, without I/O: an agent's state, when it may close a round, and what a round does. No clock, no socket, no waiting.

`on_round` depends on the set of its inputs alone: bundles are read in the order of (sender, incarnation, round, sequence), whatever order they came in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median_low
from typing import NamedTuple, final

import numpy as np

from mnemesh.live.books import Books, Ledger, opened
from mnemesh.live.learning import Learner, Sample
from mnemesh.live.messages import Branch, Bundle, LinkState, Query, Reply, Term
from mnemesh.live.sums import answered, gradient, joined, missing
from mnemesh.live.view import Router, View, fingerprint, merged

__all__ = ["Agent", "Heard", "Report", "State", "begun", "blind", "on_round", "ready", "restarted"]


@final
@dataclass(frozen=True, eq=False)
class Agent:
    """What never changes about an agent."""

    number: int
    neighbours: tuple[int, ...]
    learner: Learner
    router: Router
    max_age: int
    mode: str = "auto"
    min_period: float = 1.0
    deadline: float = float("inf")
    leap: int = 8  # rounds an agent may catch up beyond those that time allows for

    @property
    def weights(self) -> Mapping[int, float]:
        """w_{n,m} of every partner."""
        return self.router.weights


class Heard(NamedTuple):
    """What is known of a neighbour: its incarnation, newest round and view, and which sequences came: bit i stands for `sequence` - i."""

    incarnation: int
    round: int
    view: int
    sequence: int = -1
    came: int = 0

    def has(self, sequence: int, span: int) -> bool:
        """Whether this sequence came before, or is so late that nobody remembers."""
        behind = self.sequence - sequence
        return behind >= span or (behind >= 0 and bool(self.came >> behind & 1))

    def with_(self, bundle: Bundle, span: int) -> Heard:
        """What is known once this bundle has come."""
        ahead = bundle.sequence - self.sequence
        came = 1 if ahead >= span else self.came << ahead | 1 if ahead > 0 else self.came | 1 << -ahead
        newest = bundle.round >= self.round
        view, latest = (bundle.view, bundle.round) if newest else (self.view, self.round)
        return Heard(self.incarnation, latest, view, max(self.sequence, bundle.sequence), came & (1 << span) - 1)


@final
@dataclass(frozen=True, eq=False)
class State:
    """Everything that an agent's next round depends on."""

    incarnation: int
    round: int  # the last one made; 0 before the first
    memory: np.ndarray  # X of the coming round
    view: View
    mark: int  # the view's fingerprint
    books: Books
    samples: Mapping[int, Sample] = field(default_factory=dict)  # its own, of the last rounds
    sent: Mapping[int, np.ndarray] = field(default_factory=dict)  # the iterates whose terms are in flight
    heard: Mapping[int, Heard] = field(default_factory=dict)
    early: tuple[Bundle, ...] = ()  # bundles of rounds to come
    suspected: frozenset[int] = frozenset()
    asked: Mapping[int, frozenset[tuple[int, int]]] = field(default_factory=dict)  # who asked for a stamp: (root, incarnation)
    sequence: int = 0
    starting: bool = True  # until a neighbour is heard
    resumed: int = 0  # the committed round that this incarnation began from
    credit: float = 0.0  # rounds that time allowed for and that were not made


class Report(NamedTuple):
    """What a reader wants to know of a round."""

    round: int
    memory: np.ndarray  # X that was played
    loss: float  # of the agent's own associations, weighted
    replies: tuple[Reply, ...]  # that were applied
    counts: Counter[str]  # what was dropped, by reason
    unreachable: frozenset[int]


def begun(agent: Agent, view: View, incarnation: int = 0) -> State:
    """The state of an agent that has made no round."""
    return State(incarnation, 0, agent.learner.start(), view, fingerprint(view), opened(agent.weights))


def restarted(
    agent: Agent, view: View, *, incarnation: int, round: int, memory: np.ndarray, credit: float, samples: Mapping[int, Sample]
) -> State:  # fmt: skip
    """The state of a new incarnation that goes on from what the last one committed: memory, round, its own associations by round."""
    inside = agent.learner.kept(agent.learner.domain.project(memory))
    return replace(begun(agent, view, incarnation), round=round, memory=inside, samples=samples, resumed=round, credit=credit)


def ready(agent: Agent, state: State, inbox: Iterable[Bundle], links: Collection[int], elapsed: float) -> bool:
    """Whether the coming round may begin: a period has passed, and every live neighbour's bundle of the last round is in, or the deadline has come."""
    if elapsed < agent.min_period:
        return False
    if elapsed >= agent.deadline:
        return True
    if state.round == 0 and set(links) < set(agent.neighbours):
        return False
    came = [*state.early, *inbox]
    bound = _bound(agent, state, came, elapsed)
    held = [bundle for bundle in came if bundle.round <= bound]
    if state.resumed and state.starting and not held:
        return True  # nobody may have anything to wait for either: somebody must speak first
    newest = _newest(state, held)
    if any(newest.get(n, 0) >= state.round + 2 for n in links):
        return True
    near = {bundle.sender for bundle in held if bundle.round >= state.round - 1}
    return all(newest.get(n, 0) >= state.round or (n in state.suspected and n not in near) for n in links)


def blind(state: State, inbox: Collection[Bundle]) -> bool:
    """Whether an agent that came back has heard nobody yet: what it played now would be answered to nobody."""
    return bool(state.resumed) and state.starting and not inbox and not state.early


def on_round(agent: Agent, state: State, inbox: Iterable[Bundle], sample: Sample, links: Collection[int], elapsed: float) -> tuple[State, dict[int, Bundle], Report]:
    """The coming round: read what came, answer, pass on, learn, ask. Returns the new state, a bundle for every live neighbour, and a report."""
    return _Round(agent, state, tuple(sorted(links)), elapsed).made(inbox, sample)


def _bound(agent: Agent, state: State, bundles: Iterable[Bundle], elapsed: float) -> float:
    """The furthest round that may be believed: all that time has allowed for and was not made, and a leap; at the start from the neighbours' median."""
    base = state.round
    if state.starting:
        known = _newest(state, bundles)
        base = max(base, median_low(known.values())) if known else base
    return base + state.credit + elapsed / agent.min_period + agent.leap


def _newest(state: State, bundles: Iterable[Bundle]) -> dict[int, int]:
    """The newest round known of each neighbour."""
    newest = {n: heard.round for n, heard in state.heard.items()}
    for bundle in bundles:
        if bundle.incarnation >= state.heard.get(bundle.sender, _UNHEARD).incarnation:
            newest[bundle.sender] = max(newest.get(bundle.sender, 0), bundle.round)
    return newest


_UNHEARD = Heard(-1, 0, 0)


class _Round:
    """One round in the making."""

    def __init__(self, agent: Agent, state: State, links: tuple[int, ...], elapsed: float) -> None:
        self.agent, self.state, self.links, self.elapsed = agent, state, links, elapsed
        self.counts: Counter[str] = Counter()
        self.ledger = Ledger(state.books)
        self.heard = dict(state.heard)
        self.view = state.view
        self.asked: dict[int, set[tuple[int, int]]] = {}
        self.queries: dict[int, list[Query]] = {n: [] for n in links}
        self.passing: dict[tuple[int, int, tuple[int, ...]], list[Reply]] = {}
        self.applied: list[Reply] = []

    def made(self, inbox: Iterable[Bundle], sample: Sample) -> tuple[State, dict[int, Bundle], Report]:
        agent, state = self.agent, self.state
        held = self._admitted([*state.early, *inbox])
        self.near = {bundle.sender for bundle in held if bundle.round >= state.round - 1}
        self.round = self._number(held)
        now, early = self._sorted(held)
        self._know_links()
        for bundle in now:
            self.view = merged(self.view, bundle.states)
        for bundle in now:
            self._read(bundle)
        loss, own = self._own(sample)
        mark = state.mark if self.view is state.view else fingerprint(self.view)
        branch, unreachable = agent.router.branch(self.view, mark)
        self._launch(branch)
        if late := self.ledger.expire(self.round - 2 * agent.max_age):
            self.counts["lost"] += late
        memory = agent.learner.descend(state.memory, own + self._gathered(), self.round, agent.number)
        oldest = self.ledger.oldest
        kept = self.round - agent.max_age
        after = replace(
            state,
            round=self.round,
            memory=memory,
            view=self.view,
            mark=mark,
            books=self.ledger.written(),
            samples={r: s for r, s in state.samples.items() if r > kept} | {self.round: sample},
            sent={s: x for s, x in (*state.sent.items(), (self.round, state.memory)) if oldest is not None and s >= oldest},
            heard=self.heard,
            early=early,
            suspected=self._suspected(),
            asked=self._remembered(),
            sequence=state.sequence + 1,
            starting=state.starting and not any(n in self.heard for n in self.links),
            credit=self._credit(),
        )
        return after, self._outbox(after), Report(self.round, state.memory, loss, tuple(self.applied), self.counts, unreachable)

    def _credit(self) -> float:
        """What time has allowed for and was not made; less than nothing where a leap was taken. Adopting the neighbours' round costs nothing."""
        moved = 1 if self.state.starting else self.round - self.state.round
        return self.state.credit + self.elapsed / self.agent.min_period - moved

    # --- which round this is, and what is read in it ---------------------------------------------------------------------------------------

    def _admitted(self, bundles: list[Bundle]) -> list[Bundle]:
        """Bundles of current incarnations that did not come before and claim no impossible round; known incarnations and sequences are kept."""
        bound, span = _bound(self.agent, self.state, bundles, self.elapsed), 8 * self.agent.max_age
        waited = {id(bundle) for bundle in self.state.early}
        held = []
        for bundle in sorted(bundles, key=lambda one: (one.sender, one.incarnation, one.round, one.sequence)):
            heard = self.heard.get(bundle.sender, _UNHEARD)
            if bundle.incarnation < heard.incarnation:
                self.counts["older incarnation"] += 1
            elif id(bundle) in waited:
                held.append(bundle)
            elif bundle.incarnation == heard.incarnation and heard.has(bundle.sequence, span):
                self.counts["repeated"] += 1
            elif bundle.round > bound:
                self.counts["implausible round"] += 1
            else:
                fresh = heard if bundle.incarnation == heard.incarnation else Heard(bundle.incarnation, 0, 0)
                self.heard[bundle.sender] = fresh.with_(bundle, span)
                held.append(bundle)
        return held

    def _number(self, held: list[Bundle]) -> int:
        """The next round; the newest one held, if this agent is behind; at the start the neighbours' median, if that is above its own."""
        coming = self.state.round + 1
        if self.state.starting:
            known = [self.heard[n].round for n in self.links if n in self.heard]
            return max(coming, median_low(known)) if known else coming
        newest = max((bundle.round for bundle in held), default=0)
        return newest if newest >= coming + 1 else coming

    def _sorted(self, held: list[Bundle]) -> tuple[list[Bundle], tuple[Bundle, ...]]:
        """What is read in this round, and what waits for a later one."""
        oldest = self.round - 1 if self.round > self.state.round + 1 else self.state.resumed
        now, early = [], []
        for bundle in held:
            if bundle.round >= self.round:
                early.append(bundle)
            elif bundle.round < oldest:
                self.counts["of a round skipped"] += 1
            else:
                now.append(bundle)
        return now, tuple(early)

    def _suspected(self) -> frozenset[int]:
        """Live neighbours that were silent at the deadline, and those that were before and have not come near since."""
        last = self.state.round
        gone = set(self.agent.neighbours) - set(self.links)  # and will have to be heard of before they are waited for
        silent = {n for n in self.links if self.heard.get(n, _UNHEARD).round < last}
        return frozenset(gone | (silent if self.elapsed >= self.agent.deadline else silent & self.state.suspected - self.near))

    # --- what the messages ask for ---------------------------------------------------------------------------------------------------------

    def _read(self, bundle: Bundle) -> None:
        for query in bundle.queries:
            root, incarnation, stamp, path, branch, memory = query
            if branch.weight:
                self._answer(query)
            if branch.children:
                path = (*path, self.agent.number)
                for child in branch.children:
                    self._pass(Query(root, incarnation, stamp, path, child, memory))
        for reply in bundle.replies:
            if len(reply.path) == 1:
                self._take(reply)
            else:
                self._return(Reply(reply.root, reply.incarnation, reply.path[1:], *reply[3:]))

    def _pass(self, query: Query) -> None:
        """On to the next agent of its path; a dead one is a loss, since nothing is rerouted, and so is age."""
        if self.round - query.stamp > self.agent.max_age:
            self.counts["query too old"] += 1
        elif query.branch.agent in self.queries:
            self.queries[query.branch.agent].append(query)
        else:
            self.counts["query to a dead link"] += 1

    def _answer(self, query: Query) -> None:
        who = query.root, query.incarnation
        asked = self.asked.setdefault(query.stamp, set())
        if who in asked or who in self.state.asked.get(query.stamp, ()):
            self.counts["asked twice"] += 1
            return
        asked.add(who)
        term, path = Term(self.agent.number, query.stamp), query.path[::-1]
        sample = self.state.samples.get(query.stamp)
        learner = self.agent.learner
        if sample is None:
            self.counts["missed"] += 1
            self._return(missing(query.root, query.incarnation, path, term, learner.shape, learner.dtype))
        else:
            self._return(answered(query.root, query.incarnation, path, term, learner.answer(query.memory, sample, query.branch.weight), self.agent.mode))

    def _return(self, reply: Reply) -> None:
        """A reply leaves on the way back, unless it would come too old, or the way is cut."""
        if reply.terms and self.round + len(reply.path) - _oldest(reply) > self.agent.max_age:
            self.counts["too old"] += 1
        elif reply.path[0] not in self.queries:
            self.counts["reply to a dead link"] += 1
        else:
            self.passing.setdefault(reply[:3], []).append(reply)

    def _take(self, reply: Reply) -> None:
        """A reply is home."""
        if reply.incarnation != self.state.incarnation:
            self.counts["reply to an older incarnation"] += 1
        elif self.ledger.book(reply):
            self.applied.append(reply)
        else:
            self.counts["discarded"] += 1

    def _remembered(self) -> dict[int, frozenset[tuple[int, int]]]:
        """Who asked for what, as long as a copy may still come."""
        first, before = self.round - 4 * self.agent.max_age, self.state.asked
        kept = {stamp: who for stamp, who in before.items() if stamp > first}
        for stamp, who in self.asked.items():
            kept[stamp] = frozenset(who | before.get(stamp, frozenset()))
        return kept

    # --- learning --------------------------------------------------------------------------------------------------------------------------

    def _own(self, sample: Sample) -> tuple[float, np.ndarray]:
        """The agent's own loss and gradient, which take no time to come."""
        learner, memory = self.agent.learner, self.state.memory
        none = np.zeros(learner.shape, learner.dtype)
        weight = self.agent.weights.get(self.agent.number, 0.0)
        if not weight:
            return 0.0, none
        term = Term(self.agent.number, self.round)
        self.ledger.launch([term])
        self.ledger.close([term], "applied")
        answer = learner.answer(memory, sample, weight)
        own = answer.residuals.T @ answer.features if len(answer.residuals) else none
        return answer.loss, own if answer.decay is None else own + answer.decay * memory

    def _launch(self, branch: Branch) -> None:
        """X_{n,t} goes down the tree; only what leaves is in flight."""
        for child in branch.children:
            if child.agent in self.queries:
                self.queries[child.agent].append(Query(self.agent.number, self.state.incarnation, self.round, (self.agent.number,), child, self.state.memory))
                self.ledger.launch(Term(m, self.round) for m in _partners(child))

    def _gathered(self) -> np.ndarray:
        """Σ_m w_{n,m} ∇f_{m,t−τ}(X_{n,t−τ}), whatever the delays were."""
        learner, sent = self.agent.learner, self.state.sent
        total = gradient([reply.payload for reply in self.applied], learner.shape, learner.dtype)
        for reply in self.applied:
            for stamp, decay in reply.decays:
                total += decay.reshape(_axis(learner)) * sent[stamp]
        return total

    # --- what is told ----------------------------------------------------------------------------------------------------------------------

    def _know_links(self) -> None:
        """The agent's own link state, with a new sequence where a link has come or gone."""
        me = self.agent.number
        known = self.view[me]
        if known.links != self.links or known.incarnation != self.state.incarnation:
            sequence = known.sequence + 1 if known.incarnation == self.state.incarnation else 0
            self.view = merged(self.view, [LinkState(me, self.state.incarnation, sequence, self.links)])

    def _outbox(self, after: State) -> dict[int, Bundle]:
        replies: dict[int, list[Reply]] = {n: [] for n in self.links}
        for (_, _, path), parts in sorted(self.passing.items()):
            replies[path[0]] += parts if self.agent.mode == "factored" else [joined(parts, self.agent.mode)]
        label = self.agent.number, after.incarnation, after.round, after.sequence, after.mark
        stranger = [n for n in self.links if n not in self.heard or self.heard[n].view != after.mark]
        states = tuple(self.view[n] for n in sorted(self.view)) if stranger else ()
        return {n: Bundle(*label, states if n in stranger else (), tuple(self.queries[n]), tuple(replies[n])) for n in self.links}


def _oldest(reply: Reply) -> int:
    """The earliest stamp of an answer in a reply."""
    return min([stamp for _, stamp in reply.terms])


def _partners(branch: Branch) -> Iterable[int]:
    todo = [branch]
    while todo:
        one = todo.pop()
        if one.weight:
            yield one.agent
        todo += one.children


def _axis(learner: Learner) -> tuple[int, int]:
    d_v, d_phi = learner.shape
    return {"value": (d_v, 1), "key": (1, d_phi)}.get(learner.loss.gate or "scalar", (1, 1))
