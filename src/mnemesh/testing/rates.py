"""Laws of step rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mnemesh.errors import StepError
from mnemesh.steps import Rates, Step, as_step
from mnemesh.testing.laws import holds

__all__ = ["check_step"]


def check_step(step: Step | Callable[[int], Any], *, rounds: int = 1_000, tau_min: Sequence[int] = (0, 0, 2, 7)) -> None:
    """Rates are finite, positive and non-increasing for every agent, and the same however a run is cut into stretches.

    >>> check_step(lambda t: 0.5 / t)
    """
    step = as_step(step)
    try:
        _check(step, np.asarray(tau_min), rounds)
    except StepError as refused:
        raise AssertionError(f"{step!r}: {refused}") from refused


def _check(step: Step, delays: np.ndarray, rounds: int) -> None:
    whole = Rates(step, delays)(1, rounds)
    holds(np.isfinite(whole) & (whole > 0), f"{step!r} gives a rate that is not finite and positive.")
    holds(np.diff(whole, axis=0) <= 0, f"{step!r} gives a rate that increases.")
    third = max(rounds // 3, 1)
    cut, stretches = Rates(step, delays), ((1, 1), (2, third), (third + 1, rounds))
    parts = np.concatenate([cut(first, last) for first, last in stretches if first <= last])
    holds(np.array_equal(parts, whole), f"{step!r}: rates depend on how the rounds are read, so a resumed run would differ.")
    for t in (1, min(2, rounds), rounds):
        holds(step(t, delays) == whole[t - 1], f"{step!r}: called with t={t} it gives another rate than in a run.")
