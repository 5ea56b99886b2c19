"""Frames: what goes in comes out, nothing else does, and whatever was changed on the way is refused for a reason."""

from __future__ import annotations

import gc
import pickle
import random
import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mnemesh.errors import MnemeshError, ShapeError, WireError
from mnemesh.live.messages import Branch, Bundle, LinkState, Payload, Query, Reply, Term, no_payload
from mnemesh.live.wire import Frame, Shape, buffers, decode, encode, join, routes, sizes, split

PREFIX = 88
FIELDS = {"version": 4, "itemsize": 5, "zero": 6, "checksum": 8, "agents": 16, "d_v": 20, "d_phi": 24, "decay": 28, "length": 32, "segments": 36,
          "sender": 40, "states": 44, "queries": 48, "replies": 52, "incarnation": 56, "round": 64, "sequence": 72, "view": 80}  # fmt: skip


# Bundles to send.


def numbers(shape: Shape, *size: int) -> st.SearchStrategy[np.ndarray]:
    dtype = np.dtype(shape.dtype)
    return hnp.arrays(dtype, size, elements=st.floats(width=8 * dtype.itemsize, allow_nan=False, allow_infinity=False))


@st.composite
def shapes(draw: Any) -> Shape:
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    decay = draw(st.sampled_from([0, 1, rows, columns]))
    return Shape(draw(st.integers(2, 7)), rows, columns, draw(st.sampled_from(["float32", "float64"])), decay, max_age=draw(st.integers(1, 6)))


@st.composite
def branches(draw: Any, agents: list[int]) -> Branch:
    """Any tree over these agents, the first its root."""
    children: dict[int, list[int]] = {agent: [] for agent in agents}
    for i, agent in enumerate(agents[1:], 1):
        children[agents[draw(st.integers(0, i - 1))]].append(agent)
    weights = {agent: draw(st.sampled_from([0.0, 1.0, 5e-324, 0.3])) for agent in agents}

    def grown(agent: int) -> Branch:
        return Branch(agent, weights[agent], tuple(grown(child) for child in children[agent]))

    return grown(agents[0])


COUNTS = st.integers(0, 2**63 - 1)
MARKS = st.integers(0, 2**64 - 1)
SUMS = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def queries(draw: Any, shape: Shape, sender: int, stamps: st.SearchStrategy[int]) -> Query:
    others = draw(st.permutations([n for n in range(shape.agents) if n != sender]))
    walked = draw(st.integers(0, len(others) - 1))
    path = (*others[:walked], sender)
    rest = others[walked : draw(st.integers(walked + 1, len(others)))]
    return Query(path[0], draw(COUNTS), draw(stamps), path, draw(branches(list(rest))), draw(numbers(shape, *shape.matrix)))


@st.composite
def replies(draw: Any, shape: Shape, sender: int, stamps: st.SearchStrategy[int]) -> Reply:
    others = draw(st.permutations([n for n in range(shape.agents) if n != sender]))
    path = tuple(others[: draw(st.integers(1, len(others)))])
    terms = draw(st.lists(st.builds(Term, st.integers(0, shape.agents - 1), stamps), unique=True, max_size=5))
    cut = draw(st.integers(0, len(terms)))
    if draw(st.booleans()):
        payload = Payload(None, None, draw(numbers(shape, *shape.matrix)))
    else:
        rank = draw(st.integers(0, 3))
        payload = Payload(draw(numbers(shape, rank, shape.value_dim)), draw(numbers(shape, rank, shape.features_dim)))
    rounds = sorted({term.stamp for term in terms[:cut] if draw(st.booleans())}) if shape.decay_size else []
    decays = tuple((stamp, draw(numbers(shape, shape.decay_size))) for stamp in rounds)
    return Reply(path[-1], draw(COUNTS), path, tuple(terms[:cut]), tuple(terms[cut:]), payload, decays, draw(SUMS), draw(SUMS))


