"""Feature maps φ: from a key to the coordinates that a memory is linear in. Each is one fixed map of plain arrays, NumPy's or JAX's."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from mnemesh.draws import generator
from mnemesh.errors import FeatureError
from mnemesh.registry import Part, Registry
from mnemesh.types import Array, Float, namespace

__all__ = [
    "EluPlusOne", "Features", "Identity", "PositiveRandom", "Taylor", "elu_plus_one", "get", "identity", "maker", "names",
    "positive_random", "register", "taylor",
]  # fmt: skip


class Features(Part):
    """φ: (…, d_k) → (…, d_φ)."""

    _error = FeatureError

    @abstractmethod
    def __call__(self, keys: Float[Array, "*batch d_k"]) -> Float[Array, "*batch d_phi"]:
        """φ(k) for keys k on the last axis."""

    @abstractmethod
    def dim(self, key_dim: int) -> int:
        """d_φ for keys of dimension `key_dim`."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Identity(Features):
    """φ(k) = k."""

    name: str = "identity"

    def settings(self) -> dict[str, Any]:
        return {}

    def __call__(self, keys: Array) -> Array:
        return keys

    def dim(self, key_dim: int) -> int:
        return key_dim


@final
@dataclass(frozen=True, eq=False, repr=False)
class EluPlusOne(Features):
    """φ(k) = elu(k) + 1, entry by entry: positive, as linear transformers use it."""

    name: str = "elu_plus_one"

    def settings(self) -> dict[str, Any]:
        return {}

    def __call__(self, keys: Array) -> Array:
        xp = namespace(keys)
        return xp.where(keys > 0, keys + 1, xp.exp(xp.minimum(keys, xp.zeros_like(keys))))

    def dim(self, key_dim: int) -> int:
        return key_dim


@final
@dataclass(frozen=True, eq=False, repr=False)
class Taylor(Features):
    """φ(k) = (1, k, k⊗k/√2): ⟨φ(q), φ(k)⟩ = 1 + ⟨q,k⟩ + ½⟨q,k⟩², the second-order Taylor map of exp(⟨q,k⟩)."""

    name: str = "taylor"

    def settings(self) -> dict[str, Any]:
        return {}

    def __call__(self, keys: Array) -> Array:
        xp = namespace(keys)
        pairs = keys[..., :, None] * keys[..., None, :] * math.sqrt(0.5)
        return xp.concatenate([xp.ones_like(keys[..., :1]), keys, pairs.reshape(*keys.shape[:-1], keys.shape[-1] ** 2)], axis=-1)

    def dim(self, key_dim: int) -> int:
        return 1 + key_dim + key_dim**2


@final
@dataclass(frozen=True, eq=False, repr=False)
class PositiveRandom(Features):
    """φ(k)_j = exp(⟨ω_j, k⟩ − ½‖k‖²)/√d_φ with ω_j ~ N(0, I): E⟨φ(q), φ(k)⟩ = exp(⟨q, k⟩), and no key-dependent rescaling."""

    key_dim: int
    count: int
    seed: int
    orthogonal: bool = True
    name: str = "positive_random"
    directions: np.ndarray = field(init=False)  # ω, (d_φ, d_k)

    def __post_init__(self) -> None:
        for name, value in (("key_dim", self.key_dim), ("count", self.count)):
            if not isinstance(value, int | np.integer) or value < 1:
                raise FeatureError(f"{name}={value!r}: a whole number from 1 on is needed, or there is nothing to map.")
        directions = _directions(int(self.key_dim), int(self.count), self.seed, self.orthogonal)
        directions.setflags(write=False)
        object.__setattr__(self, "directions", directions)

    def settings(self) -> dict[str, Any]:
        return {"key_dim": int(self.key_dim), "count": int(self.count), "seed": int(self.seed), "orthogonal": bool(self.orthogonal)}

    def __call__(self, keys: Array) -> Array:
        xp = namespace(keys)
        self.dim(keys.shape[-1])
        omega = xp.asarray(self.directions.T, dtype=keys.dtype)
        products = keys @ omega if xp is np else xp.matmul(keys, omega, precision="highest")  # a GPU would round to fewer digits
        return xp.exp(products - 0.5 * (keys**2).sum(-1)[..., None]) / math.sqrt(self.count)

    def dim(self, key_dim: int) -> int:
        if key_dim != self.key_dim:
            raise FeatureError(f"keys have dimension {key_dim}, but these features were drawn for dimension {self.key_dim}: draw others.")
        return self.count


def _directions(key_dim: int, count: int, seed: int, orthogonal: bool) -> np.ndarray:
    rng = generator(seed, "features/positive_random")
    directions = rng.standard_normal((count, key_dim))
    if orthogonal:
        for start in range(0, count, key_dim):
            block = directions[start : start + key_dim]
            basis, upper = np.linalg.qr(rng.standard_normal((key_dim, key_dim)))
            basis *= np.sign(np.diag(upper))  # or the basis is not uniform over rotations, and the kernel is biased
            block[:] = basis[: len(block)] * np.linalg.norm(block, axis=1, keepdims=True)
    return directions


def identity() -> Features:
    """φ(k) = k."""
    return Identity()


def elu_plus_one() -> Features:
    """φ(k) = elu(k) + 1."""
    return EluPlusOne()


def taylor() -> Features:
    """The second-order Taylor map of the softmax kernel, 1 + d_k + d_k² features."""
    return Taylor()


def positive_random(key_dim: int, count: int, *, seed: int, orthogonal: bool = True) -> Features:
    """`count` positive random features of the softmax kernel; `orthogonal` draws the directions in orthogonal blocks (less variance, as unbiased).

    >>> features = positive_random(2, 4_000, seed=1)
    >>> query, key = np.array([0.5, 0.0]), np.array([0.4, 0.3])
    >>> round(float(features(query) @ features(key)), 1), round(float(np.exp(query @ key)), 1)
    (1.2, 1.2)
    """
    return PositiveRandom(key_dim, count, seed, orthogonal)


_REGISTRY = Registry("feature map", FeatureError, {"identity": identity, "elu_plus_one": elu_plus_one, "positive_random": positive_random, "taylor": taylor})
get, maker, names, register = _REGISTRY.get, _REGISTRY.maker, _REGISTRY.names, _REGISTRY.register
