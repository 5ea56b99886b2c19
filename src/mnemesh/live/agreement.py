"""What all agents of a network must agree on, so that two that do not find out before they learn from each other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemesh.registry import Part

if TYPE_CHECKING:
    from mnemesh.live.config import Network

__all__ = ["agreement", "digest", "disagreement"]

_LONG = 60  # letters, from which a digest stands for the words


def agreement(network: Network) -> dict[str, str]:
    """Topic by topic, what must be the same everywhere: in words where they are few, else with a digest."""
    problem, agents = network.problem(), network.names
    cares = problem.interest
    rows = [[n, m, f"{w:.9g}"] for n, m, w in zip(cares.rows.tolist(), cares.partners.tolist(), cares.weights.tolist(), strict=True)]
    links = [sorted(link) for link in network.graph().edges]
    return {
        "network": network.name,
        "agents": f"{len(agents)} agents {_short(list(agents))}",
        "links": f"{len(links)} links {_short(sorted(links))}",
        "interests": f"{len(rows)} weights {_short(rows)}",
        "loss": _part(problem.loss),
        "features": _part(problem.features),
        "domain": _part(problem.domain),
        "key_dim": str(network.key_dim),
        "value_dim": str(network.value_dim),
        "dtype": network.dtype,
        "step": _part(network.rule()),
        "aggregation": network.aggregation,
        "max_age": str(network.max_age),
    }


def digest(topics: Mapping[str, str]) -> str:
    """Sixteen letters that stand for an agreement."""
    return _short(sorted(topics.items()), 16)


def disagreement(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """Where two agents disagree, such as "dtype (float32 here, float64 there)"; nothing if they agree."""
    topics = [*here, *(topic for topic in there if topic not in here)]
    differing = [topic for topic in topics if here.get(topic) != there.get(topic)]
    return ", ".join(f"{topic} ({here.get(topic, 'nothing')} here, {there.get(topic, 'nothing')} there)" for topic in differing)


def _part(part: Any) -> str:
    """A part with all its settings, those that nobody stated included."""
    settings = {key: _plain(value) for key, value in part.settings().items()} if isinstance(part, Part) else {}
    words = f"{part.name}({', '.join(f'{key}={value}' for key, value in sorted(settings.items()))})"
    return words if len(words) <= _LONG else f"{part.name} {_short(settings)}"


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _short(value: Any, letters: int = 12) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:letters]
