"""Files that a run can be taken up from: named arrays and one line of JSON, never pickled, replaced whole or not at all."""

from __future__ import annotations

import json
import os
import zipfile
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np

from mnemesh.errors import CheckpointError

__all__ = ["FORMAT", "read", "write"]

FORMAT = 1


def write(path: str | os.PathLike[str], kind: str, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a checkpoint beside `path`, then move it there, so that a crash leaves the last good one."""
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    header = json.dumps({"format": FORMAT, "kind": kind, **facts}, sort_keys=True, default=methodcaller("item"))  # NumPy's whole numbers
    try:
        with beside.open("wb") as file:
            np.savez(file, header=np.array(header), **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except OSError as problem:
        beside.unlink(missing_ok=True)
        raise CheckpointError(f"cannot write the checkpoint {str(target)!r} ({problem.strerror}): the run could not be taken up again.") from problem


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The facts and arrays of a checkpoint of this kind."""
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            header = dict(json.loads(str(file["header"])))
            arrays = {name: file[name] for name in file.files if name != "header"}
    except FileNotFoundError:
        raise CheckpointError(f"there is no checkpoint {str(path)!r}: nothing to take up.") from None
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as problem:
        raise CheckpointError(f"{str(path)!r} is no checkpoint, or a damaged one: nothing was taken up from it.") from problem
    if header.get("format") != FORMAT:
        raise CheckpointError(f"{str(path)!r} is a checkpoint of format {header.get('format')}, and this version reads format {FORMAT}.")
    if header.get("kind") != kind:
        raise CheckpointError(f"{str(path)!r} holds a {header.get('kind')!r}, not a {kind!r}: it was written by something else.")
    return header, arrays
