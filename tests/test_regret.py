"""Comparators against scipy on the raw losses, and regret against sums done by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from mnemesh import domains, features, interest, losses, regret, statistics, streams
from mnemesh.errors import RegretError
from mnemesh.problem import Problem
from mnemesh.regret import bounded, measured

D_K, D_V = 3, 2
LOSSES = [
    losses.linear(), losses.delta(), losses.softmax(), losses.softmax_norm(),
    *(make(gate) for make in (losses.gated_linear, losses.gated_softmax) for gate in ("value", "key", "scalar")),
]  # fmt: skip
DOMAINS = [domains.ball(0.4), domains.ball(1e3), domains.box(-0.3, 0.2), domains.box(np.full((D_V, 1), -0.1), [[0.05], [9.0]]), domains.everything()]


class Case:
    """Raw data of a small instance, and its losses written out from Table 1."""

    def __init__(self, loss, seed, *, agents=3, rounds=12, associations=2, masked=True, gates=None):
        rng = np.random.default_rng(seed)
        self.loss, self.phi = loss, features.elu_plus_one() if loss.demands_features else features.identity()
        places = (rounds, agents, associations)
        self.keys, self.values = rng.uniform(-1, 1, (*places, D_K)), rng.standard_normal((*places, D_V))
        self.present = rng.random(places) < 0.6 if masked else np.ones(places, bool)
        tail = {"value": (D_V,), "key": (D_K,), "scalar": ()}.get(loss.gate)
        shape = None if tail is None else (rounds, agents, *tail)
        self.gates = None if shape is None else rng.random(shape) if gates is None else np.full(shape, float(gates))
        dense = rng.random((agents, agents)) * (rng.random((agents, agents)) < 0.6) + 0.2 * np.eye(agents)
        self.weights = dense / dense.sum(1, keepdims=True)

    def problem(self, domain):
        return Problem(self.loss, domain, self.weights, features=self.phi)

    def stream(self):
        return streams.from_arrays(self.keys, self.values, self.gates, self.present)

    def statistics(self, domain, rounds=None):
        problem, stream = self.problem(domain), self.stream()
        return statistics.add(problem, statistics.empty(problem, (D_V, D_K)), stream.block(0, rounds or stream.rounds))

    def suffered(self, t, m, memory):
        """(f_{m,t}(X), ∇f_{m,t}(X))."""
        there = np.flatnonzero(self.present[t, m])
        value, slope = 0.0, np.zeros_like(memory)
        if not len(there):
            return value, slope
        for a in there:
            k, v = self.phi(self.keys[t, m, a]), self.values[t, m, a]
            z = memory @ k
            value += (0.5 * ((z - v) ** 2).sum() if self.loss.name == "delta" else -z @ v) / len(there)
            slope += np.outer(z - v if self.loss.name == "delta" else -v, k) / len(there)
        fade = np.zeros_like(memory)
        if self.loss.name == "softmax_norm":
            fade[:] = 1
        elif self.loss.gate is not None:
            fade[:] = 1 - (self.gates[t, m][:, None] if self.loss.gate == "value" else self.gates[t, m])
        return value + 0.5 * (fade * memory**2).sum(), slope + fade * memory

    def total(self, n, memory, rounds=None):
        value, slope = 0.0, np.zeros_like(memory)
        for m in np.flatnonzero(self.weights[n]):
            for t in range(rounds or len(self.keys)):
                one, direction = self.suffered(t, m, memory)
                value, slope = value + self.weights[n, m] * one, slope + self.weights[n, m] * direction
        return value, slope

    def scale(self, n):
        """The size of this agent's problem: what a memory of size 1 could lose."""
        return 1 + sum(self.weights[n, m] * (self.values[:, m] ** 2).sum() for m in range(len(self.weights)))


def scipy_minimum(case, domain, n):
    def objective(flat):
        value, slope = case.total(n, flat.reshape(D_V, D_K))
        return value, slope.ravel()

    start = np.zeros(D_V * D_K)
    if domain.name == "ball":
        inside = {"type": "ineq", "fun": lambda x: domain.limit**2 - x @ x, "jac": lambda x: -2 * x}
        return minimize(objective, start, jac=True, method="SLSQP", constraints=[inside], options={"ftol": 1e-15, "maxiter": 500}).fun
    bounds = None
    if domain.name == "box":
        ends = (np.broadcast_to(end, (D_V, D_K)).ravel() for end in (domain.low, domain.high))
        bounds = list(zip(*ends, strict=True))
    return minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-16, "gtol": 1e-10, "maxiter": 5000}).fun


