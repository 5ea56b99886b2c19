"""Sums of answers: joined where replies meet, as rank-one terms or as one matrix, whichever is smaller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from mnemesh.live.learning import Answer
from mnemesh.live.messages import Payload, Reply, Term, no_payload

__all__ = ["MODES", "Mode", "answered", "gradient", "joined", "missing"]

Mode = Literal["auto", "dense", "factored"]
MODES: tuple[str, ...] = ("auto", "dense", "factored")


def answered(root: int, incarnation: int, path: tuple[int, ...], term: Term, answer: Answer, mode: str) -> Reply:
    """One agent's answer as a reply that sets out on `path`."""
    decays = () if answer.decay is None else ((term.stamp, answer.decay.ravel()),)
    payload = _fitted(Payload(answer.residuals, answer.features), mode)
    return Reply(root, incarnation, path, (term,), (), payload, decays, answer.loss, answer.slope)


def missing(root: int, incarnation: int, path: tuple[int, ...], term: Term, shape: tuple[int, int], dtype: str) -> Reply:
    """What an agent says that can no longer answer: nothing is added, and the root need not wait."""
    return Reply(root, incarnation, path, (), (term,), no_payload(*shape, dtype), (), 0.0, 0.0)


def joined(replies: Sequence[Reply], mode: str) -> Reply:
    """Replies to one root along one path as one."""
    first = replies[0]
    if len(replies) == 1:
        return first
    decays: dict[int, np.ndarray] = {}
    for reply in replies:
        for stamp, decay in reply.decays:
            decays[stamp] = decay if stamp not in decays else decays[stamp] + decay
    return first._replace(
        terms=tuple(sorted(term for reply in replies for term in reply.terms)),
        missed=tuple(sorted(term for reply in replies for term in reply.missed)),
        payload=_sum([reply.payload for reply in replies], mode),
        decays=tuple(sorted(decays.items())),
        loss=sum(reply.loss for reply in replies),
        slope=sum(reply.slope for reply in replies),
    )


def gradient(payloads: Sequence[Payload], shape: tuple[int, int], dtype: str) -> np.ndarray:
    """Σ of all payloads, (d_v, d_φ)."""
    total = np.zeros(shape, dtype)
    factored = [payload for payload in payloads if payload.dense is None and len(payload.residuals)]  # type: ignore[arg-type]
    if factored:
        total += np.concatenate([payload.residuals for payload in factored]).T @ np.concatenate([payload.features for payload in factored])
    for payload in payloads:
        if payload.dense is not None:
            total += payload.dense
    return total


def _sum(payloads: Sequence[Payload], mode: str) -> Payload:
    factored = [payload for payload in payloads if payload.dense is None]
    dense = [payload.dense for payload in payloads if payload.dense is not None]
    if not dense:
        residuals, features = (np.concatenate(parts) for parts in zip(*(payload[:2] for payload in factored), strict=True))
        return _fitted(Payload(residuals, features), mode)
    total = gradient(payloads, dense[0].shape, dense[0].dtype.name)
    total.setflags(write=False)
    return Payload(None, None, total)


def _fitted(payload: Payload, mode: str) -> Payload:
    """As one matrix where that is what is asked for, or smaller."""
    residuals, features = payload.residuals, payload.features
    assert residuals is not None
    assert features is not None
    size = residuals.shape[1] * features.shape[1]
    if not len(residuals) or mode == "factored" or (mode == "auto" and residuals.size + features.size <= size):
        return payload
    total = residuals.T @ features
    total.setflags(write=False)  # shared by all who pass it on
    return Payload(None, None, total)
