"""Twins: a network that exchanges messages learns what the simulation learns, for every loss, tree and way of joining replies."""

from __future__ import annotations

import numpy as np
import pytest

import mnemesh as mm
from mnemesh.errors import MeshError, MnemeshError, StoreError
from mnemesh.live.books import FATES
from mnemesh.live.mesh import Mesh
from mnemesh.live.view import Router, configured

N, ROUNDS = 20, 24
GRAPH = mm.topology.default()
LOSSES = {"linear": None, "gated_linear": "value", "delta": None, "softmax": None, "softmax_norm": None, "gated_softmax": "value"}


def posed(loss: str, gate: str | None) -> tuple[mm.Problem, mm.streams.Stream]:
    features = mm.features.positive_random(4, 6, seed=1) if "softmax" in loss else None
    made = mm.losses.get(loss, **({"gate": gate} if gate else {}))
    problem = mm.Problem(made, mm.domains.ball(30.0), mm.interest.dirichlet(N, own=10.0, others=2.0, seed=1), features)
    width = 6 if gate == "key" and features else None
    stream = mm.streams.teacher(
        agents=N, key_dim=4, value_dim=3, rounds=ROUNDS, correlation=0.5, seed=2, gate=gate, dtype="float64", **({"gate_dim": width} if width else {})
    )
    return problem, stream


def play(mesh: Mesh, stream: mm.streams.Stream, history: np.ndarray, rounds: int = ROUNDS) -> float:
    """The largest difference to the simulation's iterates, relative to max(1, ‖X‖_∞), over all rounds."""
    worst = 0.0
    for t in range(rounds):
        worst = max(worst, float((abs(mesh.memories - history[t]).max((1, 2)) / np.maximum(1, abs(history[t]).max((1, 2)))).max()))
        gates = () if stream.gates is None else (stream.gates[t],)
        mesh.learn({str(n): (stream.keys[t, n], stream.values[t, n], *(gate[n] for gate in gates)) for n in range(N)})
    return worst


@pytest.mark.parametrize(("routing", "aggregation"), [("steiner", "auto"), ("steiner", "dense"), ("shortest_path", "factored")])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_network_learns_what_the_simulation_learns(loss, routing, aggregation):
    problem, stream = posed(loss, LOSSES[loss])
    step = mm.steps.inverse_sqrt(0.1)
    trees = mm.routing.get(routing, graph=GRAPH, interest=problem.interest)
    trace = mm.simulate(problem, mm.algorithms.dam_togd(trees, step=step), stream, dtype="float64", record_every=1)
    mesh = Mesh(
        problem, GRAPH, routing=routing, step=step, key_dim=4, value_dim=3, dtype="float64", aggregation=aggregation, deadline=float("inf"), max_age=60
    )
    assert play(mesh, stream, trace.history) < 1e-12
    assert (mesh.rounds == ROUNDS).all()
    assert not sum(counts.total() for counts in mesh.counts.values())


@pytest.mark.parametrize("gate", ["value", "key", "scalar"])
@pytest.mark.parametrize("loss", ["gated_linear", "gated_softmax"])
def test_every_gate_axis_is_carried_home(loss, gate):
    problem, stream = posed(loss, gate)
    trees = mm.routing.steiner(GRAPH, problem.interest)
    trace = mm.simulate(problem, mm.algorithms.dam_togd(trees, step=mm.steps.inverse_sqrt(0.1)), stream, dtype="float64", record_every=1)
    mesh = Mesh(problem, GRAPH, step=mm.steps.inverse_sqrt(0.1), key_dim=4, value_dim=3, dtype="float64", deadline=float("inf"))
    assert play(mesh, stream, trace.history) < 1e-12


def test_rounds_of_several_associations_and_of_none():
    rng = np.random.default_rng(3)
    graph, agents, rounds = mm.topology.ring(6), 6, 40
    keys, values, present = rng.uniform(-1, 1, (rounds, agents, 3, 2)), rng.normal(size=(rounds, agents, 3, 2)), rng.random((rounds, agents, 3)) < 0.4
    problem = mm.Problem("delta", mm.domains.ball(10.0), mm.interest.nearest(graph, 3))
    step = mm.steps.constant(0.1)
    trees = mm.routing.steiner(graph, problem.interest)
    stream = mm.streams.from_arrays(keys, values, present=present)
    trace = mm.simulate(problem, mm.algorithms.dam_togd(trees, step=step), stream, dtype="float64", record_every=1)
    mesh = Mesh(problem, graph, step=step, key_dim=2, value_dim=2, dtype="float64", deadline=float("inf"))
    for t in range(rounds):
        np.testing.assert_allclose(mesh.memories, trace.history[t], atol=1e-12)
        mesh.learn({str(n): (keys[t, n, present[t, n]], values[t, n, present[t, n]]) for n in range(agents) if present[t, n].any()})


