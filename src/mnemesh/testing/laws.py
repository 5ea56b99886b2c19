"""What the checks share: how a broken law is told, and how one function is run on NumPy's and on JAX's arrays."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

__all__ = ["close", "differences", "has", "holds", "on_jax"]


def holds(truth: Any, broken: str) -> None:
    """Raise AssertionError(broken) unless `truth`: also under python -O."""
    if not bool(np.all(truth)):
        raise AssertionError(broken)


def close(found: Any, wanted: Any, tolerance: float, broken: str) -> None:
    """Both arrays agree up to `tolerance` times max(1, the largest entry), in shape too."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    holds(found.shape == wanted.shape, f"{broken} (shapes {found.shape} and {wanted.shape})")
    if wanted.size:
        gap, size = np.max(abs(found - wanted)), max(1.0, float(np.max(abs(wanted))))
        holds(gap <= tolerance * size, f"{broken} (they differ by {gap:.3g}, at a size of {size:.3g})")


def differences(function: Callable[..., np.ndarray], points: np.ndarray, *given: np.ndarray) -> np.ndarray:
    """The gradient at each point (B, …) of function(points, *given) → (B,), by central differences; all arrays share the axis B."""
    batch, rest = points.shape[0], points.shape[1:]
    count = int(np.prod(rest))
    moves = 1e-6 * np.eye(count).reshape(count, 1, *rest)
    tiled = [np.tile(array, (count, *(1,) * (array.ndim - 1))) for array in given]
    ahead, behind = (function((points + way * moves).reshape(-1, *rest), *tiled) for way in (1, -1))
    return np.moveaxis(((ahead - behind) / 2e-6).reshape(count, batch), 0, 1).reshape(points.shape)


def has(library: str) -> bool:
    """Whether this optional library can be imported here."""
    return find_spec(library) is not None


def on_jax(function: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """`function` of these as JAX arrays of the same dtypes, as a NumPy array; the caller's JAX configuration is left alone."""
    jax = importlib.import_module("jax")
    wide = jax.enable_x64 if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental").enable_x64
    with wide(True):
        return np.asarray(function(*(jax.numpy.asarray(array) for array in arrays)))
