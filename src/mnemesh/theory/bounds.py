"""Bounds on the regret of an algorithm: Theorems 1 to 3 and Corollary 1 as printed and as repaired, and the sharper theorem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np

from mnemesh.errors import BoundError
from mnemesh.problem import Problem
from mnemesh.routing.trees import Trees
from mnemesh.steps import InverseSqrt, Step, as_step
from mnemesh.streams.stream import Stream
from mnemesh.theory import forms
from mnemesh.theory.constants import Constants
from mnemesh.theory.gradients import lipschitz
from mnemesh.topology import check_graph, metropolis, second_singular_value
from mnemesh.types import Graph

__all__ = ["Bound", "c_dogd", "dam_togd", "ogd"]

KEPT = ("printed", "printed_sum", "repaired", "sharp", "sharp_sum")
LIMIT = 10**8  # numbers that a (T, N) view may hold
H_BY_ITS_BOUND = "Theorem 3 with H_n by its bound B²/(2η_{n,T+τ_max}), since no trace is looked at"


@final
@dataclass(frozen=True, eq=False, repr=False)
class Bound:
    """What the regret of an algorithm cannot exceed, with the constants of the whole stream at every T.

    The network's totals (T,) stand in `printed`, `repaired`, `sharp`, and for the very rates used in `printed_sum`, `sharp_sum`;
    a form that does not apply is None. `notes` says, form by form, which theorem it is or why there is none.
    """

    algorithm: str
    rounds: int
    printed: np.ndarray | None  # as the paper prints it: reported, and not always true
    printed_sum: np.ndarray | None
    repaired: np.ndarray | None
    sharp: np.ndarray | None
    sharp_sum: np.ndarray | None
    lipschitz: np.ndarray  # L_m, (N,)
    diameter: float  # B
    weighted_delay: np.ndarray  # τ̄_n, (N,)
    best_c: np.ndarray | None  # of the sharp form, per agent; 1 where L̄_n = 0 and no c matters
    notes: dict[str, str]
    _constants: Constants | None = None
    _step: Step | None = None
    _forms: dict[str, forms.Form] = field(default_factory=dict)

    @cached_property
    def per_agent(self) -> np.ndarray | None:
        """The sharpest form, `sharp_sum`, agent by agent, (T, N); None for C-DOGD, whose theorem is about the network as a whole."""
        return self.by_agent("sharp_sum") if "sharp_sum" in self._forms else None

    def by_agent(self, form: str) -> np.ndarray:
        """A form agent by agent, (T, N)."""
        if form not in self._forms or self._constants is None or self._step is None:
            why = self.notes.get("per_agent", self.notes.get(form, f"the forms are {', '.join(KEPT)}"))
            raise BoundError(f"this {self.algorithm} bound has no form {form!r} by agent: {why}.")
        if self.rounds * len(self.lipschitz) > LIMIT:
            size = f"{self.rounds:,} rounds of {len(self.lipschitz):,} agents"
            raise BoundError(f"{size} are more than {LIMIT:,} numbers, which one array would have to hold: read the network's totals.")
        return np.concatenate(list(self._forms[form](self._constants, self._step, self.rounds)))

    def best_c_at(self, rounds: int, form: str = "repaired") -> np.ndarray:
        """The c of c/√(t − τ_min) that makes "printed", "repaired" (both Corollary 1) or "sharp" least at T = `rounds`, per agent, (N,)."""
        if rounds < 1:
            raise BoundError(f"rounds={rounds!r}: a bound is for T = 1 or later.")
        best: dict[str, Callable[[Constants, int], np.ndarray]] = {} if self._constants is None else {"sharp": forms.best_sharp}
        if self.algorithm == "dam_togd":
            best |= {"printed": forms.best_corollary_1, "repaired": forms.best_corollary_1_repaired}
        if form not in best or self._constants is None:
            why = self.notes.get("best_c", f"those of {self.algorithm} that leave c open: {', '.join(best)}")
            raise BoundError(f"the form {form!r} has no c to choose: {why}.")
        return best[form](self._constants, rounds)

    def __repr__(self) -> str:
        ends = [f"{name} {getattr(self, name)[-1]:.4g}" for name in KEPT if getattr(self, name) is not None]
        return f"Bound({self.algorithm}, agents={len(self.lipschitz)}, at T={self.rounds}: {', '.join(ends) or 'no form applies'})"


def dam_togd(problem: Problem, stream: Stream, trees: Trees, *, step: Any) -> Bound:
    """Bounds on DAM-TOGD's regret: Corollary 1 (13) for the step c/√(t − τ_min), Theorem 3 (8) for any other, and the sharper theorem.

    >>> import mnemesh as mm
    >>> problem = mm.Problem("linear", mm.domains.ball(1.0), mm.interest.uniform(3))
    >>> stream = mm.streams.from_arrays(np.ones((100, 3, 1)), np.ones((100, 3, 1)))
    >>> trees = mm.routing.shortest_path(mm.topology.line(3), problem.interest)
    >>> mm.theory.dam_togd(problem, stream, trees, step=mm.steps.inverse_sqrt(0.5))
    Bound(dam_togd, agents=3, at T=100: printed 272.5, printed_sum 269.7, repaired 274.5, sharp 188.3, sharp_sum 179.4)
    """
    if not hasattr(trees, "check"):
        raise BoundError(f"trees={type(trees).__name__} are no routing trees: build them with mm.routing.steiner(graph, interest) or another builder.")
    trees.check(problem.interest)
    step, notes = as_step(step), {}
    applied: dict[str, forms.Form] = {"printed_sum": forms.theorem_3, "sharp_sum": forms.sharp_sum}
    notes["printed_sum"] = H_BY_ITS_BOUND
    notes["sharp_sum"] = "the sharper theorem for the very rates used"
    if isinstance(step, InverseSqrt):
        applied |= {"printed": forms.corollary_1, "repaired": forms.corollary_1_repaired, "sharp": forms.sharp}
        notes |= {"printed": "Corollary 1", "repaired": "Corollary 1 with √(T+Δτ_n) in both places"}
        notes["sharp"] = "the sharper theorem in closed form"
    else:
        applied |= {"printed": forms.theorem_3, "repaired": forms.theorem_3}
        notes["printed"] = notes["repaired"] = H_BY_ITS_BOUND
        notes["sharp"] = f"the closed form is for inverse_sqrt(c), c/√(t − τ_min), and the step is {step!r}: see sharp_sum"
    return _bound("dam_togd", problem, stream, trees.delays, step, applied, notes)


def ogd(problem: Problem, stream: Stream, *, step: Any) -> Bound:
    """Bounds on full-information OGD's regret: Theorem 1 (4), which needs no repair, for η = 1/√t; the sharper theorem for every step."""
    step, notes = as_step(step), {}
    applied: dict[str, forms.Form] = {"sharp_sum": forms.sharp_sum}
    notes["sharp_sum"] = "the sharper theorem at no delay, for the very rates used"
    notes["printed_sum"] = "Theorem 3 is about DAM-TOGD, which is OGD on the trees of mm.routing.instant"
    if isinstance(step, InverseSqrt):
        applied["sharp"] = forms.sharp
        notes["sharp"] = "the sharper theorem in closed form, at no delay"
    else:
        notes["sharp"] = f"the closed form is for inverse_sqrt(c), c/√t, and the step is {step!r}: see sharp_sum"
    if isinstance(step, InverseSqrt) and np.all(np.asarray(step.c) == 1):
        applied |= {"printed": forms.theorem_1, "repaired": forms.theorem_1}
        notes |= {"printed": "Theorem 1", "repaired": "Theorem 1, which holds as printed"}
    else:
        notes["printed"] = notes["repaired"] = f"Theorem 1 is for inverse_sqrt(1), 1/√t, and the step is {step!r}"
    return _bound("ogd", problem, stream, np.zeros(len(problem.interest.partners), dtype=np.int64), step, applied, notes)


