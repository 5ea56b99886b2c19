"""How steep a problem can be: L_m, the one constant of every bound that the data decide."""

from __future__ import annotations

import numpy as np

from mnemesh.draws import AGENT_BLOCK, ROUND_BLOCK
from mnemesh.errors import BoundError
from mnemesh.problem import Problem
from mnemesh.streams.stream import Block, Stream

__all__ = ["lipschitz"]


def lipschitz(problem: Problem, stream: Stream) -> np.ndarray:
    """L_m ≥ sup ‖∇f_{m,t}(X)‖_F over X ∈ 𝒳 and all rounds of the stream, (N,): 0 for an agent that never sees anything.

    A round with several associations has their mean as its loss, so the mean of their bounds is its bound.
    """
    shape = problem.shape(stream)
    steepest = np.zeros(problem.agents)
    for start in range(0, problem.agents, AGENT_BLOCK):
        agents = np.arange(start, min(start + AGENT_BLOCK, problem.agents))
        for first in range(0, stream.rounds, ROUND_BLOCK):
            block = stream.block(first, min(first + ROUND_BLOCK, stream.rounds), None if len(agents) == problem.agents else agents)
            steepest[agents] = np.maximum(steepest[agents], _steepest(problem, block, shape).max(0))
    if not np.isfinite(steepest).all():
        agent = int(np.flatnonzero(~np.isfinite(steepest))[0])
        raise BoundError(
            f"the gradients of the loss {problem.loss.name!r} on agent {agent}'s data have no bound over {problem.domain!r}: "
            "without one no regret bound exists; give the problem a bounded domain, such as mm.domains.ball(radius)."
        )
    return steepest


def _steepest(problem: Problem, block: Block, shape: tuple[int, int]) -> np.ndarray:
    """sup ‖∇f_{m,t}(X)‖_F over 𝒳, (R, N): ‖r φᵀ‖ on the average association, plus ‖D ∘ X‖ ≤ max D · sup ‖X‖."""
    features = np.asarray(problem.features(np.asarray(block.keys, dtype=np.float64)))
    values = np.asarray(block.values, dtype=np.float64)
    furthest = problem.domain.furthest(features, values)
    each = problem.loss.lipschitz(furthest, np.sqrt((values**2).sum(-1)), np.sqrt((features**2).sum(-1)))
    if each is None:
        raise BoundError(
            f"the loss {problem.loss.name!r} does not say how steep it is, so no regret bound is known: "
            "give it a method lipschitz(furthest, value_norms, feature_norms), a bound on ‖r φᵀ‖ over the domain."
        )
    share = block.share
    slopes = each[..., 0] if share is None else (share * np.where(share > 0, each, 0)).sum(-1)
    decay = problem.decay(block.gates, block.active, features[..., 0, :])
    if decay is None:
        return np.asarray(slopes)
    strongest = np.broadcast_to(decay.max((-2, -1)), slopes.shape)
    pulls = np.zeros(slopes.shape)
    np.multiply(strongest, problem.domain.radius(shape), out=pulls, where=strongest > 0)  # no decay pulls at nothing, however large 𝒳
    return np.asarray(slopes + pulls)
