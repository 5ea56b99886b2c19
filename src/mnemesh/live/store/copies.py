"""Moving an agent's state: a copy in one file, checked before it gets its name."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from mnemesh.errors import StoreError
from mnemesh.live.store.contents import read
from mnemesh.live.store.files import Held, InUse, beside, blank, connect, logged, recognise, settle, told
from mnemesh.live.store.kinds import Facts

__all__ = ["export_state", "import_state"]


def export_state(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> Path:
    """Copy a store to `target`, whether its agent runs or not; in the place of an older export, but of no other file."""
    source, target = Path(source).resolve(), Path(target).resolve()
    if not source.is_file():
        raise StoreError(f"{source}: there is no such file, so there is nothing to export.")
    _apart(source, target)
    if target.exists():
        try:
            recognise(target)
        except StoreError as strange:
            raise StoreError(f"{target} is there and is no export: choose another name, or move it away.") from strange
        if logged(target):
            raise StoreError(f"{target} is an agent's own file: choose another name for the export.")
    held, running = None, False
    try:
        held = Held(source)
    except InUse:
        running = True
    try:
        made = _copied(source, target, None, running)
        with told(target, "write it"):
            settle(made, target)
    finally:
        if held is not None:
            held.release()
    return target


def import_state(
    source: str | os.PathLike[str], target: str | os.PathLike[str], *, agent: str, shape: tuple[int, int], dtype: str, key_dim: int, replace: bool = False
) -> Path:
    """Make `target` the store that was exported to `source`; with `replace`, what was there is kept as `target.before`."""
    source, target = Path(source).resolve(), Path(target).resolve()
    if not source.is_file():
        raise StoreError(f"{source}: there is no such file, so there is nothing to import.")
    _apart(source, target)
    held = Held(target)
    try:
        log = beside(target, "-wal")
        if (target.exists() or logged(target)) and not replace:
            raise StoreError(f"{target} is there: what it holds would be lost; move it away, or say that it is to be replaced.")
        made = _copied(source, target, Facts(agent, shape, dtype, key_dim))
        with told(target, "replace it"):
            # the log goes last: a file that is gone while its log is there is never taken for a new agent's
            for one, before in ((target, beside(target, ".before")), (log, beside(target, ".before-wal"))):
                if one.exists():
                    one.replace(before)
                elif one is log:
                    before.unlink(missing_ok=True)
            settle(made, target)
    finally:
        held.release()
    return target


def _apart(source: Path, target: Path) -> None:
    if target.is_dir() or not target.parent.is_dir():
        raise StoreError(f"{target}: a file in a folder that is there is needed.")
    if target.exists() and target.samefile(source):
        raise StoreError(f"{target} and {source} are the same file: nothing was copied.")


def _copied(source: Path, target: Path, wanted: Facts | None, running: bool = False) -> Path:
    """A copy beside where it is to be, whole and checked; `source` may be in use."""
    made = beside(target, ".part")
    read(source, wanted, running=running)
    try:
        with told(target, "write it"):
            blank(made)
            with closing(connect(source, "ro")) as db, closing(sqlite3.connect(made, isolation_level=None)) as copy:
                copy.execute("PRAGMA synchronous=OFF")  # it is brought to the disk before it gets its name
                db.backup(copy)
                copy.execute("PRAGMA journal_mode=DELETE")  # one file, which may lie on a medium that cannot be written
        read(made, wanted)
    except BaseException:
        made.unlink(missing_ok=True)
        raise
    return made
