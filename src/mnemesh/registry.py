"""Names that stand for things: one line in a registry is what a new loss, domain, step rule, tree builder or algorithm needs."""

from __future__ import annotations

import difflib
import inspect
from abc import ABC
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from mnemesh.errors import MnemeshError

__all__ = ["Part", "Registry"]


class Part(ABC):
    """What a registry makes: prints as it is typed, and equals any other of the same name and settings."""

    name: str
    _error: ClassVar[type[MnemeshError]] = MnemeshError

    def settings(self) -> dict[str, Any]:
        """What `get(name, **settings)` makes an equal one of: plain numbers, strings, lists or NumPy arrays."""
        raise self._error(
            f"{type(self).__name__} {self.name!r} has no settings(): it cannot be written down and made again, "
            "so nothing that is saved may depend on it. Give its class settings() and register its name."
        )

    def _signature(self) -> Any:
        try:
            settings = self.settings()
        except MnemeshError:
            return id(self)
        return self.name, tuple((key, _plain(value)) for key, value in sorted(settings.items()))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Part) and type(self) is type(other) and self._signature() == other._signature())

    def __hash__(self) -> int:
        return hash((type(self), self._signature()))

    def __repr__(self) -> str:
        try:
            return f"{self.name}({', '.join(f'{key}={_words(value)}' for key, value in self.settings().items())})"
        except MnemeshError:
            return f"{type(self).__name__}({self.name!r})"


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


def _words(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"<{' × '.join(str(size) for size in value.shape)} numbers, {value.min():.3g}..{value.max():.3g}>"
    return repr(value)


class Registry:
    """Makers by name. `kind` and `error` word the refusals."""

    def __init__(self, kind: str, error: type[MnemeshError], makers: dict[str, Callable[..., Any]]) -> None:
        self._kind, self._error, self._makers = kind, error, dict(makers)

    def names(self) -> tuple[str, ...]:
        """Every name that `get` knows."""
        return tuple(self._makers)

    def register(self, name: str, make: Callable[..., Any]) -> None:
        """Let `get(name, …)` return `make(…)`."""
        if name in self._makers:
            raise self._error(f"{name!r} is a registered {self._kind} already: a second one would change what earlier programs mean.")
        self._makers[name] = make

    def maker(self, name: str) -> Callable[..., Any]:
        """The function registered under this name."""
        if name not in self._makers:
            near = difflib.get_close_matches(str(name), self._makers, n=1)
            lead = f"did you mean {near[0]!r}? There" if near else "there"
            raise self._error(f"there is no {self._kind} {name!r}: {lead} are {', '.join(self._makers)}.")
        return self._makers[name]

    def get(self, name: str, **settings: Any) -> Any:
        """What the function registered under this name makes of these settings."""
        make = self.maker(name)
        try:
            inspect.signature(make).bind(**settings)
        except TypeError as wrong:
            raise self._error(f"the {self._kind} {name!r} takes {inspect.signature(make)}: {wrong}.") from None
        return make(**settings)
