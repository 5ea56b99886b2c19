"""Writes the pages of the API reference, one a public module: what it is, its names at a glance, then each of them."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import mnemesh
from _site.docstrings import escaped
from _site.names import addresses, public_modules, remark

__all__ = ["setup"]

DIRECTIVES = {"Functions": "autofunction", "Classes": "autoclass", "Exceptions": "autoexception", "Data": "autodata"}


def summary(thing: Any) -> str:
    """The first paragraph of a docstring, as reST."""
    return escaped(" ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split()))


def constant(module: ModuleType, name: str) -> str:
    """What its comment says, or else the value, if it is short."""
    value = repr(getattr(module, name)).replace("typing.", "")
    return remark(module, name) or (f"`{value}`" if len(value) < 80 and "<" not in value else "")


def heading(name: str, thing: Any) -> str:
    """What a name stands under."""
    if inspect.isclass(thing) and thing.__module__.startswith("mnemesh") and thing.__name__ == name:
        return "Exceptions" if issubclass(thing, Exception) else "Classes"
    return "Functions" if inspect.isroutine(thing) else "Data"


def options(group: str, thing: Any) -> list[str]:
    """Members of classes, and what they inherit from, if it is anything; values of data, if they are short."""
    if group == "Data":
        return [] if len(repr(thing)) < 120 and "<" not in repr(thing) else ["no-value"]
    members = ["members", "undoc-members"] if group == "Classes" else []
    return members + (["show-inheritance"] if inspect.isclass(thing) and thing.__bases__ != (object,) else [])


def table(rows: list[tuple[str, str]]) -> list[str]:
    """Names and what they are, without a head."""
    cells = [f"   * - {name}\n     - {about}" for name, about in rows]
    return [".. list-table::", "   :class: names", "", *cells, ""] if cells else []


def page(module: ModuleType) -> str:
    """One module, as reST."""
    title = module.__name__
    names = {name: getattr(module, name) for name in getattr(module, "__all__", ()) if f"{title}.{name}" in addresses()}
    rows: list[tuple[str, str]] = []
    entries: list[str] = []
    for group, directive in DIRECTIVES.items():
        here = [name for name, thing in names.items() if heading(name, thing) == group]
        for name in here:
            about = escaped(constant(module, name)) if group == "Data" else summary(names[name])
            rows.append((f":py:obj:`{name} <{addresses()[f'{title}.{name}']}>`", about))
        explained = [name for name in here if addresses()[f"{title}.{name}"] == f"{title}.{name}"]
        entries += [group, "-" * len(group), ""] if explained else []
        for name in explained:
            entries += [f".. {directive}:: {title}.{name}", *(f"   :{option}:" for option in options(group, names[name])), ""]
    inner = [each.__name__ for each in public_modules() if each.__name__.startswith(f"{title}.")]
    rows += [(f":doc:`{name}`", summary(importlib.import_module(name))) for name in inner]
    tree = [".. toctree::", "   :hidden:", "", *(f"   {name}" for name in inner), ""] if inner else []
    return "\n".join([title, "=" * len(title), "", f".. automodule:: {title}", "", *table(rows), *entries, *tree])


def contents() -> str:
    """What `import mnemesh as mm` brings, and every module with its purpose."""
    names = [name for name in mnemesh.__all__ if f"mnemesh.{name}" in addresses()]
    rows = [(f":py:obj:`mm.{name} <{addresses()[f'mnemesh.{name}']}>`", summary(getattr(mnemesh, name))) for name in names]
    outer = [module for module in public_modules() if module.__name__.count(".") == 1]
    rows += [(f":doc:`{module.__name__.replace('mnemesh', 'mm', 1)} </reference/{module.__name__}>`", summary(module)) for module in outer]
    return "\n".join([*table(rows), ".. toctree::", "   :hidden:", "", *(f"   reference/{module.__name__}" for module in outer), ""])


def write(app: Any) -> None:
    """Bring the folder `reference/` up to date, touching nothing that is."""
    folder = Path(app.srcdir) / "reference"
    wanted = {"contents.txt": contents()} | {f"{module.__name__}.rst": page(module) for module in public_modules()}
    for old in folder.glob("*.rst"):
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> None:
    app.connect("builder-inited", write)
