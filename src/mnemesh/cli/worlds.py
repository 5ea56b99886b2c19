"""`mnemesh routes` and `mnemesh bound`: what a spec means before anything is played."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mnemesh.cli.options import AsJson, Changes, Seed, SpecName, names_of, place, spec_from, whole
from mnemesh.cli.printing import note, show

__all__ = ["bound", "routes"]


def routes(
    spec: SpecName = "fig1b",
    topology: Annotated[str | None, typer.Option(metavar="NAME", help="Another graph: --set topology=NAME.", autocompletion=names_of("topologies"))] = None,
    routing: Annotated[str | None, typer.Option(metavar="NAME", help="Other trees: --set routing=NAME.", autocompletion=names_of("routings"))] = None,
    changes: Changes = None,
    every: Annotated[bool, typer.Option("--all", help="Compare the trees of every builder.")] = False,
    root: Annotated[int | None, typer.Option(metavar="N", parser=whole, help="Print agent N's tree, and draw it.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", parser=place, help="Draw the graph and a tree: a .png, .svg or .pdf file.")] = None,
    seed: Seed = 1,
    as_json: AsJson = False,
) -> None:
    """Print delays, messages and load of routing trees.

    They are those of the spec's first point; --all compares every builder's, --root prints one agent's, --out draws it on the graph.
    """
    from mnemesh.lab.preview import branches, first_world, picture, planted, tree
    from mnemesh.lab.preview import routes as table

    world = first_world(spec_from(spec, changes, first_point=True, topology=topology, routing=routing), seed)
    trees = planted(world, every)
    called, own = next(iter(trees.items()))
    lines = [] if root is None else list(branches(own, root))
    if out is not None:
        picture(world, own, root or 0, out)
    found = table(world, trees)
    if as_json and root is not None:  # beside the first row, whose trees they are
        first, *others = found.records()
        print(json.dumps([{**first, "root": root, "tree": tree(own, root).records()}, *others], indent=1, ensure_ascii=False))
    else:
        show(found, as_json)
    if lines and not as_json:
        print("", f"The tree of agent {root}, {called}:", *lines, sep="\n")
    if out is not None:
        note(f"the picture is in {out}")


def bound(spec: SpecName, changes: Changes = None, seed: Seed = 1, as_json: AsJson = False) -> None:
    """Print what theory says of a study's regret.

    Bounds on the cumulative regret of every algorithm at the spec's first point: as the paper prints them, repaired, and sharp.
    """
    from mnemesh.lab.preview import FORMS, bounds, first_world

    table = bounds(first_world(spec_from(spec, changes, first_point=True), seed))
    if as_json:
        return show(table, as_json)
    show(table.without("notes"))
    print()
    for called, said in zip(table.column("algorithm"), table.column("notes"), strict=True):
        for told in dict.fromkeys(said.values()):
            forms = ", ".join(form.replace("_", " ") for form in FORMS if said[form] == told)
            print(f"{called}, {forms}: {told.rstrip('.')}.")
    return None
