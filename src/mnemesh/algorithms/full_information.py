"""Full-information OGD: every gradient that an agent cares about is there at once. What no network can beat, and what routing is measured against."""

from __future__ import annotations

from typing import Any, final

from mnemesh.algorithms.algorithm import Algorithm, Info, Memories, Rows, rows_of
from mnemesh.algorithms.world import Sample, World
from mnemesh.problem import Problem
from mnemesh.types import Array

__all__ = ["FullInformation", "ogd"]


@final
class FullInformation(Algorithm):
    """(3): X_{n,t+1} = Π[ X_{n,t} − η_{n,t} Σ_m w_{n,m} ∇f_{m,t}(X_{n,t}) ]."""

    name = "ogd"
    agent_by_agent = True

    def rows(self, problem: Problem) -> Rows:
        return rows_of(problem)

    def step(self, world: World, state: Memories, sample: Sample, rate: Array) -> tuple[Memories, Info]:
        seen = world.look(state.memories, sample, world.score)
        gradient = world.gradient(seen, state.memories)  # Σ_m w_{n,m} ∇f_{m,t}(X_{n,t})
        return Memories(world.domain.project(state.memories - rate * gradient)), Info(seen.losses)  # (3)

    def signature(self) -> type:
        return type(self)


def ogd(*, step: Any) -> FullInformation:
    """Full-information online gradient descent (3), at the rate `step`."""
    return FullInformation(step)
