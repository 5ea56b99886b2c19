"""The command line, `mnemesh`: it parses and prints, and leaves every computation to the library."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command that the program was started with."""
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
