"""Which wires there are: graphs on the agents 0..N-1, and the mixing matrix that C-DOGD averages with.

Random graphs are drawn by NumPy's Philox, so a seed means the same graph on every machine; networkx only holds them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from mnemesh.draws import generator
from mnemesh.errors import GraphError
from mnemesh.registry import Registry
from mnemesh.types import Graph, refuse_dense

__all__ = [
    "Rows", "check_graph", "complete", "default", "from_edges", "from_networkx", "get", "grid", "line", "maker", "metropolis", "metropolis_rows",
    "names", "neighbours", "random_geometric", "register", "ring", "second_singular_value", "small_world", "star", "tree",
]  # fmt: skip

TRIES = 100


class Rows(NamedTuple):
    """A mixing matrix in ragged rows: a_{n,m} for m in `neighbours[starts[n]:starts[n + 1]]`, ascending, n itself among them."""

    starts: np.ndarray
    neighbours: np.ndarray
    weights: np.ndarray


def random_geometric(agents: int, *, radius: float, seed: int) -> Graph:
    """Agents drawn uniformly in the unit square (node attribute "pos"), linked up to `radius` apart; redrawn until connected."""
    _whole("agents", agents, 1)
    if not (math.isfinite(radius) and radius > 0):
        raise GraphError(f"radius={radius!r}: it must be positive and finite, or no two agents are linked.")
    rng = generator(seed, "topology/random_geometric")

    def draw() -> tuple[np.ndarray, np.ndarray]:
        positions = rng.random((agents, 2))
        return _within(positions, radius), positions

    enough = math.sqrt(2 * math.log(max(agents, 2)) / (math.pi * agents))
    return _connected(draw, agents, f"{agents} agents at radius {radius:g}", f"raise the radius ({enough:.2g} may do) or try another seed")


def small_world(agents: int, *, neighbours: int = 4, rewired: float = 0.1, seed: int) -> Graph:
    """Watts and Strogatz: a ring with `neighbours` per agent, each link's far end moved with probability `rewired`; redrawn as above."""
    _whole("agents", agents, 3)
    if neighbours % 2 or not 2 <= neighbours < agents:
        raise GraphError(f"neighbours={neighbours!r}: an even number from 2 to {agents - 1} is needed, half of it on each side.")
    if not 0 <= rewired <= 1:
        raise GraphError(f"rewired={rewired!r} is a probability: it lies in [0, 1].")
    rng, half = generator(seed, "topology/small_world"), neighbours // 2

    def draw() -> tuple[np.ndarray, None]:
        linked = [{(n + step) % agents for step in range(-half, half + 1)} for n in range(agents)]  # n itself included
        for step in range(1, half + 1):
            for near in np.flatnonzero(rng.random(agents) < rewired).tolist():
                if len(linked[near]) < agents:
                    far = int(rng.integers(agents))
                    while far in linked[near]:
                        far = int(rng.integers(agents))
                    old = (near + step) % agents
                    linked[near] ^= {old, far}
                    linked[old].remove(near)
                    linked[far].add(near)
        return np.array([(n, m) for n in range(agents) for m in sorted(linked[n]) if n < m]), None

    return _connected(draw, agents, f"{agents} agents of {neighbours} neighbours", "take more neighbours, rewire less or try another seed")


def ring(agents: int) -> Graph:
    """Every agent linked to the next, the last to the first."""
    _whole("agents", agents, 3)
    return _graph(agents, np.stack([np.arange(agents), np.roll(np.arange(agents), -1)], 1))


def line(agents: int) -> Graph:
    """Every agent linked to the next."""
    _whole("agents", agents, 1)
    return _graph(agents, np.stack([np.arange(agents - 1), np.arange(1, agents)], 1))


def star(agents: int) -> Graph:
    """Every agent linked to agent 0."""
    _whole("agents", agents, 1)
    return _graph(agents, np.stack([np.zeros(agents - 1, dtype=np.int64), np.arange(1, agents)], 1))


def complete(agents: int) -> Graph:
    """Every agent linked to every other."""
    _whole("agents", agents, 1)
    refuse_dense(agents, "a complete graph", GraphError)
    return _graph(agents, np.stack(np.triu_indices(agents, 1), 1))


def grid(rows: int, columns: int) -> Graph:
    """Agents on a rectangle, numbered row by row (node attribute "pos"), each linked to those above, below, left and right."""
    _whole("rows", rows, 1)
    _whole("columns", columns, 1)
    places = np.arange(rows * columns).reshape(rows, columns)
    right = np.stack([places[:, :-1].ravel(), places[:, 1:].ravel()], 1)
    below = np.stack([places[:-1].ravel(), places[1:].ravel()], 1)
    down, across = np.divmod(places.ravel(), columns)
    return _graph(rows * columns, np.concatenate([right, below]), np.stack([across, down], 1).astype(np.float64))


