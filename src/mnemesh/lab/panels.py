"""What a figure shows: results cut into panels, each with one curve per algorithm, and how a panel is drawn on given axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from mnemesh.errors import require
from mnemesh.lab.gather import Curve, joined, labels, places, runs
from mnemesh.lab.looks import Style, axis_name, literal, place_name
from mnemesh.lab.record import Results
from mnemesh.lab.tables import shown

__all__ = ["ONE_SEED", "Panel", "Plan", "category", "dots", "draw_panel", "name_axes", "panel_title", "plan"]

ONE_SEED = "One seed: no intervals."
_CUT = 10.0  # a logarithmic axis reaches down to a tenth of a mean; an interval that goes on below runs off it


@final
@dataclass(frozen=True)
class Panel:
    """The curves of all algorithms at fixed values of the swept keys that x is not."""

    place: dict[str, Any]
    curves: dict[str, Curve]


@final
@dataclass(frozen=True)
class Plan:
    """Panels with their common axes; `notes` say what they cannot show."""

    x: str
    across: str  # what x is called on the axis
    ordered: bool  # x is a number, not a word
    columns: int  # panels that stand side by side, 0 to leave it to the figure
    last: int  # T, or 0 where points end at different ones
    log: tuple[str, ...]
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)  # how categories of several keys are called on the axis


def plan(results: Results) -> Plan:
    """Regret per round against T or a swept key, as the spec says or as is plain from what is swept."""
    x, at, found = _abscissa(results), places(results), runs(results)
    own = next((axis.keys() for axis in results.spec.sweep if x in axis.keys()), ())  # noqa: SIM118
    groups: dict[tuple[Any, ...], list[int]] = {}
    for point, place in at.items():
        groups.setdefault(tuple(value for key, value in place.items() if x == "rounds" or key not in own), []).append(point)
    kept = [key for key in results.swept if x == "rounds" or key not in own]
    own = (x,) if x != "rounds" and _apart(at, groups, x) else own
    ordered = x == "rounds" or (len(own) == 1 and _number(results, x))
    panels = []
    for values, points in groups.items():
        marks = {point: at[point][x] if ordered else category(at[point], own) for point in points} if x != "rounds" else {}
        told = sorted(points, key=lambda point: marks[point]) if marks and ordered else points
        curves = {}
        for label in labels(results):
            taken = [found[point, label] for point in told if (point, label) in found]
            if x == "rounds":
                curves[label] = joined(taken[0].horizons.tolist(), list(taken[0].values.T)) if taken else joined([], [])
            else:
                curves[label] = joined([marks[p] for p in told if (p, label) in found], [run.values[:, -1] for run in taken])
        panels.append(Panel(dict(zip(kept, values, strict=True)), curves))
    log = _logarithmic(results, x, ordered, panels)
    across = axis_name(x) if ordered or len(own) == 1 else ""
    names = {} if ordered or len(own) == 1 else {category(place, own): place_name({key: place[key] for key in own}) for place in at.values()}
    ends = {int(run.horizons[-1]) for run in found.values()}
    last = ends.pop() if len(ends) == 1 else 0
    return Plan(x, across, ordered, _columns(results, x), last, log, tuple(panels), _notes(results, panels, log), names)


def _columns(results: Results, x: str) -> int:
    """Two axes of a few values beside x make a grid of panels."""
    others = [len(axis) for axis in results.spec.sweep if x not in axis.keys()]  # noqa: SIM118
    return others[1] if len(others) == 2 and others[1] <= 4 else 0


def _abscissa(results: Results) -> str:
    """x: what the spec says, or the first swept key of numbers, or the first swept key, or T."""
    if results.spec.figure.x:
        return str(results.spec.figure.x)
    numbers = [key for key in results.swept if _number(results, key)]
    return (numbers or [*results.swept, "rounds"])[0]


def _number(results: Results, key: str) -> bool:
    return str(results.results.schema.field(key).type) in ("double", "int64")


def _apart(at: dict[int, dict[str, Any]], groups: dict[tuple[Any, ...], list[int]], x: str) -> bool:
    """Whether x alone tells the points of each panel apart, and not only together with the keys that move with it."""
    return all(len({at[point][x] for point in points}) == len(points) for points in groups.values())


def category(place: dict[str, Any], own: tuple[str, ...]) -> str:
    """The values of these swept keys, as a row is called."""
    return shown(place[own[0]]) if len(own) == 1 else ", ".join(f"{key} = {shown(place[key])}" for key in own)


def _logarithmic(results: Results, x: str, ordered: bool, panels: list[Panel]) -> tuple[str, ...]:
    """The axes that are logarithmic: as the spec says where the data allow it, or else where they are positive and span over a decade."""
    asked = results.spec.figure.log
    regret = np.concatenate([curve.mean for panel in panels for curve in panel.curves.values()])
    regret = regret[np.isfinite(regret)]
    along = np.array([value for panel in panels for curve in panel.curves.values() for value in curve.x], dtype=float) if ordered else np.array([])
    kept = []
    for name, values in (("x", along), ("y", regret)):
        positive = values[values > 0]
        wide = len(positive) == len(values) > 0 and values.max() > 10 * values.min()
        if len(positive) and (wide if asked is None else name in asked) and not (name == "x" and len(positive) < len(values)):
            kept.append(name)
    return tuple(kept)


def _notes(results: Results, panels: list[Panel], log: tuple[str, ...]) -> tuple[str, ...]:
    """What is missing from the figure, in words."""
    notes = []
    found = [(panel, label, curve) for panel in panels for label, curve in panel.curves.items()]
    diverged = list(dict.fromkeys(label for _, label, curve in found if curve.diverged.any()))
    if diverged:
        most = max(int(curve.diverged.max()) for _, _, curve in found)
        notes.append(f"Not drawn: {', '.join(diverged)} where a run diverged (in up to {most} of {max(c.seeds for *_, c in found)} seeds).")
    if "y" in log:
        below = list(dict.fromkeys(label for _, label, curve in found if (curve.mean <= 0).any()))
        if below:
            notes.append(f"Not drawn: {', '.join(below)} where mean regret is zero or negative, for which a logarithmic axis has no place.")
        leaving = list(dict.fromkeys(label for _, label, curve in found if ((curve.mean > 0) & (curve.low < curve.mean / _CUT)).any()))
        if leaving:
            notes.append(f"An interval of {', '.join(leaving)} that runs off the axis ends at less than a tenth of its mean, or at zero or below.")
    elif "y" in (results.spec.figure.log or ()):
        notes.append("Regret is positive nowhere, for which a logarithmic axis has no place.")
    if found and all(curve.seeds <= 1 for *_, curve in found):
        notes.append(ONE_SEED)
    return tuple(notes)


def draw_panel(axes: Any, plan: Plan, panel: Panel, looks: dict[str, Style]) -> None:
    """One panel on these axes, without a legend."""
    if plan.ordered:
        _lines(axes, plan, panel, looks)
    else:
        dots(axes, panel.curves, looks, log="y" in plan.log, names=plan.names)
    seen = [curve.mean[np.isfinite(curve.mean)] for curve in panel.curves.values()]
    if not any(map(len, seen)):
        (axes.yaxis if plan.ordered else axes.xaxis).set_ticks([])
    elif any((mean <= 0).any() for mean in seen) and "y" not in plan.log:
        (axes.axhline if plan.ordered else axes.axvline)(0, color="#888888", linewidth=0.7, zorder=0.6)
    axes.grid(True, color="#e4e4e4", linewidth=0.5, axis="both" if plan.ordered else "x")


def _lines(axes: Any, plan: Plan, panel: Panel, looks: dict[str, Style]) -> None:
    for name in plan.log:
        getattr(axes, f"set_{name}scale")("log")
    bars = plan.x != "rounds" and max(len(curve.x) for curve in panel.curves.values()) <= 12
    for place, (label, curve) in enumerate(panel.curves.items()):
        style, (x, mean, low, high) = looks[label], _drawable(curve, "y" in plan.log)
        aside = _aside(axes, 2.2 * (place - (len(panel.curves) - 1) / 2)) if bars else axes.transData
        axes.plot(
            x, mean, color=style.colour, linestyle=style.line, marker=style.marker, markevery=max(1, len(x) // 8), linewidth=1.3, markersize=4,
            markeredgecolor="white", markeredgewidth=0.5, label=label, transform=aside,
        )  # fmt: skip
        axes.update_datalim(np.column_stack([x, mean]))
        if not np.isfinite(low).any():
            continue
        with _spanning(axes, np.column_stack([np.tile(x, 2), np.concatenate(_shown_ends(mean, low, high, "y" in plan.log))])):
            if bars:
                arms = _arms(mean, low, high)
                axes.errorbar(x, mean, yerr=arms, fmt="none", ecolor=style.colour, elinewidth=0.8, capsize=2, capthick=0.8, zorder=1.9, transform=aside)
            else:
                axes.fill_between(x, low, high, color=style.colour, alpha=0.16, linewidth=0)
    axes.autoscale_view()


@contextmanager
def _spanning(axes: Any, shown: np.ndarray) -> Iterator[None]:
    """Whatever is drawn here, the axes are to show these points of it."""
    before = axes.dataLim.frozen()
    yield
    axes.dataLim.set(before)
    axes.update_datalim(shown[np.isfinite(shown).all(1)])


def _aside(axes: Any, points: float) -> Any:
    """The axes' own places, moved sideways a little, so that intervals at the same x stand side by side."""
    moved = require("matplotlib.transforms", "figures").ScaledTranslation(points / 72, 0, axes.figure.dpi_scale_trans)
    return axes.transData + moved


