"""Why a file cannot be written, in words that name what is in the way."""

from __future__ import annotations

from pathlib import Path

__all__ = ["why"]


def why(path: Path, refused: OSError) -> str:
    """What the system says of it; where a file stands for one of the folders, that file."""
    for parent in reversed(path.parents):
        if parent.exists() and not parent.is_dir():
            return f"{str(parent)!r} is a file, not a folder"
    return refused.strerror or type(refused).__name__
