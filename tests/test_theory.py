"""The bounds against regret that is really suffered, against their own formulas written out, and against each other."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mnemesh as mm
from mnemesh import domains, features, interest, losses, problem, routing, steps, streams, theory, topology
from mnemesh.errors import BoundError, RoutingError
from mnemesh.theory import constants, forms

ROUNDING = 1 + 1e-9  # bounds are laws; only rounding is forgiven


# --- a literal simulator of delayed gradient descent, which shares no code with the package ---


def descend(
    choose: Callable[[int, np.ndarray], list[Any]],
    gradient: Callable[[Any, np.ndarray], np.ndarray],
    project: Callable[[np.ndarray], np.ndarray],
    weights: np.ndarray,
    delays: np.ndarray,
    rates: np.ndarray,
    shape: tuple[int, ...],
) -> tuple[list[np.ndarray], list[list[Any]]]:
    """X_1 … X_T and the data, one entry per partner, that `choose` answered them with; `rates[t - 1]` is η_t."""
    memories, data = [project(np.zeros(shape))], []
    for t in range(1, len(rates) + 1):
        data.append(choose(t, memories[-1]))
        total = np.zeros(shape)
        for m, (weight, delay) in enumerate(zip(weights, delays)):
            if t > delay:
                total += weight * gradient(data[t - 1 - delay][m], memories[t - 1 - delay])
        memories.append(project(memories[-1] - rates[t - 1] * total))
    return memories[:-1], data


def watcher(weights: np.ndarray, hops: np.ndarray) -> tuple[Any, Any, np.ndarray]:
    """Agent 0 with partners that many links away, each down a branch of its own: the interest, the trees, the partners' nodes."""
    graph, partners = nx.Graph(), []
    graph.add_node(0)
    for hop in hops:
        last = 0
        for _ in range(hop):
            new = graph.number_of_nodes()
            graph.add_edge(last, new)
            last = new
        partners.append(last)
    dense = np.eye(graph.number_of_nodes())
    dense[0] = 0
    dense[0, partners] = weights
    who = interest.from_array(dense)
    return who, routing.shortest_path(graph, who), np.array(partners)


def as_stream(agents: int, partners: np.ndarray, keys: np.ndarray, values: np.ndarray, gates: np.ndarray | None = None) -> Any:
    """What the partners (T, P, d) saw, in a network where the others see nothing."""
    rounds = len(keys)
    everyone = np.zeros((rounds, agents, keys.shape[2])), np.zeros((rounds, agents, values.shape[2]))
    there, gating = np.zeros((rounds, agents), bool), np.ones((rounds, agents))
    everyone[0][:, partners], everyone[1][:, partners], there[:, partners] = keys, values, True
    if gates is not None:
        gating[:, partners] = gates
    return streams.from_arrays(*everyone, gates=None if gates is None else gating, present=there)


RULES: dict[str, Callable[[float], Any]] = {
    "inverse_sqrt": steps.inverse_sqrt,
    "constant": lambda c: steps.constant(c / 5),
    "inverse": lambda c: steps.inverse(c, t0=1.0),
    "callable": lambda c: lambda t: c * 0.9 ** min(t, 40),
    "late fall": lambda c: lambda t: c if t < 10 else c / 30,
}


@st.composite
def settings_of_an_agent(draw: Any) -> dict[str, Any]:
    hops = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3).filter(lambda h: h.count(0) <= 1))
    return {
        "hops": np.array(hops),
        "rounds": draw(st.integers(1, 60)),
        "size": draw(st.sampled_from([0.05, 0.5, 3.0, 20.0])),
        "c": draw(st.sampled_from([0.03, 0.3, 1.0, 4.0])),
        "rule": draw(st.sampled_from(sorted(RULES))),
        "seed": draw(st.integers(0, 2**20)),
        "against": draw(st.sampled_from(["adversary", "waves", "noise", "still"])),
        "box": draw(st.booleans()),
    }


