"""A run written down between two stretches, and taken up again only by the same run."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any, final

import numpy as np

from mnemesh.engine import checkpoint
from mnemesh.engine.book import Book
from mnemesh.engine.stage import Stage
from mnemesh.errors import CheckpointError, MnemeshError

__all__ = ["Identity", "Taken", "read", "write"]


@final
class Identity:
    """What a checkpoint must agree with to be of this run: everything but how far it goes."""

    def __init__(self, stage: Stage, engine: str, dtype: str, record_every: int | None, keep_losses: bool, start: np.ndarray) -> None:
        self._stage = stage
        parts = {"loss": stage.loss, "domain": stage.domain, "features": stage.features}
        self.facts: dict[str, Any] = {
            "engine": engine, "dtype": dtype, "record_every": record_every, "keep_losses": keep_losses, "initial": _sum(start),
            "algorithm": [f"{algorithm.name} {_told(algorithm)}" for algorithm in stage.algorithms],
            **{name: f"{part.name} {_told(part)}" for name, part in parts.items()},
        }  # fmt: skip
        for name, rows in (("interest", stage.score), ("learning", stage.learn), ("mixing", stage.mixing)):
            self.facts[name] = None if rows is None else _sum(*rows)
        if engine == "numba" and not stage.endless:
            self.facts["rounds"] = stage.rounds  # replies under way carry their rates, which such a step may not have known past the end

    def marks(self, done: int, horizons: np.ndarray | None) -> dict[str, Any]:
        """What was played with in the first and the last of so many rounds, and the horizons that lie behind."""
        stage, marks = self._stage, {}
        for when, t in (("first", 1), ("last", done)):
            blocks = stage.read(t - 1, t)
            marks[f"{when} data"] = _sum(*(part for block in blocks for part in (block.keys, block.values, block.gates, block.present)))
            marks[f"{when} rates"] = _sum(stage.rates(t, t))
        return {**marks, "horizons": None if horizons is None else horizons[horizons <= done].tolist()}


def _sum(*arrays: np.ndarray | None) -> int:
    return zlib.crc32(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays if array is not None))


def _told(part: Any) -> str:
    """Settings as words; of arrays a sum, of graphs and trees nothing, which the rows tell."""
    try:
        settings = part.settings()
    except MnemeshError:
        return repr(part)
    plain = {name: _sum(value) if isinstance(value, np.ndarray) else value for name, value in settings.items()}
    return str({name: value for name, value in plain.items() if isinstance(value, str | int | float | list | None)})


def write(path: Any, identity: Identity, player: Any, book: Book) -> None:
    """Write where the run stands."""
    facts = {"done": book.done, **identity.facts, **identity.marks(book.done, book.horizons)}
    parts = (("state", player), ("book", book))
    checkpoint.write(path, "run", facts, {f"{owner}.{name}": array for owner, part in parts for name, array in part.dump().items()})


def read(path: Any) -> Taken | None:
    """The checkpoint there, if there is one."""
    return Taken(path) if Path(path).exists() else None


@final
class Taken:
    """A checkpoint that was read."""

    def __init__(self, path: Any) -> None:
        self._path = os.fspath(path)
        self._facts, self._arrays = checkpoint.read(path, "run")

    @property
    def engine(self) -> str:
        """The engine that played so far."""
        return str(self._facts.get("engine"))

    def restore(self, identity: Identity, player: Any, book: Book) -> None:
        """Take the run up, or refuse what is of another run."""
        done = int(self._facts["done"])
        self._refuse(identity.facts)
        if done > book.stage.rounds:
            raise CheckpointError(f"the checkpoint {self._path!r} has played {done} rounds, and this stream has only {book.stage.rounds}.")
        self._refuse(identity.marks(done, book.horizons))
        of = {owner: {name.removeprefix(owner): a for name, a in self._arrays.items() if name.startswith(owner)} for owner in ("state.", "book.")}
        player.restore(of["state."])
        book.restore(done, of["book."])

    def _refuse(self, facts: dict[str, Any]) -> None:
        other = [name for name, value in facts.items() if self._facts.get(name) != value]
        if other:
            differ = "differs" if len(other) == 1 else "differ"
            raise CheckpointError(f"the checkpoint {self._path!r} is of another run: {', '.join(other)} {differ}. Resuming would mix two runs.")