def c_dogd(problem: Problem, stream: Stream, graph: Graph, *, step: Any, initial_equal: bool = True) -> Bound:
    """Theorem 2 (6) on C-DOGD's regret with Metropolis weights on `graph`, as printed (and false: B stands for B²) and repaired.

    It is about W = 11ᵀ/N and η = 1/(2√t); the repaired form also needs agents that start from the same memory, as they do by default.
    """
    check_graph(graph)
    step = as_step(step)
    diameter = _diameter(problem, stream)
    steepest = lipschitz(problem, stream)
    if graph.number_of_nodes() != problem.agents:
        sizes = f"{graph.number_of_nodes()} nodes and the problem {problem.agents} agents"
        raise BoundError(f"the graph has {sizes}: its mixing says nothing about them.")
    sharper = "the sharper theorem is about agents that keep to their own memory, and C-DOGD mixes them"
    notes = dict.fromkeys(("printed_sum", "sharp", "sharp_sum", "per_agent", "best_c"), sharper)
    notes["per_agent"] = "Theorem 2 bounds the network's regret, not each agent's"
    notes["best_c"] = "Theorem 2 is for one rate, 1/(2√t)"
    printed, repaired, why = None, None, _not_theorem_2(problem, step)
    if why:
        notes["printed"] = notes["repaired"] = why
    else:
        alpha = second_singular_value(metropolis(graph))
        roots, spread = problem.agents * np.sqrt(np.arange(1.0, stream.rounds + 1)), (5 - alpha) / (1 - alpha) * steepest.max() ** 2
        printed = roots * (diameter + spread)
        notes["printed"] = f"Theorem 2 with α = {alpha:.6g}; false as printed, since B stands for B²"
        if initial_equal:
            repaired = roots * (diameter**2 + spread)
            notes["repaired"] = f"Theorem 2 with B², α = {alpha:.6g} the second singular value of the mixing matrix"
        else:
            notes["repaired"] = "Theorem 2 needs agents that start from the same memory: how far apart others start is not in it"
    none = np.zeros(problem.agents)
    return Bound("c_dogd", stream.rounds, printed, None, repaired, None, None, steepest, diameter, none, None, notes)


