"""Retrieval losses: what it costs an agent to recall z = X φ(k) where v was right, and which way is down.

Every loss of the paper's Table 1 is one family, f(X) = ℓ(X φ(k); v) + ½ Σ_ij D_ij X_ij², so a loss is three small functions of plain
arrays, NumPy's or JAX's: `value` (ℓ), `residual` (r = ∂ℓ/∂z) and `decay` (D, diagonal on the gate's axis). The gradient is r φ(k)ᵀ + D ∘ X.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, final

from mnemesh.errors import LossError, require
from mnemesh.registry import Part, Registry
from mnemesh.types import Array, Float

__all__ = [
    "GATE_AXES", "Attention", "DeltaNet", "FromValue", "GateAxis", "Loss", "as_loss", "delta", "from_value",
    "gated_linear", "gated_softmax", "get", "linear", "maker", "names", "register", "softmax", "softmax_norm",
]  # fmt: skip

GateAxis = Literal["value", "key", "scalar"]
GATE_AXES: tuple[str, ...] = ("value", "key", "scalar")


class Loss(Part):
    """ℓ(z; v) and the decay D. Subclass it for a loss of your own; `mm.testing.check_loss` holds it to its laws."""

    _error = LossError
    gate: GateAxis | None = None  # the axis its gates act on; None: it has no gates
    decays: bool = False  # whether D can be non-zero
    demands_features: bool = False  # whether identity features would rename another loss
    curvature: float | None = None  # a, where ℓ(z; v) = ½ a ‖z‖² − ⟨z, v⟩ + ½ a ‖v‖²; None: not of that form, so no exact comparator
    needs_jax: bool = False  # whether only JAX arrays will do

    @abstractmethod
    def value(self, outputs: Float[Array, "*batch d_v"], values: Float[Array, "*batch d_v"]) -> Float[Array, "*batch"]:
        """ℓ(z; v) for outputs z and values v."""

    @abstractmethod
    def residual(self, outputs: Float[Array, "*batch d_v"], values: Float[Array, "*batch d_v"]) -> Float[Array, "*batch d_v"]:
        """r = ∂ℓ/∂z at outputs z and values v."""

    def decay(self, gates: Any) -> Any:
        """D for gates ψ, with the two axes of a memory last: (…, d_v, 1), (…, 1, d_φ) or (…, 1, 1). None where D = 0.

        A loss that decays without gates has D = 1, and is given the ones.
        """
        return None

    def lipschitz(self, furthest: Array, value_norms: Array, feature_norms: Array) -> Array | None:
        """A bound on ‖r φᵀ‖_F over the domain, decay apart, per association; None: no bound is known.

        `furthest` is sup_X ‖X φ − v‖ over the domain, the other two are ‖v‖ and ‖φ‖.
        """
        return None


@final
@dataclass(frozen=True, eq=False, repr=False)
class Attention(Loss):
    """ℓ = −⟨z, v⟩ with decay 0, 1 or 1 − ψ: linear attention, its gated form, and the softmax three (Table 1, all rows but DeltaNet)."""

    name: str
    gate: GateAxis | None = None
    decays: bool = False
    demands_features: bool = False
    curvature: float | None = 0.0

    def __post_init__(self) -> None:
        if self.gate not in GATE_AXES and (self.gate is not None or self.name.startswith("gated")):
            raise LossError(f"gate={self.gate!r} is no axis of a memory: choose one of {', '.join(GATE_AXES)}; it fixes the shape of the gates.")

    def settings(self) -> dict[str, Any]:
        return {} if self.gate is None else {"gate": self.gate}

    def value(self, outputs: Array, values: Array) -> Array:
        return -(outputs * values).sum(-1)

    def residual(self, outputs: Array, values: Array) -> Array:
        return -values

    def decay(self, gates: Any) -> Any:
        if not self.decays:
            return None
        if self.gate is None:
            return gates  # the ones
        if self.gate == "value":
            return 1 - gates[..., :, None]
        if self.gate == "key":
            return 1 - gates[..., None, :]
        return 1 - gates[..., None, None]

    def lipschitz(self, furthest: Array, value_norms: Array, feature_norms: Array) -> Array:
        return value_norms * feature_norms


@final
@dataclass(frozen=True, eq=False, repr=False)
class DeltaNet(Loss):
    """ℓ = ½ ‖z − v‖²: the delta rule's loss (Table 1)."""

    name: str = "delta"
    curvature: float | None = 1.0

    def settings(self) -> dict[str, Any]:
        return {}

    def value(self, outputs: Array, values: Array) -> Array:
        return 0.5 * ((outputs - values) ** 2).sum(-1)

    def residual(self, outputs: Array, values: Array) -> Array:
        return outputs - values

    def lipschitz(self, furthest: Array, value_norms: Array, feature_norms: Array) -> Array:
        return furthest * feature_norms


