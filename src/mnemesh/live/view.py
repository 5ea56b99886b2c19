"""What an agent knows of the network: everybody's link states, the graph that they make, and its own routing tree on it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, final

import numpy as np

from mnemesh.interest import Interest
from mnemesh.live.messages import Branch, LinkState
from mnemesh.types import Graph

__all__ = ["Router", "View", "configured", "fingerprint", "merged"]

View = Mapping[int, LinkState]


def configured(graph: Graph) -> dict[int, LinkState]:
    """The first view: every configured link is up."""
    return {n: LinkState(n, 0, 0, tuple(sorted(graph[n]))) for n in sorted(graph)}


def merged(view: View, states: Iterable[LinkState]) -> View:
    """The view with later link states in place of earlier ones; the same object if nothing is news."""
    news: dict[int, LinkState] = {}
    for state in states:
        known = news.get(state.agent, view.get(state.agent))
        if known is None or (state.incarnation, state.sequence) > (known.incarnation, known.sequence):
            news[state.agent] = state
    return {**view, **news} if news else view


def fingerprint(view: View) -> int:
    """64 bits that stand for a view."""
    told = repr(sorted((state.agent, state.incarnation, state.sequence, state.links) for state in view.values()))
    return int.from_bytes(hashlib.blake2b(told.encode(), digest_size=8).digest(), "little")


@final
class Router:
    """One agent's trees: `build(graph, interest)` is any tree builder, asked about this agent's partners that can be reached."""

    def __init__(self, agent: int, weights: Mapping[int, float], build: Callable[[Graph, Interest], Any]) -> None:
        self.agent, self.weights, self._build = agent, dict(weights), build
        self._known: tuple[int, tuple[Branch, frozenset[int]]] | None = None
        self._planned = lru_cache(maxsize=64)(self._plan)

    def branch(self, view: View, mark: int) -> tuple[Branch, frozenset[int]]:
        """The tree on this view, whose fingerprint is `mark`, and the partners that it does not reach."""
        if self._known is None or self._known[0] != mark:
            self._known = mark, self._planned(_up(view))
        return self._known[1]

    def _plan(self, links: frozenset[tuple[int, int]]) -> tuple[Branch, frozenset[int]]:
        import networkx

        graph = networkx.Graph(sorted(links))
        graph.add_node(self.agent)
        here = sorted(networkx.node_connected_component(graph, self.agent))
        place = {node: i for i, node in enumerate(here)}
        near = networkx.Graph()
        near.add_nodes_from(range(len(here)))
        near.add_edges_from(sorted(tuple(sorted((place[a], place[b]))) for a, b in links if a in place))
        reached = [m for m in sorted(self.weights) if m in place]
        trees = self._build(near, _rows(place, self.agent, reached)) if len(here) > 1 else None
        parents = trees.parents[place[self.agent]] if trees is not None else {0: None}
        children: dict[int, list[int]] = {}
        for node, parent in parents.items():
            if parent is not None:
                children.setdefault(here[parent], []).append(here[node])
        grown: dict[int, Branch] = {}
        for node in reversed([here[node] for node in parents]):  # children before their parents, since every parent comes before its children
            grown[node] = Branch(node, self.weights.get(node, 0.0), tuple(grown[child] for child in sorted(children.get(node, ()))))
        return grown[self.agent], frozenset(self.weights) - set(reached)


def _rows(place: Mapping[int, int], agent: int, reached: list[int]) -> Interest:
    """An interest in which this agent alone cares about others: the trees of those do not matter."""
    partners = [[place[m] for m in reached] if node == agent and reached else [i] for node, i in place.items()]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in partners])])
    flat = np.concatenate([np.array(row) for row in partners])
    weights = np.concatenate([np.full(len(row), 1 / len(row)) for row in partners])
    return Interest(starts, flat, weights)


def _up(view: View) -> frozenset[tuple[int, int]]:
    """The links that both ends find up, the smaller id first."""
    known = {(state.agent, far) for state in view.values() for far in state.links}
    return frozenset((a, b) for a, b in known if a < b and (b, a) in known)
