"""What mnemesh is compared with, for DeltaNet under DAM-TOGD: Algorithm 1 as written, straightforward NumPy, and the bare products the work needs."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np


def literal(keys: np.ndarray, values: np.ndarray, interest: np.ndarray, parents: Any, delay: np.ndarray, c: float, radius: float) -> tuple[Any, Any]:
    """Algorithm 1 agent by agent: every query and every reply is an object that crosses one link a round."""
    rounds, agents, _ = keys.shape
    memories = [np.zeros((values.shape[2], keys.shape[2])) for _ in range(agents)]
    losses, inbox = np.zeros((rounds, agents)), defaultdict(list)
    routes = {(n, m): _route(parents[n], m) for n in range(agents) for m in np.flatnonzero(interest[n])}
    for t in range(rounds):
        arrived: dict[int, list[np.ndarray]] = defaultdict(list)
        messages, inbox = inbox, defaultdict(list)
        for place, waiting in messages.items():
            for root, m, stamp, path, payload in waiting:
                if payload.ndim == 2 and place == m and path == "down":
                    error = payload @ keys[stamp, m] - values[stamp, m]
                    path, payload = "up", interest[root, m] * np.outer(error, keys[stamp, m])
                if path == "up" and place == root:
                    arrived[root].append(payload)
                else:
                    route = routes[root, m]
                    at = route.index(place)
                    inbox[route[at + 1] if path == "down" else route[at - 1]].append((root, m, stamp, path, payload))
        for n in range(agents):
            gradient = sum(arrived[n], np.zeros_like(memories[n]))
            for m in np.flatnonzero(interest[n]):
                error = memories[n] @ keys[t, m] - values[t, m]
                losses[t, n] += interest[n, m] * 0.5 * (error @ error)
                if m == n:
                    gradient = gradient + interest[n, n] * np.outer(error, keys[t, n])
                else:
                    inbox[routes[n, m][1]].append((n, m, t, "down", memories[n]))
            memories[n] = memories[n] - c / math.sqrt(t + 1) * gradient
            norm = np.linalg.norm(memories[n])
            if norm > radius:
                memories[n] = memories[n] * (radius / norm)
    return losses, np.stack(memories)


def _route(parents: dict[int, int | None], node: int) -> list[int]:
    route, here = [], node
    while here is not None:
        route.append(here)
        here = parents[here]  # type: ignore[assignment]
    return route[::-1]


def straightforward(keys: np.ndarray, values: np.ndarray, interest: np.ndarray, delay: np.ndarray, c: np.ndarray, radius: float) -> tuple[Any, Any]:
    """Vectorised NumPy: a ring of residuals, fancy indexing, batched products. keys (B, T, N, d_k), c (B,): runs are one more axis."""
    runs, rounds, agents, d_k = keys.shape
    d_v, history = values.shape[3], int(delay.max()) + 1
    memories = np.zeros((runs, agents, d_v, d_k), keys.dtype)
    ring = np.zeros((history, runs, agents, agents, d_v), keys.dtype)
    padded = np.concatenate([np.zeros((runs, history, agents, d_k), keys.dtype), keys], axis=1)
    losses = np.zeros((runs, rounds, agents), keys.dtype)
    n, m = np.arange(agents)[:, None], np.arange(agents)[None]
    for t in range(rounds):
        outputs = (memories.reshape(runs, agents * d_v, d_k) @ keys[:, t].swapaxes(1, 2)).reshape(runs, agents, d_v, agents)
        residuals = outputs.swapaxes(2, 3) - values[:, t, None]
        losses[:, t] = 0.5 * (interest * (residuals**2).sum(-1)).sum(-1)
        ring[t % history] = residuals * interest[:, :, None]
        arrived = ring[(t - delay) % history, :, n, m]  # (N, N, B, d_v)
        then = padded[:, history + t - delay, m]  # (B, N, N, d_k)
        gradient = arrived.transpose(2, 0, 3, 1) @ then
        memories -= (c / np.sqrt(t + 1)).astype(keys.dtype)[:, None, None, None] * gradient
        norms = np.sqrt((memories**2).sum((2, 3), keepdims=True))
        memories *= np.minimum(1, radius / np.maximum(norms, 1e-30))
    return losses, memories


def bare_products(keys: np.ndarray, d_v: int) -> None:
    """The two products of every round and nothing else: all residuals, and all rank-one sums. keys (T, N, d_k)."""
    rounds, agents, d_k = keys.shape
    memories, residuals = np.ones((agents * d_v, d_k), keys.dtype), np.ones((agents, d_v, agents), keys.dtype)
    for t in range(rounds):
        memories @ keys[t].T
        np.matmul(residuals, keys[t][None])
