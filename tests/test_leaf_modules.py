"""What one agent computes, and its errors: losses, features, domains, steps, interest, against closed forms."""

from __future__ import annotations

import importlib
import inspect
import itertools
import math
import os
import pickle
import subprocess
import sys
import tracemalloc
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from mnemesh import algorithms, domains, errors, features, interest, losses, registry, routing, steps, streams, topology
from mnemesh.draws import generator
from mnemesh.interest import Interest
from mnemesh.testing.laws import differences, on_jax

RNG = np.random.default_rng(7)
Z, V = RNG.standard_normal((2, 4, 3))


def test_table_1():
    """The six rows, digit by digit: ℓ, r and D."""
    inner, distance = -(Z * V).sum(-1), 0.5 * ((Z - V) ** 2).sum(-1)
    gates = np.array([[0.0, 1.0, 0.25]])
    rows: list[tuple[Any, Any, Any, Any]] = [
        (losses.linear(), inner, -V, None),
        (losses.gated_linear(), inner, -V, [[[1.0], [0.0], [0.75]]]),
        (losses.delta(), distance, Z - V, None),
        (losses.softmax(), inner, -V, None),
        (losses.softmax_norm(), inner, -V, None),
        (losses.gated_softmax(), inner, -V, [[[1.0], [0.0], [0.75]]]),
    ]
    assert tuple(row[0].name for row in rows) == losses.names()
    for loss, value, residual, decay in rows:
        np.testing.assert_allclose(loss.value(Z, V), value, rtol=1e-14)
        np.testing.assert_array_equal(loss.residual(Z, V), residual)
        if decay is not None:
            np.testing.assert_array_equal(loss.decay(gates), decay)
    assert [loss.decays for loss, *_ in rows] == [False, True, False, False, True, True]
    assert [loss.demands_features for loss, *_ in rows] == [False, False, False, True, True, True]
    np.testing.assert_array_equal(losses.softmax_norm().decay(np.ones((1, 1, 1))), np.ones((1, 1, 1)))  # D = 1


def test_gates_act_on_the_axis_that_the_loss_names():
    gates = np.array([[0.2, 0.9]])
    np.testing.assert_array_equal(losses.gated_linear("value").decay(gates), 1 - gates[:, :, None])
    np.testing.assert_array_equal(losses.gated_linear("key").decay(gates), 1 - gates[:, None, :])
    np.testing.assert_array_equal(losses.gated_linear("scalar").decay(gates[0]), 1 - gates[0][:, None, None])
    assert losses.linear().decay(gates) is None


def test_one_gradient_step_is_the_published_recurrence():
    """Rate 1 on gated_linear: S ← diag(ψ)S + vkᵀ by value, S ← S diag(ψ) + vkᵀ by key; rate β on delta: S ← S − β(Sk − v)kᵀ."""
    memory, key, value = RNG.standard_normal((2, 3)), RNG.standard_normal(3), RNG.standard_normal(2)

    def moved(loss, gates, rate):
        gradient = np.outer(loss.residual(memory @ key, value), key) + (0 if gates is None else loss.decay(gates) * memory)
        return memory - rate * gradient

    gates = RNG.random(2)
    np.testing.assert_allclose(moved(losses.gated_linear(), gates, 1.0), np.diag(gates) @ memory + np.outer(value, key))
    gates = RNG.random(3)
    np.testing.assert_allclose(moved(losses.gated_linear("key"), gates, 1.0), memory @ np.diag(gates) + np.outer(value, key))
    np.testing.assert_allclose(moved(losses.delta(), None, 0.3), memory - 0.3 * np.outer(memory @ key - value, key))


def test_the_linear_and_delta_lipschitz_constants_are_reached():
    """The linear gradient −vφᵀ has norm ‖v‖‖φ‖; DeltaNet's worst memory in a ball points away from v along φ."""
    value, feature, radius = V[0], RNG.standard_normal(2), 1.7
    norms = np.linalg.norm(value), np.linalg.norm(feature)
    assert losses.linear().lipschitz(np.array(9.9), *norms) == pytest.approx(np.linalg.norm(np.outer(-value, feature)))
    worst = -radius * np.outer(value, feature) / (norms[0] * norms[1])
    furthest = domains.ball(radius).furthest(feature, value)
    gradient = np.outer(losses.delta().residual(worst @ feature, value), feature)
    assert losses.delta().lipschitz(furthest, *norms) == pytest.approx(np.linalg.norm(gradient))


