"""Few links, after Kou, Markowsky and Berman (1981): a Steiner tree through the metric closure of the terminals.

At most 2(1 − 1/ℓ) times the fewest links possible, ℓ the number of leaves of such a tree. The bound holds however ties are broken.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

from mnemesh.errors import RoutingError
from mnemesh.routing.search import Adjacency, Ball, Groups, Link, for_every_root, nearest_first, reach, spanning
from mnemesh.routing.trees import Trees
from mnemesh.types import Graph

__all__ = ["steiner"]


def steiner(graph: Graph, interest: Any, *, ties: str = "distance") -> Trees:
    """The paper's trees: Kou, Markowsky and Berman's, with equal cost broken by distance to the root, then node id.

    So where every agent is a terminal the delays are those of `shortest_path`. `ties="naive"` asks for node ids alone, for comparison.
    """
    if ties not in ("distance", "naive"):
        raise RoutingError(f'ties={ties!r}: equal cost is broken by "distance" to the root, or as "naive" by node ids alone.')
    if ties == "naive":
        return for_every_root(graph, interest, _naive, "steiner (naive ties)")
    return for_every_root(graph, interest, _tree, "steiner")


def _tree(linked: Adjacency, root: int, partners: list[int]) -> dict[int, int]:
    terminals = {root, *partners}
    alone = reach(linked, root, partners, terminals)  # terminals that hang together need no relay, and nothing is cheaper
    return alone or reach(linked, root, partners, _relayed(linked, root, terminals))


def _relayed(linked: Adjacency, root: int, terminals: set[int]) -> set[int]:
    """The terminals and the nodes on the ways between them. Any tree on these costs the same: which one is decided later."""
    balls, links = _closure(linked, terminals)
    home, nodes = balls[root], set(terminals)
    for _, old, new in spanning(links, root):
        nodes.update(_way(linked, balls[old], new, partial(nearest_first, home)))
    return nodes


def _closure(linked: Adjacency, terminals: set[int]) -> tuple[dict[int, Ball], list[Link]]:
    """The balls around terminals that just join them, and the closure's links that they find: no spanning tree needs a longer one."""
    balls, groups, links = {node: Ball(linked, node) for node in sorted(terminals)}, Groups(terminals), []
    while groups.count > 1:
        for near, ball in balls.items():
            for far in sorted(terminals.intersection(ball.grow())):
                if near < far:
                    links.append((ball.radius, near, far))
                    groups.join(near, far)
    return balls, links


def _way(linked: Adjacency, ball: Ball, node: int, order: Any) -> list[int]:
    """A shortest way from a node to the centre of a ball, each step the first in `order` of those that lead there."""
    way = [node]
    for left in range(ball.hops[node] - 1, -1, -1):
        node = order(near for near in linked[node] if ball.hops.get(near) == left)[0]
        way.append(node)
    return way


def _naive(linked: Adjacency, root: int, partners: list[int]) -> dict[int, int]:
    """Steps 1 to 5 as printed, ties by node id: the closure's spanning tree, its ways, a spanning tree of these, and no useless leaf."""
    terminals = {root, *partners}
    balls, links = _closure(linked, terminals)
    ways = [_way(linked, balls[old], new, sorted) for _, old, new in _kruskal(links, terminals)]
    crossed = sorted({(1, min(pair), max(pair)) for way in ways for pair in pairwise(way)})
    kept: dict[int, list[int]] = {node: [] for node in terminals.union(*ways)}
    for _, one, other in _kruskal(crossed, kept):
        kept[one].append(other)
        kept[other].append(one)
    return reach(kept, root, partners)


def _kruskal(links: Any, nodes: Any) -> list[Link]:
    groups = Groups(nodes)
    return [link for link in sorted(links) if groups.join(link[1], link[2])]