def _not_theorem_2(problem: Problem, step: Step) -> str | None:
    """Why Theorem 2 does not apply; None where it does."""
    agents, weights = problem.agents, problem.interest.weights
    if len(weights) != agents**2 or not np.allclose(weights, 1 / agents, rtol=1e-9, atol=0):
        return "Theorem 2 is about W = 11ᵀ/N: agents that agree on one memory lose to others by what their interests differ in, whatever T"
    if not (isinstance(step, InverseSqrt) and np.all(np.asarray(step.c) == 0.5)):
        return f"Theorem 2 is for inverse_sqrt(0.5), 1/(2√t), and the step is {step!r}"
    return None


def _diameter(problem: Problem, stream: Stream) -> float:
    """B, which every bound needs."""
    diameter = problem.domain.diameter(problem.shape(stream))
    if not np.isfinite(diameter):
        remedy = "choose a bounded domain, such as mm.domains.ball(radius)"
        raise BoundError(f"{problem.domain!r} has no diameter, and every regret bound grows with it: {remedy}.")
    return diameter


def _bound(
    algorithm: str, problem: Problem, stream: Stream, delays: np.ndarray, step: Step, applied: dict[str, forms.Form], notes: dict[str, str]
) -> Bound:
    diameter = _diameter(problem, stream)
    constants = Constants(problem.interest, lipschitz(problem, stream), delays, diameter)
    totals = dict.fromkeys(KEPT)
    for name, form in applied.items():
        totals[name] = np.concatenate([part.sum(1) for part in form(constants, step, stream.rounds)])
    return Bound(
        algorithm, stream.rounds, **totals, lipschitz=constants.lipschitz, diameter=diameter, weighted_delay=constants.weighted_delay,
        best_c=forms.best_sharp(constants, 1), notes=notes, _constants=constants, _step=step, _forms=applied,
    )  # fmt: skip