def answer(kind: str, rng: np.random.Generator, period: int, t: int, memory: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Values that hurt (P, d_v): against the sign of where the memory stands, square waves, noise, or always the same."""
    sign = np.where(memory.sum(-1) >= 0, -1.0, 1.0)
    return {
        "adversary": np.broadcast_to(sign, shape),
        "waves": np.full(shape, 1.0 if (t - 1) // period % 2 else -1.0),
        "noise": rng.standard_normal(shape),
        "still": np.ones(shape),
    }[kind]


def run_and_bound(
    loss: str, at: dict[str, Any], shape: tuple[int, int], gradient: Callable[..., np.ndarray], phi: Any = None
) -> tuple[theory.Bound, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """The bound, the weights, X (T, d_v, d_φ) and the data (T, P, ·) of an agent whose partners answer as `at` says."""
    rng = np.random.default_rng(at["seed"])
    count, period = len(at["hops"]), int(rng.integers(1, 16))
    weights = rng.dirichlet(np.full(count, 0.7))
    weights[0] += 1 - weights.sum()
    loudness = rng.exponential(1, count)[:, None]
    if at["box"]:
        low = -at["size"] * rng.uniform(-0.5, 1, shape)
        domain: Any = domains.box(low, low + at["size"])
        project = lambda X: np.minimum(np.maximum(X, low), low + at["size"])  # noqa: E731
    else:
        domain = domains.ball(at["size"])
        project = lambda X: X * min(1.0, at["size"] / max(np.linalg.norm(X), 1e-300))  # noqa: E731
    who, trees, partners = watcher(weights, at["hops"])
    kept = weights > 0
    step = steps.as_step(RULES[at["rule"]](at["c"]))
    delays = 2 * at["hops"]
    rates = np.array([float(np.ravel(step(t, tau_min=delays[kept].min()))[0]) for t in range(1, at["rounds"] + 1)])

    def choose(t: int, memory: np.ndarray) -> list[Any]:
        keys = rng.uniform(-1, 1, (count, shape[1])) if at["against"] == "noise" else np.ones((count, shape[1]))
        values = loudness * answer(at["against"], rng, period, t, memory, (count, shape[0]))
        return list(zip(keys, values, rng.integers(0, 2, count) * 1.0))

    memories, data = descend(choose, gradient, project, weights, delays, rates, shape)
    arrays = {name: np.array([[one[i] for one in row] for row in data]) for i, name in enumerate(("keys", "values", "gates"))}
    made = problem.Problem(losses.get(loss, gate="scalar") if loss == "gated_linear" else loss, domain, who, phi)
    stream = as_stream(trees.graph.number_of_nodes(), partners, arrays["keys"], arrays["values"], arrays["gates"])
    bound = theory.dam_togd(made, stream, trees, step=step)
    return bound, weights, np.array(memories), arrays | {"domain": domain}  # type: ignore[dict-item]


def crosses_none(bound: theory.Bound, regret: np.ndarray) -> None:
    """No regret (T,) of agent 0 is above a repaired or sharp bound at any T, nor above the printed Corollary 1, which the sharp one implies."""
    for form in ("printed_sum", "repaired", "sharp", "sharp_sum", "printed"):
        if getattr(bound, form) is not None:
            above = regret - bound.by_agent(form)[:, 0] * ROUNDING
            assert (above <= 1e-9 * np.abs(regret).max()).all(), (form, above.max())


@settings(max_examples=400)
@given(at=settings_of_an_agent(), loss=st.sampled_from(["linear", "delta", "gated_linear"]))
def test_no_regret_crosses_a_bound_in_one_dimension(at: dict[str, Any], loss: str) -> None:
    gradients = {
        "linear": lambda kvg, X: -kvg[1][:, None] * kvg[0],
        "delta": lambda kvg, X: (X @ kvg[0] - kvg[1])[:, None] * kvg[0],
        "gated_linear": lambda kvg, X: -kvg[1][:, None] * kvg[0] + (1 - kvg[2]) * X,
    }
    bound, weights, X, data = run_and_bound(loss, at, (1, 1), gradients[loss])
    k, v, g, x = data["keys"][:, :, 0], data["values"][:, :, 0], data["gates"], X[:, :, 0]
    curvature = {"linear": 0 * k, "delta": k**2, "gated_linear": 1 - g}[loss]
    suffered = np.cumsum((weights * (curvature * x**2 / 2 - k * v * x)).sum(1))
    C, S = np.cumsum((weights * curvature).sum(1)), np.cumsum((weights * k * v).sum(1))
    domain: Any = data["domain"]
    low, high = (float(domain.low[0, 0]), float(domain.high[0, 0])) if at["box"] else (-at["size"], at["size"])
    best = np.where(C > 0, np.clip(S / np.where(C > 0, C, 1), low, high), np.where(S > 0, high, low))
    crosses_none(bound, suffered - (C * best**2 / 2 - S * best))


@settings(max_examples=150)
@given(at=settings_of_an_agent(), loss=st.sampled_from(["linear", "softmax_norm"]))
def test_no_regret_crosses_a_bound_in_several_dimensions(at: dict[str, Any], loss: str) -> None:
    """Linear, also with decay 1: the best memory in hindsight is known in closed form on a ball and on a box."""
    decay = float(loss == "softmax_norm")
    phi = (lambda k: np.where(k > 0, k + 1, np.exp(np.minimum(k, 0)))) if decay else (lambda k: k)
    gradient = lambda kvg, X: -np.outer(kvg[1], phi(kvg[0])) + decay * X  # noqa: E731
    bound, weights, X, data = run_and_bound(loss, at, (2, 3), gradient, features.elu_plus_one() if decay else None)
    domain: Any = data["domain"]
    pulls = np.cumsum(np.einsum("p,tpi,tpj->tij", weights, data["values"], phi(data["keys"])), 0)
    rounds = np.arange(1.0, len(X) + 1)[:, None, None]
    suffered = np.cumsum(decay * (X**2).sum((1, 2)) / 2 - (np.diff(pulls, axis=0, prepend=0) * X).sum((1, 2)))
    if at["box"]:
        inner = pulls / rounds if decay else np.where(pulls > 0, np.inf, -np.inf)
        best = np.clip(inner, domain.low, domain.high)
    else:
        size = np.linalg.norm(pulls, axis=(1, 2), keepdims=True)
        best = pulls / np.maximum(np.maximum(decay * rounds, size / at["size"]), 1e-300)
    crosses_none(bound, suffered - (decay * rounds * best**2 / 2 - pulls * best).sum((1, 2)))


@settings(max_examples=100)
@given(at=settings_of_an_agent())
def test_no_regret_of_the_delta_rule_crosses_a_bound_on_a_ball(at: dict[str, Any]) -> None:
    """The best memory in hindsight from the eigenvectors of Σ kkᵀ, and a multiplier found by halving."""
    gradient = lambda kvg, X: np.outer(X @ kvg[0] - kvg[1], kvg[0])  # noqa: E731
    bound, weights, X, data = run_and_bound("delta", at | {"box": False}, (2, 3), gradient)
    C, S = (np.cumsum(np.einsum("p,tpi,tpj->tij", weights, data[a], data["keys"]), 0) for a in ("keys", "values"))
    outputs = np.einsum("tij,tpj->tpi", X, data["keys"])
    suffered = np.cumsum((weights * ((outputs - data["values"]) ** 2).sum(-1) / 2).sum(1))
    total = np.cumsum((weights * (data["values"] ** 2).sum(-1) / 2).sum(1))
    regret = []
    for t in range(len(X)):
        eigenvalues, Q = np.linalg.eigh(C[t])
        alive = eigenvalues > 1e-12 * eigenvalues.max()
        turned, spectrum = (S[t] @ Q)[:, alive], eigenvalues[alive]
        low, high = 0.0, np.linalg.norm(S[t]) / at["size"] + 1
        if np.linalg.norm(turned / spectrum) > at["size"]:
            for _ in range(80):
                middle = (low + high) / 2
                low, high = (middle, high) if np.linalg.norm(turned / (spectrum + middle)) > at["size"] else (low, middle)
            spectrum_used = spectrum + high
        else:
            spectrum_used = spectrum
        best = turned / spectrum_used
        regret.append(suffered[t] - total[t] - (spectrum * best**2 / 2 - turned * best).sum())
    crosses_none(bound, np.array(regret))


def batch_of_problems(seed: int, problems: int, rounds: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Regret (T, M) of M linear one-dimensional problems on [−1, 1] played at once, and their bounds by form."""
    rng, P = np.random.default_rng(seed), 3
    weights = rng.dirichlet(np.full(P, 1.0), problems)
    weights[np.arange(P) >= rng.integers(1, P + 1, problems)[:, None]] = 0
    weights /= weights.sum(1, keepdims=True)
    delays = rng.integers(0, 13, (problems, P))
    delays[::2] = delays[::2, :1]
    loudness = rng.exponential(1, (problems, P))
    rows = np.concatenate([(weights > 0).sum(1), np.ones(problems * P, int)])
    sources = problems + np.arange(problems * P)
    partners, all_weights = np.concatenate([sources[weights.ravel() > 0], sources]), np.concatenate([weights[weights > 0], np.ones(problems * P)])
    who = interest.Interest(np.concatenate([[0], rows.cumsum()]), partners, all_weights)
    late = np.concatenate([delays[weights > 0], np.zeros(problems * P, int)])
    made = constants.Constants(who, np.concatenate([np.zeros(problems), loudness.ravel()]), late, 2.0)
    c = forms.best_sharp(made, rounds) * np.exp(rng.normal(0, 0.6, len(rows)) * (rng.random(len(rows)) < 0.6))
    tau_min, kind, period = made.tau_min[:problems], rng.integers(0, 4, problems)[:, None], rng.integers(1, 48, problems)
    memory, values, suffered = np.zeros(problems), np.zeros((rounds, problems, P)), np.zeros((rounds, problems))
    for t in range(rounds):
        against = np.where(memory >= 0, -1.0, 1.0)[:, None]
        waves = np.where(t // period % 2, 1.0, -1.0)[:, None]
        values[t] = loudness * np.select([kind == 0, kind == 1, kind == 2], [against, waves, rng.choice([-1.0, 1.0], (problems, P))], 1.0)
        suffered[t] = -(weights * values[t]).sum(1) * memory
        then = t - delays
        arrived = np.where(then >= 0, values[np.maximum(then, 0), np.arange(problems)[:, None], np.arange(P)], 0)
        rate = c[:problems] / np.sqrt(np.maximum(t + 1 - tau_min, 1))
        memory = np.clip(memory + rate * (weights * arrived).sum(1), -1, 1)
    regret = suffered.cumsum(0) + abs((weights * values).sum(2).cumsum(0))
    step = steps.inverse_sqrt(c)
    used = (forms.sharp, forms.sharp_sum, forms.corollary_1_repaired)
    return regret, {form.__name__: np.concatenate(list(form(made, step, rounds)))[:, :problems] for form in used}


@pytest.mark.parametrize("rounds", [7, 60, 300])
def test_thousands_of_problems_come_near_the_sharp_bounds_and_cross_none(rounds: int) -> None:
    regret, found = batch_of_problems(rounds, 2_000, rounds)
    for form, bound in found.items():
        assert (regret <= bound * ROUNDING).all(), form
    assert (regret / found["sharp_sum"]).max() > 0.7, "the problems are too tame to tell a true bound from a false one"
    assert rounds < 300 or (regret / found["sharp"]).max() > 0.8


@pytest.mark.parametrize("loss", ["linear", "delta", "gated_linear"])
@pytest.mark.parametrize("method", ["ogd", "dam_togd"])
@pytest.mark.parametrize("c", [0.05, 1.0])
def test_no_run_of_the_package_crosses_a_bound(loss: str, method: str, c: float) -> None:
    """Every agent of a network, at every horizon, on values that swing as slowly as the delays."""
    rng, agents, rounds = np.random.default_rng(7), 6, 400
    values = rng.standard_normal((1, agents, 2)) * np.sign(np.sin(np.arange(rounds) / 9 + 0.1))[:, None, None]
    stream = mm.streams.from_arrays(rng.uniform(0.5, 1, (rounds, agents, 3)), values, rng.integers(0, 2, (rounds, agents, 2)) * 1.0)
    made = mm.Problem(loss, mm.domains.ball(2.0), mm.interest.dirichlet(agents, own=1.0, others=1.0, seed=2))
    trees, step = mm.routing.shortest_path(mm.topology.line(agents), made.interest), mm.steps.inverse_sqrt(c)
    if method == "ogd":
        bound, algorithm = mm.theory.ogd(made, stream, step=step), mm.algorithms.ogd(step=step)
    else:
        bound, algorithm = mm.theory.dam_togd(made, stream, trees, step=step), mm.algorithms.dam_togd(trees, step=step)
    trace = mm.simulate(made, algorithm, stream, engine="numpy", dtype="float64")
    regret = mm.regret.static(made, stream, trace)
    assert bound.per_agent is not None and (regret.per_agent <= bound.per_agent[regret.horizons - 1] * ROUNDING).all()


# --- C-DOGD and Theorem 2 ---


def consensus(mixing: np.ndarray, choose: Callable[[int, np.ndarray], np.ndarray], rounds: int, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """C-DOGD (5) on f_m(x) = −⟨v_m, x⟩ in a ball at η = 1/(2√t): X (T, N, d) and the values (T, N, d) it met."""
    memories = [np.zeros(choose(1, np.zeros(0)).shape)]
    values = []
    for t in range(1, rounds + 1):
        values.append(choose(t, memories[-1]))
        moved = mixing @ memories[-1] + values[-1] / (2 * math.sqrt(t))
        memories.append(moved * np.minimum(1, radius / np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-300)))
    return np.array(memories[:-1]), np.array(values)


def network_regret(memories: np.ndarray, values: np.ndarray, radius: float) -> np.ndarray:
    """Reg(T) of the linear loss at W = 11ᵀ/N, for T = 1 .. rounds."""
    shared = values.mean(1, keepdims=True)
    return -(shared * memories).sum((1, 2)).cumsum() + memories.shape[1] * radius * np.linalg.norm(shared.cumsum(0)[:, 0], axis=1)


def theorem_2(graph: nx.Graph, values: np.ndarray, radius: float, **more: Any) -> theory.Bound:
    agents = len(graph)
    made = problem.Problem("linear", domains.ball(radius), interest.uniform(agents))
    stream = streams.from_arrays(np.ones((*values.shape[:2], 1)), values)
    return theory.c_dogd(made, stream, graph, step=steps.inverse_sqrt(0.5), **more)


def test_theorem_2_as_printed_is_false() -> None:
    memories, values = consensus(np.full((4, 4), 0.25), lambda t, X: np.ones((4, 1)), 2500, 100.0)
    regret = network_regret(memories, values, 100.0)
    bound = theorem_2(nx.complete_graph(4), values, 100.0)
    assert bound.printed is not None and bound.repaired is not None
    assert regret[-1] == pytest.approx(673_968, abs=1)
    assert bound.printed[-1] == pytest.approx(41_000)
    assert regret[-1] > 16 * bound.printed[-1]
    assert (regret <= bound.repaired * ROUNDING).all()


@settings(max_examples=80)
@given(
    agents=st.integers(1, 7), radius=st.sampled_from([0.1, 1.0, 10.0]), seed=st.integers(0, 2**20), kind=st.sampled_from(["adversary", "waves", "noise"])
)
def test_no_consensus_crosses_the_repaired_theorem_2(agents: int, radius: float, seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    graph = nx.empty_graph(agents)
    graph.add_edges_from((n, int(rng.integers(n))) for n in range(1, agents))
    graph.add_edges_from((int(a), int(b)) for a, b in rng.integers(agents, size=(2, 2)) if a != b)
    mixing = np.zeros((agents, agents))
    for a, b in graph.edges:
        mixing[a, b] = mixing[b, a] = 1 / (1 + max(graph.degree[a], graph.degree[b]))
    mixing += np.diag(1 - mixing.sum(1))
    loud, period = rng.exponential(1, (agents, 1)) * rng.choice([-1, 1], (agents, 1)), int(rng.integers(1, 9))
    known = {
        "adversary": lambda t, X: np.abs(loud) * np.where(X >= 0, -1.0, 1.0) if X.size else np.zeros((agents, 2)),
        "waves": lambda t, X: np.broadcast_to(loud * (1 if t // period % 2 else -1), (agents, 2)),
        "noise": lambda t, X: loud * rng.standard_normal((agents, 2)),
    }
    memories, values = consensus(mixing, known[kind], 120, radius)
    bound = theorem_2(graph, values, radius)
    assert bound.repaired is not None
    assert (network_regret(memories, values, radius) <= bound.repaired * ROUNDING).all()
    steepest, alpha = np.linalg.norm(values, axis=2).max(), np.sort(abs(np.linalg.eigvalsh(mixing)))[-2] if agents > 1 else 0.0
    assert bound.repaired[-1] == pytest.approx(agents * (4 * radius**2 + (5 - alpha) / (1 - alpha) * steepest**2) * math.sqrt(120))


def test_theorem_2_says_where_it_does_not_apply() -> None:
    graph, values = nx.cycle_graph(4), np.ones((5, 4, 1))
    stream = streams.from_arrays(values, values)
    uniform = problem.Problem("linear", domains.ball(1.0), interest.uniform(4))
    other = problem.Problem("linear", domains.ball(1.0), interest.dirichlet(4, own=3.0, others=1.0, seed=1))
    half, one, steady = steps.inverse_sqrt(0.5), steps.inverse_sqrt(1.0), steps.constant(0.5)
    for made, step, why in [(other, half, "11ᵀ/N"), (uniform, one, r"1/\(2√t\)"), (uniform, steady, "inverse_sqrt")]:
        bound = theory.c_dogd(made, stream, graph, step=step)
        assert bound.printed is None and bound.repaired is None and bound.sharp is None and bound.per_agent is None and bound.best_c is None
        assert "Theorem 2" in bound.notes["repaired"] and re.search(why, bound.notes["repaired"])
    apart = theorem_2(graph, values, 1.0, initial_equal=False)
    assert apart.printed is not None and apart.repaired is None and "same memory" in apart.notes["repaired"]
    with pytest.raises(BoundError, match="5 nodes"):
        theory.c_dogd(uniform, stream, nx.cycle_graph(5), step=steps.inverse_sqrt(0.5))
    with pytest.raises(BoundError, match="one rate"):
        apart.best_c_at(5, "repaired")
    with pytest.raises(BoundError, match="network's regret"):
        apart.by_agent("repaired")


# --- the formulas, written out ---


@st.composite
def networks(draw: Any) -> tuple[constants.Constants, np.random.Generator]:
    """Constants of a small random network with arbitrary delays, some agents silent."""
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    agents = draw(st.integers(1, 6))
    dense = rng.dirichlet(np.full(agents, 0.6), agents) * (rng.random((agents, agents)) < 0.7)
    dense[np.arange(agents), rng.integers(agents, size=agents)] += 0.2
    who = interest.from_array(dense / dense.sum(1, keepdims=True))
    lipschitz = rng.exponential(1, agents) * (rng.random(agents) < 0.8)
    delays = rng.integers(0, draw(st.sampled_from([1, 4, 30])), len(who.partners)) * draw(st.integers(1, 2))
    return constants.Constants(who, lipschitz, delays, float(rng.exponential(3)) + 0.01), rng


def rule_for(rng: np.random.Generator, agents: int) -> steps.Step:
    name = rng.choice([*RULES, "per agent"])
    if name == "per agent":
        return steps.inverse_sqrt(rng.uniform(0.05, 3, agents))
    return steps.as_step(RULES[str(name)](float(rng.uniform(0.05, 3))))


def of(form: forms.Form, made: constants.Constants, step: steps.Step, rounds: int) -> np.ndarray:
    return np.concatenate(list(form(made, step, rounds)))


@settings(max_examples=100)
@given(network=networks())
def test_formulas_are_those_of_the_theorems(network: tuple[constants.Constants, np.random.Generator]) -> None:
    made, rng = network
    rounds, agents, B = int(rng.integers(1, 40)), made.interest.agents, made.diameter
    step = rule_for(rng, agents)
    rate = lambda n, t: float(np.broadcast_to(np.ravel(step(int(t), tau_min=made.tau_min)), agents)[n])  # noqa: E731
    written = {"theorem_3": [], "sharp_sum": [], "sharp": [], "corollary_1": [], "corollary_1_repaired": []}  # type: dict[str, list[float]]
    for n in range(agents):
        partners, weights = made.interest.row(n)
        L, tau = made.lipschitz[partners], made.delays[made.interest.starts[n] : made.interest.starts[n + 1]]
        low, high = min(tau), max(tau)
        slope, K, W = float(weights @ L), max(weights * L), len(partners)
        mean = float(weights * L @ tau / slope) if slope else 0.0
        Q, P = K / 2 * sum(L) + W * K**2 * sum(tau), W**2 * K**2 * high**2
        C = (high - low) / 2 * (K * sum(L) + W * B**2)
        written["theorem_3"].append(
            Q * sum(rate(n, t) for t in range(low + 1, rounds + high + 1)) + P * rate(n, low + 1) + B**2 / (2 * rate(n, rounds + high)) + C
        )
        used = [sum(rate(n, min(s + d, rounds + low)) for s in range(1, rounds + 1)) for d in tau]
        S = weights * L @ used / slope if slope else 0.0
        written["sharp_sum"].append(slope**2 * (0.5 + mean) * S + B**2 / (2 * rate(n, rounds + low)) if slope else 0.0)
        if isinstance(step, steps.InverseSqrt):
            c = float(np.broadcast_to(step.c, agents)[n])
            written["sharp"].append((c * slope**2 * (1 + 2 * mean) + B**2 / (2 * c)) * math.sqrt(rounds) if slope else 0.0)
            first, last = 2 * c * Q * math.sqrt(rounds + high - low), P * c + C
            written["corollary_1"].append(first + B**2 / (2 * c) * math.sqrt(rounds) + last)
            written["corollary_1_repaired"].append(first + B**2 / (2 * c) * math.sqrt(rounds + high - low) + last)
    for name, expected in written.items():
        if expected:
            np.testing.assert_allclose(of(getattr(forms, name), made, step, rounds)[-1], expected, rtol=1e-9, err_msg=name)


@settings(max_examples=100)
@given(network=networks(), cells=st.sampled_from([1, 17, 2**20]))
def test_the_sharp_bound_is_never_above_the_repaired_one(network: tuple[constants.Constants, np.random.Generator], cells: int) -> None:
    made, rng = network
    step = rule_for(rng, made.interest.agents)
    whole = of(forms.sharp_sum, made, step, 50)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "CELLS", cells)  # in other stretches, the same sums
        np.testing.assert_allclose(of(forms.sharp_sum, made, step, 50), whole, rtol=1e-12)
        np.testing.assert_allclose(of(forms.theorem_3, made, step, 50)[7], of(forms.theorem_3, made, step, 8)[-1], rtol=1e-12)
    assert (whole <= of(forms.theorem_3, made, step, 50) * ROUNDING).all()
    if isinstance(step, steps.InverseSqrt):
        closed = of(forms.sharp, made, step, 50)
        assert (whole <= closed * ROUNDING).all()
        assert (closed <= of(forms.corollary_1, made, step, 50) * ROUNDING).all()  # so the printed Corollary 1 is true as well
        assert (closed <= of(forms.corollary_1_repaired, made, step, 50) * ROUNDING).all()


@settings(max_examples=100)
@given(network=networks(), factor=st.integers(2, 5))
def test_longer_delays_never_lower_a_bound(network: tuple[constants.Constants, np.random.Generator], factor: int) -> None:
    made, rng = network
    slower = constants.Constants(made.interest, made.lipschitz, made.delays * factor, made.diameter)
    for step in (steps.inverse_sqrt(rng.uniform(0.05, 3, made.interest.agents)), steps.constant(0.3)):
        for form in (forms.theorem_3, forms.sharp_sum, forms.sharp, forms.corollary_1, forms.corollary_1_repaired):
            if isinstance(step, steps.InverseSqrt) or form in (forms.theorem_3, forms.sharp_sum):
                assert (of(form, slower, step, 60) >= of(form, made, step, 60) / ROUNDING).all(), form


def teacher(agents: int = 6, rounds: int = 40, seed: int = 0) -> tuple[problem.Problem, Any, nx.Graph]:
    rng = np.random.default_rng(seed)
    who = interest.dirichlet(agents, own=3.0, others=1.0, seed=seed)
    stream = streams.from_arrays(rng.uniform(-1, 1, (rounds, agents, 3)), rng.standard_normal((rounds, agents, 2)))
    return problem.Problem("delta", domains.ball(4.0), who), stream, topology.ring(agents)


def test_without_delay_the_sharp_bound_is_theorem_1() -> None:
    made, stream, graph = teacher()
    step = steps.inverse_sqrt(1.0)
    plain, instant = theory.ogd(made, stream, step=step), theory.dam_togd(made, stream, routing.instant(graph, made.interest), step=step)
    slope = np.asarray(made.interest) @ plain.lipschitz
    np.testing.assert_allclose(plain.printed, (8.0**2 / 2 + slope**2).sum() * np.sqrt(np.arange(1, 41)), rtol=1e-14)
    for sharp in (plain.sharp, instant.sharp, plain.repaired):
        np.testing.assert_array_equal(sharp, plain.printed)
    np.testing.assert_array_equal(plain.sharp_sum, instant.sharp_sum)
    assert not instant.weighted_delay.any()


def test_theorem_1_is_for_one_rate_and_the_sharper_theorem_for_all() -> None:
    made, stream, _ = teacher()
    for step in (steps.inverse_sqrt(0.5), steps.constant(0.1), lambda t: 1 / t):
        bound = theory.ogd(made, stream, step=step)
        assert bound.printed is None and "Theorem 1" in bound.notes["printed"] and bound.sharp_sum is not None
        assert (bound.sharp is None) == (not isinstance(step, steps.InverseSqrt)) == ("closed form is for" in bound.notes["sharp"])
    assert theory.ogd(made, stream, step=steps.inverse_sqrt(np.ones(6))).printed is not None


@pytest.mark.parametrize("form", ["printed", "repaired", "sharp"])
def test_the_best_c_is_the_best(form: str) -> None:
    made, stream, graph = teacher()
    trees = routing.shortest_path(graph, made.interest)
    at_c = lambda c: theory.dam_togd(made, stream, trees, step=steps.inverse_sqrt(c)).by_agent(form)[24]  # noqa: E731
    bound = theory.dam_togd(made, stream, trees, step=steps.inverse_sqrt(0.7))
    best = bound.best_c_at(25, form)
    for factor in (0.97, 1.03):
        assert (at_c(best) < at_c(best * factor)).all()
    if form == "sharp":
        np.testing.assert_array_equal(best, bound.best_c)
        slope = np.asarray(made.interest) @ bound.lipschitz
        np.testing.assert_allclose(at_c(best), bound.diameter * slope * np.sqrt(2 * (1 + 2 * bound.weighted_delay) * 25))


def test_network_totals_are_sums_over_agents_and_per_agent_is_the_sharpest() -> None:
    made, stream, graph = teacher()
    trees = routing.shortest_path(graph, made.interest)
    bound = theory.dam_togd(made, stream, trees, step=steps.inverse_sqrt(0.7))
    for form in ("printed", "printed_sum", "repaired", "sharp", "sharp_sum"):
        np.testing.assert_allclose(bound.by_agent(form).sum(1), getattr(bound, form))
        assert (bound.per_agent <= bound.by_agent(form) * ROUNDING).all()
    assert bound.per_agent is not None and bound.per_agent.shape == (40, 6)
    delays = np.asarray(trees.delay)
    pulls = np.asarray(made.interest) * bound.lipschitz
    np.testing.assert_allclose(bound.weighted_delay, (pulls * delays).sum(1) / pulls.sum(1))
    rest = theory.dam_togd(made, stream, trees, step=lambda t: 0.5 / t)
    np.testing.assert_array_equal(rest.printed, rest.repaired)
    assert rest.sharp is None and rest.sharp_sum is not None and "H_n" in rest.notes["repaired"]


def test_an_agent_that_nobody_talks_to_has_no_regret() -> None:
    values = np.ones((8, 3, 1))
    values[:, 2] = 0
    made = problem.Problem("linear", domains.ball(1.0), interest.identity(3))
    bound = theory.ogd(made, streams.from_arrays(np.ones((8, 3, 1)), values), step=steps.inverse_sqrt(1.0))
    assert bound.per_agent is not None and bound.per_agent[:, 2].tolist() == [0] * 8 and bound.by_agent("sharp")[-1, 2] == 0
    assert bound.lipschitz.tolist() == [1, 1, 0] and bound.best_c is not None and bound.best_c[2] == 1


def test_many_agents_cost_no_square() -> None:
    agents = 50_000
    pairs = np.stack([np.arange(agents), (np.arange(agents) + 1) % agents], 1)
    who = interest.Interest(np.arange(agents + 1) * 2, pairs.ravel(), np.full(2 * agents, 0.5))
    made = constants.Constants(who, np.ones(agents), np.tile([0, 2], agents), 2.0)
    found = of(forms.sharp_sum, made, steps.inverse_sqrt(0.5), 10)
    np.testing.assert_allclose(found, found[:, :1] * np.ones(agents))


def test_what_has_no_bound_says_why() -> None:
    made, stream, graph = teacher()
    trees = routing.shortest_path(graph, made.interest)
    step = steps.inverse_sqrt(1.0)
    free = problem.Problem("delta", domains.everything(), made.interest)
    calls: list[Callable[[], object]] = [
        lambda: theory.ogd(free, stream, step=step),
        lambda: theory.dam_togd(free, stream, trees, step=step),
        lambda: theory.c_dogd(free, stream, graph, step=step),
    ]
    for call in calls:
        with pytest.raises(BoundError, match=r"everything\(\) has no diameter"):
            call()
    with pytest.raises(BoundError, match=r"over everything\(\)"):
        theory.lipschitz(free, stream)

    class Own(losses.Loss):
        name = "own"

        def value(self, outputs: Any, values: Any) -> Any:
            return abs(outputs - values).sum(-1)

        def residual(self, outputs: Any, values: Any) -> Any:
            return np.sign(outputs - values)

    own = problem.Problem(Own(), domains.ball(4.0), made.interest)
    with pytest.raises(BoundError, match="'own' does not say how steep"):
        theory.ogd(own, stream, step=step)
    Own.lipschitz = lambda self, furthest, value_norms, feature_norms: math.sqrt(2) * feature_norms  # type: ignore[method-assign, assignment, misc]
    assert theory.ogd(own, stream, step=step).sharp is not None
    bound = theory.dam_togd(made, stream, trees, step=step)
    with pytest.raises(BoundError, match="'smart'"):
        bound.by_agent("smart")
    with pytest.raises(BoundError, match="rounds=0"):
        bound.best_c_at(0)
    others = routing.shortest_path(graph, interest.identity(6))
    with pytest.raises(RoutingError):
        theory.dam_togd(made, stream, others, step=step)
    assert repr(bound).startswith("Bound(dam_togd, agents=6, at T=40: printed ") and "\n" not in repr(bound)


# --- L_m ---


def gradient_norms(name: str, gate: str | None, X: np.ndarray, phi: np.ndarray, v: np.ndarray, gates: Any) -> np.ndarray:
    """‖∇f‖ of a mean over associations at many X (K, d_v, d_φ)."""
    outputs = np.einsum("kij,aj->kai", X, phi)
    residual = outputs - v if name == "delta" else np.broadcast_to(-v, outputs.shape)
    gradient = np.einsum("kai,aj->kij", residual, phi) / len(phi)
    if name == "gated_linear":
        gradient = gradient + X * (1 - {"value": lambda: gates[:, None], "key": lambda: gates[None, :], "scalar": lambda: gates}[str(gate)]())
    if name == "softmax_norm":
        gradient = gradient + X
    return np.linalg.norm(gradient, axis=(1, 2))


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize(
    ("loss", "gate"),
    [("linear", None), ("delta", None), ("softmax_norm", None), ("gated_linear", "value"), ("gated_linear", "key"), ("gated_linear", "scalar")],
)
def test_no_gradient_is_steeper_than_said(loss: str, gate: str | None, boxed: bool) -> None:
    rng = np.random.default_rng(5)
    rounds, agents, A = 5, 2, 3
    keys, values = rng.standard_normal((rounds, agents, A, 3)), rng.standard_normal((rounds, agents, A, 2))
    present = rng.random((rounds, agents, A)) < 0.6
    gates = rng.random({"value": (rounds, agents, 2), "key": (rounds, agents, 3)}.get(gate or "", (rounds, agents))) if gate else None
    domain: Any = domains.box(-1.0, 2.0) if boxed else domains.ball(3.0)
    phi = features.elu_plus_one() if loss == "softmax_norm" else features.identity()
    made = problem.Problem(losses.get(loss, gate=gate) if gate else loss, domain, interest.identity(agents), phi)
    said = theory.lipschitz(made, streams.from_arrays(keys, values, gates, present))
    tries = rng.choice([-1.0, 2.0], (400, 2, 3)) if boxed else rng.standard_normal((400, 2, 3))
    if not boxed:
        tries *= 3 / np.linalg.norm(tries, axis=(1, 2), keepdims=True)
    found = np.zeros(agents)
    for t, n in np.argwhere(present.any(2)):
        here = present[t, n]
        steepest = gradient_norms(loss, gate, tries, phi(keys[t, n, here]), values[t, n, here], None if gates is None else gates[t, n])
        found[n] = max(found[n], steepest.max())
    assert (found <= said * ROUNDING).all()
    assert (found >= said * 0.3).all()


@pytest.mark.parametrize("boxed", [False, True])
def test_single_associations_reach_the_bound(boxed: bool) -> None:
    """Linear: ‖v‖‖k‖. DeltaNet: at −R vkᵀ/‖v‖‖k‖ on a ball, at a corner of a box. Decay 1: at −R vkᵀ/‖v‖‖k‖."""
    rng = np.random.default_rng(3)
    keys, values = rng.standard_normal((1, 1, 3)), rng.standard_normal((1, 1, 2))
    stream, k, v = streams.from_arrays(keys, values), keys[0, 0], values[0, 0]
    domain: Any = domains.box(-1.0, 2.0) if boxed else domains.ball(3.0)
    made = lambda loss: problem.Problem(loss, domain, interest.identity(1), features.identity())  # noqa: E731
    size = np.linalg.norm(k) * np.linalg.norm(v)
    assert theory.lipschitz(made("linear"), stream)[0] == pytest.approx(size)
    corners = np.array(np.meshgrid(*[[-1.0, 2.0]] * 6)).reshape(6, -1).T.reshape(-1, 2, 3)
    tries = corners if boxed else -3 * np.outer(v, k)[None] / size
    assert theory.lipschitz(made("delta"), stream)[0] == pytest.approx(gradient_norms("delta", None, tries, k[None], v[None], None).max())
    if not boxed:
        assert theory.lipschitz(made("softmax_norm"), stream)[0] == pytest.approx(size + 3)
        np.testing.assert_allclose(gradient_norms("softmax_norm", None, tries, k[None], v[None], None), size + 3)
    else:
        assert theory.lipschitz(made("softmax_norm"), stream)[0] == pytest.approx(size + np.sqrt(6) * 2)


def test_the_steepest_round_is_found_wherever_it_is() -> None:
    agents, rounds = 1100, 300
    values = np.ones((rounds, agents, 1))
    values[-1, -1], values[255, 3], values[256, 1024] = 9, -7, 5
    present = np.ones((rounds, agents), bool)
    present[:, 7] = False
    made = problem.Problem("linear", domains.everything(), interest.identity(agents))
    steepest = theory.lipschitz(made, streams.from_arrays(np.ones((rounds, agents, 1)), values, present=present))
    assert {n: steepest[n] for n in (0, 3, 7, 1024, agents - 1)} == {0: 1, 3: 7, 7: 0, 1024: 5, agents - 1: 9}


def test_a_decay_that_is_never_there_needs_no_domain() -> None:
    keys = np.ones((4, 1, 2))
    gated = problem.Problem("gated_linear", domains.everything(), interest.identity(1))
    assert theory.lipschitz(gated, streams.from_arrays(keys, keys, np.ones((4, 1, 2)))).tolist() == [pytest.approx(2)]
    with pytest.raises(BoundError, match="everything"):
        theory.lipschitz(gated, streams.from_arrays(keys, keys, np.zeros((4, 1, 2))))
