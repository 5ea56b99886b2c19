"""A study as data: frozen, typed, hashable; read from TOML and written to it."""

from __future__ import annotations

import hashlib
import os
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from mnemesh.engine.choose import ENGINES
from mnemesh.errors import SpecError, require
from mnemesh.statistics import log_spaced
from mnemesh.tuning import GRID
from mnemesh.words.refusals import nearest
from mnemesh.words.tables import parsed, raw, structured
from mnemesh.words.values import Axis, Choice, Table, thaw

__all__ = ["PARTS", "TUNED", "Figure", "Line", "Spec", "Tuning", "convert", "parse", "read", "shipped", "write"]

TUNED = "tuned"
PARTS = ("topology", "interest", "stream", "loss", "features", "domain", "routing")
_FIRST_TUNING_SEED = 1_001
_FOREVER = 2**31  # rounds that nobody could wait for
_MOST = 100_000  # seeds, horizons, points of a sweep


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One algorithm with its step, and what it is called in tables and figures."""

    name: str
    label: str = ""
    step: Choice = Choice("inverse_sqrt", Table((("c", TUNED),)))
    routing: Choice | None = None
    settings: Table = Table()

    @property
    def called(self) -> str:
        """Its label, or else its name."""
        return self.label or self.name

    @property
    def tuned(self) -> bool:
        """Whether its c is to be chosen."""
        return bool(self.step.get("c") == TUNED)


class Tuning(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How c is chosen where a step says c = "tuned"."""

    grid: tuple[float, ...] = GRID
    seeds: int | tuple[int, ...] = 3
    rounds: int | None = None


class Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is drawn against what: `x` is "rounds" or a swept key; "" leaves it to the figure."""

    x: str = ""
    log: tuple[Literal["x", "y"], ...] | None = None


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An experiment: a world, the algorithms that live in it, and what is varied. `mm.lab.read` reads one, `mm.lab.run` runs it."""

    name: str
    title: str = ""
    about: str = ""
    imports: tuple[str, ...] = ()
    rounds: int
    seeds: int | tuple[int, ...] = 20
    horizons: int | tuple[int, ...] = 24
    engine: str = "auto"
    dtype: Literal["float32", "float64"] = "float32"
    topology: Choice
    interest: Choice
    stream: Choice
    loss: Choice = Choice("delta")
    features: Choice | None = None  # identity, where the loss does not demand others
    domain: Choice = Choice("ball", Table((("radius", 500.0),)))
    routing: Choice = Choice("steiner")
    algorithms: tuple[Line, ...]
    tuning: Tuning = Tuning()
    sweep: tuple[Axis, ...] = ()
    figure: Figure = Figure()

    def __post_init__(self) -> None:
        _check(self)

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seeds that are reported."""
        return tuple(range(1, self.seeds + 1)) if isinstance(self.seeds, int) else self.seeds

    @property
    def tuning_seeds(self) -> tuple[int, ...]:
        """The seeds that rates are chosen on."""
        seeds = self.tuning.seeds
        return tuple(range(_FIRST_TUNING_SEED, _FIRST_TUNING_SEED + seeds)) if isinstance(seeds, int) else seeds

    @property
    def tuning_rounds(self) -> int:
        """T at which rates are chosen."""
        return self.tuning.rounds or self.rounds

    @property
    def horizon_list(self) -> np.ndarray:
        """The rounds at which regret is recorded; the last one always."""
        chosen = log_spaced(self.rounds, self.horizons) if isinstance(self.horizons, int) else self.horizons
        return np.unique([*chosen, self.rounds])

    @property
    def swept(self) -> tuple[str, ...]:
        """The keys that the sweep varies."""
        return tuple(key for axis in self.sweep for key, _ in axis.columns)

    @property
    def text(self) -> str:
        """The spec as TOML: what differs from the defaults."""
        return write(self)

    @property
    def digest(self) -> str:
        """Twelve letters that stand for all the spec says."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]

    def with_(self, **changes: Any) -> Spec:
        """Another spec with these fields changed, checked like any."""
        unknown = sorted(set(changes) - set(self.__struct_fields__))
        if unknown:
            raise SpecError(f"there is no {unknown[0]!r} in a spec{nearest(unknown[0], self.__struct_fields__) or '.'}")
        return convert({**raw(self), **{key: thaw(value) for key, value in changes.items()}})


def _check(spec: Spec) -> None:
    """Refuse what the types allow and no study can mean."""
    if not spec.name or not all(letter.isalnum() or letter in "-_." for letter in spec.name) or spec.name.startswith("."):
        raise SpecError(f"name = {spec.name!r}: letters, digits, '-', '_' and '.' are needed, since folders are named after it.")
    for key, value in (("rounds", spec.rounds), ("tuning.rounds", spec.tuning.rounds)):
        if value is not None and not 1 <= value < _FOREVER:
            raise SpecError(f"{key} = {value}: a whole number of rounds is needed, from 1 to {_FOREVER - 1:,}.")
    if spec.engine not in ("auto", *ENGINES):
        raise SpecError(f"engine = {spec.engine!r} is none of auto, {', '.join(ENGINES)}{nearest(spec.engine, ENGINES) or '.'}")
    _check_seeds("seeds", spec.seeds)
    _check_seeds("tuning.seeds", spec.tuning.seeds)
    _check_horizons(spec)
    _check_lines(spec)
    _check_tuning(spec)
    _check_sweep(spec)


