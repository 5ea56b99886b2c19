"""Algorithm 1 taken at its word: agents that hold memories, and messages that cross one link a round. Slow, and sharing no code with mnemesh.

A query (root, stamp, iterate) goes down the root's tree, in copies where the tree branches; whoever it concerns evaluates the loss of the stamped
round at the iterate it carries, and the reply climbs back link by link, to be used in the round it arrives. Rounds are t = 1..T.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

Memory = np.ndarray  # (d_v, d_φ)
Gradient = tuple[float, np.ndarray]  # a loss and its gradient


# Table 1, row by row: f(X) and ∇f(X) for one association, x = φ(k).


def linear(X: Memory, x: np.ndarray, v: np.ndarray, gate: Any, axis: str | None) -> Gradient:
    return -np.dot(X @ x, v), -np.outer(v, x)


def gated_linear(X: Memory, x: np.ndarray, v: np.ndarray, gate: Any, axis: str | None) -> Gradient:
    return -np.dot(X @ x, v) + 0.5 * np.sum(X * forgotten(X, gate, axis)), -np.outer(v, x) + forgotten(X, gate, axis)


def delta(X: Memory, x: np.ndarray, v: np.ndarray, gate: Any, axis: str | None) -> Gradient:
    return 0.5 * np.sum((X @ x - v) ** 2), np.outer(X @ x - v, x)


def softmax(X: Memory, x: np.ndarray, v: np.ndarray, gate: Any, axis: str | None) -> Gradient:
    return -np.dot(v, X @ x), -np.outer(v, x)


def softmax_norm(X: Memory, x: np.ndarray, v: np.ndarray, gate: Any, axis: str | None) -> Gradient:
    return -np.dot(v, X @ x) + 0.5 * np.sum(X**2), X - np.outer(v, x)


def gated_softmax(X: Memory, x: np.ndarray, v: np.ndarray, gate: Any, axis: str | None) -> Gradient:
    return -np.dot(v, X @ x) + 0.5 * np.sum(X * forgotten(X, gate, axis)), forgotten(X, gate, axis) - np.outer(v, x)


def forgotten(X: Memory, gate: Any, axis: str | None) -> Memory:
    """(1 − ψ) on the gate's axis of X: rows, columns or all of it."""
    if axis == "value":
        return np.diag(1 - gate) @ X
    if axis == "key":
        return X @ np.diag(1 - gate)
    if axis == "scalar":
        return (1 - gate) * X
    raise AssertionError(axis)


TABLE = {row.__name__: row for row in (linear, gated_linear, delta, softmax, softmax_norm, gated_softmax)}


# Projections.


def onto_ball(radius: float) -> Callable[[Memory], Memory]:
    return lambda X: X if np.linalg.norm(X) <= radius else X * (radius / np.linalg.norm(X))


def onto_box(low: Any, high: Any) -> Callable[[Memory], Memory]:
    return lambda X: np.clip(X, low, high)


def onto_everything(X: Memory) -> Memory:
    return X


# Learning rates: (t, τ_min of the agent, agent) → η.


def inverse_sqrt(c: Any) -> Callable[[int, int, int], float]:
    return lambda t, tau_min, n: _of(c, n) / np.sqrt(max(t - tau_min, 1))


def schedule(of_round: Callable[[int], Any]) -> Callable[[int, int, int], float]:
    return lambda t, tau_min, n: _of(of_round(t), n)


def _of(rate: Any, n: int) -> float:
    """One rate for all, or agent n's."""
    return float(rate[n]) if np.ndim(rate) else float(rate)