def test_float32_agrees_to_rounding_and_names_are_the_users_own():
    problem, stream = posed("delta", None)
    names = [f"agent-{n}" for n in range(N)]
    trees = mm.routing.steiner(GRAPH, problem.interest)
    trace = mm.simulate(problem, mm.algorithms.dam_togd(trees, step=mm.steps.inverse_sqrt(0.1)), stream, dtype="float32")
    mesh = Mesh(problem, GRAPH, step=mm.steps.inverse_sqrt(0.1), key_dim=4, value_dim=3, names=names)
    for t in range(ROUNDS):
        mesh.learn({names[n]: (stream.keys[t, n], stream.values[t, n]) for n in range(N)})
    np.testing.assert_allclose(mesh.memories, trace.memories, atol=2e-4)
    key = np.full(4, 0.25)
    np.testing.assert_allclose(mesh.recall("agent-7", key), mesh.memories[7] @ key, rtol=1e-5)
    assert mesh.recall("agent-7", np.stack([key, key])).shape == (2, 3)


def test_the_ledger_counts_every_term_and_bytes_are_told_by_kind():
    problem, stream = posed("delta", None)
    sizes = {}
    for aggregation in ("auto", "dense", "factored"):
        mesh = Mesh(problem, GRAPH, step=mm.steps.inverse_sqrt(0.1), key_dim=4, value_dim=3, aggregation=aggregation)
        for t in range(ROUNDS):
            mesh.learn({str(n): (stream.keys[t, n], stream.values[t, n]) for n in range(N)})
        ledger, trees = mesh.ledger, mm.routing.steiner(GRAPH, problem.interest)
        assert len(ledger) == N * N
        assert (ledger["launched"] == ROUNDS).all()
        np.testing.assert_array_equal(ledger["applied"], ROUNDS - trees.delays)
        np.testing.assert_array_equal(ledger["in_flight"], trees.delays)
        assert all((ledger[fate] == 0).all() for fate in FATES[2:])
        sizes[aggregation] = dict(mesh.bytes)
    assert len({size["query"] for size in sizes.values()}) == 1
    assert sizes["auto"]["reply"] <= min(sizes["dense"]["reply"], sizes["factored"]["reply"])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"aggregation": "some"}, ("'some'", "auto, dense, factored")),
        ({"deadline": 0.5}, ("deadline=0.5",)),
        ({"names": ["a", "b"]}, ("2 names for 20 agents",)),
        ({"names": ["a"] * 20}, ("1 of them different",)),
        ({"routing": "stiener"}, ("did you mean 'steiner'?",)),
    ],
)
def test_networks_that_cannot_be(wrong, words):
    problem, _ = posed("delta", None)
    with pytest.raises(MnemeshError) as refused:
        Mesh(problem, GRAPH, step=mm.steps.constant(0.1), key_dim=4, value_dim=3, **wrong)
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("lisbon", (np.ones(4), np.ones(3)), ("no agent 'lisbon'",)),
        ("0", (np.ones(5), np.ones(3)), ("a key of shape (5,)", "4 finite numbers")),
        ("0", (np.ones(4), np.full(3, np.nan)), ("a value", "3 finite numbers")),
        ("0", (np.ones(4),), ("(key, value)",)),
        ("0", np.ones(4), ("ndarray is no association",)),
        ("0", (np.ones(4), np.ones(3), 0.5), ("no gate",)),
        ("0", ("words", np.ones(3)), ("0",)),
    ],
)
def test_what_cannot_be_learned_changes_nothing(name, given, words):
    problem, _ = posed("delta", None)
    mesh = Mesh(problem, GRAPH, step=mm.steps.constant(0.1), key_dim=4, value_dim=3)
    with pytest.raises(MeshError) as refused:
        mesh.learn({"1": (np.ones(4), np.ones(3)), name: given})
    for word in words:
        assert word in str(refused.value)
    assert mesh.period == 0
    mesh.learn()
    assert not np.any(mesh.memories)


def test_the_wrong_graph():
    problem, _ = posed("delta", None)
    with pytest.raises(MeshError, match="a graph of 3 nodes for 20 agents"):
        Mesh(problem, mm.topology.ring(3), step=mm.steps.constant(0.1), key_dim=4, value_dim=3)


def test_a_durable_network_goes_on_from_its_folder(tmp_path):
    """Memories, rounds and what is not yet played are there again; every agent is a new incarnation, and nothing is played twice."""
    rng, graph = np.random.default_rng(5), mm.topology.ring(5)
    problem = mm.Problem("delta", mm.domains.ball(20.0), mm.interest.nearest(graph, 2))
    settings = {"step": mm.steps.constant(0.1), "key_dim": 2, "value_dim": 2, "store": tmp_path / "agents", "names": list("abcde")}
    with Mesh(problem, graph, **settings) as mesh:
        mesh.faults(pauses=[("c", 15, 30)])
        for _ in range(20):
            mesh.learn({name: (rng.uniform(-1, 1, 2), rng.normal(size=2)) for name in mesh.names})
        memories, rounds, waiting = mesh.memories, mesh.rounds, mesh.waiting
    assert waiting[2] == 6
    with Mesh(problem, graph, **settings) as again:
        np.testing.assert_array_equal(again.memories, memories)
        np.testing.assert_array_equal(again.rounds, rounds)
        np.testing.assert_array_equal(again.waiting, waiting)
        assert again.period == 20
        for _ in range(30):
            again.learn()
        assert again.waiting.sum() == 0
        assert again.rounds.max() - again.rounds.min() <= 1
        assert (again.ledger["applied"][again.ledger["root"] != again.ledger["partner"]] > 0).all()


