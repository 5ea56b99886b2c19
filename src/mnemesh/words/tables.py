"""Between the plain tables that TOML gives and frozen structs: what is read is typed, what is written is what differs from the defaults."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mnemesh.errors import MnemeshError
from mnemesh.words.refusals import reworded
from mnemesh.words.values import HOOKS, thaw

__all__ = ["parsed", "raw", "structured"]


def structured(plain: Any, kind: type[Any], tables: Mapping[str, Any], error: type[MnemeshError]) -> Any:
    """A struct of this kind from plain tables and lists. `tables` has the struct behind each table's path, for what is said of a wrong one."""

    def hook(wanted: type, value: Any) -> Any:
        return HOOKS[wanted](value)

    try:
        return msgspec.convert(plain, kind, dec_hook=hook)
    except msgspec.ValidationError as wrong:
        if isinstance(wrong.__cause__, error):
            raise wrong.__cause__ from None
        raise error(reworded(str(wrong), {"": kind, **tables})) from None


def raw(struct: Any) -> dict[str, Any]:
    """The plain tables and lists of a struct: what differs from the defaults."""
    told = {}
    for field in msgspec.structs.fields(type(struct)):
        value = getattr(struct, field.name)
        if value == field.default:
            continue
        if isinstance(value, msgspec.Struct):
            value = raw(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
            value = [raw(part) for part in value]
        told[field.name] = thaw(value)
    return told


def parsed(text: str, source: str, convert: Callable[[Any], Any], error: type[MnemeshError]) -> Any:
    """What `convert` makes of TOML; whatever is wrong is said with the name of its source."""
    try:
        return convert(tomllib.loads(text))
    except tomllib.TOMLDecodeError as wrong:
        raise error(f"{source} is no TOML: {wrong}.") from None
    except RecursionError:
        raise error(f"{source} is no TOML that can be read: its lists or tables are nested too deeply.") from None
    except error as wrong:
        raise error(f"{source}: {wrong}") from None
