"""Docstrings are plain text with code in single backticks, and doctests; here they become reST, and signatures keep the words of the source."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
from typing import Any

from _site.names import home, remark

__all__ = ["escaped", "setup"]

CODE = re.compile(r"`([^`]+)`")
SPECIAL = re.compile(r"([\\*|_`])")
SCHEME = re.compile(r"(?<!http)(?<!https)(://)")  # "tcp://…" is no link
LISTED = re.compile(r"^(\s*)((?:[-+•]|\(?(?:\w|\d+|#)[.)])(?:\s|$))")  # what would begin a list
WORD = re.compile(r"""("[^"]*"|'[^']*'|(?<![\w.])[A-Za-z_]\w*)""")
FIELD = re.compile(r" {4}([a-z]\w*): ([^=#]+?)\s*(?:= .*?)?  # (.+)$")


def escaped(text: str) -> str:
    """One line of plain text as reST that shows the same: code in backticks as code, all else as it stands."""
    parts = CODE.split(text)
    for place, part in enumerate(parts):
        parts[place] = f"\\ ``{part}``\\ " if place % 2 else SCHEME.sub(r"\\\1", SPECIAL.sub(r"\\\1", part))
    line = LISTED.sub(r"\1\\\2", "".join(parts))
    return re.sub(r"::\s*$", r":\\:", line)


def translate(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Escape everything but doctests, which last up to the next empty line; fields and constants have comments instead of docstrings."""
    if what == "data":
        module, _, own = name.rpartition(".")
        lines[:] = [escaped(remark(importlib.import_module(module), own)), ""]
        return
    inside, found = False, []
    for line in lines:
        begins = line.lstrip().startswith(">>>")
        if begins and not inside and found and found[-1].strip():
            found.append("")
        inside = bool(line.strip()) and (inside or begins)
        found.append(line if inside else escaped(line))
    if what == "class" and inspect.isclass(thing):
        found += ["", *fields(thing)]
    lines[:] = found


def fields(thing: type) -> list[str]:
    """The annotated fields of a class that carry a comment, as attributes."""
    try:
        source = textwrap.dedent(inspect.getsource(thing))
    except (OSError, TypeError):
        return []
    found: list[str] = []
    for field in filter(None, map(FIELD.match, source.splitlines())):
        name, kind, comment = field.groups()
        if not comment.startswith(("noqa", "type:")):
            found += [f".. py:attribute:: {name}", f"   :type: {linked(kind, thing)}", "   :no-index-entry:", "", f"   {escaped(comment)}", ""]
    return found


def annotated(annotation: Any, thing: Any) -> str:
    """An annotation in the words of the source, each public name as its whole address, of which Sphinx shows the end."""
    if annotation is inspect.Parameter.empty:
        return ""
    if not isinstance(annotation, str):
        annotation = getattr(annotation, "__forward_arg__", None) or inspect.formatannotation(annotation).replace("typing.", "")
    return linked(annotation, thing)


def linked(text: str, thing: Any) -> str:
    thing = inspect.unwrap(getattr(thing, "__func__", thing))
    known = vars(sys.modules.get(getattr(thing, "__module__", ""), sys))
    return WORD.sub(lambda word: (home(word[0], known[word[0]]) or word[0]) if word[0] in known else word[0], text)


def signed(app: Any, what: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None) -> tuple[str, str] | None:
    """The signature as it is written: shapes and short names, where autodoc would show what they evaluate to."""
    if what not in ("function", "method", "class"):
        return None
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return None
    parameters = list(found.parameters.values())
    if what == "method" and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    bare = [_in_words(each, thing) for each in parameters if not each.name.startswith("_")]
    answer = "" if what == "class" else annotated(found.return_annotation, thing)
    return str(found.replace(parameters=bare, return_annotation=found.empty)), answer


def _in_words(parameter: inspect.Parameter, thing: Any) -> inspect.Parameter:
    """A parameter whose annotation and default print as Python; "..." where a default cannot."""
    text, default = annotated(parameter.annotation, thing), parameter.default
    try:
        ast.parse(repr(default), mode="eval")
    except SyntaxError:
        default = default if default is parameter.empty else _Text("...")
    return parameter.replace(annotation=_Text(text) if text else parameter.empty, default=default)


class _Text:
    """What prints as the text it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def skip(app: Any, what: str, name: str, thing: Any, skipped: bool, options: Any) -> bool | None:
    """Members of classes without a docstring of their own: whatever they do is said where they are abstract."""
    if what not in ("class", "exception"):
        return None
    plain = not callable(thing) and not isinstance(thing, property | classmethod | staticmethod) and not hasattr(thing, "func")
    return True if plain or not getattr(thing, "__doc__", None) or name.startswith("_") else None


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", translate)
    app.connect("autodoc-process-signature", signed)
    app.connect("autodoc-skip-member", skip)
