"""Laws of domains."""

from __future__ import annotations

from typing import Any

import numpy as np

from mnemesh.domains import Domain
from mnemesh.draws import generator
from mnemesh.testing.laws import close, has, holds, on_jax

__all__ = ["check_domain"]

_POINTS = 64


def check_domain(domain: Domain, *, shape: tuple[int, int] = (3, 2), seed: int = 0) -> None:
    """Projection is idempotent, non-expansive, nearest, and into the set, which is convex; diameter, radius and `furthest` bound its members.

    >>> from mnemesh.domains import box
    >>> check_domain(box(-1, 2))
    """
    domain.check_shape(shape)
    rng = generator(seed, "testing/domain")
    radius = domain.radius(shape)
    size = radius if np.isfinite(radius) else 1.0
    scales = size * np.array([0.1, 0.5, 1.0, 3.0, 30.0])[np.arange(_POINTS) % 5]
    points = scales[:, None, None] * rng.standard_normal((_POINTS, *shape))
    before = points.copy()
    projected = np.asarray(domain.project(points))
    holds(np.array_equal(before, points), f"{domain!r}: project changes its argument.")
    share = rng.random((_POINTS, 1, 1))
    members = share * projected + (1 - share) * projected[rng.permutation(_POINTS)]
    slack = 1e-9 * size * 30
    _check_projection(domain, points, projected, members, slack)
    _check_kept(domain, points)
    _check_sizes(domain, shape, np.concatenate([projected, members]), rng)


def _norm(matrices: np.ndarray) -> Any:
    return np.linalg.norm(matrices, axis=(-2, -1))


def _check_projection(domain: Domain, points: np.ndarray, projected: np.ndarray, members: np.ndarray, slack: float) -> None:
    holds(projected.shape == points.shape, f"{domain!r}: project turns {points.shape} into {projected.shape}.")
    holds(np.isfinite(projected), f"{domain!r}: a projection is not finite.")
    holds(domain.contains(projected), f"{domain!r} does not contain what it projects.")
    holds(domain.contains(members), f"{domain!r} is not convex: it lacks a point between two of its members.")
    again = np.asarray(domain.project(projected))
    holds(_norm(again - projected) <= slack, f"{domain!r}: projecting twice is not projecting once.")
    holds(_norm(np.asarray(domain.project(members)) - members) <= slack, f"{domain!r}: projection moves a member of the set.")
    gaps, before = _norm(projected[:, None] - projected[None]), _norm(points[:, None] - points[None])
    holds(gaps <= before + slack, f"{domain!r}: projection moves two points apart (by up to {np.max(gaps - before):.3g}).")
    here, there = _norm(points - projected)[:, None], _norm(points[:, None] - members[None])
    holds(here <= there + slack, f"{domain!r}: a member lies nearer to a point than its projection (by up to {np.max(here - there):.3g}).")
    moved = _norm(points - projected) > slack
    holds(moved != np.asarray(domain.contains(points)), f"{domain!r}: what it contains and what its projection leaves in place are not the same.")


def _check_kept(domain: Domain, points: np.ndarray) -> None:
    whole = np.asarray(domain.project(points))
    one = np.stack([np.asarray(domain.project(point)) for point in points])
    close(one, whole, 1e-12, f"{domain!r}: the projection of one memory depends on the others of its batch")
    single = np.asarray(domain.project(points.astype(np.float32)))
    holds(single.dtype == np.float32, f"{domain!r}: project turns float32 into {single.dtype}, so a run would change its precision.")
    holds(domain.contains(single), f"{domain!r}: a float32 projection lies outside by more than contains() forgives.")
    if has("jax"):
        close(on_jax(domain.project, points), whole, 1e-12, f"{domain!r}: project differs between NumPy and JAX")
        inside = on_jax(domain.contains, points)
        holds(np.array_equal(inside, domain.contains(points)), f"{domain!r}: contains differs between NumPy and JAX.")


def _check_sizes(domain: Domain, shape: tuple[int, int], members: np.ndarray, rng: np.random.Generator) -> None:
    diameter, radius = domain.diameter(shape), domain.radius(shape)
    widest = float(np.max(_norm(members[:, None] - members[None])))
    holds(widest <= diameter * (1 + 1e-9), f"{domain!r}: two members are {widest:.6g} apart, and its diameter is said to be {diameter:.6g}.")
    longest = float(np.max(_norm(members)))
    holds(longest <= radius * (1 + 1e-9), f"{domain!r}: a member has norm {longest:.6g}, and the radius is said to be {radius:.6g}.")
    holds(diameter <= 2 * radius, f"{domain!r}: a diameter of {diameter:.6g} is more than twice the radius {radius:.6g}.")
    holds(np.isfinite(diameter) == np.isfinite(radius), f"{domain!r}: diameter {diameter} and radius {radius}: both are finite, or neither.")
    features, values = rng.standard_normal((len(members), shape[1])), rng.standard_normal((len(members), shape[0]))
    furthest = np.asarray(domain.furthest(features, values))
    holds(furthest.shape == (len(members),), f"{domain!r}: furthest gives {furthest.shape} for {len(members)} associations.")
    errors = np.linalg.norm(np.einsum("mij,aj->mai", members, features) - values, axis=-1)
    holds(errors <= furthest * (1 + 1e-9), f"{domain!r}: a member recalls worse than `furthest`, so every Lipschitz constant would be too small.")
