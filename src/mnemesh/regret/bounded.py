"""Many small quadratic programs between bounds at once: argmin ½ uᵀGu − sᵀu over low ≤ u ≤ high, exact up to rounding, G positive or singular."""

from __future__ import annotations

import numpy as np

__all__ = ["minimum_between"]

EPSILON = np.finfo(np.float64).eps
GUESSES = 12
STEPS_PER_ENTRY = 20


def minimum_between(
    curvatures: np.ndarray, slopes: np.ndarray, low: np.ndarray, high: np.ndarray, free: np.ndarray, singular: np.ndarray
) -> np.ndarray:
    """Minimisers u (M, d) for G (M, d, d), s (M, d), with s in the range of G; `free` are the unbounded ones, `singular` (M,) says which G are.

    First guess which ends are met, solve, and correct the guess by the signs: a guess that confirms itself satisfies the Karush–Kuhn–Tucker
    conditions. The few rows in which guesses go in circles descend from their clipped guess, one end at a time.
    """
    programs = _Programs(curvatures, slopes, low, high, singular)
    rows, at_low, at_high = free.copy(), free < low, free > high
    left = np.arange(len(rows))
    for _ in range(GUESSES):
        some, below, above = programs.some(left), at_low[left], at_high[left]
        guess = some.solve(below, above)
        pull = some.pull(guess)
        then_low = np.where(below, pull < 0, ~above & (guess < some.low))
        then_high = np.where(above, pull > 0, ~below & (guess > some.high))
        rows[left], at_low[left], at_high[left] = guess, then_low, then_high
        left = left[((then_low != below) | (then_high != above)).any(1)]
        if not len(left):
            return rows
    rows[left] = _descend(programs.some(left), np.clip(rows[left], low[left], high[left]))
    return rows


class _Programs:
    def __init__(self, curvatures: np.ndarray, slopes: np.ndarray, low: np.ndarray, high: np.ndarray, singular: np.ndarray) -> None:
        self.curvatures, self.slopes, self.low, self.high, self.singular = curvatures, slopes, low, high, singular

    def some(self, rows: np.ndarray) -> _Programs:
        return _Programs(*(array[rows] for array in (self.curvatures, self.slopes, self.low, self.high, self.singular)))

    def pull(self, rows: np.ndarray) -> np.ndarray:
        """s − Gu: where the objective falls."""
        return self.slopes - (self.curvatures @ rows[..., None])[..., 0]

    def solve(self, below: np.ndarray, above: np.ndarray) -> np.ndarray:
        """The minimisers with the entries `below` and `above` at their ends and the others free, wherever these land."""
        met = below | above
        ends = np.where(above, self.high, np.where(below, self.low, 0))
        size = abs(self.curvatures).max((1, 2))
        unit = np.where(size > 0, size, 1)[:, None, None] * np.eye(met.shape[1])
        matrices = np.where(met[:, :, None] | met[:, None, :], met[:, :, None] * unit, self.curvatures)
        right = np.where(met, 0, self.pull(ends))[..., None]
        solved, regular = np.empty_like(right), ~self.singular
        solved[regular] = np.linalg.solve(matrices[regular], right[regular])
        solved[self.singular] = np.linalg.pinv(matrices[self.singular], rcond=met.shape[1] * EPSILON, hermitian=True) @ right[self.singular]
        return np.where(met, ends, solved[..., 0])


def _descend(programs: _Programs, rows: np.ndarray) -> np.ndarray:
    """Go to the minimiser of the free entries or to the first end on the way; arrived, let go of the end that pulls inwards most; until none does."""
    below, above = rows <= programs.low, rows >= programs.high
    left = np.arange(len(rows))
    for _ in range(STEPS_PER_ENTRY * rows.shape[1]):
        some, now = programs.some(left), rows[left]
        step = some.solve(below[left], above[left]) - now
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(step > 0, (some.high - now) / step, np.where(step < 0, (some.low - now) / step, np.inf))
        stopped = np.arange(len(left)), room.argmin(1)
        share = np.minimum(room[stopped], 1)
        now = np.clip(now + share[:, None] * step, some.low, some.high)
        blocked = share < 1
        at = tuple(index[blocked] for index in stopped)
        now[at] = np.where(step[at] > 0, some.high[at], some.low[at])
        rows[left] = now
        below[left[at[0]], at[1]], above[left[at[0]], at[1]] = step[at] < 0, step[at] > 0
        pull = some.pull(now)
        inwards = np.where(below[left], pull, np.where(above[left], -pull, 0))
        noise = 8 * now.shape[1] * EPSILON * ((abs(some.curvatures) @ abs(now)[..., None])[..., 0] + abs(some.slopes))
        inwards = np.where(inwards > noise, inwards, 0)
        released = np.flatnonzero(~blocked & inwards.any(1))
        entry = inwards[released].argmax(1)
        below[left[released], entry] = above[left[released], entry] = False
        left = left[blocked | inwards.any(1)]
        if not len(left):
            break
    return rows
