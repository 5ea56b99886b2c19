"""The array types that signatures are written in, and the few operations in which NumPy and JAX differ.

Shapes in signatures are checked only where `MNEMESH_CHECK_SHAPES` is set before the import, as the test run does; everywhere else they
are text, and importing mnemesh imports no checker.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

__all__ = ["DENSE_LIMIT", "Array", "Bool", "Float", "Graph", "Int", "at_set", "namespace", "numbers", "refuse_dense"]

Array = Any  # a NumPy or a JAX array
Graph = Any  # a networkx.Graph on the nodes 0..N-1
DENSE_LIMIT = 20_000

if TYPE_CHECKING or os.environ.get("MNEMESH_CHECK_SHAPES"):
    from jaxtyping import Bool, Float, Int
else:

    class _Text:
        """Stands in for jaxtyping's types where nobody checks them."""

        def __class_getitem__(cls, item: object) -> Any:
            return Any

    Bool = Float = Int = _Text


def namespace(*arrays: Any) -> Any:
    """The module whose functions accept these arrays: jax.numpy if one of them is JAX's (a tracer included), else numpy."""
    for array in arrays:
        if not isinstance(array, np.ndarray) and hasattr(array, "__array_namespace__"):
            return array.__array_namespace__()
    return np


def at_set(array: Array, index: Any, value: Array) -> Array:
    """`array` with `array[index] = value`: in place for NumPy, whose caller gives the array away, a new array for JAX."""
    if isinstance(array, np.ndarray):
        array[index] = value
        return array
    return array.at[index].set(value, mode="promise_in_bounds")


def numbers(name: str, value: Any, error: type[Exception], *, single: bool = False) -> np.ndarray:
    """`value` as an array of float64, or an error that names it: words, ragged lists and complex numbers are none."""
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.array("ragged")
    if array.dtype.kind not in "biuf" or (single and array.ndim):
        wanted = "a number" if single else "an array of real numbers"
        raise error(f"{name}={value!r} is not {wanted}: nothing can be computed from it.")
    return array.astype(np.float64)


def refuse_dense(agents: int, what: str, error: type[Exception]) -> None:
    """Refuse an (N, N) array above 20,000 agents."""
    if agents > DENSE_LIMIT:
        size = agents**2 * 8 / 2**30
        raise error(f"{what} of {agents:,} agents would take {size:,.0f} GiB as a dense array: above {DENSE_LIMIT:,} agents use sparse rows.")
