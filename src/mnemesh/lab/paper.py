"""The paper's Figure 1, from nothing to a report: four panels, the numbers behind them, and what became of its findings."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from mnemesh.errors import SpecError
from mnemesh.lab import sweep
from mnemesh.lab.build import World
from mnemesh.lab.executors import local
from mnemesh.lab.figures import figure1, save
from mnemesh.lab.findings import Finding, findings
from mnemesh.lab.graphs import graph_figure, routes_table
from mnemesh.lab.panels import ONE_SEED, plan
from mnemesh.lab.points import points
from mnemesh.lab.record import Results
from mnemesh.lab.report import Picture, Section, picture, section, write
from mnemesh.lab.spec import Spec, read
from mnemesh.lab.tables import Table
from mnemesh.routing import Trees
from mnemesh.words.refusals import nearest
from mnemesh.words.values import thaw

__all__ = ["PANELS", "Reproduction", "quick", "reproduce", "settings"]

PANELS = ("fig1a", "fig1b", "fig1c", "fig1d")
_ROUNDS, _SEEDS = 2500, 5  # of a quick reproduction; the paper's own axis ends at 2,500
_PAPER = (
    "Wang, Zecchin and Simeone: Distributed Associative Memory via Online Convex Optimization, arXiv 2509.22321. Regret is network regret as in its "
    "equation (2), against the best fixed memories in hindsight, per round: Reg(T)/T."
)
_HURRIED = "This is the quick version: few rounds, half of the swept values, and {}. What needs more is listed as not measured."


class Reproduction(NamedTuple):
    """The page, what was played for it, and what became of the findings."""

    page: Path
    results: tuple[Results, ...]
    findings: tuple[Finding, ...]


def quick(spec: Spec) -> Spec:
    """A smaller spec of the same kind: 5 seeds, every second swept value and both ends, rounds up to the paper's 2,500."""
    rounds = min(spec.rounds, _ROUNDS)
    horizons = spec.horizons if isinstance(spec.horizons, int) else tuple(at for at in spec.horizons if at <= rounds)
    axes = [{key: thaw((*values[:-1:2], values[-1])) for key, values in axis.columns} for axis in spec.sweep]
    about = re.sub(r"\s*The run goes on beyond[^.]*\.", "", spec.about) if rounds < spec.rounds else spec.about
    return spec.with_(about=about, seeds=spec.seed_list[:_SEEDS], rounds=rounds, horizons=horizons or (rounds,), sweep=axes)


def reproduce(
    what: str, *, seeds: int | None = None, quick: bool = False, out: str | os.PathLike[str], executor: Executor | None = None,
    progress: Callable[[float, float, str], None] | None = None,
) -> Reproduction:  # fmt: skip
    """Play one panel of Figure 1, "fig1a" to "fig1d", or "all", each into its folder under `out`, draw them, and report: report.html on all, report-fig1b.html on one.

    `seeds` are 20 unless given. `quick` is for a first look: shorter runs, fewer swept values, and 5 seeds unless given. `executor` and
    `progress(done, total, words)` are as in `mm.lab.run`.
    """
    if what not in (*PANELS, "all"):
        known = (*PANELS, "all")
        there = f"; there are {', '.join(known)}."
        raise SpecError(f"there is no {what!r} to reproduce{nearest(what.lower(), known) or there}")
    folder, wanted = Path(out), PANELS if what == "all" else (what,)
    specs = {name: _meant(read(name), seeds, quick) for name in wanted if name != "fig1a"}
    found = _played(specs, folder, executor, progress)
    sections = {name: _panel(name, section(results)) for name, results in found.items()}
    world = _network()
    if "fig1a" in wanted:
        sections = {"fig1a": _panel("fig1a", _network_section(world, folder / "fig1a")), **sections}
    opening = [_together(world, found, folder / "figures")] if what == "all" else []
    title = "Figure 1 of the paper" if what == "all" else f"Figure 1({what[-1]}) of the paper"
    command = ["mnemesh", "reproduce", what, *(["--quick"] if quick else []), *([] if seeds is None else ["--seeds", str(seeds)]), "--out", str(folder)]
    measured = findings(found.values())
    page = write(
        folder / ("report.html" if what == "all" else f"report-{what}.html"), list(sections.values()), title=title,
        about=[_PAPER, *([_HURRIED.format(_seeds(found))] if quick and found else [])], pictures=opening,
        findings=measured, settings=settings(next(iter(specs.values()), read("fig1b"))), commands=[shlex.join(command)],
    )  # fmt: skip
    return Reproduction(page, tuple(found.values()), measured)


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


def _meant(spec: Spec, seeds: int | None, hurried: bool) -> Spec:
    """The spec of a panel as it is played."""
    spec = quick(spec) if hurried else spec
    return spec if seeds is None else spec.with_(seeds=seeds)


def _seeds(found: Mapping[str, Results]) -> str:
    """How many seeds the panels have, in words."""
    counts = dict.fromkeys(len(results.spec.seed_list) for results in found.values())
    return ", ".join(f"{count:,} seeds" if count > 1 else "one seed" for count in counts)


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
    heard = trees.delays[trees.starts[0] : trees.starts[1]]
    words = (
        f"{agents} agents and {links} links. From agent 0 a tree reaches all others; agents are shaded by the delay at which agent 0 hears of them, "
        f"{int(heard[heard > 0].min())} to {int(heard.max())} rounds."
    )
    shown = next(picture(path, words, "The network, and the routing tree of agent 0; shades are delays τ in rounds.") for path in paths if path.suffix == ".svg")
    return Section("fig1a", "The network", (words,), (shown,), None, (routes_table(trees),))


def _together(world: World, found: Mapping[str, Results], folder: Path) -> Picture:
    drawn = figure1(world.graph, _trees(world), {name[-1]: results for name, results in found.items()})
    (path,) = (path for path in save(drawn, folder, "figure1") if path.suffix == ".svg")
    words = "The four panels of Figure 1: the network with a routing tree, and regret per round against rounds, correlation and interest in others."
    spread = "one seed, no intervals" if _seeds(found) == "one seed" else f"means over {_seeds(found)} with 95% intervals (Student's t)"
    notes = dict.fromkeys(note for results in found.values() for note in plan(results).notes if note != ONE_SEED)
    return picture(path, f"{words} Each panel is described below.", " ".join((f"Figure 1: {spread}.", *notes)))
