"""The compiled heart of the agent-by-agent way to play: one agent's memory through a stretch of rounds, in registers and cache.

It plays Table 1's losses under any rows of partners and delays. Given the streams, no agent reads another's memory, so agents need no
synchronisation. Three things make it fast. Memories lie transposed, d_v padded to the lanes, so that a key's entry is broadcast over a row.
A residual is *scattered*: −η w r goes into the slot of the round in which its reply arrives, so the update reads one contiguous block, and
empty slots hold zeros, which stands for 1{t > τ}. Four partners share each pass over the memory.
"""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

# module globals: closing over dispatchers or intrinsics would make the on-disk cache miss in every process
from mnemesh.engine import lanes as _lanes
from mnemesh.engine.lanes import add, fill, fma, load, mul, scale, store, sub

__all__ = ["BALL", "BOX", "EVERYTHING", "KEY", "NONE", "SCALAR", "VALUE", "kernel", "scatter"]

NONE, VALUE, KEY, SCALAR = range(4)  # the axis of the decay
EVERYTHING, BALL, BOX = range(3)  # the domain
_STAMP = zlib.crc32(Path(_lanes.__file__).read_bytes())  # numba's cache does not see edits to the lanes; this constant tells it


_helper = njit(fastmath=True, nogil=True, error_model="numpy")


@_helper
def _keep_decay(  # type: ignore[no-untyped-def]
    n, now, i, X, decays, decay_at, decay_step, decay_score, decay_learn, decay_age, K, coefficients, iterates, scratch, axis, AX, D, DV
):  # fmt: skip
    """½ Σ w D ∘ X² of this round; X and, delay by delay, Σ p D are kept in the slot `now` until their round comes."""
    zero = X.dtype.type(0)
    scratch[:AX] = zero
    coefficients[now * K * AX : (now + 1) * K * AX] = zero
    for m in range(decay_score.shape[1]):
        d, o = decay_at[n, m] + i * decay_step, (now * K + decay_age[n, m]) * AX
        for x in range(AX):
            scratch[x] += decay_score[n, m] * decays[d + x]
            coefficients[o + x] += decay_learn[n, m] * decays[d + x]
    loss = zero
    for j in range(D):
        row = zero
        for a in range(DV):
            x = X[j * DV + a]
            iterates[(now * D + j) * DV + a] = x
            row += x * x * scratch[a] if axis == VALUE else x * x
        loss += row if axis == VALUE else row * scratch[j if axis == KEY else 0]
    return loss * X.dtype.type(0.5)


@_helper
def _use_decay(then, k, K, rate, X, coefficients, iterates, axis, AX, D, DV):  # type: ignore[no-untyped-def]
    """X −= η (Σ p D) ∘ X_then for the partners of one delay."""
    o, y = (then * K + k) * AX, then * D * DV
    for j in range(D):
        for a in range(DV):
            d = coefficients[o + a] if axis == VALUE else coefficients[o + (j if axis == KEY else 0)]
            X[j * DV + a] -= rate * d * iterates[y + j * DV + a]


@_helper
def _project(X, domain, low, high):  # type: ignore[no-untyped-def]
    """Π: onto the ball of radius high[0], or into the box from low to high."""
    if domain == BALL:
        norm = X.dtype.type(0)
        for x in range(X.size):
            norm += X[x] * X[x]
        if norm > high[0] * high[0]:
            shrink = high[0] / np.sqrt(norm)
            for x in range(X.size):
                X[x] *= shrink
    elif domain == BOX:
        for x in range(X.size):
            X[x] = min(max(X[x], low[x]), high[x])


@njit(nogil=True, error_model="numpy", cache=True)
def scatter(target, source, place, first, last, back):  # type: ignore[no-untyped-def]
    """target[place[n], back + r] = source[r, n] for n from first to last: (N, ≥ R, A, ≥ d) from (R, N, A, d)."""
    rounds, _, associations, width = source.shape
    for n in range(first, last):
        p = place[n]
        for r in range(rounds):
            for a in range(associations):
                for x in range(width):
                    target[p, back + r, a, x] = source[r, n, a, x]