def test_a_loss_from_its_value_is_differentiated():
    jnp = importlib.import_module("jax.numpy")
    huber = losses.from_value("huber", lambda z, v: (jnp.sqrt(1 + (z - v) ** 2) - 1).sum(-1))
    np.testing.assert_allclose(on_jax(huber.residual, Z, V), (Z - V) / np.sqrt(1 + (Z - V) ** 2), rtol=1e-12)
    assert huber.needs_jax and huber.curvature is None and huber.lipschitz(Z, Z, Z) is None


def test_feature_maps_in_closed_form():
    keys = np.array([[-2.0, 0.0, 1.5]])
    np.testing.assert_array_equal(features.identity()(keys), keys)
    np.testing.assert_allclose(features.elu_plus_one()(keys), [[math.exp(-2), 1.0, 2.5]])
    assert np.isfinite(features.elu_plus_one()(np.array([-1e4, 1e4]))).all()
    query, key = RNG.standard_normal((2, 3))
    product = query @ key
    taylor = features.taylor()
    assert taylor(query) @ taylor(key) == pytest.approx(1 + product + product**2 / 2)
    assert taylor.dim(3) == 13 == len(taylor(key))


@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize("key_dim", [2, 5])
def test_positive_random_features_are_unbiased(orthogonal, key_dim):
    """The mean over independent draws is exp(⟨q, k⟩), within four standard errors; directions are N(0, I). (Keys are short: the estimate of a long one has a heavy tail.)"""
    pairs = 0.5 * np.random.default_rng(key_dim).standard_normal((6, 2, key_dim)) / math.sqrt(key_dim)
    maps = [features.positive_random(key_dim, 2 * key_dim + 1, seed=seed, orthogonal=orthogonal) for seed in range(1_500)]
    kernels = np.array([(phi(pairs[:, 0]) * phi(pairs[:, 1])).sum(-1) for phi in maps])
    off = (kernels.mean(0) - np.exp((pairs[:, 0] * pairs[:, 1]).sum(-1))) / (kernels.std(0) / math.sqrt(len(maps)))
    assert abs(off).max() < 4
    directions = np.array([phi.directions for phi in maps])
    assert abs(directions.mean(0)).max() < 5 / math.sqrt(len(maps))  # no direction has a favourite sign
    second = np.einsum("sdi,sdj->ij", directions, directions) / directions[..., 0].size
    assert abs(second - np.eye(key_dim)).max() < 0.1


def test_orthogonal_directions_are_orthogonal_and_worth_it():
    directions = features.positive_random(4, 8, seed=3).directions
    for block in (directions[:4], directions[4:]):
        gram = block @ block.T
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12)
    key = np.array([0.9, 0.3, -0.8, 0.4])
    spread = [
        np.std([float(phi(key) @ phi(-key)) for phi in (features.positive_random(4, 8, seed=s, orthogonal=o) for s in range(300))]) for o in (True, False)
    ]
    assert spread[0] < spread[1]


def test_domains_in_closed_form():
    ball, box = domains.ball(5.0), domains.box(np.array([[-1.0, 0.0]]), 2.0)
    np.testing.assert_allclose(ball.project(np.array([[6.0, 8.0]])), [[3.0, 4.0]])
    np.testing.assert_array_equal(box.project(np.array([[-3.0, 1.0], [9.0, -9.0]])), [[-1.0, 1.0], [2.0, 0.0]])
    assert (ball.diameter((3, 2)), ball.radius((3, 2))) == (10.0, 5.0)
    assert box.diameter((3, 2)) == pytest.approx(math.sqrt(3 * 9 + 3 * 4)) and box.radius((3, 2)) == pytest.approx(math.sqrt(6 * 4))
    assert domains.everything().diameter((3, 2)) == math.inf == domains.everything().radius((3, 2))
    huge = np.full((2, 2), 1e300)
    np.testing.assert_array_equal(domains.everything().project(huge), huge)
    assert ball.contains(np.array([[[3.0, 4.0]], [[3.1, 4.0]], [[np.nan, 0.0]]])).tolist() == [True, False, False]
    assert not domains.everything().contains(np.array([[np.inf]]))


