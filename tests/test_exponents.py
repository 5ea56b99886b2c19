"""How regret grows with T for the linear loss (d = 1, c = 1, R = 1): its exponent, where learners that do not learn fail the same test.

On a line of five, agent 0 cares only for agent 4, whose gradients come 8 rounds late, and agent 1 only for itself, at no delay.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mnemesh as mm

ROUNDS = 20_000
WATCHERS, WATCHED, DELAYS = [1, 0], [1, 4], [0, 8]


def exponent(regret: np.ndarray, horizons: np.ndarray) -> float:
    """The slope of log Reg(T) over log T."""
    return float(np.polyfit(np.log(horizons), np.log(regret), 1)[0])


def horizons_from(first: int) -> np.ndarray:
    return np.geomspace(first, ROUNDS, 12).round().astype(int)


def built(step: Any) -> tuple[mm.Problem, Any]:
    interest = np.eye(5)
    interest[0] = interest[4]
    problem = mm.Problem("linear", mm.domains.ball(1.0), interest)
    trees = mm.routing.shortest_path(mm.topology.line(5), problem.interest)
    assert [int(trees.delay[n, m]) for n, m in zip(WATCHERS, WATCHED)] == DELAYS
    return problem, mm.algorithms.dam_togd(trees, step=step)


def hostile(memories: np.ndarray) -> np.ndarray:
    """v_t = −sign(X_t), with sign 0 = +1."""
    return np.where(memories >= 0, -1.0, 1.0)


def regret_against_it(memories: np.ndarray) -> np.ndarray:
    """Regret (T, ·) of having played X (T, ·) against the adversary, the best memory in hindsight being an end of [−1, 1]."""
    values = hostile(memories)
    return (-values * memories).cumsum(0) + abs(values.cumsum(0))


@pytest.fixture(scope="module")
def played() -> np.ndarray:
    """X of both watchers (T, 2), each of whose partners answers with the adversary."""
    problem, algorithm = built(mm.steps.inverse_sqrt(1.0))
    run = mm.Online(problem, algorithm, key_dim=1, value_dim=1, dtype="float64")
    keys, values, memories = np.ones((5, 1)), np.zeros((5, 1)), np.zeros((ROUNDS, 2))
    for t in range(ROUNDS):
        memories[t] = run.memories[WATCHERS, 0, 0]
        values[WATCHED, 0] = hostile(memories[t])
        losses = run.learn(keys, values)
        assert (losses[WATCHERS] == abs(memories[t])).all()  # −v x
    return memories


@pytest.mark.parametrize("place", [0, 1], ids=["no delay", "delay 8"])
def test_the_adversary_forces_the_root_of_time_and_no_more(played: np.ndarray, place: int) -> None:
    at = horizons_from(200)
    assert 0.45 <= exponent(regret_against_it(played[:, place])[at - 1], at) <= 0.6


def literal(delay: int, sign: float) -> np.ndarray:
    """X (T,) of x ← clip(x + sign·v_{t−τ}/√(t−τ)) against the adversary: sign 1 learns, −1 learns the opposite, 0 nothing."""
    memories = np.zeros(ROUNDS)
    for t in range(1, ROUNDS):
        arrived = -np.copysign(1.0, memories[t - 1 - delay] + 0.0) if t > delay else 0.0
        memories[t] = min(1.0, max(-1.0, memories[t - 1] + sign * arrived / np.sqrt(max(t - delay, 1))))
    return memories


@pytest.mark.parametrize("place", [0, 1], ids=["no delay", "delay 8"])
def test_learners_that_do_not_learn_fail_the_same_test(played: np.ndarray, place: int) -> None:
    at = horizons_from(200)
    np.testing.assert_allclose(literal(DELAYS[place], 1.0), played[:, place], atol=1e-12)
    for sign in (-1.0, 0.0):
        assert exponent(regret_against_it(literal(DELAYS[place], sign))[at - 1], at) == pytest.approx(1, abs=0.01)


def on_waves(step: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both watchers' regret (H, 2) on ±1 square waves of half period max(1, 2τ), and the horizons it is taken at."""
    problem, algorithm = built(step)
    values = np.zeros((ROUNDS, 5, 1))
    for watched, delay in zip(WATCHED, DELAYS):
        values[:, watched, 0] = np.where(np.arange(ROUNDS) // max(1, 2 * delay) % 2, -1.0, 1.0)
    stream = mm.streams.from_arrays(np.ones_like(values), values)
    at = horizons_from(2_000)
    trace = mm.simulate(problem, algorithm, stream, dtype="float64")
    return mm.regret.static(problem, stream, trace, horizons=at).per_agent[:, WATCHERS], at


def test_on_square_waves_regret_is_a_root_and_at_a_constant_rate_a_line() -> None:
    regret, at = on_waves(mm.steps.inverse_sqrt(1.0))
    steady, _ = on_waves(mm.steps.constant(1.0))
    for place in (0, 1):
        assert 0.45 <= exponent(regret[:, place], at) <= 0.57
        assert exponent(steady[:, place], at) > 0.9
