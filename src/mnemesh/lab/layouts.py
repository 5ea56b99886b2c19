"""Where agents stand in a picture of their network: by its shape where it has a plain one, never by chance."""

from __future__ import annotations

import math

import numpy as np

from mnemesh.types import Graph

__all__ = ["Places", "apart", "positions", "scattered"]

Places = dict[int, tuple[float, float]]
_LARGE = 100  # above, agents stand in circles by their distance from the root
_STRAIGHT = 20  # agents that a line shows in one row


def positions(graph: Graph, root: int = 0) -> Places:
    """Where each agent stands: its "pos"; a ring, a line, a star as such; or else a layout by distances along the links."""
    import networkx

    placed = networkx.get_node_attributes(graph, "pos")
    if len(placed) == graph.number_of_nodes():
        return {node: (float(x), float(y)) for node, (x, y) in placed.items()}
    shape = _shape(graph)
    if shape == "ring":
        return _circle(_walk(graph, min(graph)))
    if shape == "line":
        return _rows(_walk(graph, min(node for node in graph if graph.degree(node) < 2)))
    if shape == "star":
        hub = max(graph, key=graph.degree)
        return {hub: (0.0, 0.0), **_circle(sorted(set(graph) - {hub}))}
    if graph.number_of_nodes() <= _LARGE:
        return {node: (float(x), float(y)) for node, (x, y) in networkx.kamada_kawai_layout(graph).items()}
    return _around(graph, root)


def scattered(graph: Graph) -> bool:
    """Whether agents may stand so close that they hide each other: not where the layout keeps them apart by itself."""
    return graph.number_of_nodes() <= _LARGE and _shape(graph) == ""


def _shape(graph: Graph) -> str:
    agents, links = graph.number_of_nodes(), graph.number_of_edges()
    degrees = sorted(degree for _, degree in graph.degree)
    if links == agents - 1 and degrees[-1] <= 2:
        return "line"
    if agents > 4 and links == agents - 1 == degrees[-1]:
        return "star"
    return "ring" if agents > 2 and degrees[0] == degrees[-1] == 2 else ""


def _walk(graph: Graph, start: int) -> list[int]:
    """The agents of a ring or a line in the order of their links."""
    order, seen = [start], {start}
    while ahead := [node for node in graph[order[-1]] if node not in seen]:
        order.append(min(ahead))
        seen.add(order[-1])
    return order


def _circle(order: list[int]) -> Places:
    """From the top, clockwise."""
    angles = 2 * np.pi * np.arange(len(order)) / len(order)
    return {node: (float(np.sin(angle)), float(np.cos(angle))) for node, angle in zip(order, angles)}


def _rows(order: list[int]) -> Places:
    """A line, folded where it is long: one row to the right, the next one back."""
    long = len(order) if len(order) <= _STRAIGHT else math.ceil(math.sqrt(2 * len(order)))
    return {
        node: (float(place % long if place // long % 2 == 0 else long - 1 - place % long), -2.0 * (place // long)) for place, node in enumerate(order)
    }


def _around(graph: Graph, root: int) -> Places:
    """Circles about the root by the number of links to it; whoever is reached through an agent stands in that agent's sector."""
    import networkx

    hops = networkx.single_source_shortest_path_length(graph, root)
    order = sorted(hops, key=lambda node: (hops[node], node))
    parent = {node: min(near for near in graph[node] if hops[near] == hops[node] - 1) for node in order[1:]}
    ends = dict.fromkeys(order, 0)  # of branches, beyond each agent
    for node in reversed(order):
        ends[node] = max(ends[node], 1)
        if node != root:
            ends[parent[node]] += ends[node]
    taken, sector = {root: 0.0}, {root: 0.0}
    at = {root: (0.0, 0.0)}
    for node in order[1:]:
        sector[node] = taken[node] = taken[parent[node]]
        share = 2 * np.pi * ends[node] / ends[root]
        taken[parent[node]] += share
        angle = sector[node] + share / 2
        at[node] = (float(hops[node] * np.cos(angle)), float(hops[node] * np.sin(angle)))
    return at


def apart(at: Places, share: float) -> Places:
    """The same places within a square of width 1, with agents closer than `share` moved apart; 0 moves nobody."""
    places = np.array(list(at.values()))
    places = (places - places.min(0)) / max(float(np.ptp(places, axis=0).max()), 1e-12)
    for _ in range(200 if share else 0):
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
