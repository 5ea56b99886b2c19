"""Single rounds by hand: what one agent does with one message that should not be."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import mnemesh as mm
from mnemesh.live.mesh import Mesh
from mnemesh.live.messages import Branch, Bundle, Query, Reply, Term, no_payload
from mnemesh.live.protocol import on_round, ready, restarted

AGE = 12


def middle(rounds: int = 20):
    """Agent 1 of the line 0 - 1 - 2 after some rounds, with nothing unread."""
    problem = mm.Problem("delta", mm.domains.ball(5.0), mm.interest.uniform(3))
    mesh = Mesh(problem, mm.topology.line(3), step=mm.steps.constant(0.1), key_dim=2, value_dim=2, dtype="float64", max_age=AGE)
    for _ in range(rounds):
        mesh.learn({name: (np.ones(2), np.ones(2)) for name in mesh.names})
    agent, state, _ = mesh.taken_apart("1")
    return agent, state


def bundle(state, sender: int, round: int, *, sequence: int | None = None, queries=(), replies=(), incarnation: int = 0) -> Bundle:
    after = state.heard[sender].sequence + 1 if sequence is None else sequence
    return Bundle(sender, incarnation, round, after, state.mark, (), tuple(queries), tuple(replies))


def asks(stamp: int, *, root: int = 0, incarnation: int = 9) -> Query:
    return Query(root, incarnation, stamp, (root,), Branch(1, 0.5), np.ones((2, 2)))


def step(agent, state, *bundles: Bundle, elapsed: float = 1.0):
    return on_round(agent, state, bundles, agent.learner.nothing(), agent.neighbours, elapsed)


def told(outbox, to: int = 0):
    return [(reply.terms, reply.missed) for reply in outbox[to].replies]


def test_a_query_is_answered_once_however_often_it_comes():
    agent, state = middle()
    state, outbox, _ = step(agent, state, bundle(state, 0, 20, queries=[asks(19)]))
    assert told(outbox) == [((Term(1, 19),), ())]
    _, outbox, report = step(agent, state, bundle(state, 0, 21, queries=[asks(19)]))
    assert told(outbox) == []
    assert report.counts["asked twice"] == 1


@pytest.mark.parametrize("stamp", [15, 2])
def test_a_round_that_is_not_held_is_answered_with_a_miss_whatever_its_age(stamp):
    agent, state = middle()
    state = replace(state, samples={r: s for r, s in state.samples.items() if r != 15})
    _, outbox, report = step(agent, state, bundle(state, 0, 20, queries=[asks(stamp)]))
    assert told(outbox) == [((), (Term(1, stamp),))]
    assert report.counts["missed"] == 1


def test_a_reply_that_would_come_home_too_old_is_dropped_on_the_way():
    agent, state = middle()
    old, young = (Reply(0, 0, (1, 0), (Term(2, stamp),), (), no_payload(2, 2, "float64"), (), 0.0, 0.0) for stamp in (21 - AGE, 23 - AGE))
    _, outbox, report = step(agent, state, bundle(state, 2, 20, replies=[old, young]))
    assert told(outbox) == [((Term(2, 23 - AGE),), ())]
    assert report.counts["too old"] == 1


def test_terms_that_never_come_home_are_lost_after_twice_the_age():
    agent, state = middle()
    first = set(state.books.flight)
    for _ in range(2 * AGE + 2):
        state, _, _ = step(agent, state)
    assert first
    assert not first & state.books.flight
    lost = state.books.counts[:, 4]
    assert lost[0] > 0
    assert lost[2] > 0
    assert state.books.counts[:, 0].tolist() == (state.books.counts[:, 1:].sum(1) + state.books.in_flight()).tolist()


def test_a_sum_with_a_term_that_was_not_asked_for_is_discarded_whole():
    agent, state = middle()
    known = next(iter(state.books.flight))
    sum_ = Reply(1, 0, (1,), (known, Term(known.agent, 1)), (), no_payload(2, 2, "float64"), (), 0.0, 0.0)
    after, _, report = step(agent, state, bundle(state, known.agent, 20, replies=[sum_]))
    assert report.counts["discarded"] == 1
    assert not report.replies
    assert after.books.counts[known.agent, 3] == 1
    assert known not in after.books.flight


def test_who_comes_back_answers_no_bundle_from_before_and_takes_no_reply_of_an_older_incarnation():
    agent, state = middle()
    back = restarted(agent, state.view, incarnation=1, round=state.round, memory=state.memory, credit=0.0, samples=state.samples)
    late = Bundle(0, 0, 19, 40, state.mark, (), (asks(18),), ())
    reply = Reply(1, 0, (1,), (Term(0, 19),), (), no_payload(2, 2, "float64"), (), 0.0, 0.0)
    _, outbox, report = step(agent, back, late, Bundle(2, 0, 20, 41, state.mark, (), (), (reply,)))
    assert told(outbox) == []
    assert report.counts["of a round skipped"] == 1
    assert report.counts["reply to an older incarnation"] == 1


def test_a_round_that_time_does_not_allow_is_refused_and_closes_nothing():
    agent, state = middle()
    agent = replace(agent, deadline=float("inf"))
    wild = bundle(state, 0, 10**6)
    assert not ready(agent, state, [wild], agent.neighbours, 1.0)
    after, _, report = step(agent, state, wild)
    assert report.counts["implausible round"] == 1
    assert after.round == 21


def test_a_wild_sequence_costs_no_memory():
    agent, state = middle()
    tracemalloc.start()
    after, _, _ = step(agent, state, bundle(state, 0, 20, sequence=2**62))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20
    assert after.heard[0].sequence == 2**62


def test_the_leap_is_taken_once():
    agent, state = middle()
    state = replace(state, credit=0.0)
    state, _, _ = step(agent, state, bundle(state, 0, state.round + 1 + agent.leap))
    assert state.round == 21 + agent.leap
    moved = state.round
    _, _, report = step(agent, state, bundle(state, 0, moved + 1 + agent.leap))
    assert report.counts["implausible round"] == 1