def test_a_network_without_deadline_goes_on_after_a_stop_and_after_a_crash(tmp_path):
    """Everybody waits for everybody: somebody who came back must speak first, and is not waited for before it does."""
    graph = mm.topology.line(3)
    problem = mm.Problem("delta", mm.domains.ball(20.0), mm.interest.uniform(3))
    settings = {"step": mm.steps.constant(0.1), "key_dim": 2, "value_dim": 2, "deadline": float("inf"), "store": tmp_path}
    for last in (5, 10):
        with Mesh(problem, graph, **settings) as mesh:
            for _ in range(5):
                mesh.learn({"1": (np.ones(2), np.ones(2))})
            assert mesh.rounds.min() >= last - 1
            assert not mesh.waiting.any()
    with Mesh(problem, graph, **settings) as mesh:
        mesh.faults(crashes=[("1", mesh.period + 3, mesh.period + 9)])
        before = mesh.rounds.max()
        for _ in range(30):
            mesh.learn()
        assert mesh.rounds.min() >= before + 25


def test_whatever_was_refused_or_failed_stops_nobody_else():
    """Many replies on a middle link; an agent whose store fails; what cannot be told in the network's numbers."""
    graph = mm.topology.line(20)
    mesh = Mesh(mm.Problem("delta", mm.domains.ball(5.0), mm.interest.uniform(20)), graph, step=mm.steps.constant(0.1), key_dim=2, value_dim=2, aggregation="factored")
    for _ in range(45):
        mesh.learn({"3": (np.ones((40, 2)), np.ones((40, 2)))})
    assert (mesh.rounds == 45).all()
    with pytest.raises(MeshError, match="finite"):
        mesh.learn({"0": (np.ones(2), np.ones(2)), "1": (np.array([1e39, 0]), np.ones(2))})
    assert mesh.period == 45
    assert not mesh.waiting.any()

    def full(*given: object) -> None:
        raise StoreError("the disk is full: nothing was written.")

    mesh._seats[2].store._record = full
    for _ in range(20):
        with pytest.raises(StoreError, match="the disk is full"):
            mesh.learn()
    assert mesh.rounds[2] == 45
    assert np.delete(mesh.rounds, 2).min() >= 60


def test_what_is_handed_out_changes_nothing_inside():
    graph = mm.topology.ring(3)
    mesh = Mesh(mm.Problem("delta", mm.domains.ball(5.0), mm.interest.uniform(3)), graph, step=mm.steps.constant(0.1), key_dim=2, value_dim=2)
    mesh.learn({"1": (np.ones(2), np.ones(2))})
    with pytest.raises(ValueError, match="read-only"):
        mesh.sample_of("1", 1).values[:] = 7.0
    mesh.counts["1"]["made up"] = 5
    mesh.bytes["query"] = 0
    assert "made up" not in mesh.counts["1"]
    assert mesh.bytes["query"] > 0


@pytest.mark.parametrize("wrong", [{"max_age": 1}, {"max_age": 10**9}, {"leap": 0}])
def test_ages_and_leaps_that_would_stop_a_network(wrong):
    with pytest.raises(MeshError, match=next(iter(wrong))):
        Mesh(mm.Problem("delta", mm.domains.ball(5.0), mm.interest.uniform(5)), mm.topology.line(5), step=mm.steps.constant(0.1), key_dim=2, value_dim=2, **wrong)


def test_a_tree_may_be_deeper_than_python_recurses():
    view = configured(mm.topology.line(1500))
    branch, unreached = Router(0, {0: 0.5, 1499: 0.5}, mm.routing.shortest_path).branch(view, 1)
    depth = 0
    while branch.children:
        (branch,) = branch.children
        depth += 1
    assert (depth, branch.agent, branch.weight, unreached) == (1499, 1499, 0.5, frozenset())


def test_a_store_that_is_in_use_or_nowhere_is_refused(tmp_path):
    graph = mm.topology.ring(3)
    problem = mm.Problem("delta", mm.domains.ball(20.0), mm.interest.uniform(3))
    settings = {"step": mm.steps.constant(0.1), "key_dim": 2, "value_dim": 2}
    with Mesh(problem, graph, store=tmp_path, **settings), pytest.raises(MnemeshError, match="0"):
        Mesh(problem, graph, store=tmp_path, **settings)
    (tmp_path / "file").write_text("")
    with pytest.raises(MeshError, match="no folder that can be made"):
        Mesh(problem, graph, store=tmp_path / "file", **settings)
    with pytest.raises(MeshError, match="cannot have a file"):
        Mesh(problem, graph, store=tmp_path, names=["a/b", "c", "d"], **settings)