@final
@dataclass(frozen=True, repr=False)
class FromValue(Loss):
    """A loss given by its value alone; JAX differentiates it, so only the JAX engine plays it."""

    name: str
    function: Callable[[Array, Array], Array]
    needs_jax: bool = True

    def value(self, outputs: Array, values: Array) -> Array:
        return self.function(outputs, values)

    def residual(self, outputs: Array, values: Array) -> Array:
        jax = require("jax", f"the loss {self.name!r}, whose residual is found by automatic differentiation")
        return jax.grad(lambda z: self.function(z, values).sum())(outputs)


def linear() -> Loss:
    """Linear attention: ℓ = −⟨z, v⟩, D = 0."""
    return Attention("linear")


def gated_linear(gate: GateAxis = "value") -> Loss:
    """Gated linear attention: ℓ = −⟨z, v⟩, D = 1 − ψ on the `gate` axis ("value" is the paper's, "key" the published GLA's)."""
    return Attention("gated_linear", gate=gate, decays=True)


def delta() -> Loss:
    """DeltaNet: ℓ = ½ ‖z − v‖², D = 0."""
    return DeltaNet()


def softmax() -> Loss:
    """Softmax attention without normalisation: ℓ = −⟨z, v⟩, D = 0, on softmax-kernel features."""
    return Attention("softmax", demands_features=True)


def softmax_norm() -> Loss:
    """Softmax attention with normalisation: ℓ = −⟨z, v⟩, D = 1, on softmax-kernel features."""
    return Attention("softmax_norm", decays=True, demands_features=True)


def gated_softmax(gate: GateAxis = "value") -> Loss:
    """Gated softmax attention: ℓ = −⟨z, v⟩, D = 1 − ψ, on softmax-kernel features."""
    return Attention("gated_softmax", gate=gate, decays=True, demands_features=True)


def from_value(name: str, value: Callable[[Array, Array], Array]) -> Loss:
    """A loss from its value ℓ(outputs, values) → (…,), a function of JAX arrays; its residual comes from automatic differentiation.

    >>> import jax.numpy as jnp
    >>> huber = from_value("huber", lambda z, v: (jnp.sqrt(1 + (z - v) ** 2) - 1).sum(-1))
    >>> huber.residual(jnp.ones((1, 2)), jnp.zeros((1, 2))).round(2)
    Array([[0.71, 0.71]], dtype=float32)
    """
    return FromValue(name, value)


_REGISTRY = Registry("loss", LossError, {
    "linear": linear,
    "gated_linear": gated_linear,
    "delta": delta,
    "softmax": softmax,
    "softmax_norm": softmax_norm,
    "gated_softmax": gated_softmax,
})
get, maker, names, register = _REGISTRY.get, _REGISTRY.maker, _REGISTRY.names, _REGISTRY.register


def as_loss(loss: Loss | str) -> Loss:
    """A loss, from itself or its name."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str):
        return get(loss)
    raise LossError(f"{loss!r} is neither a Loss nor a loss's name: choose one of {', '.join(names())}.")
