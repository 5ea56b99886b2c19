"""What the paper's Figure 1 claims, as numbers with thresholds: each is measured, and holds or fails."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from mnemesh.lab.gather import places, runs
from mnemesh.lab.intervals import Interval, jackknife
from mnemesh.lab.record import Results
from mnemesh.lab.summary import slope
from mnemesh.lab.tables import Table

__all__ = ["Finding", "findings", "findings_note", "findings_table"]

_RELATIONS: dict[str, Callable[[float, float], bool]] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_METHODS = ("ogd", "dam_togd", "c_dogd")
_OGD, _DAM, _CONSENSUS = range(3)


@final
@dataclass(frozen=True)
class Finding:
    """A claim with its criterion `measured relation threshold`; low and high are the ends of the 95% interval over seeds."""

    panel: str
    claim: str
    measured: float | None
    low: float | None
    high: float | None
    relation: str
    threshold: float

    @property
    def verdict(self) -> str:
        """Whether the criterion "holds" or "fails", or was "not measured"."""
        if self.measured is None or np.isnan(self.measured):
            return "not measured"
        return "holds" if _RELATIONS[self.relation](self.measured, self.threshold) else "fails"


def findings(results: Iterable[Results]) -> tuple[Finding, ...]:
    """The claims about panels (b), (c) and (d), for those results whose spec is called fig1b, fig1c or fig1d."""
    panels = {"fig1b": _against_rounds, "fig1c": _against_correlation, "fig1d": _against_interest}
    return tuple(finding for found in results if found.spec.name in panels for finding in panels[found.spec.name](found))


def findings_table(found: Sequence[Finding]) -> Table:
    """The claims with what was measured."""
    columns = ("figure", "claim", "measured", "low", "high", "criterion", "verdict")
    rows = tuple((f"1({f.panel})", f.claim, f.measured, f.low, f.high, f"{f.relation} {f.threshold:g}", f.verdict) for f in found)
    return Table("The paper's findings", columns, rows, findings_note(found))


def findings_note(found: Sequence[Finding]) -> str:
    """Over what seeds these were measured."""
    if found and all(finding.low is None or np.isnan(finding.low) for finding in found):
        return "Regret per round, without intervals: one seed says nothing about the spread."
    return "Regret per round, means over the seeds; 95% intervals from leaving out each seed in turn."


def _against_rounds(results: Results) -> list[Finding]:
    called, found = _called(results), runs(results)
    point = min(places(results))

    def falls(method: int, words: str, low: int, high: int, relation: str, threshold: float) -> Finding:
        run = found.get((point, called[method] or ""))
        claim = f"{called[method] or _METHODS[method]} {words}: slope of log regret per round on log T from T = {low:,} to {high:,}"
        return _finding("b", claim, None if run is None else slope(run, low, high), relation, threshold)

    return [
        falls(_OGD, "falls with T", 1250, 2500, "<", -0.5),
        falls(_DAM, "falls with T", 1250, 2500, "<", -0.5),
        falls(_CONSENSUS, "flattens", 1250, 2500, ">", -0.35),
        falls(_CONSENSUS, "stays flat", 2500, 5000, ">", -0.2),
    ]


def _against_correlation(results: Results) -> list[Finding]:
    ogd, dam, consensus = (label or method for label, method in zip(_called(results), _METHODS, strict=True))
    x, samples = _panel(results, "stream.correlation")
    ends = samples is not None and x[0] == 0 and x[-1] == 1
    taken = samples if ends else None

    def against_consensus(method: int) -> Callable[[np.ndarray], float]:
        return lambda means: float(means[method].max() / means[_CONSENSUS, 0])

    return [
        _measured("c", f"all three are alike at ρ = 1: largest less smallest mean, over {consensus}'s range over ρ", taken, _apart, "<=", 0.1, least=0.0),
        _measured("c", f"{consensus} grows as ρ falls: its regret at ρ = 0 over that at ρ = 1", taken, _growth, ">=", 10.0),
        _measured("c", f"{ogd} stays low: its largest regret over ρ, over {consensus}'s at ρ = 0", taken, against_consensus(_OGD), "<", 0.25),
        _measured("c", f"{dam} stays low: its largest regret over ρ, over {consensus}'s at ρ = 0", taken, against_consensus(_DAM), "<", 0.25),
    ]


def _against_interest(results: Results) -> list[Finding]:
    ogd, dam, consensus = (label or method for label, method in zip(_called(results), _METHODS, strict=True))
    _, samples = _panel(results, "interest.others")

    def moves(method: int) -> Callable[[np.ndarray], float]:
        return lambda means: float(np.ptp(means[method]) / np.ptp(means[_CONSENSUS]))

    claim = f"is hardly moved by y₀: its range over y₀, over {consensus}'s range"
    return [
        _measured("d", f"{ogd} {claim}", samples, moves(_OGD), "<", 0.05, least=0.0),
        _measured("d", f"{dam} {claim}", samples, moves(_DAM), "<", 0.05, least=0.0),
    ]


def _apart(means: np.ndarray) -> float:
    return float(np.ptp(means[:, -1]) / np.ptp(means[_CONSENSUS]))


def _growth(means: np.ndarray) -> float:
    return float(means[_CONSENSUS, 0] / means[_CONSENSUS, -1])


def _called(results: Results) -> tuple[str | None, ...]:
    """What the results call OGD, DAM-TOGD and C-DOGD; the first of several of one name."""
    return tuple(next((line.called for line in results.spec.algorithms if line.name == method), None) for method in _METHODS)


def _panel(results: Results, key: str) -> tuple[list[Any], np.ndarray | None]:
    """The swept values, ascending, and regret per round at the last horizon, (S, 3, P); None where a method or the sweep is missing."""
    called, found = _called(results), runs(results)
    if results.swept != (key,) or None in called:
        return [], None
    at = sorted((place[key], point) for point, place in places(results).items())
    if len(at) < 2 or any((point, label) not in found for _, point in at for label in called):
        return [], None
    wanted = [[found[point, label or ""] for _, point in at] for label in called]
    seeds = set.intersection(*(set(run.seeds.tolist()) for row in wanted for run in row))
    samples = [[run.values[np.isin(run.seeds, list(seeds)), -1] for run in row] for row in wanted]
    return [value for value, _ in at], np.moveaxis(np.array(samples), -1, 0) if seeds else None


def _measured(
    panel: str, claim: str, samples: np.ndarray | None, statistic: Callable[[np.ndarray], float], relation: str, threshold: float, *, least: float = -np.inf
) -> Finding:
    """A statistic of the means over the seeds; what cannot be less than `least` has no interval that is."""
    known = None if samples is None else jackknife(lambda seeds: statistic(seeds.mean(0)), samples)
    if known is not None:
        known = known._replace(low=float(np.maximum(known.low, least)))
    return _finding(panel, claim, known, relation, threshold)


def _finding(panel: str, claim: str, known: Interval | None, relation: str, threshold: float) -> Finding:
    mean, low, high = known or (None, None, None)
    return Finding(panel, claim, mean, low, high, relation, threshold)
