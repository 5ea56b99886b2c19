"""What a command says: tables on stdout, everything about its progress on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mnemesh.lab.tables import Table

__all__ = ["Clock", "note", "progress_bar", "show", "span"]

_PAUSE = 10.0  # seconds between two lines where there is no terminal to redraw


def show(table: Table, as_json: bool = False) -> None:
    """Print a table: as JSON, as a rich table in a terminal, as plain text elsewhere."""
    if as_json:
        print(table.json())
    elif sys.stdout.isatty():
        _show_in_terminal(table)
    else:
        print(table.text())


def _show_in_terminal(table: Table) -> None:
    """As a table if it fits without breaking a word or a number, as one block a row if it does not."""
    from rich import box
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    longest = [max(len(word) for cell in (name, *_cells(table, name)) for word in (cell.split() or [""])) for name in table.columns]
    if sum(longest) + 2 * len(longest) <= console.width:
        drawn = table.rich()
        drawn.box, drawn.show_edge, drawn.padding = box.SIMPLE_HEAD, False, (0, 1, 0, 0)
        drawn.title = drawn.caption = None
        for column, width in zip(drawn.columns, longest, strict=True):
            column.min_width = width
        console.print(*([table.title] if table.title else []), drawn, *([table.note] if table.note else []), sep="\n")
        return
    width = max(map(len, table.columns))
    blocks = ["\n".join(f"{name:<{width}}  {cell}".rstrip() for name, cell in zip(table.columns, cells)) for cells in zip(*(_cells(table, name) for name in table.columns))]
    console.print("\n\n".join(filter(None, (table.title, *blocks, table.note))))


def _cells(table: Table, name: str) -> list[str]:
    from mnemesh.lab.tables import shown

    return [shown(value) for value in table.column(name)]


def note(message: str) -> None:
    """One line beside the output proper."""
    print(message, file=sys.stderr, flush=True)


def span(seconds: float) -> str:
    """A stretch of time as a person says it.

    >>> span(0.42), span(75.0), span(7380.0)
    ('0.4 s', '1:15', '2:03:00')
    """
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Clock:
    """How long the work will still take, if it goes on at its pace so far."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._start = self._told = now()
        self._left: float | None = None

    def tell(self, done: float, total: float) -> None:
        """So much of the work is done."""
        self._told = self._now()
        self._left = (self._told - self._start) * (total - done) / done if done > 0 else None

    @property
    def left(self) -> float | None:
        """Seconds that remain, None while nobody can know."""
        return None if self._left is None else max(self._left - (self._now() - self._told), 0.0)

    @property
    def words(self) -> str:
        """What remains, in words; nothing where it is over or unknown."""
        return f"about {span(self.left)} left" if self.left else ""


@contextmanager
def progress_bar() -> Iterator[Callable[[float, float, str], None]]:
    """Gives a function of (done, total, words): a bar in a terminal, a line now and then elsewhere; both on stderr."""
    clock = Clock()
    with _bar(clock) if sys.stderr.isatty() else _lines(clock) as tell:

        def told(done: float, total: float, words: str) -> None:
            tell(*((done, total) if total else (1.0, 1.0)), words)  # nothing to do is all done

        yield told


@contextmanager
def _lines(clock: Clock) -> Iterator[Callable[[float, float, str], None]]:
    last = start = time.monotonic()

    def tell(done: float, total: float, words: str) -> None:
        nonlocal last
        clock.tell(done, total)
        now = time.monotonic()
        if now - last >= _PAUSE:
            last = now
            note(", ".join(part for part in (f"{words}: {done / total:.0%}", f"{span(now - start)} so far", clock.words) if part))

    yield tell


@contextmanager
def _bar(clock: Clock) -> Iterator[Callable[[float, float, str], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Left(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text(clock.words)

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), Left())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def tell(done: float, total: float, words: str) -> None:
            clock.tell(done, total)
            bar.update(task, completed=done, total=total, description=words)

        yield tell
