"""The report: one page that needs nothing from outside, says what it shows, and escapes what it is told. And the paper's figure, end to end."""

import base64
import importlib
import re
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser

import numpy as np
import pytest

import mnemesh as mm
from mnemesh.errors import ResultsError, SpecError
from mnemesh.lab import open_results, read, shipped
from mnemesh.lab import paper as reproduction
from mnemesh.lab.findings import findings
from mnemesh.lab.panels import plan
from mnemesh.lab.report import RULE, report, section, write
from synthetic import PANELS, make, paper, spec

VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """What is on a page: tags with their attributes, and the text; every tag that is opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.open = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def read_page(path):
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    for _, attrs in page.tags:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            assert not attrs.get(name) or re.match(r"data:image/svg\+xml;base64,|#", attrs[name]), attrs
    assert not re.search(r"url\(|@import|<script|<link|<iframe|<object", text)
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids)) and {attrs["href"][1:] for attrs in page.all("a")} <= set(ids)
    assert all(len(image["alt"]) > 40 for image in page.all("img"))
    assert all(header["scope"] == "col" for header in page.all("th")) and len(page.all("caption")) == len(page.all("table"))
    return page


def test_a_report_holds_figures_numbers_and_how_to_make_it_again(tmp_path):
    results = make(tmp_path / "c", spec("fig1c"))
    path = report(results)
    assert path == tmp_path / "c" / "report.html"
    page = read_page(path)
    (image,) = page.all("img")
    drawn = base64.b64decode(image["src"].partition(",")[2])
    assert drawn == (tmp_path / "c" / "figures" / "fig1c.svg").read_bytes()
    for words in ("A study", "The numbers behind the figure", "Exponents of cumulative regret", "Bounds against measurement", "How c was chosen",
                  "Messages a round and delays", "stream.correlation", "mnemesh run fig1c.toml", "numpy", "means over 5 seeds", RULE):  # fmt: skip
        assert words in page.text, words
    mean = np.mean([paper({"stream.correlation": 0.25}, "C-DOGD", seed, 2500) / 2500 for seed in (1, 2, 3, 4, 5)])
    assert f"{mean:.2f}" in page.text
    assert path.read_bytes() == report(results, path=tmp_path / "again.html").read_bytes()


def test_whatever_a_spec_says_is_text(tmp_path):
    wicked = "<script>alert('&')</script>"
    told = spec("w", ('"stream.correlation" = [0.0, 1.0]',), (("ogd", f"{wicked}$x_"), ("c_dogd", "b")), title=wicked, about=f"One {wicked}.\\n\\nTwo.")
    page = read_page(report(make(tmp_path / "w", told)))
    assert not page.all("script") and page.text.count("alert('&')") >= 4
    assert wicked in page.text


def test_several_results_make_one_report_and_none_is_refused(tmp_path):
    results = [make(tmp_path / name, spec(name)) for name in PANELS]
    path = write(tmp_path / "all.html", [section(each) for each in results], title="All", findings=findings(results))
    page = read_page(path)
    assert page.text.count("✓ holds") == 10 and len(page.all("img")) == 3
    failing = findings([make(tmp_path / "bad" / "fig1d", spec("fig1d"), lambda place, label, seed, T: paper({}, label, seed, T) * place["interest.others"])])
    assert "✗ fails" in read_page(write(tmp_path / "bad.html", [], title="Bad", findings=failing)).text
    assert "and fig1d" in read_page(report(*results, path=tmp_path / "joint.html")).text
    with pytest.raises(ResultsError, match="at least one"):
        report()
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="cannot be written"):
        write(tmp_path / "file" / "report.html", [], title="x")


@pytest.mark.parametrize("trouble", [float("inf"), -1.0, 0.0])
def test_a_report_survives_regret_of_any_kind(trouble, tmp_path):
    troubled = make(tmp_path, spec("t", ('"stream.correlation" = [0.0, 1.0]',), seeds=1), lambda *_: trouble)
    page = read_page(report(troubled))
    assert "over 1 seed" not in page.text and "means over" not in page.text and "Mean over" not in page.text and "intervals from" not in page.text
    (image,) = page.all("img")
    assert ", one seed. OGD " in image["alt"] and " inf " not in image["alt"] and "one seed, no intervals." in page.text and page.text.count("One seed: no intervals") == 1


def test_one_seed_has_findings_without_intervals(tmp_path):
    found = findings([make(tmp_path, spec("fig1d", seeds=1))])
    page = read_page(write(tmp_path / "report.html", [], title="One", findings=found))
    assert "without intervals: one seed says nothing about the spread" in page.text and "means over the seeds" not in page.text


@pytest.mark.parametrize("name", ["again", "findings", "settings", "the-findings", "to-run-again", "study-1"])
def test_a_study_may_be_called_like_a_part_of_the_page(name, tmp_path):
    results = make(tmp_path, spec(name, seeds=2))
    read_page(write(tmp_path / "page.html", [section(results), section(results)], title="x", findings=findings([results])))


def test_a_report_takes_its_panels_from_the_results_once(tmp_path, monkeypatch):
    results, asked = make(tmp_path, spec("fig1c", seeds=2)), []
    for module in ("figures", "report"):
        found = importlib.import_module(f"mnemesh.lab.{module}")
        monkeypatch.setattr(found, "plan", lambda given: asked.append(given) or plan(given))
    report(results)
    assert len(asked) == 1


@pytest.mark.parametrize("name", shipped())
def test_a_quick_spec_is_a_smaller_one_of_the_same_kind(name):
    whole = read(name)
    less = reproduction.quick(whole)
    assert less.seed_list == whole.seed_list[:5] and less.rounds == min(whole.rounds, 2500) and less.tuning == whole.tuning
    assert ("goes on beyond" in whole.about) == (name == "fig1b") and "goes on beyond" not in less.about
    assert less.about.strip() and less.about.split() == whole.about.split()[: len(less.about.split())]
    assert less.swept == whole.swept and less.algorithms == whole.algorithms and less.horizon_list[-1] == less.rounds
    for axis, before in zip(less.sweep, whole.sweep, strict=True):
        for (_, kept), (_, values) in zip(axis.columns, before.columns, strict=True):
            assert (kept[0], kept[-1]) == (values[0], values[-1]) and set(kept) <= set(values) and len(kept) == len(values) // 2 + 1


def tiny(name):
    """A shipped spec that takes no time."""
    axes = [{key: [values[0], values[-1]] for key, values in axis.columns} for axis in read(name).sweep]  # numbers, all of them
    stream = {"name": "teacher", "key_dim": 2, "value_dim": 2, "correlation": 0.75}
    return read(name).with_(rounds=40, horizons=(20, 40), engine="numpy", sweep=axes, stream=stream, tuning={"grid": [0.2, 0.4], "seeds": 1, "rounds": 20})


def test_figure_1_from_nothing_to_a_report(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduction, "read", tiny)
    told = []
    with ThreadPoolExecutor(1) as pool:
        path, results, found = reproduction.reproduce("all", seeds=2, out=tmp_path, executor=pool, progress=lambda *step: told.append(step))
    page = read_page(path)
    assert [each.spec.name for each in results] == list(PANELS) and found == findings(results) and len(found) == 10
    assert path == tmp_path / "report.html" and len(page.all("img")) == 5
    for words in ("Figure 1(a): the network", "Figure 1(d)", "What the paper leaves open", "not measured", f"mnemesh reproduce all --seeds 2 --out {tmp_path}", "Metropolis"):
        assert words in page.text, words
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {"figure1.png", "figure1.svg", "figure1.pdf"}
    assert (tmp_path / "fig1a" / "figures" / "fig1a.pdf").exists()
    assert [open_results(tmp_path / name).spec.seeds for name in PANELS] == [2, 2, 2]
    parts, totals = [done for done, _, _ in told], {total for _, total, _ in told}
    assert parts == sorted(parts) and len(totals) == 1 and totals.pop() == pytest.approx(parts[-1]) and told[0][2].startswith("fig1b: ")


@pytest.mark.parametrize(("settings", "seeds", "command"), [
    ({}, 20, "fig1d"), ({"quick": True}, 5, "fig1d --quick"), ({"quick": True, "seeds": 1}, 1, "fig1d --quick --seeds 1"), ({"seeds": 3}, 3, "fig1d --seeds 3"),
])  # fmt: skip
def test_the_seeds_that_are_asked_for_are_played(settings, seeds, command, tmp_path, monkeypatch):
    monkeypatch.setattr(reproduction, "read", tiny)
    with ThreadPoolExecutor(1) as pool:
        page, (results,), found = reproduction.reproduce("fig1d", out=tmp_path, executor=pool, **settings)
    assert len(results.spec.seed_list) == seeds and len(found) == 2 and page == tmp_path / "report-fig1d.html"
    text = read_page(page).text
    assert f"mnemesh reproduce {command} --out {tmp_path}" in text
    assert ("the quick version" in text) == ("quick" in settings) and ("and one seed." in text) == (seeds == 1)


def test_the_network_alone_needs_no_simulation(tmp_path):
    (tmp_path / "report.html").write_text("the report on all of it")
    path, results, found = reproduction.reproduce("fig1a", out=tmp_path)
    page = read_page(path)
    assert "20 agents" in page.text and "Findings" not in page.text and (results, found) == ((), ())
    assert path == tmp_path / "report-fig1a.html" and (tmp_path / "report.html").read_text() == "the report on all of it"
    trees = mm.routing.steiner(mm.topology.default(), mm.interest.dirichlet(20, own=10.0, others=2.0, seed=1))
    assert f"agent 0 hears of them, 2 to {trees.delay[0].max()} rounds" in page.text
    with pytest.raises(SpecError, match="did you mean 'fig1b'"):
        reproduction.reproduce("fig1B", out=tmp_path)


def test_the_settings_are_those_of_the_spec():
    table = reproduction.settings(read("fig1b"))
    assert "d_k = 10, d_v = 10" in table.column("here") and "ball(radius=500.0): every optimum lies well inside" in table.column("here")
    other = read("fig1b").with_(stream={"name": "teacher", "key_dim": 3, "value_dim": 4, "correlation": 0.75})
    assert "d_k = 3, d_v = 4" in reproduction.settings(other).column("here")
