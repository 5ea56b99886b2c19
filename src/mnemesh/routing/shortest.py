"""The fastest trees: every partner at its distance in the graph, whatever the number of links."""

from __future__ import annotations

from typing import Any

from mnemesh.routing.search import for_every_root, reach
from mnemesh.routing.trees import Trees
from mnemesh.types import Graph

__all__ = ["shortest_path"]


def shortest_path(graph: Graph, interest: Any) -> Trees:
    """Breadth-first trees, cut back to the ways to the partners: τ_{n,m} is twice the distance. Of several parents, the smallest id."""
    return for_every_root(graph, interest, reach, "shortest_path")
