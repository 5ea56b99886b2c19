"""What a file is made of: values that never change, choices of a named part, and axes along which something is swept."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, final

__all__ = ["HOOKS", "Axis", "Choice", "Table", "as_axis", "as_choice", "as_table", "freeze", "thaw"]


class _Frozen:
    """Equal and hashed by its fields. No dataclass: msgspec would read one by its fields, and these are read by the hooks below."""

    __slots__: tuple[str, ...] = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: make another one instead of setting {name!r}.")

    def _fill(self, *values: Any) -> None:
        for name, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, name, value)

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._values()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Frozen) and type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))


@final
class Table(_Frozen):
    """A TOML table that can be hashed: (key, value) pairs."""

    __slots__ = ("items",)

    items: tuple[tuple[str, Any], ...]

    def __init__(self, items: tuple[tuple[str, Any], ...] = ()) -> None:
        self._fill(items)

    def __repr__(self) -> str:
        return repr(thaw(self))


@final
class Choice(_Frozen):
    """A part by its name in a registry, with the settings that its maker takes."""

    __slots__ = ("name", "settings")

    name: str
    settings: Table

    def __init__(self, name: str, settings: Table | None = None) -> None:
        self._fill(name, settings or Table())

    @property
    def label(self) -> str:
        """How it is called in tables and figures."""
        return f"{self.name}({', '.join(f'{key}={thaw(value)!r}' for key, value in self.settings.items)})" if self.settings.items else self.name

    def get(self, setting: str, default: Any = None) -> Any:
        """A stated setting, or `default`."""
        return thaw(dict(self.settings.items).get(setting, default))

    def __repr__(self) -> str:
        return self.label


@final
class Axis(_Frozen):
    """Keys whose values move together, place by place: (key, values) each."""

    __slots__ = ("columns",)

    columns: tuple[tuple[str, tuple[Any, ...]], ...]

    def __init__(self, columns: tuple[tuple[str, tuple[Any, ...]], ...]) -> None:
        self._fill(columns)

    def keys(self) -> tuple[str, ...]:
        """The swept keys."""
        return tuple(key for key, _ in self.columns)

    def place(self, index: int) -> tuple[tuple[str, Any], ...]:
        """(key, value) of every key at one place."""
        return tuple((key, values[index]) for key, values in self.columns)

    def __len__(self) -> int:
        return len(self.columns[0][1])

    def __repr__(self) -> str:
        return repr(thaw(self))


def freeze(value: Any) -> Any:
    """A TOML value as one that can be hashed: lists become tuples, tables `Table`, whose keys have no order of their own."""
    if isinstance(value, Mapping):
        return Table(tuple((str(key), freeze(value[key])) for key in sorted(value)))
    if isinstance(value, list | tuple):
        return tuple(freeze(inner) for inner in value)
    if not isinstance(value, bool | int | float | str):
        raise ValueError(f"{value!r} is a {type(value).__name__}, and files hold numbers, words, lists and tables")
    if isinstance(value, float) and math.isnan(value):
        raise ValueError("nan is no value: nothing can be computed from it")
    return value


def thaw(value: Any) -> Any:
    """The TOML value again."""
    if isinstance(value, Table):
        return {key: thaw(inner) for key, inner in value.items}
    if isinstance(value, Choice):
        return {"name": value.name, **thaw(value.settings)} if value.settings.items else value.name
    if isinstance(value, Axis):
        return {key: thaw(values) for key, values in value.columns}
    return [thaw(inner) for inner in value] if isinstance(value, tuple) else value


def as_choice(raw: Any) -> Choice:
    """A choice from its name, or from a table with a name and settings."""
    if isinstance(raw, Choice):
        return raw
    if isinstance(raw, str):
        return Choice(raw)
    if isinstance(raw, Mapping) and isinstance(raw.get("name"), str):
        return Choice(raw["name"], freeze({key: value for key, value in raw.items() if key != "name"}))
    raise ValueError(f'{raw!r} is no choice: a name is needed, or a table with one, such as {{ name = "ball", radius = 5.0 }}')


def as_axis(raw: Any) -> Axis:
    """An axis from a table of lists of one length; nested tables are read as dotted keys."""
    if isinstance(raw, Axis):
        return raw
    columns: list[tuple[str, tuple[Any, ...]]] = []

    def flatten(table: Any, lead: str) -> None:
        for key, value in table.items():
            if isinstance(value, Mapping):
                flatten(value, f"{lead}{key}.")
            elif isinstance(value, list | tuple) and value:
                columns.append((f"{lead}{key}", freeze(value)))
            else:
                raise ValueError(f"{lead}{key} = {value!r}: an axis gives each key a list of at least one value")

    if not isinstance(raw, Mapping) or not raw:
        raise ValueError(f'{raw!r} is no axis: a table of lists is needed, such as "stream.correlation" = [0.0, 0.5]')
    flatten(raw, "")
    lengths = {key: len(values) for key, values in columns}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the keys of one axis move together and have different lengths, {lengths}: give them as many values each, or an axis each")
    return Axis(tuple(columns))


def as_table(raw: Any) -> Table:
    """A table of settings."""
    if isinstance(raw, Table | Mapping):
        return raw if isinstance(raw, Table) else freeze(raw)
    raise ValueError(f"{raw!r} is no table of settings")


HOOKS: dict[type, Callable[[Any], Any]] = {Choice: as_choice, Axis: as_axis, Table: as_table}
