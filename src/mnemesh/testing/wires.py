"""Laws of tree builders."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from mnemesh.draws import generator
from mnemesh.errors import RoutingError
from mnemesh.interest import Interest, from_array
from mnemesh.routing.trees import INSTANT, Trees
from mnemesh.testing.laws import holds
from mnemesh.types import Graph

__all__ = ["check_builder"]

_Parents = dict[int, int | None]
_Build = Callable[[Graph, Interest], Trees]


def check_builder(build: _Build, *, worlds: int = 12, seed: int = 0) -> None:
    """Trees are trees of links, reach every partner, end in partners, have the delays they say, and are the same for the same links.

    Builders that are called "instant" have no trees, and no delays.

    >>> from mnemesh import routing
    >>> check_builder(routing.steiner)
    """
    rng = generator(seed, "testing/builder")
    make = partial(_built, build)
    for world in range(worlds):
        links, interest = _world(rng, agents=2 + world, dense=world % 4 == 0)
        agents = interest.agents
        trees = make(_graph(range(agents), links), interest)
        if trees.builder == INSTANT:
            holds(trees.delays == 0, "instant trees have delays.")
            continue
        for root, parents in enumerate(trees.parents):
            partners = interest.row(root)[0].tolist()
            _check_tree(root, parents, partners, links)
            hops = [_depth(parents, partner) for partner in partners]
            place = slice(interest.starts[root], interest.starts[root + 1])
            holds(trees.hops[place].tolist() == hops, f"root {root}: the tree has depths {hops}, its hops are {trees.hops[place].tolist()}.")
        holds(np.array_equal(trees.delays, 2 * trees.hops), "a delay is not the way there and back, twice the hops.")
        shuffled = [links[i][:: rng.choice([-1, 1])] for i in rng.permutation(len(links))]
        again = make(_graph(rng.permutation(agents).tolist(), shuffled), interest)
        holds(list(again.parents) == list(trees.parents), f"the same {agents} agents and {len(links)} links in another order give other trees: agents would disagree.")


def _built(build: _Build, graph: Graph, interest: Interest) -> Trees:
    try:
        trees = build(graph, interest)
        holds(isinstance(trees, Trees), f"the builder gives {type(trees).__name__}, no Trees: return mm.routing.from_parents(graph, parents, interest).")
        trees.check(interest)
    except RoutingError as refused:
        raise AssertionError(f"the builder gives no trees: {refused}") from refused
    return trees


def _check_tree(root: int, parents: _Parents, partners: list[int], links: list[tuple[int, int]]) -> None:
    wires = {frozenset(link) for link in links}
    holds(root in parents and parents[root] is None, f"root {root} is not the root of its tree {parents}.")
    for node, parent in parents.items():
        if node == root:
            continue
        holds(parent in parents, f"root {root}: the parent {parent} of {node} is not in the tree, or {node} is a second root.")
        holds(frozenset((node, parent)) in wires, f"root {root}: {node} and its parent {parent} share no link, so no message can cross.")
        holds(_depth(parents, node) is not None, f"root {root}: {node} never leads to the root: a cycle.")
    missing = sorted(set(partners) - set(parents))
    holds(not missing, f"root {root}: the tree does not reach {missing}, whom the root cares about.")
    useless = sorted(set(parents) - {*parents.values(), root} - set(partners))
    holds(not useless, f"root {root}: {useless} are leaves that nobody asked for: messages to them are wasted.")


def _depth(parents: _Parents, node: int) -> int | None:
    depth, at = 0, parents[node]
    while at is not None and depth <= len(parents):
        depth, at = depth + 1, parents[at]
    return depth if at is None else None


def _graph(nodes: Iterable[int], links: list[tuple[int, int]]) -> Graph:
    networkx = importlib.import_module("networkx")
    graph = networkx.Graph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(links)
    return graph


def _world(rng: np.random.Generator, agents: int, dense: bool) -> tuple[list[tuple[int, int]], Interest]:
    """A random tree with some links more, and interests in random others."""
    names = rng.permutation(agents).tolist()
    links = {tuple(sorted((names[node], names[rng.integers(node)]))) for node in range(1, agents)}
    for _ in range(rng.integers(agents)):
        near, far = rng.choice(agents, 2, replace=False).tolist()
        links.add((min(near, far), max(near, far)))
    weights = rng.random((agents, agents)) * (dense | (rng.random((agents, agents)) < 0.3)) + np.eye(agents)
    return sorted(links), from_array(weights / weights.sum(1, keepdims=True))
