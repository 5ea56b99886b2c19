"""The comparator, exactly: argmin of ½⟨U, UC⟩ − ⟨U, S⟩ + ½ Σ D_ij U_ij² + s over 𝒳, for a batch of agents and horizons at once.

In the eigenbasis of C the entries of U part, each with its height h = Λ_j + D_ij and slope g = S̃_ij: free they stop at g/h. A ball ties them
by one multiplier; a box acts on the entries of U itself, so that there every row is a small bounded problem of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mnemesh.domains import Ball, Box, Everything
from mnemesh.errors import RegretError
from mnemesh.problem import Problem
from mnemesh.regret.bounded import minimum_between
from mnemesh.statistics import Statistics, mix

__all__ = ["comparator", "minimum"]

EPSILON = np.finfo(np.float64).eps


def comparator(problem: Problem, statistics: Statistics) -> tuple[np.ndarray, np.ndarray]:
    """(U*, Σ_t Σ_m w_{n,m} f_{m,t}(U*)) with U* ∈ argmin over 𝒳, (N, d_v, d_φ) and (N,), from each agent's own statistics, not yet mixed by W."""
    return minimum(problem, mix(problem.interest, statistics))


def minimum(problem: Problem, mixed: Statistics, horizons: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """U* and the losses at U* from statistics that W has mixed, (…, N, d_v, d_φ) and (…, N); `horizons` only word a refusal."""
    domain, shape = problem.domain, mixed.cross.shape
    parts = _part(Statistics(*(None if part is None else part.reshape(-1, *part.shape[len(shape) - 2 :]) for part in mixed)))  # type: ignore[arg-type]
    if isinstance(domain, Ball):
        memories = parts.turn_back(_divide(parts.slopes, parts.heights + _multiplier(parts, domain.limit)[:, None, None]))
    elif isinstance(domain, Box):
        memories = _in_box(parts, *(np.broadcast_to(end, shape[-2:]) for end in (domain.low, domain.high)))
    elif isinstance(domain, Everything):
        _refuse_endless(parts, shape, horizons)
        memories = parts.turn_back(_divide(parts.slopes, parts.heights))
    else:
        raise RegretError(f"no exact comparator is known over {domain!r}: regret needs a ball, a box or everything().")
    memories = np.asarray(domain.project(memories)).reshape(shape)  # off by a rounding, if at all
    values = mixed.constant - (memories * mixed.cross).sum((-2, -1))
    if mixed.second is not None:
        values += 0.5 * (memories * (memories @ mixed.second)).sum((-2, -1))
    if mixed.decay is not None:
        values += 0.5 * (mixed.decay * memories**2).sum((-2, -1))
    return memories, values


class _Parts(NamedTuple):
    """A batch of B quadratics whose entries have parted: ½ Σ h_ij Ũ_ij² − Σ g_ij Ũ_ij, with U = Ũ Qᵀ."""

    heights: np.ndarray  # (B, d_v or 1, d_φ or 1)
    slopes: np.ndarray  # (B, d_v, d_φ)
    basis: np.ndarray | None  # Q, (B, d_φ, d_φ); None: the entries of U itself

    def turn_back(self, memories: np.ndarray) -> np.ndarray:
        return memories if self.basis is None else memories @ self.basis.swapaxes(1, 2)


def _part(mixed: Statistics) -> _Parts:
    decay = np.zeros((len(mixed.cross), 1, 1)) if mixed.decay is None else mixed.decay
    if mixed.second is None:
        return _Parts(decay, mixed.cross, None)
    second, cross = mixed.second, mixed.cross
    if decay.shape[2] > 1:
        if decay.shape[1] > 1:
            raise RegretError("a loss that is curved and decays on both axes of a memory at once: no basis parts its entries, so no exact comparator is known.")
        second, decay = second + decay * np.eye(second.shape[-1]), np.zeros((len(cross), 1, 1))
    eigenvalues, basis = np.linalg.eigh(second)
    nothing = eigenvalues <= len(basis[0]) * EPSILON * eigenvalues[:, -1:]  # a sum of φφᵀ that is 0 but for rounding, and so is S along it
    heights = np.where(nothing, 0, eigenvalues)[:, None, :] + decay
    return _Parts(heights, np.where(nothing[:, None, :] & (decay == 0), 0, cross @ basis), basis)


def _divide(slopes: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """g/h, with 0 where g = 0 and ±∞ where h = 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(slopes == 0, 0, slopes / heights)


def _norms(memories: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.sqrt((memories * memories).sum((1, 2)))


def _multiplier(parts: _Parts, radius: float) -> np.ndarray:
    """λ ≥ 0 with Σ (g/(h + λ))² = R², or 0 where the free minimiser lies inside; (B,).

    1/R − 1/‖U(λ)‖ falls and is convex in λ, so Newton's method from below never overshoots; halving guards it against rounding.
    """
    multiplier = np.zeros(len(parts.slopes))
    outside = np.flatnonzero(_norms(_divide(parts.slopes, parts.heights)) > radius)
    if not len(outside):
        return multiplier
    slopes = parts.slopes[outside]
    heights = np.where(slopes == 0, np.inf, parts.heights[outside])
    low = np.maximum((abs(slopes) / radius - heights).max((1, 2)), 0)
    high = np.maximum(_norms(slopes) / radius - heights.min((1, 2)), low)
    now = low
    for _ in range(100):
        curves = heights + now[:, None, None]
        memories = slopes / curves
        norms = _norms(memories)
        low, high = np.where(norms >= radius, now, low), np.where(norms <= radius, now, high)
        then = now + (norms / radius - 1) * norms**2 / (memories**2 / curves).sum((1, 2))
        then = np.where((then < low) | (then > high), (low + high) / 2, then)
        if (abs(then - now) <= 2 * EPSILON * now).all():
            break
        now = then
    multiplier[outside] = now
    return multiplier


def _refuse_endless(parts: _Parts, shape: tuple[int, ...], horizons: np.ndarray | None) -> None:
    endless = np.argwhere((parts.slopes != 0) & (parts.heights == 0))
    if len(endless):
        which, i, j = endless[0]
        when = "" if horizons is None else f" over the first {horizons[which // shape[-3]]} rounds"
        sign = "+" if parts.slopes[which, i, j] > 0 else "−"
        raise RegretError(
            f"agent {which % shape[-3]}'s summed loss{when} falls to −∞ as entry ({i}, {j}) of its memory goes to {sign}∞: nothing decays it, so over "
            "everything() there is no comparator and no regret. Use a ball or a box."
        )


def _in_box(parts: _Parts, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The minimisers with low ≤ U ≤ high, (B, d_v, d_φ)."""
    free = parts.turn_back(_divide(parts.slopes, parts.heights))
    if parts.basis is None:
        return np.clip(free, low, high)
    which, row = np.nonzero(((free < low) | (free > high)).any(-1))
    if len(which):
        basis = parts.basis[which]
        heights = np.broadcast_to(parts.heights, parts.slopes.shape)[which, row]
        curvatures = (basis * heights[:, None, :]) @ basis.swapaxes(1, 2)
        slopes = (basis @ parts.slopes[which, row][..., None])[..., 0]
        free[which, row] = minimum_between(curvatures, slopes, low[row], high[row], free[which, row], (heights == 0).any(1))
    return free
