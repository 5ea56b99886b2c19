"""A store in a file: one per agent, SQLite in WAL mode, each acknowledgement on the disk before it is given."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import final

import numpy as np

from mnemesh.errors import StoreError
from mnemesh.live.store import rows
from mnemesh.live.store.base import Store
from mnemesh.live.store.contents import Contents, read
from mnemesh.live.store.copies import export_state
from mnemesh.live.store.files import Held, beside, connect, corrupt, create, told
from mnemesh.live.store.kinds import Association, Entry, Facts

__all__ = ["SQLiteStore"]


@final
class SQLiteStore(Store):
    """Keeps everything in one file, made where there is none; `path.lock` beside it names the process that has it open.

    A file that is damaged, of another agent, size or format is refused and left as it is. The last two memories are kept: where the newest is damaged and
    the one before is whole, `allow_older` goes on from that one, and `load().lost` names the rounds whose learning it has not.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, agent: str, shape: tuple[int, int], dtype: str, key_dim: int,
        max_age: int, commit_every: int = 1, allow_older: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(Facts(agent, shape, dtype, key_dim), max_age, commit_every)
        self.path = Path(path).resolve()
        self._held = Held(self.path)
        try:
            if not self.path.exists():
                create(self.path, self.facts)
            self._resume(read(self.path, self.facts, allow_older))
            with told(self.path, "open it"):
                self._db = connect(self.path, "rw")
                self._files = self._identities()
        except BaseException:
            self._held.release()
            raise

    def _resume(self, found: Contents) -> None:
        self._acknowledged = found.acknowledged
        self._waiting.update(found.waiting)
        self._made.update((entry.round, entry.assigned) for entry in found.entries)
        self._last = found.entries[-1]._replace(memory_round=found.memory_round) if found.entries else None

    def export(self, target: str | os.PathLike[str]) -> Path:
        """A copy of everything in one file, the last round's memory included."""
        with self._guard:
            self.flush()
            return export_state(self.path, target)

    def _add(self, told: list[Association]) -> None:
        with self._writing("keep an association") as db:
            db.executemany("INSERT INTO associations VALUES (?, ?, ?, ?, ?)", [rows.from_association(one, self.facts.dtype) for one in told])

    def _record(self, entry: Entry, memory: np.ndarray | None, old: list[int]) -> None:
        with self._writing(f"commit round {entry.round}") as db:
            db.execute("INSERT OR REPLACE INTO rounds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows.from_entry(entry))
            if memory is not None:
                before = 0 if self._last is None else self._last.memory_round  # the last that is whole
                db.execute("INSERT OR REPLACE INTO memories VALUES (?, ?, ?, ?)", rows.from_memory(entry, memory))
                db.execute("DELETE FROM memories WHERE round NOT IN (?, ?)", (entry.round, before))
            if old:
                db.execute("DELETE FROM rounds WHERE round <= ?", (old[-1],))
                db.executemany("DELETE FROM associations WHERE id = ?", [(number,) for r in old for number in self._made[r]])

    def _get(self, numbers: tuple[int, ...]) -> tuple[Association, ...]:
        return tuple(self._one(number) for number in numbers)

    def _one(self, number: int) -> Association:
        with told(self.path, "read it"):
            row = self._db.execute("SELECT * FROM associations WHERE id = ?", (number,)).fetchone()
        try:
            return rows.to_association(row or (number, None, None, None, None), self.facts)
        except rows.BadRow:
            raise corrupt(self.path, f"the checksum of association {number} differs") from None

    def _newest(self) -> np.ndarray:
        newest = 0 if self._last is None else self._last.memory_round
        with told(self.path, "read it"):
            row = self._db.execute("SELECT * FROM memories WHERE round = ?", (newest,)).fetchone()
        try:
            return rows.to_memory(row or (newest, None, None, None), self.facts)
        except rows.BadRow:
            raise corrupt(self.path, f"the checksum of the memory of round {newest} differs") from None

    @contextmanager
    def _writing(self, doing: str) -> Iterator[sqlite3.Connection]:
        """A transaction: on the disk when this ends, or as if it never was."""
        with told(self.path, doing):
            if self._identities() != self._files:
                raise StoreError(f"{self.path}: cannot {doing}: the file or its -wal was moved or replaced while in use; stop the agent and bring it back.")
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                raise

    def _identities(self) -> list[tuple[int, int] | None]:
        """Which files the names stand for: what is written to one that lost its name is lost."""
        found: list[tuple[int, int] | None] = []
        for path in (self.path, beside(self.path, "-wal")):
            try:
                status = path.stat()
            except FileNotFoundError:
                found.append(None)
            else:
                found.append((status.st_dev, status.st_ino))
        return found

    def _release(self) -> None:
        try:
            with told(self.path, "close it"):
                self._db.close()
        finally:
            self._held.release()
