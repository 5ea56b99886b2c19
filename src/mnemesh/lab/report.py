"""A report on results: one HTML page that holds its figures, its numbers and what it takes to make it again, and needs nothing from outside."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import final

import numpy as np

from mnemesh.errors import ResultsError, SpecError, require
from mnemesh.lab.figures import described, draw
from mnemesh.lab.findings import Finding, findings_note
from mnemesh.lab.gather import averaged, runs
from mnemesh.lab.hindrances import why
from mnemesh.lab.panels import ONE_SEED, Plan, plan
from mnemesh.lab.record import Results
from mnemesh.lab.spec import read, shipped
from mnemesh.lab.summary import bounds_table, exponents, rates_table, regret_table, traffic_table
from mnemesh.lab.tables import Table
from mnemesh.lab.tables import shown as worded
from mnemesh.lab.variants import variants_table

__all__ = ["RULE", "Picture", "Section", "picture", "report", "section", "write"]

RULE = (
    "Where a spec says c = \"tuned\", the c of c/√(t − τ_min) is chosen by one rule for every algorithm at every point of the sweep: all c of a logarithmic "
    "grid are tried on seeds that are none of those reported, the grid is extended while the best c sits at its edge, and the c of least mean regret "
    "at the end is taken."
)
_AGAIN = "Batches that are finished are kept in the folder: the same command goes on where it was stopped. The same machine, versions and number of threads give the same bytes."


@final
@dataclass(frozen=True)
class Picture:
    """A figure as part of a page: its bytes as a data: address, and what it shows in words."""

    source: str
    words: str
    caption: str
    width: float  # rem


@final
@dataclass(frozen=True)
class Section:
    """What a report says of one sweep."""

    name: str
    title: str
    about: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    numbers: Table | None = None
    tables: tuple[Table, ...] = ()
    toml: str = ""
    versions: tuple[tuple[str, str], ...] = ()
    command: str = ""


def picture(svg: Path, words: str, caption: str) -> Picture:
    """An SVG file as part of a page."""
    try:
        held = svg.read_bytes()
    except OSError as missing:
        raise ResultsError(f"the figure {svg} cannot be read ({missing.strerror}): draw it first.") from missing
    inches = re.search(rb'<svg [^>]*?width="([\d.]+)pt"', held)
    width = float(inches[1]) / 72 if inches else 6.0
    return Picture(f"data:image/svg+xml;base64,{base64.b64encode(held).decode()}", words, caption, round(8.6 * width, 1))


def section(results: Results, figures: Iterable[Path] | None = None) -> Section:
    """What there is to say of these results; `figures` are those that `draw` has saved, and are drawn if not given."""
    spec, shown = results.spec, plan(results)
    drawn = [path for path in (draw(results, shown=shown) if figures is None else figures) if path.suffix == ".svg"]
    captions = [_caption(results, shown), f"Regret beside the delays and messages of the routing trees, {_spread(results)}."]
    alternatives = [described(results, shown), "Regret per round, mean delay and messages a round of every kind of routing trees; the numbers are in the tables below."]
    tables = (variants_table(results), exponents(results), bounds_table(results), rates_table(results), traffic_table(results))
    return Section(
        name=spec.name,
        title=spec.title or spec.name,
        about=tuple(filter(None, (" ".join(text.split()) for text in spec.about.split("\n\n")))),
        pictures=tuple(picture(*each) for each in zip(drawn, alternatives, captions)),
        numbers=_numbers(results, shown),
        tables=tuple(table for table in tables if table.rows),
        toml=spec.text,
        versions=tuple(sorted(results.versions.items())),
        command=_command(results),
    )


def write(
    path: Path, sections: Sequence[Section], *, title: str = "", about: Sequence[str] = (), pictures: Sequence[Picture] = (),
    findings: Sequence[Finding] = (), settings: Table | None = None, commands: Sequence[str] = (),
) -> Path:  # fmt: skip
    """The page, at `path`; returns it. Of several sections, each begins with its own heading."""
    jinja2 = require("jinja2", "reports")
    template = (resources.files(__package__) / "report.html.jinja").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=False)
    page = environment.from_string(template).render(
        title=title or (sections[0].title if sections else "Report"), about=about, sections=sections, pictures=pictures, findings=findings,
        note=findings_note(findings), settings=settings, versions=_versions(sections), again=(_AGAIN,), commands=commands or [each.command for each in sections],
        rule=RULE, chosen_title="How c was chosen", worded=worded,
    )  # fmt: skip
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    except OSError as refused:
        raise ResultsError(f"{path} cannot be written ({why(path, refused)}): choose another place for the report.") from refused
    return path


def report(*results: Results, path: Path | None = None) -> Path:
    """Figures and a page about these results, at `path` or as report.html in the folder of the first."""
    if not results:
        raise ResultsError("a report on no results would be empty: pass at least one.")
    title = results[0].spec.title or results[0].spec.name if len(results) == 1 else " and ".join(each.spec.name for each in results)
    return write(path or results[0].folder / "report.html", [section(each) for each in results], title=title)


def _numbers(results: Results, shown: Plan) -> Table:
    """The numbers behind the figure: at every horizon where it is drawn against T."""
    if shown.x != "rounds":
        return _titled(regret_table(results), "The numbers behind the figure")
    horizons = np.unique(np.concatenate([run.horizons for run in runs(results).values()]))
    return _titled(regret_table(results, horizons.tolist()), "The numbers behind the figure")


def _titled(table: Table, title: str) -> Table:
    return Table(title, table.columns, table.rows, table.note)


def _caption(results: Results, shown: Plan) -> str:
    notes = [note for note in shown.notes if note != ONE_SEED]  # which the first sentence says already
    return " ".join((f"{results.spec.title or results.spec.name}: network regret per round, {_spread(results)}.", *notes))


def _spread(results: Results) -> str:
    return averaged(results) + (" with 95% intervals (Student's t)" if len(results.spec.seed_list) > 1 else ", no intervals")


def _command(results: Results) -> str:
    """How the results came about."""
    spec = results.spec
    own = spec.name
    if spec.name not in shipped() or _told(spec.name) != spec.text:
        return f"mnemesh run {own}.toml --out {own}    # {own}.toml: the spec above"
    return f"mnemesh run {own} --out {own}"


def _told(name: str) -> str:
    try:
        return read(name).text
    except SpecError:
        return ""


def _versions(sections: Sequence[Section]) -> Table | None:
    rows = tuple(dict.fromkeys(pair for each in sections for pair in each.versions))
    return Table("Versions", ("library", "version"), rows) if rows else None