@dataclass(frozen=True)
class World:
    """What everybody sees, and what it costs to have it wrong. keys (T, N, A, d_k), values (T, N, A, d_v), W (N, N)."""

    loss: str
    keys: np.ndarray
    values: np.ndarray
    W: np.ndarray
    rate: Callable[[int, int, int], float]
    project: Callable[[Memory], Memory] = onto_everything
    features: Callable[[np.ndarray], np.ndarray] = lambda k: k
    gates: np.ndarray | None = None
    axis: str | None = None
    present: np.ndarray | None = None
    initial: np.ndarray | None = None

    @property
    def rounds(self) -> int:
        return self.keys.shape[0]

    @property
    def agents(self) -> range:
        return range(self.keys.shape[1])

    def f(self, m: int, t: int, X: Memory) -> Gradient:
        """f_{m,t}(X) and ∇f_{m,t}(X): the mean over the round's associations; without any, no loss and no decay."""
        shown = [a for a in range(self.keys.shape[2]) if self.present is None or self.present[t - 1, m, a]]
        if not shown:
            return 0.0, np.zeros_like(X)
        gate = None if self.gates is None else self.gates[t - 1, m]
        each = [TABLE[self.loss](X, self.features(self.keys[t - 1, m, a]), self.values[t - 1, m, a], gate, self.axis) for a in shown]
        return sum(value for value, _ in each) / len(shown), sum(gradient for _, gradient in each) / len(shown)

    def suffered(self, n: int, t: int, X: Memory) -> float:
        """Σ_m w_{n,m} f_{m,t}(X)."""
        return sum(self.W[n, m] * self.f(m, t, X)[0] for m in self.agents if self.W[n, m] > 0)

    def start(self) -> list[Memory]:
        """X_{n,1} = Π(0) unless given."""
        if self.initial is not None:
            return [np.array(self.initial[n]) for n in self.agents]
        return [self.project(np.zeros((self.values.shape[-1], len(self.features(self.keys[0, 0, 0]))))) for _ in self.agents]


class Outcome(NamedTuple):
    """losses (T, N), Σ_m w f_{m,t}(X_{n,t}); memories (T + 1, N, d_v, d_φ), X_{n,1} .. X_{n,T+1}; links crossed per round by queries and by replies."""

    losses: np.ndarray
    memories: np.ndarray
    crossed: list[Counter[str]]


def _outcome(losses: list[list[float]], memories: list[list[Memory]], crossed: Sequence[Counter[str]] = ()) -> Outcome:
    return Outcome(np.array(losses), np.array(memories), list(crossed))


def ogd(world: World) -> Outcome:
    """(3): X_{n,t+1} = Π[X_{n,t} − η_t Σ_m w_{n,m} ∇f_{m,t}(X_{n,t})]."""
    X, losses = [world.start()], []
    for t in range(1, world.rounds + 1):
        losses.append([world.suffered(n, t, X[-1][n]) for n in world.agents])
        gradients = [sum(world.W[n, m] * world.f(m, t, X[-1][n])[1] for m in world.agents) for n in world.agents]
        X.append([world.project(X[-1][n] - world.rate(t, 0, n) * gradients[n]) for n in world.agents])
    return _outcome(losses, X)


def local_ogd(world: World) -> Outcome:
    """X_{n,t+1} = Π[X_{n,t} − η_t ∇f_{n,t}(X_{n,t})]."""
    X, losses = [world.start()], []
    for t in range(1, world.rounds + 1):
        losses.append([world.suffered(n, t, X[-1][n]) for n in world.agents])
        X.append([world.project(X[-1][n] - world.rate(t, 0, n) * world.f(n, t, X[-1][n])[1]) for n in world.agents])
    return _outcome(losses, X)


def c_dogd(world: World, mixing: np.ndarray) -> Outcome:
    """(5): X_{n,t+1} = Π[Σ_m a_{n,m} X_{m,t} − η_t ∇f_{n,t}(X_{n,t})], the gradient at the agent's own point, of its own loss."""
    X, losses = [world.start()], []
    for t in range(1, world.rounds + 1):
        losses.append([world.suffered(n, t, X[-1][n]) for n in world.agents])
        mixed = [sum(mixing[n, m] * X[-1][m] for m in world.agents) for n in world.agents]
        X.append([world.project(mixed[n] - world.rate(t, 0, n) * world.f(n, t, X[-1][n])[1]) for n in world.agents])
    return _outcome(losses, X)


