"""What the bounds are made of: each agent's constants, and its rates on a clock of its own, stretch by stretch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from mnemesh.interest import Interest
from mnemesh.steps import Rates, Step

__all__ = ["Constants", "Schedule"]

CELLS = 2**20  # numbers that one stretch of rounds may hold


@final
@dataclass(frozen=True, eq=False, repr=False)
class Constants:
    """The constants of Theorem 3, (9)–(12), and of the sharper theorem, from interests w, bounds L (N,), delays τ (nnz,) and B."""

    interest: Interest
    lipschitz: np.ndarray
    delays: np.ndarray
    diameter: float

    def sums(self, ragged: np.ndarray) -> np.ndarray:
        """Σ_{m∈𝒲_n} of numbers given per partner, (N,)."""
        return np.add.reduceat(ragged, self.interest.starts[:-1])

    @property
    def pulls(self) -> np.ndarray:
        """w_{n,m} L_m, (nnz,)."""
        return self.interest.weights * self.lipschitz[self.interest.partners]

    @property
    def slope(self) -> np.ndarray:
        """L̄_n = Σ_m w_{n,m} L_m."""
        return self.sums(self.pulls)

    @property
    def shares(self) -> np.ndarray:
        """w_{n,m} L_m / L̄_n, (nnz,): 0 where L̄_n = 0."""
        slope = self.slope[self.interest.rows]
        return np.divide(self.pulls, slope, out=np.zeros(len(slope)), where=slope > 0)

    @property
    def weighted_delay(self) -> np.ndarray:
        """τ̄_n = Σ_m w_{n,m} L_m τ_{n,m} / L̄_n: 0 where L̄_n = 0."""
        return self.sums(self.shares * self.delays)

    @property
    def tau_min(self) -> np.ndarray:
        """min τ_{n,m} over 𝒲_n."""
        return np.minimum.reduceat(self.delays, self.interest.starts[:-1])

    @property
    def tau_max(self) -> np.ndarray:
        """max τ_{n,m} over 𝒲_n."""
        return np.maximum.reduceat(self.delays, self.interest.starts[:-1])

    @property
    def largest(self) -> np.ndarray:
        """K_n = max_m w_{n,m} L_m."""
        return np.maximum.reduceat(self.pulls, self.interest.starts[:-1])

    @property
    def size(self) -> np.ndarray:
        """|𝒲_n|."""
        return np.diff(self.interest.starts)

    @property
    def q(self) -> np.ndarray:
        """Q_n = (K_n/2) Σ L_m + |𝒲_n| K_n² Σ τ_{n,m}."""
        return self.largest / 2 * self.sums(self.lipschitz[self.interest.partners]) + self.size * self.largest**2 * self.sums(self.delays)

    @property
    def p(self) -> np.ndarray:
        """P_n = |𝒲_n|² K_n² τ_max²."""
        return (self.size * self.largest * self.tau_max) ** 2

    @property
    def c(self) -> np.ndarray:
        """C_n = (Δτ_n/2)(K_n Σ L_m + |𝒲_n| B²)."""
        steep = self.largest * self.sums(self.lipschitz[self.interest.partners])
        return (self.tau_max - self.tau_min) / 2 * (steep + self.size * self.diameter**2)


@final
class Schedule:
    """η_{n,t} with each agent's own τ_min, and the sums of rates that the bounds are made of, for T = 1, 2, …, a stretch at a time."""

    def __init__(self, step: Step, constants: Constants) -> None:
        self.step, self.constants = step, constants
        self.tau_min, self.tau_max = constants.tau_min, constants.tau_max

    def stretches(self, rounds: int) -> Iterator[tuple[int, int]]:
        """(first, last) of stretches of T that cover 1 .. rounds and hold a bounded amount of numbers."""
        length = max(CELLS // len(self.tau_min), 1)
        return ((first, min(first + length - 1, rounds)) for first in range(1, rounds + 1, length))

    def ahead(self, rates: Rates, first: int, last: int, shift: np.ndarray) -> np.ndarray:
        """η_{n,T+shift_n} for T = first .. last, (R, N) or (R, 1)."""
        low, high = int(shift.min()), int(shift.max())
        found = rates(first + low, last + high)
        if low == high:
            return found
        places = np.arange(last - first + 1)[:, None] + (shift - low)
        return found[places, 0] if found.shape[1] == 1 else np.take_along_axis(found, places, axis=0)

    def last_gradients(self, rounds: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(Σ_{t=τ_min+1}^{T+τ_max} η_{n,t}, η_{n,T+τ_max}): what Theorem 3 needs."""
        rates, early, spread = Rates(self.step, self.tau_min), Rates(self.step, self.tau_min), self.tau_max - self.tau_min
        total = np.zeros(len(spread))
        for first, last in self.stretches(int(spread.max())):
            rate = self.ahead(early, first, last, self.tau_min)
            total = total + (rate * (np.arange(first, last + 1)[:, None] <= spread)).sum(0)
        for first, last in self.stretches(rounds):
            rate = self.ahead(rates, first, last, self.tau_max)
            sums = total + rate.cumsum(0)
            total = sums[-1]
            yield sums, rate

    def frozen(self, rounds: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(S_n, η_{n,T+τ_min}) with S_n = Σ_m (w_{n,m} L_m / L̄_n) Σ_{s=1}^{T} η_{n,min(s+τ_{n,m}, T+τ_min)}: what the sharper theorem needs.

        With A(u) the share of the partners that are at least u rounds later than the nearest, this is
        S_n = Σ_{u=1}^{T} (1 − A(u)) η_{n,u+τ_min} + η_{n,T+τ_min} Σ_{u=1}^{T} A(u).
        """
        rates, late = Rates(self.step, self.tau_min), _Late(self.constants)
        total = waiting = np.zeros(len(self.tau_min))
        for first, last in self.stretches(rounds):
            rate = self.ahead(rates, first, last, self.tau_min)
            share = late(first, last)
            sums = total + ((1 - share) * rate).cumsum(0)
            waits = waiting + share.cumsum(0)
            total, waiting = sums[-1], waits[-1]
            yield sums + rate * waits, rate


class _Late:
    """A(u), (R, N): the share w_{n,m} L_m / L̄_n of the partners whose delay exceeds τ_min by u or more."""

    def __init__(self, constants: Constants) -> None:
        rows = constants.interest.rows
        gaps = constants.delays - constants.tau_min[rows]
        order = np.argsort(gaps, kind="stable")
        self.gaps, self.rows, self.shares = gaps[order], rows[order], constants.shares[order]
        self.agents = constants.interest.agents

    def __call__(self, first: int, last: int) -> np.ndarray:
        here, beyond = np.searchsorted(self.gaps, [first, last + 1])
        cells = (self.gaps[here:beyond] - first) * self.agents + self.rows[here:beyond]
        share = np.bincount(cells, self.shares[here:beyond], (last - first + 1) * self.agents).astype(np.float64).reshape(-1, self.agents)
        share[-1] += np.bincount(self.rows[beyond:], self.shares[beyond:], self.agents)
        return share[::-1].cumsum(0)[::-1]