@given(st.lists(st.floats(-5, 5), min_size=6, max_size=6), st.lists(st.floats(-5, 5), min_size=5, max_size=5))
def test_the_furthest_point_of_a_box_is_a_corner(entries, association):
    """Σ_i (max over corners of |⟨x_i, φ⟩ − v_i|)²: found by trying every corner."""
    low = np.minimum(entries, 0).reshape(2, 3) - 0.5
    high = np.maximum(entries, 0).reshape(2, 3) + 0.5
    feature, value = np.array(association[:3]), np.array(association[3:])
    corners = [np.where(np.reshape(corner, (2, 3)), high, low) for corner in itertools.product([False, True], repeat=6)]
    worst = max(np.linalg.norm(corner @ feature - value) for corner in corners)
    assert domains.box(low, high).furthest(feature, value) == pytest.approx(worst)


def test_rates_in_closed_form():
    tau = np.array([0, 3])
    rates = steps.Rates(steps.inverse_sqrt([0.8, 0.4]), tau)(1, 6)
    np.testing.assert_allclose(rates[:, 0], 0.8 / np.sqrt(np.arange(1, 7)))
    np.testing.assert_allclose(rates[:, 1], [0.4, 0.4, 0.4, 0.4, 0.4 / math.sqrt(2), 0.4 / math.sqrt(3)])
    np.testing.assert_allclose(steps.Rates(steps.inverse(2.0, t0=1.0), tau)(1, 3)[:, 0], [1, 2 / 3, 1 / 2])
    np.testing.assert_array_equal(steps.Rates(steps.constant(0.1), tau)(5, 6)[:, 0], [0.1, 0.1])
    np.testing.assert_allclose(steps.Rates(steps.as_step(lambda t: 1 / t), tau)(2, 3)[:, 0], [1 / 2, 1 / 3])
    np.testing.assert_allclose(steps.Rates(steps.as_step(lambda t: np.array([1.0, 2.0]) / t), tau)(2, 2), [[0.5, 1.0]])
    assert steps.inverse_sqrt(0.8)(4) == 0.4 and steps.inverse_sqrt([1.0, 2.0])(4).tolist() == [0.5, 1.0]


def _all_parts():
    return [
        (losses, losses.get(name)) for name in losses.names()
    ] + [
        (losses, losses.gated_linear("key")), (losses, losses.gated_softmax("scalar")),
        (features, features.identity()), (features, features.elu_plus_one()), (features, features.taylor()),
        (features, features.positive_random(3, 7, seed=5)), (features, features.positive_random(3, 7, seed=5, orthogonal=False)),
        (domains, domains.ball(2.5)), (domains, domains.box(-1, 1)), (domains, domains.box(np.array([[-1.0, -2.0]]), 1)), (domains, domains.everything()),
        (steps, steps.constant(0.25)), (steps, steps.inverse_sqrt([0.1, 0.2])), (steps, steps.inverse(2.0, t0=3.0)),
    ]  # fmt: skip


def test_everything_built_in_can_be_written_down_and_made_again():
    parts = _all_parts()
    for module in (losses, features, domains, steps):
        assert {part.name for owner, part in parts if owner is module} == set(module.names()), "a new name belongs into _all_parts"
    for module, part in parts:
        settings = part.settings()
        for value in settings.values():
            assert isinstance(value, bool | int | float | str | list | np.ndarray)
        again = module.get(part.name, **settings)
        assert again == part and hash(again) == hash(part) and repr(again) == repr(part) and "\n" not in repr(part)
        from_text = {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in settings.items()}
        assert module.get(part.name, **from_text) == part
        assert pickle.loads(pickle.dumps(part)) == part
    for (_, one), (_, other) in itertools.combinations(parts, 2):
        assert one != other
    phi, same = parts[11][1], features.positive_random(3, 7, seed=5)
    np.testing.assert_array_equal(phi.directions, same.directions)


@pytest.mark.parametrize(
    "part, error",
    [(losses.from_value("mine", lambda z, v: z.sum(-1)), errors.LossError), (steps.as_step(lambda t: 1 / t), errors.StepError)],
)
def test_what_has_no_settings_says_so(part, error):
    with pytest.raises(error, match=r"no settings\(\).*cannot be written down"):
        part.settings()
    assert part == part and isinstance(hash(part), int) and "\n" not in repr(part)


