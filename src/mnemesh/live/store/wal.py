"""Whether a write-ahead log is whole. SQLite takes its first broken frame for its end, and would forget what was committed after it without a word.

With `synchronous = FULL` no transaction is written before the one ahead of it is safe on the disk. So a broken frame is the torn end of a
transaction that nobody was told of, unless a later transaction follows it: then the log was damaged. (https://sqlite.org/walformat.html)
"""

from __future__ import annotations

from pathlib import Path
from struct import unpack, unpack_from

__all__ = ["damaged"]

_HEADER, _FRAME = 32, 24
_MAGIC = 0x377F0682  # and one more where checksums are over big-endian words


def damaged(path: Path) -> bool:
    """Whether committed transactions come after a broken frame."""
    log = path.read_bytes() if path.exists() else b""
    if len(log) <= _HEADER + _FRAME or not any(log):
        return False  # not one frame: nothing was committed
    magic, _, page, _, salt, more, *state = unpack_from(">8I", log)
    if magic | 1 != _MAGIC | 1 or not 512 <= page <= 65536:
        return True
    order = "<>"[magic & 1]
    if _added(log[:24], order, 0, 0) != (state[0], state[1]):
        return True
    broken, ended = False, False
    first, second = state
    for start in range(_HEADER, len(log) - _FRAME - page + 1, _FRAME + page):
        _, commit, *salts, one, two = unpack_from(">6I", log, start)
        current = salts == [salt, more]  # else it is left over from before the log began anew
        body = log[start : start + 8] + log[start + _FRAME : start + _FRAME + page]
        whole = current and _added(body, order, first, second) == (one, two)
        if whole and ended:
            return True
        broken = broken or not whole
        ended = broken and current and commit > 0
        first, second = one, two
    return False


def _added(data: bytes, order: str, first: int, second: int) -> tuple[int, int]:
    """SQLite's checksum, continued over more words."""
    words = iter(unpack(f"{order}{len(data) // 4}I", data))
    for word in words:
        first = (first + word + second) & 0xFFFFFFFF
        second = (second + next(words) + first) & 0xFFFFFFFF
    return first, second
