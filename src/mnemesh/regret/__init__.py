"""Regret: what was lost above the best fixed memory in hindsight, and that memory itself."""

from mnemesh.regret.measured import Regret, static
from mnemesh.regret.minimum import comparator

__all__ = ["Regret", "comparator", "static"]
