"""What agents say to each other: queries that go down a tree, replies that come back up, and the bundle that a link carries in a round."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Branch", "Bundle", "LinkState", "Payload", "Query", "Reply", "Term", "no_payload"]


class Term(NamedTuple):
    """One agent's answer for one round: f_{m,s} stands or falls with it."""

    agent: int
    stamp: int


class Branch(NamedTuple):
    """What remains of a routing tree from an agent on: w_{n,m} where it is a partner of the root, 0 where it only relays."""

    agent: int
    weight: float
    children: tuple[Branch, ...] = ()


class Query(NamedTuple):
    """X_{n,s} on its way down: whose it is, of which round, the path it has walked, what remains of its tree, and the memory."""

    root: int
    incarnation: int
    stamp: int
    path: tuple[int, ...]  # the root first, the sender last
    branch: Branch  # whose agent is the receiver
    memory: np.ndarray  # (d_v, d_φ), shared by all who pass it on: nobody writes to it


class Payload(NamedTuple):
    """Σ w ∇f without what decay adds: rank-one terms residuals[i] features[i]ᵀ, or their sum; the other is None."""

    residuals: np.ndarray | None  # (k, d_v), weights included
    features: np.ndarray | None  # (k, d_φ)
    dense: np.ndarray | None = None  # (d_v, d_φ)


class Reply(NamedTuple):
    """A sum of answers on its way up."""

    root: int
    incarnation: int
    path: tuple[int, ...]  # what remains of it: the receiver first, the root last
    terms: tuple[Term, ...]  # what the sum is made of
    missed: tuple[Term, ...]  # what will never be answered
    payload: Payload
    decays: tuple[tuple[int, np.ndarray], ...]  # (stamp, Σ w D) on the gate's axis, ascending
    loss: float  # Σ w f
    slope: float  # Σ w ⟨∇f, X⟩


class LinkState(NamedTuple):
    """Which of its links an agent finds up; a later (incarnation, sequence) replaces an earlier one."""

    agent: int
    incarnation: int
    sequence: int
    links: tuple[int, ...]  # neighbours, ascending


class Bundle(NamedTuple):
    """All that one agent tells a neighbour in one round."""

    sender: int
    incarnation: int
    round: int
    sequence: int  # of this sender on this link, since its start
    view: int  # a hash of all link states that the sender knows
    states: tuple[LinkState, ...]  # those link states, where the neighbour's hash was another one
    queries: tuple[Query, ...]
    replies: tuple[Reply, ...]


def no_payload(value_dim: int, features_dim: int, dtype: Any) -> Payload:
    """The sum of no terms."""
    return Payload(np.zeros((0, value_dim), dtype), np.zeros((0, features_dim), dtype))
