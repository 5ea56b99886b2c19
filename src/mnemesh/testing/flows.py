"""What a stream must do."""

from __future__ import annotations

import numpy as np

from mnemesh.streams.stream import Block, Stream
from mnemesh.testing.laws import holds

__all__ = ["check_stream"]


def check_stream(stream: Stream, *, rounds: int = 40) -> None:
    """Every block has the shapes that were promised and finite numbers, zeros where nothing is present; whoever asks, and in whatever order, sees the same."""
    rounds = min(rounds, stream.rounds)
    whole = stream.block(0, rounds)
    _check_shapes(stream, whole, rounds)
    middle = rounds // 2
    for first, last in ((middle, rounds), (0, middle), (middle, middle + 1)):  # backwards, too
        _check_same(stream.block(first, last), whole.part(first, last), f"block({first}, {last}) is not what block(0, {rounds}) holds there")
    some = np.arange(stream.agents)[::-2][::-1]
    _check_same(stream.block(0, rounds, some), whole.part(0, rounds, some), "block(…, agents) is not those agents' part of the whole")


def _check_shapes(stream: Stream, block: Block, rounds: int) -> None:
    places = (rounds, stream.agents, stream.associations)
    for name, array, size in (("keys", block.keys, stream.key_dim), ("values", block.values, stream.value_dim)):
        holds(array.shape == (*places, size), f"{name} of shape {array.shape}, not (R, N, A, d) = {(*places, size)}")
        holds(array.dtype.kind == "f" and bool(np.isfinite(array).all()), f"{name} are not all finite floating-point numbers")
        if block.present is not None:
            holds(not array[~block.present].any(), f"{name} are not zero where nothing is present")
    holds((block.present is not None) == stream.masked, f"masked={stream.masked}, and present is {'given' if block.present is not None else 'None'}")
    holds((block.gates is not None) == stream.gated, f"gated={stream.gated}, and gates are {'given' if block.gates is not None else 'None'}")
    if block.present is not None:
        holds(block.present.shape == places and block.present.dtype == bool, f"present of shape {block.present.shape}, not boolean {places}")
    if block.gates is not None:
        holds(block.gates.shape[:2] == places[:2], f"gates of shape {block.gates.shape}, not (R, N, …)")
        holds(bool(((block.gates >= 0) & (block.gates <= 1)).all()), "gates are not all in [0, 1]")


def _check_same(found: Block, wanted: Block, message: str) -> None:
    for name in ("keys", "values", "gates", "present"):
        here, there = getattr(found, name), getattr(wanted, name)
        holds((here is None) == (there is None) and (here is None or np.array_equal(here, there)), f"{name}: {message}")