def has_minimum(case, domain):
    return domain.name != "everything" or case.loss.name in ("delta", "softmax_norm") or case.loss.gate is not None


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.name}-{loss.gate}")
def test_comparators_agree_with_scipy(loss, domain):
    case = Case(loss, 7)
    sums = case.statistics(domain)
    if not has_minimum(case, domain):
        with pytest.raises(RegretError, match=r"agent 0's summed loss falls to −∞ as entry \(0, 0\)"):
            regret.comparator(case.problem(domain), sums)
        return
    memories, values = regret.comparator(case.problem(domain), sums)
    assert domain.contains(memories, tolerance=1e-12).all()
    for n in range(3):
        assert case.total(n, memories[n])[0] == pytest.approx(values[n], abs=1e-11 * case.scale(n))
        if not (loss.name in ("linear", "softmax") and domain == domains.ball(1e3)):  # SLSQP is lost there; a closed form is tested below
            assert values[n] == pytest.approx(scipy_minimum(case, domain, n), abs=1e-6 * case.scale(n))


@given(st.integers(0, 10**6), st.sampled_from(LOSSES), st.sampled_from(DOMAINS), st.booleans())
@settings(max_examples=150)
def test_no_memory_in_the_domain_beats_the_comparator(seed, loss, domain, near):
    case = Case(loss, seed, rounds=1 + seed % 7)
    if not has_minimum(case, domain):
        return
    memories, values = regret.comparator(case.problem(domain), case.statistics(domain))
    assert domain.contains(memories, tolerance=1e-12).all()
    rng = np.random.default_rng(seed)
    for n in range(3):
        for _ in range(4):
            start = memories[n] if near else np.zeros((D_V, D_K))
            guess = domain.project(start + rng.standard_normal((D_V, D_K)) * rng.choice([1e-4, 1, 100]))
            assert case.total(n, guess)[0] >= values[n] - 1e-9 * case.scale(n)


@given(st.integers(0, 10**6), st.floats(1e-3, 1e3), st.floats(1e-6, 1e6))
def test_the_multiplier_meets_the_sphere_at_every_scale(seed, radius, size):
    rng = np.random.default_rng(seed)
    heights, slopes = rng.random((5, 2, 4)) * 10.0 ** rng.integers(-8, 3, (5, 1, 4)), rng.standard_normal((5, 2, 4)) * size
    heights[0] = 0
    heights[1, 0] = 0
    slopes[2, 1] = 0
    problem = Problem(losses.gated_linear("value"), domains.ball(radius), np.eye(5))
    memories, _ = regret.comparator(problem, statistics.Statistics(None, slopes, heights, np.zeros(5)))
    norms = np.linalg.norm(memories, axis=(1, 2))
    free = np.linalg.norm(slopes / np.where(heights == 0, 1e-100, heights), axis=(1, 2))
    np.testing.assert_allclose(norms, np.minimum(free, radius), rtol=1e-12)
    pull = slopes - heights * memories  # = λ U
    multipliers = (pull * memories).sum((1, 2)) / norms**2
    assert (multipliers >= -1e-12 * abs(slopes).max((1, 2)) / norms).all()
    np.testing.assert_allclose(pull, multipliers[:, None, None] * memories, atol=1e-11 * abs(slopes).max())


@given(st.integers(0, 10**6), st.integers(1, 8), st.floats(0.01, 10))
@settings(max_examples=80)
def test_a_box_satisfies_the_karush_kuhn_tucker_conditions(seed, rounds, size):
    rng = np.random.default_rng(seed)
    agents, d_v, d_phi = 4, 3, 5
    phi, v = rng.standard_normal((rounds, agents, d_phi)) * 10.0 ** rng.integers(-1, 2, d_phi), rng.standard_normal((rounds, agents, d_v))
    middle = rng.standard_normal((d_v, d_phi))
    domain = domains.box(middle - size, middle + size)
    problem = Problem("delta", domain, np.eye(agents))
    sums = statistics.add(problem, statistics.empty(problem, (d_v, d_phi)), streams.from_arrays(phi, v).block(0, rounds))
    memories, _ = regret.comparator(problem, sums)
    assert domain.contains(memories, tolerance=0.0).all()
    slope = memories @ sums.second - sums.cross
    slack = 1e-10 * (abs(sums.cross).max() + abs(memories).max() * abs(sums.second).max())
    assert (slope[memories > domain.low] <= slack).reshape(-1).all()
    assert (slope[memories < domain.high] >= -slack).reshape(-1).all()


