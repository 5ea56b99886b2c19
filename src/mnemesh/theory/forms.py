"""The theorems as formulas: what bounds each agent's regret at T = 1, 2, …, stretch by stretch, and the c that makes it least."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mnemesh.steps import InverseSqrt, Rates, Step
from mnemesh.theory.constants import Constants, Schedule

__all__ = [
    "Form", "best_corollary_1", "best_corollary_1_repaired", "best_sharp",
    "corollary_1", "corollary_1_repaired", "sharp", "sharp_sum", "theorem_1", "theorem_3",
]  # fmt: skip

Form = Callable[[Constants, Step, int], Iterator[np.ndarray]]  # constants, η, T → stretches of (R, N)


def theorem_1(constants: Constants, step: Step, rounds: int) -> Iterator[np.ndarray]:
    """(4), for no delay and η = 1/√t: (B²/2 + L̄_n²) √T."""
    for first, last in Schedule(step, constants).stretches(rounds):
        yield (constants.diameter**2 / 2 + constants.slope**2) * _roots(first, last)


def theorem_3(constants: Constants, step: Step, rounds: int) -> Iterator[np.ndarray]:
    """(8): Q_n Σ_{t=τ_min+1}^{T+τ_max} η_{n,t} + P_n η_{n,τ_min+1} + H_n + C_n, with H_n by its bound B²/(2 η_{n,T+τ_max})."""
    schedule = Schedule(step, constants)
    first_rate = schedule.ahead(Rates(step, schedule.tau_min), 1, 1, schedule.tau_min)
    q, rest = constants.q, constants.p * first_rate + constants.c
    for sums, rate in schedule.last_gradients(rounds):
        yield q * sums + constants.diameter**2 / (2 * rate) + rest


def corollary_1(constants: Constants, step: Step, rounds: int) -> Iterator[np.ndarray]:
    """(13), for η = c/√(t − τ_min): 2cQ_n √(T+Δτ_n) + (B²/2c) √T + P_n c + C_n."""
    c, q, rest = _c(step), constants.q, constants.p * _c(step) + constants.c
    for first, last in Schedule(step, constants).stretches(rounds):
        yield 2 * c * q * _later(constants, first, last) + constants.diameter**2 / (2 * c) * _roots(first, last) + rest


def corollary_1_repaired(constants: Constants, step: Step, rounds: int) -> Iterator[np.ndarray]:
    """(13) with √(T+Δτ_n) in both places."""
    c, q, rest = _c(step), constants.q, constants.p * _c(step) + constants.c
    for first, last in Schedule(step, constants).stretches(rounds):
        yield (2 * c * q + constants.diameter**2 / (2 * c)) * _later(constants, first, last) + rest


def sharp(constants: Constants, step: Step, rounds: int) -> Iterator[np.ndarray]:
    """For η = c/√(t − τ_min): (c L̄_n² (1 + 2τ̄_n) + B²/(2c)) √T, and 0 where L̄_n = 0."""
    c, slope = _c(step), constants.slope
    factor = c * slope**2 * (1 + 2 * constants.weighted_delay) + constants.diameter**2 / (2 * c)
    for first, last in Schedule(step, constants).stretches(rounds):
        yield np.where(slope > 0, factor, 0) * _roots(first, last)


def sharp_sum(constants: Constants, step: Step, rounds: int) -> Iterator[np.ndarray]:
    """For any rate: L̄_n² (½ + τ̄_n) S_n + B²/(2 η_{n,T+τ_min}), and 0 where L̄_n = 0."""
    slope = constants.slope
    factor = slope**2 * (0.5 + constants.weighted_delay)
    for sums, rate in Schedule(step, constants).frozen(rounds):
        yield factor * sums + np.where(slope > 0, constants.diameter**2, 0) / (2 * rate)


def best_sharp(constants: Constants, rounds: int) -> np.ndarray:
    """B / (L̄_n √(2(1 + 2τ̄_n))), whatever T."""
    return _balance(constants.slope**2 * (1 + 2 * constants.weighted_delay), np.full(len(constants.slope), constants.diameter**2 / 2))


def best_corollary_1(constants: Constants, rounds: int) -> np.ndarray:
    """The least of c (2Q_n √(T+Δτ_n) + P_n) + (B²/2c) √T."""
    later = _later(constants, rounds, rounds)[0]
    return _balance(2 * constants.q * later + constants.p, np.full(len(later), constants.diameter**2 / 2 * np.sqrt(rounds)))


def best_corollary_1_repaired(constants: Constants, rounds: int) -> np.ndarray:
    """The least of c (2Q_n √(T+Δτ_n) + P_n) + (B²/2c) √(T+Δτ_n)."""
    later = _later(constants, rounds, rounds)[0]
    return _balance(2 * constants.q * later + constants.p, constants.diameter**2 / 2 * later)


def _c(step: Step) -> Any:
    assert isinstance(step, InverseSqrt)
    return step.c


def _roots(first: int, last: int) -> np.ndarray:
    """√T for T = first .. last, (R, 1)."""
    return np.sqrt(np.arange(first, last + 1.0))[:, None]


def _later(constants: Constants, first: int, last: int) -> np.ndarray:
    """√(T + Δτ_n), (R, N)."""
    return np.sqrt(np.arange(first, last + 1.0)[:, None] + (constants.tau_max - constants.tau_min))


def _balance(rising: np.ndarray, falling: np.ndarray) -> np.ndarray:
    """The c that makes rising · c + falling / c least; 1 where nothing rises, and every c bounds the same regret of 0."""
    return np.sqrt(np.divide(falling, rising, out=np.ones(len(rising)), where=rising > 0))
