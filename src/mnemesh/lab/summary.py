"""The numbers behind the figures, as tables: regret, exponents, bounds, rates, messages."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mnemesh.errors import ResultsError
from mnemesh.lab.gather import Runs, averaged, labels, places, runs
from mnemesh.lab.intervals import Interval, interval, jackknife
from mnemesh.lab.record import Results, open_results
from mnemesh.lab.tables import Table

__all__ = ["bounds_table", "compare", "exponents", "rates_table", "regret_table", "slope", "slopes", "traffic_table"]

_NEAR = 0.02  # a horizon within 2% of the one asked for stands for it
_LEFT_OUT = "95% intervals from leaving out each seed in turn"
_SAME = {"float64": 1e-9, "float32": 1e-5}  # what another machine, version or number of threads may change
_COMPARED = ("regret", "cumulative_loss", "comparator")


def regret_table(results: Results, horizons: Sequence[int] | None = None) -> Table:
    """Regret per round at the last horizon, or at those asked for, of every algorithm at every point."""
    at, rows = places(results), []
    cs = runs(results, "c")
    for (point, label), run in runs(results).items():
        for place in _chosen(run, horizons):
            rates = np.unique(cs[point, label].values)
            c = float(rates[0]) if len(rates) == 1 and np.isfinite(rates[0]) else None
            known = interval(run.values[:, place])
            rows.append((*at[point].values(), label, int(run.horizons[place]), *known, len(run.seeds), c))
    columns = (*results.swept, "algorithm", "T", "regret per round", "low", "high", "seeds", "c")
    return Table("Regret per round", columns, tuple(rows), "Mean over the seeds with its 95% interval (Student's t)." if _several(results) else "One seed: no intervals.")


def slope(run: Runs, low: int, high: int) -> Interval | None:
    """The slope of log(mean of the values) against log T from `low` to `high`, interpolated between horizons; None if the run does not span them."""
    if not run.horizons[0] <= low < high <= run.horizons[-1]:
        return None
    ends, at = np.log([low, high]), np.log(run.horizons)
    return jackknife(lambda seeds: float(np.diff(np.interp(ends, at, np.log(seeds.mean(0))))[0] / np.diff(ends)[0]), run.values)


def slopes(results: Results, low: int, high: int) -> Table:
    """Slopes of log(mean regret per round) against log T between two horizons."""
    at = places(results)
    found = [(point, label, slope(run, low, high)) for (point, label), run in runs(results).items()]
    rows = [(*at[point].values(), label, *known) for point, label, known in found if known is not None]
    title = f"Slope of log regret per round against log T, from T = {low:,} to {high:,}"
    return Table(title, (*results.swept, "algorithm", "slope", "low", "high"), tuple(rows), _left_out(results) + ".")


def exponents(results: Results) -> Table:
    """Exponents of cumulative regret in T: the slope of a line through log(mean regret) over the last decade of horizons."""
    at, rows = places(results), []
    for (point, label), run in runs(results, "regret").items():
        late = run.horizons * 10 >= run.horizons[-1]
        if late.sum() >= 2:
            rows.append((*at[point].values(), label, int(run.horizons[late][0]), int(run.horizons[-1]), int(late.sum()), *_exponent(run, late)))
    columns = (*results.swept, "algorithm", "from T", "to T", "horizons", "exponent", "low", "high")
    note = f"Least squares of log(mean regret) on log T; {_left_out(results)}; '-' where regret is not positive."
    return Table("Exponents of cumulative regret", columns, tuple(rows), note)


def bounds_table(results: Results) -> Table:
    """Bounds on cumulative regret against what was measured, at the last horizon."""
    at, rows = places(results), []
    columns = {name: runs(results, name) for name in ("regret", "bound_sharp", "bound_repaired", "bound_printed")}
    for key, run in columns["regret"].items():
        sharp, repaired, printed = (columns[f"bound_{kind}"][key].values for kind in ("sharp", "repaired", "printed"))
        if np.isnan(sharp).all() and np.isnan(repaired).all() and np.isnan(printed).all():
            continue
        tightest = np.fmin(sharp, repaired)
        with np.errstate(invalid="ignore"):
            ratio, above = run.values / tightest, int((run.values > tightest).sum())
        means = [_mean(values[:, -1]) for values in (run.values, sharp, repaired, printed)]
        rows.append((*at[key[0]].values(), key[1], *means, _mean(ratio[:, -1]), _most(ratio), above))
    names = (*results.swept, "algorithm", "regret", "sharp", "repaired", "printed", "regret / bound", "closest", "crossed")
    note = (
        f"Cumulative network regret, {averaged(results)}. 'regret / bound' compares with the smaller of the sharp and the repaired bound at the last "
        "horizon, 'closest' is its largest value over all seeds and horizons, and 'crossed' counts how often a run lay above: never, if the theorems hold."
    )
    return Table("Bounds against measurement", names, tuple(rows), note)


def rates_table(results: Results) -> Table:
    """The c of c/√(t − τ_min) that was chosen for every algorithm at every point, with what it was chosen from."""
    tried: dict[tuple[int, str], dict[float, list[float]]] = {}
    chosen: dict[tuple[int, str], float] = {}
    at: dict[int, tuple[Any, ...]] = {}
    for row in results.tuning.to_pylist():
        key = int(row["point"]), row["algorithm"]
        at[key[0]] = tuple(row[name] for name in results.swept)
        tried.setdefault(key, {}).setdefault(row["c"], []).append(row["regret"])
        if row["chosen"]:
            chosen[key] = row["c"]
    order = {label: i for i, label in enumerate(labels(results))}
    rows = []
    for point, label in sorted(tried, key=lambda key: (key[0], order.get(key[1], len(order)), key[1])):
        grid, c = sorted(tried[point, label]), chosen.get((point, label))
        seeds = tried[point, label].get(c, []) if c is not None else []
        regret = float(np.mean(seeds)) if seeds else None
        rows.append((*at[point], label, c, regret, len(seeds), len(grid), grid[0], grid[-1], c in (grid[0], grid[-1])))
    columns = (*results.swept, "algorithm", "c", "regret", "seeds", "tried", "from", "to", "at edge")
    own = "rounds" in results.swept and results.spec.tuning.rounds is None
    when = "the end of each point's tuning rounds" if own else f"T = {results.spec.tuning_rounds:,}"
    whose = "mean over the tuning seeds, which are" if len(results.spec.tuning_seeds) > 1 else "on one tuning seed, which is"
    note = f"Cumulative network regret at {when}, {whose} none of those reported."
    return Table("How c was chosen", columns, tuple(rows), note)


def traffic_table(results: Results) -> Table:
    """Messages a round and delays of every algorithm, at every point where they differ."""
    names = ("delay_mean", "delay_weighted", "delay_max", "queries", "replies_aggregated", "replies_single", "messages", "busiest_link")
    found = {name: runs(results, name) for name in names}
    at = places(results)
    rows = {key: tuple(_known(column[key].values[:, -1]) for column in found.values()) for key in found["messages"]}
    kinds = {label: {row for (_, other), row in rows.items() if other == label} for _, label in rows}
    told: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for (point, label), row in rows.items():
        if any(value is not None for value in row):
            alike = len(kinds[label]) == 1
            place = (None,) * len(results.swept) if alike else tuple(at[point].values())
            told.setdefault((label,) if alike else (label, point), (*place, label, *row))
    lead = results.swept if any(len(kind) > 1 for kind in kinds.values()) else ()
    kept = tuple(row[len(results.swept) - len(lead) :] for row in told.values())
    columns = (*lead, "algorithm", "mean delay", "by interest", "longest", "queries", "replies, joined", "replies, single", "messages", "busiest link")
    note = (
        "Delays are round trips in rounds, over all pairs of an agent and a partner, and weighted by interest; messages are those that cross a link in one "
        "round; replies are joined where trees meet, or go back one by one; the busiest link is the one that most queries cross. "
        f"{averaged(results).capitalize()}{'; a row that names no point holds at all of them' if lead else ''}."
    )
    return Table("Messages a round and delays", columns, kept, note)


def compare(first: Results | str | os.PathLike[str], second: Results | str | os.PathLike[str]) -> Table:
    """Two sweeps, run by run: paired by swept keys, algorithm and seed, at the last horizon that both recorded."""
    one, other = (given if isinstance(given, Results) else open_results(given) for given in (first, second))
    if set(one.swept) != set(other.swept):
        raise ResultsError(
            f"{one.folder} sweeps {', '.join(one.swept) or 'nothing'} and {other.folder} {', '.join(other.swept) or 'nothing'}: "
            "their runs cannot be paired."
        )
    mine, theirs = _by_place(one, one.swept), _by_place(other, one.swept)
    same = {key: max(_same(given, dict(zip(one.swept, key[0], strict=True))) for given in (one, other)) for key in mine}
    pairs = [(key, *_paired(mine[key], theirs[key], same[key])) for key in mine if key in theirs]
    rows = [(*key[0], key[1], *row) for key, row, _ in pairs if row]
    if not rows:
        raise ResultsError(f"{one.folder} and {other.folder} share no run: no algorithm at the same point, on the same seed, at the same horizon.")
    dtypes = " and ".join(name for name, size in _SAME.items() if size in same.values())
    alone = sum(run["regret"].values.shape[0] for runs_ in (mine, theirs) for run in runs_.values()) - 2 * sum(count for *_, count in pairs)
    columns = (*one.swept, "algorithm", "T", "seeds", "first", "second", "difference", "low", "high", "ratio", "outcome")
    over = "means over the seeds that both have" if max(row[1] for _, row, _ in pairs if row) > 1 else "on the one seed that both have"
    spread = "with its paired 95% interval" if over.startswith("means") else "without an interval"
    note = (
        f"Regret per round, {over}; the difference (second - first) {spread}. Same bytes: regret, loss and comparator agree bit for bit at every common "
        f"horizon; same numbers: to {' or '.join(f'{size:g}' for size in sorted(set(same.values())))} of their size, as {dtypes} allows. "
        f"{alone:,} runs have no partner and are left out."
    )
    return Table(f"{one.folder} against {other.folder}", columns, tuple(rows), note)


def _same(results: Results, place: Mapping[str, Any]) -> float:
    """By how much runs of one dtype may differ and still tell the same."""
    return _SAME[place.get("dtype", results.spec.dtype)]


def _several(results: Results) -> bool:
    return len(results.spec.seed_list) > 1


def _left_out(results: Results) -> str:
    return _LEFT_OUT if _several(results) else "one seed, no intervals"


def _by_place(results: Results, swept: Sequence[str]) -> dict[tuple[tuple[Any, ...], str], dict[str, Runs]]:
    at, columns = places(results), {name: runs(results, name) for name in _COMPARED}
    return {
        (tuple(at[point][name] for name in swept), label): {name: found[point, label] for name, found in columns.items()}
        for point, label in columns["regret"]
    }


def _paired(first: dict[str, Runs], second: dict[str, Runs], same: float) -> tuple[tuple[Any, ...], int]:
    """A row of `compare` and how many seeds it pairs; no row where there is no common seed or horizon."""
    seeds, a, b = np.intersect1d(first["regret"].seeds, second["regret"].seeds, return_indices=True)
    horizons, at, there = np.intersect1d(first["regret"].horizons, second["regret"].horizons, return_indices=True)
    if not len(seeds) or not len(horizons):
        return (), 0
    both = [(first[name].values[np.ix_(a, at)], second[name].values[np.ix_(b, there)]) for name in _COMPARED]
    if all(x.tobytes() == y.tobytes() for x, y in both):
        outcome = "same bytes"
    else:
        outcome = "same numbers" if all(np.allclose(x, y, rtol=same, atol=0, equal_nan=True) for x, y in both) else "differs"
    mine, theirs = (regret[:, -1] / horizons[-1] for regret in both[0])
    with np.errstate(invalid="ignore", divide="ignore"):
        known, means = interval(theirs - mine), (float(mine.mean()), float(theirs.mean()))
        ratio = float(np.float64(means[1]) / means[0])
    return (int(horizons[-1]), len(seeds), *means, *known, ratio, outcome), len(seeds)


def _chosen(run: Runs, horizons: Sequence[int] | None) -> list[int]:
    if horizons is None:
        return [len(run.horizons) - 1]
    return [place for place in (_nearest(run, wanted) for wanted in horizons) if place is not None]


def _nearest(run: Runs, wanted: int) -> int | None:
    place = int(np.abs(run.horizons - wanted).argmin())
    return place if abs(run.horizons[place] - wanted) <= _NEAR * wanted else None


def _exponent(run: Runs, late: np.ndarray) -> Interval:
    logs = np.log(run.horizons[late])
    weights = (logs - logs.mean()) / ((logs - logs.mean()) ** 2).sum()
    return jackknife(lambda seeds: float(weights @ np.log(seeds.mean(0))), run.values[:, late])


def _mean(values: np.ndarray) -> float | None:
    return None if np.isnan(values).all() else float(np.nanmean(values))


def _most(values: np.ndarray) -> float | None:
    return None if np.isnan(values).all() else float(np.nanmax(values))


def _known(values: np.ndarray) -> float | None:
    return None if np.isnan(values).any() else float(values.mean())
