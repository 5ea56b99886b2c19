"""Trees that are given, and no trees at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mnemesh.errors import RoutingError
from mnemesh.interest import as_interest
from mnemesh.routing.trees import INSTANT, Trees, collect
from mnemesh.types import Graph

__all__ = ["from_parents", "instant"]


def from_parents(graph: Graph, parents: Sequence[Mapping[Any, Any]], interest: Any) -> Trees:
    """Trees from one {node: parent} per root n = 0..N-1, the root mapped to None."""
    interest = as_interest(interest)
    if len(parents) != interest.agents:
        raise RoutingError(f"{len(parents)} trees for {interest.agents} agents: each agent needs its own, if only {{n: None}}.")
    if not all(isinstance(tree, Mapping) for tree in parents):
        raise RoutingError("a tree that is no {node: parent}: each agent needs one, the root mapped to None.")
    trees = [{node: -1 if parent is None else parent for node, parent in parents[root].items()} for root in range(len(parents))]
    try:
        return collect(graph, interest, trees, "from_parents")
    except TypeError as wrong:
        raise RoutingError(f"nodes that are no whole numbers ({wrong}): they are the agents 0..{interest.agents - 1}.") from wrong


def instant(graph: Graph | None, interest: Any) -> Trees:
    """Zero delay, for comparison: everybody learns everybody's gradients at once, over no link and without a message."""
    agents = np.arange(as_interest(interest).agents)
    return Trees(graph, interest, np.append(agents, len(agents)), agents, np.full(len(agents), -1), builder=INSTANT)