def metropolis(agents: int, links: Sequence[tuple[int, int]]) -> np.ndarray:
    """a_{n,m} = 1/(1 + max(deg_n, deg_m)) on links, the rest on the diagonal."""
    degree = Counter(end for link in links for end in link)
    mixing = np.zeros((agents, agents))
    for a, b in links:
        mixing[a, b] = mixing[b, a] = 1 / (1 + max(degree[a], degree[b]))
    return mixing + np.diag(1 - mixing.sum(1))


@dataclass
class Agent:
    """Its memory, what it has seen, and the gradients that came back to it this round."""

    name: int
    memory: Memory
    inbox: list[tuple[int, np.ndarray]] = field(default_factory=list)


class Query(NamedTuple):
    root: int
    stamp: int
    iterate: Memory


class Reply(NamedTuple):
    root: int
    author: int
    gradient: np.ndarray


class Network:
    """Trees (one {node: parent} per root) laid over links, with the messages that are on their way: each is about to cross one link."""

    def __init__(self, world: World, parents: Sequence[dict[int, int | None]], links: Sequence[tuple[int, int]]) -> None:
        self.world, self.parents = world, parents
        self.links = {frozenset(link) for link in links}
        self.agents = [Agent(n, X) for n, X in enumerate(world.start())]
        self.flying: list[tuple[int, Query | Reply]] = []  # (where to, what)

    def send(self, origin: int, target: int, message: Query | Reply) -> None:
        assert frozenset((origin, target)) in self.links, f"{origin} and {target} share no link"
        self.flying.append((target, message))

    def cross(self) -> Counter[str]:
        """Every message crosses one link; whoever gets it sends on what has to go on, which waits for the next round."""
        landed, self.flying = self.flying, []
        for at, message in landed:
            if isinstance(message, Query):
                self.concern(at, message)
            elif at == message.root:
                self.agents[at].inbox.append((message.author, message.gradient))
            else:
                self.send(at, self.parents[message.root][at], message)
        return Counter(type(message).__name__ for _, message in landed)

    def concern(self, at: int, query: Query) -> None:
        """A query is at a node: answer it if the root cares about this node's data, and hand it down."""
        for child in [node for node, parent in self.parents[query.root].items() if parent == at]:
            self.send(at, child, query)
        if self.world.W[query.root, at] == 0:
            return
        gradient = self.world.f(at, query.stamp, query.iterate)[1]
        if at == query.root:
            self.agents[at].inbox.append((at, gradient))
        else:
            self.send(at, self.parents[query.root][at], Reply(query.root, at, gradient))


def hops(parents: dict[int, int | None], node: int) -> int:
    """Links between a node and its root."""
    return 0 if parents[node] is None else 1 + hops(parents, parents[node])


def dam_togd(world: World, parents: Sequence[dict[int, int | None]], links: Sequence[tuple[int, int]], *, instantly: bool = False) -> Outcome:
    """(7) as messages, in the order of the clock. `instantly`: links take no time, so that everything sent in a round lands in it."""
    network, X, losses, crossed = Network(world, parents, links), [], [], []
    round_trips = [[2 * hops(parents[n], m) for m in world.agents if world.W[n, m] > 0] for n in world.agents]
    tau_min = [0 if instantly else min(trips) for trips in round_trips]
    X.append([agent.memory for agent in network.agents])
    for t in range(1, world.rounds + 1):
        crossed.append(network.cross())
        losses.append([world.suffered(agent.name, t, agent.memory) for agent in network.agents])
        for agent in network.agents:
            network.concern(agent.name, Query(agent.name, t, agent.memory))
        while instantly and network.flying:
            crossed[-1] += network.cross()
        for agent in network.agents:
            gradient = sum((world.W[agent.name, m] * reply for m, reply in agent.inbox), np.zeros_like(agent.memory))
            agent.memory = world.project(agent.memory - world.rate(t, tau_min[agent.name], agent.name) * gradient)
            agent.inbox.clear()
        X.append([agent.memory for agent in network.agents])
    return _outcome(losses, X, crossed)
