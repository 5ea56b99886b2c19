"""`mnemesh list` and `mnemesh spec`: what there is to choose from."""

from __future__ import annotations

from typing import Annotated

import typer

from mnemesh.cli.options import AsJson, names_of
from mnemesh.cli.printing import show

__all__ = ["list_", "spec"]


def _kinds(incomplete: str) -> list[str]:
    from mnemesh.lab.catalogue import KINDS

    return [kind for kind in KINDS if kind.startswith(incomplete)]


def list_(
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help="losses, algorithms, topologies, ...; all kinds unless given.", autocompletion=_kinds)] = None,
    as_json: AsJson = False,
) -> None:
    """List what there is by name."""
    from mnemesh.lab.catalogue import catalogue

    show(catalogue(kind), as_json)


def spec(name: Annotated[str, typer.Argument(metavar="NAME", help="The name of a shipped spec.", autocompletion=names_of("specs"))]) -> None:
    """Print a shipped spec, to start your own from.

    mnemesh spec fig1b > mine.toml
    """
    from mnemesh.lab.catalogue import spec_text

    print(spec_text(name), end="")