@cache
def kernel(D: int, DV: int, L: int, curvature: int, axis: int, shared: int, domain: int) -> Any:
    """`play` for d_φ = D, d_v padded to DV in pieces of L lanes, ℓ's curvature (0 or 1), the decay's axis, weighted associations, a domain."""
    stamp = _STAMP
    AX = {NONE: 0, VALUE: DV, KEY: D, SCALAR: 1}[axis]

    @njit(fastmath=True, nogil=True, error_model="numpy", cache=True)
    def play(  # type: ignore[no-untyped-def]  # one loop nest, read top to bottom
        first, last, start, back, keys, key_at, key_step, values, value_at, value_step, share, share_at, share_step,
        score, learn, delays, rates, rate_at, memories, pending, losses,
        decays, decay_at, decay_step, decay_score, decay_learn, decay_age, ages, coefficients, iterates, low, high, scratch, slot,
    ):  # fmt: skip
        """Agents first .. last - 1 through rounds start .. start + losses.shape[1] - 1.

        Agent n's entry e has its key of the i-th round here at keys[key_at[n, e] + (i + back) * key_step], its value (DV wide) and share alike
        without `back`. score (N, E), learn and delays (N, U): the first U of the E entries teach, the others only count. The rate of
        the i-th round is rates[rate_at[n] + i]. Decays go by partner: decay_score and decay_learn (N, P), decay_age the place of δ in `ages`.
        """
        E, U, H, R = score.shape[1], learn.shape[1], pending.shape[1] // (learn.shape[1] * DV), losses.shape[1]
        K = ages.size
        zero, half, one = score.dtype.type(0), score.dtype.type(0.5), score.dtype.type(1)
        for n in range(first, last):
            X, waiting, w, p, tau, k_at, v_at = memories[n], pending[n], score[n], learn[n], delays[n], key_at[n], value_at[n]
            now = (start + stamp * 0) % H
            for m in range(U):
                slot[m] = (start + tau[m]) % H
            for i in range(R):
                rate = rate_at[n] + i
                total: Any = fill(zero, L)  # type: ignore[call-arg]
                for a in range(0, DV, L):  # a piece of every row at a time, which the first cache holds
                    for m in range(0, E, 4):  # four residuals, scattered to the round that will use them
                        k0 = k_at[m] + (i + back) * key_step
                        k1 = k_at[m + 1] + (i + back) * key_step
                        k2 = k_at[m + 2] + (i + back) * key_step
                        k3 = k_at[m + 3] + (i + back) * key_step
                        v0 = v_at[m] + i * value_step
                        v1 = v_at[m + 1] + i * value_step
                        v2 = v_at[m + 2] + i * value_step
                        v3 = v_at[m + 3] + i * value_step
                        h0 = h1 = h2 = h3 = one
                        if shared:
                            h0 = share[share_at[n, m] + i * share_step]
                            h1 = share[share_at[n, m + 1] + i * share_step]
                            h2 = share[share_at[n, m + 2] + i * share_step]
                            h3 = share[share_at[n, m + 3] + i * share_step]
                        if m < U:
                            g0 = -rates[rate + tau[m]] * p[m] * h0
                            g1 = -rates[rate + tau[m + 1]] * p[m + 1] * h1
                            g2 = -rates[rate + tau[m + 2]] * p[m + 2] * h2
                            g3 = -rates[rate + tau[m + 3]] * p[m + 3] * h3
                            o0 = (slot[m] * U + m) * DV
                            o1 = (slot[m + 1] * U + m + 1) * DV
                            o2 = (slot[m + 2] * U + m + 2) * DV
                            o3 = (slot[m + 3] * U + m + 3) * DV
                        h0, h1, h2, h3 = h0 * w[m], h1 * w[m + 1], h2 * w[m + 2], h3 * w[m + 3]
                        z0 = z1 = z2 = z3 = fill(zero, L)
                        for j in range(D):
                            x = load(X, j * DV + a, L)
                            z0 = fma(z0, x, keys, k0 + j)
                            z1 = fma(z1, x, keys, k1 + j)
                            z2 = fma(z2, x, keys, k2 + j)
                            z3 = fma(z3, x, keys, k3 + j)
                        r0, r1, r2, r3 = load(values, v0 + a, L), load(values, v1 + a, L), load(values, v2 + a, L), load(values, v3 + a, L)
                        if curvature:  # ½ ‖z − v‖², r = z − v
                            r0, r1, r2, r3 = sub(z0, r0), sub(z1, r1), sub(z2, r2), sub(z3, r3)
                            t0, t1, t2, t3 = mul(r0, r0), mul(r1, r1), mul(r2, r2), mul(r3, r3)
                        else:  # −⟨z, v⟩, r = −v: the sign is put right below
                            t0, t1, t2, t3 = mul(r0, z0), mul(r1, z1), mul(r2, z2), mul(r3, z3)
                        total = add(total, add(add(scale(t0, h0), scale(t1, h1)), add(scale(t2, h2), scale(t3, h3))))
                        if m < U:
                            if not curvature:
                                r0, r1, r2, r3 = scale(r0, -one), scale(r1, -one), scale(r2, -one), scale(r3, -one)
                            store(waiting, o0 + a, scale(r0, g0))
                            store(waiting, o1 + a, scale(r1, g1))
                            store(waiting, o2 + a, scale(r2, g2))
                            store(waiting, o3 + a, scale(r3, g3))
                store(scratch, 0, total)
                loss = zero
                for a in range(L):
                    loss += scratch[a]
                loss = loss * half if curvature else -loss
                if axis:
                    loss += _keep_decay(
                        n, now, i, X, decays, decay_at, decay_step, decay_score, decay_learn, decay_age, K, coefficients[n], iterates[n],
                        scratch, axis, AX, D, DV,
                    )  # fmt: skip
                losses[n, i] = loss
                for a in range(0, DV, L):
                    for m in range(0, U, 4):  # four rank-one terms; before the first reply `waiting` is zero, any key will do
                        k0 = k_at[m] + (i + back - tau[m]) * key_step
                        k1 = k_at[m + 1] + (i + back - tau[m + 1]) * key_step
                        k2 = k_at[m + 2] + (i + back - tau[m + 2]) * key_step
                        k3 = k_at[m + 3] + (i + back - tau[m + 3]) * key_step
                        o = (now * U + m) * DV + a
                        r0, r1, r2, r3 = load(waiting, o, L), load(waiting, o + DV, L), load(waiting, o + 2 * DV, L), load(waiting, o + 3 * DV, L)
                        for j in range(D):
                            o = j * DV + a
                            x = fma(load(X, o, L), r0, keys, k0 + j)
                            store(X, o, fma(fma(fma(x, r1, keys, k1 + j), r2, keys, k2 + j), r3, keys, k3 + j))
                if axis:
                    for k in range(K):
                        _use_decay((start + i - ages[k]) % H, k, K, rates[rate], X, coefficients[n], iterates[n], axis, AX, D, DV)
                _project(X, domain, low, high)
                now = now + 1 if now + 1 < H else 0  # compare and subtract, never %
                for m in range(U):
                    slot[m] = slot[m] + 1 if slot[m] + 1 < H else 0

    return play
