"""What a spec means before anything is played: the bounds that its algorithms have, and the trees that its messages take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mnemesh import routing
from mnemesh.errors import RoutingError
from mnemesh.lab.build import World, bring, make
from mnemesh.lab.figures import save_as
from mnemesh.lab.graphs import graph_figure, routes_table
from mnemesh.lab.points import points
from mnemesh.lab.spec import Line, Spec
from mnemesh.lab.tables import Table, shown
from mnemesh.routing.trees import Trees
from mnemesh.steps import Step, inverse_sqrt
from mnemesh.words.values import Choice

__all__ = ["FORMS", "bounds", "branches", "first_world", "picture", "planted", "routes", "tree"]

FORMS = ("printed", "repaired", "sharp", "sharp_sum")
_THEOREM_2 = 0.5  # the one c that Theorem 2 is about


def first_world(spec: Spec, seed: int = 1) -> World:
    """The world of a spec's first point, at one seed."""
    bring(spec)
    first = points(spec)[0].spec
    return World(first, seed, first.rounds)


def bounds(world: World) -> Table:
    """Bounds on cumulative regret at T = `rounds`, a row for each algorithm; `notes` says form by form which theorem it is, or why there is none."""
    rows = []
    for line in world.spec.algorithms:
        step, said = _step(world, line)
        bound, why = world.bound(line, step)
        values = (None if (total := getattr(bound, form, None)) is None else float(total[-1]) for form in FORMS)
        notes = {form: why if bound is None else bound.notes.get(form, "") for form in FORMS}
        constants = (None, None) if bound is None else (float(bound.lipschitz.max()), float(bound.weighted_delay.mean()))
        rows.append((line.called, said, world.rounds, *values, *constants, notes))
    names = ("algorithm", "step", "T", *(form.replace("_", " ") for form in FORMS), "largest L", "weighted delay", "notes")
    best = "Best c: where c is to be tuned, the one that makes the sharp bound least, agent by agent. "
    said = "Sharp sum: for the very rates used. L bounds the gradients; the delay is in rounds, weighted by interest and L."
    said = (best if any(row[1].startswith("best c") for row in rows) else "") + said
    return Table(f"Bounds on cumulative network regret: {_where(world)}", names, tuple(rows), said)


def _where(world: World) -> str:
    spec = world.spec
    return f"{spec.name}, {world.graph.number_of_nodes():,} agents on {spec.topology.label}, seed {world.seed}"


def _step(world: World, line: Line) -> tuple[Step, str]:
    """The step of a line, and what it is called. Where c is to be tuned, the c that the theory holds best stands for it."""
    if not line.tuned:
        step = make("step", line.step, f"algorithms.{line.called}.step")
        return step, repr(step)
    if line.name == "c_dogd":
        return inverse_sqrt(_THEOREM_2), f"c = {_THEOREM_2}, Theorem 2's"
    bound, _ = world.bound(line, inverse_sqrt(1.0))
    best = None if bound is None else bound.best_c
    if best is None:
        return inverse_sqrt(1.0), "c is tuned"
    return inverse_sqrt(best), f"best c, {' to '.join(dict.fromkeys(shown(float(c)) for c in (best.min(), best.max())))}"


def planted(world: World, every: bool = False) -> dict[str, Trees]:
    """The spec's routing trees and what they are called; with `every`, those of all other builders, too."""
    own = world.spec.routing
    others = [Choice(name) for name in routing.names() if every and name != own.label]
    known = {"graph": world.graph, "interest": world.problem.interest, "seed": world.seed}
    return {choice.label: make("routing", choice, "routing", **known) for choice in (own, *others)}


def routes(world: World, trees: Mapping[str, Trees]) -> Table:
    """Delays, messages a round and load, a row for each kind of trees."""
    title = f"Routing trees: {_where(world)}, {world.graph.number_of_edges():,} links, interest {world.spec.interest.label}"
    return replace(routes_table(trees), title=title)


def picture(world: World, trees: Trees, root: int, path: Path) -> None:
    """The graph with one agent's tree, as the kind of file that its name asks for."""
    save_as(graph_figure(world.graph, trees, root), path)


def tree(trees: Trees, root: int) -> Table:
    """One agent's tree, a row for each agent in it: whom it hangs from, and a partner's weight and delay."""
    if not 0 <= root < trees.agents:
        raise RoutingError(f"there is no agent {root} among 0..{trees.agents - 1}: no tree is rooted there.")
    partners, weights = trees.interest.row(root)
    delays = trees.delays[trees.starts[root] : trees.starts[root + 1]]
    known = {m: (float(w), tau) for m, w, tau in zip(partners.tolist(), weights, delays.tolist(), strict=True)}
    rows = tuple((int(node), parent, *known.get(node, (None, None))) for node, parent in sorted(trees.parents[root].items()))
    return Table(f"The tree of agent {root}", ("agent", "parent", "weight", "delay"), rows)


def branches(trees: Trees, root: int) -> Iterator[str]:
    """One agent's tree as lines of text, with every partner's delay and weight."""
    known: dict[int, str] = {}
    below: dict[Any, list[int]] = {}
    for node, parent, weight, delay in tree(trees, root).rows:
        below.setdefault(parent, []).append(node)
        known[node] = "relay" if weight is None else f"weight {shown(weight)}, delay {delay}"
    todo = [(root, "", "")]
    while todo:
        node, lead, deeper = todo.pop()
        yield f"{lead}{node}  {known[node]}"
        children = sorted(below.get(node, ()))
        todo += [(child, f"{deeper}{'`- ' if child == children[-1] else '|- '}", f"{deeper}{'   ' if child == children[-1] else '|  '}") for child in reversed(children)]
