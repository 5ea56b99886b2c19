"""The paper's Figure 1, from nothing to a report: four panels, the numbers behind them, and what became of its findings."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from mnemesh.errors import SpecError
from mnemesh.lab import sweep
from mnemesh.lab.build import World
from mnemesh.lab.executors import local
from mnemesh.lab.figures import draw, figure1, save
from mnemesh.lab.findings import findings
from mnemesh.lab.graphs import graph_figure, routes_table
from mnemesh.lab.points import points
from mnemesh.lab.record import Results
from mnemesh.lab.refusals import nearest
from mnemesh.lab.report import Picture, Section, picture, section, write
from mnemesh.lab.spec import Spec, read
from mnemesh.lab.tables import Table
from mnemesh.lab.values import thaw
from mnemesh.routing import Trees

__all__ = ["PANELS", "quick", "reproduce", "settings"]

PANELS = ("fig1a", "fig1b", "fig1c", "fig1d")
_ROUNDS, _SEEDS = 2500, 5  # of a quick reproduction; the paper's own axis ends at 2,500
_PAPER = (
    "Wang, Zecchin and Simeone: Distributed Associative Memory via Online Convex Optimization, arXiv 2509.22321. Regret is network regret as in its "
    "equation (2), against the best fixed memories in hindsight, per round: Reg(T)/T."
)
_HURRIED = (
    "This is the quick version: few seeds, half of the swept values and 2,500 rounds. What needs more is listed as not measured, and intervals are wide."
)


def quick(spec: Spec) -> Spec:
    """A smaller spec of the same kind: 5 seeds, every second swept value and both ends, rounds up to the paper's 2,500."""
    rounds = min(spec.rounds, _ROUNDS)
    horizons = spec.horizons if isinstance(spec.horizons, int) else tuple(at for at in spec.horizons if at <= rounds)
    axes = [{key: thaw((*values[:-1:2], values[-1])) for key, values in axis.columns} for axis in spec.sweep]
    return spec.with_(seeds=spec.seed_list[:_SEEDS], rounds=rounds, horizons=horizons or (rounds,), sweep=axes)


def reproduce(
    what: str, *, seeds: int = 20, quick: bool = False, out: str | os.PathLike[str], executor: Executor | None = None,
    progress: Callable[[float, float, str], None] | None = None,
) -> Path:  # fmt: skip
    """Play one panel of Figure 1, "fig1a" to "fig1d", or "all", each into its folder under `out`; draw them; returns the report's path.

    `quick` is for a first look. `executor` and `progress(done, total, words)` are as in `mm.lab.run`.
    """
    if what not in (*PANELS, "all"):
        known = (*PANELS, "all")
        there = f"; there are {', '.join(known)}."
        raise SpecError(f"there is no {what!r} to reproduce{nearest(what.lower(), known) or there}")
    folder, wanted = Path(out), PANELS if what == "all" else (what,)
    specs = {name: _smaller(read(name).with_(seeds=seeds), quick) for name in wanted if name != "fig1a"}
    found = _played(specs, folder, executor, progress)
    sections = {name: _panel(name, section(results, draw(results))) for name, results in found.items()}
    world = _network()
    if "fig1a" in wanted:
        sections = {"fig1a": _panel("fig1a", _network_section(world, folder / "fig1a")), **sections}
    opening = [_together(world, found, folder / "figures")] if what == "all" else []
    title = "Figure 1 of the paper" if what == "all" else f"Figure 1({what[-1]}) of the paper"
    command = f"mnemesh reproduce {what} --seeds {seeds}{' --quick' if quick else ''} --out FOLDER"
    return write(
        folder / "report.html", list(sections.values()), title=title, about=[_PAPER, *([_HURRIED] if quick and found else [])], pictures=opening,
        findings=findings(found.values()), settings=settings(next(iter(specs.values()), read("fig1b"))), commands=[command],
    )  # fmt: skip


