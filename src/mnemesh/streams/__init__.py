"""Streams: what the agents see. Drawn on the host, computed inside the run, or somebody's own arrays and events."""

from mnemesh.errors import DataError
from mnemesh.registry import Registry
from mnemesh.streams.computed import Computed, computed_teacher
from mnemesh.streams.drawn import Teacher, teacher
from mnemesh.streams.given import Events, Given, from_arrays, from_events
from mnemesh.streams.stream import Block, Stream

__all__ = [
    "Block", "Computed", "Events", "Given", "Stream", "Teacher", "computed_teacher", "from_arrays", "from_events", "get", "maker", "names",
    "register", "teacher",
]  # fmt: skip

_REGISTRY = Registry("stream", DataError, {"teacher": Teacher, "computed_teacher": Computed})  # the classes: their signatures show every option
get, maker, names, register = _REGISTRY.get, _REGISTRY.maker, _REGISTRY.names, _REGISTRY.register