@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.3, 2.0]))
@settings(max_examples=25)
def test_rows_whose_guesses_go_in_circles_get_there_by_descent(seed, size):
    case, domain = Case(losses.delta(), seed, rounds=1 + seed % 4), domains.box(-size, size / 2)
    _, values = regret.comparator(case.problem(domain), case.statistics(domain))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded, "GUESSES", 0)
        memories, slower = regret.comparator(case.problem(domain), case.statistics(domain))
    np.testing.assert_allclose(slower, values, atol=1e-12 * max(case.scale(n) for n in range(3)))
    assert domain.contains(memories, tolerance=0.0).all()


@pytest.mark.parametrize("domain", [domains.ball(2.0), domains.everything()], ids=repr)
def test_delta_with_fewer_rounds_than_features_fits_them_exactly(domain):
    case = Case(losses.delta(), 5, rounds=2, associations=1, masked=False)
    case.weights = np.eye(3)
    case.values *= 0.1
    memories, values = regret.comparator(case.problem(domain), case.statistics(domain))
    np.testing.assert_allclose(values, 0, atol=1e-13)
    for n in range(3):
        least = np.linalg.lstsq(case.keys[:, n, 0], case.values[:, n, 0], rcond=None)[0].T  # the smallest of many
        np.testing.assert_allclose(memories[n], least, atol=1e-9)


def test_linear_loss_over_a_ball_has_a_closed_form():
    case = Case(losses.linear(), 8)
    sums = case.statistics(domains.ball(1e3))
    memories, values = regret.comparator(case.problem(domains.ball(1e3)), sums)
    mixed = np.einsum("nm,mij->nij", case.weights, sums.cross)
    norms = np.linalg.norm(mixed, axis=(1, 2))
    np.testing.assert_allclose(values, -1e3 * norms, rtol=1e-13)
    np.testing.assert_allclose(memories, 1e3 * mixed / norms[:, None, None], rtol=1e-12, atol=1e-10)


def test_decay_that_is_zero_in_places_pushes_to_the_edge():
    """D = 0 where S ≠ 0: inside a large ball the free entry takes what the held ones leave; a box stops it at its end."""
    held = np.array([[[2.0], [0.0]]])
    sums = statistics.Statistics(None, np.array([[[4.0, 0.0], [-3.0, 0.0]]]), held, np.zeros(1))
    memories, _ = regret.comparator(Problem("gated_linear", domains.ball(100.0), np.eye(1)), sums)
    assert memories[0, 0, 0] == pytest.approx(4 / (2 + 3 / abs(memories[0, 1, 0])), rel=1e-12)
    assert np.linalg.norm(memories) == pytest.approx(100, rel=1e-14) and memories[0, 1, 0] < -99
    assert (memories[0, :, 1] == 0).all()
    boxed, _ = regret.comparator(Problem("gated_linear", domains.box(-7, 1.5), np.eye(1)), sums)
    np.testing.assert_array_equal(boxed[0], [[1.5, 0], [-7, 0]])
    with pytest.raises(RegretError, match=r"agent 0's .* entry \(1, 0\) of its memory goes to −∞"):
        regret.comparator(Problem("gated_linear", domains.everything(), np.eye(1)), sums)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.name}-{loss.gate}")
def test_an_agent_that_sees_nothing_loses_nothing(loss, domain):
    case = Case(loss, 1)
    case.weights = np.array([[1.0, 0, 0], [0.5, 0.5, 0], [0, 0.3, 0.7]])
    case.present[:, 0] = False
    if has_minimum(case, domain):
        memories, values = regret.comparator(case.problem(domain), case.statistics(domain))
        assert values[0] == 0 and (memories[0] == np.clip(0, -0.3, 0.2)).all()
        assert values[1] == pytest.approx(case.total(1, memories[1])[0], abs=1e-12)


