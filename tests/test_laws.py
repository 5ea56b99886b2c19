"""Everything built in, through the public conformance kit; and things that are wrong on purpose, which the kit must tell."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import networkx as nx
import numpy as np
import pytest

import mnemesh.streams
from mnemesh import algorithms, domains, features, losses, routing, steps, testing
from mnemesh.domains import Domain
from mnemesh.features import Features
from mnemesh.losses import Attention, Loss

jnp = importlib.import_module("jax.numpy")

LOSSES = [losses.get(name) for name in losses.names()] + [
    losses.gated_linear("key"),
    losses.gated_linear("scalar"),
    losses.gated_softmax("key"),
    losses.gated_softmax("scalar"),
    losses.from_value("huber", lambda z, v: (jnp.sqrt(1 + (z - v) ** 2) - 1).sum(-1)),
]
FEATURES = [
    features.identity(), features.elu_plus_one(), features.taylor(),
    features.positive_random(3, 8, seed=1), features.positive_random(3, 8, seed=1, orthogonal=False),
]  # fmt: skip
DOMAINS = [
    domains.ball(0.5), domains.ball(200.0), domains.box(-1, 2), domains.box(100, 101), domains.everything(),
    domains.box(np.array([[-1.0], [0.0], [1.0]]), np.array([[0.0, 5.0]] * 3) + 2),
]  # fmt: skip
STEPS = [
    steps.constant(0.1), steps.inverse_sqrt(0.8), steps.inverse(2.0, t0=5.0),
    steps.constant([0.1, 0.2, 0.3, 0.4]), steps.inverse_sqrt([0.1, 0.2, 0.3, 0.4]), steps.inverse([0.1, 0.2, 0.3, 0.4]),
    steps.as_step(lambda t: 1 / (1 + np.log(t))),
]  # fmt: skip
ALGORITHMS = {
    "ogd": lambda graph, trees: algorithms.ogd(step=steps.inverse_sqrt(0.5)),
    "local_ogd": lambda graph, trees: algorithms.local_ogd(step=steps.inverse_sqrt(0.5)),
    "c_dogd": lambda graph, trees: algorithms.c_dogd(graph, step=steps.inverse_sqrt(0.5)),
    "dam_togd": lambda graph, trees: algorithms.dam_togd(trees, step=steps.constant(0.2)),
}


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_losses(loss):
    testing.check_loss(loss)
    if not loss.needs_jax:  # the same laws, slowly
        testing.check_loss(loss, value_dim=1, feature_dim=2, seed=3)


@pytest.mark.parametrize("phi", FEATURES, ids=repr)
def test_features(phi):
    testing.check_features(phi)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_domains(domain):
    testing.check_domain(domain)


@pytest.mark.parametrize("step", STEPS, ids=repr)
def test_steps(step):
    testing.check_step(step)


@pytest.mark.parametrize("name", routing.names())
def test_tree_builders(name):
    testing.check_builder(lambda graph, interest: routing.get(name, graph=graph, interest=interest))


def test_tree_builder_with_the_naive_ties():
    testing.check_builder(lambda graph, interest: routing.steiner(graph, interest, ties="naive"))


@pytest.mark.parametrize("name", algorithms.names())
def test_algorithms(name):
    testing.check_algorithm(ALGORITHMS[name])


def test_every_name_is_here():
    """A new entry of a registry is held to its laws, or this fails."""
    for module, parts in ((losses, LOSSES), (features, FEATURES), (domains, DOMAINS), (steps, STEPS)):
        assert set(module.names()) <= {part.name for part in parts}
    assert set(algorithms.names()) == set(ALGORITHMS)


# Wrong on purpose: a law that nothing can break is none.


class Wrong(Loss):
    """A loss to be spoilt."""

    name = "wrong"

    def value(self, outputs: Any, values: Any) -> Any:
        return 0.5 * ((outputs - values) ** 2).sum(-1)

    def residual(self, outputs: Any, values: Any) -> Any:
        return outputs - values


class Climbs(Wrong):
    def residual(self, outputs: Any, values: Any) -> Any:
        return values - outputs


class Widens(Wrong):
    def residual(self, outputs: Any, values: Any) -> Any:
        return (outputs - values).astype(np.float64)


class Averages(Wrong):
    def value(self, outputs: Any, values: Any) -> Any:
        whole = super().value(outputs, values)
        return whole - 0 * whole + (whole.mean() - whole.mean(0)) if whole.ndim else whole + 1

    def residual(self, outputs: Any, values: Any) -> Any:
        return outputs - values


class Claims(Wrong):
    curvature = 0.0


class Boasts(Wrong):
    def lipschitz(self, furthest: Any, value_norms: Any, feature_norms: Any) -> Any:
        return value_norms * feature_norms


class Grows(Wrong):
    gate, decays = "value", True

    def decay(self, gates: Any) -> Any:
        return gates[..., :, None] - 1


class Turns(Wrong):
    gate, decays = "value", True

    def decay(self, gates: Any) -> Any:
        return 1 - gates[..., None, :]


class Hides(Wrong):
    def decay(self, gates: Any) -> Any:
        return gates


class Halves(Wrong):
    decays = True

    def decay(self, gates: Any) -> Any:
        return gates / 2


@pytest.mark.parametrize(
    "loss, words",
    [
        (Climbs(), "the residual is not the slope of the value"),
        (Widens(), "residual turns float32 into float64"),
        (Averages(), "value of one association depends on the others"),
        (Claims(), "says curvature=0.0"),
        (Boasts(), "times its Lipschitz bound"),
        (Grows(), "negative decay"),
        (Turns(), r"needs \(5, 3, 1\)"),
        (Hides(), "says decays=False and has a decay"),
        (Halves(), "its D is 1 by definition; it gives 0.5"),
        (replace(losses.delta(), curvature=2.0), "says curvature=2.0"),
        (Attention("gated", gate="key", decays=False), "its gates would be ignored"),
        (losses.from_value("sum", lambda z, v: (z - v).sum()), r"value turns outputs \(5, 3\) into \(\)"),
    ],
    ids=lambda part: part if isinstance(part, str) else type(part).__name__,
)
def test_the_kit_tells_a_wrong_loss(loss, words):
    testing.check_loss(Wrong())
    with pytest.raises(AssertionError, match=words):
        testing.check_loss(loss)


@dataclass(frozen=True)
class Map(Features):
    """Features from a function."""

    name: str
    function: Any
    extra: int = 0

    def __call__(self, keys: Any) -> Any:
        return self.function(keys)

    def dim(self, key_dim: int) -> int:
        return key_dim + self.extra


calls = count()


@pytest.mark.parametrize(
    "phi, words",
    [
        (Map("rescaled", lambda keys: keys - keys.max(0)), "depend on the other keys"),
        (Map("misjudged", lambda keys: keys, extra=1), r"dim\(3\) says 4"),
        (Map("random", lambda keys: keys * (1 + next(calls))), "other features the second time"),
        (Map("widening", lambda keys: keys.astype(np.float64)), "turns float32 into float64"),
        (Map("infinite", lambda keys: keys * np.inf), "not finite"),
    ],
    ids=lambda part: part if isinstance(part, str) else part.name,
)
def test_the_kit_tells_wrong_features(phi, words):
    with pytest.raises(AssertionError, match=words):
        testing.check_features(phi)


class Spoilt(Domain):
    """A ball to be spoilt."""

    def __init__(self, name: str, **methods: Any) -> None:
        self.name, self.methods, self.ball = name, methods, domains.ball(2.0)

    def _do(self, method: str, *arguments: Any) -> Any:
        return self.methods.get(method, getattr(self.ball, method))(*arguments)

    def project(self, memories: Any) -> Any:
        return self._do("project", memories)

    def contains(self, memories: Any, tolerance: float = 1e-6) -> Any:
        return self._do("contains", memories, tolerance)

    def diameter(self, shape: tuple[int, int]) -> float:
        return self._do("diameter", shape)

    def radius(self, shape: tuple[int, int]) -> float:
        return self._do("radius", shape)

    def furthest(self, features: Any, values: Any) -> Any:
        return self._do("furthest", features, values)


def _norm(memories):
    return np.sqrt((np.asarray(memories) ** 2).sum((-2, -1), keepdims=True))


SPOILT = [
    (Spoilt("short", project=lambda x: x * np.minimum(1, 1.5 / _norm(x))), "its projection leaves in place are not the same"),
    (Spoilt("long", project=lambda x: x * np.minimum(1, 3 / _norm(x))), "does not contain what it projects"),
    (Spoilt("timid", project=lambda x: np.where(_norm(x) > 2, x * (1 / np.maximum(_norm(x), 1)), x)), "moves two points apart|nearer to a point"),
    (Spoilt("turned", project=lambda x: np.where(_norm(x) > 2 + 1e-9, -domains.ball(2.0).project(x), x)), "moves two points apart|nearer to a point"),
    (Spoilt("hollow", contains=lambda x, _: _norm(x)[..., 0, 0] > 1.9), "does not contain what it projects"),
    (Spoilt("narrow", diameter=lambda shape: 2.0), "its diameter is said to be 2"),
    (Spoilt("wide", diameter=lambda shape: 9.0), "more than twice the radius"),
    (Spoilt("small", radius=lambda shape: 1.0), "the radius is said to be 1|more than twice the radius"),
    (Spoilt("near", furthest=lambda phi, v: 0.1 + 0 * phi[..., 0]), "recalls worse than `furthest`"),
    (Spoilt("joint", project=lambda x: x * min(1.0, 2 / np.max(_norm(x)))), "is not|moves|nearer|depends"),
    (Spoilt("wider", project=lambda x: domains.ball(2.0).project(np.asarray(x, dtype=np.float64))), "turns float32 into float64"),
]  # fmt: skip


@pytest.mark.parametrize("domain, words", SPOILT, ids=lambda part: part if isinstance(part, str) else part.name)
def test_the_kit_tells_a_wrong_domain(domain, words):
    with pytest.raises(AssertionError, match=words):
        testing.check_domain(domain)


ticks = count()


class Forgets(steps.Step):
    """A rate that depends on how the rounds are read."""

    name = "forgets"

    def rate(self, rounds: np.ndarray, tau_min: np.ndarray) -> np.ndarray:
        return 1 / np.arange(1, len(rounds) + 1)[:, None]


@pytest.mark.parametrize(
    "step, words",
    [
        (lambda t: 0.1 + 0.001 * t, "the rate rises"),
        (lambda t: 1 - t / 500, "finite and positive"),
        (lambda t: 1 / (1 + next(ticks)), "depend on how the rounds are read"),
        (Forgets(), "depend on how the rounds are read|the rate rises"),
    ],
    ids=["rises", "ends", "counts", "forgets"],
)
def test_the_kit_tells_a_wrong_step(step, words):
    with pytest.raises(AssertionError, match=words):
        testing.check_step(step)


def _spanning(graph, interest):
    """Breadth-first trees of the whole graph: leaves that nobody asked for."""
    parents = [{root: None, **{child: node for node, child in nx.bfs_edges(graph, root)}} for root in graph]
    return routing.from_parents(graph, parents, interest)


def _hasty(graph, interest):
    """Shortest paths over the links in the order in which they were given."""
    parents = []
    for root in sorted(graph):
        paths = nx.single_source_shortest_path(graph, root)
        tree = {root: None}
        for partner in interest.row(root)[0].tolist():
            tree.update({node: before for before, node in zip(paths[partner], paths[partner][1:], strict=False)})
        parents.append(tree)
    return routing.from_parents(graph, parents, interest)


def _elsewhere(graph, interest):
    return routing.shortest_path(graph, np.eye(interest.agents))


def _lying(about):
    """Trees that say something else than they are."""

    def build(graph, interest):
        trees = routing.shortest_path(graph, interest)
        for name, lie in about(trees).items():
            setattr(trees, name, lie)
        return trees

    return build


@pytest.mark.parametrize(
    "build, words",
    [
        (_spanning, "gives no trees"),
        (_hasty, "in another order give other trees"),
        (_elsewhere, "gives no trees: the trees were built for other interests"),
        (_lying(lambda trees: {"hops": trees.hops + 1}), "has depths"),
        (_lying(lambda trees: {"delays": trees.hops}), "twice the hops"),
        (_lying(lambda trees: {"_parents": tuple({n: None} for n in range(trees.agents))}), "does not reach"),
        (_lying(lambda trees: {"_parents": tuple(tree | {(n + 1) % trees.agents: n} for n, tree in enumerate(trees.parents))}), "share no link|nobody asked for|has depths"),
    ],
    ids=["spanning", "hasty", "elsewhere", "hops", "delays", "stumps", "shortcut"],
)
def test_the_kit_tells_a_wrong_builder(build, words):
    with pytest.raises(AssertionError, match=words):
        testing.check_builder(build)


class Bent(algorithms.Algorithm):
    """Full-information OGD, to be bent: `bend(gradient, memories, sample, world)` is what it descends along."""

    name = "bent"

    def __init__(self, bend: Any = lambda gradient, *_: gradient, project: bool = True) -> None:
        super().__init__(steps.constant(0.2))
        self.bend, self.project = bend, project

    def rows(self, problem: Any) -> Any:
        return algorithms.rows_of(problem)

    def step(self, world: Any, state: Any, sample: Any, rate: Any) -> Any:
        seen = world.look(state.memories, sample, world.score)
        gradient = self.bend(world.gradient(seen, state.memories), state.memories, sample, world)
        memories = state.memories - rate * gradient
        return algorithms.Memories(world.domain.project(memories) if self.project else memories), algorithms.Info(seen.losses)


class Hasty(Bent):
    """It lets the compiled kernel play it, which knows nothing of the bend."""

    agent_by_agent = True


class Remembers(Bent):
    """Momentum that is kept outside the state."""

    def init(self, world: Any, memories: Any) -> Any:
        self.before = 0 * memories
        return super().init(world, memories)

    def step(self, world: Any, state: Any, sample: Any, rate: Any) -> Any:
        self.bend = lambda gradient, *_: gradient + 0.5 * self.before
        after, info = super().step(world, state, sample, rate)
        self.before = state.memories - after.memories
        return after, info


class Foresees(Bent):
    """What it saw last time tells it what comes."""

    seen: dict[int, Any] = {}  # noqa: RUF012

    def step(self, world: Any, state: Any, sample: Any, rate: Any) -> Any:
        t = int(sample.round)
        self.seen[t] = sample.values
        self.bend = lambda gradient, *_: gradient + self.seen.get(t + 1, sample.values).mean()
        return super().step(world, state, sample, rate)


def _by_name(gradient, memories, sample, world):
    return gradient * np.arange(1, len(memories) + 1)[:, None, None]


def _by_library(gradient, memories, sample, world):
    return gradient if isinstance(memories, np.ndarray) else 1.01 * gradient


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda graph, trees: Bent(lambda gradient, *_: gradient * (1 + 0.1 * next(ticks))), "twice gives different bits"),
        (lambda graph, trees: Bent(project=False), "leaves the domain"),
        (lambda graph, trees: Bent(_by_name), "other names for the same agents"),
        (lambda graph, trees: Bent(_by_library), "differ between NumPy and jax"),
        (lambda graph, trees: Bent(lambda gradient, memories, *_: gradient + 0.01 * memories), "moves although every gradient is zero"),
        (lambda graph, trees: Hasty(lambda gradient, *_: 1.01 * gradient), "differ between NumPy and numba"),
        (lambda graph, trees: Remembers(), "saved, loaded and fed by hand has other losses"),
        (lambda graph, trees: Foresees(), "twice gives different bits|changes a memory before it"),
    ],
    ids=["random", "escapes", "by name", "by library", "drifts", "hasty", "remembers", "foresees"],
)
def test_the_kit_tells_a_wrong_algorithm(make, words):
    with pytest.raises(AssertionError, match=words):
        testing.check_algorithm(make)


def test_the_kit_lets_an_own_algorithm_pass():
    testing.check_algorithm(lambda graph, trees: Bent())


STREAMS = {
    "drawn": mnemesh.streams.teacher(agents=5, key_dim=3, value_dim=2, rounds=60, correlation=0.5, seed=1, gate="key", associations=2, presence=0.6),
    "computed": mnemesh.streams.computed_teacher(agents=5, key_dim=3, value_dim=2, rounds=60, correlation=0.5, seed=1, gate="value", presence=0.6),
    "given": mnemesh.streams.from_arrays(np.ones((60, 5, 3)), np.ones((60, 5, 2))),
    "events": mnemesh.streams.from_events([0, 1, 1], [1, 2, 2], np.ones((3, 3)), np.ones((3, 2)), total_rounds=50),
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams(name):
    testing.check_stream(STREAMS[name])


class Flat(mnemesh.streams.Stream):
    """Right, unless told to be wrong."""

    agents, rounds, key_dim, value_dim = 3, 50, 2, 1

    def __init__(self, wrong=None):
        self.wrong, self.asked = wrong, 0

    def block(self, first, last, agents=None):
        self.asked += 1
        who = np.arange(self.agents) if agents is None or self.wrong == "deaf" else agents
        keys = np.ones((last - first, len(who), 1, 2)) * (who[:, None, None] + 1) + np.arange(first, last)[:, None, None, None]
        if self.wrong == "moody":
            keys += self.asked
        if self.wrong == "late":
            keys += first
        if self.wrong == "nan":
            keys[0, 0] = np.nan
        values = keys.sum(-1, keepdims=True)
        present = np.zeros(keys.shape[:3], dtype=bool) if self.wrong in ("masked", "full") else None
        return mnemesh.streams.Block(keys[:, :, 0] if self.wrong == "thin" else keys, values, None, present)


def test_a_stream_that_keeps_the_laws():
    testing.check_stream(Flat())


@pytest.mark.parametrize("wrong", ["deaf", "moody", "late", "nan", "masked", "full", "thin"])
def test_streams_that_break_a_law(wrong):
    stream = Flat(wrong)
    stream.masked = wrong == "full"
    with pytest.raises(AssertionError):
        testing.check_stream(stream)
