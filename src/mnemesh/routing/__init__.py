"""By which trees: builders of the routing trees 𝒯_n, and the Trees that they return."""

from mnemesh.errors import RoutingError
from mnemesh.registry import Registry
from mnemesh.routing.closure import steiner
from mnemesh.routing.explicit import from_parents, instant
from mnemesh.routing.regions import mehlhorn
from mnemesh.routing.shortest import shortest_path
from mnemesh.routing.trees import Messages, Trees

__all__ = ["Messages", "Trees", "from_parents", "get", "instant", "maker", "mehlhorn", "names", "register", "shortest_path", "steiner"]

_REGISTRY = Registry("tree builder", RoutingError, {
    "shortest_path": shortest_path,
    "steiner": steiner,
    "mehlhorn": mehlhorn,
    "instant": instant,
})
get, maker, names, register = _REGISTRY.get, _REGISTRY.maker, _REGISTRY.names, _REGISTRY.register
