"""Laws of algorithms."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mnemesh.algorithms import Algorithm
from mnemesh.domains import ball
from mnemesh.draws import generator
from mnemesh.engine import Online, simulate
from mnemesh.interest import Interest, from_array
from mnemesh.problem import Problem
from mnemesh.routing import from_parents, shortest_path
from mnemesh.routing.trees import Trees
from mnemesh.streams import Stream, from_arrays
from mnemesh.testing.laws import close, has, holds
from mnemesh.types import Graph

__all__ = ["check_algorithm"]

_Make = Callable[[Graph, Trees], Algorithm]

_AGENTS, _ROUNDS, _KEYS, _VALUES = 5, 24, 3, 2


class _World(NamedTuple):
    """One small problem: a few agents with links and interests, and what they see."""

    graph: Graph
    trees: Trees
    interest: Interest
    keys: np.ndarray
    values: np.ndarray
    gates: np.ndarray

    def stream(self) -> Stream:
        return from_arrays(self.keys, self.values, gates=self.gates)

    def problem(self, loss: str) -> Problem:
        return Problem(loss, ball(0.7), self.interest)  # small, so that the projection acts


def check_algorithm(make: _Make, *, losses: tuple[str, ...] = ("delta", "gated_linear"), seed: int = 0) -> None:
    """What every learner must do, whatever it learns; `make(graph, trees)` builds it.

    The losses it tells are those of the memories it played; the same run gives the same bits; no data of the future are used; a zero
    gradient moves nothing, and data that repeat are learned; memories stay in the domain; relabelled agents give relabelled memories;
    all engines agree; a run saved and loaded goes on to the same bits.

    >>> from mnemesh import algorithms, steps
    >>> check_algorithm(lambda graph, trees: algorithms.dam_togd(trees, step=steps.constant(0.1)))
    """
    world = _world(seed)
    for loss in losses:
        trace = _play(make, world, loss, record_every=1)
        again = _play(make, world, loss, record_every=1)
        name = repr(make(world.graph, world.trees))
        holds(np.array_equal(trace.history, again.history), f"{name}: the same run twice gives different bits.")
        holds(ball(0.7).contains(trace.history), f"{name}: a memory leaves the domain.")
        _check_losses(world, loss, trace, name)
        _check_causal(make, world, loss, trace, name)
        _check_relabelling(make, world, loss, trace, name, seed)
        _check_resumable(make, world, loss, trace, name)
        for engine in _engines(make(world.graph, world.trees)):
            there = _play(make, world, loss, engine=engine)
            close(there.memories, trace.memories, 1e-10, f"{name}: the memories differ between NumPy and {engine}")
            close(there.losses, trace.losses, 1e-10, f"{name}: the losses differ between NumPy and {engine}")
    _check_still(make, world)
    _check_learns(make, world)


def _world(seed: int) -> _World:
    rng = generator(seed, "testing/algorithm")
    graph = importlib.import_module("networkx").path_graph(_AGENTS)
    graph.add_edge(1, 3)
    weights = rng.random((_AGENTS, _AGENTS)) * (rng.random((_AGENTS, _AGENTS)) < 0.6) + np.eye(_AGENTS)
    interest = from_array(weights / weights.sum(1, keepdims=True))
    keys, values = rng.uniform(-1, 1, (_ROUNDS, _AGENTS, _KEYS)), rng.standard_normal((_ROUNDS, _AGENTS, _VALUES))
    return _World(graph, shortest_path(graph, interest), interest, keys, values, rng.random((_ROUNDS, _AGENTS, _VALUES)))


def _engines(algorithm: Algorithm) -> list[str]:
    """The other engines that say they can play it and are installed."""
    return [engine for engine in ("jax", "numba") if has(engine) and (engine == "jax" or algorithm.agent_by_agent)]


def _play(make: _Make, world: _World, loss: str, *, engine: str = "numpy", **settings: Any) -> Any:
    algorithm = make(world.graph, world.trees)
    return simulate(world.problem(loss), algorithm, world.stream(), engine=engine, dtype="float64", **settings)


def _check_losses(world: _World, loss: str, trace: Any, name: str) -> None:
    problem, played = world.problem(loss), np.asarray(trace.history)
    there = problem.loss.value(np.einsum("tnij,tmj->tnmi", played, world.keys), world.values[:, None])
    if problem.loss.decays:
        there = there + 0.5 * (problem.loss.decay(world.gates)[:, None] * played[:, :, None] ** 2).sum((-2, -1))
    wanted = (np.asarray(world.interest) * there).sum(-1)
    close(trace.losses, wanted, 1e-10, f"{name}: the losses it tells are not Σ_m w_{{n,m}} f_{{m,t}}(X_{{n,t}}), so its regret would be another's")


def _check_causal(make: _Make, world: _World, loss: str, trace: Any, name: str) -> None:
    late = _ROUNDS // 2
    values = world.values.copy()
    values[late:] = -3 * values[late:]
    other = _play(make, world._replace(values=values), loss, record_every=1)
    same = np.asarray(trace.recorded_rounds) <= late
    holds(np.array_equal(trace.history[same], other.history[same]), f"{name}: what is seen after round {late} changes a memory before it.")


def _check_relabelling(make: _Make, world: _World, loss: str, trace: Any, name: str, seed: int) -> None:
    order = generator(seed, "testing/relabelling").permutation(_AGENTS)  # the new name of each agent
    graph = importlib.import_module("networkx").Graph()
    graph.add_nodes_from(range(_AGENTS))
    graph.add_edges_from((int(order[a]), int(order[b])) for a, b in world.graph.edges)
    old = np.argsort(order)
    interest = from_array(np.asarray(world.interest)[old][:, old])
    parents = [
        {int(order[node]): None if parent is None else int(order[parent]) for node, parent in world.trees.parents[n].items()} for n in old
    ]
    moved = _World(graph, from_parents(graph, parents, interest), interest, world.keys[:, old], world.values[:, old], world.gates[:, old])
    other = _play(make, moved, loss)
    close(other.memories, trace.memories[old], 1e-10, f"{name}: other names for the same agents give other memories")
    close(other.losses, trace.losses[:, old], 1e-10, f"{name}: other names for the same agents give other losses")


def _check_resumable(make: _Make, world: _World, loss: str, trace: Any, name: str) -> None:
    gates = world.gates if world.problem(loss).loss.gate else None
    run = Online(world.problem(loss), make(world.graph, world.trees), key_dim=_KEYS, value_dim=_VALUES, dtype="float64")
    with tempfile.TemporaryDirectory() as folder:
        for t in range(_ROUNDS):
            if t == _ROUNDS // 2 + 1:
                run.save(Path(folder) / "run")
                run = Online.load(Path(folder) / "run", algorithm=make(world.graph, world.trees))
            seen = run.learn(world.keys[t], world.values[t], gates=None if gates is None else gates[t])
            holds(np.array_equal(seen, trace.losses[t]), f"{name}: round {t + 1} of a run saved, loaded and fed by hand has other losses.")
    holds(np.array_equal(run.memories, trace.memories), f"{name}: a run that was saved and loaded ends in other memories.")


def _check_still(make: _Make, world: _World) -> None:
    same = np.full((_VALUES, _KEYS), 0.1)
    still = world._replace(values=np.zeros_like(world.values))
    trace = _play(make, still, "linear", initial=same)  # r = −v = 0
    name = repr(make(world.graph, world.trees))
    close(trace.memories, np.broadcast_to(same, trace.memories.shape), 1e-12, f"{name}: a memory moves although every gradient is zero")


def _check_learns(make: _Make, world: _World) -> None:
    """The same association for everybody in every round, and the linear loss: whoever goes downhill gains in every round."""
    keys, values = (np.broadcast_to(part[:1, :1], part.shape) for part in (world.keys, world.values))
    constant, name = world._replace(keys=keys, values=values), repr(make(world.graph, world.trees))
    trace = _play(make, constant, "linear", record_every=1)
    holds(trace.losses[-1] < trace.losses[0], f"{name}: after {_ROUNDS} rounds of one and the same association an agent recalls it no better than at first.")
    narrow = Problem("linear", ball(1e-9), world.interest)  # any move leaves it
    trace = simulate(narrow, make(world.graph, world.trees), constant.stream(), engine="numpy", dtype="float64", record_every=1)
    holds(narrow.domain.contains(trace.history), f"{name}: a memory leaves the domain.")
