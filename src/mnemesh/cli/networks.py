"""`mnemesh keys`: what a network needs before its agents are started on machines of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mnemesh.cli.endings import REFUSED, end
from mnemesh.cli.options import AsJson, place
from mnemesh.cli.printing import note

__all__ = ["keys"]


def keys(
    network: Annotated[Path | None, typer.Argument(metavar="[NETWORK]", help="A network file; ./network.toml or $MNEMESH_NETWORK unless given.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", parser=place, help="Where keys go; what the file says, or pki, unless given.")] = None,
    renew: Annotated[bool, typer.Option("--renew", help="Make every certificate again; keys stay.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a certificate authority and a certificate for every agent.

    Nothing that is there is overwritten: what is missing is added. An agent's machine needs its own folder alone; the authority's stays where it is.
    """
    from mnemesh.live.config import read
    from mnemesh.live.keys import make_keys

    told = read(network)
    folder = out or Path(told.transport.keys)
    issued = make_keys(told, folder, renew=renew)
    if as_json:
        print(json.dumps({"made": [str(path) for path in issued.made], "kept": [str(path) for path in issued.kept], "wrong": list(issued.wrong)}))
    else:
        for path in issued.made:
            print(path)
    note(f"{len(issued.made)} files made in {folder}, {len(issued.kept)} were there and stay")
    if issued.wrong:
        end(f"what was there does not fit: {'; '.join(issued.wrong)}. --renew makes certificates again.", REFUSED)
