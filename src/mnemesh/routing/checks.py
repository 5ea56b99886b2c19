"""What makes ragged arrays trees, asked of all of them at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from mnemesh.errors import RoutingError
from mnemesh.interest import Interest
from mnemesh.topology import neighbours
from mnemesh.types import Graph

__all__ = ["check_leaves", "check_links", "check_size", "locate", "settle"]


def check_size(graph: Graph, interest: Interest) -> None:
    """Refuse a graph whose nodes are not the interest's agents."""
    nodes = graph.number_of_nodes()
    if nodes != interest.agents:
        raise RoutingError(f"the graph has {nodes:,} nodes and the interest matrix {interest.agents:,} agents: every agent is one node.")


def settle(agents: int, starts: Any, nodes: Any, parents: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(starts, nodes, parents, depths) with each tree's nodes ascending, after checking that each tree is one and holds its root on top."""
    starts, nodes, parents = (_whole(part) for part in (starts, nodes, parents))
    if len(starts) != agents + 1 or starts[0] or (np.diff(starts) < 0).any() or starts[-1] != len(nodes) or len(nodes) != len(parents):
        raise RoutingError(
            f"{len(starts) - 1} trees in ragged rows that do not fit {agents} agents: starts must rise from 0 to the number of nodes, "
            "one per agent and one more, with one parent per node."
        )
    roots = np.repeat(np.arange(agents), np.diff(starts))
    _refuse((nodes < 0) | (nodes >= agents), roots, nodes, f"is none of the agents 0..{agents - 1}")
    order = np.argsort(roots * agents + nodes, kind="stable")
    nodes, parents = nodes[order], parents[order]
    keys = roots * agents + nodes
    _refuse(np.append(False, keys[1:] == keys[:-1]), roots, nodes, "stands there twice: a message would come by two ways")
    top = nodes == roots
    rootless = np.flatnonzero(np.bincount(roots[top], minlength=agents) == 0)
    if len(rootless):
        raise RoutingError(f"agent {rootless[0]} is outside its own tree: its queries start nowhere.")
    _refuse(top & (parents != -1), roots, nodes, "is its root and has a parent: a root's is None (-1)")
    _refuse(~top & (parents == -1), roots, nodes, "has no parent and is not the root: no message reaches it")
    wanted = np.where(top, keys, roots * agents + parents)
    above = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    astray = (keys[above] != wanted) | (parents >= agents) | (parents < -1)
    _refuse(astray, roots, nodes, "has a parent that is not in that tree: no message reaches it")
    return starts, nodes, parents, _depths(above, top, roots, nodes)


def _depths(above: np.ndarray, top: np.ndarray, roots: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    depths = (~top).astype(np.int64)
    for _ in range(int(np.bincount(roots).max()).bit_length()):
        if top[above].all():
            return depths
        depths += depths[above]  # pointers double: after k turns, `above` is 2^k steps nearer to the root
        above = above[above]
    _refuse(~top[above], roots, nodes, "hangs on a cycle: its messages would go round and never come to the root")
    return depths


def check_links(graph: Graph, starts: np.ndarray, nodes: np.ndarray, parents: np.ndarray) -> None:
    """Refuse a parent that is no neighbour."""
    agents = len(starts) - 1
    begins, ends = neighbours(graph)
    links = np.repeat(np.arange(agents), np.diff(begins)) * agents + ends
    below = np.flatnonzero(parents >= 0)
    wanted = parents[below] * agents + nodes[below]
    found = np.minimum(np.searchsorted(links, wanted), len(links) - 1)
    absent = below[links[found] != wanted] if len(links) else below
    if len(absent):
        root = np.searchsorted(starts, absent[0], side="right") - 1
        n, m = nodes[absent[0]], parents[absent[0]]
        raise RoutingError(f"in agent {root}'s tree, agent {m} is the parent of agent {n}, but no link joins them: no message crosses.")


def locate(interest: Interest, starts: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Where each partner stands among the trees' nodes; refuses a partner outside its tree."""
    agents = interest.agents
    keys = np.repeat(np.arange(agents), np.diff(starts)) * agents + nodes
    wanted = interest.rows * agents + interest.partners
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    outside = np.flatnonzero(keys[at] != wanted)
    if len(outside):
        n, m = interest.rows[outside[0]], interest.partners[outside[0]]
        raise RoutingError(f"agent {m} is outside agent {n}'s tree, though agent {n} cares about it: it would never be asked.")
    return at


def check_leaves(starts: np.ndarray, nodes: np.ndarray, parents: np.ndarray, partners_at: np.ndarray) -> None:
    """Refuse a leaf that is neither a partner nor the root."""
    agents = len(starts) - 1
    roots = np.repeat(np.arange(agents), np.diff(starts))
    useful = nodes == roots
    useful[partners_at] = True
    below = parents >= 0
    useful[np.searchsorted(roots * agents + nodes, roots[below] * agents + parents[below])] = True
    _refuse(~useful, roots, nodes, "is a leaf and no partner: messages would go there for nobody")


def _whole(part: Any) -> np.ndarray:
    flat = np.asarray(part)
    if flat.ndim != 1 or (flat.size and flat.dtype.kind not in "iu"):
        raise RoutingError(f"trees in an array of shape {flat.shape} and type {flat.dtype}: ragged rows are flat arrays of whole numbers.")
    return flat.astype(np.int64)


def _refuse(wrong: np.ndarray, roots: np.ndarray, nodes: np.ndarray, why: str) -> None:
    places = np.flatnonzero(wrong)
    if len(places):
        raise RoutingError(f"in agent {roots[places[0]]}'s tree, agent {nodes[places[0]]} {why}.")
