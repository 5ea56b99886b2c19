"""How figures look: a colour, a marker and a line style for each algorithm, symbols on axes, ticks that do not crowd."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count, pairwise
from typing import Any, NamedTuple

from mnemesh.errors import require
from mnemesh.lab.spec import Line
from mnemesh.lab.tables import shown

__all__ = ["Style", "axis_name", "calm", "literal", "log_places", "number", "place_name", "set_ticks", "styles"]

_COLOURS = ("#009e73", "#0072b2", "#d55e00", "#777777", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # after Okabe and Ito
_MARKERS = ("s", "o", "^", "D", "v", "P", "X", "*", "<", ">", "h")
_LINES: tuple[Any, ...] = ((0, (5, 1.6)), "-", (0, (6, 1.5, 1.2, 1.5)), (0, (1.2, 1.4)), (0, (8, 2)), (0, (3, 1.2)), (0, (4, 1, 1, 1, 1, 1)))
_FAMILIAR = ("ogd", "dam_togd", "c_dogd", "local_ogd")
_SYMBOLS = {
    "rounds": ("rounds", "T"),
    "stream.correlation": ("correlation", r"\rho"),
    "interest.others": ("interest in others", "y_0"),
    "interest.own": ("interest in one's own", "y_1"),
    "stream.key_dim": ("size of keys", "d_k"),
    "stream.value_dim": ("size of values", "d_v"),
    "domain.radius": ("radius of the domain", "R"),
    "agents": ("agents", "N"),
    "topology.agents": ("agents", "N"),
}
_RC = {
    "svg.hashsalt": "mnemesh", "svg.fonttype": "path", "pdf.fonttype": 42, "font.family": "DejaVu Sans", "mathtext.fontset": "dejavusans",
    "font.size": 8.5, "axes.titlesize": 8.5, "axes.labelsize": 8.5, "xtick.labelsize": 7.5, "ytick.labelsize": 7.5, "legend.fontsize": 8,
    "axes.linewidth": 0.6, "axes.edgecolor": "#444444", "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.minor.width": 0.4, "ytick.minor.width": 0.4, "xtick.color": "#333333",
    "ytick.color": "#333333", "axes.labelcolor": "#111111", "text.color": "#111111", "figure.facecolor": "white", "savefig.facecolor": "white",
}  # fmt: skip


class Style(NamedTuple):
    """What tells one algorithm's line from another's, in colour and in grey."""

    colour: str
    marker: str
    line: Any


@contextmanager
def calm() -> Iterator[None]:
    """The same fonts and widths whatever the reader's matplotlibrc says; nothing global is left changed."""
    matplotlib = require("matplotlib", "figures")
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_RC)
        yield


def styles(lines: tuple[Line, ...], labels: tuple[str, ...]) -> dict[str, Style]:
    """One style per label. The paper's algorithms look alike in every figure; what else there is takes the styles left over."""
    kinds = {line.called: line.name for line in lines}
    taken: dict[str, int] = {}
    for label in labels:
        familiar = kinds.get(label) in _FAMILIAR and _FAMILIAR.index(kinds[label])
        if familiar is not False and familiar not in taken.values():
            taken[label] = familiar
    free = (i for i in count(len(_FAMILIAR)))
    order = {label: taken[label] if label in taken else next(free) for label in labels}
    return {label: Style(_COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)], _LINES[i % len(_LINES)]) for label, i in order.items()}


def literal(text: str, width: int = 0) -> str:
    """Text as it stands, with no mathematics read into it; wrapped to `width` letters if given."""
    text = textwrap.fill(text, width) if width else text
    return text.replace("$", r"\$")


def axis_name(key: str) -> str:
    """A swept key as it stands on an axis: in words, with the paper's symbol if there is one."""
    words, symbol = _SYMBOLS.get(key, (key, ""))
    return f"{words} ${symbol}$" if symbol else literal(words)


def place_name(place: Mapping[str, Any], width: int = 32) -> str:
    """The values of swept keys as a title, such as ρ = 0.5; on several lines where one would be longer than `width` letters."""
    lines: list[str] = []
    room = 0
    for key, value in place.items():
        symbol = _SYMBOLS.get(key, ("", ""))[1]
        told = f"${symbol}$ = {literal(shown(value))}" if symbol else literal(f"{key} = {shown(value)}", width)
        length = len(shown(value)) + (5 if symbol else len(key) + 3)
        if lines and length <= room:
            lines[-1] += f", {told}"
            room -= length + 2
        else:
            lines.append(told)
            room = width - length - 2
    return ",\n".join(lines)


def number(value: float, _place: int | None = None) -> str:
    """A tick: plain from 0.0001 to a million, as a power of ten elsewhere."""
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return f"{value:,.10g}".replace("-", "\N{MINUS SIGN}")
    mantissa, power = f"{value:.3e}".split("e")
    digits = f"{float(mantissa):g}"
    lead = {"1": "", "-1": "-"}.get(digits, digits + r"\times ")
    return f"${lead}10^{{{int(power)}}}$"


def log_places(low: float, high: float) -> list[list[float]]:
    """Where ticks may stand on a logarithmic axis that spans low..high, densest first: at 1, 2, 5; at 1, 3; at powers of ten; at fewer of these."""
    low, high = math.log10(low), math.log10(high)
    whole = range(math.floor(low), math.ceil(high) + 1)
    choices = [[d * 10.0**p for p in whole for d in digits if low - 1e-9 <= math.log10(d) + p <= high + 1e-9] for digits in ((1, 2, 5), (1, 3), (1,))]
    while len(choices[-1]) > 3:
        choices.append(choices[-1][::2])
    return [places for places in choices if len(places) > 1]


def set_ticks(axis: Any, choices: list[list[float]], most: int = 9) -> None:
    """The first of these choices whose labels leave room for each other; matplotlib's own ticks where there is none."""
    ticker = require("matplotlib.ticker", "figures")
    axis.set_major_formatter(ticker.FuncFormatter(number))
    axis.set_minor_formatter(ticker.NullFormatter())
    automatic = axis.get_major_locator()
    for places in choices:
        axis.set_major_locator(ticker.FixedLocator(places))
        if len(places) <= most and _roomy(axis):
            return
    axis.set_major_locator(automatic if axis.get_scale() == "linear" else ticker.MaxNLocator(4))


def _roomy(axis: Any, gap: float = 5.0) -> bool:
    boxes = [label.get_window_extent() for label in axis.get_ticklabels() if label.get_text()]
    ends = sorted((box.x0, box.x1) if axis.axis_name == "x" else (box.y0, box.y1) for box in boxes)
    return all(before[1] + gap <= after[0] for before, after in pairwise(ends))
