"""How many cores to use, and a way to use them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from mnemesh.errors import EngineError

__all__ = ["each", "threads"]


def threads() -> int:
    """How many threads work: the cores this process may use, or what the environment variable MNEMESH_THREADS says."""
    if asked := os.environ.get("MNEMESH_THREADS"):
        if not asked.isdecimal() or int(asked) < 1:
            raise EngineError(f"MNEMESH_THREADS={asked!r}: a whole number of threads, at least 1, or nothing for all cores.")
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each(work: Callable[[Any], Any], pieces: Iterable[Any], workers: int) -> list[Any]:
    """[work(piece) for piece in pieces], on so many threads, which pays where the work lets go of the interpreter."""
    if workers < 2:
        return [work(piece) for piece in pieces]
    from concurrent.futures import ThreadPoolExecutor  # here, where it is worth the time that importing it takes

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, pieces))