def tree(agents: int, *, branching: int | None = None, seed: int | None = None) -> Graph:
    """A balanced tree below agent 0 with `branching` (2) children each, or with a `seed` one drawn uniformly from all labelled trees."""
    _whole("agents", agents, 1)
    if seed is None:
        _whole("branching", branching := 2 if branching is None else branching, 1)
        children = np.arange(1, agents)
        return _graph(agents, np.stack([(children - 1) // branching, children], 1))
    if branching is not None:
        raise GraphError(f"branching={branching!r} and seed={seed!r}: a tree is balanced or random, pass one of them.")
    import networkx

    sequence = generator(seed, "topology/tree").integers(agents, size=max(agents - 2, 0))
    drawn = networkx.from_prufer_sequence(sequence.tolist()) if agents > 1 else networkx.empty_graph(1)
    return _graph(agents, np.array(drawn.edges, dtype=np.int64).reshape(-1, 2))


def default() -> Graph:
    """The 20 agents of Figure 1(a): `random_geometric(20, radius=0.35, seed=1)`."""
    return random_geometric(20, radius=0.35, seed=1)


def from_edges(edges: Iterable[Any], agents: int | None = None) -> Graph:
    """The graph of these pairs of agents; `agents` is one more than the largest id unless given."""
    try:
        pairs = np.array([(one, other) for one, other in edges] or np.empty((0, 2), dtype=np.int64))
    except (TypeError, ValueError) as wrong:
        raise GraphError(f"edges that are no pairs ({wrong}): each link joins two of the agents 0..N-1.") from wrong
    if pairs.ndim != 2 or pairs.dtype.kind not in "iu":
        raise GraphError("edges between things that are no whole numbers: each link joins two of the agents 0..N-1.")
    count = agents if agents is not None else int(pairs.max(initial=0)) + 1
    _whole("agents", count, 1)
    outside = pairs[((pairs < 0) | (pairs >= count)).any(1)]
    if len(outside):
        raise GraphError(f"the link {tuple(outside[0].tolist())} leaves the agents 0..{count - 1}: pass agents= to have more.")
    graph = _graph(count, pairs)
    check_graph(graph)
    return graph


def from_networkx(graph: Graph) -> Graph:
    """A copy on the nodes 0..N-1, in the order of the old labels, kept as node attribute "name"; nodes 0..N-1 keep their numbers."""
    import networkx

    _undirected(graph)
    labels = set(graph)
    numbered = labels == set(range(len(labels)))
    try:
        order = sorted(labels)
    except TypeError:
        order = sorted(labels, key=lambda label: (type(label).__name__, repr(label)))
    number = {label: n for n, label in enumerate(order)}
    copy = networkx.Graph()
    copy.graph.update(graph.graph)
    copy.add_nodes_from((n, {"name": label, **graph.nodes[label]} | ({} if numbered else {"name": label})) for label, n in number.items())
    links = [(*sorted((number[u], number[v])), data) for u, v, data in graph.edges(data=True)]
    copy.add_edges_from(sorted(links, key=lambda link: link[:2]))
    check_graph(copy)
    return copy


def neighbours(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """The links in ragged rows (starts, nodes): agent n's neighbours are `nodes[starts[n]:starts[n + 1]]`, ascending."""
    agents = graph.number_of_nodes()
    ids = np.fromiter((node for node, _ in graph.adjacency()), np.int64, agents)
    sizes = np.fromiter((len(linked) for _, linked in graph.adjacency()), np.int64, agents)
    ends = np.fromiter(chain.from_iterable(linked for _, linked in graph.adjacency()), np.int64, int(sizes.sum()))
    links = np.sort(np.repeat(ids, sizes) * agents + ends)
    return np.searchsorted(links, np.arange(agents + 1) * agents), links % agents


def check_graph(graph: Graph) -> None:
    """Refuse what no message can be routed on: nodes other than 0..N-1, directed or parallel links, loops, several components."""
    import networkx

    _undirected(graph)
    agents = graph.number_of_nodes()
    if not agents:
        raise GraphError("a graph without nodes: there is no agent to learn anything.")
    if strays := set(graph) - set(range(agents)):
        raise GraphError(f"node {min(map(repr, strays))} is none of the agents 0..{agents - 1}: mm.topology.from_networkx renumbers nodes.")
    loop = next((n for n, linked in graph.adjacency() if n in linked), None)
    if loop is not None:
        raise GraphError(f"agent {loop} is linked to itself: such a link carries no message and would count in its degree, so remove it.")
    parts = sorted(map(sorted, networkx.connected_components(graph)))
    if len(parts) > 1:
        named = "; ".join(", ".join(map(str, part[:6])) + (f", … ({len(part):,} agents)" if len(part) > 6 else "") for part in parts[:4])
        more = f"; and {len(parts) - 4:,} more" if len(parts) > 4 else ""
        raise GraphError(f"the graph falls into {len(parts):,} components ({named}{more}): no message gets from one to another.")


def metropolis_rows(graph: Graph) -> Rows:
    """Metropolis weights: a_{n,m} = 1/(1 + max(deg_n, deg_m)) on links, the rest on the diagonal. Symmetric, doubly stochastic."""
    check_graph(graph)
    starts, nodes = neighbours(graph)
    agents, degrees = len(starts) - 1, np.diff(starts)
    everyone = np.arange(agents)
    rows = np.repeat(everyone, degrees)
    weights = 1 / (1 + np.maximum(degrees[rows], degrees[nodes]))
    own = 1 - np.bincount(rows, weights, agents)
    rows, nodes, weights = np.append(rows, everyone), np.append(nodes, everyone), np.append(weights, own)
    order = np.argsort(rows * agents + nodes)
    return Rows(starts + np.arange(agents + 1), nodes[order], weights[order])


def metropolis(graph: Graph) -> np.ndarray:
    """The Metropolis mixing matrix of `metropolis_rows`, dense (N, N)."""
    refuse_dense(graph.number_of_nodes(), "the mixing matrix", GraphError)
    starts, nodes, weights = metropolis_rows(graph)
    dense = np.zeros((len(starts) - 1, len(starts) - 1))
    dense[np.repeat(np.arange(len(dense)), np.diff(starts)), nodes] = weights
    return dense


def second_singular_value(matrix: Any) -> float:
    """α of Theorem 2: how much of a disagreement one mixing may leave; 0 for one agent."""
    dense = np.asarray(matrix, dtype=np.float64)
    if dense.ndim != 2 or dense.shape[0] != dense.shape[1]:
        raise GraphError(f"a mixing matrix of shape {dense.shape}: it has one row and one column per agent.")
    return float(np.linalg.svd(dense, compute_uv=False)[1]) if len(dense) > 1 else 0.0


def _within(positions: np.ndarray, radius: float) -> np.ndarray:
    """Pairs up to `radius` apart, looked for in the same or a neighbouring cell of a grid whose cells are no smaller than the radius."""
    side = max(1, math.floor(min((1 - 1e-9) / radius, math.sqrt(len(positions)))))
    columns, rows = np.minimum((positions * side).astype(np.int64), side - 1).T
    cells = columns * side + rows
    order = np.argsort(cells, kind="stable")
    first = np.searchsorted(cells[order], np.arange(side * side + 1))
    found = []
    for right, up in ((0, 0), (0, 1), (1, -1), (1, 0), (1, 1)):  # half of the surroundings: each pair of cells once
        inside = np.flatnonzero((columns + right < side) & (rows + up >= 0) & (rows + up < side))
        others = cells[inside] + right * side + up
        counts = first[others + 1] - first[others]
        near = np.repeat(inside, counts)
        far = order[np.repeat(first[others] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())]
        if not (right or up):
            near, far = near[near < far], far[near < far]
        apart = positions[near] - positions[far]
        close = apart[:, 0] ** 2 + apart[:, 1] ** 2 <= radius**2
        found.append(np.sort(np.stack([near[close], far[close]], 1), axis=1))
    return np.concatenate(found)


def _connected(draw: Callable[[], tuple[np.ndarray, np.ndarray | None]], agents: int, what: str, remedy: str) -> Graph:
    import networkx

    for _ in range(TRIES):
        edges, positions = draw()
        if agents == 1 or np.bincount(edges.ravel(), minlength=agents).all():  # an agent without a link: quickly seen
            graph = _graph(agents, edges, positions)
            if networkx.is_connected(graph):
                return graph
    raise GraphError(f"none of {TRIES} graphs drawn with {what} is connected, and no message gets from one component to another: {remedy}.")


def _graph(agents: int, edges: np.ndarray, positions: np.ndarray | None = None) -> Graph:
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(agents) if positions is None else ((n, {"pos": tuple(place)}) for n, place in enumerate(positions.tolist())))
    graph.add_edges_from(edges[np.lexsort((edges[:, 1], edges[:, 0]))].tolist())
    return graph


def _undirected(graph: Graph) -> None:
    if not hasattr(graph, "adjacency"):
        raise GraphError(f"{type(graph).__name__} is no networkx.Graph: mm.topology.from_edges makes one from pairs of agents.")
    if graph.is_directed() or graph.is_multigraph():
        raise GraphError(f"a {type(graph).__name__}: links carry messages both ways and count once. networkx.Graph(g) has such.")


def _whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise GraphError(f"{name}={value!r}: a whole number from {least} on is needed, or there is no such graph.")


_REGISTRY = Registry("topology", GraphError, {
    "default": default,
    "random_geometric": random_geometric,
    "small_world": small_world,
    "line": line,
    "ring": ring,
    "star": star,
    "grid": grid,
    "complete": complete,
    "tree": tree,
})
get, maker, names, register = _REGISTRY.get, _REGISTRY.maker, _REGISTRY.names, _REGISTRY.register
