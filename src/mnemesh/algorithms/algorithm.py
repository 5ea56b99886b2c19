"""What an algorithm is: data (whom each agent learns from, with which weight, how late) and two pure functions, `init` and `step`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from mnemesh.algorithms.world import Sample, World
from mnemesh.problem import Problem
from mnemesh.steps import Step, as_step
from mnemesh.types import Array

__all__ = ["Algorithm", "Info", "Memories", "Rows", "own_rows", "rows_of"]


class Rows(NamedTuple):
    """Ragged rows: agent n's entries are the places starts[n] .. starts[n + 1] - 1 of the other three."""

    starts: np.ndarray
    partners: np.ndarray
    weights: np.ndarray
    delays: np.ndarray

    def __repr__(self) -> str:
        return f"Rows(agents={len(self.starts) - 1}, {self.partners.size} entries, delays up to {self.delays.max()})"


class Info(NamedTuple):
    """What a reader wants to know of a round."""

    losses: Array  # Σ_m w_{n,m} f_{m,t}(X_{n,t}), (N,)


class Memories(NamedTuple):
    """The state of an algorithm that needs no history: X_{n,t}."""

    memories: Array


class Algorithm(ABC):
    """X_{n,t+1} = Π[ Σ_m a_{n,m} X_{m,t} − η_{n,t} Σ_{m∈𝒫_n} p_{n,m} ∇f_{m,t−δ_{n,m}}(X_{n,t−δ_{n,m}}) ], or something else with `init` and `step`."""

    name: str
    rule: Step
    agent_by_agent: bool = False  # whether `rows` says all there is to say, so that the compiled kernel may play it

    def __init__(self, step: Any) -> None:
        self.rule = as_step(step)

    @abstractmethod
    def rows(self, problem: Problem) -> Rows:
        """𝒫_n with p_{n,m} and δ_{n,m}: whom each agent learns from."""

    def mixing(self, problem: Problem) -> Rows | None:
        """The mixing weights a_{n,m}, diagonal included; None: each agent keeps to its own memory."""
        return None

    def tau_min(self, problem: Problem) -> np.ndarray:
        """The shortest delay of each agent, (N,): what c/√(t − τ_min) counts from."""
        rows = self.rows(problem)
        return np.minimum.reduceat(rows.delays, rows.starts[:-1])

    def init(self, world: World, memories: Array) -> Any:
        """The state of round 1: a NamedTuple of arrays whose field `memories` is X_{n,1}. Zeros elsewhere mean: nothing has arrived yet."""
        return Memories(memories)

    @abstractmethod
    def step(self, world: World, state: Any, sample: Sample, rate: Array) -> tuple[Any, Info]:
        """One round: from X_{n,t} and what is seen in round t to X_{n,t+1}. Pure; plain array operations that NumPy and JAX accept."""

    def signature(self) -> Hashable:
        """What a compiled `step` depends on beside the arrays: equal signatures share one compilation."""
        return self

    def settings(self) -> dict[str, Any]:
        """What the registry's maker needs to build this algorithm again, the step apart."""
        return {}

    def __repr__(self) -> str:
        return f"{self.name}(step={self.rule!r})"


def rows_of(problem: Problem, delays: np.ndarray | None = None) -> Rows:
    """𝒲_n with its weights, at no delay or at these."""
    interest = problem.interest
    return Rows(interest.starts, interest.partners, interest.weights, np.zeros(len(interest.partners), np.int64) if delays is None else delays)


def own_rows(problem: Problem) -> Rows:
    """{n} with weight 1, at no delay."""
    everyone = np.arange(problem.agents)
    return Rows(np.arange(problem.agents + 1), everyone, np.ones(problem.agents), np.zeros(problem.agents, np.int64))
