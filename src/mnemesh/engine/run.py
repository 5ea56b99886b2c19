"""One stage played from its first round, or from a checkpoint, to its last."""

from __future__ import annotations

import os
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mnemesh.engine import checkpoint
from mnemesh.engine.book import Book
from mnemesh.engine.choose import choose, drawn_inside
from mnemesh.engine.divergence import refuse_divergence
from mnemesh.engine.progress import Progress
from mnemesh.engine.rounds import NumpyRounds
from mnemesh.engine.stage import Stage
from mnemesh.engine.trace import Trace
from mnemesh.errors import CheckpointError, EngineError

__all__ = ["Ask", "known_dtype", "run"]

_EASY, _MOST = 2**23, 2**27  # numbers of data and losses that are held at once without a thought, and at the most
_FEW, _MANY = 32, 4_096  # rounds played in one stretch: at the least, unless fewer are all that fit, and at the most
_SECONDS = 10.0  # between two checkpoints, at the least


@dataclass(frozen=True)
class Ask:
    """What the caller of `simulate` wants, checked."""

    engine: str
    dtype: str
    initial: Any
    record_every: int | None
    horizons: np.ndarray | None
    keep_losses: bool
    checkpoint: str | os.PathLike[str] | None
    resume: bool
    progress: bool


def known_dtype(dtype: Any) -> str:
    """The name of a memory's number type."""
    name = str(dtype) if isinstance(dtype, str) else np.dtype(dtype).name
    if name not in ("float32", "float64"):
        raise EngineError(f"dtype={dtype!r}: memories are 'float32' or 'float64'; others lose the digits that regret is made of.")
    return name


def run(stage: Stage, ask: Ask) -> Trace:
    """Play; the runs of the stage are the first axis of what comes back."""
    engine = choose(stage, ask.engine)
    d_v, d_phi = stage.shape
    a_round = stage.samples * stage.associations * (d_v + d_phi) + stage.total
    longest = max(min(max(_EASY // a_round, _FEW), _MANY, _MOST // a_round, stage.rounds), 1)
    inside = engine == "jax" and not ask.keep_losses and drawn_inside(stage)
    if inside:
        longest = min(_MANY, stage.rounds)  # nothing of a round is kept
    start = _starts(stage, ask.initial)
    player = _player(engine, stage, start, ask.dtype, longest)
    book = Book(stage, np.dtype(ask.dtype), ask.record_every, ask.horizons, ask.keep_losses)
    identity = _identity(stage, ask, engine, start) if ask.checkpoint is not None else {}
    if ask.resume and ask.checkpoint is not None and Path(ask.checkpoint).exists():
        _take_up(ask.checkpoint, identity, player, book)
    progress, saved, pause = Progress(stage.rounds, book.done, ask.progress), time.monotonic(), _SECONDS
    while book.done < stage.rounds:
        book.before(lambda: player.memories)
        first, last = book.done, book.next_stop(longest)
        rates = stage.rates_reaching(first, last)
        blocks = None if inside else stage.read(first, last)
        losses = player.play(last - first if inside else blocks, first, rates, **({"totals": True} if engine == "jax" and not ask.keep_losses else {}))
        refuse_divergence(stage, losses, first, rounds=last - first)
        book.after(last - first, losses, blocks, getattr(player, "statistics", None))
        progress.at(last)
        if ask.checkpoint is not None and (last == stage.rounds or time.monotonic() - saved > pause):
            begin = time.monotonic()
            arrays = {f"{owner}.{name}": array for owner, part in (("state", player), ("book", book)) for name, array in part.dump().items()}
            checkpoint.write(ask.checkpoint, "run", {"done": last, **identity}, arrays)
            saved, pause = time.monotonic(), max(_SECONDS, 20 * (time.monotonic() - begin))  # a large state is written less often
    memories = player.memories
    refuse_divergence(stage, memories.sum((1, 2))[None], stage.rounds - 1)
    return book.traces(memories, engine)


def _player(engine: str, stage: Stage, start: np.ndarray, dtype: str, longest: int) -> Any:
    if engine == "numba":
        from mnemesh.engine.agents import AgentsByKernel

        return AgentsByKernel(stage, start, dtype, longest)
    if engine == "jax":
        from mnemesh.engine.compiled import JaxRounds

        return JaxRounds(stage, start, dtype, longest)
    return NumpyRounds(stage, start, dtype)


def _starts(stage: Stage, initial: Any) -> np.ndarray:
    """X_1 of all runs: one initial memory for all of them, or one each."""
    if np.ndim(initial) == 4:
        return np.concatenate([problem.start(stage.shape, own) for problem, own in zip(stage.problems, initial, strict=True)])
    start = stage.problems[0].start(stage.shape, initial)
    return start if stage.runs == 1 else np.tile(start, (stage.runs, 1, 1))


def _identity(stage: Stage, ask: Ask, engine: str, start: np.ndarray) -> dict[str, Any]:
    """What a checkpoint must agree with to be of this run: everything but how far it goes."""
    sums: dict[str, int] = {"initial": zlib.crc32(start.tobytes())}
    first = stage.side_by_side(stage.read(0, 1))
    for name, rows in (("interest", stage.score), ("learning", stage.learn), ("mixing", stage.mixing)):
        sums[name] = 0 if rows is None else zlib.crc32(b"".join(np.ascontiguousarray(part).tobytes() for part in rows))
    sums["data"] = zlib.crc32(np.ascontiguousarray(first.keys).tobytes() + np.ascontiguousarray(first.values).tobytes())
    sums["rates"] = zlib.crc32(stage.rates(1, 1).tobytes())
    horizons = None if ask.horizons is None else ask.horizons.tolist()
    if engine == "numba" and not stage.endless:
        sums["rounds"] = stage.rounds  # replies under way carry their rates, which such a step may not have known past the end
    words = {"engine": engine, "dtype": ask.dtype, "algorithm": stage.algorithm.name, "loss": repr(stage.loss), "domain": repr(stage.domain)}
    return {**words, "features": repr(stage.features), "record_every": ask.record_every, "horizons": horizons, "keep_losses": ask.keep_losses, **sums}


def _take_up(path: Any, identity: dict[str, Any], player: Any, book: Book) -> None:
    facts, arrays = checkpoint.read(path, "run")
    other = [name for name, value in identity.items() if facts.get(name) != value]
    if other:
        raise CheckpointError(f"the checkpoint {os.fspath(path)!r} is of another run: {', '.join(other)} differ. Resuming would mix two runs.")
    if facts["done"] > book.stage.rounds:
        raise CheckpointError(f"the checkpoint {os.fspath(path)!r} has played {facts['done']} rounds, and this stream has only {book.stage.rounds}.")
    for owner, part in (("state.", player.restore), ("book.", lambda arrays: book.restore(facts["done"], arrays))):
        part({name.removeprefix(owner): array for name, array in arrays.items() if name.startswith(owner)})
