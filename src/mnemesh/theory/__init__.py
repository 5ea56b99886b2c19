"""What must hold: the paper's regret bounds as printed and as repaired, and the sharper theorem that docs/theory.md proves."""

from mnemesh.theory.bounds import Bound, c_dogd, dam_togd, ogd
from mnemesh.theory.gradients import lipschitz

__all__ = ["Bound", "c_dogd", "dam_togd", "lipschitz", "ogd"]
