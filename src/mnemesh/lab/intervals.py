"""What the seeds say: means and other statistics with 95% intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mnemesh.errors import require

__all__ = ["Interval", "interval", "jackknife"]

_LEVEL = 0.975


class Interval(NamedTuple):
    """An estimate and the ends of its 95% interval, NaN where one seed says nothing about the spread or a value is infinite."""

    mean: float
    low: float
    high: float


def interval(values: Any) -> Interval:
    """The mean over seeds, with Student's t interval: mean ± t_{S−1} s/√S."""
    seeds = np.asarray(values, dtype=np.float64)
    if not seeds.size:
        return Interval(np.nan, np.nan, np.nan)
    if not np.isfinite(seeds).all():
        return Interval(_mean(seeds), np.nan, np.nan)
    spread = seeds.std(ddof=1) / np.sqrt(len(seeds)) if len(seeds) > 1 else np.nan
    return _about(float(seeds.mean()), float(spread), len(seeds))


def jackknife(statistic: Callable[[np.ndarray], float], samples: Any) -> Interval:
    """A smooth statistic of samples (S, …), with the interval that leaving out each seed in turn gives; for the mean, that of `interval`."""
    seeds = np.asarray(samples, dtype=np.float64)
    with np.errstate(all="ignore"):
        whole = float(statistic(seeds))
        if len(seeds) < 2 or not np.isfinite(whole):
            return Interval(whole, np.nan, np.nan)
        left = np.array([statistic(np.delete(seeds, seed, axis=0)) for seed in range(len(seeds))])
        spread = np.sqrt((len(seeds) - 1) * np.mean((left - left.mean()) ** 2))
    return _about(whole, float(spread), len(seeds))


def _mean(values: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        return float(values.mean())


def _about(mean: float, spread: float, seeds: int) -> Interval:
    if not np.isfinite(spread):
        return Interval(mean, np.nan, np.nan)
    half = float(require("scipy.special", "intervals over seeds").stdtrit(seeds - 1, _LEVEL)) * spread
    return Interval(mean, mean - half, mean + half)
