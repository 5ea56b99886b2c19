"""Statistics against one Python loop per round, agent and association."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemesh import domains, features, interest, losses, statistics, streams
from mnemesh.errors import RegretError
from mnemesh.problem import Problem

N, D_K, D_V = 4, 3, 2


def stream_of(seed, *, rounds=9, associations=2, gate=None, d_phi=D_K, masked=True, dtype=np.float64, agents=N):
    rng = np.random.default_rng(seed)
    places = (rounds, agents, associations)
    tail = {"value": (D_V,), "key": (d_phi,), "scalar": ()}.get(gate)
    return streams.from_arrays(
        rng.standard_normal((*places, D_K)).astype(dtype),
        rng.standard_normal((*places, D_V)).astype(dtype),
        None if tail is None else rng.random((rounds, agents, *tail)).astype(dtype),
        rng.random(places) < 0.6 if masked else None,
    )


def literal(loss, phi, stream, rounds):
    """Sums of what Table 1 says, written out."""
    d_phi = len(phi(stream.keys.reshape(-1, D_K)[0]))
    second, cross = np.zeros((stream.agents, d_phi, d_phi)), np.zeros((stream.agents, D_V, d_phi))
    decay, constant = np.zeros((stream.agents, D_V, d_phi)), np.zeros(stream.agents)
    keys, values = (array.reshape(stream.rounds, stream.agents, stream.associations, -1).astype(float) for array in (stream.keys, stream.values))
    for t in range(rounds):
        for n in range(stream.agents):
            there = [a for a in range(stream.associations) if stream.present is None or stream.present[t, n, a]]
            for a in there:
                k, v = phi(keys[t, n, a]), values[t, n, a]
                cross[n] += np.outer(v, k) / len(there)
                if loss.name == "delta":
                    second[n] += np.outer(k, k) / len(there)
                    constant[n] += v @ v / 2 / len(there)
            if there and loss.name == "softmax_norm":
                decay[n] += 1
            elif there and loss.gate is not None:
                faded = 1 - stream.gates[t, n].astype(float)
                decay[n] += faded[:, None] if loss.gate == "value" else faded
    return second, cross, decay, constant


LOSSES = [
    losses.linear(), losses.delta(), losses.softmax(), losses.softmax_norm(),
    *(make(gate) for make in (losses.gated_linear, losses.gated_softmax) for gate in ("value", "key", "scalar")),
]  # fmt: skip


def problem_for(loss, agents=N, matrix=None):
    phi = features.taylor() if loss.demands_features else features.identity()
    matrix = interest.dirichlet(agents, own=2.0, others=0.5, seed=3) if matrix is None else matrix
    return Problem(loss, domains.ball(2.0), matrix, features=phi)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.name}-{loss.gate}")
@pytest.mark.parametrize(("associations", "masked"), [(1, False), (1, True), (3, False), (2, True)])
def test_statistics_are_the_sums_of_a_literal_loop(loss, associations, masked):
    problem = problem_for(loss)
    d_phi = problem.features.dim(D_K)
    stream = stream_of(5, associations=associations, masked=masked, gate=loss.gate, d_phi=d_phi)
    sums = statistics.add(problem, statistics.empty(problem, (D_V, d_phi)), stream.block(0, 7))
    second, cross, decay, constant = literal(loss, problem.features, stream, 7)
    np.testing.assert_allclose(sums.cross, cross, atol=1e-13)
    np.testing.assert_allclose(sums.constant, constant, atol=1e-13)
    if loss.name == "delta":
        np.testing.assert_allclose(sums.second, second, atol=1e-13)
    else:
        assert sums.second is None and not second.any()
    if loss.decays:
        np.testing.assert_allclose(np.broadcast_to(sums.decay, cross.shape), decay, atol=1e-13)
    else:
        assert sums.decay is None and not decay.any()


@given(st.integers(0, 10**6), st.integers(0, 8), st.sampled_from(LOSSES))
def test_blocks_add_up_and_leave_what_they_are_added_to(seed, cut, loss):
    problem = problem_for(loss)
    d_phi = problem.features.dim(D_K)
    stream = stream_of(seed, gate=loss.gate, d_phi=d_phi)
    none = statistics.empty(problem, (D_V, d_phi))
    before = statistics.add(problem, none, stream.block(0, cut))
    kept = [None if part is None else part.copy() for part in before]
    after = statistics.add(problem, before, stream.block(cut, 9))
    whole = statistics.add(problem, none, stream.block(0, 9))
    for part, total, old, then in zip(after, whole, before, kept, strict=True):
        if part is None:
            assert total is None
            continue
        np.testing.assert_allclose(part, total, atol=1e-12)
        assert np.array_equal(old, then)
    assert not any(part.any() for part in none if part is not None)


def test_float32_data_are_summed_in_float64():
    problem = problem_for(losses.delta())
    stream = stream_of(1, rounds=2000, dtype=np.float32, masked=False, associations=1)
    wide = streams.from_arrays(stream.keys.astype(np.float64), stream.values.astype(np.float64))
    narrow, exact = (statistics.add(problem, statistics.empty(problem, (D_V, D_K)), s.block(0, 2000)) for s in (stream, wide))
    for part, other in zip(narrow, exact, strict=True):
        if part is not None:
            assert part.dtype == np.float64
            np.testing.assert_array_equal(part, other)


def test_agents_in_pieces_give_the_same_sums(monkeypatch):
    problem = problem_for(losses.gated_linear("key"))
    stream = stream_of(2, gate="key")
    none = statistics.empty(problem, (D_V, D_K))
    whole = statistics.add(problem, none, stream.block(0, 9))
    monkeypatch.setattr(statistics, "AT_ONCE", 1)
    for part, other in zip(statistics.add(problem, none, stream.block(0, 9)), whole, strict=True):
        assert part is other is None or np.allclose(part, other, rtol=0, atol=1e-13)


@pytest.mark.parametrize("sparse", [False, True])
def test_mixing_is_the_matrix_product(sparse, monkeypatch):
    agents = 24
    rng = np.random.default_rng(0)
    dense = rng.random((agents, agents)) * (rng.random((agents, agents)) < (0.1 if sparse else 1)) + np.eye(agents) * 0.1
    matrix = interest.from_array(dense / dense.sum(1, keepdims=True))
    problem = problem_for(losses.delta(), agents, matrix)
    stream = stream_of(4, agents=agents)
    early, late = (statistics.add(problem, statistics.empty(problem, (D_V, D_K)), stream.block(0, t)) for t in (3, 9))
    both = statistics.stack([early, late])
    monkeypatch.setattr(statistics, "GATHERED", 40)
    mixed = statistics.mix(matrix, both)
    assert mixed.decay is None
    for part, own in ((mixed.second, both.second), (mixed.cross, both.cross), (mixed.constant, both.constant)):
        np.testing.assert_allclose(part, np.einsum("nm,hm...->hn...", np.asarray(matrix), own), atol=1e-12)
    alone = statistics.mix(matrix, late)
    np.testing.assert_allclose(alone.second, mixed.second[1], atol=1e-12)


def test_horizons_are_spread_on_a_logarithmic_axis():
    horizons = statistics.log_spaced(2500)
    assert horizons[0] == 1 and horizons[-1] == 2500 and 20 <= len(horizons) <= 24
    late = horizons[horizons > 30]
    assert np.ptp(np.log(late[1:] / late[:-1])) < 0.05
    assert statistics.log_spaced(1).tolist() == [1] and statistics.log_spaced(3).tolist() == [1, 2, 3]


def test_a_loss_without_statistics_is_refused_by_name():
    problem = problem_for(losses.from_value("huber", lambda z, v: abs(z - v).sum(-1)))
    with pytest.raises(RegretError, match="'huber' is not of the form"):
        statistics.empty(problem, (D_V, D_K))
