"""DAM-TOGD: iterates travel down routing trees, gradients travel back up, and are used when they arrive."""

from __future__ import annotations

from typing import Any, NamedTuple, final

from mnemesh.algorithms.algorithm import Algorithm, Info, Rows, rows_of
from mnemesh.algorithms.world import Sample, World, outer_sum, take
from mnemesh.errors import AlgorithmError
from mnemesh.problem import Problem
from mnemesh.routing.trees import Trees
from mnemesh.types import Array, at_set, namespace

__all__ = ["History", "TreeDescent", "dam_togd"]


class History(NamedTuple):
    """X_{n,t} and what is on its way: the last H = τ_max + 1 rounds, round t in slot t mod H. A residual is all that a reply needs."""

    memories: Array  # (N, d_v, d_φ)
    residuals: Array  # w_{n,m} r_{n,m}, (H, N, P·A, d_v)
    features: Array  # φ(k_m), (H, rows of the sample, A·d_φ)
    decays: Array | None  # Σ over the partners of one delay of w_{n,m} D_m, (H, delays in use, N, d_v or 1, d_φ or 1)
    iterates: Array | None  # X_n, (H, N, d_v, d_φ): only a decay needs them


@final
class TreeDescent(Algorithm):
    """(7): X_{n,t+1} = Π[ X_{n,t} − η_{n,t} Σ_m w_{n,m} ∇f_{m,t−τ_{n,m}}(X_{n,t−τ_{n,m}}) 1{t > τ_{n,m}} ].

    The gradient is r φᵀ + D ∘ X. Its residual r is known in round t − τ, when the loss is accounted, so the residual waits and not the iterate.
    """

    name = "dam_togd"
    agent_by_agent = True

    def __init__(self, trees: Trees, step: Any) -> None:
        super().__init__(step)
        if not isinstance(trees, Trees):
            raise AlgorithmError(f"trees={type(trees).__name__} are no routing trees: build them with mm.routing.steiner(graph, interest) or another builder.")
        self.trees = trees

    def rows(self, problem: Problem) -> Rows:
        self.trees.check(problem.interest)
        return rows_of(problem, self.trees.delays)

    def init(self, world: World, memories: Array) -> History:
        xp = namespace(memories)
        (agents, d_v, d_phi), (_, count), rounds = memories.shape, world.learn.data.shape, world.memory
        zeros = lambda *shape: xp.zeros(shape, dtype=memories.dtype)  # noqa: E731
        decays = iterates = None
        if world.loss.decays:
            axes = {"value": (d_v, 1), "key": (1, d_phi)}.get(world.loss.gate or "scalar", (1, 1))
            decays, iterates = zeros(rounds, len(world.ages), agents, *axes), zeros(rounds, agents, d_v, d_phi)
        residuals = zeros(rounds, agents, count * world.associations, d_v)
        return History(memories, residuals, zeros(rounds, world.samples, world.associations * d_phi), decays, iterates)

    def step(self, world: World, state: History, sample: Sample, rate: Array) -> tuple[History, Info]:
        memories, rounds = state.memories, world.memory
        seen = world.look(memories, sample, world.score)
        state = _remember(world, state, seen.residuals, sample)
        (agents, count), samples = world.learn.data.shape, state.features.shape[1]
        slots = (sample.round - world.learn.delays) % rounds  # as old as the tree makes it
        xp = namespace(memories)
        rows = xp.arange(agents * count, dtype=slots.dtype).reshape(agents, count)
        residuals = take(state.residuals.reshape(rounds * agents * count, -1), slots * (agents * count) + rows)
        features = take(state.features.reshape(rounds * samples, -1), slots * samples + world.learn.data)
        d_v, d_phi = memories.shape[1:]
        gradient = outer_sum(residuals.reshape(agents, -1, d_v), features.reshape(agents, -1, d_phi), world.tiny)  # Σ_m w_{n,m} r kᵀ
        if state.decays is not None and state.iterates is not None:
            for place, age in enumerate(world.ages):
                then = (sample.round - age) % rounds
                gradient = gradient + state.decays[then, place] * state.iterates[then]  # D_{m,t−τ} ∘ X_{n,t−τ}
        memories = world.domain.project(memories - rate * gradient)  # (7)
        return state._replace(memories=memories), Info(seen.losses)

    def signature(self) -> type:
        return type(self)

    def settings(self) -> dict[str, Any]:
        return {"trees": self.trees}

    def __repr__(self) -> str:
        return f"dam_togd({self.trees!r}, step={self.rule!r})"


def _remember(world: World, state: History, residuals: Array, sample: Sample) -> History:
    """Put round t into its slot."""
    slot = sample.round % world.memory
    state = state._replace(
        residuals=at_set(state.residuals, slot, residuals),
        features=at_set(state.features, slot, sample.features.reshape(sample.features.shape[0], -1)),
    )
    if state.decays is None or state.iterates is None or sample.decay is None:
        return state
    decays, weights = state.decays, world.learn.weights[:, :, None, None]
    theirs = take(sample.decay, world.learn.data)
    for place, age in enumerate(world.ages):
        of_this_age = (world.learn.delays == age)[:, :, None, None]
        decays = at_set(decays, (slot, place), (weights * of_this_age * theirs).sum(1))
    return state._replace(decays=decays, iterates=at_set(state.iterates, slot, state.memories))


def dam_togd(trees: Trees, *, step: Any) -> TreeDescent:
    """Delayed online gradient descent along routing trees (7), at the rate `step`."""
    return TreeDescent(trees, step)
