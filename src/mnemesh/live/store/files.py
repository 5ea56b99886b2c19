"""An agent's file: who holds it, what it is, and how it comes to be; nothing here changes one that exists."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from struct import unpack_from
from typing import final

from mnemesh.errors import StoreError
from mnemesh.live.store import rows, wal
from mnemesh.live.store.kinds import Facts

__all__ = ["Held", "InUse", "beside", "blank", "connect", "corrupt", "create", "logged", "recognise", "settle", "told"]

_WHAT_NOW = "import the last export, or move the file away to begin anew"


def beside(path: Path, ending: str) -> Path:
    """`lisbon.db` → `lisbon.db-wal`."""
    return path.with_name(path.name + ending)


class InUse(StoreError):
    """Another process has it."""


@final
class Held:
    """A file that no second process may use as long as this one does; the lock goes with the process, however it ends."""

    def __init__(self, path: Path) -> None:
        try:
            import fcntl
        except ImportError:
            raise StoreError(f"{path}: this system has no flock, and two processes could use one file: keep the state elsewhere.") from None
        if not path.parent.is_dir():
            raise StoreError(f"{path}: there is no folder {path.parent}: create it, or mount the disk that it is on.")
        if path.is_dir():
            raise StoreError(f"{path} is a folder: a store is one file.")
        with told(path, "open it"):
            self._file = beside(path, ".lock").open("a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as refused:
            self._file.seek(0)
            holder = self._file.read().strip() or "unknown"
            self._file.close()
            if refused.errno not in (errno.EAGAIN, errno.EACCES):
                raise StoreError(f"{path}: it cannot be locked here ({refused.strerror}): put it on a local disk.") from refused
            raise InUse(f"{path} is in use by process {holder}: an agent is one process, so stop that one first.") from None
        with suppress(OSError):  # a full disk keeps the number out, not the lock
            self._file.truncate(0)
            self._file.write(str(os.getpid()))
            self._file.flush()

    def release(self) -> None:
        """Let others have it."""
        with suppress(OSError):
            self._file.truncate(0)
        self._file.close()


@contextmanager
def told(path: Path, doing: str) -> Iterator[None]:
    """Say in one line what went wrong with a file, and what to do."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{path}: cannot {doing}: {_reason(error)}.") from error


def _reason(error: sqlite3.Error | OSError) -> str:
    if isinstance(error, OSError):
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        return "the disk is full, so free some space; what was acknowledged is safe" if full else (error.strerror or str(error)).lower()
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return "the disk is full, so free some space; what was acknowledged is safe"
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or code == sqlite3.SQLITE_ERROR:
        return f"the file is corrupt ({error}), and nothing was changed; {_WHAT_NOW}"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another program is writing to it, so close that"
    return f"{error}, so what was acknowledged is safe and nothing was added"


def corrupt(path: Path, what: str, now: str = _WHAT_NOW) -> StoreError:
    """What a file that cannot be believed is met with."""
    return StoreError(f"{path} is corrupt: {what}; nothing was changed: {now}.")


def recognise(path: Path, running: bool = False) -> None:
    """Refuse what is no agent's file, of another format, or visibly damaged; the log only where no agent is writing to it."""
    with told(path, "read it"):
        with path.open("rb") as file:
            head = file.read(100)
        size, log = path.stat().st_size, beside(path, "-wal")
        lost = not running and wal.damaged(log)
    if not head:
        raise corrupt(path, "it is empty")
    if len(head) < 100 or not head.startswith(b"SQLite format 3\0"):
        raise StoreError(f"{path} is no agent's file: it is no SQLite database, and was left as it is.")
    version, application = unpack_from(">I", head, 60)[0], unpack_from(">I", head, 68)[0]
    if application != rows.APPLICATION:
        raise StoreError(f"{path} is no agent's file: it is a database of something else, and was left as it is.")
    if version != rows.FORMAT:
        raise StoreError(f"{path} is of format {version}, and this version of mnemesh reads format {rows.FORMAT}: use the version that wrote it.")
    page = unpack_from(">H", head, 16)[0]
    if not logged(path) and size % (65536 if page == 1 else page or 1):
        raise corrupt(path, "its end is missing")
    if lost:
        raise corrupt(path, f"{log.name} is damaged ahead of what was committed later")


def create(path: Path, facts: Facts) -> None:
    """An empty store: whole on the disk before it has its name, so that no crash leaves half of one."""
    if logged(path):
        raise corrupt(path, f"it is gone, and {path.name}-wal is still there", "bring it back, import the last export, or move that file away to begin anew")
    made = beside(path, ".part")
    with told(path, "create it"):
        blank(made)
        with closing(sqlite3.connect(made, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous=OFF")  # all of it is brought to the disk at once, below
            for statement in (f"PRAGMA application_id={rows.APPLICATION}", f"PRAGMA user_version={rows.FORMAT}", *rows.CREATE):
                db.execute(statement)
            db.execute("INSERT INTO facts VALUES (?, ?, ?)", rows.from_facts(facts))
        settle(made, path)


def blank(path: Path) -> None:
    """A new, empty file for this user's eyes only: it will hold what an agent knows."""
    path.unlink(missing_ok=True)
    path.touch(0o600)


def settle(made: Path, path: Path) -> None:
    """Give a finished file its name, on the disk."""
    _sync(made)
    made.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def logged(path: Path) -> bool:
    """Whether there is more to a file than the file: transactions in its log."""
    log = beside(path, "-wal")
    return log.exists() and log.stat().st_size > 0


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection to a file that is there: "ro" leaves it as it is, "rw" may write."""
    alone = "&immutable=1" if mode == "ro" and not logged(path) else ""  # a reader would leave an empty log behind
    uri = f"{path.absolute().as_uri()}?mode={mode}{alone}"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=5.0)
    try:
        db.execute("PRAGMA trusted_schema=OFF")
        db.execute("PRAGMA cell_size_check=ON")
        if mode == "rw":
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            db.execute("BEGIN IMMEDIATE")  # the log is there from here on, and the file is one that can be written
            db.execute("COMMIT")
    except BaseException:
        db.close()
        raise
    return db
