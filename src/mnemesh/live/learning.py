"""What one agent computes: answers to queries, its own gradient, and the step that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from mnemesh.domains import Domain
from mnemesh.losses import Loss
from mnemesh.problem import Problem
from mnemesh.steps import Step

__all__ = ["Answer", "Learner", "Sample"]


class Sample(NamedTuple):
    """An agent's associations of one round, ready to be answered from: A of them, and the decay D on the gate's axis."""

    features: np.ndarray  # φ(k), (A, d_φ)
    values: np.ndarray  # (A, d_v)
    decay: np.ndarray | None  # (d_v, 1), (1, d_φ) or (1, 1); None where the loss has none, or nothing is seen


class Answer(NamedTuple):
    """w f_{m,s} and its gradient at some X: w residual featureᵀ, summed, and w D ∘ X, whose X stays with who asked."""

    residuals: np.ndarray  # (A, d_v)
    features: np.ndarray  # (A, d_φ)
    decay: np.ndarray | None
    loss: float
    slope: float  # w ⟨∇f, X⟩


@final
@dataclass(frozen=True, eq=False)
class Learner:
    """A problem as one agent sees it."""

    problem: Problem
    step: Step
    shape: tuple[int, int]
    dtype: str
    tau_min: int = 0

    @property
    def loss(self) -> Loss:
        """ℓ and D."""
        return self.problem.loss

    @property
    def domain(self) -> Domain:
        """𝒳."""
        return self.problem.domain

    def start(self) -> np.ndarray:
        """X_1 = Π(0)."""
        return self.kept(self.domain.project(np.zeros(self.shape)))

    def sample(self, keys: Any, values: Any, gate: Any = None) -> Sample:
        """Associations (A, d_k), (A, d_v) with their gate as a sample; A may be 0."""
        keys, values = np.array(keys, self.dtype), np.array(values, self.dtype)
        features = np.array(self.problem.features(keys), self.dtype) if len(keys) else np.zeros((0, self.shape[1]), self.dtype)
        decay = None
        if len(keys) and self.loss.decays:
            gates = None if gate is None else np.asarray(gate, self.dtype)
            decay = np.array(self.problem.decay(gates, None, np.zeros(1, self.dtype)), self.dtype)
        for part in (features, values) if decay is None else (features, values, decay):
            part.setflags(write=False)
        return Sample(features, values, decay)

    def nothing(self) -> Sample:
        """A round in which nothing is seen."""
        return Sample(np.zeros((0, self.shape[1]), self.dtype), np.zeros((0, self.shape[0]), self.dtype), None)

    def answer(self, memory: np.ndarray, sample: Sample, weight: float) -> Answer:
        """w f and w ∇f at a memory."""
        count = len(sample.features)
        if not count:
            return Answer(sample.values, sample.features, None, 0.0, 0.0)
        outputs = sample.features @ memory.T
        share = weight / count
        residuals = self.loss.residual(outputs, sample.values) * outputs.dtype.type(share)
        loss = share * float(self.loss.value(outputs, sample.values).sum())
        slope = float(np.vdot(residuals, outputs))
        decay = None
        if sample.decay is not None:
            decay = sample.decay * memory.dtype.type(weight)
            squares = float((decay * memory**2).sum())
            loss, slope = loss + 0.5 * squares, slope + squares
        return Answer(residuals, sample.features, decay, loss, slope)

    def descend(self, memory: np.ndarray, gradient: np.ndarray, t: int, agent: int) -> np.ndarray:
        """X_{t+1} = Π(X_t − η_t G)."""
        rate = np.asarray(self.step.rate(np.array([[t]]), np.array([[self.tau_min]])), np.float64).ravel()
        eta = rate[agent] if rate.size > 1 else rate[0]
        return self.kept(self.domain.project(memory - memory.dtype.type(eta) * gradient))

    def recall(self, memory: np.ndarray, key: Any) -> np.ndarray:
        """X φ(k)."""
        return np.asarray(self.problem.features(np.asarray(key, self.dtype)) @ memory.T)

    def kept(self, memory: np.ndarray) -> np.ndarray:
        """A memory that may be handed out: nobody can write to it."""
        kept = np.array(memory, self.dtype)
        kept.setflags(write=False)
        return kept