def dots(axes: Any, curves: dict[str, Curve], looks: dict[str, Style], *, log: bool, names: Mapping[str, str] | None = None) -> None:
    """One row per category from the top down, algorithms one below the other within it; the quantity runs to the right. `names` are for show."""
    categories = list(dict.fromkeys(value for curve in curves.values() for value in curve.x))
    if log:
        axes.set_xscale("log")
    for row in range(0, len(categories), 2):
        axes.axhspan(row - 0.5, row + 0.5, color="#f5f5f5", linewidth=0, zorder=0)
    count = len(curves)
    for i, (label, curve) in enumerate(curves.items()):
        style, (x, mean, low, high) = looks[label], _drawable(curve, log)
        y = np.array([categories.index(value) for value in x]) + (i - (count - 1) / 2) * min(0.22, 0.8 / count)
        axes.plot(
            mean, y, color=style.colour, marker=style.marker, linestyle="none", markersize=4.5, markeredgecolor="white", markeredgewidth=0.5, label=label,
        )  # fmt: skip
        if np.isfinite(low).any():
            with _spanning(axes, np.column_stack([np.concatenate(_shown_ends(mean, low, high, log)), np.tile(y, 2)])):
                axes.errorbar(mean, y, xerr=_arms(mean, low, high), fmt="none", ecolor=style.colour, elinewidth=0.9, capsize=2, capthick=0.9, zorder=1.9)
    axes.set_yticks(range(len(categories)), [(names or {}).get(value, literal(str(value), 30)) for value in categories])
    axes.set_ylim(len(categories) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def _drawable(curve: Curve, log: bool) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """x, mean, low, high of what can be shown."""
    seen = np.isfinite(curve.mean) & ((curve.mean > 0) | (not log))
    x = [value for value, there in zip(curve.x, seen, strict=True) if there]
    return x, curve.mean[seen], curve.low[seen], curve.high[seen]


def _shown_ends(mean: np.ndarray, low: np.ndarray, high: np.ndarray, log: bool) -> tuple[np.ndarray, np.ndarray]:
    """The ends of intervals that the axes are to reach: on a logarithmic axis, none far below its mean."""
    return np.maximum(low, mean / _CUT) if log else low, high


def _arms(mean: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.nan_to_num(np.stack([mean - low, high - mean]))


def name_axes(axes: Any, plan: Plan, *, x: bool = True, y: bool = True) -> None:
    """What the axes show, in words and symbols."""
    regret = "regret per round " + (r"$\mathrm{Reg}(T)\,/\,T$" if plan.x == "rounds" else f"at $T$ = {plan.last:,}" if plan.last else "at the end")
    across, up = (plan.across, regret) if plan.ordered else (regret, plan.across)
    if x:
        axes.set_xlabel(across)
    if y:
        axes.set_ylabel(up)


def panel_title(panel: Panel) -> str:
    """The values that all of the panel has in common."""
    return place_name(panel.place) if panel.place else ""