@st.composite
def states(draw: Any, shape: Shape) -> tuple[LinkState, ...]:
    agents = draw(st.lists(st.integers(0, shape.agents - 1), unique=True, max_size=shape.agents))
    links = {a: sorted(draw(st.sets(st.sampled_from([b for b in range(shape.agents) if b != a])))) for a in agents}
    return tuple(LinkState(a, draw(COUNTS), draw(COUNTS), tuple(links[a])) for a in agents)


@st.composite
def bundles(draw: Any) -> tuple[Bundle, Shape]:
    shape = draw(shapes())
    sender, now = draw(st.integers(0, shape.agents - 1)), draw(st.integers(0, 30) | st.integers(0, 2**63 - 1))
    stamps = st.integers(max(1, now - shape.max_age), max(1, now))
    most = 3 if now else 0
    asked = draw(st.lists(queries(shape, sender, stamps), max_size=most))
    answered = draw(st.lists(replies(shape, sender, stamps), max_size=most))
    return Bundle(sender, draw(COUNTS), now, draw(COUNTS), draw(MARKS), draw(states(shape)), tuple(asked), tuple(answered)), shape


SHAPE = Shape(6, 3, 2, "float32", 3, max_age=20)


def floats(*size: int, seed: int = 0) -> np.ndarray:
    array = np.random.default_rng(seed).normal(size=size).astype("float32")
    array.flags.writeable = False
    return array


def whole() -> Bundle:
    """A bundle with something of everything, of agent 1 in round 9."""
    branch = Branch(2, 0.0, (Branch(3, 0.5, (Branch(4, 0.25),)), Branch(5, 0.125)))
    asked = Query(0, 7, 8, (0, 1), branch, floats(3, 2)), Query(1, 8, 9, (1,), Branch(2, 1.0), floats(3, 2, seed=1))
    terms = Term(4, 5), Term(3, 6)
    decays = (5, floats(3)), (6, floats(3, seed=2))
    factored = Reply(0, 7, (2, 0), terms, (Term(5, 6),), Payload(floats(2, 3), floats(2, 2)), decays, 1.5, -2.5)
    dense = Reply(2, 0, (2,), (Term(5, 7),), (), Payload(None, None, floats(3, 2, seed=3)), (), 0.0, -0.0)
    nothing = Reply(3, 1, (2, 3), (), (Term(4, 9),), no_payload(3, 2, "float32"), (), 0.0, 0.0)
    links = LinkState(1, 3, 4, (0, 2)), LinkState(4, 0, 0, ())
    return Bundle(1, 3, 9, 11, 2**64 - 1, links, asked, (factored, dense, nothing))


