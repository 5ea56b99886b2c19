"""The paper's teachers: v = ((1 − ρ) M_n + ρ M_com) k + noise, with all its parameters, checked once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from mnemesh.draws import AGENT_BLOCK, generator
from mnemesh.errors import DataError
from mnemesh.streams.stream import Stream

__all__ = ["Taught"]

RULES: tuple[tuple[tuple[str, ...], Callable[[Any], Any], str], ...] = (
    (
        ("agents", "key_dim", "value_dim", "rounds", "associations"),
        lambda size: isinstance(size, int | np.integer) and size >= 1,
        "a stream has a whole number of them, at least 1",
    ),
    (("correlation", "gate_probability", "presence"), lambda share: 0 <= share <= 1, "a share of the common teacher, or a probability, lies in [0, 1]"),
    (("noise", "mean_range", "variance"), lambda size: 0 <= size < np.inf, "a size of what is drawn is finite and not negative"),
    (("key_range", "degrees"), lambda size: 0 < size < np.inf, "it must be positive and finite, or there is nothing to draw from"),
    (("gate",), lambda axis: axis in (None, "value", "key", "scalar"), "an axis of a memory is needed, 'value', 'key' or 'scalar', as the loss names it"),
    (("dtype",), lambda dtype: dtype in ("float32", "float64"), "streams are drawn as 'float32' or 'float64'"),
)


@dataclass(eq=False, repr=False)
class Taught(Stream):
    """Keys uniform on [−`key_range`, `key_range`]; noise N(0, `noise`²) per entry; M_com entries χ²(`degrees`).

    M_n has entries N(μ_n, s_n²) with μ_n ~ U[−`mean_range`, `mean_range`] and s_n² ~ U[0, `variance`]. Gates are binary, 1 with
    `gate_probability`, on the axis `gate`; a "key" gate has d_k entries, or `gate_dim` where features change the dimension. Every one of a
    round's `associations` is there with probability `presence`. Everything is drawn and computed in `dtype`.
    """

    _: KW_ONLY
    agents: int
    key_dim: int
    value_dim: int
    rounds: int
    correlation: float
    seed: int
    noise: float = 1.0
    key_range: float = 1.0
    mean_range: float = 5.0
    variance: float = 50.0
    degrees: float = 2.0
    gate: str | None = None
    gate_probability: float = 0.9
    gate_dim: int | None = None
    associations: int = 1
    presence: float = 1.0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        for names, within, why in RULES:
            for name in names:
                if not within(getattr(self, name)):
                    raise DataError(f"{name}={getattr(self, name)!r}: {why}.")
        if self.gate_dim is not None and (self.gate != "key" or self.gate_dim < 1):
            raise DataError(f"gate_dim={self.gate_dim!r} with gate={self.gate!r}: only a 'key' gate has a dimension of its own, at least 1, that of the features.")
        generator(self.seed, "teacher")  # refuses what is no seed
        self.masked, self.gated = self.presence < 1, self.gate is not None
        self._teachers: dict[int, np.ndarray] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # the settings say it all: a copy draws the same bits

    def __setstate__(self, settings: dict[str, Any]) -> None:
        vars(self).update(settings)
        self.__post_init__()

    @property
    def gate_shape(self) -> tuple[int, ...]:
        """The shape of one agent's gate in one round."""
        return {"value": (self.value_dim,), "key": (self.gate_dim or self.key_dim,)}.get(self.gate or "", ())

    @property
    def matrices(self) -> np.ndarray:
        """(1 − ρ) M_n + ρ M_com, (N, d_v, d_k); (1, d_v, d_k) at ρ = 1, where all agents have one teacher."""
        if self.correlation == 1:
            return self._common.astype(self.dtype)
        return np.concatenate([self.teachers(block) for block in range(-(-self.agents // AGENT_BLOCK))])

    @cached_property
    def _common(self) -> np.ndarray:
        return generator(self.seed, "teacher/common").chisquare(self.degrees, (1, self.value_dim, self.key_dim))

    def teachers(self, block: int) -> np.ndarray:
        """`matrices` of one block of 1,024 agents, drawn when first asked for: who reads some agents needs no others' teachers."""
        if block not in self._teachers:
            self._teachers[block] = self._draw_teachers(block)
        return self._teachers[block]

    def teachers_of(self, agents: np.ndarray) -> np.ndarray:
        """`matrices` of these agents; (1, d_v, d_k) at ρ = 1."""
        if self.correlation == 1:
            return self.teachers(0)
        blocks = agents // AGENT_BLOCK
        matrices = np.empty((len(agents), self.value_dim, self.key_dim), self.dtype)
        for block in np.unique(blocks).tolist():
            here = blocks == block
            matrices[here] = self.teachers(block)[agents[here] - block * AGENT_BLOCK]
        return matrices

    def _draw_teachers(self, block: int) -> np.ndarray:
        if self.correlation == 1:
            return self._common.astype(self.dtype)
        count = min(AGENT_BLOCK, self.agents - block * AGENT_BLOCK)
        means = generator(self.seed, "teacher/means", block).uniform(-self.mean_range, self.mean_range, (count, 1, 1))
        spreads = np.sqrt(generator(self.seed, "teacher/variances", block).uniform(0, self.variance, (count, 1, 1)))
        own = means + spreads * generator(self.seed, "teacher/matrices", block).standard_normal((count, self.value_dim, self.key_dim))
        return ((1 - self.correlation) * own + self.correlation * self._common).astype(self.dtype)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, correlation={self.correlation:g}, seed={self.seed})"
