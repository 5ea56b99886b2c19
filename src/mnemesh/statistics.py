"""The sums over rounds that a comparator needs: additive, so that regret at many horizons takes one pass, and linear, so that W mixes them.

For losses ℓ(z; v) = ½ a ‖z‖² − ⟨z, v⟩ + ½ a ‖v‖² an agent's loss summed over rounds is ½⟨U, UC⟩ − ⟨U, S⟩ + ½ Σ_ij D_ij U_ij² + s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mnemesh.errors import RegretError
from mnemesh.interest import Interest
from mnemesh.problem import Problem
from mnemesh.streams.stream import Block
from mnemesh.types import DENSE_LIMIT

__all__ = ["Statistics", "add", "empty", "log_spaced", "mix", "stack"]

GATHERED = 2**22  # numbers of partners' statistics that `mix` holds at once
AT_ONCE = 2**21  # numbers of features and values that `add` holds at once, in float64


class Statistics(NamedTuple):
    """Sums over rounds of each agent's own losses, in float64; leading axes are horizons. "Mean" is over a round's associations."""

    second: np.ndarray | None  # C = Σ mean a φφᵀ, (…, N, d_φ, d_φ); None where a = 0
    cross: np.ndarray  # S = Σ mean v φᵀ, (…, N, d_v, d_φ)
    decay: np.ndarray | None  # D = Σ decay over the rounds in which the agent sees anything, (…, N, d_v or 1, d_φ or 1); None where there is none
    constant: np.ndarray  # s = Σ mean ½ a ‖v‖², (…, N)

    def __repr__(self) -> str:
        *lead, d_v, d_phi = self.cross.shape
        parts = ", ".join(name for name in self._fields if getattr(self, name) is not None)
        return f"Statistics({' × '.join(map(str, lead))} sums for memories {d_v}×{d_phi}: {parts})"


def _curvature(problem: Problem) -> float:
    if problem.loss.curvature is None or problem.loss.curvature < 0:
        raise RegretError(
            f"the loss {problem.loss.name!r} is not of the form ½a‖z‖² − ⟨z, v⟩ + ½a‖v‖² with a ≥ 0 (its curvature is {problem.loss.curvature}), "
            "so its sum over rounds has no finite statistics: no exact comparator, and no regret, can be computed."
        )
    return problem.loss.curvature


def empty(problem: Problem, shape: tuple[int, int]) -> Statistics:
    """The statistics of no rounds, for memories of this shape (d_v, d_φ)."""
    n, (d_v, d_phi) = problem.agents, shape
    axes = {None: (1, 1), "value": (d_v, 1), "key": (1, d_phi), "scalar": (1, 1)}[problem.loss.gate]
    return Statistics(
        np.zeros((n, d_phi, d_phi)) if _curvature(problem) else None,
        np.zeros((n, d_v, d_phi)),
        np.zeros((n, *axes)) if problem.loss.decays else None,
        np.zeros(n),
    )


def add(problem: Problem, statistics: Statistics, block: Block) -> Statistics:
    """`statistics` with a block's rounds added; the old ones are left as they are."""
    added = Statistics(*(None if part is None else part.copy() for part in statistics))  # type: ignore[arg-type]
    rounds, agents, associations = block.keys.shape[:3]
    size = rounds * associations * (block.keys.shape[3] + added.cross.shape[-1] + added.cross.shape[-2])
    width = max(AT_ONCE // max(size, 1), 1)
    for first in range(0, agents, width):
        some = slice(first, first + width)
        _add_some(problem, Statistics(*(None if part is None else part[some] for part in added)), block, some)  # type: ignore[arg-type]
    return added


def _add_some(problem: Problem, sums: Statistics, block: Block, some: slice) -> None:
    """Add the rounds of some agents to `sums`, in place."""
    features = np.asarray(problem.features(_by_agent(block.keys[:, some])), dtype=np.float64)
    values = _by_agent(block.values[:, some])
    share = block.share
    curvature = _curvature(problem)
    weighted = features
    if share is not None:
        weighted = features * share[:, some].transpose(1, 0, 2).reshape(len(features), -1)[..., None]
    sums.cross[...] += values.swapaxes(1, 2) @ weighted
    if sums.second is not None:
        sums.second[...] += curvature * (features.swapaxes(1, 2) @ weighted)
        squares = np.einsum("nri,nri->nr", values, values)
        if share is not None:
            squares *= share[:, some].transpose(1, 0, 2).reshape(squares.shape)
        sums.constant[...] += 0.5 * curvature * squares.sum(1)
    if sums.decay is not None:
        gates = None if problem.loss.gate is None or block.gates is None else block.gates[:, some].astype(np.float64)
        active = None if block.active is None else block.active[:, some]
        like = np.zeros((*block.keys.shape[:2], 1))[:, some]
        decay: Any = problem.decay(gates, active, like)
        sums.decay[...] += np.broadcast_to(decay, (*like.shape[:2], *sums.decay.shape[1:])).sum(0)


def _by_agent(array: np.ndarray) -> np.ndarray:
    """(R, N, A, d) → (N, R·A, d), in float64."""
    rounds, agents, associations, size = array.shape
    return np.ascontiguousarray(array.transpose(1, 0, 2, 3), dtype=np.float64).reshape(agents, rounds * associations, size)


def mix(interest: Interest, statistics: Statistics) -> Statistics:
    """Σ_m w_{n,m} (statistics of m): what agent n's own comparator is made of."""
    return Statistics(*(None if part is None else _mix(interest, part, part.ndim - after) for part, after in zip(statistics, (3, 3, 3, 1))))  # type: ignore[arg-type]


def _mix(interest: Interest, part: np.ndarray, axis: int) -> np.ndarray:
    agents = interest.agents
    flat = part.reshape(int(np.prod(part.shape[:axis])), agents, -1)  # horizon by horizon: small products stay on one thread
    if agents <= DENSE_LIMIT and len(interest.partners) * 4 > agents**2:
        return (np.asarray(interest) @ flat).reshape(part.shape)
    mixed = np.empty_like(flat)
    width = max(int(GATHERED * agents / (len(interest.partners) * flat.shape[2])), 1)
    for first in range(0, agents, width):
        starts = interest.starts[first : first + width + 1]
        partners, weights = (ragged[starts[0] : starts[-1]] for ragged in (interest.partners, interest.weights))
        for horizon, sums in enumerate(flat):
            np.add.reduceat(sums[partners] * weights[:, None], starts[:-1] - starts[0], axis=0, out=mixed[horizon, first : first + width])
    return mixed.reshape(part.shape)


def stack(statistics: Sequence[Statistics]) -> Statistics:
    """The statistics of several horizons as one, with a leading axis."""
    parts: Any = zip(*statistics)
    join = lambda part: part[0][None] if len(part) == 1 else np.stack(part)  # noqa: E731  one needs no copy, and may be large
    return Statistics(*(None if part[0] is None else join(part) for part in parts))  # type: ignore[arg-type]


def log_spaced(rounds: int, count: int = 24) -> np.ndarray:
    """About `count` rounds from 1 to T = `rounds`, evenly spread on a logarithmic axis: the horizons at which regret is reported."""
    return np.unique(np.geomspace(1, rounds, min(count, rounds)).round().astype(np.int64))
