"""`mnemesh run` and `mnemesh reproduce`: play a study, and say where its results are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from mnemesh.cli.endings import DISAGREES, STOPPED, end
from mnemesh.cli.options import AsJson, Changes, DaskAddress, Seeds, SpecName, Workers, executor, names_of, place, spec_from, whole
from mnemesh.cli.printing import note, progress_bar, show, span

__all__ = ["reproduce", "run"]


@contextmanager
def _kept(folder: Path, fresh: bool = False) -> Iterator[None]:
    """Ctrl-C says what is kept, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        end(f"stopped; finished batches are kept in {folder}, and the same command{' without --fresh' if fresh else ''} goes on from there.", STOPPED)


def _panels(incomplete: str) -> list[str]:
    from mnemesh.lab.paper import PANELS

    return [name for name in ("all", *PANELS) if name.startswith(incomplete)]


def run(
    spec: SpecName,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", parser=place, help="Where results go; out/NAME-DIGEST unless given.")] = None,
    seeds: Seeds = None,
    changes: Changes = None,
    engine: Annotated[str | None, typer.Option(metavar="NAME", help="auto, numpy, numba or jax.", autocompletion=names_of("engines"))] = None,
    workers: Workers = None,
    dask: DaskAddress = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute every batch again, finished ones, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a study, keep its results, and draw them."""
    from mnemesh import lab
    from mnemesh.lab.report import report
    from mnemesh.lab.summary import regret_table

    study = spec_from(spec, changes, seeds=seeds, engine=engine)
    folder = out or Path("out") / f"{study.name}-{study.digest}"
    started = time.monotonic()
    with _kept(folder, fresh), executor(dask, workers) as pool, progress_bar() as progress:
        results = lab.run(study, folder, executor=pool, progress=progress, fresh=fresh)
    computed = time.monotonic()
    page = report(results)
    show(regret_table(results), as_json)
    note(f"computed in {span(computed - started)}, drawn in {span(time.monotonic() - computed)}")
    note(f"results in {folder}, pictures in {folder / 'figures'}, all of it in {page}")


def reproduce(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="fig1a, fig1b, fig1c, fig1d, or all of Figure 1.", autocompletion=_panels)] = "all",
    seeds: Annotated[int | None, typer.Option(metavar="N", parser=whole, help="Seeds 1 to N; 20 unless given, 5 with --quick.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Half of the swept values, 2,500 rounds, few seeds: a first look.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", parser=place, help="Where results go; out/paper-20, or out/quick with --quick, unless given; with --seeds N, out/paper-N or out/quick-N."),
    ] = None,
    workers: Workers = None,
    dask: DaskAddress = None,
    as_json: AsJson = False,
) -> None:
    """Reproduce Figure 1 of the paper and check its findings.

    Each panel's results go to a folder of their own; report.html is on all of them, report-fig1b.html on one alone. A finding that fails ends the command with exit code 3.
    """
    from mnemesh.lab import paper
    from mnemesh.lab.findings import findings_table
    from mnemesh.lab.summary import regret_table

    folder = out or Path("out") / (("quick" if quick else "paper-20") if seeds is None else f"{'quick' if quick else 'paper'}-{seeds}")
    started = time.monotonic()
    with _kept(folder), executor(dask, workers) as pool, progress_bar() as progress:
        page, played, found = paper.reproduce(what, seeds=seeds, quick=quick, out=folder, executor=pool, progress=progress)
    if len(played) == 1 and not as_json:
        show(regret_table(played[0]))
        print()
    if found or as_json:
        show(findings_table(found), as_json)
    note(f"computed and drawn in {span(time.monotonic() - started)}")
    pictures = f"{folder / 'figures'} and in each panel's own" if what == "all" else f"{folder / what / 'figures'}"
    note(f"results in {folder}, pictures in {pictures}, all of it in {page}")
    failed = [f"1({each.panel}) {each.claim}" for each in found if each.verdict == "fails"]
    if failed:
        end(f"{len(failed)} of {len(found)} findings failed: {'; '.join(failed)}.", DISAGREES)
