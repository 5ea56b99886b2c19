"""From a bundle to a frame."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable
from struct import pack
from typing import Any

import numpy as np

from mnemesh.errors import WireError
from mnemesh.live.messages import Bundle, Query, Reply
from mnemesh.live.wire.buffers import all_finite, frozen, hash_of
from mnemesh.live.wire.frames import Frame, Top, check_limits, sealed
from mnemesh.live.wire.routes import pack_route
from mnemesh.live.wire.shape import DENSE, PREFIX, QUERY, REPLY, STATE, Shape, padding

__all__ = ["encode", "sizes"]


def encode(bundle: Bundle, shape: Shape) -> Frame:
    """The frame that holds a bundle.

    Read-only matrices become segments as they are, hashed and checked once in their life; a matrix that can be written to is copied. Raises
    WireError for what cannot travel: another shape or dtype, NaN, more than the network's limits. Whether routes and stamps make sense is
    for the receiver to judge.
    """
    draft = _Draft(shape)
    try:
        tables = [
            *(draft.state(state) for state in bundle.states),
            *(draft.query(query) for query in bundle.queries),
            *(draft.reply(reply) for reply in bundle.replies),
        ]
        return draft.frame(bundle, tables)
    except struct.error as error:
        told = f"the bundle of round {bundle.round} does not fit its fields ({error})"
        raise WireError(f"{told}: ids are below 2³², counts below 2⁶⁴.", "range") from error


def sizes(bundle: Bundle, shape: Shape) -> Counter[str]:
    """How many bytes of a bundle's frame its "query" and "reply" messages take."""
    matrix = shape.matrix_bytes + padding(shape.matrix_bytes) + 8
    taken = Counter({"query": 0, "reply": 0})
    for query in bundle.queries:
        taken["query"] += QUERY.size + len(pack_route(query.path, query.branch)) + matrix
    for reply in bundle.replies:
        rank = 0 if reply.payload.residuals is None else len(reply.payload.residuals)
        numbers = rank * sum(shape.matrix) + len(reply.decays) * shape.decay_size
        labels = 4 * len(reply.path) + 12 * (len(reply.terms) + len(reply.missed)) + 8 * len(reply.decays)
        taken["reply"] += REPLY.size + labels + numbers * shape.number.itemsize + (matrix if reply.payload.dense is not None else 0)
    return taken


class _Draft:
    """A frame in the making: what the tables refer to."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.matrices: list[np.ndarray] = []
        self.stamps: list[int] = []
        self.agents: list[int] = []
        self.routes: list[bytes] = []
        self.numbers: list[bytes] = []

    def state(self, state: Any) -> bytes:
        agent, incarnation, sequence, links = state
        self.agents += links
        return STATE.pack(agent, len(links), incarnation, sequence)

    def query(self, query: Query) -> bytes:
        root, incarnation, stamp, path, branch, memory = query
        route = pack_route(path, branch)
        self.matrices.append(frozen(memory, self.shape))
        self.routes.append(route)
        return QUERY.pack(root, len(route), incarnation, stamp)

    def reply(self, reply: Reply) -> bytes:
        root, incarnation, path, terms, missed, (residuals, features, dense), decays, loss, slope = reply
        shape = self.shape
        if dense is None:
            rank = len(residuals)  # type: ignore[arg-type]
            self._small(residuals, (rank, shape.value_dim))
            self._small(features, (rank, shape.features_dim))
        elif residuals is None and features is None:
            rank = DENSE
            self.matrices.append(frozen(dense, shape))
        else:
            raise WireError("a payload is both factored and dense: the receiver could not tell which one counts.", "shape")
        self.agents += path
        for agent, stamp in (*terms, *missed) if missed else terms:
            self.agents.append(agent)
            self.stamps.append(stamp)
        for stamp, decay in decays:
            self.stamps.append(stamp)
            self._small(decay, (shape.decay_size,))
        if len(terms) + len(missed) > shape.max_terms or len(decays) > shape.max_decays or shape.max_rank < rank < DENSE:
            most = f"{shape.max_terms} terms, {shape.max_decays} decays and rank {shape.max_rank} are the limits"
            raise WireError(f"a reply of {len(terms)} + {len(missed)} terms, {len(decays)} decays and rank {rank}: {most}.", "oversized")
        if not (math.isfinite(loss) and math.isfinite(slope)):
            raise WireError(f"a reply has the loss {loss!r} and the slope {slope!r}: its root would lose count.", "not finite")
        return REPLY.pack(root, len(path), len(terms), len(missed), rank, len(decays), incarnation, loss, slope)

    def _small(self, array: Any, wanted: tuple[int, ...]) -> None:
        """Numbers that travel in the header."""
        if array.shape != wanted:
            raise WireError(f"an array of shape {array.shape} cannot be sent where {wanted} is agreed on.", "shape")
        if array.dtype != self.shape.number:
            raise WireError(f"an array of {array.dtype} cannot be sent: the network's numbers are {self.shape.dtype}.", "dtype")
        self.numbers.append(array.tobytes())

    def frame(self, bundle: Bundle, tables: Iterable[bytes]) -> Frame:
        shape, matrices = self.shape, self.matrices
        numbers = b"".join(self.numbers)
        if numbers and not all_finite(np.frombuffer(numbers, shape.number)):
            raise WireError("a reply holds NaN or infinity: whoever used it would lose its memory.", "not finite")
        hashes = pack(f"<{len(matrices)}Q", *map(hash_of, matrices))
        labels = pack(f"<{len(self.stamps)}Q{len(self.agents)}I", *self.stamps, *self.agents)
        rest = b"".join([hashes, *tables, labels, *self.routes])
        rest = b"".join([rest, bytes(padding(PREFIX.size + len(rest))), numbers, bytes(padding(len(numbers)))])
        counts = len(bundle.states), len(bundle.queries), len(bundle.replies)
        told = bundle.incarnation, bundle.round, bundle.sequence, bundle.view
        top = Top(PREFIX.size + len(rest), len(matrices), bundle.sender, *counts, *told)
        check_limits(top, shape)
        return [sealed(top, shape, rest), *matrices]
