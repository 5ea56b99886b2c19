"""Random problems, twice over: as mnemesh's objects and as the literal reference's plain arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import networkx as nx
import numpy as np

import mnemesh as mm
import reference

ALGORITHMS = ("ogd", "local_ogd", "c_dogd", "dam_togd")
LOSSES = (
    ("linear", None), ("delta", None), ("softmax", None), ("softmax_norm", None),
    ("gated_linear", "value"), ("gated_linear", "key"), ("gated_linear", "scalar"),
    ("gated_softmax", "value"), ("gated_softmax", "key"), ("gated_softmax", "scalar"),
)  # fmt: skip
DOMAINS = ("ball", "box", "everything")
TREES = ("shortest_path", "steiner", "naive", "mehlhorn", "from_parents", "instant")
STEPS = ("inverse_sqrt", "per_agent", "constant", "inverse", "callable")
FEATURES = ("identity", "elu_plus_one", "taylor", "positive_random")


@dataclass(frozen=True)
class Case:
    """A random problem; equal cases are equal problems."""

    algorithm: str = "dam_togd"
    loss: str = "delta"
    gate: str | None = None
    domain: str = "ball"
    trees: str = "shortest_path"
    step: str = "inverse_sqrt"
    features: str = "identity"
    masked: bool = False
    agents: int = 6
    partners: int | None = 3  # per agent; None: everybody has as many as chance gives it
    rounds: int = 30
    key_dim: int = 3
    value_dim: int = 2
    given: bool = False  # whether initial memories are given
    seed: int = 0

    def __str__(self) -> str:
        words = [self.algorithm, self.loss, self.gate, self.domain, self.trees if self.algorithm == "dam_togd" else None]
        return "-".join([*(word for word in words if word), "masked" if self.masked else "single"])


@dataclass(frozen=True)
class Built:
    """The same problem for mnemesh (problem, algorithm, stream, initial) and for the reference (world, expected)."""

    problem: Any
    algorithm: Any
    stream: Any
    initial: np.ndarray | None
    world: reference.World
    expected: Callable[[], reference.Outcome]
    trees: Any = None
    graph: Any = None

    def simulate(self, **settings: Any) -> Any:
        return mm.simulate(self.problem, self.algorithm, self.stream, initial=self.initial, **settings)


def connected_graph(rng: np.random.Generator, agents: int, extra: int = 2) -> nx.Graph:
    """A random tree with a few links more."""
    graph = nx.Graph()
    graph.add_nodes_from(range(agents))
    names = rng.permutation(agents)
    graph.add_edges_from((int(names[n]), int(names[rng.integers(n)])) for n in range(1, agents))
    for _ in range(extra):
        a, b = rng.integers(agents, size=2)
        if a != b:
            graph.add_edge(int(a), int(b))
    return graph


def sparse_interest(rng: np.random.Generator, agents: int, partners: int | None) -> np.ndarray:
    """Rows that sum to 1 on a few agents each, oneself among them or not."""
    W = np.zeros((agents, agents))
    for n in range(agents):
        count = partners or int(rng.integers(1, agents + 1))
        chosen = rng.choice(agents, size=min(count, agents), replace=False)
        W[n, chosen] = rng.dirichlet(np.full(len(chosen), 2.0))
    return W


def random_parents(rng: np.random.Generator, graph: nx.Graph, W: np.ndarray) -> list[dict[int, int | None]]:
    """One random tree per root that reaches its partners and ends at them, seldom a short one."""
    trees = []
    for root in range(len(W)):
        weighted = nx.Graph((a, b, {"weight": rng.random()}) for a, b in graph.edges)
        weighted.add_nodes_from(graph)
        tree = nx.minimum_spanning_tree(weighted)
        wanted = {root, *np.flatnonzero(W[root]).tolist()}
        while useless := [node for node in tree if tree.degree(node) <= 1 and node not in wanted]:
            tree.remove_nodes_from(useless)
        trees.append({root: None, **{node: parent for parent, node in nx.bfs_edges(tree, root)}})
    return trees


def route(name: str, graph: nx.Graph, W: np.ndarray, rng: np.random.Generator) -> Any:
    """The trees of one of TREES."""
    interest = mm.interest.from_array(W)
    if name == "from_parents":
        return mm.routing.from_parents(graph, random_parents(rng, graph, W), interest)
    if name == "naive":
        return mm.routing.steiner(graph, interest, ties="naive")
    return getattr(mm.routing, name)(graph, interest)


def choose_step(name: str, rng: np.random.Generator, agents: int) -> tuple[Any, Callable[[int, int, int], float]]:
    c = float(rng.uniform(0.1, 0.4))
    several = rng.uniform(0.1, 0.4, size=agents)
    return {
        "inverse_sqrt": (mm.steps.inverse_sqrt(c), reference.inverse_sqrt(c)),
        "per_agent": (mm.steps.inverse_sqrt(several), reference.inverse_sqrt(several)),
        "constant": (mm.steps.constant(c / 3), reference.schedule(lambda t: c / 3)),
        "inverse": (mm.steps.inverse(9 * c, t0=8.0), reference.schedule(lambda t: 9 * c / (t + 8))),
        "callable": (lambda t: several * 0.97**t, reference.schedule(lambda t: several * 0.97**t)),
    }[name]


def choose_features(name: str, key_dim: int, seed: int) -> tuple[Any, Callable[[np.ndarray], np.ndarray]]:
    if name == "positive_random":
        drawn = mm.features.positive_random(key_dim, 4, seed=seed)
        return drawn, lambda k: np.array([np.exp(w @ k - 0.5 * k @ k) for w in drawn.directions]) / 2
    return getattr(mm.features, name)(), {
        "identity": lambda k: k,
        "elu_plus_one": lambda k: np.array([1 + e if e > 0 else np.exp(e) for e in k]),
        "taylor": lambda k: np.concatenate([[1.0], k, np.outer(k, k).ravel() / np.sqrt(2)]),
    }[name]


def choose_domain(name: str, rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Any, Callable[[np.ndarray], np.ndarray]]:
    """Small enough to be felt; the box need not contain 0."""
    low = rng.uniform(-0.4, 0.1, size=shape)
    high = low + rng.uniform(0.2, 0.7, size=shape)
    return {
        "ball": (mm.domains.ball(0.6), reference.onto_ball(0.6)),
        "box": (mm.domains.box(low, high), reference.onto_box(low, high)),
        "everything": (mm.domains.everything(), reference.onto_everything),
    }[name]


def build(case: Case) -> Built:
    """Both forms of a case."""
    rng = np.random.default_rng(case.seed)
    T, N, A = case.rounds, case.agents, 3 if case.masked else 1
    graph = connected_graph(rng, N)
    W = sparse_interest(rng, N, case.partners)
    features, phi = choose_features(case.features, case.key_dim, case.seed)
    shape = (case.value_dim, features.dim(case.key_dim))
    domain, project = choose_domain(case.domain, rng, shape)
    step, rate = choose_step(case.step, rng, N)
    keys, values = rng.uniform(-1, 1, size=(T, N, A, case.key_dim)), rng.normal(size=(T, N, A, case.value_dim))
    present = rng.random((T, N, A)) < 0.45 if case.masked else None
    gate_shape = {None: None, "value": (T, N, shape[0]), "key": (T, N, shape[1]), "scalar": (T, N)}[case.gate]
    gates = None if gate_shape is None else np.round(rng.random(gate_shape) * 1.5, 2).clip(0, 1)
    initial = np.stack([project(rng.normal(size=shape)) for _ in range(N)]) if case.given else None
    world = reference.World(case.loss, keys, values, W, rate, project, phi, gates, case.gate, present, initial)

    loss = getattr(mm.losses, case.loss)(**({"gate": case.gate} if case.gate else {}))
    problem = mm.Problem(loss, domain, W, features=features)
    plain = (keys, values) if case.masked else (keys[:, :, 0], values[:, :, 0])
    stream = mm.streams.from_arrays(*plain, gates=gates, present=present)
    trees, links = None, [(int(a), int(b)) for a, b in graph.edges]
    play: Callable[..., reference.Outcome] = getattr(reference, case.algorithm)
    if case.algorithm == "dam_togd":
        trees = route(case.trees, graph, W, rng)
        star = [{n: None, **{m: n for m in range(N) if m != n}} for n in range(N)]  # for links that take no time, any tree will do
        instantly = case.trees == "instant"
        everyone = [(a, b) for a in range(N) for b in range(a)]
        play = partial(play, parents=star if instantly else trees.parents, links=everyone if instantly else links, instantly=instantly)
        algorithm = mm.algorithms.dam_togd(trees, step=step)
    elif case.algorithm == "c_dogd":
        play = partial(play, mixing=reference.metropolis(N, links))
        algorithm = mm.algorithms.c_dogd(graph, step=step)
    else:
        algorithm = getattr(mm.algorithms, case.algorithm)(step=step)
    return Built(problem, algorithm, stream, initial, world, partial(play, world), trees, graph)