def same(a: Any, b: Any) -> bool:
    """Equal to the bit, types included."""
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if isinstance(a, tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and repr(a) == repr(b)


# What goes in comes out.


@given(bundles())
@settings(max_examples=400)
def test_what_is_decoded_is_what_was_encoded(drawn: tuple[Bundle, Shape]) -> None:
    bundle, shape = drawn
    frame = encode(bundle, shape)
    data = join(frame)
    assert same(decode(frame, shape, bundle.sender), bundle)
    assert same(decode(data, shape, bundle.sender), bundle)
    assert same(decode(split(data, shape), shape, bundle.sender), bundle)
    assert join(split(data, shape)) == data
    assert join(encode(decode(data, shape, bundle.sender), shape)) == data
    assert len(data) <= shape.frame_limit
    assert len(data) % 8 == 0


def test_a_bundle_with_something_of_everything() -> None:
    for data in (encode(whole(), SHAPE), join(encode(whole(), SHAPE)), bytearray(join(encode(whole(), SHAPE)))):
        assert same(decode(data, SHAPE, 1), whole())
    assert same(decode([bytearray(segment) for segment in split(join(encode(whole(), SHAPE)), SHAPE)], SHAPE, 1), whole())


def test_a_link_that_has_nothing_to_say_costs_a_prefix() -> None:
    bundle = Bundle(1, 0, 0, 0, 0, (), (), ())
    frame = encode(bundle, SHAPE)
    assert [len(segment) for segment in frame] == [PREFIX]
    assert decode(frame, SHAPE, 1) == bundle


def test_the_bytes_are_the_documented_ones() -> None:
    """Whoever changes them changes VERSION, too."""
    shape = Shape(3, 1, 1, "float64", 1, max_age=4)
    reply = Reply(2, 9, (2,), (Term(0, 6),), (), Payload(np.full((1, 1), 2.0), np.full((1, 1), 3.0)), ((6, np.full(1, 4.0)),), 5.0, 6.0)
    query = Query(0, 9, 7, (0, 1), Branch(2, 0.5), np.full((1, 1), 8.0))
    data = join(encode(Bundle(1, 10, 7, 12, 13, (LinkState(1, 14, 15, (0, 2)),), (query,), (reply,)), shape))
    memory = struct.pack("<d", 8)
    rest = struct.pack("<4I2I4I4Q", 3, 1, 1, 1, len(data) - 8, 1, 1, 1, 1, 1, 10, 7, 12, 13)
    rest += struct.pack("<Q", xxhash.xxh3_64_intdigest(memory))
    rest += struct.pack("<IIQQ", 1, 2, 14, 15) + struct.pack("<IIQQ", 0, 32, 9, 7) + struct.pack("<6IQdd", 2, 1, 1, 0, 1, 1, 9, 5, 6)
    rest += struct.pack("<2Q4I", 6, 6, 0, 2, 2, 0) + struct.pack("<II2IIId", 2, 1, 0, 1, 2, 1, 0.5) + struct.pack("<3d", 2, 3, 4)
    assert data == b"MNEM\x01\x08\x00\x00" + struct.pack("<Q", xxhash.xxh3_64_intdigest(rest)) + rest + memory


@given(bundles())
def test_sizes_account_for_every_byte(drawn: tuple[Bundle, Shape]) -> None:
    bundle, shape = drawn
    taken = sizes(bundle, shape)
    bare = len(join(encode(bundle._replace(queries=(), replies=()), shape)))
    assert abs(len(join(encode(bundle, shape))) - bare - taken["query"] - taken["reply"]) < 16  # the padding


def test_the_fullest_bundle_fits_the_limit_and_one_more_message_does_not() -> None:
    shape = Shape(4, 3, 3, "float64", 3, max_age=2, max_rank=20, max_queries=5, max_replies=4)
    line = Branch(1, 1.0, (Branch(2, 1.0, (Branch(3, 1.0),)),))
    query = Query(0, 0, 9, (0,), line, np.ones((3, 3)))
    terms = tuple(Term(n, stamp) for stamp in (7, 8, 9) for n in range(4))
    reply = Reply(1, 0, (3, 2, 1), terms, (), Payload(np.ones((20, 3)), np.ones((20, 3))), tuple((s, np.ones(3)) for s in (7, 8, 9)), 1.0, 1.0)
    links = tuple(LinkState(n, 0, 0, tuple(m for m in range(4) if m != n)) for n in range(4))
    fullest = Bundle(0, 0, 9, 0, 0, links, (query,) * 5, (reply,) * 4)
    assert shape.frame_limit * 0.95 < len(join(encode(fullest, shape))) <= shape.frame_limit
    dense = fullest._replace(replies=(reply._replace(payload=Payload(None, None, np.ones((3, 3)))),) * 4)
    assert len(join(encode(dense, shape))) <= shape.frame_limit
    for more in ({"queries": (query,) * 6}, {"replies": (reply,) * 5}, {"states": (*links, links[0])}):
        with pytest.raises(WireError) as refused:
            encode(fullest._replace(**more), shape)
        assert refused.value.reason == "oversized"


# Buffers are shared.


def test_arrays_are_readonly_views_of_what_was_received() -> None:
    data = join(encode(whole(), SHAPE))
    bundle, received = decode(data, SHAPE, 1), np.frombuffer(data, np.uint8)
    arrays = [query.memory for query in bundle.queries]
    arrays += [bundle.replies[1].payload.dense, *bundle.replies[0].payload[:2], *(decay for _, decay in bundle.replies[0].decays)]
    for array in arrays:
        assert np.shares_memory(array, received)
        assert not array.flags.writeable and array.flags.aligned


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often a matrix is hashed, and searched for NaN."""
    counts = {"hashed": 0, "checked": 0}

    def hashed(data: Any) -> int:
        counts["hashed"] += 1
        return xxhash.xxh3_64_intdigest(data)

    def checked(array: np.ndarray, check: Callable[[np.ndarray], bool] = buffers.all_finite) -> bool:
        counts["checked"] += 1
        return check(array)

    monkeypatch.setattr(buffers, "xxhash", SimpleNamespace(xxh3_64_intdigest=hashed))
    monkeypatch.setattr(buffers, "all_finite", checked)
    return counts


def line(first: int, last: int) -> Branch:
    return Branch(first, 0.1, (line(first + 1, last),) if first < last else ())


@pytest.mark.parametrize("joined", [False, True])
def test_a_memory_is_hashed_and_checked_once_on_its_whole_way(calls: dict[str, int], joined: bool) -> None:
    """In a process, it stays the very same object; over bytes, a relay does not hash again what it received."""
    memory = floats(3, 2)
    bundle = Bundle(0, 0, 1, 0, 0, (), (Query(0, 0, 1, (0,), line(1, 5), memory),), ())
    for sender in range(4):
        frame = encode(bundle, SHAPE)
        assert frame[1] is bundle.queries[0].memory
        bundle = decode(join(frame) if joined else frame, SHAPE, sender)
        query = bundle.queries[0]
        assert (query.memory is memory) is not joined
        onward = query._replace(path=(*query.path, sender + 1), branch=query.branch.children[0])
        bundle = bundle._replace(sender=sender + 1, round=bundle.round + 1, queries=(onward,))
    times = 5 if joined else 1  # once by each who has a buffer of its own
    assert calls == {"hashed": times, "checked": times}


def test_what_can_be_written_to_is_copied_and_what_is_gone_is_forgotten() -> None:
    gc.collect()
    before = len(buffers._known)
    memory = floats(3, 2).copy()
    bundle = Bundle(0, 0, 1, 0, 0, (), (Query(0, 0, 1, (0,), Branch(1, 1.0), memory),), ())
    frame = encode(bundle, SHAPE)
    memory[:] = 0
    assert same(decode(frame, SHAPE, 0).queries[0].memory, floats(3, 2))
    assert len(buffers._known) == before + 1
    del frame
    gc.collect()
    assert len(buffers._known) == before


def test_a_tree_that_is_a_long_line_needs_no_recursion() -> None:
    agents = 5000
    shape = Shape(agents, 1, 1)
    branch = Branch(agents - 1, 1.0)
    for agent in range(agents - 2, 0, -1):
        branch = Branch(agent, 0.5, (branch,))
    bundle = Bundle(0, 0, 1, 0, 0, (), (Query(0, 0, 1, (0,), branch, np.ones((1, 1), "float32")),), ())
    node, met = decode(join(encode(bundle, shape)), shape, 0).queries[0].branch, 1
    while node.children:
        (node,), met = node.children, met + 1
    assert (met, node.agent, node.weight) == (agents - 1, agents - 1, 1.0)


# What is refused, and why.


def refusal(data: Any, shape: Shape = SHAPE, sender: int = 1) -> str:
    with pytest.raises(WireError) as refused:
        decode(data, shape, sender)
    assert str(refused.value).endswith(".") and len(str(refused.value)) < 600
    return refused.value.reason


def resealed(data: bytes | bytearray, shape: Shape = SHAPE) -> bytes:
    """The same bytes with checksums that fit, as one would send who means it."""
    data = bytearray(data)
    length, segments = struct.unpack_from("<II", data, FIELDS["length"])
    size = shape.matrix_bytes
    if PREFIX + 8 * segments <= length <= len(data):
        for i in range(segments):
            start = length + i * (size + -size % 8)
            struct.pack_into("<Q", data, PREFIX + 8 * i, xxhash.xxh3_64_intdigest(data[start : start + size]))
        struct.pack_into("<Q", data, FIELDS["checksum"], xxhash.xxh3_64_intdigest(data[16:length]))
    return bytes(data)


def forged(field: str, value: int, form: str = "<I") -> bytes:
    data = bytearray(join(encode(whole(), SHAPE)))
    struct.pack_into(form, data, FIELDS[field], value)
    return resealed(data)


def replaced(old: bytes, new: bytes) -> bytes:
    data = join(encode(whole(), SHAPE))
    assert data.count(old) >= 1
    return resealed(data.replace(old, new, 1))


WHOLE = whole()
Q, R, D = WHOLE.queries[0], WHOLE.replies[0], WHOLE.replies[1]
EMPTY = join(encode(Bundle(1, 0, 0, 0, 0, (), (), ()), SHAPE))
NAN, INFINITY = struct.pack("<f", float("nan")), struct.pack("<f", float("-inf"))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "truncated"),
        (b"{}" * 100, "magic"),
        (forged("version", 2, "<B"), "version"),
        (forged("zero", 1, "<H"), "magic"),
        (forged("itemsize", 8, "<B"), "dtype"),
        *((forged(field, 4), "shape") for field in ("agents", "d_v", "d_phi", "decay")),
        (forged("sender", 2), "sender"),
        (forged("round", 2**63, "<Q"), "round"),
        (forged("sequence", 2**63, "<Q"), "round"),
        (forged("states", 7), "oversized"),
        (forged("replies", 2**32 - 1), "oversized"),
        (forged("segments", 2**32 - 1), "oversized"),
        (forged("segments", 2), "length"),
        (forged("segments", 4), "truncated"),
        (forged("length", 2**32 - 1), "oversized"),
        (resealed(EMPTY[:48] + b"\x05" + EMPTY[49:]), "truncated"),
        (resealed(EMPTY[:32] + b"\x60" + EMPTY[33:] + bytes(8)), "length"),
        (bytes(SHAPE.frame_limit + 1), "oversized"),
        (join(encode(WHOLE, SHAPE)) + bytes(8), "length"),
        (replaced(floats(3, 2).tobytes()[:4], NAN), "not finite"),
        (replaced(floats(3, 2, seed=3).tobytes()[4:8], INFINITY), "not finite"),
        (replaced(floats(2, 2).tobytes()[4:8], NAN), "not finite"),
        (replaced(floats(3, seed=2).tobytes()[8:], INFINITY), "not finite"),
        (replaced(struct.pack("<d", -2.5), struct.pack("<d", float("nan"))), "not finite"),
        (replaced(struct.pack("<d", 1.5), struct.pack("<d", float("inf"))), "not finite"),
        (replaced(struct.pack("<d", 0.125), struct.pack("<d", -0.0)), "weight"),
        (replaced(struct.pack("<IId", 2, 4, 0.0), struct.pack("<IId", 2, 5, 0.0)), "branch"),
        (replaced(struct.pack("<IId", 2, 4, 0.0), struct.pack("<IId", 2, 0, 0.0)), "branch"),
        (replaced(struct.pack("<IId", 2, 4, 0.0), struct.pack("<IId", 2, 2, 0.0)), "branch"),
        (replaced(struct.pack("<IId", 2, 4, 0.0), struct.pack("<IId", 2, 3, 0.0)), "branch"),
        (replaced(struct.pack("<IIII", 2, 4, 0, 1), struct.pack("<IIII", 6, 3, 0, 1)), "branch"),
        ([], "truncated"),
        ([None], "malformed"),
        (encode(WHOLE, SHAPE)[:-1], "truncated"),
        ([*encode(WHOLE, SHAPE), bytes(24)], "length"),
        ([*encode(WHOLE, SHAPE)[:-1], bytes(20)], "truncated"),
        ([*encode(WHOLE, SHAPE)[:-1], bytes(28)], "oversized"),
        ([*encode(WHOLE, SHAPE)[:-1], floats(3, 2).astype("float64")], "oversized"),
        ([*encode(WHOLE, SHAPE)[:-1], floats(3, 2)], "checksum"),
        ([encode(WHOLE, SHAPE)[0][:-8], *encode(WHOLE, SHAPE)[1:]], "truncated"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_frame_of_this_network(data: Any, reason: str) -> None:
    assert refusal(data) == reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Q._replace(root=2), "path"),
        (Q._replace(path=(0, 3)), "path"),
        (Q._replace(path=(0, 1, 0, 1)), "path"),
        (Q._replace(path=()), "branch"),
        (Q._replace(branch=Branch(0, 0.5)), "path"),
        (Q._replace(branch=Branch(2, 0.5, (Branch(3, 0.5), Branch(3, 0.5)))), "path"),
        (Q._replace(branch=Branch(6, 0.5)), "unknown agent"),
        (Q._replace(path=(6, 1), root=6), "unknown agent"),
        (Q._replace(branch=Branch(2, 1.5)), "weight"),
        (Q._replace(branch=Branch(2, -0.5)), "weight"),
        (Q._replace(branch=Branch(2, float("nan"))), "weight"),
        (Q._replace(stamp=0), "round"),
        (Q._replace(stamp=10), "round"),
        (R._replace(root=3), "path"),
        (R._replace(path=()), "path"),
        (R._replace(path=(2, 1, 0)), "path"),
        (R._replace(path=(2, 3, 2, 0)), "path"),
        (R._replace(path=(2, 2, 2, 2, 2, 2, 0)), "oversized"),
        (R._replace(path=(6, 0)), "unknown agent"),
        (R._replace(terms=(*R.terms, Term(6, 5))), "unknown agent"),
        (R._replace(terms=(*R.terms, R.terms[0])), "terms"),
        (R._replace(missed=(R.terms[0],)), "terms"),
        (R._replace(missed=(Term(1, 0),)), "round"),
        (R._replace(terms=(*R.terms, Term(1, 10))), "round"),
        (R._replace(terms=R.terms[:1]), "decays"),
        (R._replace(decays=R.decays[::-1]), "decays"),
        (R._replace(decays=(R.decays[0], R.decays[0])), "decays"),
        (LinkState(2, 0, 0, (3, 1)), "states"),
        (LinkState(2, 0, 0, (1, 1)), "states"),
        (LinkState(2, 0, 0, (1, 2)), "states"),
        (LinkState(1, 0, 0, (0,)), "states"),
        (LinkState(6, 0, 0, (0,)), "states"),
        (LinkState(2, 0, 0, (6,)), "unknown agent"),
        (LinkState(2, 0, 0, (0, 0, 0, 0, 0, 0)), "oversized"),
    ],
)
def test_messages_that_nobody_should_send(change: Any, reason: str) -> None:
    name = {Query: "queries", Reply: "replies", LinkState: "states"}[type(change)]
    bundle = WHOLE._replace(**{name: (*getattr(WHOLE, name), change)})
    assert refusal(encode(bundle, SHAPE)) == reason
    assert refusal(join(encode(bundle, SHAPE))) == reason


def test_stamps_may_be_as_old_as_agreed_and_no_older() -> None:
    for age, fine in ((20, True), (21, False)):
        frame = encode(WHOLE._replace(round=50, queries=(Q._replace(stamp=50 - age),), replies=()), SHAPE)
        assert (decode(frame, SHAPE, 1).round == 50) if fine else (refusal(frame) == "round")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Q._replace(memory=floats(2, 3)), "shape"),
        (Q._replace(memory=floats(3, 2).astype("float64")), "dtype"),
        (Q._replace(memory=np.full((3, 2), np.nan, "float32")), "not finite"),
        (Q._replace(stamp=-1), "range"),
        (Q._replace(incarnation=2**64), "range"),
        (D._replace(payload=Payload(None, None, np.full((3, 2), np.inf, "float32"))), "not finite"),
        (D._replace(payload=Payload(floats(1, 3), None, floats(3, 2))), "shape"),
        (R._replace(payload=Payload(floats(1, 3), floats(2, 2))), "shape"),
        (R._replace(payload=Payload(floats(1, 2), floats(1, 2))), "shape"),
        (R._replace(payload=Payload(floats(1, 3).astype("float64"), floats(1, 2))), "dtype"),
        (R._replace(payload=Payload(np.full((1, 3), np.nan, "float32"), floats(1, 2))), "not finite"),
        (R._replace(payload=Payload(floats(SHAPE.max_rank + 1, 3), floats(SHAPE.max_rank + 1, 2))), "oversized"),
        (R._replace(decays=((5, floats(2)),)), "shape"),
        (R._replace(decays=((5, np.full(3, np.inf, "float32")),)), "not finite"),
        (R._replace(loss=float("nan")), "not finite"),
        (R._replace(slope=float("inf")), "not finite"),
        (R._replace(terms=tuple(Term(0, stamp) for stamp in range(SHAPE.max_terms + 1))), "oversized"),
    ],
)
def test_what_cannot_travel_is_not_sent(change: Any, reason: str) -> None:
    name = "queries" if isinstance(change, Query) else "replies"
    with pytest.raises(WireError) as refused:
        encode(WHOLE._replace(**{name: (change,)}), SHAPE)
    assert refused.value.reason == reason


def test_large_finite_numbers_are_no_infinities() -> None:
    memory = np.full((3, 2), 3e38, "float32")
    frame = encode(WHOLE._replace(queries=(Q._replace(memory=memory),)), SHAPE)
    assert same(decode(frame, SHAPE, 1).queries[0].memory, memory)


@pytest.mark.parametrize("other", [Shape(7, 3, 2, decay_size=3), Shape(6, 2, 3, decay_size=3), Shape(6, 3, 2, decay_size=2), Shape(6, 3, 2, "float64", 3)])
def test_a_frame_of_another_network_is_refused(other: Shape) -> None:
    assert refusal(encode(WHOLE, SHAPE), other) == ("dtype" if other.dtype == "float64" else "shape")


def test_a_frame_of_another_sender_is_refused() -> None:
    assert refusal(encode(WHOLE, SHAPE), sender=2) == "sender"


def test_a_frame_that_is_cut_anywhere_is_refused() -> None:
    data = join(encode(WHOLE, SHAPE))
    for length in range(len(data)):
        assert refusal(data[:length]) == "truncated"
    header, *matrices = split(data, SHAPE)
    for length in range(len(header)):
        assert refusal([header[:length], *matrices]) == "truncated"


@pytest.mark.parametrize("bad", [{"agents": 0}, {"value_dim": 0}, {"features_dim": 2**32}, {"dtype": "float16"}, {"decay_size": 5}, {"max_age": -1}])
def test_a_shape_that_no_network_has(bad: dict[str, Any]) -> None:
    with pytest.raises(ShapeError, match=next(iter(bad))):
        Shape(**{"agents": 4, "value_dim": 3, "features_dim": 2, **bad})


def test_a_refusal_travels_with_its_reason() -> None:
    error = pickle.loads(pickle.dumps(WireError("a frame is none.", "checksum")))
    assert isinstance(error, MnemeshError)
    assert (str(error), error.reason) == ("a frame is none.", "checksum")


# Whatever comes.


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A few bits or fields changed, or bytes gone, come or moved."""
    changed = bytearray(data)
    kind = rng.random()
    if kind < 0.6:
        for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    elif kind < 0.9:
        at = 4 * rng.randrange(len(changed) // 4)
        changed[at : at + 4] = struct.pack("<I", rng.choice((0, 1, 2, 5, 6, 7, 255, 2**16, 2**31, 2**32 - 1, rng.getrandbits(32))))
    elif kind < 0.95:
        at, width = rng.randrange(len(changed)), rng.randrange(1, 17)
        changed[at : at + width] = rng.randbytes(rng.randrange(17))
    else:
        a, b = (8 * rng.randrange(len(changed) // 8) for _ in range(2))
        changed[a : a + 8], changed[b : b + 8] = changed[b : b + 8], changed[a : a + 8]
    return bytes(changed)


def test_no_change_to_a_frame_passes() -> None:
    """20,000 changed frames; each byte of the frame and each of its bits is covered by something."""
    data, rng = join(encode(WHOLE, SHAPE)), random.Random(1)
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        refusal(bytes(changed))
    for _ in range(20_000 - 8 * len(data)):
        if (changed := mutated(data, rng)) != data:
            refusal(changed)


def test_whoever_forges_the_checksums_is_understood_exactly_or_refused() -> None:
    """20,000 changed frames, sealed again: refused for a reason, or a bundle whose frame has exactly those bytes."""
    data, rng, reasons, accepted = join(encode(WHOLE, SHAPE)), random.Random(2), set(), 0
    for _ in range(20_000):
        changed = resealed(mutated(data, rng))
        try:
            bundle = decode(changed, SHAPE, 1)
        except WireError as error:
            reasons.add(error.reason)
        else:
            accepted += 1
            assert join(encode(bundle, SHAPE)) == changed
    assert accepted > 1000
    assert reasons >= {"magic", "version", "dtype", "shape", "truncated", "length", "oversized", "not finite", "unknown agent", "sender", "round",
                       "path", "branch", "weight", "terms", "decays", "states"}  # fmt: skip


def test_memory_does_not_grow_with_what_is_refused_or_accepted() -> None:
    data, rng = join(encode(WHOLE, SHAPE)), random.Random(3)

    def play(times: int) -> int:
        for _ in range(times):
            with suppress(WireError):
                decode(resealed(mutated(data, rng)), SHAPE, 1)
        gc.collect()
        return len(buffers._known)

    routes._unpacked.clear()
    known = play(300)
    tracemalloc.start()
    play(300)
    before = tracemalloc.get_traced_memory()[0]
    assert play(1500) == known
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 500_000  # routes that were new and possible are kept, up to a limit
    assert routes._unpacked.held <= routes.ROOM


def test_routes_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "ROOM", 1000)
    monkeypatch.setattr(routes, "_packed", routes._Memo())
    monkeypatch.setattr(routes, "_unpacked", routes._Memo())
    for agent in [*range(100), *range(98, 100)]:
        branch = Branch(agent + 1, 0.5)
        assert routes.unpack_route(routes.pack_route((agent,), branch)) == ((agent,), branch, agent + 1)
        assert sum(map(len, routes._unpacked)) == routes._unpacked.held <= 1000
        assert routes._packed.held <= 1000
    assert len(routes._unpacked) > 10


def test_forged_counts_allocate_nothing() -> None:
    """Every 32-bit word of the header in turn claims 4 thousand million, and 65 thousand."""
    data = join(encode(WHOLE, SHAPE))
    (length,) = struct.unpack_from("<I", data, FIELDS["length"])
    refused = 0
    tracemalloc.start()
    base = tracemalloc.get_traced_memory()[0]
    for at in range(16, length, 4):
        for value in (2**32 - 1, 2**32 - 2, 2**16):
            changed = bytearray(data)
            struct.pack_into("<I", changed, at, value)
            try:
                decode(resealed(changed), SHAPE, 1)
            except WireError:
                refused += 1
    peak = tracemalloc.get_traced_memory()[1] - base
    tracemalloc.stop()
    assert refused > length // 4
    assert peak < 150_000


def test_a_frame_is_a_list_of_buffers() -> None:
    frame: Frame = encode(WHOLE, SHAPE)
    assert isinstance(frame[0], bytes)
    assert all(not segment.flags.writeable for segment in frame[1:])