def test_registries():
    mine = registry.Registry("thing", errors.LossError, {"apple": lambda: 1})
    mine.register("pear", lambda size=2: size)
    assert mine.names() == ("apple", "pear") and mine.get("pear", size=3) == 3
    with pytest.raises(errors.LossError, match=r"^there is no thing 'appel': did you mean 'apple'\? There are apple, pear\.$"):
        mine.get("appel")
    with pytest.raises(errors.LossError, match=r"^there is no thing 'x': there are apple, pear\.$"):
        mine.get("x")
    with pytest.raises(errors.LossError, match="registered thing already"):
        mine.register("pear", lambda: 0)


@pytest.mark.parametrize("module", [losses, features, domains, steps, topology, routing, algorithms, interest, streams])
def test_every_registry_tells_its_makers(module):
    for name in module.names():
        made = module.maker(name)
        assert inspect.signature(made).return_annotation is not inspect.Signature.empty and made.__doc__
        if module is not streams:
            assert made is getattr(module, name, made)  # the function that users call
    with pytest.raises(errors.MnemeshError, match=f"'{module.names()[0][:-1]}': did you mean '{module.names()[0]}'"):
        module.maker(module.names()[0][:-1])


def test_interests_and_streams_are_made_by_name():
    assert interest.names() == ("dirichlet", "uniform", "identity", "nearest", "scattered")
    assert interest.get("identity", agents=3) == interest.identity(3)
    assert interest.get("nearest", graph=nx.cycle_graph(7), count=3) == interest.nearest(nx.cycle_graph(7), 3)
    assert streams.maker("teacher") is streams.Teacher and streams.maker("computed_teacher") is streams.Computed
    assert {"correlation", "presence", "gate_dim", "noise"} < set(inspect.signature(streams.maker("teacher")).parameters)
    sizes = {"agents": 3, "key_dim": 2, "value_dim": 2, "rounds": 5, "correlation": 0.5, "seed": 1}
    assert np.array_equal(streams.get("teacher", **sizes).keys, streams.teacher(**sizes).keys)
    with pytest.raises(errors.InterestError, match=r"the interest 'uniform' takes \(agents: .*\) -> .*: .*'own'"):
        interest.get("uniform", agents=3, own=0.5)
    with pytest.raises(errors.DataError, match=r"the stream 'teacher' takes .*missing a required argument: 'seed'"):
        streams.get("teacher", **{name: value for name, value in sizes.items() if name != "seed"})


def test_draws_are_keyed_by_seed_purpose_and_block():
    draw = lambda *key: generator(*key).random(4).tolist()  # noqa: E731
    assert draw(1, "a", 0, 2) == draw(1, "a", 0, 2)
    others = [draw(2, "a", 0, 2), draw(1, "b", 0, 2), draw(1, "a", 2, 0), draw(1, "a", 0, 3)]
    assert all(draw(1, "a", 0, 2) != other for other in others)
    with pytest.raises(errors.DataError, match="seed=-1 is not a whole number from 0 on"):
        generator(-1, "a")


# interest


