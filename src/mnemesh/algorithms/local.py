"""Local OGD: each agent learns from its own data alone, and is judged by its interests all the same."""

from __future__ import annotations

from typing import Any, final

from mnemesh.algorithms.algorithm import Algorithm, Info, Memories, Rows, own_rows
from mnemesh.algorithms.world import Sample, World
from mnemesh.problem import Problem
from mnemesh.types import Array

__all__ = ["Local", "local_ogd"]


@final
class Local(Algorithm):
    """X_{n,t+1} = Π[ X_{n,t} − η_{n,t} ∇f_{n,t}(X_{n,t}) ]."""

    name = "local_ogd"
    agent_by_agent = True

    def rows(self, problem: Problem) -> Rows:
        return own_rows(problem)

    def step(self, world: World, state: Memories, sample: Sample, rate: Array) -> tuple[Memories, Info]:
        score = world.look(state.memories, sample, world.score)
        own = world.look(state.memories, sample, world.learn)
        gradient = world.gradient(own, state.memories)  # ∇f_{n,t}(X_{n,t})
        return Memories(world.domain.project(state.memories - rate * gradient)), Info(score.losses)

    def signature(self) -> type:
        return type(self)


def local_ogd(*, step: Any) -> Local:
    """Online gradient descent on each agent's own losses, at the rate `step`."""
    return Local(step)
