"""What the frames of one network look like: what all its agents agree on, the layout that follows, and how large anything can become."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from struct import Struct
from typing import final

import numpy as np

from mnemesh.errors import ShapeError

__all__ = ["DENSE", "MAGIC", "PREFIX", "QUERY", "REPLY", "SEALED", "STATE", "VERSION", "Shape", "padding"]

MAGIC = b"MNEM"
VERSION = 1
DENSE = 2**32 - 1  # stands for the rank of a payload that is a matrix
SEALED = 16  # the checksum of a header covers it from here on; what is before is compared, byte by byte
PREFIX = Struct("<4s BBH Q 4I II 4I 4Q")  # magic; version, bytes of a number, 0; checksum; shape; lengths; sender, counts; incarnation …
STATE = Struct("<II QQ")  # agent, links, incarnation, sequence
QUERY = Struct("<II QQ")  # root, bytes of its route, incarnation, stamp
REPLY = Struct("<6I Q dd")  # root, path, terms, missed, rank or DENSE, decays, incarnation, loss, slope

_COUNTS = {
    **dict.fromkeys(("agents", "value_dim", "features_dim"), 1),
    **dict.fromkeys(("max_age", "max_terms", "max_rank", "max_queries", "max_replies"), 0),
}


def padding(size: int) -> int:
    """How many zero bytes bring `size` to a multiple of 8."""
    return -size % 8


@final
@dataclass(frozen=True)
class Shape:
    """What two agents must agree on before they can read each other.

    `decay_size` is the length of the gate's axis (1, d_v or d_φ), 0 where the loss does not decay; `max_age`: how many rounds before the
    bundle's own a stamp may lie. The other limits follow unless they are given: `max_terms`, answers that one reply sums or misses
    (N of each stamp); `max_rank`, rank-one terms that it keeps apart (one for each of its terms, or as many as are no larger than a
    matrix); `max_queries` and `max_replies`, how many a bundle holds (4N: four rounds at once).
    """

    agents: int
    value_dim: int
    features_dim: int
    dtype: str = "float32"
    decay_size: int = 0
    max_age: int = 0
    max_terms: int = 0
    max_rank: int = 0
    max_queries: int = 0
    max_replies: int = 0

    def __post_init__(self) -> None:
        for name, least in _COUNTS.items():
            if not least <= (value := getattr(self, name)) < DENSE:
                raise ShapeError(f"{name}={value!r} is no count from {least} to {DENSE - 1}: no frame can have that shape.")
        if self.dtype not in ("float32", "float64"):
            raise ShapeError(f"dtype={self.dtype!r} does not travel: choose 'float32' or 'float64'.")
        if self.decay_size not in (0, 1, self.value_dim, self.features_dim):
            axes = f"0, 1, {self.value_dim} or {self.features_dim}"
            raise ShapeError(f"decay_size={self.decay_size!r} is no axis of a memory: it must be {axes}.")
        self._follow("max_age", 4 * self.agents)
        self._follow("max_terms", self.agents * (self.max_age + 1))
        self._follow("max_rank", max(self.max_terms, self.value_dim * self.features_dim // (self.value_dim + self.features_dim)))
        self._follow("max_queries", 4 * self.agents)
        self._follow("max_replies", 4 * self.agents)

    def _follow(self, name: str, value: int) -> None:
        object.__setattr__(self, name, getattr(self, name) or value)

    @cached_property
    def number(self) -> np.dtype:
        """The numbers of all arrays, little-endian."""
        return np.dtype(self.dtype).newbyteorder("<")

    @cached_property
    def matrix(self) -> tuple[int, int]:
        """(d_v, d_φ), of a memory and of a dense payload."""
        return self.value_dim, self.features_dim

    @cached_property
    def matrix_bytes(self) -> int:
        return self.value_dim * self.features_dim * self.number.itemsize

    @cached_property
    def constants(self) -> tuple[int, int, int, int]:
        """What every frame repeats of the shape."""
        return self.agents, self.value_dim, self.features_dim, self.decay_size

    @cached_property
    def max_decays(self) -> int:
        """The most stamps that the terms of a reply can have."""
        return min(self.max_terms, self.max_age + 1) if self.decay_size else 0

    @cached_property
    def state_limit(self) -> int:
        """The most bytes that a link state can take."""
        return STATE.size + 4 * (self.agents - 1)

    @cached_property
    def route_limit(self) -> int:
        """The most bytes that a route can take: two counts, and every agent once."""
        return 8 + 16 * self.agents

    @cached_property
    def query_limit(self) -> int:
        """The most bytes that a query can take: its record, its route, the hash of its memory, and that."""
        return QUERY.size + self.route_limit + 8 + self.matrix_bytes + 8

    @cached_property
    def reply_limit(self) -> int:
        """The most bytes that a reply can take."""
        factored = self.max_rank * (self.value_dim + self.features_dim) * self.number.itemsize
        decays = self.max_decays * (8 + self.decay_size * self.number.itemsize)
        return REPLY.size + 4 * self.agents + 12 * self.max_terms + decays + max(factored, 8 + self.matrix_bytes + 8)

    @cached_property
    def frame_limit(self) -> int:
        """The most bytes that a frame can take: one always holds a bundle."""
        messages = self.max_queries * self.query_limit + self.max_replies * self.reply_limit
        return PREFIX.size + self.agents * self.state_limit + messages + 16
