"""The application: which commands there are, one line each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from mnemesh import __version__
from mnemesh.cli.endings import CODES, Group
from mnemesh.cli.listing import list_, spec
from mnemesh.cli.networks import keys
from mnemesh.cli.results import compare, plot
from mnemesh.cli.studies import reproduce, run
from mnemesh.cli.worlds import bound, routes

__all__ = ["app", "begin"]

_ENDINGS = "\n".join(["\b", "Exit codes:", *(f"{code:>5}  {meaning}" for code, meaning in CODES.items())])

app = typer.Typer(cls=Group, epilog=_ENDINGS, context_settings={"help_option_names": ["-h", "--help"]}, rich_markup_mode=None, pretty_exceptions_enable=False)


def _version(wanted: bool) -> bool:
    if wanted:
        print(f"mnemesh {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def begin(version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)] = False) -> None:
    """Distributed associative memory: run studies, reproduce the paper, look at networks, bounds and results."""


_COMMANDS: dict[str, Callable[..., None]] = {
    "reproduce": reproduce,
    "run": run,
    "plot": plot,
    "compare": compare,
    "routes": routes,
    "bound": bound,
    "list": list_,
    "spec": spec,
    "keys": keys,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)
