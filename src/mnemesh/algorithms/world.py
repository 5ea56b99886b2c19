"""What a round looks like to an algorithm: a problem and a network as arrays of one kind, NumPy's or JAX's, and the sums that every rule is made of."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from mnemesh.domains import Domain
from mnemesh.losses import Loss
from mnemesh.types import Array, namespace

__all__ = ["Mixing", "Partners", "Sample", "Seen", "World", "outer_sum", "recalled", "take"]


class Partners(NamedTuple):
    """Padded rows: whom an agent looks at, with what weight (0 beyond a row's end) and how late. `data` counts rows of the sample."""

    data: Array  # (N, P)
    weights: Array  # (N, P)
    delays: Array  # (N, P)


class Mixing(NamedTuple):
    """Σ_m a_{n,m} X_m: either `dense` blocks (runs, agents, agents), or ragged edges sorted by the receiving agent."""

    dense: Array | None
    starts: Array | None = None
    sources: Array | None = None
    targets: Array | None = None
    weights: Array | None = None


class Sample(NamedTuple):
    """What all agents see in one round."""

    round: Array  # t − 1: rounds counted from 0
    features: Array  # φ(k), (N, A, d_φ)
    values: Array  # v, (N, A, d_v)
    share: Array | None  # what an association counts in its agent's mean, (N, A); None: there is always exactly one
    decay: Array | None  # D_{n,t}, (N, d_v or 1, d_φ or 1); None: the loss has none


class Seen(NamedTuple):
    """What agents learn by trying X_n on the associations of others, with the weights worked in."""

    losses: Array  # Σ_m w_{n,m} f_{m,t}(X_n), (N,)
    residuals: Array  # w_{n,m} r_{n,m}, (N, P·A, d_v)
    decay: Array | None  # Σ_m w_{n,m} D_m, (N, d_v or 1, d_φ or 1)
    sample: Sample  # what was looked at
    partners: Partners  # and whose


def take(rows: Array, places: Array) -> Array:
    """rows[places] along the first axis, for places known to be inside."""
    return namespace(rows).take(rows, places, axis=0, mode="clip")


def recalled(memories: Array, features: Array, tiny: bool = False) -> Array:
    """z = X_n φ for each of an agent's features: (N, d_v, d_φ), (N, P, d_φ) → (N, P, d_v)."""
    if tiny:  # a matrix product has nothing to gain here, and a GPU much to lose: written out, the sum needs no kernel of its own
        return functools.reduce(operator.add, (features[:, :, None, j] * memories[:, None, :, j] for j in range(features.shape[2])))
    if isinstance(memories, np.ndarray):
        return features @ memories.swapaxes(1, 2)
    return namespace(memories).einsum("npj,nij->npi", features, memories, precision="highest")


def outer_sum(residuals: Array, features: Array, tiny: bool = False) -> Array:
    """Σ_p r_p φ_pᵀ: (N, P, d_v), (N, P, d_φ) → (N, d_v, d_φ)."""
    if tiny:
        return (residuals[:, :, :, None] * features[:, :, None, :]).sum(1)
    if isinstance(residuals, np.ndarray):
        return residuals.swapaxes(1, 2) @ features
    return namespace(residuals).einsum("npi,npj->nij", residuals, features, precision="highest")


@final
@dataclass(frozen=True)
class World:
    """The problem and the algorithm's data, as `step` sees them. `score` is 𝒲_n with w, `learn` is 𝒫_n with p and δ."""

    loss: Loss
    domain: Domain
    score: Partners
    learn: Partners
    mixing: Mixing | None
    ages: tuple[int, ...]  # the delays in use, ascending
    samples: int  # rows of a sample: N, or the agents of all runs played together
    associations: int  # A
    complete: int = 0  # S where every agent's partners are all agents of its run, in order, and the runs' data are S sources; else 0
    tiny: bool = False  # whether products of this size are better written as sums

    @property
    def memory(self) -> int:
        """How many rounds a history must hold: the longest delay and the present."""
        return self.ages[-1] + 1

    def look(self, memories: Array, sample: Sample, partners: Partners) -> Seen:
        """Try every agent's own memory on its partners' associations of this round."""
        xp = namespace(memories)
        agents, count = partners.data.shape
        associations = sample.features.shape[1]
        values = take(sample.values, partners.data).reshape(agents, count * associations, -1)
        weights = partners.weights
        if sample.share is not None:
            weights = (weights[:, :, None] * take(sample.share, partners.data)).reshape(agents, count * associations)
        outputs = self._recalled(memories, sample, partners)
        losses = (weights * self.loss.value(outputs, values)).sum(1)
        residuals = weights[:, :, None] * self.loss.residual(outputs, values)
        decay = None
        if sample.decay is not None:
            decay = (partners.weights[:, :, None, None] * take(sample.decay, partners.data)).sum(1)
            losses = losses + xp.asarray(0.5, dtype=losses.dtype) * (decay * memories * memories).sum((1, 2))
        return Seen(losses, residuals, decay, sample, partners)

    def _recalled(self, memories: Array, sample: Sample, partners: Partners) -> Array:
        """X_n φ(k_m) for all partners' associations, (N, P·A, d_v)."""
        (agents, d_v, d_phi), xp = memories.shape, namespace(memories)
        if not self.complete or partners is not self.score:
            return recalled(memories, self._features(sample, partners), self.tiny)
        rows, keys = memories.reshape(self.complete, -1, d_phi), sample.features.reshape(self.complete, -1, d_phi)  # one product for all
        outputs = rows @ keys.swapaxes(1, 2) if xp is np else xp.einsum("sxj,spj->sxp", rows, keys, precision="highest")
        return outputs.reshape(agents, d_v, -1).swapaxes(1, 2)

    def _features(self, sample: Sample, partners: Partners) -> Array:
        agents, count = partners.data.shape
        return take(sample.features, partners.data).reshape(agents, count * sample.features.shape[1], -1)

    def gradient(self, seen: Seen, memories: Array) -> Array:
        """Σ_m w_{n,m} ∇f_m(X_n) = Σ_m w_{n,m} (r φᵀ + D ∘ X)."""
        gradient = outer_sum(seen.residuals, self._features(seen.sample, seen.partners), self.tiny)
        return gradient if seen.decay is None else gradient + seen.decay * memories

    def mix(self, memories: Array) -> Array:
        """Σ_m a_{n,m} X_m over the links of the graph."""
        assert self.mixing is not None
        xp, mixing = namespace(memories), self.mixing
        if mixing.dense is not None:
            runs, agents, _ = mixing.dense.shape
            flat = memories.reshape(runs, agents, -1)
            mixed = mixing.dense @ flat if xp is np else xp.matmul(mixing.dense, flat, precision="highest")
            return mixed.reshape(memories.shape)
        assert mixing.weights is not None and mixing.sources is not None and mixing.starts is not None
        arriving = mixing.weights[:, None, None] * take(memories, mixing.sources)
        if xp is np:
            return np.add.reduceat(arriving, mixing.starts, axis=0)
        return xp.zeros_like(memories).at[mixing.targets].add(arriving, indices_are_sorted=True)
