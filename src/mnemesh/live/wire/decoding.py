"""From a frame to a bundle, or to the reason why it is none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from struct import unpack_from
from typing import Any, NamedTuple

import numpy as np
import xxhash

from mnemesh.errors import WireError
from mnemesh.live.messages import Bundle, LinkState, Payload, Query, Reply, Term
from mnemesh.live.wire.buffers import all_finite, hash_of, matrix_in, readonly
from mnemesh.live.wire.frames import Frame, Top, split, top_of
from mnemesh.live.wire.routes import unpack_route
from mnemesh.live.wire.shape import DENSE, PREFIX, QUERY, REPLY, SEALED, STATE, Shape, padding

__all__ = ["decode"]

_new: Any = tuple.__new__  # a named tuple, without asking it for its defaults
_term: Any = partial(tuple.__new__, Term)


def decode(frame: Frame | bytes | bytearray | memoryview, shape: Shape, sender: int) -> Bundle:
    """The bundle that `sender` put into a frame, or into the bytes that it was joined to.

    Anything else than what `encode` makes of a bundle that an agent may send raises WireError. Arrays are read-only views of what was
    received, and keep it alive. A matrix that was seen before, the very same object, is neither hashed nor checked again.
    """
    segments = frame if isinstance(frame, list) else split(frame, shape)
    header, segments = readonly(segments[0] if segments else b""), segments[1:]
    top = top_of(header, shape)
    _check_prefix(header, top, shape, len(segments), sender)
    tables = _tables(header, top, shape)
    matrices = [matrix_in(segment, shape) for segment in segments]
    for matrix, expected in zip(matrices, tables.hashes, strict=True):
        hash_of(matrix, expected)
    reader = _Reader(top, tables, shape, matrices)
    messages = tuple(reader.states()), tuple(reader.queries()), tuple(reader.replies())
    return Bundle(sender, top.incarnation, top.round, top.sequence, top.view, *messages)


def _check_prefix(header: memoryview, top: Top, shape: Shape, segments: int, sender: int) -> None:
    if top.length != len(header) or top.segments != segments:
        reason = "truncated" if len(header) < top.length or segments < top.segments else "length"
        told = f"{top.length} and {top.segments}"
        raise WireError(f"a header of {len(header)} bytes and {segments} matrices, and its prefix says {told}.", reason)
    expected = int.from_bytes(header[SEALED - 8 : SEALED], "little")
    if (found := xxhash.xxh3_64_intdigest(header[SEALED:])) != expected:
        raise WireError(f"a header hashes to {found:016x} and says {expected:016x}: it was damaged on its way.", "checksum")
    if top.sender != sender or sender >= shape.agents:
        raise WireError(f"a frame that came from agent {sender} says that agent {top.sender} sent it: nobody speaks for another.", "sender")
    for name, count in (("round", top.round), ("incarnation", top.incarnation), ("sequence", top.sequence)):
        if count >= 2**63:
            raise WireError(f"a bundle claims the {name} {count}: no network gets there.", "round")


class _Tables(NamedTuple):
    """A header, cut up."""

    hashes: tuple[int, ...]
    stamps: tuple[int, ...]
    agents: tuple[int, ...]
    states: list[tuple[Any, ...]]
    queries: list[tuple[Any, ...]]
    replies: list[tuple[Any, ...]]
    routes: bytes
    numbers: np.ndarray


def _tables(header: memoryview, top: Top, shape: Shape) -> _Tables:
    """The parts of a header, whose lengths must add up to its own."""
    hashes = PREFIX.size
    states = hashes + 8 * top.segments
    queries = states + STATE.size * top.states
    replies = queries + QUERY.size * top.queries
    labels = replies + REPLY.size * top.replies
    if labels > len(header):
        raise WireError(f"a header of {len(header)} bytes, whose tables would take {labels}.", "truncated")
    rows = list(REPLY.iter_unpack(header[replies:labels]))
    linked = list(STATE.iter_unpack(header[states:queries]))
    asked = list(QUERY.iter_unpack(header[queries:replies]))
    stamps, agents, count = _taken(rows, shape)
    agents += sum([state[1] for state in linked])
    routes = labels + 8 * stamps + 4 * agents
    ends = routes + sum([query[1] for query in asked])
    start = ends + padding(ends)
    stop = start + count * shape.number.itemsize
    if max([row[1] for row in asked], default=0) > shape.route_limit or max([row[1] for row in linked], default=0) >= shape.agents:
        raise WireError(f"a header has a longer route, or more links, than {shape.agents} agents make.", "oversized")
    if (total := stop + padding(stop)) != len(header):
        reason = "truncated" if len(header) < total else "length"
        raise WireError(f"a header of {len(header)} bytes, whose contents would take {total}.", reason)
    if (start > ends and any(header[ends:start])) or (total > stop and any(header[stop:])):
        raise WireError("a header has bytes between its parts that are not zero: nothing belongs there.", "length")
    told = unpack_from(f"<{top.segments}Q", header, hashes), unpack_from(f"<{stamps}Q", header, labels)
    named = unpack_from(f"<{agents}I", header, labels + 8 * stamps)
    return _Tables(*told, named, linked, asked, rows, bytes(header[routes:ends]), _numbers(header, count, start, shape))


def _taken(replies: list[tuple[Any, ...]], shape: Shape) -> tuple[int, int, int]:
    """How many stamps, agents and numbers the replies take."""
    stamps = agents = numbers = 0
    width = shape.value_dim + shape.features_dim
    for _, steps, answered, missing, rank, decays, _, _, _ in replies:
        terms = answered + missing
        if terms > shape.max_terms or decays > shape.max_decays or shape.max_rank < rank < DENSE or steps > shape.agents:
            most = f"{shape.agents}, {shape.max_terms}, {shape.max_decays} and {shape.max_rank} are the limits"
            raise WireError(f"a reply with a path of {steps}, {terms} terms, {decays} decays and rank {rank}: {most}.", "oversized")
        stamps += terms + decays
        agents += steps + terms
        numbers += decays * shape.decay_size + (0 if rank == DENSE else rank * width)
    return stamps, agents, numbers


def _numbers(header: memoryview, count: int, start: int, shape: Shape) -> np.ndarray:
    numbers = np.frombuffer(header, shape.number, count, start)
    if count and not all_finite(numbers):
        raise WireError("a reply holds NaN or infinity: whoever used it would lose its memory.", "not finite")
    return numbers


class _Reader:
    """Goes through the tables, and takes what they refer to in the order in which it was put down."""

    def __init__(self, top: Top, tables: _Tables, shape: Shape, matrices: list[np.ndarray]) -> None:
        self.tables, self.shape, self.sender, self.matrices = tables, shape, top.sender, iter(matrices)
        self.agent = 0  # how many agents of the table were taken
        dense = sum([reply[4] == DENSE for reply in tables.replies])
        if top.segments != top.queries + dense:
            raise WireError(f"{top.segments} matrices came for {top.queries} queries and {dense} dense replies.", "length")
        if tables.agents and max(tables.agents) >= shape.agents:
            raise WireError(f"there is no agent {max(tables.agents)}: the network's are 0..{shape.agents - 1}.", "unknown agent")
        newest, oldest = top.round, max(1, top.round - shape.max_age)
        stamps = (*tables.stamps, *[query[3] for query in tables.queries])
        if stamps and not oldest <= min(stamps) <= max(stamps) <= newest:
            told = f"stamps from {min(stamps)} to {max(stamps)} in a bundle of round {newest}"
            raise WireError(f"{told}: they must be from {oldest} to {newest}.", "round")

    def states(self) -> Iterator[LinkState]:
        seen = set()
        for agent, count, incarnation, sequence in self.tables.states:
            links = self.tables.agents[self.agent : self.agent + count]
            self.agent += count
            if incarnation >= 2**63 or sequence >= 2**63:
                raise WireError(f"agent {agent}'s links are said to be of ({incarnation}, {sequence}): no network gets there.", "states")
            if agent >= self.shape.agents or agent in seen or agent in links or not _ascending(links):
                raise WireError(f"agent {agent} is said to have the links {links}: known agents, ascending, are needed.", "states")
            seen.add(agent)
            yield LinkState(agent, incarnation, sequence, links)

    def queries(self) -> Iterator[Query]:
        routes, sender, at = self.tables.routes, self.sender, 0
        for root, size, incarnation, stamp in self.tables.queries:
            path, branch, highest = unpack_route(routes[at : at + size])
            at += size
            if highest >= self.shape.agents:
                raise WireError(f"there is no agent {highest}: the network's are 0..{self.shape.agents - 1}.", "unknown agent")
            if path[0] != root or path[-1] != sender:
                raise WireError(f"a query of agent {root}, sent by {sender}, has walked {path}: not from the one to the other.", "path")
            yield _new(Query, (root, incarnation, stamp, path, branch, next(self.matrices)))

    def replies(self) -> Iterator[Reply]:
        agents, stamps, numbers = self.tables.agents, self.tables.stamps, _Numbers(self.tables.numbers)
        agent, stamp, (rows, columns), gates = self.agent, 0, self.shape.matrix, self.shape.decay_size
        for root, steps, answered, missing, rank, decaying, incarnation, loss, slope in self.tables.replies:
            path, agent = agents[agent : agent + steps], agent + steps
            _check_path(root, path, self.sender)
            if rank == DENSE:
                payload = Payload(None, None, next(self.matrices))
            else:
                payload = Payload(numbers.take(rank, rows), numbers.take(rank, columns))
            count = answered + missing
            terms = tuple(map(_term, zip(agents[agent : agent + count], stamps[stamp : stamp + count])))
            agent, stamp = agent + count, stamp + count
            if count > 1 and len(set(terms)) != count:
                raise WireError(f"a reply counts one of its {count} terms twice: it would be applied twice.", "terms")
            terms, missed = (terms[:answered], terms[answered:]) if missing else (terms, ())
            decays: tuple[tuple[int, np.ndarray], ...] = ()
            if decaying:
                rounds, stamp = stamps[stamp : stamp + decaying], stamp + decaying
                _check_decays(rounds, terms)
                decays = tuple(zip(rounds, numbers.take(decaying, gates)))
            if not (math.isfinite(loss) and math.isfinite(slope)):
                raise WireError(f"a reply has the loss {loss!r} and the slope {slope!r}: its root would lose count.", "not finite")
            yield _new(Reply, (root, incarnation, path, terms, missed, payload, decays, loss, slope))


class _Numbers:
    """Small arrays, one after the other."""

    def __init__(self, numbers: np.ndarray) -> None:
        self.numbers, self.taken = numbers, 0

    def take(self, rows: int, columns: int) -> np.ndarray:
        start = self.taken
        self.taken += rows * columns
        return self.numbers[start : self.taken].reshape(rows, columns)


def _ascending(numbers: tuple[int, ...]) -> bool:
    return all(a < b for a, b in pairwise(numbers))


def _check_path(root: int, path: tuple[int, ...], sender: int) -> None:
    if not path or path[-1] != root or sender in path or len(set(path)) != len(path):
        raise WireError(f"a reply to agent {root}, sent by {sender}, is to go by {path}: that is no way to it.", "path")


def _check_decays(stamps: tuple[int, ...], terms: tuple[Term, ...]) -> None:
    if not _ascending(stamps) or not {term[1] for term in terms}.issuperset(stamps):
        raise WireError(f"a reply has decays of the rounds {stamps}: ascending ones, of its terms, are needed.", "decays")
