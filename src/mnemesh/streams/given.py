"""Streams of somebody's own data: arrays of every round, or a log of single events. Checked once, copied as little as possible."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from mnemesh.errors import DataError, ShapeError
from mnemesh.streams.stream import Block, Stream

__all__ = ["Events", "Given", "from_arrays", "from_events"]

CHECKED_AT_ONCE = 2**20  # numbers; the check itself needs little memory


@final
class Given(Stream):
    """Arrays of all rounds, kept as they are: do not change them afterwards, they are not checked again."""

    def __init__(self, block: Block) -> None:
        self.rounds, self.agents, self.associations, self.key_dim = block.keys.shape
        self.value_dim = block.values.shape[-1]
        self.masked, self.gated = block.present is not None, block.gates is not None
        self._block = block

    def block(self, first: int, last: int, agents: np.ndarray | None = None) -> Block:
        self.check_range(first, last)
        return self._block.part(first, last, agents)

    def _read_whole(self) -> Block:
        return self._block


@final
class Events(Stream):
    """A log of single events in the order of their rounds; an agent's events of one round are its associations."""

    def __init__(self, agents: int, rounds: int, log: tuple[np.ndarray, np.ndarray], keys: np.ndarray, values: np.ndarray, gates: np.ndarray | None) -> None:
        order = np.lexsort(log)
        self._agents, self._rounds = (column[order] for column in log)
        self._keys, self._values, self._gates = keys[order], values[order], gates
        change = np.ones(len(order), dtype=bool)
        change[1:] = (self._agents[1:] != self._agents[:-1]) | (self._rounds[1:] != self._rounds[:-1])
        begins = np.flatnonzero(change)
        self._places = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))  # which of its round's associations
        self.agents, self.rounds, self.associations = agents, rounds, int(self._places.max()) + 1
        self.key_dim, self.value_dim = keys.shape[1], values.shape[1]
        self.masked, self.gated = len(order) < rounds * agents * self.associations, gates is not None

    def block(self, first: int, last: int, agents: np.ndarray | None = None) -> Block:
        self.check_range(first, last)
        here = slice(*np.searchsorted(self._rounds, (first, last)))
        at = (self._rounds[here] - first, self._agents[here], self._places[here])
        places = (last - first, self.agents, self.associations)
        keys = np.zeros((*places, self.key_dim), self._keys.dtype)
        values = np.zeros((*places, self.value_dim), self._values.dtype)
        present = np.zeros(places, bool)
        keys[at], values[at], present[at] = self._keys[here], self._values[here], True
        gates = None if self._gates is None else self._gates[first:last]
        return Block(keys, values, gates, present if self.masked else None).part(0, last - first, agents)


def from_arrays(keys: Any, values: Any, gates: Any = None, present: Any = None) -> Stream:
    """A stream from keys (T, N, d_k) and values (T, N, d_v), or (T, N, A, ·) with several associations a round.

    `present` (T, N, A), or (T, N), says which are there: absent places may hold anything and are read as zeros. `gates` are (T, N), (T, N, d_v)
    or (T, N, d_φ), in [0, 1]. float32 and float64 stay what they are.

    >>> import mnemesh as mm, numpy as np
    >>> mm.streams.from_arrays(np.ones((5, 2, 3)), np.ones((5, 2, 1)))
    Given(agents=2, rounds=5, key_dim=3, value_dim=1)
    """
    keys, values = _numbers("keys", keys), _numbers("values", values)
    if keys.ndim not in (3, 4) or values.ndim != keys.ndim or keys.shape[:-1] != values.shape[:-1] or 0 in keys.shape or 0 in values.shape:
        raise ShapeError(f"keys {keys.shape} and values {values.shape}: (T, N, d_k) and (T, N, d_v) are needed, or both with an axis of associations, none empty.")
    if keys.ndim == 3:
        keys, values = keys[:, :, None], values[:, :, None]
    mask = None if present is None else _mask(present, keys.shape[:3])
    keys, values = _finite("key", keys, mask), _finite("value", values, mask)
    gates = None if gates is None else _gates(gates, keys.shape[:2], mask)
    return Given(Block(_frozen(keys), _frozen(values), gates, mask))


