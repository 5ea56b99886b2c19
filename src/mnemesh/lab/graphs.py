"""The network as a picture, one agent's routing tree drawn on it, and routing trees as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from mnemesh.errors import RoutingError, require
from mnemesh.lab.layouts import Places, apart, positions, scattered
from mnemesh.lab.looks import calm
from mnemesh.lab.tables import Table
from mnemesh.routing import Trees
from mnemesh.types import Graph

__all__ = ["draw_graph", "graph_figure", "routes_table"]

_SHADES = ("#fff3d6", "#fdd49e", "#fdaf6d", "#f07f4f", "#d14f3a", "#a02334", "#6a0f2f", "#3a0620")  # light to dark: delays read in grey, too
_BLUE, _GREY = "#0072b2", "#c4c4c4"
_READABLE = 9.5  # points across, from which an agent has room for its number


class _Kind(NamedTuple):
    """How some agents look, and where the legend says so."""

    rank: int
    fill: str
    marker: str
    words: str


def graph_figure(graph: Graph, trees: Trees, root: int = 0) -> Any:
    """A matplotlib Figure of the network with the routing tree of agent `root`."""
    with calm():
        wide, high = np.ptp(np.array(list(positions(graph, root).values())), axis=0) + 1e-9
        ratio = min(max(float(wide / high), 0.8), 4.0)
        side = 4.2 * min(max(graph.number_of_nodes() / 40, 1.0), 2.5) ** 0.5
        wide = min(side * min(ratio, 2.0), 9.0)
        high = side if ratio <= 1 else max(wide / ratio, 3.2)  # the legend is as high
        drawn = require("matplotlib.figure", "figures").Figure(figsize=(wide + 1.4, high), layout="constrained")
        draw_graph(drawn.subplots(), graph, trees, root, inches=max(wide, side))
    return drawn


def draw_graph(axes: Any, graph: Graph, trees: Trees, root: int = 0, *, compact: bool = False, inches: float = 2.8) -> None:
    """The links, the tree 𝒯_root along them, and every agent shaded by the delay τ at which the root hears of it, in a picture that is about so large."""
    if not 0 <= root < trees.agents:
        raise RoutingError(f"there is no agent {root} among 0..{trees.agents - 1}: no tree is rooted there.")
    at = apart(positions(graph, root), min(0.085 if compact else 0.07, 0.55 / trees.agents**0.5) if scattered(graph) else 0.0)
    first, past = trees.tree_starts[root], trees.tree_starts[root + 1]
    below = [(int(n), int(p)) for n, p in zip(trees.tree_nodes[first:past], trees.tree_parents[first:past]) if p >= 0]
    partners, delays = (part[trees.starts[root] : trees.starts[root + 1]].tolist() for part in (trees.partners, trees.delays))
    lines = require("matplotlib.collections", "figures").LineCollection
    used = {frozenset(link) for link in below}
    others = [[at[a], at[b]] for a, b in graph.edges if frozenset((a, b)) not in used]
    axes.add_collection(lines(others, colors=_GREY, linewidths=0.8, zorder=1))
    across = min(12.2 if compact else 15.2, max(0.78 * 65 * inches * _gap(at), 4.2))
    axes.add_collection(lines([[at[n], at[p]] for n, p in below], colors=_BLUE, linewidths=min(2.2, across / 4), zorder=2))
    kinds = _kinds(at, root, dict(zip(partners, delays, strict=True)), {node for link in below for node in link})
    _agents(axes, at, kinds, across)
    if across < _READABLE:
        _name(axes, at, root)
    _key(axes, sorted(set(kinds.values())), compact)
    axes.set_aspect("equal")
    axes.margins(0.06)
    axes.set_axis_off()


def _gap(at: Places) -> float:
    """How far an agent is from the next one: a tenth of them are closer, and may hide each other a little."""
    places = np.array(list(at.values()))
    gaps = [np.partition(np.linalg.norm(places - place, axis=1), 1)[1] for place in places] if len(at) > 1 else [1.0]
    return float(np.quantile(gaps, 0.1))


def _kinds(at: Places, root: int, delay: dict[int, int], touched: set[int]) -> dict[int, _Kind]:
    """How each agent is shown. Many delays share shades, a stretch of them each."""
    levels = sorted({value for node, value in delay.items() if node != root})
    stretches = np.array_split(np.array(levels, dtype=int), min(len(levels), len(_SHADES))) if levels else []
    shade: dict[int, _Kind] = {}
    for i, stretch in enumerate(stretches):
        fill = _SHADES[round(i * (len(_SHADES) - 1) / max(len(stretches) - 1, 1))]
        words = rf"$\tau$ = {stretch[0]}" + (f" to {stretch[-1]}" if len(stretch) > 1 else "")
        shade |= {int(value): _Kind(1 + i, fill, "o", words) for value in stretch}
    rest = 1 + len(stretches)
    relay, none = _Kind(rest, "white", "D", "only relays"), _Kind(rest + 1, "white", "o", "no partner")
    kinds = {node: shade[delay[node]] if node in delay and node != root else relay if node in touched else none for node in at}
    return kinds | {root: _Kind(0, _BLUE, "s", f"agent {root}, the root")}


def _agents(axes: Any, at: Places, kinds: dict[int, _Kind], across: float) -> None:
    """Marks so many points across, with numbers in them where they can be read."""
    for kind in set(kinds.values()):
        nodes = [node for node in at if kinds[node] == kind]
        x, y = np.array([at[node] for node in nodes]).T
        size = max(1.15 * across**2, 50.0) if kind.marker == "s" else across**2 * (0.8 if kind.marker == "D" else 1.0)
        edge = min(0.8, across / 12)
        axes.scatter(x, y, s=size, c=kind.fill, marker=kind.marker, edgecolors="#333333", linewidths=edge, zorder=3.1 if kind.marker == "s" else 3)
        dark = kind.fill.startswith("#") and sum(int(kind.fill[i : i + 2], 16) for i in (1, 3, 5)) < 380
        for node in nodes if across >= _READABLE else []:
            letters = 0.53 * across * (0.85 if node > 99 else 1.0)
            axes.text(*at[node], str(node), ha="center", va="center_baseline", fontsize=letters, color="white" if dark else "#111111", zorder=4)


def _name(axes: Any, at: Places, root: int) -> None:
    """The root's number beside it, on the side away from the middle, where marks are too small to hold numbers."""
    away = np.array(at[root]) - np.mean(list(at.values()), axis=0)
    far = float(np.linalg.norm(away))
    x, y = 13 * away / far if far > 1e-6 else (0.0, 13.0)
    effects = require("matplotlib.patheffects", "figures")
    axes.annotate(
        str(root), at[root], (x, y), textcoords="offset points", ha="center", va="center", fontsize=9, fontweight="bold", color=_BLUE, zorder=5,
        path_effects=[effects.withStroke(linewidth=2.5, foreground="white")],
    )  # fmt: skip


