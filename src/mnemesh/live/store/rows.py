"""The rows of an agent's file: numbers as little-endian bytes, and a checksum over every row."""

from __future__ import annotations

import json
from hashlib import blake2b
from struct import pack
from typing import Any

import numpy as np

from mnemesh.live.store.kinds import Association, Entry, Facts

__all__ = ["APPLICATION", "CREATE", "FORMAT", "BadRow", "from_association", "from_entry", "from_facts", "from_memory", "to_association", "to_entry", "to_facts", "to_memory"]

APPLICATION = 0x6D6E656D  # "mnem": what SQLite's header says the file is
FORMAT = 1
CREATE = (
    "CREATE TABLE facts (id INTEGER PRIMARY KEY, text TEXT NOT NULL, checksum BLOB NOT NULL)",
    "CREATE TABLE associations (id INTEGER PRIMARY KEY, batch INTEGER NOT NULL, gate INTEGER NOT NULL, data BLOB NOT NULL, checksum BLOB NOT NULL)",
    "CREATE TABLE memories (round INTEGER PRIMARY KEY, incarnation INTEGER NOT NULL, data BLOB NOT NULL, checksum BLOB NOT NULL)",
    "CREATE TABLE rounds (round INTEGER PRIMARY KEY, incarnation INTEGER NOT NULL, time REAL NOT NULL, credit REAL NOT NULL, "
    "memory INTEGER NOT NULL, acknowledged INTEGER NOT NULL, played INTEGER NOT NULL, assigned BLOB NOT NULL, checksum BLOB NOT NULL)",
)
_NO_GATE, _ONE_NUMBER = -1, 0  # in the column `gate`, which otherwise counts numbers


class BadRow(Exception):
    """A row that nobody wrote like this."""


def from_facts(facts: Facts) -> tuple[Any, ...]:
    """The one row of `facts`."""
    text = json.dumps({"agent": facts.agent, "shape": facts.shape, "dtype": facts.dtype, "key_dim": facts.key_dim}, sort_keys=True)
    return 1, text, _checksum(b"f", text.encode())


def to_facts(row: tuple[Any, ...]) -> Facts:
    """What `from_facts` wrote."""
    number, text, checksum = row
    _check(number == 1 and isinstance(text, str) and checksum == _checksum(b"f", text.encode()))
    told = json.loads(text)
    return Facts(told["agent"], tuple(told["shape"]), told["dtype"], told["key_dim"])


def from_association(one: Association, dtype: str) -> tuple[Any, ...]:
    """A row of `associations`."""
    gate = _NO_GATE if one.gate is None else len(one.gate) if one.gate.ndim else _ONE_NUMBER
    parts = [one.key, one.value] if one.gate is None else [one.key, one.value, one.gate.ravel()]
    data = _bytes(np.concatenate(parts), dtype)
    return one.id, one.batch, gate, data, _checksum(pack("<cqqq", b"a", one.id, one.batch, gate), data)


def to_association(row: tuple[Any, ...], facts: Facts) -> Association:
    """What `from_association` wrote."""
    number, batch, gate, data, checksum = row
    _check(isinstance(batch, int) and isinstance(gate, int) and isinstance(data, bytes))
    _check(checksum == _checksum(pack("<cqqq", b"a", number, batch, gate), data))
    numbers = _array(data, facts.dtype)
    key, value, rest = np.split(numbers, [facts.key_dim, facts.key_dim + facts.shape[0]])
    _check(len(rest) == {_NO_GATE: 0, _ONE_NUMBER: 1}.get(gate, gate))
    return Association(number, key, value, None if gate == _NO_GATE else rest.reshape(()) if gate == _ONE_NUMBER else rest, batch)


def from_memory(entry: Entry, memory: np.ndarray) -> tuple[Any, ...]:
    """A row of `memories`: what this round left."""
    data = _bytes(memory, str(memory.dtype))
    return entry.round, entry.incarnation, data, _checksum(pack("<cqq", b"m", entry.round, entry.incarnation), data)


def to_memory(row: tuple[Any, ...], facts: Facts) -> np.ndarray:
    """What `from_memory` wrote."""
    r, incarnation, data, checksum = row
    _check(isinstance(incarnation, int) and isinstance(data, bytes) and checksum == _checksum(pack("<cqq", b"m", r, incarnation), data))
    numbers = _array(data, facts.dtype)
    _check(numbers.size == facts.shape[0] * facts.shape[1])
    return numbers.reshape(facts.shape)


def from_entry(entry: Entry) -> tuple[Any, ...]:
    """A row of `rounds`."""
    data = _bytes(np.array(entry.assigned, np.int64), "int64")
    return *entry[:-1], data, _checksum(_numbers(entry), data)


def to_entry(row: tuple[Any, ...]) -> Entry:
    """What `from_entry` wrote."""
    *fields, data, checksum = row
    kinds = (int, int, float, float, int, int, int)
    _check(isinstance(data, bytes) and all(isinstance(field, kind) for field, kind in zip(fields, kinds, strict=True)))
    _check(checksum == _checksum(_numbers(fields), data))
    return Entry._make((*fields, tuple(_array(data, "int64").tolist())))


def _numbers(fields: Any) -> bytes:
    return pack("<cqqddqqq", b"r", *fields[:7])


def _bytes(array: np.ndarray, dtype: str) -> bytes:
    return array.astype(np.dtype(dtype).newbyteorder("<"), copy=False).tobytes()


def _array(data: bytes, dtype: str) -> np.ndarray:
    _check(len(data) % np.dtype(dtype).itemsize == 0)
    array = np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).astype(dtype)  # in this machine's order
    array.setflags(write=False)
    return array


def _checksum(*parts: bytes) -> bytes:
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _check(whole: bool) -> None:
    if not whole:
        raise BadRow
