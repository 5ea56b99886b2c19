"""One stage played from its first round, or from a checkpoint, to its last."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from mnemesh.engine import resume
from mnemesh.engine.book import Book
from mnemesh.engine.choose import choose, drawn_inside
from mnemesh.engine.divergence import refuse_divergence
from mnemesh.engine.progress import Progress
from mnemesh.engine.rounds import NumpyRounds
from mnemesh.engine.stage import Stage
from mnemesh.engine.trace import Trace
from mnemesh.errors import EngineError

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
    try:
        name = str(dtype) if isinstance(dtype, str) or dtype is None else np.dtype(dtype).name
    except TypeError:
        name = ""
    if name not in ("float32", "float64"):
        raise EngineError(f"dtype={dtype!r}: memories are 'float32' or 'float64'; others lose the digits that regret is made of.")
    return name


def run(stage: Stage, ask: Ask) -> Trace:
    """Play; the runs of the stage are the first axis of what comes back."""
    taken = resume.read(ask.checkpoint) if ask.resume and ask.checkpoint is not None else None
    engine = choose(stage, taken.engine if taken and ask.engine == "auto" else ask.engine)
    d_v, d_phi = stage.shape
    a_round = stage.samples * stage.associations * (d_v + d_phi) + stage.total
    longest = max(min(max(_EASY // a_round, _FEW), _MANY, _MOST // a_round, stage.rounds), 1)
    inside = engine == "jax" and not ask.keep_losses and drawn_inside(stage)
    if inside:
        longest = min(_MANY, stage.rounds)  # nothing of a round is kept
    start = _starts(stage, ask.initial)
    player = _player(engine, stage, start, ask, longest)
    book = Book(stage, np.dtype(ask.dtype), ask.record_every, ask.horizons, ask.keep_losses)
    identity = resume.Identity(stage, engine, ask.dtype, ask.record_every, ask.keep_losses, start) if ask.checkpoint is not None else None
    if taken and identity:
        taken.restore(identity, player, book)
    progress, saved, pause = Progress(stage.rounds, book.done, ask.progress), time.monotonic(), _SECONDS
    while book.done < stage.rounds:
        book.before(lambda: player.memories)
        first, last = book.done, book.next_stop(longest)
        rates = stage.rates_reaching(first, last)
        blocks = None if inside else stage.read(first, last)
        losses = player.play(last - first if inside else blocks, first, rates)
        refuse_divergence(stage, losses, first, rounds=last - first)
        book.after(last - first, losses, blocks, player.statistics if inside else None)
        progress.at(last)
        if ask.checkpoint is not None and identity and (last == stage.rounds or time.monotonic() - saved > pause):
            begin = time.monotonic()
            resume.write(ask.checkpoint, identity, player, book)
            saved, pause = time.monotonic(), max(_SECONDS, 20 * (time.monotonic() - begin))  # a large state is written less often
    memories = player.memories
    refuse_divergence(stage, memories.sum((1, 2))[None], stage.rounds - 1)
    return book.traces(memories, engine)


def _player(engine: str, stage: Stage, start: np.ndarray, ask: Ask, longest: int) -> Any:
    if engine == "numba":
        from mnemesh.engine.agents import AgentsByKernel

        return AgentsByKernel(stage, start, ask.dtype, longest)
    if engine == "jax":
        from mnemesh.engine.compiled import JaxRounds

        return JaxRounds(stage, start, ask.dtype, longest, totals=not ask.keep_losses)
    return NumpyRounds(stage, start, ask.dtype)


def _starts(stage: Stage, initial: Any) -> np.ndarray:
    """X_1 of all runs: one initial memory for all of them, or one each."""
    if np.ndim(initial) == 4:
        return np.concatenate([problem.start(stage.shape, own) for problem, own in zip(stage.problems, initial, strict=True)])
    start = stage.problems[0].start(stage.shape, initial)
    return start if stage.runs == 1 else np.tile(start, (stage.runs, 1, 1))
