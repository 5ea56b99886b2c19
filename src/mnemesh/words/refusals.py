"""How a file is refused: the key, what is wrong with it, and the nearest valid name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

__all__ = ["in_toml", "key_path", "nearest", "reworded"]


def nearest(word: str, known: Iterable[str]) -> str:
    """"; did you mean …?", or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def key_path(path: str) -> str:
    """`$.algorithms[1].step` as a reader of TOML counts: algorithms[2].step."""
    return re.sub(r"\[(\d+)\]", lambda place: f"[{int(place[1]) + 1}]", path.removeprefix("$").removeprefix("."))


def reworded(message: str, tables: Mapping[str, Any]) -> str:
    """A message of msgspec's in our words. `tables` has the struct behind each table's path, list places left out."""
    what, _, where = message.partition(" - at `")
    path = key_path(where.rstrip("`"))
    at = f"{path}: " if path else ""
    table = tables.get(re.sub(r"\[\d+\]", "", path))
    fields = () if table is None else table.__struct_fields__
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", what, re.S):
        return f"{at}there is no key {unknown[1]!r}{nearest(unknown[1], fields) or '; there are ' + ', '.join(fields) + '.'}"
    if wrong := re.fullmatch(r"Invalid enum value '(.*)'", what, re.S):
        return f"{at}{wrong[1]!r} is none of {', '.join(map(repr, _choices(path, tables)))}."
    if missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        return f"{at}{missing[1]} is missing: nothing stands for it by default."
    what = in_toml(what)
    return f"{at}{what[:1].lower()}{what[1:]}."


def in_toml(message: str) -> str:
    """A message of msgspec's with TOML's words for what stands in backquotes there."""
    words = {"object": "table", "array": "list", "str": "text"}

    def said(quoted: re.Match[str]) -> str:
        kinds = [words.get(kind, kind) for kind in quoted[1].split(" | ") if kind != "null"]
        return " | ".join(kinds)

    return re.sub(r"`([^`]*)`", said, message)


def _choices(path: str, tables: Mapping[str, Any]) -> list[Any]:
    """The values that a field of few choices may have."""
    lead, _, field = re.sub(r"\[\d+\]", "", path).rpartition(".")
    found: list[Any] = []

    def collect(kind: Any) -> None:
        if get_origin(kind) is Literal:
            found.extend(get_args(kind))
        for inner in get_args(kind) if get_origin(kind) is not Literal else ():
            collect(inner)

    collect(get_type_hints(tables[lead])[field])
    return found