def _key(axes: Any, kinds: list[_Kind], compact: bool) -> None:
    """The legend: at the right, or below where the picture is one of several."""
    lines = require("matplotlib.lines", "figures")
    marks = [
        lines.Line2D([], [], color=kind.fill, marker=kind.marker, linestyle="none", markersize=7, markeredgecolor="#333333", markeredgewidth=0.8) for kind in kinds
    ]
    marks += [lines.Line2D([], [], color=_BLUE, linewidth=2.2), lines.Line2D([], [], color=_GREY, linewidth=0.8)]
    words = [kind.words for kind in kinds] + ["the tree", "other links"]
    size = 7 if compact else 8
    where, place = (axes, {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "ncols": 3}) if compact else (axes.figure, {"loc": "outside right center"})
    where.legend(marks, words, frameon=False, fontsize=size, handlelength=1.4, labelspacing=0.5, **place)


def routes_table(trees: Trees | Mapping[str, Trees]) -> Table:
    """Delays, messages and load of one set of trees, or of several by name."""
    rows = []
    for name, given in ({trees.builder: trees} if isinstance(trees, Trees) else trees).items():
        messages, load = given.messages_per_round(), given.load()
        weighted = float((given.weights * given.delays).sum() / given.agents)
        rows.append((name, float(given.delays.mean()), weighted, int(given.delays.max()), *messages, len(load), max(load.values(), default=0)))
    columns = ("trees", "mean delay", "by interest", "longest", "queries", "replies, joined", "replies, single", "links used", "busiest link")
    note = (
        "Delays are round trips in rounds, over all pairs of an agent and a partner (itself, too, where it cares about its own data), and "
        "weighted by interest. Messages are those that cross a link in one round; the busiest link is the one that most queries cross."
    )
    return Table("Routing trees", columns, tuple(rows), note)
