"""A line that tells how far a long run has come."""

from __future__ import annotations

import sys
import time

__all__ = ["Progress"]


class Progress:
    """Written to standard error, over itself; silent unless shown."""

    def __init__(self, rounds: int, done: int, shown: bool) -> None:
        self._rounds, self._first, self._shown = rounds, done, shown
        self._begin = self._last = time.monotonic()

    def at(self, done: int) -> None:
        """Say that `done` rounds are played."""
        now = time.monotonic()
        if not self._shown or (now - self._last < 0.1 and done < self._rounds):
            return
        self._last = now
        speed = (done - self._first) / max(now - self._begin, 1e-9)
        left = (self._rounds - done) / max(speed, 1e-9)
        filled = int(30 * done / self._rounds)
        end = "\n" if done == self._rounds else ""
        bar = "█" * filled + "░" * (30 - filled)
        print(f"\r{bar} round {done:,} of {self._rounds:,}, {speed:,.0f} a second, {left:,.0f} s left   ", end=end, file=sys.stderr, flush=True)
