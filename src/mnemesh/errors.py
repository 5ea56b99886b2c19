"""Every error that mnemesh raises on purpose. Each message names the value, the rule and the consequence."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = [
    "AlgorithmError",
    "BoundError",
    "CheckpointError",
    "DataError",
    "DivergenceError",
    "DomainError",
    "EngineError",
    "FaultError",
    "FeatureError",
    "GraphError",
    "InterestError",
    "KeyFileError",
    "LossError",
    "MeshError",
    "MissingExtraError",
    "MnemeshError",
    "NetworkError",
    "ProblemError",
    "RegretError",
    "ResultsError",
    "RoutingError",
    "ShapeError",
    "ShardError",
    "SpecError",
    "StepError",
    "StoreError",
    "SweepError",
    "WireError",
    "require",
]


class MnemeshError(Exception):
    """The root: `except mm.errors.MnemeshError` catches whatever mnemesh refuses."""


class ShapeError(MnemeshError, ValueError):
    """Two arrays, or an array and a setting, disagree about a dimension."""


class DataError(MnemeshError, ValueError):
    """A stream carries something that no memory can learn from: NaN, infinities, gates outside [0, 1]."""


class LossError(MnemeshError, ValueError):
    """An unknown loss, or one that lacks what is asked of it."""


class FeatureError(MnemeshError, ValueError):
    """A feature map that is unknown or cannot be built."""


class DomainError(MnemeshError, ValueError):
    """A feasible set that is empty or unbounded where it must not be, or a memory outside it."""


class StepError(MnemeshError, ValueError):
    """A learning rate that is not finite, not positive, or increases."""


class InterestError(MnemeshError, ValueError):
    """An interest matrix that is not row-stochastic, or does not fit the agents."""


class GraphError(MnemeshError, ValueError):
    """A graph that is disconnected, or whose nodes are not 0..N-1."""


class RoutingError(MnemeshError, ValueError):
    """Trees that are no trees, use links that do not exist, or do not fit the interest."""


class ProblemError(MnemeshError, ValueError):
    """Parts of a problem that do not go together."""


class AlgorithmError(MnemeshError, ValueError):
    """An algorithm that does not fit the problem it is to solve."""


class EngineError(MnemeshError, ValueError):
    """An engine that does not exist or cannot play what is asked of it."""


class DivergenceError(MnemeshError, ArithmeticError):
    """A run whose numbers stopped being finite."""


class RegretError(MnemeshError, ValueError):
    """A regret that is not defined: no comparator exists, or the trace does not fit."""


class BoundError(MnemeshError, ValueError):
    """A bound that does not exist for this problem."""


class CheckpointError(MnemeshError, ValueError):
    """A file that is not a checkpoint of this run, or of this format."""


class SpecError(MnemeshError, ValueError):
    """A study that says something unknown, of the wrong type, or impossible."""


class SweepError(MnemeshError, RuntimeError):
    """A sweep that cannot start, or could not go on."""


class ResultsError(MnemeshError, ValueError):
    """Files that are no results, of another format, or cannot be written."""


class ShardError(MnemeshError, ValueError):
    """A simulation that cannot be cut into shards, or a shard that was lost."""


class FaultError(MnemeshError, ValueError):
    """A schedule of failures that cannot be played."""


class MeshError(MnemeshError, ValueError):
    """A network that cannot be built, or something that one of its agents cannot do."""


class NetworkError(MnemeshError, ValueError):
    """A network file that says something unknown, of the wrong type, or impossible."""


class KeyFileError(MnemeshError, ValueError):
    """A key or a certificate that is missing, expired, or not the one that is needed."""


class StoreError(MnemeshError, RuntimeError):
    """An agent's file that cannot be used, or something that it could not keep."""


class WireError(MnemeshError, ValueError):
    """A frame that no agent of this network can have sent; `reason` says in a word or two why, for whoever counts them."""

    def __init__(self, message: str, reason: str = "malformed") -> None:
        super().__init__(message)
        self.reason = reason


class MissingExtraError(MnemeshError, ImportError):
    """An optional library is not installed."""


_EXTRAS = {
    "cryptography": "live", "zenoh": "live", "numba": "sim", "scipy": "sim", "jax": "jax", "dask": "cluster", "distributed": "cluster",
    "jinja2": "lab", "matplotlib": "lab", "pyarrow": "lab", "rich": "lab", "tomli_w": "lab", "typer": "lab",
}  # fmt: skip


def require(module: str, purpose: str) -> ModuleType:
    """Import `module`, or say which extra brings it. `purpose` completes "… is needed for"."""
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        package = module.partition(".")[0]
        if missing.name is not None and missing.name.partition(".")[0] != package:
            raise
        raise MissingExtraError(
            f"{package} is not installed, and it is needed for {purpose}: pip install 'mnemesh[{_EXTRAS[package]}]' brings it."
        ) from missing