def _check_horizons(spec: Spec) -> None:
    if isinstance(spec.horizons, int):
        if not 1 <= spec.horizons <= _MOST:
            raise SpecError(f"horizons = {spec.horizons}: how many rounds to report regret at, from 1 to {_MOST:,}, or a list of them.")
    elif not spec.horizons or min(spec.horizons) < 1 or max(spec.horizons) > spec.rounds:
        raise SpecError(f"horizons = {list(spec.horizons)}: rounds within 1..{spec.rounds} are needed, regret is not known elsewhere.")


def _check_lines(spec: Spec) -> None:
    if not spec.algorithms:
        raise SpecError("algorithms: at least one [[algorithms]] is needed, or nothing learns.")
    labels = [line.called for line in spec.algorithms]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise SpecError(f"algorithms: two are called {twice!r}: give one of them a label of its own, or their results could not be told apart.")
    for line in spec.algorithms:
        if line.tuned and line.step.name != "inverse_sqrt":
            raise SpecError(f'algorithms.{line.called}.step: c = "tuned" is for inverse_sqrt, c/√(t − τ_min), and this is {line.step.name!r}: state its c.')


def _check_tuning(spec: Spec) -> None:
    if not spec.tuning.grid or not all(0 < c < float("inf") for c in spec.tuning.grid):
        raise SpecError(f"tuning.grid = {list(spec.tuning.grid)}: positive finite rates are needed, at least one, or there is nothing to choose from.")
    if spec.stream.get("seed") is not None and (len(spec.seed_list) > 1 or any(line.tuned for line in spec.algorithms)):
        raise SpecError("stream.seed: every seed of the study would see the same data, those that rates are chosen on, too: leave it out, and say seeds = [...].")
    both = sorted(set(spec.seed_list) & set(spec.tuning_seeds)) if any(line.tuned for line in spec.algorithms) else []
    if both:
        raise SpecError(f"tuning.seeds: seed {both[0]} is among the seeds that are reported, too: rates chosen on the data they are judged by look too good.")


def _check_sweep(spec: Spec) -> None:
    keys = spec.swept
    if len(set(keys)) < len(keys):
        raise SpecError(f"sweep: {max(keys, key=keys.count)!r} is swept twice: which value holds?")
    for axis in spec.sweep:
        places = [axis.place(i) for i in range(len(axis))]
        if len(set(places)) < len(places):
            raise SpecError(f"sweep: {max(places, key=places.count)[0][1]!r} stands twice on the axis of {', '.join(axis.keys())}: the same runs would count twice.")
    if np.prod([float(len(axis)) for axis in spec.sweep]) > _MOST:
        raise SpecError(f"sweep: its axes span more than {_MOST:,} points: sweep fewer values.")
    if spec.figure.x not in ("", "rounds", *keys):
        raise SpecError(f"figure.x = {spec.figure.x!r}: 'rounds' or a swept key is needed{nearest(spec.figure.x, ('rounds', *keys)) or '.'}")


def _check_seeds(key: str, seeds: int | tuple[int, ...]) -> None:
    if isinstance(seeds, int):
        if not 1 <= seeds <= _MOST:
            raise SpecError(f"{key} = {seeds}: how many seeds, from 1 to {_MOST:,}, or a list of them.")
    elif not seeds or min(seeds) < 0 or max(seeds) >= 2**63 or len(set(seeds)) < len(seeds):
        raise SpecError(f"{key} = {list(seeds)}: different whole numbers from 0 on are needed, at least one.")


def convert(plain: Any) -> Spec:
    """A spec from the plain tables and lists that TOML gives."""
    spec: Spec = structured(plain, Spec, {"tuning": Tuning, "figure": Figure, "algorithms": Line}, SpecError)
    return spec


def write(spec: Spec) -> str:
    """The spec as TOML, without what is as by default: `parse` reads an equal one."""
    return str(require("tomli_w", "writing a spec").dumps(raw(spec)))


def parse(text: str, source: str = "the spec") -> Spec:
    """A spec from TOML."""
    spec: Spec = parsed(text, source, convert, SpecError)
    return spec


def shipped() -> tuple[str, ...]:
    """The names of the specs that come with mnemesh."""
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in (resources.files(__package__) / "specs").iterdir() if entry.name.endswith(".toml")))


def read(source: str | os.PathLike[str]) -> Spec:
    """A spec from a TOML file, or a shipped one by its name."""
    if isinstance(source, str) and source in shipped():
        return parse((resources.files(__package__) / "specs" / f"{source}.toml").read_text(encoding="utf-8"), source)
    path = Path(source)
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        raise SpecError(f"there is no file {str(path)!r}{nearest(str(source), shipped()) or '.'} Shipped specs: {', '.join(shipped())}.") from None
    except (OSError, UnicodeDecodeError) as wrong:
        raise SpecError(f"{str(path)!r} cannot be read as text: {getattr(wrong, 'strerror', None) or wrong}.") from None
