"""Variants of one algorithm against each other, seed by seed: what another tree builder, say, costs and brings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mnemesh.lab.gather import places, runs
from mnemesh.lab.intervals import jackknife
from mnemesh.lab.record import Results
from mnemesh.lab.tables import Table

__all__ = ["variants_table"]


def variants_table(results: Results) -> Table:
    """Every further line of an algorithm against its first one, at the last horizon; without rows where no algorithm has two lines."""
    pairs = list(_pairs(results))
    at = places(results)
    regret, messages, single, delay = (runs(results, name) for name in ("regret", "messages", "replies_single", "delay_mean"))
    rows = []
    for point, place in at.items():
        for first, other in pairs:
            mine, theirs = (regret[point, label].values[:, -1] for label in (first, other))
            more = jackknife(lambda pairs: float(100 * (pairs[:, 1].mean() / pairs[:, 0].mean() - 1)), np.stack([mine, theirs], 1))
            cheaper = [_change(found[point, first].values[:, -1], found[point, other].values[:, -1]) for found in (messages, single)]
            delays = [float(delay[point, label].values[:, -1].mean()) for label in (other, first)]
            rows.append((*place.values(), other, first, *more, *cheaper, *delays))
    columns = (*results.swept, "variant", "against", "regret, %", "low", "high", "messages, %", "single replies, %", "delay", "delay, against")
    note = (
        "By how much the means over the seeds differ from those of the variant it stands against: regret at the last horizon, with the 95% interval from "
        "leaving out each seed in turn; messages a round with joined replies; replies that go back one by one. Delays are means over pairs, its own first."
    )
    return Table("Variants of one algorithm", columns, tuple(rows), note)


def _pairs(results: Results) -> Iterator[tuple[str, str]]:
    """(first, other) labels of lines of the same algorithm."""
    first: dict[str, str] = {}
    for line in results.spec.algorithms:
        if line.name in first:
            yield first[line.name], line.called
        first.setdefault(line.name, line.called)


def _change(mine: np.ndarray, theirs: np.ndarray) -> float | None:
    return None if np.isnan(mine).any() or np.isnan(theirs).any() or not mine.any() else float(100 * (theirs.mean() / mine.mean() - 1))
