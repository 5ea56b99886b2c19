"""Learning rates η_{n,t}: positive, finite and non-increasing in t.

A step is any callable t → scalar or (N,), so optax schedules qualify. A rule of ours is a `Step`, which is given each agent's τ_min as well.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from mnemesh.errors import StepError
from mnemesh.registry import Part, Registry

__all__ = [
    "Constant", "Inverse", "InverseSqrt", "Plain", "Rates", "Step", "as_step", "constant", "get", "inverse", "inverse_sqrt", "maker", "names",
    "register",
]  # fmt: skip


def _positive(name: str, value: Any) -> Any:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if array.ndim > 1 or not (np.isfinite(array).all() and (array > 0).all()):
        raise StepError(f"{name}={value!r}: a rate must be a positive finite number, or one such number per agent; others learn nothing or diverge.")
    array.setflags(write=False)
    return float(array) if array.ndim == 0 else array


class Step(Part):
    """A rule t, τ_min → η."""

    _error = StepError

    @abstractmethod
    def rate(self, rounds: np.ndarray, tau_min: np.ndarray) -> np.ndarray:
        """η for rounds (R, 1) and τ_min (1, N): an array that broadcasts to (R, N)."""

    def __call__(self, t: int, tau_min: Any = 0) -> Any:
        """η_{n,t}: a number, or (N,) where an agent's own τ_min or c makes a difference."""
        rate = np.asarray(self.rate(np.array([[t]]), np.atleast_1d(np.asarray(tau_min))[None, :]))[0]
        return float(rate[0]) if rate.size == 1 else rate


@final
@dataclass(frozen=True, eq=False, repr=False)
class Constant(Step):
    """η = c."""

    c: Any
    name: str = "constant"

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", _positive("c", self.c))

    def settings(self) -> dict[str, Any]:
        return {"c": self.c}

    def rate(self, rounds: np.ndarray, tau_min: np.ndarray) -> np.ndarray:
        return np.broadcast_to(np.atleast_2d(self.c), (len(rounds), np.size(self.c)))


@final
@dataclass(frozen=True, eq=False, repr=False)
class InverseSqrt(Step):
    """η = c/√(t − τ_min), and the rate of round τ_min + 1 until then."""

    c: Any
    name: str = "inverse_sqrt"

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", _positive("c", self.c))

    def settings(self) -> dict[str, Any]:
        return {"c": self.c}

    def rate(self, rounds: np.ndarray, tau_min: np.ndarray) -> np.ndarray:
        return self.c / np.sqrt(np.maximum(rounds - tau_min, 1))


@final
@dataclass(frozen=True, eq=False, repr=False)
class Inverse(Step):
    """η = c/(t + t₀)."""

    c: Any
    t0: float = 0.0
    name: str = "inverse"

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", _positive("c", self.c))
        if not (math.isfinite(self.t0) and self.t0 > -1):
            raise StepError(f"t0={self.t0!r}: t + t0 must be positive from round 1 on, or the first rate is none.")

    def settings(self) -> dict[str, Any]:
        return {"c": self.c, "t0": self.t0}

    def rate(self, rounds: np.ndarray, tau_min: np.ndarray) -> np.ndarray:
        return np.atleast_2d(self.c) / (rounds + self.t0)


@final
@dataclass(frozen=True, repr=False)
class Plain(Step):
    """Any callable t → scalar or (N,)."""

    schedule: Callable[[int], Any]
    name: str = "plain"

    def __repr__(self) -> str:
        return getattr(self.schedule, "__qualname__", repr(self.schedule))

    def rate(self, rounds: np.ndarray, tau_min: np.ndarray) -> np.ndarray:
        try:
            return np.stack([np.atleast_1d(np.asarray(self.schedule(int(t)), dtype=np.float64)) for t in rounds[:, 0]])
        except LookupError as ends:
            raise StepError(f"the step {self!r} has no rate for some round of {rounds[0, 0]}..{rounds[-1, 0]} ({ends}): bounds need it up to T + τ_max.") from ends


def constant(c: Any) -> Step:
    """η = c, one number or one per agent."""
    return Constant(c)


def inverse_sqrt(c: Any) -> Step:
    """η = c/√(t − τ_min), one c or one per agent; τ_min comes from the algorithm's delays (0 where an agent learns from itself).

    >>> step = inverse_sqrt(0.8)
    >>> step(4), step(4, tau_min=3)
    (0.4, 0.8)
    """
    return InverseSqrt(c)


def inverse(c: Any, *, t0: float = 0.0) -> Step:
    """η = c/(t + t₀)."""
    return Inverse(c, float(t0))


_REGISTRY = Registry("step rule", StepError, {"constant": constant, "inverse_sqrt": inverse_sqrt, "inverse": inverse})
get, maker, names, register = _REGISTRY.get, _REGISTRY.maker, _REGISTRY.names, _REGISTRY.register


def as_step(step: Step | Callable[[int], Any]) -> Step:
    """A step, from itself or any callable of t."""
    if isinstance(step, Step):
        return step
    if callable(step):
        return Plain(step)
    raise StepError(f"step={step!r} is not callable: pass a function of the round t, such as mm.steps.inverse_sqrt(0.5) or mm.steps.constant(0.1).")


class Rates:
    """η_{n,t} stretch by stretch, checked as it is read: finite, positive, non-increasing."""

    def __init__(self, step: Step, tau_min: np.ndarray) -> None:
        self.step, self.agents = step, len(tau_min)
        self.tau_min = tau_min[:1] if (tau_min == tau_min[0]).all() else tau_min
        self._last: tuple[int, np.ndarray] | None = None

    def __call__(self, first: int, last: int) -> np.ndarray:
        """η for rounds first..last, both included: (R, N), or (R, 1) where all agents share it."""
        rounds = np.arange(first, last + 1)[:, None]
        rates = np.asarray(self.step.rate(rounds, self.tau_min[None, :]), dtype=np.float64)
        if rates.ndim != 2 or len(rates) != len(rounds) or rates.shape[1] not in (1, self.agents):
            raise StepError(f"the step gives an array of shape {rates.shape[1:]} in a round: {self.agents} agents need one rate, or one each.")
        wrong = np.argwhere(~(np.isfinite(rates) & (rates > 0)))
        if len(wrong):
            at = tuple(wrong[0])
            raise StepError(f"the rate of round {first + at[0]} is {float(rates[at])!r}: a rate must be finite and positive, or the memory is lost or frozen.")
        before = rates[:1] if self._last is None or self._last[0] > first else self._last[1]
        rising = np.argwhere(np.diff(rates, axis=0, prepend=before) > 0)
        if len(rising):
            t, n = rising[0]
            raise StepError(f"the rate rises to {rates[t, n]:.6g} in round {first + t}: rates must not increase, or no bound on regret holds.")
        self._last = (last, rates[-1:])
        return rates
