"""Every engine, held to the literal reference; and the reference, held to what can be worked out by hand."""

from __future__ import annotations

import ast
import functools
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mnemesh as mm
import reference
from builders import (
    ALGORITHMS,
    DOMAINS,
    FEATURES,
    LOSSES,
    STEPS,
    TREES,
    Built,
    Case,
    build,
    connected_graph,
    random_parents,
    sparse_interest,
)

TOLERANCE = 1e-10  # relative to max(1, ‖X‖_∞)


@functools.cache
def both(case: Case) -> tuple[Built, reference.Outcome]:
    built = build(case)
    return built, built.expected()


def close(found: np.ndarray, expected: np.ndarray) -> None:
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * max(1.0, float(np.max(abs(expected), initial=0.0))))


def agrees(case: Case, engine: str) -> None:
    """Losses, final memories and every recorded memory are the reference's."""
    built, expected = both(case)
    trace = built.simulate(engine=engine, dtype="float64", record_every=7)
    assert trace.engine == engine
    assert np.max(abs(expected.memories[-1] - expected.memories[0])) > 1e-3, "a run in which nothing moves shows nothing"
    close(trace.losses, expected.losses)
    close(trace.memories, expected.memories[-1])
    close(trace.history, expected.memories[np.asarray(trace.recorded_rounds) - 1])


def every_case() -> list[Case]:
    """Algorithms × losses with every gate × domains × rounds of one and of zero or several; trees, steps and features take turns."""
    trees, steps, maps, seeds = (itertools.cycle(names) for names in (TREES, STEPS, FEATURES[1:], range(10**6)))
    product = itertools.product(ALGORITHMS, LOSSES, DOMAINS, (False, True))
    return [
        Case(a, loss, gate, domain, next(trees), next(steps), next(maps) if "softmax" in loss else "identity", masked, given=domain == "ball", seed=next(seeds))
        for a, (loss, gate), domain, masked in product
    ]


def compiled_cases(algorithms: tuple[str, ...]) -> list[Case]:
    """Every loss on every domain, of one shape, and with as few kinds of run as will do: a compiler takes seconds for each."""
    trees, steps, seeds = (itertools.cycle(names) for names in (TREES, STEPS, range(1000, 10**6)))
    product = itertools.product(algorithms, enumerate(LOSSES), enumerate(DOMAINS))
    return [
        Case(a, loss, gate, domain, next(trees), next(steps), "elu_plus_one" if "softmax" in loss else "identity", (i + j) % 2 == 1, seed=next(seeds))
        for a, (i, (loss, gate)), (j, domain) in product
    ]


NUMBA_CASES = compiled_cases(("ogd", "local_ogd", "dam_togd"))
DESCENT, OTHERS = compiled_cases(("dam_togd",)), compiled_cases(("ogd", "local_ogd", "c_dogd"))
JAX_CASES = DESCENT[::5] + DESCENT[3::5] + OTHERS[3::11]  # fewer: each algorithm, loss, gate, domain, tree builder and kind of round, but not their product


@pytest.mark.parametrize("case", every_case(), ids=str)
def test_numpy_plays_the_reference(case: Case) -> None:
    agrees(case, "numpy")


@pytest.mark.parametrize("case", NUMBA_CASES, ids=str)
def test_numba_plays_the_reference(case: Case) -> None:
    agrees(case, "numba")


@pytest.mark.parametrize("case", JAX_CASES, ids=str)
def test_jax_plays_the_reference(case: Case) -> None:
    agrees(case, "jax")


@pytest.mark.parametrize("value_dim", [5, 19, 70])
def test_numba_plays_memories_of_any_width(value_dim: int) -> None:
    agrees(Case("dam_togd", "delta", value_dim=value_dim, key_dim=7, masked=True, rounds=20, seed=value_dim), "numba")


@pytest.mark.parametrize("trees", TREES)
@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_trees_of_every_builder_carry_every_message(trees: str, engine: str) -> None:
    for seed in range(4):
        agrees(Case("dam_togd", "delta", None, "ball", trees, masked=True, agents=9, partners=None, seed=100 + seed), engine)


PROBLEMS = {
    "step": st.sampled_from(STEPS), "trees": st.sampled_from(TREES), "agents": st.integers(1, 9), "partners": st.sampled_from([None, 1, 2]),
    "rounds": st.integers(1, 24), "given": st.booleans(), "seed": st.integers(0, 10**6),
}  # fmt: skip


def follows(case: Case, engine: str) -> None:
    """`agrees` for a case in which, perhaps, nothing happens."""
    built = build(case)
    expected, trace = built.expected(), built.simulate(engine=engine, dtype="float64")
    close(trace.losses, expected.losses)
    close(trace.memories, expected.memories[-1])


