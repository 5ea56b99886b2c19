"""From words to things: what a point of a study means for one seed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from mnemesh import algorithms, domains, features, interest, losses, routing, steps, streams, theory, topology
from mnemesh.algorithms.algorithm import Algorithm
from mnemesh.errors import BoundError, LossError, SpecError
from mnemesh.lab.spec import Line, Spec
from mnemesh.problem import Problem
from mnemesh.regret import comparator
from mnemesh.routing.trees import Trees
from mnemesh.statistics import add, empty
from mnemesh.steps import Step, inverse_sqrt
from mnemesh.streams.stream import Stream
from mnemesh.types import Graph
from mnemesh.words.makers import blamed, made, signature
from mnemesh.words.values import Choice

__all__ = ["Made", "World", "bring", "make"]

_REGISTRIES = {
    "topology": topology, "interest": interest, "stream": streams, "loss": losses, "features": features,
    "domain": domains, "routing": routing, "step": steps, "algorithm": algorithms,
}  # fmt: skip


_MOST_AGENTS = 10_000_000  # whose graph takes some ten gigabytes


def bring(spec: Spec) -> None:
    """Import the modules that register what the spec names."""
    for module in spec.imports:
        try:
            importlib.import_module(module)
        except Exception as wrong:  # whatever somebody's module may raise
            said = " ".join(str(wrong).split())
            raise SpecError(f"imports: {module!r} cannot be imported ({type(wrong).__name__}: {said}): what it registers would be unknown.") from wrong


def make(kind: str, choice: Choice, at: str, **supplied: Any) -> Any:
    """What the registry's maker makes of the stated settings, and of those `supplied` that it asks for and nobody stated."""
    return made(_REGISTRIES[kind].maker, choice, at, SpecError, **supplied)


class Made:
    """Graphs, interests and trees that several worlds share: whatever was made of the same choices for the same seed."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def once(self, of: Any, make: Callable[[], Any]) -> Any:
        """What `make()` gives, made once for these choices."""
        if of not in self._known:
            self._known[of] = make()
        return self._known[of]


@final
@dataclass
class World:
    """What a point of a study means for one seed, and for so many rounds: made once, shared by its algorithms."""

    spec: Spec
    seed: int
    rounds: int
    made: Made = field(default_factory=Made, repr=False)
    graph: Graph = field(init=False)
    stream: Stream = field(init=False)
    problem: Problem = field(init=False)

    def __post_init__(self) -> None:
        spec, seed = self.spec, self.seed
        if isinstance(asked := spec.topology.get("agents"), int) and asked > _MOST_AGENTS:
            raise SpecError(f"topology.agents = {asked:,}: a graph of more than {_MOST_AGENTS:,} agents does not fit here.")
        self.graph = self.made.once((spec.topology, seed), lambda: make("topology", spec.topology, "topology", seed=seed))
        agents = self.graph.number_of_nodes()
        self.stream = make("stream", spec.stream, "stream", agents=agents, rounds=self.rounds, seed=seed)
        known = {"agents": agents, "graph": self.graph, "seed": seed, "key_dim": self.stream.key_dim}
        cares = self.made.once((spec.topology, spec.interest, seed), lambda: make("interest", spec.interest, "interest", **known))
        loss, domain = (make(kind, getattr(spec, kind), kind, **known) for kind in ("loss", "domain"))
        mapped = None if spec.features is None else make("features", spec.features, "features", **known)
        with blamed("loss, features, domain, interest", SpecError):
            self.problem = Problem(loss, domain, cares, mapped)
        with blamed("stream", SpecError):
            if self.stream.rounds != self.rounds:
                raise SpecError(f"a stream of {self.stream.rounds} rounds, and the spec has rounds = {self.rounds}: leave the stream's rounds out.")
            self.problem.shape(self.stream)
            first = add(self.problem, empty(self.problem, self.problem.shape(self.stream)), self.stream.block(0, 1))
            comparator(self.problem, first)  # a regret that is not defined is refused before anything is played

    def trees(self, line: Line) -> Trees:
        """The routing trees of an algorithm: its own, or the spec's."""
        spec, choice = self.spec, line.routing or self.spec.routing
        at = f"algorithms.{line.called}.routing" if line.routing else "routing"
        known = {"graph": self.graph, "interest": self.problem.interest, "seed": self.seed}
        return self.made.once((spec.topology, spec.interest, choice, self.seed), lambda: make("routing", choice, at, **known))

    def routed(self, line: Line) -> bool:
        """Whether an algorithm sends its messages along trees."""
        return "trees" in signature(algorithms.maker(line.name))

    def algorithm(self, line: Line, step: Any = None) -> Algorithm:
        """The algorithm of a line, at its own step or at this one."""
        at = f"algorithms.{line.called}"
        if step is None:
            step = make("step", line.step, f"{at}.step")
        with blamed(at, SpecError):
            needed = signature(algorithms.maker(line.name))
        known: dict[str, Any] = {"step": step, "graph": self.graph, "interest": self.problem.interest, "seed": self.seed}
        if "trees" in needed:
            trees = known["trees"] = self.trees(line)
            self._check_delay(at, int(np.max(trees.delays)), line)
        made = make("algorithm", Choice(line.name, line.settings), at, **known)
        if not isinstance(made, Algorithm):
            raise SpecError(f"{at}: {line.name} made {made!r}, which is no algorithm.")
        with blamed(at, SpecError):
            made.rows(self.problem)
        return made

    def bound(self, line: Line, step: Step) -> tuple[theory.Bound | None, str]:
        """What an algorithm's regret cannot exceed at this step, or why there is no bound."""
        try:
            match line.name:
                case "ogd":
                    return theory.ogd(self.problem, self.stream, step=step), ""
                case "dam_togd":
                    return theory.dam_togd(self.problem, self.stream, self.trees(line), step=step), ""
                case "c_dogd":
                    return theory.c_dogd(self.problem, self.stream, self.graph, step=step), ""
                case _:
                    return None, f"no theorem is about {line.name}"
        except (BoundError, LossError) as none:
            return None, str(none)

    def tried(self, line: Line) -> Algorithm:
        """The algorithm of a line at its own step or, where its rate is to be chosen, at some: whether it can be made at all."""
        return self.algorithm(line, step=inverse_sqrt(1.0) if line.tuned else None)

    def _check_delay(self, at: str, longest: int, line: Line) -> None:
        """Refuse a T at which not every reply has come home."""
        short = [("rounds", self.rounds)]
        if line.tuned:
            short.append(("tuning.rounds", self.spec.tuning_rounds))
        for key, rounds in short:
            if longest >= rounds:
                raise SpecError(f"{key} = {rounds}: the longest delay of {at} is {longest} rounds, so not every reply would come home before the end.")
