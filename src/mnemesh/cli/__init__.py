"""The command line, `mnemesh`: it parses and prints, and leaves every computation to the library."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["main"]


def main() -> None:
    """Run the command that the program was started with."""
    _hold_streams()
    from mnemesh.errors import MissingExtraError, require

    try:
        require("typer", "the command line")
        from mnemesh.cli.application import app

        app(prog_name="mnemesh")
    except MissingExtraError as missing:
        print(f"mnemesh: {missing}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("mnemesh: stopped.", file=sys.stderr)
        sys.exit(130)


def _hold_streams() -> None:
    """Output that was closed before the start goes nowhere, and not into whichever file is opened next."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  # held until the program ends
