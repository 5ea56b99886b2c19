"""Where randomness comes from: one generator per (seed, purpose, block), the same whoever draws it and in whatever order."""

from __future__ import annotations

import zlib

import numpy as np

from mnemesh.errors import DataError

__all__ = ["AGENT_BLOCK", "ROUND_BLOCK", "generator"]

AGENT_BLOCK = 1_024
ROUND_BLOCK = 256


def generator(seed: int, purpose: str, *block: int) -> np.random.Generator:
    """NumPy's Philox keyed by (seed, purpose, block): a seed goes in, or there is no randomness.

    A purpose always comes with the same number of block places: a seed sequence does not tell (…) from (…, 0).
    """
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise DataError(f"seed={seed!r} is not a whole number from 0 on: without one, no two runs would see the same data.")
    key = np.random.SeedSequence([int(seed), zlib.crc32(purpose.encode()), *block])
    return np.random.Generator(np.random.Philox(key))
