"""Matrices that travel: hashed, and searched for NaN and infinities, when an agent first sees them, and never again while they live."""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np
import xxhash

from mnemesh.errors import WireError
from mnemesh.live.wire.shape import Shape

__all__ = ["all_finite", "frozen", "hash_of", "matrix_in", "readonly"]

_known: dict[int, tuple[weakref.ref, int]] = {}  # id -> (the matrix, as long as it lives, its hash)


def readonly(data: Any) -> memoryview:
    """The bytes of a buffer, which nobody will change: a copy only of what somebody could write to."""
    if type(data) is bytes:
        return memoryview(data)
    try:
        view = memoryview(data)
        if view.readonly and view.c_contiguous and view.nbytes:
            return view if view.format == "B" and view.ndim == 1 else view.cast("B")
        return memoryview(view.tobytes())
    except (TypeError, ValueError) as error:
        raise WireError(f"a {type(data).__name__} is no buffer of bytes: nothing of the kind is ever sent.", "malformed") from error


def frozen(array: np.ndarray, shape: Shape) -> np.ndarray:
    """A matrix to be sent: itself if it is read-only, so that all who pass it on share it, else a copy."""
    if array.shape != shape.matrix:
        raise WireError(f"an array of shape {array.shape} cannot be sent: the network's matrices are {shape.matrix}.", "shape")
    if array.dtype != shape.number:
        raise WireError(f"an array of {array.dtype} cannot be sent: the network's numbers are {shape.dtype}.", "dtype")
    if array.flags.writeable or not array.flags.c_contiguous:
        array = array.copy(order="C")
        array.flags.writeable = False
    return array


def matrix_in(segment: Any, shape: Shape) -> np.ndarray:
    """The matrix that a received segment holds: the very array, where no bytes lie between sender and receiver, else a view."""
    if type(segment) is np.ndarray and segment.shape == shape.matrix and segment.dtype == shape.number:
        return frozen(segment, shape)
    data = readonly(segment)
    if (size := data.nbytes) != shape.matrix_bytes:
        reason = "truncated" if size < shape.matrix_bytes else "oversized"
        raise WireError(f"a segment of {size} bytes is no matrix: one of {shape.matrix} {shape.dtype} takes {shape.matrix_bytes}.", reason)
    return np.frombuffer(data, shape.number).reshape(shape.matrix)


def all_finite(array: np.ndarray) -> bool:
    """Whether no number is NaN or infinite. Squares cannot cancel: a finite sum of them settles it without a second array."""
    return math.isfinite(np.vdot(array, array)) or bool(np.isfinite(array).all())


def hash_of(matrix: np.ndarray, expected: int | None = None) -> int:
    """The 64-bit hash of a read-only matrix of finite numbers, which must be `expected` where that is given."""
    key = id(matrix)
    found = _known.get(key)
    known = found is not None and found[0]() is matrix
    value = found[1] if found is not None and known else xxhash.xxh3_64_intdigest(matrix.data)
    if expected is not None and value != expected:
        raise WireError(f"a matrix hashes to {value:016x} and its frame says {expected:016x}: it was damaged on its way.", "checksum")
    if not known:
        if not all_finite(matrix):
            raise WireError("a matrix holds NaN or infinity: whoever used it would lose its memory.", "not finite")
        _known[key] = weakref.ref(matrix, lambda _: _known.pop(key, None)), value
    return value
