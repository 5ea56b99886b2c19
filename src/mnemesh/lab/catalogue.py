"""What there is to choose from: every registry, the shipped specs and the engines, as tables."""

from __future__ import annotations

import inspect
from importlib import resources
from importlib.util import find_spec
from typing import Any

from mnemesh import algorithms, domains, features, interest, losses, routing, steps, streams, topology
from mnemesh.engine.choose import ENGINES
from mnemesh.errors import SpecError
from mnemesh.lab.points import points
from mnemesh.lab.spec import read, shipped
from mnemesh.lab.tables import Table
from mnemesh.words.refusals import nearest

__all__ = ["KINDS", "catalogue", "names", "signature", "spec_text"]

_REGISTRIES: dict[str, Any] = {
    "losses": losses, "algorithms": algorithms, "topologies": topology, "routings": routing, "features": features,
    "domains": domains, "steps": steps, "interests": interest, "streams": streams,
}  # fmt: skip
KINDS = (*_REGISTRIES, "specs", "engines")
_ENGINES = {
    "auto": "the engine that answers first, by what is installed and the work ahead",
    "numpy": "round by round: any algorithm, any loss of NumPy's",
    "numba": "agent by agent, compiled: the losses of Table 1, where nobody reads another's memory",
    "jax": "round by round, compiled, on a GPU where there is one: everything, losses by automatic differentiation, too",
}
_ANY = ("agents", "graph", "key_dim", "seed")
_SUPPLIED: dict[str, tuple[str, ...]] = {
    "topologies": ("seed",), "interests": _ANY, "losses": _ANY, "features": _ANY, "domains": _ANY, "streams": ("agents", "rounds", "seed"),
    "routings": ("graph", "interest", "seed"), "algorithms": ("graph", "interest", "seed", "step", "trees"),
}  # fmt: skip


def names(kind: str) -> tuple[str, ...]:
    """The names of a kind."""
    if kind == "specs":
        return shipped()
    return ("auto", *ENGINES) if kind == "engines" else tuple(_known(kind).names())


def catalogue(kind: str | None = None) -> Table:
    """A kind's names, with their settings and what they are; without a kind, all kinds with their names."""
    if kind is None:
        return Table("What there is", ("kind", "names"), tuple((each, names(each)) for each in KINDS))
    if kind == "specs":
        return _specs()
    if kind == "engines":
        engines = tuple((name, name == "auto" or find_spec(name) is not None, _ENGINES[name]) for name in names(kind))
        return Table("engines", ("name", "installed", "what it is"), engines)
    registry = _known(kind)
    rows = tuple((name, signature(registry.maker(name)), _first_line(registry.maker(name))) for name in names(kind))
    return Table(kind, ("name", "settings", "what it is"), rows, _supplied(kind))


def spec_text(name: str) -> str:
    """A shipped spec as it is written."""
    if name not in shipped():
        raise SpecError(f"there is no shipped spec {name!r}{nearest(name, shipped()) or '; there are ' + ', '.join(shipped()) + '.'}")
    return (resources.files(__package__) / "specs" / f"{name}.toml").read_text(encoding="utf-8")


def signature(maker: Any) -> tuple[str, ...]:
    """The settings that a maker takes, with their defaults."""
    taken = inspect.signature(maker).parameters.values()
    return tuple(one.name if one.default is one.empty else f"{one.name}={one.default!r}" for one in taken if not one.name.startswith("_"))


def _supplied(kind: str) -> str:
    """Which settings nobody has to state."""
    *most, last = _SUPPLIED.get(kind, ("",))
    which = f"{', '.join(most)} and {last} are" if most else f"{last} is"
    return f"{which} supplied by the spec that a name stands in, where {'they are' if most else 'it is'} not stated." if last else ""


def _known(kind: str) -> Any:
    if kind not in KINDS:
        raise SpecError(f"there is nothing called {kind!r} to list{nearest(kind, KINDS) or '; there are ' + ', '.join(KINDS) + '.'}")
    return _REGISTRIES[kind]


def _first_line(maker: Any) -> str:
    return (inspect.getdoc(maker) or "").partition("\n")[0]


def _specs() -> Table:
    rows = []
    for name in shipped():
        spec = read(name)
        rows.append((name, spec.title, len(points(spec)), len(spec.algorithms), len(spec.seed_list), spec.rounds))
    return Table("specs", ("name", "what it is", "points", "algorithms", "seeds", "rounds"), tuple(rows), "`mnemesh spec NAME` prints one.")
