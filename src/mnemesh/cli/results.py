"""`mnemesh plot` and `mnemesh compare`: look at results again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mnemesh.cli.options import AsJson, ResultsFolder
from mnemesh.cli.printing import show

__all__ = ["compare", "plot"]


def plot(results: ResultsFolder) -> None:
    """Draw results again, and write their report."""
    from mnemesh.lab import open_results
    from mnemesh.lab.report import report

    page = report(open_results(results))
    for path in (*sorted((page.parent / "figures").iterdir()), page):
        print(path)


def compare(
    first: ResultsFolder, second: Annotated[Path, typer.Argument(metavar="RESULTS", help="Another one.")], as_json: AsJson = False
) -> None:
    """Compare two studies run by run.

    Runs are paired by swept values, algorithm and seed; the difference in regret per round comes with its paired 95% interval.
    """
    from mnemesh.lab.summary import compare as paired

    show(paired(first, second), as_json)
