"""Options that several commands share, what a shell completes them to, and the spec that they mean."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mnemesh.errors import MnemeshError, SpecError

if TYPE_CHECKING:
    from mnemesh.lab.spec import Spec

__all__ = [
    "AsJson", "Changes", "DaskAddress", "ResultsFolder", "Seed", "Seeds", "SpecName", "Workers", "assignment", "executor", "named", "names_of", "place",
    "spec_from", "whole",
]  # fmt: skip

_BARE = re.compile(r"[A-Za-z_][\w.-]*")


def names_of(kind: str) -> Callable[[str], list[str]]:
    """Completes to the names of a registry."""

    def complete(incomplete: str) -> list[str]:
        from mnemesh.lab.catalogue import names

        try:
            return [name for name in names(kind) if name.startswith(incomplete)]
        except MnemeshError:
            return []

    return complete


def _specs_and_files(incomplete: str) -> list[str]:
    """Shipped specs, and the TOML files and folders that begin like this."""
    start = Path(incomplete)
    folder, lead = (start, "") if incomplete.endswith("/") else (start.parent, start.name)
    try:
        near = sorted(path for path in folder.iterdir() if path.name.startswith(lead) and (path.is_dir() or path.suffix == ".toml"))
    except OSError:
        near = []
    return names_of("specs")(incomplete) + [f"{path}/" if path.is_dir() else str(path) for path in near if not path.name.startswith(".")]


def _keys(incomplete: str) -> list[str]:
    from mnemesh.lab.spec import PARTS

    return [f"{part}{end}" for part in PARTS for end in ("=", ".") if f"{part}{end}".startswith(incomplete)]


def whole(text: str | int) -> int:
    """A whole number from the command line, or a default."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no whole number.") from None


def named(text: str) -> str:
    """A name or a path that says something."""
    if not text.strip():
        raise typer.BadParameter("'' names nothing.")
    return text


def place(text: str | Path) -> Path:
    """A path that says something."""
    return Path(named(str(text) if isinstance(text, Path) else text))


SpecName = Annotated[str, typer.Argument(metavar="SPEC", help="A TOML file, or the name of a shipped spec.", parser=named, autocompletion=_specs_and_files)]
ResultsFolder = Annotated[Path, typer.Argument(metavar="RESULTS", parser=place, help="A folder that `mnemesh run` has filled.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change the spec: a dotted key, a TOML value. May be repeated.", autocompletion=_keys),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Seed = Annotated[int, typer.Option(metavar="N", parser=whole, help="The seed that everything random is drawn from.")]
Seeds = Annotated[int | None, typer.Option(metavar="N", parser=whole, help="Seeds 1 to N, instead of those that the spec names.")]
Workers = Annotated[int | None, typer.Option(metavar="N", parser=whole, help="Processes on this machine; as many as there are cores unless given.")]
DaskAddress = Annotated[str | None, typer.Option("--dask", metavar="ADDRESS", help="Run on a Dask cluster: its scheduler, such as tcp://10.0.0.5:8786.")]


def assignment(text: str) -> tuple[str, Any]:
    """KEY=VALUE as a key and a TOML value; a bare word is a name.

    >>> assignment("topology=ring"), assignment("stream.correlation=0.5"), assignment('domain={name="ball", radius=5.0}')
    (('topology', 'ring'), ('stream.correlation', 0.5), ('domain', {'name': 'ball', 'radius': 5.0}))
    """
    key, equals, value = (part.strip() for part in text.partition("="))
    if not key or not equals or not value:
        raise SpecError(f"--set {text!r}: KEY=VALUE is needed, such as stream.correlation=0.5, or nothing is changed.")
    try:
        told = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        told = {"value": value} if _BARE.fullmatch(value) else {}
    if list(told) != ["value"]:
        raise SpecError(f"--set {text!r}: {value!r} is no TOML value, such as 0.5, ring, [1, 2] or '{{name=\"ball\", radius=5.0}}'.")
    return key, told["value"]


def spec_from(source: str, changes: Iterable[str] | None, *, first_point: bool = False, **fields: Any) -> Spec:
    """The spec that a command line means: a file or a shipped one, with what is changed; None changes nothing."""
    from mnemesh.lab.build import bring
    from mnemesh.lab.points import override, points
    from mnemesh.lab.spec import read

    options = {key: value for key, value in fields.items() if value is not None}
    changed = [*options.items(), *map(assignment, changes or ())]
    keys = [key for key, _ in changed]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise SpecError(f"{twice} is set twice, by {f'--{twice} and --set' if twice in options else '--set'}: leave one of the two out, or nobody knows which holds.")
    spec = read(source)
    if spec.imports:
        _look_beside(source)
    bring(spec)
    spec = points(spec)[0].spec if first_point else spec
    return override(spec, changed) if changed else spec


def _look_beside(source: str) -> None:
    """Let modules be found beside a spec and in the current folder, as `python -m` finds them; worker processes inherit it."""
    for folder in (str(Path.cwd()), str(Path(source).resolve().parent)):
        if sys.path[0] != folder:
            sys.path.insert(0, folder)


@contextmanager
def executor(dask: str | None, workers: int | None) -> Iterator[Any]:
    """Where batches are played: processes on this machine, or a Dask cluster."""
    from mnemesh import lab

    if dask is not None and workers is not None:
        raise SpecError("--dask and --workers: a cluster has as many workers as it has; leave one of the two out.")
    with lab.dask(dask) if dask is not None else lab.local(workers) as pool:
        yield pool
