"""The routing trees 𝒯_n: one per agent, rooted there, along which its queries go out and the replies come back."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple, final

import numpy as np

from mnemesh.errors import RoutingError
from mnemesh.interest import Interest, as_interest
from mnemesh.routing.checks import check_leaves, check_links, check_size, locate, settle
from mnemesh.topology import check_graph
from mnemesh.types import Graph, refuse_dense

__all__ = ["INSTANT", "Messages", "Trees", "collect"]

INSTANT = "instant"


class Messages(NamedTuple):
    """Messages that cross a link in one round, over all trees, once they are in full swing."""

    queries: int
    replies_aggregated: int
    replies_single: int


@final
class Trees:
    """One tree 𝒯_n per agent: rooted at n, made of graph links, spanning 𝒲_n ∪ {n}, each leaf a partner or the root. Checked when built.

    Tree n's nodes are `tree_nodes[tree_starts[n]:tree_starts[n + 1]]`, nearest to the root first, then by id, relays included;
    `tree_parents` holds their parents, -1 at the root. `hops` and `delays` = 2 × hops stand in the order of `partners`.
    The builder "instant" has no links: each of its trees is the root alone, and every delay is 0.
    """

    __slots__ = ("_parents", "builder", "delays", "graph", "hops", "interest", "tree_nodes", "tree_parents", "tree_starts")

    graph: Graph
    interest: Interest
    builder: str
    tree_starts: np.ndarray
    tree_nodes: np.ndarray
    tree_parents: np.ndarray
    hops: np.ndarray
    delays: np.ndarray
    _parents: tuple[dict[int, int | None], ...] | None

    def __init__(
        self, graph: Graph | None, interest: Any, tree_starts: Any, tree_nodes: Any, tree_parents: Any, *, builder: str = "explicit"
    ) -> None:
        self.graph, self.interest, self.builder, self._parents = graph, as_interest(interest), builder, None
        if graph is not None:
            check_graph(graph)
            check_size(graph, self.interest)
        elif builder != INSTANT:
            raise RoutingError("trees without a graph: their links cannot be checked. Only mm.routing.instant does without.")
        starts, nodes, parents, depths = settle(self.interest.agents, tree_starts, tree_nodes, tree_parents)
        if builder == INSTANT:
            if len(nodes) != self.interest.agents:
                raise RoutingError("instant trees with links: where a message crosses a link, it takes a round.")
            self.hops = np.zeros(len(self.partners), dtype=np.int64)
        else:
            check_links(graph, starts, nodes, parents)
            at = locate(self.interest, starts, nodes)
            check_leaves(starts, nodes, parents, at)
            self.hops = depths[at]
        self.delays = 2 * self.hops
        order = np.lexsort((nodes, depths, np.repeat(np.arange(len(starts) - 1), np.diff(starts))))
        self.tree_starts, self.tree_nodes, self.tree_parents = starts, nodes[order], parents[order]
        for part in (self.hops, self.delays, self.tree_starts, self.tree_nodes, self.tree_parents):
            part.setflags(write=False)

    @property
    def agents(self) -> int:
        """N."""
        return self.interest.agents

    @property
    def starts(self) -> np.ndarray:
        """Where each agent's `partners`, `weights`, `hops` and `delays` begin, (N+1,): those of the interest."""
        return self.interest.starts

    @property
    def partners(self) -> np.ndarray:
        """𝒲_n for every n in turn, ascending."""
        return self.interest.partners

    @property
    def weights(self) -> np.ndarray:
        """w_{n,m} for every partner."""
        return self.interest.weights

    @property
    def delay(self) -> np.ndarray:
        """τ_{n,m}, dense (N, N): -1 where m ∉ 𝒲_n."""
        refuse_dense(self.agents, "the delays", RoutingError)
        dense = np.full((self.agents, self.agents), -1, dtype=np.int64)
        dense[self.interest.rows, self.partners] = self.delays
        return dense

    @property
    def parents(self) -> tuple[dict[int, int | None], ...]:
        """One {node: parent} per root, the root mapped to None and every parent before its children."""
        if self._parents is None:
            ends, nodes, parents = self.tree_starts.tolist(), self.tree_nodes.tolist(), self.tree_parents.tolist()
            trees: list[dict[int, int | None]] = [dict(zip(nodes[i:j], parents[i:j], strict=True)) for i, j in pairwise(ends)]
            for root, tree in enumerate(trees):
                tree[root] = None
            self._parents = tuple(trees)
        return self._parents

    @property
    def links(self) -> np.ndarray:
        """The links that some tree uses, (L, 2), each with the smaller id first, sorted."""
        return self._crossings()[0]

    def load(self) -> dict[tuple[int, int], int]:
        """Queries that cross each used link (smaller id first) in one round, either way; aggregated replies are as many, the other way."""
        links, counts = self._crossings()
        return dict(zip(map(tuple, links.tolist()), counts.tolist(), strict=True))

    def messages_per_round(self) -> Messages:
        """Queries and aggregated replies cross every tree edge once; a reply of its own crosses all hops from partner to root."""
        edges = len(self.tree_nodes) - self.agents
        return Messages(edges, edges, int(self.hops.sum()))

    def check(self, interest: Any) -> None:
        """Refuse an interest in other partners than those the trees were built for."""
        other = as_interest(interest)
        if other.agents != self.agents:
            raise RoutingError(f"trees of {self.agents} agents and an interest matrix of {other.agents}: they must be the same agents.")
        if not self.interest.same_partners(other):
            n = next(n for n in range(self.agents) if not np.array_equal(self.interest.row(n)[0], other.row(n)[0]))
            m = min(set(other.row(n)[0].tolist()) ^ set(self.interest.row(n)[0].tolist()))
            raise RoutingError(
                f"the trees were built for other interests: agent {n} differs about agent {m}, whose gradients would be missing or asked "
                "for in vain. Build them again."
            )

    def _crossings(self) -> tuple[np.ndarray, np.ndarray]:
        below = self.tree_parents >= 0
        ends = np.stack([self.tree_nodes[below], self.tree_parents[below]])
        links, counts = np.unique(ends.min(0) * self.agents + ends.max(0), return_counts=True)
        return np.stack(np.divmod(links, self.agents), 1), counts

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trees) or not self.interest.same_partners(other.interest):
            return False
        compared = ("tree_starts", "tree_nodes", "tree_parents", "hops")
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in compared)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        queries, _, single = self.messages_per_round()
        delays = f"delay mean {self.delays.mean():.3g}, at most {self.delays.max()}"
        return f"Trees({self.builder}, agents={self.agents:,}, {delays}, messages a round {queries:,} out, {queries:,} to {single:,} back)"


def collect(graph: Graph, interest: Interest, trees: Iterable[Mapping[int, int]], builder: str) -> Trees:
    """Trees from one {node: parent} per root, the root's parent being -1."""
    starts, nodes, parents = [0], array("q"), array("q")
    for tree in trees:
        nodes.extend(tree)
        parents.extend(tree.values())
        starts.append(len(nodes))
    return Trees(graph, interest, starts, np.array(nodes), np.array(parents), builder=builder)
