"""From words to things: what a point of a study means for one seed."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, final

import msgspec
import numpy as np

from mnemesh import algorithms, domains, features, interest, losses, routing, steps, streams, topology
from mnemesh.algorithms.algorithm import Algorithm
from mnemesh.errors import MissingExtraError, MnemeshError, SpecError
from mnemesh.lab.refusals import nearest
from mnemesh.lab.spec import Line, Spec
from mnemesh.lab.values import Choice, thaw
from mnemesh.problem import Problem
from mnemesh.routing.trees import Trees
from mnemesh.streams.stream import Stream
from mnemesh.types import Graph

__all__ = ["World", "bring", "make"]

_REGISTRIES = {
    "topology": topology, "interest": interest, "stream": streams, "loss": losses, "features": features,
    "domain": domains, "routing": routing, "step": steps, "algorithm": algorithms,
}  # fmt: skip


def bring(spec: Spec) -> None:
    """Import the modules that register what the spec names."""
    for module in spec.imports:
        try:
            importlib.import_module(module)
        except ImportError as missing:
            raise SpecError(f"imports: {module!r} cannot be imported ({missing}): what it registers would be unknown.") from None


def make(kind: str, choice: Choice, at: str, **supplied: Any) -> Any:
    """What the registry's maker makes of the stated settings, and of those `supplied` that it asks for and nobody stated."""
    with _blamed(at):
        maker = _REGISTRIES[kind].maker(choice.name)
        wanted = _signature(maker)
        stated = thaw(choice.settings)
        for name, value in stated.items():
            if name not in wanted:
                takes = f"; it takes {', '.join(wanted) or 'no settings'}."
                raise SpecError(f"{choice.name} takes no {name!r}{nearest(name, wanted) or takes}")
            _check_type(name, value, wanted[name].annotation)
        given = {name: value for name, value in supplied.items() if name in wanted and name not in stated}
        missing = [name for name, one in wanted.items() if one.default is one.empty and name not in stated and name not in given]
        if missing:
            raise SpecError(f"{choice.name} needs {missing[0]!r}, which is not stated: nothing stands for it by default.")
        return maker(**stated, **given)


def _signature(maker: Any) -> Mapping[str, inspect.Parameter]:
    return {
        name: one
        for name, one in inspect.signature(maker, eval_str=True).parameters.items()
        if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY) and not name.startswith("_")
    }


def _check_type(name: str, value: Any, wanted: Any) -> None:
    """Refuse words for numbers and the like, where the maker says what it takes."""
    if wanted in (inspect.Parameter.empty, Any):
        return
    try:
        msgspec.convert(value, wanted)
    except msgspec.ValidationError as wrong:
        said = str(wrong).replace("`", "").replace("str", "text").replace("array", "list")
        raise SpecError(f"{name} = {value!r}: {said[:1].lower()}{said[1:]}.") from None
    except TypeError:  # an annotation that msgspec does not know: the maker checks
        return


@contextmanager
def _blamed(at: str) -> Iterator[None]:
    """Whatever goes wrong inside is a fault of this key."""
    try:
        yield
    except MissingExtraError:
        raise
    except MnemeshError as wrong:
        raise SpecError(f"{at}: {wrong}") from None
    except (TypeError, ValueError, OverflowError, ArithmeticError, MemoryError, LookupError) as wrong:
        raise SpecError(f"{at}: {type(wrong).__name__}, {wrong or 'there is not enough memory'}.") from None


@final
@dataclass
class World:
    """What a point of a study means for one seed, and for so many rounds: made once, shared by its algorithms."""

    spec: Spec
    seed: int
    rounds: int
    graph: Graph = field(init=False)
    stream: Stream = field(init=False)
    problem: Problem = field(init=False)

    def __post_init__(self) -> None:
        spec, seed = self.spec, self.seed
        self.graph = make("topology", spec.topology, "topology", seed=seed)
        agents = self.graph.number_of_nodes()
        self.stream = make("stream", spec.stream, "stream", agents=agents, rounds=self.rounds, seed=seed)
        known = {"agents": agents, "graph": self.graph, "seed": seed, "key_dim": self.stream.key_dim}
        cares = make("interest", spec.interest, "interest", **known)
        loss, domain = (make(kind, getattr(spec, kind), kind, **known) for kind in ("loss", "domain"))
        mapped = None if spec.features is None else make("features", spec.features, "features", **known)
        with _blamed("loss, features, domain, interest"):
            self.problem = Problem(loss, domain, cares, mapped)
        with _blamed("stream"):
            if self.stream.rounds != self.rounds:
                raise SpecError(f"a stream of {self.stream.rounds} rounds, and the spec has rounds = {self.rounds}: leave the stream's rounds out.")
            self.problem.shape(self.stream)
        self._trees: dict[Choice, Trees] = {}

    def trees(self, line: Line) -> Trees:
        """The routing trees of an algorithm: its own, or the spec's."""
        choice = line.routing or self.spec.routing
        if choice not in self._trees:
            at = f"algorithms.{line.called}.routing" if line.routing else "routing"
            self._trees[choice] = make("routing", choice, at, graph=self.graph, interest=self.problem.interest, seed=self.seed)
        return self._trees[choice]

    def routed(self, line: Line) -> bool:
        """Whether an algorithm sends its messages along trees."""
        return "trees" in _signature(algorithms.maker(line.name))

    def algorithm(self, line: Line, step: Any = None) -> Algorithm:
        """The algorithm of a line, at its own step or at this one."""
        at = f"algorithms.{line.called}"
        if step is None:
            step = make("step", line.step, f"{at}.step")
        with _blamed(at):
            needed = _signature(algorithms.maker(line.name))
        known: dict[str, Any] = {"step": step, "graph": self.graph, "interest": self.problem.interest, "seed": self.seed}
        if "trees" in needed:
            trees = known["trees"] = self.trees(line)
            longest = int(np.max(trees.delays))
            if longest >= self.rounds:
                raise SpecError(f"rounds = {self.rounds}: the longest delay of {at} is {longest} rounds, so not every reply would come home before the end.")
        made = make("algorithm", Choice(line.name, line.settings), at, **known)
        if not isinstance(made, Algorithm):
            raise SpecError(f"{at}: {line.name} made {made!r}, which is no algorithm.")
        with _blamed(at):
            made.rows(self.problem)
        return made
