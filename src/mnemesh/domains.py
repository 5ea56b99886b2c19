"""Feasible sets 𝒳 of memories, (…, d_v, d_φ): projection, diameter, membership. Closed, convex, and containing X_1 = Π(0)."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from mnemesh.errors import DomainError
from mnemesh.registry import Part, Registry
from mnemesh.types import Array, Float, namespace, numbers

__all__ = ["Ball", "Box", "Domain", "Everything", "ball", "box", "everything", "get", "maker", "names", "register"]


class Domain(Part):
    """A closed convex set of matrices, with its Euclidean (Frobenius) projection."""

    _error = DomainError

    @abstractmethod
    def project(self, memories: Float[Array, "*batch d_v d_phi"]) -> Float[Array, "*batch d_v d_phi"]:
        """Π: the nearest point of 𝒳, memory by memory."""

    @abstractmethod
    def contains(self, memories: Float[Array, "*batch d_v d_phi"], tolerance: float = 1e-6) -> Any:
        """Whether each memory lies in 𝒳, up to `tolerance` times the set's size."""

    @abstractmethod
    def diameter(self, shape: tuple[int, int]) -> float:
        """B = sup ‖X − Y‖_F over 𝒳 for memories of this shape; inf where 𝒳 is unbounded."""

    @abstractmethod
    def radius(self, shape: tuple[int, int]) -> float:
        """sup ‖X‖_F over 𝒳."""

    @abstractmethod
    def furthest(self, features: Float[Array, "*batch d_phi"], values: Float[Array, "*batch d_v"]) -> Float[Array, "*batch"]:
        """sup_X ‖X φ − v‖ over 𝒳, per association."""

    def check_shape(self, shape: tuple[int, int]) -> None:
        """Refuse memories of a shape that this set has no room for."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Ball(Domain):
    """{X : ‖X‖_F ≤ R}."""

    limit: float
    name: str = "ball"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.limit) and self.limit > 0):
            raise DomainError(f"a ball of radius {self.limit!r}: the radius must be positive and finite, or every memory would stay at 0.")

    def settings(self) -> dict[str, Any]:
        return {"radius": self.limit}

    def project(self, memories: Array) -> Array:
        xp = namespace(memories)
        norms = xp.sqrt((memories * memories).sum((-2, -1), keepdims=True))
        return xp.where(norms > self.limit, memories * (self.limit / xp.maximum(norms, xp.full_like(norms, self.limit))), memories)

    def contains(self, memories: Array, tolerance: float = 1e-6) -> Any:
        return (memories**2).sum((-2, -1)) ** 0.5 <= self.limit * (1 + tolerance)

    def diameter(self, shape: tuple[int, int]) -> float:
        return 2 * self.limit

    def radius(self, shape: tuple[int, int]) -> float:
        return self.limit

    def furthest(self, features: Array, values: Array) -> Array:
        return self.limit * (features**2).sum(-1) ** 0.5 + (values**2).sum(-1) ** 0.5

    def __repr__(self) -> str:
        return f"ball({self.limit:g})"


@final
@dataclass(frozen=True, eq=False, repr=False)
class Box(Domain):
    """{X : low ≤ X ≤ high}, entry by entry; the ends are numbers or arrays that broadcast to a memory."""

    low: Any
    high: Any
    name: str = "box"

    def __post_init__(self) -> None:
        for end in ("low", "high"):
            array = numbers(end, getattr(self, end), DomainError)
            array.setflags(write=False)
            object.__setattr__(self, end, array)
        try:
            np.broadcast_shapes(self.low.shape, self.high.shape)
        except ValueError:
            raise DomainError(f"box ends of shapes {self.low.shape} and {self.high.shape} do not fit each other: an entry would lack one.") from None
        if self.low.ndim > 2 or self.high.ndim > 2:
            raise DomainError(f"box ends of shapes {self.low.shape} and {self.high.shape}: a memory has two axes, and one box serves all agents.")
        if not (np.isfinite(self.low).all() and np.isfinite(self.high).all()):
            raise DomainError("a box with an end that is not finite: use everything() for no bound, or give every entry two finite ends.")
        if not (self.low < self.high).all():
            raise DomainError(f"box({self.low.tolist()}, {self.high.tolist()}): every low end must be below its high end, or the set has no inside.")

    def settings(self) -> dict[str, Any]:
        return {end: float(array) if array.ndim == 0 else array for end, array in (("low", self.low), ("high", self.high))}

    def _ends(self, like: Array) -> tuple[Array, Array]:
        xp = namespace(like)
        return xp.asarray(self.low, dtype=like.dtype), xp.asarray(self.high, dtype=like.dtype)

    def project(self, memories: Array) -> Array:
        low, high = self._ends(memories)
        xp = namespace(memories)
        shape = memories.shape[-2:]
        lead = (1,) * (memories.ndim - 2)
        low, high = (xp.broadcast_to(end, shape).reshape(*lead, *shape) for end in (low, high))
        return xp.minimum(xp.maximum(memories, low), high)

    def contains(self, memories: Array, tolerance: float = 1e-6) -> Any:
        low, high = self._ends(memories)
        slack = tolerance * float(np.max(self.high - self.low))
        return ((memories >= low - slack) & (memories <= high + slack)).all((-2, -1))

    def diameter(self, shape: tuple[int, int]) -> float:
        return float(np.linalg.norm(np.broadcast_to(self.high - self.low, shape)))

    def radius(self, shape: tuple[int, int]) -> float:
        return float(np.linalg.norm(np.broadcast_to(np.maximum(abs(self.low), abs(self.high)), shape)))

    def furthest(self, features: Array, values: Array) -> Array:
        shape = (values.shape[-1], features.shape[-1])
        low, high = np.broadcast_to(self.low, shape), np.broadcast_to(self.high, shape)
        middle, half = (high + low) / 2, (high - low) / 2
        return np.sqrt(((abs(features @ middle.T - values) + abs(features) @ half.T) ** 2).sum(-1))  # each row's interval sum

    def check_shape(self, shape: tuple[int, int]) -> None:
        for end, array in (("low", self.low), ("high", self.high)):
            try:
                np.broadcast_to(array, shape)
            except ValueError:
                raise DomainError(f"the box's {end} end has shape {array.shape}, which does not broadcast to memories of shape {shape}.") from None

    def __repr__(self) -> str:
        ends = [f"{end:g}" if end.ndim == 0 else f"array{end.shape}" for end in (self.low, self.high)]
        return f"box({', '.join(ends)})"


@final
@dataclass(frozen=True, eq=False, repr=False)
class Everything(Domain):
    """All matrices: no projection, and no bound that needs a diameter."""

    name: str = "everything"

    def settings(self) -> dict[str, Any]:
        return {}

    def project(self, memories: Array) -> Array:
        return memories

    def contains(self, memories: Array, tolerance: float = 1e-6) -> Any:
        return namespace(memories).isfinite(memories).all((-2, -1))

    def diameter(self, shape: tuple[int, int]) -> float:
        return math.inf

    def radius(self, shape: tuple[int, int]) -> float:
        return math.inf

    def furthest(self, features: Array, values: Array) -> Array:
        return np.where((features != 0).any(-1), math.inf, np.sqrt((values**2).sum(-1)))


def ball(radius: float) -> Domain:
    """The Frobenius ball of this radius about 0.

    >>> ball(5.0).project(np.array([[6.0, 8.0]]))
    array([[3., 4.]])
    """
    return Ball(float(numbers("radius", radius, DomainError, single=True)))


def box(low: Any, high: Any) -> Domain:
    """All memories between `low` and `high`, entry by entry.

    >>> box(-1, [[0.5, 2.0]]).project(np.array([[6.0, -8.0]]))
    array([[ 0.5, -1. ]])
    """
    return Box(low, high)


def everything() -> Domain:
    """No constraint."""
    return Everything()


_REGISTRY = Registry("domain", DomainError, {"ball": ball, "box": box, "everything": everything})
get, maker, names, register = _REGISTRY.get, _REGISTRY.maker, _REGISTRY.names, _REGISTRY.register