def from_events(
    agents: Any, rounds: Any, keys: Any, values: Any, gates: Any = None, *, total_agents: int | None = None, total_rounds: int | None = None
) -> Stream:
    """A stream from a log: event e was seen by agent `agents[e]` (0-based) in round `rounds[e]` (1-based), in any order.

    `keys` (E, d_k), `values` (E, d_v). N and T are the largest seen, or what is given. `gates` are per agent and round, (T, N, …), as in `from_arrays`.

    >>> import mnemesh as mm, numpy as np
    >>> mm.streams.from_events([0, 1, 1], [1, 3, 3], np.ones((3, 2)), np.ones((3, 1)))
    Events(agents=2, rounds=3, key_dim=2, value_dim=1, up to 2 associations a round)
    """
    keys, values, agents, rounds = _numbers("keys", keys), _numbers("values", values), np.asarray(agents), np.asarray(rounds)
    if keys.ndim != 2 or values.ndim != 2 or not len(keys) == len(values) == agents.size == rounds.size or agents.ndim != 1 or rounds.ndim != 1:
        raise ShapeError(f"agents {agents.shape}, rounds {rounds.shape}, keys {keys.shape}, values {values.shape}: (E,), (E,), (E, d_k), (E, d_v) are needed.")
    if 0 in keys.shape or 0 in values.shape:
        raise DataError("a log without events, or whose events are empty: there is nothing to learn from.")
    count = _whole("agent", agents, 0, total_agents)
    horizon = _whole("round", rounds, 1, total_rounds)
    for name, array in (("key", keys), ("value", values)):
        wrong = np.flatnonzero(~np.isfinite(array).all(1))
        if len(wrong):
            e = wrong[0]
            raise DataError(f"the {name} of agent {agents[e]} in round {rounds[e]} (event {e}) is not finite: no memory can learn it.")
    if gates is not None:
        seen = np.zeros((horizon, count, 1), dtype=bool)
        seen[rounds - 1, agents] = True
        gates = _gates(gates, (horizon, count), seen)
    return Events(count, horizon, (agents.astype(np.int64), rounds.astype(np.int64) - 1), keys, values, gates)


def _numbers(name: str, array: Any) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype in (np.float32, np.float64):
        return array
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise DataError(f"{name} of type {array.dtype}: real numbers are needed, best as float32 or float64.")
    return array.astype(np.float32 if array.dtype == np.float16 else np.float64)


def _frozen(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.setflags(write=False)
    return view


def _stretches(array: np.ndarray) -> list[slice]:
    step = max(CHECKED_AT_ONCE * len(array) // array.size, 1)
    return [slice(first, first + step) for first in range(0, len(array), step)]


def _mask(present: Any, shape: tuple[int, ...]) -> np.ndarray:
    mask = np.asarray(present)
    if mask.shape == shape[:2] and shape[2] == 1:
        mask = mask[..., None]
    if mask.shape != shape:
        raise ShapeError(f"present has shape {mask.shape}: {shape} is needed, one entry per association.")
    if mask.dtype != bool and not np.isin(mask, (0, 1)).all():
        raise DataError("present holds something else than true and false: an association is there or it is not.")
    return _frozen(mask.astype(bool, copy=False))


def _finite(name: str, array: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    """`array` with zeros where nothing is present, refused where something is and is not finite; copied only if a place has to become zero."""
    copied = False
    for part in _stretches(array):
        bad = ~np.isfinite(array[part]).all(-1)
        if mask is not None:
            bad &= mask[part]
        if bad.any():
            t, n, _ = np.argwhere(bad)[0]
            raise DataError(f"the {name} of agent {n} in round {part.start + t + 1} is not finite: no memory can learn it.")
        if mask is not None and ((array[part] != 0).any(-1) & ~mask[part]).any():
            if not copied:
                array, copied = array.copy(), True
            array[part][~mask[part]] = 0
    return array


def _gates(gates: Any, lead: tuple[int, ...], mask: np.ndarray | None) -> np.ndarray:
    gates = _numbers("gates", gates)
    if gates.shape[:2] != lead or gates.ndim > 3 or 0 in gates.shape:
        raise ShapeError(f"gates of shape {gates.shape}: (T, N), (T, N, d_v) or (T, N, d_φ) with (T, N) = {lead} are needed, one per agent and round.")
    with np.errstate(invalid="ignore"):
        wrong = ~((gates >= 0) & (gates <= 1))
    wrong = wrong if gates.ndim == 2 else wrong.any(-1)
    if mask is not None and wrong.any():  # who sees nothing has no gate: it may hold anything
        idle = ~mask.any(-1)
        if (wrong & idle).any():
            gates, wrong = gates.copy(), wrong & ~idle
            gates[idle] = 1
    if wrong.any():
        t, n = np.argwhere(wrong)[0]
        raise DataError(f"the gate of agent {n} in round {t + 1} is {gates[t, n]}: gates lie in [0, 1], where 1 keeps a memory and 0 lets it fade.")
    return _frozen(gates)


def _whole(name: str, column: np.ndarray, lowest: int, total: int | None) -> int:
    """How many agents or rounds a log's column speaks of, or `total`, which it must not exceed."""
    if column.dtype.kind not in "iu":
        raise DataError(f"{name}s of type {column.dtype}: whole numbers are needed, each names the {name} of an event.")
    seen = int(column.max()) + 1 - lowest
    wrong = np.flatnonzero((column < lowest) | (column - lowest >= (seen if total is None else total)))
    if len(wrong):
        e, last = wrong[0], (seen if total is None else total) - 1 + lowest
        raise DataError(f"event {e} names {name} {column[e]}: {name}s are counted from {lowest}, here to {last}; it would be lost.")
    return seen if total is None else int(total)
