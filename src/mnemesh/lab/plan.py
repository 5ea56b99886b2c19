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
from mnemesh.lab.build import Made, World
from mnemesh.lab.points import Point, points, shown
from mnemesh.lab.spec import Line, Spec
from mnemesh.words.tables import raw
from mnemesh.words.values import Axis, Choice, Table, thaw

__all__ = ["Batch", "Job", "Plan", "columns", "plan"]

_AGENTS = 160  # agents of all runs of one algorithm in a batch, about: enough to play side by side, little enough to lose
_SECONDS = 5.0  # of NumPy's time in all, from which a compiler pays
_ROUND, _MULTIPLY = 4e-5, 3e-10  # NumPy's seconds a round, and a multiply-add: for weights, not for promises
_ASIDE = ("name", "title", "about", "seeds", "tuning", "figure", "sweep")


class Job(NamedTuple):
    """One point at one seed."""

    point: Point
    seed: int


class Batch(NamedTuple):
    """Runs that one worker plays together: a rate to choose for one line, or all lines at rates that are known."""

    jobs: tuple[Job, ...]
    rounds: int
    engines: tuple[str, ...]  # of each line, or of the one whose rate is chosen
    columns: tuple[tuple[str, str], ...]  # the swept keys and what their cells are
    cost: float
    place: int | None = None  # of the line whose rate is chosen
    rates: tuple[tuple[float | None, ...], ...] = ()  # the chosen c of each job and line; None: the line's step has its own

    @property
    def chooses(self) -> bool:
        """Whether it chooses a rate."""
        return self.place is not None

    @property
    def line(self) -> Line:
        """The line whose rate is chosen."""
        assert self.place is not None
        return self.jobs[0].point.spec.algorithms[self.place]

    @property
    def grid(self) -> tuple[float, ...]:
        """The rates to choose from."""
        return self.jobs[0].point.spec.tuning.grid if self.chooses else ()

    def key(self, versions: Mapping[str, str]) -> str:
        """A name that stands for everything that its numbers depend on."""
        told = [
            [[job.point.number, job.point.values, _facts(job.point.spec), job.seed] for job in self.jobs],
            self.rounds, self.engines, self.columns, self.place, self.grid, self.rates, dict(versions),
        ]  # fmt: skip
        text = json.dumps(told, sort_keys=True, default=_plain)
        return f"{'tune' if self.chooses else 'play'}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"


class Plan(NamedTuple):
    """The batches that choose rates, and those that play at them."""

    points: tuple[Point, ...]
    choosing: tuple[Batch, ...]
    playing: tuple[Batch, ...]


def plan(spec: Spec) -> Plan:
    """The batches of a spec. Every point is built once, at the first seed, so what is impossible there is refused here."""
    grid, made = points(spec), Made()
    costs, engines, agents = zip(*(_tried(spec, point, made) for point in grid), strict=True)
    long = sum(cost * _plays(point.spec) for point, cost in zip(grid, costs, strict=True)) > _SECONDS
    chosen = [tuple(compiled if long else plain for compiled, plain in pairs) for pairs in engines]
    cells = columns(grid)
    choosing, playing = [], []
    for point, cost, names in zip(grid, costs, chosen, strict=True):
        own = point.spec
        trials = tuple(Job(point, seed) for seed in own.tuning_seeds)
        tries = cost * len(trials) * (len(own.tuning.grid) + 1) * own.tuning_rounds / own.rounds
        choosing += [Batch(trials, own.tuning_rounds, (names[i],), cells, tries, place=i) for i, line in enumerate(own.algorithms) if line.tuned]
    for group in _kinds(grid, chosen):
        jobs = [Job(grid[index], seed) for index in group for seed in spec.seed_list]
        first = group[0]
        for some in np.array_split(np.arange(len(jobs)), -(-len(jobs) // max(_AGENTS // agents[first], 1))):
            together = tuple(jobs[i] for i in some)
            cost = sum(costs[job.point.number] for job in together) * len(spec.algorithms)
            playing.append(Batch(together, grid[first].spec.rounds, chosen[first], cells, cost))
    return Plan(grid, tuple(choosing), tuple(playing))


def _plays(spec: Spec) -> float:
    """How many whole runs a point takes, rates that are tried included."""
    tuned = sum(line.tuned for line in spec.algorithms)
    return len(spec.seed_list) * len(spec.algorithms) + tuned * len(spec.tuning_seeds) * (len(spec.tuning.grid) + 1) * spec.tuning_rounds / spec.rounds


def columns(grid: Iterable[Point]) -> tuple[tuple[str, str], ...]:
    """The swept keys, each with the kind of its cells: double, int64, bool or string."""
    cells: dict[str, list[Any]] = {}
    for point in grid:
        for key, value in point.values:
            cells.setdefault(key, []).append(shown(value))
    return tuple((key, _kind_of(values)) for key, values in cells.items())


def _kind_of(cells: list[Any]) -> str:
    kinds = {type(cell) for cell in cells}
    if kinds == {bool}:
        return "bool"
    if kinds == {int}:
        return "int64" if all(-(2**63) <= cell < 2**63 for cell in cells) else "string"
    return "double" if kinds <= {int, float} else "string"


def _tried(spec: Spec, point: Point, made: Made) -> tuple[float, list[tuple[str, str]], int]:
    """A point at the first seed: what a run of it costs, each line's engine where compiling pays and where it does not, and its agents."""
    try:
        world = World(point.spec, spec.seed_list[0], point.spec.rounds, made)
        return _cost(world), [_engines(world, line) for line in point.spec.algorithms], world.problem.agents
    except SpecError as wrong:
        if not point.values:
            raise
        raise SpecError(f"sweep, at {', '.join(f'{key} = {shown(value)}' for key, value in point.values)}: {wrong}") from None


def _cost(world: World) -> float:
    d_v, d_phi = world.problem.shape(world.stream)
    return world.rounds * (_ROUND + _MULTIPLY * len(world.problem.interest.partners) * world.stream.associations * d_v * d_phi)


def _engines(world: World, line: Line) -> tuple[str, str]:
    """The engine of a line if the sweep is long, and if it is short."""
    asked, able = world.spec.engine, playable(world.problem, world.tried(line))
    if asked != "auto" and asked not in able:
        raise SpecError(f"engine = {asked!r} cannot play {line.called}: {' and '.join(able)} can, and \"auto\" chooses for each algorithm.")
    compiled = [name for name in ("numba", "jax") if name in able and find_spec(name)]
    return (compiled[0], "auto") if asked == "auto" and compiled else (asked, asked)


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
    return {key: value for key, value in raw(spec).items() if key not in _ASIDE} | {"horizons": spec.horizon_list.tolist()}


def _plain(value: Any) -> Any:
    if isinstance(value, Table | Choice | Axis):
        return thaw(value)
    raise TypeError(f"{value!r} is not plain data")