@given(st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_ragged_rows_hold_what_the_matrix_held(agents, seed):
    rng = np.random.default_rng(seed)
    dense = rng.random((agents, agents)) * (rng.random((agents, agents)) < 0.4) + np.diag(rng.random(agents) + 0.1)
    dense /= dense.sum(1, keepdims=True)
    found = interest.from_array(dense)
    np.testing.assert_allclose(np.asarray(found), dense, rtol=1e-12)
    assert interest.from_array(scipy.sparse.coo_array(dense)) == found == interest.as_interest(found)
    np.testing.assert_allclose(found.own, np.diag(dense))
    for n in range(agents):
        partners, weights = found.row(n)
        assert partners.tolist() == np.flatnonzero(dense[n]).tolist() and weights.sum() == pytest.approx(1)


def test_a_sparse_matrix_stays_sparse_and_adds_up_what_is_given_twice():
    twice = scipy.sparse.csr_array((np.array([0.5, 0.5, 1.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    np.testing.assert_array_equal(np.asarray(interest.from_array(twice)), [[0, 1], [1, 0]])
    assert twice.nnz == 3  # the caller's matrix is left alone
    agents = 100_000
    found = interest.from_array(scipy.sparse.eye_array(agents, format="csr"))
    assert len(found.partners) == agents
    with pytest.raises(errors.InterestError, match=r"100,000 agents would take 75 GiB"):
        np.asarray(found)


def test_weights_are_renormalised_within_1e_6_and_refused_beyond():
    near = interest.from_array(np.array([[0.5 + 4e-7, 0.5], [0.0, 1.0]]))
    assert near.row(0)[1].sum() == pytest.approx(1, abs=1e-15)
    with pytest.raises(errors.InterestError, match=r"row 1 of the interest matrix sums to 0\.9, not 1: agent 1's loss"):
        interest.from_array(np.array([[1.0, 0.0], [0.5, 0.4]]))


def test_dirichlet_interests_have_the_dirichlet_moments():
    """E w_{n,m} = y_m/Σy; Var w_{n,n} = p(1 − p)/(Σy + 1)."""
    own, others, agents = 10.0, 2.0, 20
    draws = np.array([np.asarray(interest.dirichlet(agents, own=own, others=others, seed=seed)) for seed in range(60)])
    total = own + (agents - 1) * others
    mine = draws[:, np.arange(agents), np.arange(agents)].ravel()
    assert mine.mean() == pytest.approx(own / total, rel=0.05)
    assert mine.var() == pytest.approx(own / total * (1 - own / total) / (total + 1), rel=0.15)
    assert draws[:, 0, 1:].mean() == pytest.approx(others / total, rel=0.05)
    first = interest.dirichlet(5, own=1.0, others=0.1, seed=1)
    assert first == interest.dirichlet(5, own=1.0, others=0.1, seed=1) != interest.dirichlet(5, own=1.0, others=0.1, seed=2)


def test_uniform_identity_and_nearest():
    np.testing.assert_allclose(np.asarray(interest.uniform(4)), np.full((4, 4), 0.25))
    np.testing.assert_array_equal(np.asarray(interest.identity(3)), np.eye(3))
    ring = interest.nearest(nx.cycle_graph(7), 3, own=0.4)
    partners, weights = ring.row(0)
    assert partners.tolist() == [0, 1, 2, 6]  # both neighbours, and of those two hops away (2 and 5) the smaller id
    np.testing.assert_allclose(weights, [0.4, 0.2, 0.2, 0.2])
    for n in range(7):
        hops = nx.single_source_shortest_path_length(nx.cycle_graph(7), n)
        nearest = sorted(hops, key=lambda node, hops=hops: (hops[node], node))[:4]
        assert ring.row(n)[0].tolist() == sorted(nearest)
    assert interest.nearest(nx.path_graph(3), 2, own=0.0).row(0)[0].tolist() == [1, 2]


@given(st.integers(2, 12), st.integers(0, 2**32 - 1), st.data())
def test_scattered_interests_are_in_so_many_different_others(agents, seed, data):
    count, own = data.draw(st.integers(1, agents - 1)), data.draw(st.sampled_from([0.0, 0.3, 0.99]))
    found = interest.scattered(agents, count, own=own, seed=seed)
    dense = np.asarray(found)
    np.testing.assert_allclose(np.diag(dense), own)
    others = dense[~np.eye(agents, dtype=bool)].reshape(agents, -1)
    assert ((others > 0).sum(1) == count).all()
    np.testing.assert_allclose(others[others > 0], (1 - own) / count)
    assert found == interest.scattered(agents, count, own=own, seed=seed)


def test_scattered_partners_are_drawn_uniformly():
    """Each of the others is chosen with probability count/(N − 1), whoever chooses; every set alike."""
    draws = np.array([np.asarray(interest.scattered(6, 2, own=0.0, seed=seed)) > 0 for seed in range(4_000)])
    share, off = draws.mean(0), ~np.eye(6, dtype=bool)
    assert not share[~off].any() and abs(share[off] - 2 / 5).max() < 4.5 * math.sqrt(0.4 * 0.6 / 4_000)
    pairs = np.array([(draws[:, 0, a] & draws[:, 0, b]).mean() for a, b in itertools.combinations(range(1, 6), 2)])
    assert pairs.sum() == pytest.approx(1) and abs(pairs - 0.1).max() < 4.5 * math.sqrt(0.1 * 0.9 / 4_000)
    assert interest.scattered(6, 2, seed=1) != interest.scattered(6, 2, seed=2)


def test_a_hundred_thousand_agents_have_scattered_partners_in_little_memory():
    tracemalloc.start()
    found = interest.scattered(100_000, 5, own=0.2, seed=1)
    assert tracemalloc.get_traced_memory()[1] < 2e8  # 100,000 × 100,000 would be 8e10
    tracemalloc.stop()
    assert len(found.partners) == 600_000 and (found.own == 0.2).all()
    assert abs(np.bincount(found.partners, minlength=100_000).mean() - 6) < 1e-9


def test_an_interest_prints_as_a_line_and_cannot_be_changed():
    found = interest.uniform(50)
    assert repr(found) == "Interest(agents=50, partners 50..50, own weight 0.02..0.02)"
    with pytest.raises(ValueError, match="read-only"):
        found.weights[0] = 1


REFUSED = [
    (lambda: losses.get("detla"), errors.LossError, "no loss 'detla': did you mean 'delta'"),
    (lambda: features.positive_random(0, 4, seed=1), errors.FeatureError, "key_dim=0: a whole number from 1 on"),
    (lambda: features.positive_random(3, 4, seed=1)(np.ones((2, 5))), errors.FeatureError, "dimension 5.*drawn for dimension 3"),
    (lambda: domains.ball(0.0), errors.DomainError, "radius 0.0: the radius must be positive"),
    (lambda: domains.ball(math.inf), errors.DomainError, "radius inf"),
    (lambda: domains.ball(math.nan), errors.DomainError, "radius nan"),
    (lambda: domains.box(1, 1), errors.DomainError, "every low end must be below its high end"),
    (lambda: domains.box(-math.inf, 1), errors.DomainError, "an end that is not finite: use everything"),
    (lambda: domains.box(np.zeros((2, 2, 2)), 1), errors.DomainError, "a memory has two axes"),
    (lambda: domains.box(np.zeros((4, 1)), 1).check_shape((3, 2)), errors.DomainError, r"low end has shape \(4, 1\)"),
    (lambda: steps.constant(0.0), errors.StepError, "c=0.0: a rate must be a positive"),
    (lambda: steps.inverse_sqrt("fast"), errors.StepError, "c='fast': a rate must be a positive"),
    (lambda: steps.inverse_sqrt([0.1, -1]), errors.StepError, "a rate must be a positive"),
    (lambda: steps.inverse(1.0, t0=-1.0), errors.StepError, "t0=-1.0: t \\+ t0 must be positive"),
    (lambda: steps.Rates(steps.as_step(lambda t: 0.1 * t), np.zeros(2))(1, 3), errors.StepError, "rises to 0.2 in round 2"),
    (lambda: steps.Rates(steps.as_step(lambda t: 1 - 0.5 * t), np.zeros(2))(1, 3), errors.StepError, "rate of round 2 is .*0.0.*finite and positive"),
    (lambda: steps.Rates(steps.as_step(lambda t: None), np.zeros(2))(1, 3), errors.StepError, "rate of round 1 is .*nan"),
    (lambda: steps.Rates(steps.constant([0.1] * 3), np.zeros(2))(1, 3), errors.StepError, r"shape \(3,\).*2 agents need one rate, or one each"),
    (lambda: interest.from_array(np.array([[1.5, -0.5], [0, 1]])), errors.InterestError, "interest -0.5 in agent 1 is negative: agent 0"),
    (lambda: interest.from_array(np.array([[np.nan, 1], [0, 1]])), errors.InterestError, "interest nan in agent 0 is not finite"),
    (lambda: interest.from_array(np.ones((2, 3))), errors.InterestError, r"shape \(2, 3\)"),
    (lambda: interest.from_array(scipy.sparse.csr_array(np.ones((2, 3)))), errors.InterestError, r"shape \(2, 3\)"),
    (lambda: interest.from_array(np.array([[0.0, 0.0], [0, 1]])), errors.InterestError, "row 0 of the interest matrix sums to 0, not 1"),
    (lambda: Interest([0, 1, 2], [0, 5], [1, 1]), errors.InterestError, "in agent 5 is about an agent outside 0..1"),
    (lambda: Interest([0, 2, 3], [1, 1, 0], [0.5, 0.5, 1]), errors.InterestError, "agent 1 is given twice"),
    (lambda: Interest([0, 2], [0], [1]), errors.InterestError, "ragged rows that do not fit"),
    (lambda: interest.dirichlet(3, own=0.0, others=1.0, seed=1), errors.InterestError, "own=0.0: a Dirichlet parameter must be positive"),
    (lambda: interest.dirichlet(0, own=1.0, others=1.0, seed=1), errors.InterestError, "agents=0: a whole number"),
    (lambda: interest.uniform(100_000), errors.InterestError, "a uniform interest.*100,000 agents"),
    (lambda: interest.nearest(nx.path_graph(3), 3), errors.InterestError, "count=3: among 3 agents"),
    (lambda: interest.nearest(nx.path_graph(3), 1, own=1.0), errors.InterestError, r"own=1.0: the own weight lies in \[0, 1\); .* the 1 nearest"),
    (lambda: interest.scattered(3, 3, seed=1), errors.InterestError, "count=3: among 3 agents an agent has 1 to 2 others"),
    (lambda: interest.scattered(3, 0, seed=1), errors.InterestError, "count=0: among 3 agents"),
    (lambda: interest.scattered(0, 1, seed=1), errors.InterestError, "agents=0: a whole number"),
    (lambda: interest.scattered(3, 2, own=-0.1, seed=1), errors.InterestError, r"own=-0.1: the own weight lies in \[0, 1\); .* the 2 others"),
    (lambda: interest.scattered(3, 2, own=math.nan, seed=1), errors.InterestError, "own=nan"),
    (lambda: interest.scattered(3, 2, seed=-1), errors.DataError, "seed=-1 is not a whole number"),
    (lambda: interest.get("scatered", agents=3, count=2, seed=1), errors.InterestError, "no interest 'scatered': did you mean 'scattered'"),
    (lambda: streams.get("techer"), errors.DataError, "no stream 'techer': did you mean 'teacher'"),
]  # fmt: skip


@pytest.mark.parametrize("refused, error, words", REFUSED, ids=[words for _, _, words in REFUSED])
def test_errors_name_the_value_the_rule_and_the_consequence(refused, error, words):
    with pytest.raises(error, match=words) as caught:
        refused()
    assert isinstance(caught.value, errors.MnemeshError)


UNTYPED = """
from mnemesh import draws, errors, interest, losses, steps
for refused, error, words in [
    (lambda: losses.as_loss(3), errors.LossError, "3 is neither a Loss nor a loss's name"),
    (lambda: losses.get("gated_linear", gate="row"), errors.LossError, "gate='row' is no axis of a memory"),
    (lambda: steps.as_step(0.1), errors.StepError, "step=0.1 is not callable"),
    (lambda: draws.generator(None, "a"), errors.DataError, "seed=None is not a whole number"),
    (lambda: draws.generator(1.5, "a"), errors.DataError, "seed=1.5 is not a whole number"),
    (lambda: draws.generator(True, "a"), errors.DataError, "seed=True is not a whole number"),
    (lambda: interest.uniform(2.5), errors.InterestError, "agents=2.5: a whole number of agents"),
    (lambda: interest.scattered("3", 2, seed=1), errors.InterestError, "agents='3': a whole number of agents"),
    (lambda: interest.scattered(3, 1.5, seed=1), errors.InterestError, "count=1.5: among 3 agents"),
]:
    try:
        refused()
    except error as caught:
        assert words in str(caught), str(caught)
    else:
        raise SystemExit(words)
assert steps.inverse(1, t0=3) == steps.inverse(1.0, t0=3.0)  # whole numbers will do
assert interest.dirichlet(3, own=2, others=1, seed=1) == interest.dirichlet(3, own=2.0, others=1.0, seed=1)
"""


def test_errors_where_nobody_checks_types():
    """In the test run the type checker refuses these first; users have none."""
    environment = {name: value for name, value in os.environ.items() if name != "MNEMESH_CHECK_SHAPES"}
    done = subprocess.run([sys.executable, "-c", UNTYPED], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_missing_extra_is_named(monkeypatch):
    real = importlib.import_module

    def without(name, *rest):
        if name.partition(".")[0] == "numba":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(errors.MissingExtraError, match=r"numba is not installed, and it is needed for speed: pip install 'mnemesh\[sim\]'"):
        errors.require("numba", "speed")
    assert errors.require("scipy.sparse", "sparse rows") is scipy.sparse


def test_finite_differences_find_a_known_slope():
    """The kit's own ruler."""
    np.testing.assert_allclose(differences(lambda x: (x**3).sum(-1), Z), 3 * Z**2, atol=1e-6)
