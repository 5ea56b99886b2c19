"""Ways to play: `simulate`, `simulate_many` and `Online`."""

from mnemesh.engine.online import Online
from mnemesh.engine.play import simulate, simulate_many
from mnemesh.engine.trace import Trace

__all__ = ["Online", "Trace", "simulate", "simulate_many"]
