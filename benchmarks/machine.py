"""What the machine itself can do: multiply-adds in registers, and bytes copied."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from numba import njit

from mnemesh.cores import threads
from mnemesh.engine.lanes import add, fill, mul, store

LANES, CHAINS = 16, 8


@njit(fastmath=True, nogil=True)
def _spin(count, out):  # type: ignore[no-untyped-def]
    factor, one = np.float32(0.999999), np.float32(1.0)
    x = fill(factor, 16)
    a = b = c = d = e = f = g = h = fill(one, 16)
    for _ in range(count):
        a, b, c, d = add(mul(a, x), x), add(mul(b, x), x), add(mul(c, x), x), add(mul(d, x), x)
        e, f, g, h = add(mul(e, x), x), add(mul(f, x), x), add(mul(g, x), x), add(mul(h, x), x)
    store(out, 0, add(add(add(a, b), add(c, d)), add(add(e, f), add(g, h))))


def multiply_adds(threads: int, count: int = 20_000_000) -> float:
    """float32 multiply-adds a second of a loop that touches registers only."""
    outs = [np.zeros(LANES, np.float32) for _ in range(threads)]
    _spin(10, outs[0])
    best = np.inf
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(3):
            begin = time.perf_counter()
            list(pool.map(lambda out: _spin(count, out), outs))
            best = min(best, time.perf_counter() - begin)
    return threads * count * LANES * CHAINS / best


def copy_bandwidth(size: int = 2**29) -> float:
    """Bytes read and written a second by copying, on all cores."""
    source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    cuts = np.linspace(0, size, threads() + 1).astype(int)
    pieces = [slice(a, b) for a, b in pairwise(cuts)]
    best = np.inf
    with ThreadPoolExecutor(len(pieces)) as pool:
        for _ in range(5):
            begin = time.perf_counter()
            list(pool.map(lambda piece: np.copyto(target[piece], source[piece]), pieces))
            best = min(best, time.perf_counter() - begin)
    return 2 * size / best