def settings(spec: Spec) -> Table:
    """What the paper does not say, and what this spec says there."""
    sizes = f"d_k = {spec.stream.get('key_dim')}, d_v = {spec.stream.get('value_dim')}"
    graph = "20 agents drawn in the unit square, linked up to 0.35 apart, seed 1" if spec.topology.label == "default" else spec.topology.label
    rows = (
        ("sizes of keys and values", "not stated", sizes, "stream.key_dim, stream.value_dim"),
        ("the graph", "drawn, its links not listed", graph, "topology"),
        ("the feasible set 𝒳", "convex; its size not stated", f"{spec.domain.label}: every optimum lies well inside", "domain"),
        ("learning rates", "not stated", "c/√(t − τ_min), with the best c of each method, chosen on other seeds", "algorithms.step, tuning"),
        ("what is called regret", "an axis without a unit", "Reg(T)/T: the text says that it declines", ""),
        ("trees of equal cost", "not stated, and decisive where all care about all", f"{spec.routing.label}: nearest to the root first, then by node", "routing"),
        ("mixing weights of C-DOGD", "doubly stochastic; the printed sum omits the agent itself", "Metropolis weights, the agent itself included", ""),
    )
    return Table("Settings", ("what", "in the paper", "here", "key in the spec"), rows)


def _panel(name: str, told: Section) -> Section:
    return replace(told, title=f"Figure 1({name[-1]}): {told.title[:1].lower()}{told.title[1:]}")


def _smaller(spec: Spec, hurried: bool) -> Spec:
    return quick(spec) if hurried else spec


def _played(
    specs: Mapping[str, Spec], folder: Path, executor: Executor | None, progress: Callable[[float, float, str], None] | None
) -> dict[str, Results]:
    """The results of every spec, one after the other on the same workers."""
    work = {name: float(spec.rounds * len(spec.seed_list) * math.prod(map(len, spec.sweep))) for name, spec in specs.items()}
    before = 0.0
    found: dict[str, Results] = {}
    if not specs:
        return found
    with nullcontext(executor) if executor is not None else local() as pool:
        for name, spec in specs.items():

            def tell(done: float, total: float, words: str, name: str = name, before: float = before) -> None:
                if not total:
                    work[name] = 0.0  # all of it was there already
                if progress is not None:
                    progress(before + work[name] * (done / total if total else 1.0), sum(work.values()), f"{name}: {words}")

            found[name] = sweep.run(spec, folder / name, executor=pool, progress=tell)
            before += work[name]
    return found


def _network() -> World:
    """The world of Figure 1(b) at the first seed: its graph is that of all panels."""
    spec = read("fig1b")
    return World(points(spec)[0].spec, spec.seed_list[0], spec.rounds)


def _trees(world: World) -> Trees:
    return world.trees(next(line for line in world.spec.algorithms if line.name == "dam_togd"))


def _network_section(world: World, folder: Path) -> Section:
    trees = _trees(world)
    paths = save(graph_figure(world.graph, trees), folder / "figures", "fig1a")
    agents, links = world.graph.number_of_nodes(), world.graph.number_of_edges()
    words = (
        f"{agents} agents and {links} links. From agent 0 a tree reaches all others; agents are shaded by the delay at which agent 0 hears of them, "
        f"{int(trees.delays[trees.delays > 0].min())} to {int(trees.delays[: trees.starts[1]].max())} rounds."
    )
    shown = next(picture(path, words, "The network, and the routing tree of agent 0; shades are delays τ in rounds.") for path in paths if path.suffix == ".svg")
    return Section("fig1a", "The network", (words,), (shown,), None, (routes_table(trees),))


def _together(world: World, found: Mapping[str, Results], folder: Path) -> Picture:
    drawn = figure1(world.graph, _trees(world), {name[-1]: results for name, results in found.items()})
    (path,) = (path for path in save(drawn, folder, "figure1") if path.suffix == ".svg")
    seeds = ", ".join(dict.fromkeys(f"{len(results.spec.seed_list):,}" for results in found.values()))
    words = "The four panels of Figure 1: the network with a routing tree, and regret per round against rounds, correlation and interest in others."
    return picture(path, f"{words} Each panel is described below.", f"Figure 1. Means over {seeds} seeds with 95% intervals (Student's t).")

