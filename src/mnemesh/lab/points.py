"""A sweep's points: specs without a sweep, one for every combination of swept values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any, NamedTuple

from mnemesh.errors import SpecError
from mnemesh.lab.spec import PARTS, Spec, convert
from mnemesh.words.refusals import nearest
from mnemesh.words.tables import raw
from mnemesh.words.values import Choice, Table, thaw

__all__ = ["Point", "override", "points", "shown"]

_PLAIN = ("rounds", "dtype")


class Point(NamedTuple):
    """One combination of swept values."""

    number: int
    values: tuple[tuple[str, Any], ...]  # (key, value) of every swept key
    spec: Spec  # with these values, and no sweep


def points(spec: Spec) -> tuple[Point, ...]:
    """Every point of the grid that a spec's axes span, the last axis fastest."""
    plain = {key: value for key, value in raw(spec).items() if key not in ("sweep", "figure")}
    found = []
    for index, places in enumerate(product(*(range(len(axis)) for axis in spec.sweep))):
        values = tuple(pair for axis, place in zip(spec.sweep, places, strict=True) for pair in axis.place(place))
        changed: dict[str, Any] = dict(plain)
        for key, value in values:
            changed = _with(changed, spec, key, thaw(value), "sweep")
        try:
            found.append(Point(index, values, convert(changed)))
        except SpecError as wrong:
            raise SpecError(f"sweep, at {', '.join(f'{key} = {shown(value)}' for key, value in values)}: {wrong}") from None
    return tuple(found)


def shown(value: Any) -> Any:
    """A swept value as a table's cell: numbers and booleans as they are, parts by their label."""
    if isinstance(value, Table):
        named = thaw(value)
        return Choice(str(named.pop("name", "")), Table(tuple((key, thaw(inner)) for key, inner in named.items()))).label
    return value if isinstance(value, bool | int | float | str) else str(thaw(value))


def override(spec: Spec, changes: Iterable[tuple[str, Any]]) -> Spec:
    """A spec with other values at these keys: those that a sweep may vary, and whatever else a spec holds ("seeds", "tuning.rounds")."""
    plain, changes = raw(spec), list(changes)
    swept = () if any(key == "sweep" for key, _ in changes) else spec.swept
    for key, value in changes:
        over = next((other for other in swept if f"{other}.".startswith(f"{key}.") or key.startswith(f"{other}.")), None)
        if over is not None:
            raise SpecError(f"{key}: the spec sweeps {over}, which would replace this value at every point; sweep = [] leaves the sweep out.")
        head, _, rest = key.partition(".")
        if head in Spec.__struct_fields__ and not rest and head not in PARTS:
            plain = {**plain, key: value}
        elif head in ("tuning", "figure") and rest:
            plain = {**plain, head: {**plain.get(head, {}), rest: value}}
        else:
            plain = _with(plain, spec, key, value, key)
    return convert(plain)


def _with(plain: Mapping[str, Any], spec: Spec, key: str, value: Any, at: str) -> dict[str, Any]:
    """The spec's tables with the value at a dotted key."""
    head, *rest = key.split(".")
    if head in _PLAIN and not rest:
        return {**plain, head: value}
    if head in PARTS and len(rest) < 2 and (getattr(spec, head) is not None or not rest):
        return {**plain, head: _setting(thaw(getattr(spec, head)) if head not in plain else plain[head], rest, value)}
    if head == "algorithms" and len(rest) > 1:
        return {**plain, "algorithms": _line(plain["algorithms"], key, value, at)}
    chosen = {part: getattr(spec, part) for part in PARTS}
    settings = [f"{part}.{setting}" for part, choice in chosen.items() if choice is not None for setting, _ in choice.settings.items]
    known = (*_PLAIN, *PARTS, *settings)
    there = f"; there are {', '.join(known)}, and algorithms.LABEL.step.c."
    raise SpecError(f"{at}: there is nothing called {key!r} to vary{nearest(key, known) or there}")


def _setting(part: Any, rest: list[str], value: Any) -> Any:
    return {**(part if isinstance(part, Mapping) else {"name": part}), rest[0]: value} if rest else value


def _line(lines: list[dict[str, Any]], key: str, value: Any, at: str) -> list[dict[str, Any]]:
    """The algorithms with `algorithms.LABEL.step`, `.step.c`, `.routing` or the like changed; a label may hold dots."""
    for place, line in enumerate(lines):
        for called in (line.get("label"), line["name"]):
            if called and key.startswith(f"algorithms.{called}."):
                part, *rest = key.removeprefix(f"algorithms.{called}.").split(".")
                if part in ("step", "routing", "settings") and len(rest) < 2:
                    before = line.get(part, {"name": "inverse_sqrt"} if part == "step" else {})
                    return [*lines[:place], {**line, part: _setting(before, rest, value)}, *lines[place + 1 :]]
    labels = ", ".join(f"algorithms.{line.get('label') or line['name']}" for line in lines)
    raise SpecError(f"{at}: there is nothing called {key!r} to vary; there are {labels}, each with .step, .step.c, .routing.")