@pytest.mark.parametrize("domain", DOMAINS[:4], ids=repr)
@pytest.mark.parametrize("gate", ["value", "key", "scalar"])
def test_gates_that_keep_everything_are_no_gates(gate, domain):
    gated = Case(losses.gated_linear(gate), 2, gates=1)
    plain = Case(losses.linear(), 2)
    plain.keys, plain.values, plain.present, plain.weights = gated.keys, gated.values, gated.present, gated.weights
    for one, other in zip(*(regret.comparator(c.problem(domain), c.statistics(domain)) for c in (gated, plain)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


class OwnDomain(domains.Domain):
    name = "own"

    def project(self, memories):
        return memories

    def contains(self, memories, tolerance=1e-6):
        return True

    def diameter(self, shape):
        return 1.0

    radius = furthest = diameter


def test_what_has_no_exact_comparator_is_refused():
    case = Case(losses.delta(), 0)
    with pytest.raises(RegretError, match="no exact comparator is known over"):
        regret.comparator(case.problem(OwnDomain()), case.statistics(OwnDomain()))
    own = Problem(losses.from_value("own", lambda z, v: abs(z - v).sum(-1)), domains.ball(1.0), case.weights)
    with pytest.raises(RegretError, match="'own' is not of the form"):
        regret.static(own, case.stream(), trace_of(case, np.zeros((3, D_V, D_K))))


class Ridge(losses.Loss):
    """A curved loss that decays: ½ · 3 ‖z‖² − ⟨z, v⟩ + ½ · 3 ‖v‖², and D = 1 − ψ on an axis."""

    name, decays, curvature = "ridge", True, 3.0

    def __init__(self, gate):
        self.gate = gate

    def value(self, outputs, values):
        return 1.5 * (outputs**2).sum(-1) - (outputs * values).sum(-1) + 1.5 * (values**2).sum(-1)

    def residual(self, outputs, values):
        return 3 * outputs - values

    def decay(self, gates):
        return losses.gated_linear(self.gate).decay(gates)


@pytest.mark.parametrize("domain", [domains.ball(0.2), domains.box(-0.1, 0.15), domains.everything()], ids=repr)
@pytest.mark.parametrize("gate", ["value", "key", "scalar"])
def test_a_loss_of_ones_own_may_be_curved_and_decay(gate, domain):
    case = Case(losses.gated_linear(gate), 4)
    case.loss = Ridge(gate)
    sums = case.statistics(domain)
    memories, values = regret.comparator(case.problem(domain), sums)
    phi, share = case.keys, case.present / np.maximum(case.present.sum(-1, keepdims=True), 1)
    fade = case.loss.decay(case.gates) * case.present.any(-1)[..., None, None]

    def total(n, memory):
        outputs = phi @ memory.T
        losses_then = (share * case.loss.value(outputs, case.values)).sum(-1) + 0.5 * (fade * memory**2).sum((-2, -1))
        return float(losses_then.sum(0) @ case.weights[n])

    for n in range(3):
        assert total(n, memories[n]) == pytest.approx(values[n], rel=1e-12)
        for step in np.random.default_rng(n).standard_normal((200, D_V, D_K)) * 1e-3:
            assert total(n, domain.project(memories[n] + step)) >= values[n] - 1e-11


def trace_of(case, memories, **changes):
    """What an engine would hand over for memories that never move."""
    suffered = np.zeros((len(case.keys), 3))
    for n in range(3):
        for m in range(3):
            suffered[:, n] += [case.weights[n, m] * case.suffered(t, m, memories[n])[0] for t in range(len(case.keys))]
    return SimpleNamespace(**{"losses": suffered, "horizons": None, "cumulative": None, "statistics": None, "rounds": len(case.keys), **changes})


@pytest.mark.parametrize("loss", [losses.delta(), losses.gated_linear("key"), losses.linear()], ids=lambda loss: loss.name)
def test_regret_is_what_was_lost_above_the_best_fixed_memory(loss):
    case, domain = Case(loss, 6), domains.ball(0.7)
    memories = domain.project(np.random.default_rng(1).standard_normal((3, D_V, D_K)))
    found = regret.static(case.problem(domain), case.stream(), trace_of(case, memories), horizons=[1, 2, 5, 11])
    assert found.horizons.tolist() == [1, 2, 5, 11]
    for h, horizon in enumerate(found.horizons.tolist()):
        best, values = regret.comparator(case.problem(domain), case.statistics(domain, horizon))
        np.testing.assert_allclose(found.comparator[h], values, rtol=1e-12)
        for n in range(3):
            lost = case.total(n, memories[n], horizon)[0] - case.total(n, best[n], horizon)[0]
            assert found.per_agent[h, n] == pytest.approx(lost, abs=1e-11) and lost >= -1e-12
    np.testing.assert_allclose(found.total, found.per_agent.sum(1))
    assert regret.static(case.problem(domain), case.stream(), trace_of(case, memories)).horizons[-1] == 12


def test_the_comparator_itself_has_no_regret():
    case, domain = Case(losses.delta(), 9), domains.ball(0.5)
    best, _ = regret.comparator(case.problem(domain), case.statistics(domain))
    found = regret.static(case.problem(domain), case.stream(), trace_of(case, best))
    np.testing.assert_allclose(found.per_agent[-1], 0, atol=1e-12)
    assert (found.per_agent[:-1] >= -1e-12).all()


@pytest.mark.parametrize("together", [1, 2**22])
def test_a_trace_that_kept_sums_needs_no_losses(together, monkeypatch):
    monkeypatch.setattr(measured, "SOLVED_AT_ONCE", together)
    case, domain = Case(losses.delta(), 2), domains.ball(0.5)
    trace = trace_of(case, np.zeros((3, D_V, D_K)))
    horizons = [2, 3, 7, 12]
    full = regret.static(case.problem(domain), case.stream(), trace, horizons=horizons)
    kept = trace_of(
        case, np.zeros((3, D_V, D_K)),
        losses=None, horizons=np.array(horizons), cumulative=trace.losses.cumsum(0)[np.array(horizons) - 1],
        statistics=statistics.stack([case.statistics(domain, h) for h in horizons]),
    )  # fmt: skip
    for chosen, places in ((None, slice(None)), ([3, 12], [1, 3])):
        found = regret.static(case.problem(domain), case.stream(), kept, horizons=chosen)
        np.testing.assert_allclose(found.per_agent, full.per_agent[places], atol=1e-12)
        np.testing.assert_allclose(found.comparator, full.comparator[places], rtol=1e-12)
    with pytest.raises(RegretError, match="round 4 is not among the horizons that the run kept"):
        regret.static(case.problem(domain), case.stream(), kept, horizons=[4, 12])
    kept.statistics = None  # then the stream is read once more
    np.testing.assert_allclose(regret.static(case.problem(domain), case.stream(), kept).per_agent, full.per_agent, atol=1e-12)
    kept.cumulative = None
    with pytest.raises(RegretError, match="neither losses nor cumulative"):
        regret.static(case.problem(domain), case.stream(), kept)


@pytest.mark.parametrize("horizons", [[0, 3], [13], [2.5], []])
def test_horizons_outside_the_run_are_refused(horizons):
    case = Case(losses.delta(), 2)
    with pytest.raises(RegretError, match="whole rounds from 1 to 12"):
        regret.static(case.problem(domains.ball(1.0)), case.stream(), trace_of(case, np.zeros((3, D_V, D_K))), horizons=horizons)


def test_a_trace_of_another_stream_is_refused():
    case = Case(losses.delta(), 2)
    trace = trace_of(case, np.zeros((3, D_V, D_K)))
    trace.losses = trace.losses[:5]
    with pytest.raises(RegretError, match=r"losses of shape \(5, 3\) for 12 rounds of 3 agents"):
        regret.static(case.problem(domains.ball(1.0)), case.stream(), trace)


def test_an_endless_fall_names_the_horizon():
    case = Case(losses.linear(), 2)
    with pytest.raises(RegretError, match="over the first 4 rounds falls to −∞"):
        regret.static(case.problem(domains.everything()), case.stream(), trace_of(case, np.zeros((3, D_V, D_K))), horizons=[4, 8])


def test_many_horizons_of_a_long_stream_equal_one_sum():
    stream = streams.teacher(agents=5, key_dim=3, value_dim=2, rounds=700, correlation=0.5, seed=2, presence=0.7, associations=2, gate="value")
    problem = Problem("gated_linear", domains.ball(3.0), interest.dirichlet(5, own=3.0, others=1.0, seed=0))
    lost = np.random.default_rng(0).random((700, 5)).astype(np.float32)
    found = regret.static(problem, stream, SimpleNamespace(losses=lost))
    np.testing.assert_allclose(found.per_agent + found.comparator, lost.astype(np.float64).cumsum(0)[found.horizons - 1], rtol=1e-12)
    sums = statistics.empty(problem, (2, 3))
    for first in range(0, 700, 100):
        sums = statistics.add(problem, sums, stream.block(first, first + 100))
    np.testing.assert_allclose(found.comparator[-1], regret.comparator(problem, sums)[1], rtol=1e-12)


def test_a_regret_prints_as_a_line():
    case = Case(losses.delta(), 2)
    found = regret.static(case.problem(domains.ball(1.0)), case.stream(), trace_of(case, np.zeros((3, D_V, D_K))), horizons=[3, 12])
    assert repr(found) == f"Regret(agents=3, 2 horizons up to T=12, total {found.total[-1]:.6g}, {found.total[-1] / 12:.4g} a round)"
