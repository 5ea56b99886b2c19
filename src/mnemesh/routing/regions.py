"""Few links, after Mehlhorn (1988): a Steiner tree through the regions of nodes nearest to each terminal.

As few links as Kou, Markowsky and Berman's bound promises, in one search from all terminals at once.
"""

from __future__ import annotations

from typing import Any

from mnemesh.routing.search import Adjacency, Ball, Groups, for_every_root, nearest_first, reach, spanning
from mnemesh.routing.trees import Trees
from mnemesh.types import Graph

__all__ = ["mehlhorn"]

_Bridges = dict[tuple[int, int], tuple[int, int, int, int]]


def mehlhorn(graph: Graph, interest: Any) -> Trees:
    """Mehlhorn's trees: at most 2(1 − 1/ℓ) times the fewest links, equal cost broken by distance to the root, then node id."""
    return for_every_root(graph, interest, _tree, "mehlhorn")


def _tree(linked: Adjacency, root: int, partners: list[int]) -> dict[int, int]:
    terminals = {root, *partners}
    alone = reach(linked, root, partners, terminals)  # terminals that hang together need no relay, and nothing is cheaper
    return alone or reach(linked, root, partners, _relayed(linked, root, terminals))


def _relayed(linked: Adjacency, root: int, terminals: set[int]) -> set[int]:
    """The terminals and the nodes on the ways between them. Any tree on these costs the same: which one is decided later."""
    towards, bridges = _regions(linked, Ball(linked, root), terminals)
    nodes = set(terminals)
    for _, old, new in spanning(((bridge[0], *pair) for pair, bridge in bridges.items()), root):
        for node in bridges[min(old, new), max(old, new)][2:]:
            while node not in nodes:
                nodes.add(node)
                node = towards[node]
    return nodes


def _regions(linked: Adjacency, home: Ball, terminals: set[int]) -> tuple[dict[int, int], _Bridges]:
    """The way back from each node to its nearest terminal, {node: next}, and the best bridge between each two regions.

    A node between several regions goes to the terminal nearest to the root, then with the smallest id. The regions grow until bridges
    join them all: after radius r every bridge of length up to 2r + 1 is known, so no shorter one is missing.
    """
    ring = nearest_first(home, terminals)
    owner, towards, rank = {node: node for node in ring}, {node: node for node in ring}, {node: place for place, node in enumerate(ring)}
    bridges: _Bridges = {}
    hops, groups = dict.fromkeys(ring, 0), Groups(ring)
    while True:
        far_off = home.cover(ring)
        for near in ring:
            for far in linked[near]:
                if far in owner and owner[far] != owner[near]:
                    one, other = (near, far) if owner[near] < owner[far] else (far, near)
                    pair, length = (owner[one], owner[other]), hops[one] + 1 + hops[other]
                    known = bridges.get(pair)
                    if known is None or length <= known[0]:
                        bridge = (length, far_off[one] + far_off[other], one, other)
                        bridges[pair] = min(bridge, known or bridge)
                    if known is None:
                        groups.join(*pair)
        if groups.count == 1:
            return towards, bridges
        ring = _spread(linked, ring, owner, towards, hops)
        ring.sort(key=lambda node: (rank[owner[node]], node))


def _spread(linked: Adjacency, ring: list[int], owner: dict[int, int], towards: dict[int, int], hops: dict[int, int]) -> list[int]:
    found = []
    for near in ring:
        for far in linked[near]:
            if far not in owner:
                owner[far], towards[far], hops[far] = owner[near], near, hops[near] + 1
                found.append(far)
    return found
