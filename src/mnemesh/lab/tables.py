"""Tables of numbers: kept as numbers, and worded only when they are shown."""

from __future__ import annotations

import json
import math
import textwrap
from dataclasses import dataclass
from html import escape
from typing import Any, final

import numpy as np

from mnemesh.errors import ShapeError, require

__all__ = ["Table", "shown"]

_WIDTH = 100  # of a note, in letters
_MANY = 7  # columns, above which a page shows them smaller


def shown(value: Any) -> str:
    """A value in words: numbers to four digits, several with commas, nothing for None."""
    value = _plain(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple):
        return ", ".join(map(shown, value))
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.4g}"
    text = f"{value:,.{max(0, 3 - math.floor(math.log10(abs(value))))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _finite(value: Any) -> Any:
    value = _plain(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


@final
@dataclass(frozen=True)
class Table:
    """Rows under named columns, with a title and a note that says what the numbers are.

    >>> print(Table("Delays", ("tree", "mean"), (("steiner", 4.98765), ("naive", 7.2))).text())
    Delays
    tree      mean
    -------  -----
    steiner  4.988
    naive      7.2
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        if len(set(self.columns)) < len(self.columns):
            raise ShapeError(f"the table {self.title!r} names a column twice, {list(self.columns)}: its rows could not be told apart by name.")
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ShapeError(f"a row of {len(row)} values in the table {self.title!r} of {len(self.columns)} columns: {row!r}.")

    def column(self, name: str) -> tuple[Any, ...]:
        """The values of one column."""
        place = self.columns.index(name)
        return tuple(row[place] for row in self.rows)

    def without(self, *names: str) -> Table:
        """The table without these columns."""
        kept = [i for i, name in enumerate(self.columns) if name not in names]
        return Table(self.title, tuple(self.columns[i] for i in kept), tuple(tuple(row[i] for i in kept) for row in self.rows), self.note)

    def records(self) -> list[dict[str, Any]]:
        """One dict per row: plain Python values, None for what is not finite."""
        return [dict(zip(self.columns, map(_finite, row), strict=True)) for row in self.rows]

    def json(self) -> str:
        """A JSON list of objects, one per row."""
        return json.dumps(self.records(), indent=1, ensure_ascii=False)

    def text(self) -> str:
        """Aligned plain text."""
        cells = [[" ".join(shown(value).split()) for value in row] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(self.columns, *cells)]
        right = self._numeric()

        def line(row: tuple[str, ...] | list[str]) -> str:
            return "  ".join(f"{text:>{w}}" if r else f"{text:<{w}}" for text, w, r in zip(row, widths, right)).rstrip()

        body = [line(self.columns), "  ".join("-" * width for width in widths), *map(line, cells)]
        return "\n".join([*([self.title] if self.title else []), *body, *textwrap.wrap(self.note, _WIDTH)])

    def html(self) -> str:
        """An HTML table with its caption and column headers, everything escaped."""
        kinds = [' class="number"' if right else "" for right in self._numeric()]
        head = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(self.columns, kinds))
        rows = ["".join(f"<td{kind}>{escape(shown(value))}</td>" for value, kind in zip(row, kinds)) for row in self.rows]
        body = "\n".join(f"<tr>{row}</tr>" for row in rows)
        note = f'\n<p class="note">{escape(self.note)}</p>' if self.note else ""
        many = ' class="many"' if len(self.columns) > _MANY else ""
        table = f"<table{many}>\n<caption>{escape(self.title)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
        return f'<div class="wide" role="region" aria-label="{escape(self.title)}" tabindex="0">{table}</div>{note}'

    def rich(self) -> Any:
        """A rich.table.Table."""
        tables, words = require("rich.table", "tables in a terminal"), require("rich.text", "tables in a terminal")
        made = tables.Table(title=words.Text(self.title) if self.title else None, caption=words.Text(self.note) if self.note else None)
        for name, right in zip(self.columns, self._numeric()):
            made.add_column(words.Text(name), justify="right" if right else "left")
        for row in self.rows:
            made.add_row(*(words.Text(shown(value)) for value in row))
        return made

    def _numeric(self) -> list[bool]:
        """Which columns hold numbers, and so stand to the right."""
        columns = [[value for value in column if value is not None] for column in (self.column(name) for name in self.columns)]
        return [bool(column) and all(isinstance(_plain(v), int | float) and not isinstance(_plain(v), bool) for v in column) for column in columns]
