"""`mnemesh plot` and `mnemesh compare`: look at results again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mnemesh.cli.options import AsJson, ResultsFolder, place
from mnemesh.cli.printing import show

if TYPE_CHECKING:
    from mnemesh.lab import Results

__all__ = ["compare", "plot"]


def plot(results: ResultsFolder) -> None:
    """Draw results again, and write their report."""
    from mnemesh.lab.report import report

    page = report(_opened(results))
    for path in (*sorted((page.parent / "figures").iterdir()), page):
        print(path)


def compare(
    first: ResultsFolder, second: Annotated[Path, typer.Argument(metavar="RESULTS", parser=place, help="Another one.")], as_json: AsJson = False
) -> None:
    """Compare two studies run by run.

    Runs are paired by swept values, algorithm and seed; the difference in regret per round comes with its paired 95% interval.
    """
    from mnemesh.lab.summary import compare as paired

    show(paired(_opened(first), _opened(second)), as_json)


def _opened(folder: Path) -> Results:
    """The results in a folder; of one that has none, where they are or what became of them."""
    from mnemesh.errors import ResultsError
    from mnemesh.lab import open_results

    if folder.is_dir() and not (folder / "results.parquet").exists():
        inside = sorted(str(table.parent) for table in folder.glob("*/results.parquet"))
        if inside:
            raise ResultsError(f"{str(folder)!r} holds the results of several studies, each in a folder of its own: name one of {', '.join(inside)}.")
        if (folder / "spec.toml").exists():
            again = shlex.join(["mnemesh", "run", str(folder / "spec.toml"), "--out", str(folder)])
            raise ResultsError(f"the study in {str(folder)!r} was not finished, and has no results.parquet yet: `{again}` goes on where it was stopped.")
    return open_results(folder)
