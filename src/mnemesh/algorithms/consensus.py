"""C-DOGD: agents average their neighbours' memories and descend on their own loss. One shared memory is what it tends to."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from mnemesh.algorithms.algorithm import Algorithm, Info, Memories, Rows, own_rows
from mnemesh.algorithms.world import Sample, World
from mnemesh.errors import AlgorithmError
from mnemesh.problem import Problem
from mnemesh.topology import check_graph, metropolis_rows
from mnemesh.types import Array, Graph

__all__ = ["Consensus", "c_dogd"]


@final
class Consensus(Algorithm):
    """(5): X_{n,t+1} = Π[ Σ_m a_{n,m} X_{m,t} − η_{n,t} ∇f_{n,t}(X_{n,t}) ], with a_{n,n} > 0 (the printed sum omits n itself)."""

    name = "c_dogd"

    def __init__(self, graph: Graph, step: Any) -> None:
        super().__init__(step)
        check_graph(graph)
        self.graph = graph

    def rows(self, problem: Problem) -> Rows:
        return own_rows(problem)

    def mixing(self, problem: Problem) -> Rows:
        if self.graph.number_of_nodes() != problem.agents:
            raise AlgorithmError(
                f"the graph has {self.graph.number_of_nodes()} nodes and the problem {problem.agents} agents: every agent mixes with its neighbours."
            )
        starts, neighbours, weights = metropolis_rows(self.graph)
        return Rows(starts, neighbours, weights, np.zeros(len(neighbours), dtype=np.int64))

    def step(self, world: World, state: Memories, sample: Sample, rate: Array) -> tuple[Memories, Info]:
        score = world.look(state.memories, sample, world.score)
        own = world.look(state.memories, sample, world.learn)
        mixed = world.mix(state.memories)  # Σ_m a_{n,m} X_{m,t}
        gradient = world.gradient(own, state.memories)  # ∇f_{n,t}(X_{n,t}), at the agent's own point
        return Memories(world.domain.project(mixed - rate * gradient)), Info(score.losses)  # (5)

    def signature(self) -> type:
        return type(self)

    def settings(self) -> dict[str, Any]:
        return {"graph": self.graph}


def c_dogd(graph: Graph, *, step: Any) -> Consensus:
    """Consensus distributed online gradient descent (5) with Metropolis weights on `graph`, at the rate `step`."""
    return Consensus(graph, step)
