"""From a name and settings to the thing: what a registry's maker takes, and blame that names the key."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from mnemesh.errors import MissingExtraError, MnemeshError
from mnemesh.words.refusals import in_toml, nearest
from mnemesh.words.values import Choice, thaw

__all__ = ["blamed", "made", "signature"]


def made(maker: Callable[[str], Callable[..., Any]], choice: Choice, at: str, error: type[MnemeshError], **supplied: Any) -> Any:
    """What the registry's `maker` of this name makes of the stated settings, and of those `supplied` that it asks for and nobody stated."""
    with blamed(at, error):
        make = maker(choice.name)
        wanted = signature(make)
        stated = thaw(choice.settings)
        for name, value in stated.items():
            if name not in wanted:
                takes = f"; it takes {', '.join(wanted) or 'no settings'}."
                raise error(f"{choice.name} takes no {name!r}{nearest(name, wanted) or takes}")
            _check_type(name, value, wanted[name].annotation, error)
        given = {name: value for name, value in supplied.items() if name in wanted and name not in stated}
        missing = [name for name, one in wanted.items() if one.default is one.empty and name not in stated and name not in given]
        if missing:
            raise error(f"{choice.name} needs {missing[0]!r}, which is not stated: nothing stands for it by default.")
        return make(**stated, **given)


def signature(maker: Any) -> Mapping[str, inspect.Parameter]:
    """The settings that a maker takes."""
    try:
        found = inspect.signature(maker, eval_str=True)
    except NameError:  # annotations that only a type checker can read
        found = inspect.signature(maker)
    return {name: one for name, one in found.parameters.items() if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY) and not name.startswith("_")}


@contextmanager
def blamed(at: str, error: type[MnemeshError]) -> Iterator[None]:
    """Whatever goes wrong inside is a fault of this key."""
    try:
        yield
    except MissingExtraError:
        raise
    except MnemeshError as wrong:
        raise error(f"{at}: {wrong}") from None
    except Exception as wrong:  # whatever a maker, ours or somebody's own, may raise for what it was given
        raise error(f"{at}: {type(wrong).__name__}, {' '.join(str(wrong).split()) or 'there is not enough memory'}.") from wrong


def _check_type(name: str, value: Any, wanted: Any, error: type[MnemeshError]) -> None:
    """Refuse words for numbers and the like, where the maker says what it takes."""
    if wanted in (inspect.Parameter.empty, Any) or isinstance(wanted, str):
        return
    try:
        msgspec.convert(value, wanted)
    except msgspec.ValidationError as wrong:
        said = in_toml(str(wrong))
        raise error(f"{name} = {value!r}: {said[:1].lower()}{said[1:]}.") from None
    except TypeError:  # an annotation that msgspec does not know: the maker checks
        return
