"""How a command ends: one line and an exit code that a script can act on."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from mnemesh.errors import MnemeshError

__all__ = ["CODES", "DISAGREES", "STOPPED", "Group", "end"]

REFUSED, DISAGREES, STOPPED, UNREAD = 2, 3, 130, 141
CODES = {
    0: "all went well",
    1: "a fault in mnemesh or in a module of your own, with its traceback",
    REFUSED: "something is wrong with what was asked for, or missing: one line says what",
    DISAGREES: "`reproduce` ran, and a finding of the paper did not come out",
    STOPPED: "stopped by Ctrl-C",
    UNREAD: "whoever read the output stopped reading",
}
_NO_FAULT_OF_OURS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO)


def end(message: str, code: int) -> NoReturn:
    """Say why in one line on stderr, and end."""
    print(f"mnemesh: {' '.join(message.split())}", file=sys.stderr, flush=True)
    raise typer.Exit(code)


class Group(TyperGroup):
    """Commands whose refusals are one line each."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Without a command there is only help, and a script that lost its command has failed."""
        if not args and not ctx.resilient_parsing:
            print(ctx.get_help())
            raise typer.Exit(REFUSED)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what mnemesh or the machine refuses, Ctrl-C and a closed pipe end it without a traceback."""
        try:
            done = super().invoke(ctx)
            sys.stdout.flush()
            return done
        except MnemeshError as refused:
            end(str(refused), REFUSED)
        except KeyboardInterrupt:
            end("stopped.", STOPPED)
        except BrokenPipeError:
            _discard_output()
            raise typer.Exit(UNREAD) from None
        except OSError as refused:
            if refused.errno not in _NO_FAULT_OF_OURS:
                raise
            where = refused.filename or ("the output" if _printing(refused) else "")
            _discard_output()
            end(f"{refused.strerror}{f': {where}' if where else ''}.", REFUSED)

    def main(self, args: Any = None, prog_name: str | None = None, *, standalone_mode: bool = True, **settings: Any) -> Any:  # type: ignore[override]
        """Parse the command line and run it; a wrong one ends in one line, too."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError):
                stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal that lacks a letter shows another
        try:
            code = super().main(args, prog_name, standalone_mode=False, **settings)
        except Exception as wrong:
            if not hasattr(wrong, "format_message"):  # what typer and click refuse with, whichever of them parses
                raise
            code = _wrong_usage(wrong)
        if not standalone_mode:
            return code
        sys.exit(code if isinstance(code, int) else 0)


def _printing(refused: OSError) -> bool:
    """Whether it came of printing, which names no file."""
    *_, last = traceback.extract_tb(refused.__traceback__)
    return Path(last.filename).parent == Path(__file__).parent or "rich" in Path(last.filename).parts


def _discard_output() -> None:
    """Python would try to write the rest when it exits."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _wrong_usage(wrong: Any) -> int:
    """One line about a command line that cannot be understood, and where help is."""
    said = " ".join(wrong.format_message().split())
    context = getattr(wrong, "ctx", None)
    where = f" `{context.command_path} --help` says what can be given." if context else ""
    print(f"mnemesh: {said[:1].lower()}{said[1:]}{'' if said.endswith(('.', '?')) else '.'}{where}", file=sys.stderr)
    return REFUSED
