"""What an agent's file holds, every row of it checked."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from mnemesh.errors import StoreError
from mnemesh.live.store import rows
from mnemesh.live.store.files import connect, corrupt, recognise, told
from mnemesh.live.store.kinds import Entry, Facts

__all__ = ["Contents", "read"]


class Contents(NamedTuple):
    """All but the numbers: what a store has to know of its file."""

    facts: Facts
    entries: tuple[Entry, ...]  # of the rounds that are not forgotten, in their order
    waiting: dict[int, int]  # id -> batch
    acknowledged: int
    memory_round: int  # of the newest memory that can be used; 0 where there is none


def read(path: Path, wanted: Facts | None = None, allow_older: bool = False, running: bool = False) -> Contents:
    """Read and check a whole file without changing it; a corrupt newest memory is an error, unless an older one may be used."""
    recognise(path, running)
    try:
        with told(path, "read it"), closing(connect(path, "ro")) as db:
            db.execute("BEGIN")
            return _Reader(path, db).read(wanted, allow_older)
    except (ValueError, TypeError, struct.error) as strange:  # text that is none, columns that are others
        raise corrupt(path, "its tables are not those of a store") from strange


class _Reader:
    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self.path, self.db = path, db

    def read(self, wanted: Facts | None, allow_older: bool) -> Contents:
        if (found := self.db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise corrupt(self.path, found.removeprefix("*** in database main ***").strip().replace("\n", " "))
        facts = self._facts()
        if wanted is not None and (differing := facts.differences(wanted)):
            raise StoreError(f"{self.path} is of another agent or network, and was left as it is: {', '.join(differing)}.")
        entries = self._entries()
        waiting, acknowledged = self._associations(facts, entries)
        return Contents(facts, entries, waiting, acknowledged, self._memory(facts, entries, allow_older))

    def _facts(self) -> Facts:
        try:
            return rows.to_facts(self.db.execute("SELECT * FROM facts").fetchone() or (0, None, None))
        except rows.BadRow:
            raise corrupt(self.path, "whose it is cannot be read") from None

    def _entries(self) -> tuple[Entry, ...]:
        entries = []
        for row in self.db.execute("SELECT * FROM rounds ORDER BY round"):
            try:
                entries.append(rows.to_entry(row))
            except rows.BadRow:
                raise corrupt(self.path, f"the checksum of round {row[0]} differs") from None
        return tuple(entries)

    def _associations(self, facts: Facts, entries: tuple[Entry, ...]) -> tuple[dict[int, int], int]:
        """Which are waiting, and how many there ever were: each is waiting or in one round, and their counts agree."""
        assigned = [number for entry in entries for number in entry.assigned]
        left, waiting, newest = set(assigned), dict[int, int](), entries[-1].acknowledged if entries else 0
        for row in self.db.execute("SELECT * FROM associations ORDER BY id"):
            try:
                number, *_, batch = rows.to_association(row, facts)
            except rows.BadRow:
                raise corrupt(self.path, f"the checksum of association {row[0]} differs") from None
            newest = max(newest, number)
            if number in left:
                left.remove(number)
            else:
                waiting[number] = batch
        played = entries[-1].played if entries else 0
        if left or len(set(assigned)) < len(assigned) or len(waiting) != newest - played:
            raise corrupt(self.path, f"{newest:,} associations were acknowledged and {played:,} played, and that is not what it holds")
        return waiting, newest

    def _memory(self, facts: Facts, entries: tuple[Entry, ...], allow_older: bool) -> int:
        newest, good = entries[-1].memory_round if entries else 0, list[int]()
        for row in self.db.execute("SELECT * FROM memories ORDER BY round"):
            if row[0] > newest:
                raise corrupt(self.path, f"there is a memory of round {row[0]}, and the round is gone")
            try:
                rows.to_memory(row, facts)
                good.append(row[0])
            except rows.BadRow:
                pass
        if not entries or newest in good:
            return newest
        older = max((r for r in good if r < newest), default=0)
        if older and allow_older:
            return older
        there = f"open it with allow_older=True to go on from the memory of round {older}, which is whole, or import the last export"
        raise corrupt(self.path, f"the checksum of the memory of round {newest} differs", *([there] if older else []))