@given(data=st.data())
def test_numpy_plays_whatever_hypothesis_thinks_of(data: st.DataObject) -> None:
    loss, gate = data.draw(st.sampled_from(LOSSES))
    names = {"algorithm": ALGORITHMS, "domain": DOMAINS, "features": FEATURES, "masked": (False, True)}
    chosen = {name: data.draw(st.sampled_from(values)) for name, values in names.items()}
    sizes = {"key_dim": data.draw(st.integers(1, 4)), "value_dim": data.draw(st.integers(1, 5))}
    follows(Case(loss=loss, gate=gate, **chosen, **sizes, **data.draw(st.fixed_dictionaries(PROBLEMS))), "numpy")


@given(case=st.sampled_from(NUMBA_CASES), problem=st.fixed_dictionaries(PROBLEMS))
def test_numba_plays_whatever_hypothesis_thinks_of(case: Case, problem: dict[str, Any]) -> None:
    follows(replace(case, **problem), "numba")


@pytest.mark.parametrize("trees", [name for name in TREES if name != "instant"])
def test_messages_per_round_are_those_that_cross_links(trees: str) -> None:
    """Once the pipes are full, as many queries cross links in a round as the trees have edges, and a reply per hop of each partner."""
    built, outcome = both(Case("dam_togd", trees=trees, agents=9, partners=None, rounds=40, seed=11))
    promised, crossed = built.trees.messages_per_round(), outcome.crossed[-1]
    assert (promised.queries, promised.replies_single) == (crossed["Query"], crossed["Reply"])
    assert promised.queries == promised.replies_aggregated == sum(len(parents) - 1 for parents in built.trees.parents)


# The reference itself.


