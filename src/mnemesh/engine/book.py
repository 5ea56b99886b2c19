"""What is kept of a run while it is played: full losses, or their sums and a comparator's statistics at the horizons; and recorded memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mnemesh.engine.stage import Stage
from mnemesh.engine.trace import Trace
from mnemesh.statistics import Statistics, add, empty, stack
from mnemesh.streams.stream import Block

__all__ = ["Book"]

class Book:
    """The record of a stage's run. Round numbers are counted from 0 here: `done` rounds lie behind."""

    def __init__(self, stage: Stage, dtype: Any, record_every: int | None, horizons: np.ndarray | None, keep_losses: bool) -> None:
        self.stage, self.record_every, self.horizons, self.done = stage, record_every, horizons, 0
        self._losses = np.empty((stage.rounds, stage.total), dtype=dtype) if keep_losses else None
        self._sum = np.zeros(stage.total)
        self._cumulative: list[np.ndarray] = []
        self._exact = horizons is not None and stage.loss.curvature is not None  # whether statistics say all about the losses
        self._statistics = [empty(stage.problems[0], stage.shape) for _ in stage.sources] if self._exact else []
        self._snapshots: list[list[Statistics]] = []
        self._history: list[np.ndarray] = []
        self._known = False  # whether the data went by here, so that the statistics stand for them

    def next_stop(self, longest: int) -> int:
        """Up to where to play in one stretch."""
        stops = [(self.done // longest + 1) * longest, self.stage.rounds]
        if self.record_every:
            coming = (self.done // self.record_every + 1) * self.record_every - 1  # the record of round t is taken before t is played
            stops.append(coming if coming > self.done else coming + self.record_every)
        if self.horizons is not None:
            stops.extend(self.horizons[self.horizons > self.done][:1].tolist())
        return min(stops)

    def before(self, memories: Any) -> None:
        """Record X_{n,t} if t is due."""
        if self.record_every and (self.done + 1) % self.record_every == 0:
            self._history.append(memories())

    def after(self, rounds: int, losses: np.ndarray, blocks: Sequence[Block] | None, drawn: Any = None) -> None:
        """Take in a stretch of losses (R, B·N), or their sums (B·N,), and the data they came from, or of data drawn inside the run the statistics."""
        self.done += rounds
        if self._losses is not None:
            self._losses[self.done - rounds : self.done] = losses
        if self.horizons is None:
            return
        self._sum += losses if losses.ndim == 1 else losses.sum(0, dtype=np.float64)
        if blocks is not None and self._exact:
            self._statistics = [add(self.stage.problems[0], old, block) for old, block in zip(self._statistics, blocks, strict=True)]
            self._known = True
        if self.done in self.horizons and blocks is None and self._exact:
            self._statistics, self._known = drawn(), True
        if self.done in self.horizons:
            self._cumulative.append(self._sum.copy())
            self._snapshots.append(self._statistics)

    def traces(self, memories: np.ndarray, engine: str) -> Trace:
        """The record, runs first."""
        split = self.stage.split
        shape = (0, self.stage.total, *self.stage.shape)
        history = split(np.stack(self._history) if self._history else np.empty(shape, memories.dtype), 1) if self.record_every else None
        recorded = np.arange(self.record_every, self.stage.rounds + 1, self.record_every) if self.record_every else None
        losses = None if self._losses is None else split(self._losses, 1)
        if self.horizons is None:
            return Trace(split(memories), losses, self.stage.rounds, engine, history, recorded)
        places = {id(source): place for place, source in enumerate(self.stage.sources)}
        statistics = None
        if self._known:
            each = [stack([snapshot[place] for snapshot in self._snapshots]) for place in range(len(self.stage.sources))]
            statistics = stack([each[places[id(stream)]] for stream in self.stage.streams])
        cumulative = split(np.stack(self._cumulative), 1)
        return Trace(split(memories), losses, self.stage.rounds, engine, history, recorded, self.horizons, cumulative, statistics)

    def dump(self) -> dict[str, np.ndarray]:
        """What a checkpoint needs of the record."""
        arrays = {"sum": self._sum}
        if self._losses is not None:
            arrays["losses"] = self._losses[: self.done]
        if self._history:
            arrays["history"] = np.stack(self._history)
        if self._cumulative:
            arrays["cumulative"] = np.stack(self._cumulative)
        for name, rows in (("now", [self._statistics]), ("snapshots", self._snapshots)):
            for field in Statistics._fields:
                if rows and self._known and getattr(rows[0][0], field) is not None:
                    arrays[f"{name}.{field}"] = np.stack([[getattr(part, field) for part in row] for row in rows])
        return arrays

    def restore(self, done: int, arrays: dict[str, np.ndarray]) -> None:
        """Take up a dumped record of `done` rounds."""
        self.done, self._sum = done, arrays["sum"]
        if self._losses is not None:
            self._losses[:done] = arrays["losses"]
        self._history, self._cumulative = list(arrays.get("history", ())), list(arrays.get("cumulative", ()))
        self._known = "now.constant" in arrays
        if self._known:
            rows = {name: {field: arrays.get(f"{name}.{field}") for field in Statistics._fields} for name in ("now", "snapshots")}
            sources = range(len(self._statistics))
            pick = lambda row, at: [Statistics._make(None if a is None else a[at][p] for a in row.values()) for p in sources]  # noqa: E731
            self._statistics = pick(rows["now"], 0)
            self._snapshots = [pick(rows["snapshots"], at) for at in range(len(self._cumulative))]
