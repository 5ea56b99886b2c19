"""Searches that go no further than they must, and spanning trees of the links they find."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, final

import numpy as np

from mnemesh.interest import as_interest
from mnemesh.routing.checks import check_size
from mnemesh.routing.trees import Trees, collect
from mnemesh.topology import check_graph, neighbours
from mnemesh.types import Graph

__all__ = ["Adjacency", "Ball", "Groups", "Link", "for_every_root", "nearest_first", "reach", "spanning"]

Adjacency = Sequence[Sequence[int]] | Mapping[int, Sequence[int]]
Link = tuple[int, int, int]  # (length, one end, the other)


def for_every_root(graph: Graph, interest: Any, tree: Callable[..., dict[int, int]], builder: str) -> Trees:
    """The Trees that `tree(neighbours, root, partners)` gives root by root: {node: parent}, the root's parent being -1."""
    interest = as_interest(interest)
    check_graph(graph)
    check_size(graph, interest)
    starts, ends = neighbours(graph)
    linked = [part.tolist() for part in np.split(ends, starts[1:-1])]
    return collect(graph, interest, (tree(linked, n, interest.row(n)[0].tolist()) for n in range(interest.agents)), builder)


def reach(linked: Adjacency, root: int, partners: Sequence[int], within: Collection[int] | None = None) -> dict[int, int]:
    """The shortest ways from the root to its partners as {node: parent}, through nodes of `within` alone; empty if one is out of reach.

    Of several parents that are equally near to the root, the smallest id is taken. Nothing is searched beyond the furthest partner.
    """
    parents, ring, missing = {root: -1}, [root], set(partners) - {root}
    while missing:
        found = []
        for near in ring:
            for far in linked[near]:
                if far not in parents and (within is None or far in within):
                    parents[far] = near
                    found.append(far)
        if not found:
            return {}
        missing.difference_update(found)
        ring = sorted(found)
    kept = {root: -1}
    for node in partners:
        while node not in kept:
            kept[node] = node = parents[node]
    return kept


@final
class Ball:
    """All nodes up to some distance from a centre, ring by ring: `hops` holds how far each is."""

    __slots__ = ("hops", "linked", "radius", "ring")

    def __init__(self, linked: Adjacency, centre: int) -> None:
        self.linked, self.radius, self.ring, self.hops = linked, 0, [centre], {centre: 0}

    def grow(self) -> list[int]:
        """The next ring of nodes, one hop further out."""
        self.radius += 1
        ring, hops = [], self.hops
        for near in self.ring:
            for far in self.linked[near]:
                if far not in hops:
                    hops[far] = self.radius
                    ring.append(far)
        self.ring = ring
        return ring

    def cover(self, nodes: Iterable[int]) -> dict[int, int]:
        """How far each node found so far is, after growing until these are among them (the graph is connected)."""
        for node in nodes:
            while node not in self.hops:
                self.grow()
        return self.hops


@final
class Groups:
    """Nodes that links join, one after the other: `count` groups are left."""

    __slots__ = ("count", "leader")

    def __init__(self, nodes: Iterable[int]) -> None:
        self.leader = {node: node for node in nodes}
        self.count = len(self.leader)

    def join(self, one: int, other: int) -> bool:
        """Whether this link joins two groups, which are one from now on."""
        one, other = self._top(one), self._top(other)
        if one == other:
            return False
        self.leader[one] = other
        self.count -= 1
        return True

    def _top(self, node: int) -> int:
        leader = self.leader
        while leader[node] != node:
            leader[node] = node = leader[leader[node]]
        return node


def spanning(links: Iterable[Link], root: int) -> list[Link]:
    """A minimum spanning tree grown from the root (Prim): of equal links, the one whose new end is nearest to the root, then smallest."""
    around = defaultdict(list)
    for length, one, other in links:
        around[one].append((length, other))
        around[other].append((length, one))
    chosen: list[Link] = []
    inside, heap = set[int](), [(0, 0, root, root)]
    while heap:
        length, depth, new, old = heappop(heap)
        if new not in inside:
            inside.add(new)
            chosen.append((length, old, new))
            for further, node in around[new]:
                if node not in inside:
                    heappush(heap, (further, depth + further, node, new))
    return chosen[1:]


def nearest_first(home: Ball, nodes: Iterable[int]) -> list[int]:
    """Nodes by distance from the root at `home`, then by id."""
    nodes = list(nodes)
    far = home.cover(nodes)
    return sorted(nodes, key=lambda node: (far[node], node))
