"""Results by run: which point, which algorithm, one row per seed and one column per horizon."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mnemesh.errors import ResultsError, require
from mnemesh.lab.intervals import Interval, interval
from mnemesh.lab.record import Results

__all__ = ["Curve", "Runs", "averaged", "joined", "labels", "places", "runs"]


class Runs(NamedTuple):
    """One quantity of one algorithm at one point: `values` is (S, H)."""

    seeds: np.ndarray
    horizons: np.ndarray
    values: np.ndarray


class Curve(NamedTuple):
    """Means over seeds against x, with their 95% intervals."""

    x: tuple[Any, ...]
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    diverged: np.ndarray  # how many seeds, at each x
    seeds: int


def labels(results: Results) -> tuple[str, ...]:
    """What the algorithms are called, in the spec's order."""
    found = set(require("pyarrow.compute", "reading results").unique(results.results.column("algorithm")).to_pylist())
    told = [line.called for line in results.spec.algorithms if line.called in found]
    return (*told, *sorted(found - set(told)))


def averaged(results: Results) -> str:
    """Over what a figure's or a table's means are taken, in words that fit one seed, too."""
    seeds = len(results.spec.seed_list)
    return f"means over {seeds:,} seeds" if seeds > 1 else "one seed"


def places(results: Results) -> dict[int, dict[str, Any]]:
    """The values of the swept keys at each point."""
    points, first = np.unique(results.column("point"), return_index=True)
    kept = results.results.select(list(results.swept)).take(first.tolist()).to_pylist() if results.swept else [{} for _ in first]
    return dict(zip(points.tolist(), kept, strict=True))


def runs(results: Results, column: str = "regret_per_round") -> dict[tuple[int, str], Runs]:
    """A column of the results, by (point, algorithm): points ascending, algorithms in the spec's order."""
    points, seeds, horizons = (results.column(name) for name in ("point", "seed", "horizon"))
    names = results.results.column("algorithm").combine_chunks().dictionary_encode()
    values = results.column(column).astype(np.float64)
    called = labels(results)
    number = {label: i for i, label in enumerate(called)}
    which = np.array([number[name] for name in names.dictionary.to_pylist()], dtype=np.int64)[names.indices.to_numpy()]
    order = np.lexsort((horizons, seeds, which, points))
    points, which, seeds, horizons, values = (array[order] for array in (points, which, seeds, horizons, values))
    starts = np.flatnonzero(np.r_[True, (np.diff(points) != 0) | (np.diff(which) != 0)]) if len(points) else np.array([], dtype=np.int64)
    found = {}
    for i, j in zip(starts, [*starts[1:], len(points)]):
        own, rounds = np.unique(seeds[i:j]), np.unique(horizons[i:j])
        if j - i != len(own) * len(rounds):
            raise ResultsError(
                f"{results.folder}: {called[which[i]]} at point {points[i]} has {j - i} rows for {len(own)} seeds and {len(rounds)} horizons: "
                "rows are missing or double, and means over them would mislead."
            )
        found[int(points[i]), called[which[i]]] = Runs(own, rounds, values[i:j].reshape(len(own), len(rounds)))
    return found


def joined(x: list[Any], columns: list[np.ndarray]) -> Curve:
    """The curve through the means of these columns, each a value per seed."""
    ends = np.array([interval(column) for column in columns] or np.empty((0, len(Interval._fields))))
    diverged = np.array([int((~np.isfinite(column)).sum()) for column in columns], dtype=np.int64)
    return Curve(tuple(x), ends[:, 0], ends[:, 1], ends[:, 2], diverged, max(map(len, columns), default=0))
