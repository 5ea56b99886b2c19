"""What a run leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from mnemesh.errors import ShapeError
from mnemesh.statistics import Statistics

__all__ = ["Trace"]


@final
@dataclass(frozen=True, repr=False, eq=False)
class Trace:
    """A run's losses and memories; of `simulate_many`, every array but `recorded_rounds` and `horizons` has the runs as its first axis."""

    memories: np.ndarray  # the final X_{n,T+1}, (N, d_v, d_φ)
    losses: np.ndarray | None  # Σ_m w_{n,m} f_{m,t}(X_{n,t}), (T, N); None where horizons were asked for instead
    rounds: int
    engine: str
    history: np.ndarray | None = None  # X_{n,t} at the recorded rounds t, (K, N, d_v, d_φ)
    recorded_rounds: np.ndarray | None = None  # (K,), from 1
    horizons: np.ndarray | None = None  # (H,)
    cumulative: np.ndarray | None = None  # Σ_{t ≤ horizon} losses, (H, N), in float64
    statistics: Statistics | None = None  # what a comparator at each horizon needs

    @property
    def agents(self) -> int:
        """N."""
        return int(self.memories.shape[-3])

    def run(self, index: int) -> Trace:
        """One run of `simulate_many`."""
        if self.memories.ndim != 4:
            raise ShapeError("this trace is of one run already: only those of simulate_many have runs to pick from.")
        if not isinstance(index, int | np.integer) or not 0 <= index < len(self.memories):
            raise ShapeError(f"there is no run {index!r}: the trace holds runs 0..{len(self.memories) - 1}.")
        pick = lambda array: None if array is None else array[index]  # noqa: E731
        statistics = None if self.statistics is None else Statistics._make(pick(part) for part in self.statistics)
        return Trace(
            self.memories[index], pick(self.losses), self.rounds, self.engine, pick(self.history), self.recorded_rounds,
            self.horizons, pick(self.cumulative), statistics,
        )  # fmt: skip

    def __repr__(self) -> str:
        *runs, agents, d_v, d_phi = self.memories.shape
        many = f"runs={runs[0]}, " if runs else ""
        kept = "losses" if self.losses is not None else f"{len(self.horizons if self.horizons is not None else ())} horizons"
        record = "" if self.recorded_rounds is None else f", {len(self.recorded_rounds)} recorded rounds"
        return f"Trace({many}agents={agents}, rounds={self.rounds}, memories {d_v}×{d_phi}, {kept}{record}, engine={self.engine!r})"
