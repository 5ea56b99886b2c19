"""How memories move: full-information OGD, local OGD, consensus C-DOGD and DAM-TOGD, one update with different partners, delays and mixing."""

from mnemesh.algorithms.algorithm import Algorithm, Info, Memories, Rows, own_rows, rows_of
from mnemesh.algorithms.consensus import c_dogd
from mnemesh.algorithms.full_information import ogd
from mnemesh.algorithms.local import local_ogd
from mnemesh.algorithms.tree_descent import dam_togd
from mnemesh.algorithms.world import Sample, World, outer_sum, recalled, take
from mnemesh.errors import AlgorithmError
from mnemesh.registry import Registry

__all__ = [
    "Algorithm", "Info", "Memories", "Rows", "Sample", "World", "c_dogd", "dam_togd", "get", "local_ogd", "maker", "names",
    "ogd", "outer_sum", "own_rows", "recalled", "register", "rows_of", "take",
]  # fmt: skip

_REGISTRY = Registry("algorithm", AlgorithmError, {"ogd": ogd, "local_ogd": local_ogd, "c_dogd": c_dogd, "dam_togd": dam_togd})
get, maker, names, register = _REGISTRY.get, _REGISTRY.maker, _REGISTRY.names, _REGISTRY.register
