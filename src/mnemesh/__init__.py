"""mnemesh: distributed associative memory. Agents on a network learn online to recall their own values and those of the agents they care about."""

import importlib as _importlib
from typing import Any as _Any

from mnemesh import (
    algorithms,
    domains,
    engine,
    errors,
    features,
    interest,
    losses,
    problem,
    regret,
    routing,
    statistics,
    steps,
    streams,
    testing,
    theory,
    topology,
    tuning,
)
from mnemesh.engine import Online, Trace, simulate, simulate_many
from mnemesh.problem import Problem
from mnemesh.tuning import tune

__version__ = "0.1.0"


def __getattr__(name: str) -> _Any:
    """`mm.lab` and `mm.live`, imported when they are first asked for."""
    if name in ("lab", "live"):
        return _importlib.import_module(f"mnemesh.{name}")
    raise AttributeError(f"module 'mnemesh' has no attribute {name!r}")


__all__ = [
    "Online", "Problem", "Trace", "algorithms", "domains", "engine", "errors", "features", "interest", "losses", "problem", "regret", "routing",
    "simulate", "simulate_many", "statistics", "steps", "streams", "testing", "theory", "topology", "tune", "tuning",
]  # fmt: skip
