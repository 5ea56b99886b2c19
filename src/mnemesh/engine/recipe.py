"""A problem and an algorithm as words and arrays, so that a file can bring them back."""

from __future__ import annotations

from typing import Any

import numpy as np

from mnemesh import algorithms, domains, features, losses, steps
from mnemesh.algorithms.algorithm import Algorithm
from mnemesh.errors import CheckpointError, MnemeshError
from mnemesh.interest import Interest
from mnemesh.problem import Problem
from mnemesh.routing.trees import Trees

__all__ = ["pack", "unpack"]

_SHELVES: dict[str, Any] = {"loss": losses, "domain": domains, "features": features, "step": steps, "algorithm": algorithms}


def pack(problem: Problem, algorithm: Algorithm) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Names and settings, and the arrays they refer to. What has no settings is left out, and must be given again when loading."""
    arrays: dict[str, np.ndarray] = {}
    parts: dict[str, Any] = {"loss": problem.loss, "domain": problem.domain, "features": problem.features, "step": algorithm.rule, "algorithm": algorithm}
    words: dict[str, Any] = {}
    for name, part in parts.items():
        try:
            settings = part.settings() if part.name in _SHELVES[name].names() else None
        except MnemeshError:
            settings = None
        words[name] = None if settings is None else {"name": part.name, "settings": {key: _put(f"{name}.{key}", value, arrays) for key, value in settings.items()}}
    words["interest"] = _put("interest", problem.interest, arrays)
    return words, arrays


def unpack(words: dict[str, Any], arrays: dict[str, np.ndarray], problem: Problem | None, algorithm: Algorithm | None) -> tuple[Problem, Algorithm]:
    """What `pack` packed; `problem` and `algorithm`, where given, stand for it."""
    if problem is None:
        loss, domain, phi = (_made(name, words, arrays, "problem") for name in ("loss", "domain", "features"))
        problem = Problem(loss, domain, _take(words["interest"], arrays), phi)
    if algorithm is None:
        algorithm = _made("algorithm", words, arrays, "algorithm", step=_made("step", words, arrays, "algorithm"))
    return problem, algorithm


def _made(name: str, words: dict[str, Any], arrays: dict[str, np.ndarray], argument: str, **more: Any) -> Any:
    if words[name] is None:
        raise CheckpointError(f"the {name} could not be written to the file (it is no registered one with settings()): pass {argument}= to load.")
    settings = {key: _take(value, arrays) for key, value in words[name]["settings"].items()}
    return _SHELVES[name].get(words[name]["name"], **settings, **more)


def _put(name: str, value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if isinstance(value, Interest):
        return {"interest": [_put(f"{name}.{field}", getattr(value, field), arrays) for field in ("starts", "partners", "weights")]}
    if isinstance(value, Trees):
        graph = None if value.graph is None else _put(f"{name}.graph", value.graph, arrays)
        fields = [_put(f"{name}.{field}", getattr(value, field), arrays) for field in ("tree_starts", "tree_nodes", "tree_parents")]
        return {"trees": fields, "graph": graph, "interest": _put(f"{name}.interest", value.interest, arrays), "builder": value.builder}
    if hasattr(value, "edges"):
        edges = np.array(sorted(value.edges), dtype=np.int64).reshape(-1, 2)
        return {"edges": _put(f"{name}.edges", edges, arrays), "agents": value.number_of_nodes()}
    return value


def _take(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "trees" in value:
        graph = None if value["graph"] is None else _take(value["graph"], arrays)
        fields = (_take(field, arrays) for field in value["trees"])
        return Trees(graph, _take(value["interest"], arrays), *fields, builder=value["builder"])
    if "interest" in value:
        return Interest(*(_take(field, arrays) for field in value["interest"]))
    from mnemesh.topology import from_edges

    return from_edges(_take(value["edges"], arrays).tolist(), value["agents"])