def test_the_reference_shares_no_code_with_the_package() -> None:
    tree = ast.parse(Path(reference.__file__).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert imported == {"__future__", "collections", "collections.abc", "dataclasses", "typing", "numpy"}


@pytest.mark.parametrize(("loss", "gate"), LOSSES)
def test_reference_gradients_are_slopes(loss: str, gate: str | None) -> None:
    world = build(Case("ogd", loss, gate, features="taylor", masked=True, seed=3)).world
    X, h = np.random.default_rng(1).normal(size=(2, 13)), 1e-6
    for m, t in itertools.product(world.agents, range(1, 5)):
        _, gradient = world.f(m, t, X)
        for place in np.ndindex(X.shape):
            nudge = np.zeros_like(X)
            nudge[place] = h
            slope = (world.f(m, t, X + nudge)[0] - world.f(m, t, X - nudge)[0]) / (2 * h)
            assert abs(slope - gradient[place]) < 1e-7
        if not world.present[t - 1, m].any():
            assert world.f(m, t, X)[0] == 0 and not gradient.any()


@pytest.mark.parametrize("loss", ["linear", "delta"])
def test_reference_without_delay_is_gradient_descent(loss: str) -> None:
    """Every agent next to its only partner 0 links away, against OGD written as array operations."""
    rng = np.random.default_rng(5)
    T, N, W = 40, 4, sparse_interest(np.random.default_rng(2), 4, 2)
    k, v = rng.uniform(-1, 1, size=(T, N, 3)), rng.normal(size=(T, N, 2))
    world = reference.World(loss, k[:, :, None], v[:, :, None], W, reference.inverse_sqrt(0.4), reference.onto_ball(0.9))
    X = np.zeros((N, 2, 3))
    for t in range(T):
        z = np.einsum("nij,mj->nmi", X, k[t])
        r = z - v[t] if loss == "delta" else np.broadcast_to(-v[t], z.shape)
        X = X - 0.4 / np.sqrt(t + 1) * np.einsum("nm,nmi,mj->nij", W, r, k[t])
        X = X / np.maximum(1, np.sqrt((X**2).sum((1, 2), keepdims=True)) / 0.9)
    star = [{n: None, **{m: n for m in range(N) if m != n}} for n in range(N)]
    links = list(itertools.combinations(range(N), 2))
    np.testing.assert_allclose(reference.dam_togd(world, star, links, instantly=True).memories[-1], X, atol=1e-13)
    np.testing.assert_allclose(reference.ogd(world).memories[-1], X, atol=1e-13)


def test_reference_of_a_linear_loss_adds_up_what_arrived() -> None:
    """∇f = −v kᵀ whatever the iterate, so X_{n,T+1} = Σ_m w Σ_{s ≤ T−τ} η_{s+τ} v_{m,s} k_{m,s}ᵀ, on random graphs and trees."""
    rng = np.random.default_rng(8)
    T, N = 25, 7
    graph, W = connected_graph(rng, N), sparse_interest(rng, N, None)
    parents = random_parents(rng, graph, W)
    k, v = rng.uniform(-1, 1, size=(T, N, 1, 2)), rng.normal(size=(T, N, 1, 3))
    eta = 0.3 / np.sqrt(np.arange(1, T + 1))
    world = reference.World("linear", k, v, W, reference.schedule(lambda t: eta[t - 1]))
    found = reference.dam_togd(world, parents, list(graph.edges)).memories[-1]
    for n in range(N):
        tree = nx.Graph([(a, b) for a, b in parents[n].items() if b is not None])
        tree.add_node(n)
        tau = {m: 2 * nx.shortest_path_length(tree, n, m) for m in np.flatnonzero(W[n])}
        expected = sum(W[n, m] * eta[s + tau[m]] * np.outer(v[s, m, 0], k[s, m, 0]) for m in tau for s in range(T - tau[m]))
        np.testing.assert_allclose(found[n], expected, atol=1e-13)


def test_reference_of_one_far_partner_is_the_delayed_recursion() -> None:
    """d = 1, agent 0 of a line learns only from agent 3: x_{t+1} = clip(x_t − η_t (x_{t−6} k − v) k), k and v of round t − 6, η_t = c/√max(t − 6, 1)."""
    rng = np.random.default_rng(9)
    T, tau = 60, 6
    k, v = rng.uniform(-1, 1, size=(T, 4, 1, 1)), 3 * rng.normal(size=(T, 4, 1, 1))
    W = np.eye(4)[[3, 1, 2, 3]]
    world = reference.World("delta", k, v, W, reference.inverse_sqrt(0.5), reference.onto_box(-1.0, 1.0))
    trees = [{0: None, 1: 0, 2: 1, 3: 2}, {1: None}, {2: None}, {3: None}]
    outcome = reference.dam_togd(world, trees, [(0, 1), (1, 2), (2, 3)])
    x = [0.0]
    for t in range(1, T + 1):
        then = t - tau
        slope = (x[then - 1] * k[then - 1, 3].item() - v[then - 1, 3].item()) * k[then - 1, 3].item() if then > 0 else 0.0
        x.append(float(np.clip(x[-1] - 0.5 / np.sqrt(max(then, 1)) * slope, -1, 1)))
    np.testing.assert_allclose(outcome.memories[:, 0, 0, 0], x, atol=1e-14)
    np.testing.assert_allclose(outcome.losses[:, 0], [(x[t] * k[t, 3].item() - v[t, 3].item()) ** 2 / 2 for t in range(T)], atol=1e-13)
    assert not outcome.memories[: tau + 1, 0].any() and outcome.memories[tau + 1, 0].any()


def test_reference_of_consensus_with_no_data_is_averaging() -> None:
    """Without associations C-DOGD only mixes: memories tend to their mean, which never moves."""
    graph = connected_graph(np.random.default_rng(4), 5)
    start = np.random.default_rng(6).normal(size=(5, 2, 2))
    nothing = np.zeros((200, 5, 1), dtype=bool)
    world = reference.World("delta", np.ones((200, 5, 1, 2)), np.ones((200, 5, 1, 2)), np.eye(5), reference.inverse_sqrt(1.0), present=nothing, initial=start)
    outcome = reference.c_dogd(world, reference.metropolis(5, list(graph.edges)))
    np.testing.assert_allclose(outcome.memories.mean(1), np.broadcast_to(start.mean(0), (201, 2, 2)), atol=1e-12)
    np.testing.assert_allclose(outcome.memories[-1], np.broadcast_to(start.mean(0), (5, 2, 2)), atol=1e-6)
    assert not outcome.losses.any()


def test_reference_messages_keep_to_links() -> None:
    world = build(Case("ogd", agents=3, partners=3, seed=1)).world
    jump = [{0: None, 1: 0, 2: 0}, {1: None, 0: 1, 2: 1}, {2: None, 1: 2, 0: 1}]
    with pytest.raises(AssertionError, match="share no link"):
        reference.dam_togd(world, jump, [(0, 1), (1, 2)])


def test_the_package_computes_what_it_says_it_computes() -> None:
    """`mm.Problem.recall` and the losses' own value: the same numbers as the reference's f, by another road."""
    built = build(Case("ogd", "delta", seed=21))
    X = np.random.default_rng(0).normal(size=(2, 3))
    for m, t in itertools.product(range(6), (1, 30)):
        answer = built.problem.recall(X, built.stream.keys[t - 1, m])
        assert mm.losses.delta().value(answer, built.stream.values[t - 1, m]) == pytest.approx(built.world.f(m, t, X)[0], rel=1e-12)


def test_the_cases_for_compilers_leave_nothing_out() -> None:
    for cases in (NUMBA_CASES, JAX_CASES, DESCENT[::5] + DESCENT[3::5]):
        assert {(case.loss, case.gate) for case in cases} == set(LOSSES)
        assert {(case.domain, case.masked) for case in cases} == set(itertools.product(DOMAINS, (False, True)))
        assert {case.trees for case in cases if case.algorithm == "dam_togd"} == set(TREES)
    assert {case.algorithm for case in JAX_CASES} == set(ALGORITHMS)
