"""Figures of any results: one panel per place of the sweep, one line per algorithm, as PNG, SVG and PDF of the same bytes each time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mnemesh.errors import ResultsError, require
from mnemesh.lab.gather import Curve, averaged, joined, labels, places, runs
from mnemesh.lab.graphs import draw_graph
from mnemesh.lab.hindrances import why
from mnemesh.lab.looks import Style, calm, literal, log_places, place_name, set_ticks, styles
from mnemesh.lab.panels import Plan, category, dots, draw_panel, name_axes, panel_title, plan
from mnemesh.lab.record import Results
from mnemesh.lab.tables import shown as worded
from mnemesh.routing import Trees

__all__ = ["described", "draw", "figure", "figure1", "save", "save_as", "traffic_figure"]

_MOST = 36  # panels in one figure
_PAPER_ROUNDS = {"fig1b": 2500}  # where the paper's own axis ends
_FORMATS = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None, "Creator": None, "Producer": None}}


def draw(results: Results, folder: Path | None = None, shown: Plan | None = None) -> list[Path]:
    """The figures of these results, saved under the spec's name in `folder`, which is the results' own figures/ unless given.

    `shown` is `plan(results)`, here and below, for those who have it already.
    """
    place, name = folder or results.folder / "figures", results.spec.name
    traffic = traffic_figure(results)
    return save(figure(results, shown), place, name) + ([] if traffic is None else save(traffic, place, f"{name}-traffic"))


def save(drawn: Any, folder: Path, name: str) -> list[Path]:
    """A figure as PNG (200 dpi), SVG and PDF."""
    return [save_as(drawn, folder / f"{name}.{kind}") for kind in _FORMATS]


def save_as(drawn: Any, path: Path) -> Path:
    """A figure as the kind of file that its name asks for."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in _FORMATS:
        raise ResultsError(f"{str(path)!r}: a name that ends in {', '.join(f'.{each}' for each in _FORMATS)} is needed, or nobody knows what to draw.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with calm():
            drawn.savefig(path, format=kind, dpi=200, metadata=_FORMATS[kind])
    except OSError as refused:
        raise ResultsError(f"{str(path)!r} cannot be written ({why(path, refused)}): choose another place for it.") from refused
    return path


def figure(results: Results, shown: Plan | None = None) -> Any:
    """A matplotlib Figure: regret per round against T or a swept key, means over seeds with 95% intervals."""
    shown = shown or plan(results)
    panels, notes = shown.panels[:_MOST], list(shown.notes)
    if len(shown.panels) > _MOST:
        notes.append(f"The first {_MOST} of {len(shown.panels)} places of the sweep.")
    columns = shown.columns or {4: 2}.get(len(panels), min(len(panels), 3 if len(panels) < 10 else 4))
    rows = math.ceil(len(panels) / columns)
    looks = styles(results.spec.algorithms, labels(results))
    with calm():
        drawn = _canvas(shown, panels, rows, columns, len(looks))
        grid = drawn.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for place, axes in enumerate(grid.flat):
            if place >= len(panels):
                axes.remove()
                continue
            draw_panel(axes, shown, panels[place], looks)
            lowest = place + columns >= len(panels)
            name_axes(axes, shown, x=lowest, y=place % columns == 0)
            axes.tick_params(labelbottom=lowest)
            axes.set_title(panel_title(panels[place]), loc="left")
        marks = _mark(grid.flat[0], results)
        if notes:
            told = drawn.supxlabel("\n".join(literal(note, int(drawn.get_figwidth() * 19)) for note in notes), fontsize=7, color="#555555", x=0.01, ha="left")
            _make_room(drawn, told)
        _make_room(drawn, _legend(drawn, looks, marks, dots=not shown.ordered))
        drawn.draw_without_rendering()  # the layout
        _ticks(grid.flat[0], grid.flat[len(panels) - 1], shown)
    return drawn


def traffic_figure(results: Results) -> Any | None:
    """Regret beside delays and messages a round, where routing trees are compared; None where there are no two kinds of them."""
    quantities = {"regret per round at the end": "regret_per_round", "mean delay, rounds": "delay_mean", "messages a round": "messages"}
    found = {name: runs(results, column) for name, column in quantities.items()}
    routed = [label for label in labels(results) if any(np.isfinite(run.values).all() for (_, own), run in found["mean delay, rounds"].items() if own == label)]
    at = dict(list(places(results).items())[:_MOST])
    ways = {label: [found["mean delay, rounds"][point, label].values[:, -1].tolist() for point in at] for label in routed}
    if not any(way != ways[routed[0]] for way in ways.values()):
        return None
    looks = {label: style for label, style in styles(results.spec.algorithms, labels(results)).items() if label in routed}
    rows = [category(place, results.swept) if place else "" for place in at.values()]
    names = dict(zip(rows, map(place_name, at.values())))
    high = max(0.4, 0.16 * len(routed), *(0.15 + 0.135 * (1 + name.count("\n")) for name in names.values()))
    with calm():
        drawn = require("matplotlib.figure", "figures").Figure(figsize=(7.4, 0.6 + len(rows) * high), layout="constrained")
        grid = drawn.subplots(1, 3, sharey=True)
        for axes, (name, column) in zip(grid, quantities.items(), strict=True):
            own = found[name]
            curves = {label: joined(rows, [own[point, label].values[:, -1] for point in at]) for label in routed}
            means = np.concatenate([curve.mean for curve in curves.values()])
            dots(axes, curves, looks, log=bool(means.min() > 0 and means.max() > 10 * means.min() and np.isfinite(means).all()), names=names)
            axes.set_xlabel(name)
            if column == "messages" and axes.get_xscale() == "linear":
                axes.xaxis.set_major_locator(require("matplotlib.ticker", "figures").MaxNLocator(4, integer=True))
            axes.grid(True, axis="x", color="#e4e4e4", linewidth=0.5)
        _make_room(drawn, _legend(drawn, looks, [], dots=True))
        drawn.draw_without_rendering()
        for axes in grid:
            low, high = sorted(axes.get_xlim())
            set_ticks(axes.xaxis, log_places(low, high) if axes.get_xscale() == "log" else [], 6)
    return drawn


def figure1(graph: Any, trees: Trees, panels: Mapping[str, Results], root: int = 0) -> Any:
    """The paper's Figure 1 in one: (a) the graph with the routing tree of agent `root`, and panels "b", "c", "d"."""
    with calm():
        drawn = require("matplotlib.figure", "figures").Figure(figsize=(7.4, 6.6), layout="constrained")
        drawn.get_layout_engine().set(w_pad=0.08, h_pad=0.06, wspace=0.05, hspace=0.05)
        grid = dict(zip("abcd", drawn.subplots(2, 2).flat, strict=True))
        draw_graph(grid["a"], graph, trees, root, compact=True)
        grid["a"].set_title(f"(a) the network, and the tree of agent {root}", loc="left")
        looks: dict[str, Style] = {}
        marks: list[Any] = []
        plans = {letter: plan(results) for letter, results in panels.items()}
        for letter, results in panels.items():
            shown = plans[letter]
            own = styles(results.spec.algorithms, labels(results))
            looks |= own
            draw_panel(grid[letter], shown, shown.panels[0], own)
            name_axes(grid[letter], shown)
            marks += _mark(grid[letter], results)
            grid[letter].set_title(f"({letter}) {literal(_about(results, shown))}", loc="left")
        for letter in set("bcd") - set(panels):
            grid[letter].set_axis_off()
        _legend(drawn, looks, marks, below=True)
        drawn.draw_without_rendering()
        for letter, shown in plans.items():
            _ticks(grid[letter], grid[letter], shown)
    return drawn


def described(results: Results, shown: Plan | None = None) -> str:
    """The figure in words, for those who do not see it."""
    shown = shown or plan(results)
    ends = []
    for panel in shown.panels[:6]:
        at = ", ".join(f"{key} = {worded(value)}" for key, value in panel.place.items())
        told = [f"{label} {_course(curve)}" for label, curve in panel.curves.items() if len(curve.x)]
        ends.append(f"{at}: {'; '.join(told)}" if at else "; ".join(told))
    if len(shown.panels) > len(ends):
        ends.append(f"And {len(shown.panels) - len(ends)} panels more")
    across = "T" if shown.x == "rounds" else shown.x
    scale = {("x", "y"): " on logarithmic axes", ("x",): ", x logarithmic", ("y",): ", regret logarithmic"}.get(shown.log, "")
    return f"Regret per round against {across}{scale}, {averaged(results)}. {'. '.join(ends)}."


def _course(curve: Curve) -> str:
    """Where a curve begins and ends, in words."""
    first, last = (f"{mean:.3g}" if np.isfinite(mean) else "beyond all numbers" for mean in (curve.mean[0], curve.mean[-1]))
    if len(curve.x) == 1:
        return f"is {first} at {curve.x[0]}"
    return f"goes from {first} at {curve.x[0]} to {last} at {curve.x[-1]}"


def _canvas(shown: Plan, panels: tuple[Any, ...], rows: int, columns: int, algorithms: int) -> Any:
    """An empty figure of the size that its panels need, without legend and notes."""
    wide, high = (5.5, 3.3) if len(panels) == 1 else (2.7, 2.1)
    if not shown.ordered:
        categories = max(len({value for curve in panel.curves.values() for value in curve.x}) for panel in panels)
        lines = max((1 + name.count("\n") for name in shown.names.values()), default=1)
        high = 0.5 + categories * max(0.36, 0.16 * algorithms, 0.15 + 0.135 * lines)
    drawn = require("matplotlib.figure", "figures").Figure(figsize=(max(columns * wide, 3.6) + 0.3, rows * high + 0.3), layout="constrained")
    drawn.get_layout_engine().set(w_pad=0.06, h_pad=0.06, wspace=0.03, hspace=0.03)
    return drawn


def _make_room(drawn: Any, artist: Any) -> None:
    """A figure higher by what stands outside its panels."""
    drawn.set_figheight(drawn.get_figheight() + artist.get_window_extent().height / drawn.dpi + 0.08)


def _mark(axes: Any, results: Results) -> list[Any]:
    """A thin line where the paper's own axis ends, if this one goes on."""
    at = _PAPER_ROUNDS.get(results.spec.name)
    if at is None or results.spec.rounds <= at:
        return []
    return [axes.axvline(at, color="#888888", linewidth=0.8, zorder=0.5, label=f"$T$ = {at:,}, the paper's")]


def _legend(drawn: Any, looks: Mapping[str, Style], marks: list[Any], *, below: bool = False, dots: bool = False) -> Any:
    """Outside all panels, in as many columns as fit."""
    lines = require("matplotlib.lines", "figures")
    handles: list[Any] = [
        lines.Line2D(
            [], [], color=style.colour, linestyle="none" if dots else style.line, marker=style.marker, linewidth=1.3, markersize=4.5,
            markeredgecolor="white", markeredgewidth=0.5,
        )
        for style in looks.values()
    ]  # fmt: skip
    names = [literal(name, 36) for name in looks]
    names = [rf"$\_${name[1:]}" if name.startswith("_") else name for name in names]  # matplotlib leaves out what starts with an underscore
    handles, names = handles + marks, names + [mark.get_label() for mark in marks]
    for columns in range(min(len(handles), 6), 0, -1):
        legend = drawn.legend(
            handles, names, loc=f"outside {'lower' if below else 'upper'} center", ncols=columns, frameon=False, handlelength=1.2 if dots else 2.7,
            columnspacing=1.3, handletextpad=0.5, borderaxespad=0.2,
        )  # fmt: skip
        if columns == 1 or legend.get_window_extent().width <= drawn.bbox.width - 6:
            break
        legend.remove()
    return legend


def _ticks(first: Any, final: Any, shown: Plan) -> None:
    """Ticks of the axes that panels share, on a figure that has its layout, judged where their labels stand: at the first panel for y, at the last for x."""
    scales = {"x": final.xaxis, "y": first.yaxis} if shown.ordered else {"y": final.xaxis}
    for name, axis in scales.items():
        low, high = sorted(axis.get_view_interval())
        values = sorted({float(value) for panel in shown.panels for curve in panel.curves.values() for value in curve.x}) if name == "x" else []
        few = name == "x" and 0 < len(values) <= (1 if shown.x == "rounds" else 9)
        set_ticks(axis, ([values] if few else []) + (log_places(low, high) if name in shown.log else []), 9 if axis.axis_name == "x" else 7)


def _about(results: Results, shown: Plan) -> str:
    return {"rounds": "against the number of rounds", "stream.correlation": "against correlation", "interest.others": "against interest in others"}.get(
        shown.x, results.spec.title or results.spec.name
    )

