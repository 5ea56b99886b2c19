"""A frame: one bundle, as a list of segments. The first holds all that is small, each of the others a matrix.

One frame always holds one bundle, whole: the number of messages in it is limited, and so is its size (`Shape.frame_limit`); what is more
than a transport takes at once, the transport cuts. In a process the segments go from hand to hand as they are; for a transport of bytes
they are joined, each padded with zeros to a multiple of 8.

The header is the prefix, the hashes of the matrices, tables of states, queries and replies, then stamps, agents, routes and the numbers of
everything factored. Its checksum covers all of that, and through the hashes the matrices. Every length follows from the tables, so what is
cut short, has something left over, or claims more than is there, is refused by one comparison before anything is allocated.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import xxhash

from mnemesh.errors import WireError
from mnemesh.live.wire.buffers import readonly
from mnemesh.live.wire.shape import MAGIC, PREFIX, SEALED, VERSION, Shape, padding

__all__ = ["Frame", "Top", "check_limits", "join", "sealed", "split", "top_of"]

Frame: TypeAlias = list[Any]  # of buffers: bytes, memoryviews, read-only arrays


class Top(NamedTuple):
    """What the prefix says, apart from what is the same in all frames of a network."""

    length: int  # of the header
    segments: int  # matrices after it
    sender: int
    states: int
    queries: int
    replies: int
    incarnation: int
    round: int
    sequence: int
    view: int


def sealed(top: Top, shape: Shape, rest: bytes) -> bytes:
    """A header: the prefix, with the checksum of what follows it, and the rest."""
    prefix = PREFIX.pack(MAGIC, VERSION, shape.number.itemsize, 0, 0, *shape.constants, *top)
    body = prefix[SEALED:] + rest
    return prefix[: SEALED - 8] + xxhash.xxh3_64_digest(body)[::-1] + body


def top_of(header: memoryview, shape: Shape) -> Top:
    """What the prefix of a header says, or a WireError; the checksum is not looked at."""
    if len(header) < PREFIX.size:
        raise WireError(f"a frame of {len(header)} bytes is too short: its prefix alone takes {PREFIX.size}.", "truncated")
    magic, version, itemsize, zero, _, agents, rows, columns, decay, *told = PREFIX.unpack_from(header)
    if magic != MAGIC or zero:
        raise WireError(f"a frame begins with {bytes(header[:8])!r}: that is no frame of mnemesh.", "magic")
    if version != VERSION:
        raise WireError(f"a frame has version {version}, and this is {VERSION}: whoever sent it runs another mnemesh.", "version")
    if itemsize != shape.number.itemsize:
        raise WireError(f"a frame has numbers of {itemsize} bytes, and the network's are {shape.dtype}.", "dtype")
    if (agents, rows, columns, decay) != shape.constants:
        other = f"(N, d_v, d_φ, decay) = {(agents, rows, columns, decay)}"
        raise WireError(f"a frame is of a network of {other}, and this one has {shape.constants}.", "shape")
    top = Top(*told)
    check_limits(top, shape)
    return top


def check_limits(top: Top, shape: Shape) -> None:
    """Refuse what no bundle of this network can hold."""
    if top.states > shape.agents or top.queries > shape.max_queries or top.replies > shape.max_replies:
        most = f"{shape.agents} states, {shape.max_queries} queries and {shape.max_replies} replies"
        told = f"{top.states} states, {top.queries} queries and {top.replies} replies"
        raise WireError(f"a bundle of {told}: at most {most} travel together.", "oversized")
    if top.length > shape.frame_limit or top.segments > top.queries + top.replies:
        raise WireError(f"a header of {top.length} bytes and {top.segments} matrices belongs to no bundle of this network.", "oversized")


def join(frame: Frame) -> bytes:
    """The frame as bytes, for a transport that carries nothing else."""
    parts = []
    for segment in frame:
        parts.append(segment)
        if pad := padding(memoryview(segment).nbytes):
            parts.append(bytes(pad))
    return b"".join(parts)


def split(data: Any, shape: Shape) -> Frame:
    """The frame that these bytes are: views of them, or a WireError if the lengths do not fit."""
    data = readonly(data)
    if len(data) > shape.frame_limit:
        raise WireError(f"a frame of {len(data)} bytes: at most {shape.frame_limit} are possible in this network.", "oversized")
    top = top_of(data, shape)
    size, step = shape.matrix_bytes, shape.matrix_bytes + padding(shape.matrix_bytes)
    if (total := top.length + top.segments * step) != len(data) or top.length % 8:
        reason = "truncated" if len(data) < total else "length"
        raise WireError(f"a frame has {len(data)} bytes and its prefix says {total}: it was cut, or is none.", reason)
    starts = range(top.length, total, step)
    if step > size and any(any(data[start + size : start + step]) for start in starts):
        raise WireError("a frame has bytes between its matrices that are not zero: nothing belongs there.", "length")
    return [data[: top.length], *(data[start : start + size] for start in starts)]
