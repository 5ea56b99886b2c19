"""What is computed together: a spec cut into batches, a pure function of the spec."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from mnemesh.engine.choose import playable
from mnemesh.errors import SpecError
from mnemesh.lab.build import World
from mnemesh.lab.points import Point, points, shown
from mnemesh.lab.spec import Line, Spec, raw
from mnemesh.lab.values import Axis, Choice, Table, thaw
from mnemesh.steps import inverse_sqrt

__all__ = ["Batch", "Job", "Plan", "columns", "plan"]

_AGENTS = 160  # agents of all runs of one algorithm in a batch, about: enough to play side by side, little enough to lose
_SECONDS = 5.0  # of NumPy's time in all, from which a compiler pays
_ROUND, _MULTIPLY = 4e-5, 3e-10  # NumPy's seconds a round, and a multiply-add: for weights, not for promises
_TRIAL = inverse_sqrt(1.0)
_PROSE = ("name", "title", "about", "seeds", "tuning", "figure", "sweep")


class Job(NamedTuple):
    """One point at one seed."""

    point: Point
    seed: int


class Batch(NamedTuple):
    """Runs that one worker plays together: a rate to choose for one line, or all lines at rates that are known."""

    jobs: tuple[Job, ...]
    lines: tuple[Line, ...]
    rounds: int
    engines: tuple[str, ...]  # of each line
    columns: tuple[tuple[str, str], ...]  # the swept keys and what their cells are
    cost: float
    grid: tuple[float, ...] = ()  # of a batch that chooses a rate
    rates: tuple[tuple[float | None, ...], ...] = ()  # the chosen c of each job and line; None: the line's step has its own

    @property
    def chooses(self) -> bool:
        """Whether it chooses a rate."""
        return bool(self.grid)

    def key(self, versions: Mapping[str, str]) -> str:
        """A name that stands for everything that its numbers depend on."""
        told = [
            [[job.point.number, job.point.values, _facts(job.point.spec), job.seed] for job in self.jobs],
            [raw(line) for line in self.lines], self.rounds, self.engines, self.columns, self.grid, self.rates, dict(versions),
        ]  # fmt: skip
        text = json.dumps(told, sort_keys=True, default=_plain)
        return f"{'tune' if self.chooses else 'play'}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"


class Plan(NamedTuple):
    """The batches that choose rates, and those that play at them."""

    points: tuple[Point, ...]
    choosing: tuple[Batch, ...]
    playing: tuple[Batch, ...]


def plan(spec: Spec) -> Plan:
    """The batches of a spec. Every point is built once, so whatever is impossible is refused here."""
    grid = points(spec)
    worlds = [_try(spec, point) for point in grid]
    costs = [_cost(world) for world in worlds]
    cells = columns(grid)
    tuned = [place for place, line in enumerate(spec.algorithms) if line.tuned]
    once = len(spec.seed_list) * len(spec.algorithms) + len(tuned) * len(spec.tuning_seeds) * (len(spec.tuning.grid) + 1) * spec.tuning_rounds / spec.rounds
    engines = [_engines(world, sum(costs) * once > _SECONDS) for world in worlds]
    choosing = []
    for point, cost, names in zip(grid, costs, engines, strict=True):
        own = point.spec
        for place in tuned:
            tries = cost * len(own.tuning_seeds) * (len(own.tuning.grid) + 1) * own.tuning_rounds / own.rounds
            trials = tuple(Job(point, seed) for seed in own.tuning_seeds)
            choosing.append(Batch(trials, (own.algorithms[place],), own.tuning_rounds, (names[place],), cells, tries, grid=own.tuning.grid))
    playing = []
    for group in _kinds(grid, engines):
        jobs = [Job(grid[index], seed) for index in group for seed in spec.seed_list]
        lines, agents = grid[group[0]].spec.algorithms, worlds[group[0]].problem.agents
        for some in np.array_split(np.arange(len(jobs)), -(-len(jobs) // max(_AGENTS // agents, 1))):
            together = tuple(jobs[i] for i in some)
            cost = sum(costs[job.point.number] for job in together) * len(lines)
            playing.append(Batch(together, lines, grid[group[0]].spec.rounds, engines[group[0]], cells, cost))
    return Plan(grid, tuple(choosing), tuple(playing))


def columns(grid: Iterable[Point]) -> tuple[tuple[str, str], ...]:
    """The swept keys, each with the kind of its cells: double, int64, bool or string."""
    cells: dict[str, list[Any]] = {}
    for point in grid:
        for key, value in point.values:
            cells.setdefault(key, []).append(shown(value))
    return tuple((key, _kind_of({type(cell) for cell in values})) for key, values in cells.items())


def _kind_of(kinds: set[type]) -> str:
    if kinds == {bool}:
        return "bool"
    return "int64" if kinds == {int} else "double" if kinds <= {int, float} else "string"


def _try(spec: Spec, point: Point) -> World:
    """The world of a point at the first seed, with every algorithm built once."""
    try:
        world = World(point.spec, spec.seed_list[0], point.spec.rounds)
        for line in point.spec.algorithms:
            world.algorithm(line, step=_TRIAL if line.tuned else None)
        return world
    except SpecError as wrong:
        if not point.values:
            raise
        raise SpecError(f"sweep, at {', '.join(f'{key} = {shown(value)}' for key, value in point.values)}: {wrong}") from None


def _cost(world: World) -> float:
    d_v, d_phi = world.problem.shape(world.stream)
    return world.rounds * (_ROUND + _MULTIPLY * len(world.problem.interest.partners) * world.stream.associations * d_v * d_phi)


def _engines(world: World, long: bool) -> tuple[str, ...]:
    """The engine of each line: compiled where the sweep is long and a compiler is there."""
    named = []
    for line in world.spec.algorithms:
        able = playable(world.problem, world.algorithm(line, step=_TRIAL))
        compiled = [name for name in ("numba", "jax") if name in able and find_spec(name)]
        named.append(compiled[0] if world.spec.engine == "auto" and long and compiled else world.spec.engine)
    return tuple(named)


def _kinds(grid: tuple[Point, ...], engines: list[tuple[str, ...]]) -> list[list[int]]:
    """Points that are played together: those that differ in real numbers alone, so that their arrays have one shape."""
    groups: dict[Any, list[int]] = {}
    for point, names in zip(grid, engines, strict=True):
        told = {key: value for key, value in raw(point.spec).items() if key != "domain"}
        groups.setdefault((json.dumps(_without_reals(told), sort_keys=True), point.spec.domain, names), []).append(point.number)
    return list(groups.values())


def _without_reals(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_reals(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_reals(inner) for inner in value]
    return 0.0 if isinstance(value, float) else value


def _facts(spec: Spec) -> dict[str, Any]:
    """What numbers depend on: a spec without its prose, its seeds and how rates are chosen."""
    return {key: value for key, value in raw(spec).items() if key not in _PROSE} | {"horizons": spec.horizon_list.tolist()}


def _plain(value: Any) -> Any:
    if isinstance(value, Table | Choice | Axis):
        return thaw(value)
    raise TypeError(f"{value!r} is not plain data")
