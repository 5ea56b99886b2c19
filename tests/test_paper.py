"""The paper's picture at N = 20, d = 10: every method at its best c, chosen on other seeds than those that are reported."""

from functools import cache

import numpy as np
import pytest

import mnemesh as mm

RADIUS, ROUNDS = 500.0, 2500
GRAPH = mm.topology.default()
METHODS = ("ogd", "dam_togd", "c_dogd")
CHOOSING, REPORTED = (101, 102, 103), (1, 2, 3, 4, 5)


def problem(own: float, seed: int) -> mm.Problem:
    return mm.Problem("delta", mm.domains.ball(RADIUS), mm.interest.dirichlet(20, own=10.0, others=own, seed=seed))


def stream(correlation: float, seed: int, rounds: int = ROUNDS) -> mm.streams.Stream:
    return mm.streams.teacher(agents=20, key_dim=10, value_dim=10, rounds=rounds, correlation=correlation, seed=seed)


def learner(method: str, step: object, posed: mm.Problem) -> mm.algorithms.Algorithm:
    if method == "c_dogd":
        return mm.algorithms.c_dogd(GRAPH, step=step)
    return mm.algorithms.ogd(step=step) if method == "ogd" else mm.algorithms.dam_togd(mm.routing.steiner(GRAPH, posed.interest), step=step)


@cache
def best_c(method: str, correlation: float, others: float) -> float:
    posed = [problem(others, seed) for seed in CHOOSING]
    found = mm.tune(posed, lambda step: [learner(method, step, p) for p in posed], [stream(correlation, seed) for seed in CHOOSING])
    assert not found.at_edge, found
    return found.best


@cache
def regret(method: str, correlation: float, others: float) -> np.ndarray:
    """Regret per round at T of each reported seed."""
    step = mm.steps.inverse_sqrt(best_c(method, correlation, others))
    posed, seen = [problem(others, seed) for seed in REPORTED], [stream(correlation, seed) for seed in REPORTED]
    trace = mm.simulate_many(posed, [learner(method, step, p) for p in posed], seen, horizons=[ROUNDS])
    return np.array([mm.regret.static(p, s, trace.run(i)).total[-1] / ROUNDS for i, (p, s) in enumerate(zip(posed, seen, strict=True))])


def mean(method: str, correlation: float, others: float) -> float:
    return float(regret(method, correlation, others).mean())


@pytest.mark.parametrize(("correlation", "others", "factor"), [(0.75, 2.0, 3.0), (0.75, 0.1, 10.0)])
def test_consensus_loses_where_agents_differ(correlation, others, factor):
    assert mean("c_dogd", correlation, others) >= factor * mean("dam_togd", correlation, others)


def test_where_all_agents_have_one_teacher_consensus_is_as_good_and_start_up_is_the_price_of_delay():
    assert mean("c_dogd", 1.0, 6.0) <= 1.5 * mean("dam_togd", 1.0, 6.0)
    assert mean("dam_togd", 1.0, 6.0) <= mean("ogd", 1.0, 6.0) + 20


@pytest.mark.parametrize(("correlation", "others"), [(0.75, 2.0), (0.25, 6.0), (0.75, 0.1)])
def test_routing_costs_less_than_a_factor_of_two(correlation, others):
    assert mean("ogd", correlation, others) <= mean("dam_togd", correlation, others) <= 2 * mean("ogd", correlation, others)


def test_the_optimum_lies_well_inside_the_ball():
    posed, seen = problem(2.0, 1), stream(0.75, 1)
    statistics = mm.statistics.add(posed, mm.statistics.empty(posed, (10, 10)), seen.block(0, ROUNDS))
    minimisers, _ = mm.regret.comparator(posed, statistics)
    assert np.linalg.norm(minimisers, axis=(1, 2)).max() < RADIUS / 2


def test_regret_of_consensus_keeps_growing_and_that_of_trees_flattens():
    """Exponents of cumulative regret in T from 500 to 10,000."""
    horizons, seeds = np.geomspace(500, 10_000, 8).astype(int), REPORTED[:4]
    slopes = {}
    for method in ("dam_togd", "c_dogd"):
        step = mm.steps.inverse_sqrt(best_c(method, 0.75, 2.0))
        posed, seen = [problem(2.0, seed) for seed in seeds], [stream(0.75, seed, 10_000) for seed in seeds]
        trace = mm.simulate_many(posed, [learner(method, step, p) for p in posed], seen, horizons=horizons)
        totals = np.mean([mm.regret.static(p, s, trace.run(i)).total for i, (p, s) in enumerate(zip(posed, seen, strict=True))], axis=0)
        slopes[method] = np.polyfit(np.log(horizons), np.log(totals), 1)[0]
    assert slopes["c_dogd"] > 0.65
    assert slopes["dam_togd"] < slopes["c_dogd"] - 0.3
