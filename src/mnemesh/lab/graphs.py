"""The network as a picture, one agent's routing tree drawn on it, and routing trees as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mnemesh.errors import RoutingError, require
from mnemesh.lab.looks import calm
from mnemesh.lab.tables import Table
from mnemesh.routing import Trees
from mnemesh.types import Graph

__all__ = ["draw_graph", "graph_figure", "positions", "routes_table"]

_SHADES = ("#fff3d6", "#fdd49e", "#fdaf6d", "#f07f4f", "#d14f3a", "#a02334", "#6a0f2f", "#3a0620")  # light to dark: delays read in grey, too
_LARGE = 100  # above, agents stand in circles by their distance from the root


def positions(graph: Graph, root: int = 0) -> dict[int, tuple[float, float]]:
    """Where each agent stands: its "pos", or else a layout that has no chance in it."""
    import networkx

    placed = networkx.get_node_attributes(graph, "pos")
    if len(placed) == graph.number_of_nodes():
        return {node: (float(x), float(y)) for node, (x, y) in placed.items()}
    if 2 < graph.number_of_nodes() <= _LARGE:
        return {node: (float(x), float(y)) for node, (x, y) in networkx.kamada_kawai_layout(graph).items()}
    rings: dict[int, list[int]] = {}
    for node, hops in sorted(networkx.single_source_shortest_path_length(graph, root).items()):
        rings.setdefault(hops, []).append(node)
    around = {node: (hops, 2 * np.pi * i / len(ring)) for hops, ring in rings.items() for i, node in enumerate(ring)}
    return {node: (float(hops * np.cos(angle)), float(hops * np.sin(angle))) for node, (hops, angle) in around.items()}


def _apart(at: dict[int, tuple[float, float]], share: float) -> dict[int, tuple[float, float]]:
    """The same places, with agents that would hide each other moved apart to `share` of the picture's width."""
    places = np.array(list(at.values()))
    places = (places - places.min(0)) / max(float(np.ptp(places, axis=0).max()), 1e-12)
    for _ in range(200 if len(at) <= _LARGE else 0):
        gaps = places[:, None] - places[None]
        far = np.linalg.norm(gaps, axis=-1)
        angle = np.add.outer(np.arange(len(at)), -np.arange(len(at)))  # agents in one spot part in a direction of their own
        gaps = np.where(far[..., None] > 1e-9, gaps, np.stack([np.cos(angle), np.sin(angle)], -1) * np.sign(angle)[..., None])
        push = np.where(far < share, share - far, 0.0) / 2
        np.fill_diagonal(push, 0.0)
        if not push.any():
            break
        places = places + (push[..., None] * gaps / np.maximum(np.linalg.norm(gaps, axis=-1), 1e-12)[..., None]).sum(1)
    return dict(zip(at, map(tuple, places.tolist()), strict=True))


def graph_figure(graph: Graph, trees: Trees, root: int = 0) -> Any:
    """A matplotlib Figure of the network with the routing tree of agent `root`."""
    with calm():
        wide, high = np.ptp(np.array(list(positions(graph, root).values())), axis=0) + 1e-9
        ratio = min(max(float(wide / high), 0.5), 2.0)
        drawn = require("matplotlib.figure", "figures").Figure(figsize=(4.0 * max(ratio, 0.8) + 1.5, 4.2), layout="constrained")
        axes = drawn.subplots()
        draw_graph(axes, graph, trees, root)
    return drawn


def draw_graph(axes: Any, graph: Graph, trees: Trees, root: int = 0, *, compact: bool = False) -> None:
    """The links, the tree 𝒯_root along them, and every agent shaded by the delay τ at which the root hears of it."""
    if not 0 <= root < trees.agents:
        raise RoutingError(f"there is no agent {root} among 0..{trees.agents - 1}: no tree is rooted there.")
    at = _apart(positions(graph, root), 0.085 if compact else 0.07)
    first, past = trees.tree_starts[root], trees.tree_starts[root + 1]
    below = [(int(n), int(p)) for n, p in zip(trees.tree_nodes[first:past], trees.tree_parents[first:past]) if p >= 0]
    partners, delays = (part[trees.starts[root] : trees.starts[root + 1]].tolist() for part in (trees.partners, trees.delays))
    lines = require("matplotlib.collections", "figures").LineCollection
    used = {frozenset(link) for link in below}
    others = [[at[a], at[b]] for a, b in graph.edges if frozenset((a, b)) not in used]
    axes.add_collection(lines(others, colors="#c4c4c4", linewidths=0.8, zorder=1))
    axes.add_collection(lines([[at[n], at[p]] for n, p in below], colors="#0072b2", linewidths=2.2, zorder=2))
    _agents(axes, at, root, dict(zip(partners, delays, strict=True)), {node for link in below for node in link}, compact)
    axes.set_aspect("equal")
    axes.margins(0.06)
    axes.set_axis_off()


def _agents(axes: Any, at: dict[int, tuple[float, float]], root: int, delay: dict[int, int], touched: set[int], compact: bool) -> None:
    size, small = (150.0, 6.5) if compact else (230.0, 8.0)
    size, small = (size, small) if len(at) <= 40 else (max(8.0, 40 * size / len(at)), 0.0)
    levels = sorted({value for node, value in delay.items() if node != root})
    shade = {value: _SHADES[round(i * (len(_SHADES) - 1) / max(len(levels) - 1, 1))] for i, value in enumerate(levels)}
    groups: dict[tuple[str, str, str], list[int]] = {}
    for node in at:
        if node == root:
            kind = ("#0072b2", "s", f"agent {root}, the root")
        elif node in delay:
            kind = (shade[delay[node]], "o", rf"$\tau$ = {delay[node]}")
        else:
            kind = ("white", "D" if node in touched else "o", "only relays" if node in touched else "no partner")
        groups.setdefault(kind, []).append(node)
    handles = []
    for (fill, marker, words), nodes in sorted(groups.items(), key=lambda group: _rank(group[0][2])):
        x, y = np.array([at[node] for node in nodes]).T
        scale = 1.15 if marker == "s" else 0.8 if marker == "D" else 1.0
        axes.scatter(x, y, s=size * scale, c=fill, marker=marker, edgecolors="#333333", linewidths=0.8, zorder=3)
        handles.append((fill, marker, words))
        for node in nodes if small else []:
            dark = sum(int(fill[i : i + 2], 16) for i in (1, 3, 5)) < 380 if fill.startswith("#") else False
            axes.text(*at[node], str(node), ha="center", va="center_baseline", fontsize=small, color="white" if dark else "#111111", zorder=4)
    _key(axes, handles, compact)


def _rank(words: str) -> tuple[int, int]:
    """The order of the legend: the root, then by delay, then the rest."""
    return (0, 0) if "root" in words else (1, int(words.split("=")[1])) if "=" in words else (2, 0)


def _key(axes: Any, handles: list[tuple[str, str, str]], compact: bool) -> None:
    """The legend: at the right, or below where the picture is one of several."""
    lines = require("matplotlib.lines", "figures")
    marks = [lines.Line2D([], [], color=f, marker=m, linestyle="none", markersize=7, markeredgecolor="#333333", markeredgewidth=0.8) for f, m, _ in handles]
    marks += [lines.Line2D([], [], color="#0072b2", linewidth=2.2), lines.Line2D([], [], color="#c4c4c4", linewidth=0.8)]
    words = [words for *_, words in handles] + ["the tree", "other links"]
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
