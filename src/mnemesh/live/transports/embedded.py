"""All agents in one process: encoded frames go from hand to hand, in periods instead of seconds, and whatever a fault schedule says goes wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, final

from mnemesh.live.faults import Faults

__all__ = ["Embedded"]


@final
class Embedded:
    """Frames under way. One that is sent in period p arrives in period p + 1, unless a fault has it otherwise."""

    def __init__(self, faults: Faults, joined: Callable[[Any], bytes]) -> None:
        self.faults, self._joined = faults, joined
        self._due: dict[int, list[tuple[int, int, Any]]] = {}
        self.dropped: Counter[str] = Counter()

    @property
    def under_way(self) -> int:
        """How many frames have neither arrived nor been dropped."""
        return sum(map(len, self._due.values()))

    def send(self, sender: int, receiver: int, frame: Any, period: int) -> None:
        """Give a frame to the link."""
        if self.faults.cut(sender, receiver, period):
            self.dropped["cut"] += 1
            return
        fate = self.faults.fate(sender, receiver, period)
        if not fate.delays:
            self.dropped["lost"] += 1
        for delay, corrupted in zip(fate.delays, fate.corrupted, strict=True):
            arrives = self.faults.damage(self._joined(frame), sender, receiver, period) if corrupted else frame
            self._due.setdefault(period + 1 + delay, []).append((receiver, sender, arrives))

    def arriving(self, period: int) -> dict[int, list[tuple[int, Any]]]:
        """(sender, frame) pairs that arrive in this period, by receiver; what meets a cut link or a dead agent is gone."""
        found: dict[int, list[tuple[int, Any]]] = {}
        for receiver, sender, frame in self._due.pop(period, ()):
            if self.faults.cut(sender, receiver, period) or self.faults.crashed(receiver, period):
                self.dropped["cut" if self.faults.cut(sender, receiver, period) else "receiver down"] += 1
            else:
                found.setdefault(receiver, []).append((sender, frame))
        return found
