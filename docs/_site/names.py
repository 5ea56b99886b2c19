"""What is public, and where each name is explained: read off the modules' `__all__`, so that a new name appears by itself."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
from functools import cache
from types import ModuleType
from typing import Any

import mnemesh

__all__ = ["addresses", "home", "public_modules", "remark"]

SERVING = ("registry", "types")  # not in mnemesh.__all__, but whoever adds a part needs them
APART = ("lab",)  # not imported by `import mnemesh`; their own modules are public, too
ORDER = (
    "losses", "features", "domains", "steps", "topology", "interest", "routing", "streams", "problem", "algorithms",
    "engine", "regret", "theory", "tuning", "statistics", "testing", "errors",
)  # fmt: skip


@cache
def public_modules() -> tuple[ModuleType, ...]:
    """The modules of mnemesh.__all__ in reading order, those that serve others, and the packages apart with their modules."""
    listed = [name for name in mnemesh.__all__ if inspect.ismodule(getattr(mnemesh, name))]
    listed.sort(key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
    names = [f"mnemesh.{name}" for name in (*listed, *SERVING)]
    for package in (f"mnemesh.{name}" for name in APART if importlib.util.find_spec(f"mnemesh.{name}")):
        inner = sorted(each.name for each in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."))
        names += [package, *(name for name in inner if not name.rpartition(".")[2].startswith("_"))]
    return tuple(map(importlib.import_module, names))


def _own(name: str, thing: Any) -> bool:
    """Whether this is a class or function of mnemesh under its own name, the same wherever it is listed; a number or an alias is not."""
    return (inspect.isclass(thing) or inspect.isfunction(thing)) and thing.__module__.startswith("mnemesh") and thing.__name__ == name


@cache
def _homes() -> tuple[dict[str, str], dict[int, str]]:
    found: dict[str, str] = {}
    homes: dict[int, str] = {}
    for module in (*public_modules(), mnemesh):
        for name in getattr(module, "__all__", ()):
            thing, address = getattr(module, name), f"{module.__name__}.{name}"
            if _own(name, thing):
                found[address] = homes.setdefault(id(thing), address)
            elif not inspect.ismodule(thing):
                found[address] = address
    return found, homes


def addresses() -> dict[str, str]:
    """Every public name with its module in front, and the one address where it is explained: the first module that lists it."""
    return _homes()[0]


def home(name: str, thing: Any) -> str | None:
    """Where a name that stands for this thing in some module is explained; None: nowhere."""
    address = f"mnemesh.types.{name}"
    return _homes()[1].get(id(thing)) or (address if address in addresses() else None)


def remark(module: ModuleType, name: str) -> str:
    """The comment behind the line that gives a constant its value."""
    found = re.search(rf"^(?: {{4}})?{name}\b[^=\n]*= .*?  # (.+)$", inspect.getsource(module), re.M)
    return found[1] if found else ""
