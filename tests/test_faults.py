"""Failures by schedule: what must hold in every period, and what must come back when nothing is wrong any more."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mnemesh as mm
from faulty import watch, world
from mnemesh.errors import FaultError, MeshError
from mnemesh.live import wire
from mnemesh.live.mesh import Mesh
from mnemesh.live.protocol import on_round

AGGREGATIONS = ("auto", "dense", "factored")


def check(seed: int) -> None:
    """Every rule on one schedule; a failure names the seed that plays it again."""
    seen = watch(seed, aggregation=AGGREGATIONS[seed % 3], commit_every=1 + 3 * (seed % 5 == 4))
    mesh = seen.mesh
    assert not seen.unheard(), f"seed {seed}: {seen.unheard()[:3]}"
    assert mesh.rounds.min() >= min(seen.recovered + 5, seen.healed + 50), f"seed {seed}: rounds {mesh.rounds}, and {seen.recovered} is where all is well"
    assert set(seen.learned.values()) == {1}, f"seed {seed}: an association was played twice"
    assert sum(seen.learned.values()) + mesh.waiting.sum() == mesh.period * len(mesh.names), f"seed {seed}: an association was lost"
    assert mesh.waiting.sum() <= 2 * len(mesh.names), f"seed {seed}: {mesh.waiting.sum()} associations wait, and nothing is wrong any more"
    assert mesh.rounds.max() - mesh.rounds.min() <= 2, f"seed {seed}: agents drift apart"


def in_a_process_of_its_own(first: int, last: int) -> None:
    """Many schedules, without the test run's shape checks, which take longer than the protocol."""
    plain = {name: value for name, value in os.environ.items() if name != "MNEMESH_CHECK_SHAPES"}
    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_faults\nfor seed in range({first}, {last}): test_faults.check(seed)"
    done = subprocess.run([sys.executable, "-c", program], env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("batch", range(10))
def test_all_rules_hold_on_every_schedule(batch):
    in_a_process_of_its_own(batch * 30, batch * 30 + 30)


@pytest.mark.study
@pytest.mark.parametrize("batch", range(16))
def test_all_rules_hold_on_thousands_of_schedules(batch):
    in_a_process_of_its_own(10_000 + batch * 250, 10_250 + batch * 250)


@given(st.integers(0, 2**31), st.integers(1, 25), st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_a_round_depends_on_the_set_of_what_came(seed, periods, order):
    """The same bundles in any order give the same state and the same messages, and nothing that went in is changed."""
    rng, graph, problem = world(seed)
    mesh = Mesh(problem, graph, step=mm.steps.constant(0.05), key_dim=2, value_dim=2, dtype="float64")
    mesh.faults(seed, loss=0.2, delay=2, duplicate=0.2)
    for _ in range(periods):
        mesh.learn({str(n): (rng.uniform(-1, 1, 2), rng.normal(size=2)) for n in range(problem.agents)})
    for n in range(problem.agents):
        agent, state, inbox = mesh.taken_apart(str(n))
        shuffled = list(inbox)
        order.shuffle(shuffled)
        sample = agent.learner.sample(np.ones((1, 2)), np.ones((1, 2)))
        first, outbox, report = on_round(agent, state, inbox, sample, agent.neighbours, 1.0)
        second, again, _ = on_round(agent, state, shuffled, sample, agent.neighbours, 1.0)
        third, _, _ = on_round(agent, state, inbox, sample, agent.neighbours, 1.0)
        for other in (second, third):
            np.testing.assert_array_equal(first.memory, other.memory)
            np.testing.assert_array_equal(first.books.counts, other.books.counts)
            assert (first.round, first.books.flight, first.heard, first.view) == (other.round, other.books.flight, other.heard, other.view)
        assert {m: (b.round, len(b.queries), len(b.replies)) for m, b in outbox.items()} == {
            m: (b.round, len(b.queries), len(b.replies)) for m, b in again.items()
        }
        frames = [{m: wire.join(wire.encode(bundle, mesh._shape)) for m, bundle in sent.items()} for sent in (outbox, again)]
        assert frames[0] == frames[1]
        assert report.round == first.round > state.round


def test_without_faults_nothing_is_dropped_and_with_a_deadline_all_stays_in_step():
    _, graph, problem = world(3)
    mesh = Mesh(problem, graph, step=mm.steps.constant(0.05), key_dim=2, value_dim=2)
    for _ in range(30):
        mesh.learn()
    assert (mesh.rounds == 30).all()
    assert not sum(counts.total() for counts in mesh.counts.values())


def test_a_cut_line_falls_into_two_networks_and_comes_together_again():
    graph = mm.topology.line(6)
    problem = mm.Problem("delta", mm.domains.ball(10.0), mm.interest.uniform(6))
    mesh = Mesh(problem, graph, step=mm.steps.constant(0.05), key_dim=2, value_dim=2)
    mesh.faults(cuts=[("2", "3", 10, 30)])
    alone = []
    for _ in range(60):
        mesh.learn()
        alone.append({name: sorted(report.unreachable) for name, report in mesh.reports.items()})
    assert alone[25]["0"] == [3, 4, 5]
    assert alone[25]["5"] == [0, 1, 2]
    assert not any(alone[50].values())
    assert mesh.rounds.min() == mesh.rounds.max() >= 58  # coming together may cost a deadline


def test_one_silent_neighbour_costs_one_deadline():
    """A paused agent is waited for once, then suspected; the others go on at one round a period."""
    graph = mm.topology.ring(5)
    problem = mm.Problem("delta", mm.domains.ball(10.0), mm.interest.uniform(5))
    mesh = Mesh(problem, graph, step=mm.steps.constant(0.05), key_dim=2, value_dim=2, deadline=3.0)
    mesh.faults(pauses=[("0", 10, 40)])
    for _ in range(40):
        mesh.learn()
    rounds = mesh.rounds
    assert rounds[0] == 9
    assert rounds[1:].min() >= 40 - 2 * 3
    for _ in range(10):
        mesh.learn()
    assert mesh.rounds.max() - mesh.rounds.min() <= 1


def test_the_same_seed_plays_the_same_failures():
    first, second = watch(11), watch(11)
    np.testing.assert_array_equal(first.mesh.memories, second.mesh.memories)
    assert first.mesh.counts == second.mesh.counts


def test_memories_after_failures_are_learned_by_everybody_alike():
    """The price of failures: over the next 100 rounds the network's mean loss is at most 1.1 times that of a twin that never failed."""
    ratios = []
    for seed in (1, 2, 3, 4, 5):
        seen = watch(seed, after=160)
        ratios.append(_price(seen))
        assert _price(seen, learned=False) > 1.3  # what was never learned would be noticed
    assert max(ratios) <= 1.1, ratios


def _price(seen, learned: bool = True) -> float:
    mesh = seen.mesh
    agents, weights = range(len(mesh.names)), np.asarray(mesh.problem.interest)
    last = int(mesh.rounds.min())
    twin = Mesh(mesh.problem, mesh.graph, step=mm.steps.constant(0.05), key_dim=2, value_dim=2, dtype="float64", deadline=float("inf"))
    history = []
    for r in range(1, last + 1):
        history.append(twin.memories)
        given = {}
        for n in agents:
            sample = seen.samples.get((n, r))
            if sample is not None and len(sample.features):
                given[str(n)] = (sample.features, sample.values)
        twin.learn(given)

    def loss(n: int, r: int, memory: np.ndarray) -> float:
        total = 0.0
        for m in agents:
            sample = seen.samples.get((m, r))
            if sample is not None and len(sample.features):
                total += weights[n, m] * 0.5 * float(((sample.features @ memory.T - sample.values) ** 2).sum()) / len(sample.features)
        return total

    first = seen.recovered
    pairs = [(n, r) for n, r in itertools.product(agents, range(first, min(first + 100, last) + 1)) if (n, r) in seen.played]
    mine = np.mean([loss(n, r, seen.played[n, r] if learned else np.zeros((2, 2))) for n, r in pairs])
    return float(mine / np.mean([loss(n, r, history[r - 1][n]) for n, r in pairs]))


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"loss": 1.5}, FaultError, "loss=1.5"),
        ({"delay": -1}, FaultError, "delay=-1"),
        ({"cuts": [("0", "2", 1, 5)]}, MeshError, "no link 0 to 2"),
        ({"cuts": [("0", "1", 5, 1)]}, FaultError, "periods 5..1"),
        ({"crashes": [("9", 1, 2)]}, MeshError, "no agent '9'"),
        ({"crashes": ["0"]}, FaultError, "names no agents and two periods"),
        ({"pauses": [("0", 0, 3)]}, FaultError, "periods 0..3"),
    ],
)
def test_schedules_that_cannot_be(wrong, error, words):
    graph = mm.topology.line(4)
    mesh = Mesh(mm.Problem("delta", mm.domains.ball(1.0), mm.interest.uniform(4)), graph, step=mm.steps.constant(0.1), key_dim=1, value_dim=1)
    with pytest.raises(error, match=words):
        mesh.faults(**wrong)


def test_chances_without_an_end_never_heal():
    with pytest.raises(FaultError, match="never end"):
        _ = mm.live.faults.Faults(loss=0.1).healed
