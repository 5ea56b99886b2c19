"""The numbers behind the figures: against scipy, against closed forms, and findings that hold and that fail."""

import json
import tracemalloc

import numpy as np
import pyarrow
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from mnemesh.errors import ResultsError, ShapeError
from mnemesh.lab import gather, summary
from mnemesh.lab.findings import Finding, findings, findings_table
from mnemesh.lab.intervals import interval, jackknife
from mnemesh.lab.tables import Table, shown
from mnemesh.lab.variants import variants_table
from synthetic import PANELS, make, paper, spec

numbers = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.lists(numbers, min_size=2, max_size=30))
def test_intervals_are_student_s(values):
    mean, low, high = interval(values)
    if np.ptp(values) > 1e-6 * (1 + np.abs(values).max()):  # scipy has no interval of width 0
        expected = scipy.stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=scipy.stats.sem(values))
        np.testing.assert_allclose((low, high), expected, rtol=1e-7, atol=1e-9)
    assert mean == pytest.approx(np.mean(values))
    np.testing.assert_allclose(jackknife(lambda seeds: float(seeds.mean()), values), (mean, low, high), rtol=1e-6, atol=1e-6)


def test_one_seed_says_nothing_about_the_spread_and_infinity_stays_infinite():
    assert interval([3.0])[0] == 3.0 and np.isnan(interval([3.0])[1:]).all()
    assert interval([1.0, np.inf])[0] == np.inf and np.isnan(interval([1.0, np.inf])[1:]).all()
    assert np.isnan(interval([]).mean)
    assert np.isnan(jackknife(lambda seeds: float(np.log(seeds.mean())), [-1.0, -2.0])).all()


def test_the_jackknife_of_a_ratio_is_close_to_fieller_s_interval():
    rng = np.random.default_rng(1)
    above, below = rng.normal(10, 0.3, 40), rng.normal(5, 0.2, 40)
    ratio, low, high = jackknife(lambda seeds: float(seeds[:, 0].mean() / seeds[:, 1].mean()), np.stack([above, below], 1))
    spread = np.sqrt(np.var(above - 2 * below, ddof=1) / 40) / 5  # the delta method at ratio 2
    assert ratio == pytest.approx(above.mean() / below.mean())
    assert (high - low) / 2 == pytest.approx(scipy.stats.t.ppf(0.975, 39) * spread, rel=0.05)


@pytest.fixture
def power(tmp_path):
    """Reg(T) = 3 seed T^p, p by algorithm."""
    exponents = {"OGD": 0.2, "DAM-TOGD": 0.5, "C-DOGD": 0.9}
    return make(tmp_path / "power", spec(), lambda place, label, seed, T: 3.0 * seed * T ** exponents[label]), exponents


def test_slopes_and_exponents_are_those_of_the_power_law(power):
    results, exponents = power
    for table, less in ((summary.slopes(results, 1250, 2500), 1.0), (summary.exponents(results), 0.0)):
        found = dict(zip(table.column("algorithm"), table.column("slope" if less else "exponent"), strict=True))
        assert found == {label: pytest.approx(p - less) for label, p in exponents.items()}
    assert not summary.slopes(results, 2500, 9999).rows  # beyond the last horizon
    (point, label), run = next(iter(gather.runs(results).items()))
    assert (point, label) == (0, "OGD") and summary.slope(run, 1250, 2500).mean == pytest.approx(-0.8)  # between horizons, too


def test_labels_come_in_the_spec_s_order_and_runs_in_that_of_points_whatever_the_rows_do(tmp_path):
    results = make(tmp_path, spec("fig1c", seeds=3))
    mixed = np.random.default_rng(1).permutation(results.results.num_rows)
    shuffled = type(results)(results.folder, results.spec, results.versions, results.results.take(mixed), results.tuning)
    assert gather.labels(shuffled) == ("OGD", "DAM-TOGD", "C-DOGD")
    found = gather.runs(shuffled, "regret")
    assert list(found) == [(point, label) for point in range(5) for label in gather.labels(results)]
    for (point, label), run in found.items():
        place = gather.places(results)[point]
        assert run.seeds.tolist() == [1, 2, 3] and run.horizons.tolist() == results.spec.horizon_list.tolist()
        np.testing.assert_allclose(run.values, [[paper(place, label, seed, T) for T in run.horizons.tolist()] for seed in (1, 2, 3)])


def test_labels_of_many_rows_are_found_without_a_python_string_for_each(tmp_path):
    """A million rows, and less than a megabyte."""
    results = make(tmp_path, spec("fig1b", seeds=10, horizons=10))
    large = type(results)(results.folder, results.spec, results.versions, pyarrow.concat_tables([results.results] * 3000), results.tuning)
    tracemalloc.start()
    assert gather.labels(large) == ("OGD", "DAM-TOGD", "C-DOGD")
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_rows_that_are_missing_are_noticed(tmp_path):
    results = make(tmp_path / "b", spec())
    cut = results.results.slice(1)
    with pytest.raises(ResultsError, match="rows are missing or double"):
        gather.runs(type(results)(results.folder, results.spec, results.versions, cut, results.tuning))


def test_regret_is_told_at_the_horizons_asked_for(tmp_path):
    results = make(tmp_path / "b", spec(horizons=(100, 1250, 2500, 5000)))
    assert set(summary.regret_table(results).column("T")) == {5000}
    table = summary.regret_table(results, [1250, 2501, 3500])
    assert table.column("T") == (1250, 2500) * 3  # 3,500 was not recorded
    assert table.column("algorithm") == ("OGD", "OGD", "DAM-TOGD", "DAM-TOGD", "C-DOGD", "C-DOGD")
    assert set(table.column("c")) == {0.8}


def test_a_bound_that_is_crossed_is_counted(tmp_path):
    crossing = {"bound_sharp": lambda place, label, seed, T: 1e4 * T if (label, seed, T) != ("DAM-TOGD", 2, 5000) else 1.0}
    results = make(tmp_path / "b", spec(algorithms=("ogd", "dam_togd", "c_dogd"), horizons=(100, 5000)), **crossing)
    rows = {row["algorithm"]: row for row in summary.bounds_table(results).records()}
    assert rows["OGD"]["crossed"] == 0 and rows["OGD"]["closest"] < 1
    assert rows["DAM-TOGD"]["crossed"] == 1 and rows["DAM-TOGD"]["closest"] == pytest.approx(paper({}, "DAM-TOGD", 2, 5000))
    assert rows["OGD"]["regret / bound"] == pytest.approx(rows["OGD"]["regret"] / 5e7)


def test_a_rate_at_the_edge_of_its_grid_is_told(tmp_path):
    results = make(tmp_path / "b", spec())
    (column,) = {summary.rates_table(results).column("at edge")}
    assert column == (False,) * 3 and summary.rates_table(results).column("c") == (0.8,) * 3
    tuning = results.tuning.set_column(results.tuning.schema.get_field_index("chosen"), "chosen", [[c == 1.6 for c in results.tuning["c"].to_pylist()]])
    moved = type(results)(results.folder, results.spec, results.versions, results.results, tuning)
    assert summary.rates_table(moved).column("at edge") == (True,) * 3


def test_the_round_at_which_rates_are_chosen_is_told(tmp_path):
    note = lambda name, **changes: summary.rates_table(make(tmp_path / name, spec("x", ("rounds = [1000, 2500]",) if "swept" in name else ()).with_(**changes))).note  # noqa: E731
    assert "at T = 2,500, mean over the tuning seeds, which are none" in note("one")
    assert "at T = 500, on one tuning seed, which is none" in note("two", tuning={"rounds": 500, "seeds": 1})
    assert "at the end of each point's tuning rounds, mean" in note("swept")
    assert "at T = 500, mean" in note("swept, at one T", tuning={"rounds": 500})


def test_what_cannot_be_negative_has_no_negative_interval(tmp_path):
    """OGD and DAM-TOGD change places from seed to seed, and are alike in the mean."""

    def near(place, label, seed, T):
        sign = {"OGD": 1, "DAM-TOGD": -1}.get(label, 0)
        return paper(place, "C-DOGD", 1, T) + sign * T * (-1) ** seed * 30.0 * (place["stream.correlation"] == 1)

    alike = next(each for each in findings([make(tmp_path, spec("fig1c"), near)]) if "alike" in each.claim)
    assert alike.low == 0.0 < alike.measured < alike.high


def test_traffic_is_told_once_where_it_is_the_same(tmp_path):
    results = make(tmp_path / "c", spec("fig1c"))
    assert summary.traffic_table(results).column("algorithm") == ("DAM-TOGD", "C-DOGD")
    moved = make(tmp_path / "m", spec("fig1c"), delay_mean=lambda place, label, *_: 5 + place["stream.correlation"] if label == "DAM-TOGD" else None)
    table = summary.traffic_table(moved)
    assert table.column("mean delay") == (5.0, None, 5.25, 5.5, 5.75, 6.0) and table.column("stream.correlation")[1] is None


def test_variants_are_told_against_the_first_line_of_their_algorithm_seed_by_seed(tmp_path):
    """20% more regret on every seed, give or take what the seeds say; C-DOGD stands alone and is in no row."""
    more = {seed: 1.2 + 0.01 * (seed - 3) for seed in range(1, 6)}
    told = spec(algorithms=(("dam_togd", "DAM one"), ("dam_togd", "DAM two"), "c_dogd"))
    base = lambda place, label, seed, T: T * (10.0 + seed) * (more[seed] if label == "DAM two" else 1.0)  # noqa: E731
    messages = lambda place, label, seed, T: 80 if label == "DAM two" else 100  # noqa: E731
    table = variants_table(make(tmp_path, told, lambda *at: base(*at) if at[2] in more else 1.0, messages=messages))
    (row,) = table.records()
    mine = np.array([10.0 + seed for seed in more])
    differences = 100 * mine * (np.array(list(more.values())) - 1) / mine.mean()
    residuals = differences - differences.mean() * mine / mine.mean()  # of a ratio of means, by the delta method
    expected = scipy.stats.t.interval(0.95, 4, differences.mean(), scipy.stats.sem(residuals))
    assert (row["variant"], row["against"]) == ("DAM two", "DAM one")
    assert row["regret, %"] == pytest.approx(differences.mean())
    assert (row["low"], row["high"]) == pytest.approx(expected, rel=0.02)
    assert row["messages, %"] == pytest.approx(-20)
    assert not variants_table(make(tmp_path / "none", spec())).rows


def test_comparing_tells_bytes_from_numbers_from_neither(tmp_path):
    told = spec("fig1c", seeds=6)
    first = make(tmp_path / "a", told)
    assert set(summary.compare(first, tmp_path / "a").column("outcome")) == {"same bytes"}
    nudged = make(tmp_path / "n", told, lambda *where: paper(*where) * (1 + 1e-12))
    assert set(summary.compare(first, nudged).column("outcome")) == {"same numbers"}
    threads = make(tmp_path / "t", told, lambda *where: paper(*where) * (1 + 1e-7))  # what another number of threads does to float32
    assert set(summary.compare(first, threads).column("outcome")) == {"same numbers"} and "to 1e-05 of their size, as float32 allows" in summary.compare(first, threads).note
    double = told.with_(dtype="float64")
    exact = summary.compare(make(tmp_path / "d", double), make(tmp_path / "e", double, lambda *where: paper(*where) * (1 + 1e-7)))
    assert set(exact.column("outcome")) == {"differs"} and "to 1e-09 of their size, as float64 allows" in exact.note
    both = spec("both", ('dtype = ["float32", "float64"]',), ("ogd",))
    apart = summary.compare(make(tmp_path / "p", both), make(tmp_path / "q", both, lambda *where: paper(*where) * (1 + 1e-7)))
    assert apart.column("outcome") == ("same numbers", "differs") and "1e-09 or 1e-05" in apart.note

    def other(place, label, seed, T):
        return paper(place, label, seed, T) + (seed * T if label == "OGD" else 0.0)

    second = make(tmp_path / "b", told.with_(seeds=(2, 3, 5, 9)), other)
    table = summary.compare(first, second)
    rows = [row for row in table.records() if row["stream.correlation"] == 0.5]
    assert [row["outcome"] for row in rows] == ["differs", "same bytes", "same bytes"]
    paired = scipy.stats.ttest_rel([other({}, "OGD", s, 2500) / 2500 for s in (2, 3, 5)], [paper({}, "OGD", s, 2500) / 2500 for s in (2, 3, 5)])
    assert (rows[0]["low"], rows[0]["high"]) == pytest.approx(tuple(paired.confidence_interval()))
    assert rows[0]["difference"] == pytest.approx(10 / 3) and rows[0]["ratio"] == pytest.approx(rows[0]["second"] / rows[0]["first"])
    assert "60 runs have no partner" in table.note  # 3 seeds of the first and 1 of the second, at 5 points, for 3 algorithms


def test_comparing_pairs_by_value_and_refuses_what_has_no_pairs(tmp_path):
    forth = make(tmp_path / "f", spec("x", ('"stream.correlation" = [0.0, 1.0]',)))
    back = make(tmp_path / "b", spec("x", ('"stream.correlation" = [1.0, 0.0]',)))
    assert set(summary.compare(forth, back).column("outcome")) == {"same bytes"}
    with pytest.raises(ResultsError, match="cannot be paired"):
        summary.compare(forth, make(tmp_path / "d", spec("fig1d")))
    with pytest.raises(ResultsError, match="share no run"):
        summary.compare(forth, make(tmp_path / "o", spec("x", ('"stream.correlation" = [0.5]',))))


def all_panels(folder, regret=paper, **settings):
    return [make(folder / name, spec(name, **settings), regret) for name in PANELS]


def test_what_the_paper_finds_holds_on_data_like_the_paper_s(tmp_path):
    found = findings(all_panels(tmp_path))
    assert [finding.panel for finding in found] == list("bbbbccccdd")
    assert {finding.verdict for finding in found} == {"holds"}
    assert found[0].measured == pytest.approx(-0.8) and found[3].measured == pytest.approx(-0.1)
    assert all(finding.low <= finding.measured <= finding.high for finding in found)
    assert findings_table(found).column("verdict") == ("holds",) * 10



SPOILED = {
    0: ("OGD", lambda place, T: (T / 2500) ** 0.4),
    1: ("DAM-TOGD", lambda place, T: (T / 2500) ** 0.4),
    2: ("C-DOGD", lambda place, T: (2500 / T) ** 0.3),
    3: ("C-DOGD", lambda place, T: (2500 / max(T, 2500)) ** 0.2),
    4: ("OGD", lambda place, T: 3.0 if place.get("stream.correlation") == 1 else 1.0),
    5: ("C-DOGD", lambda place, T: 1.5 if place.get("stream.correlation") == 1 else 1.0),
    6: ("OGD", lambda place, T: 4.0 if place.get("stream.correlation") == 0.5 else 1.0),
    7: ("DAM-TOGD", lambda place, T: 4.0 if place.get("stream.correlation") == 0.5 else 1.0),
    8: ("OGD", lambda place, T: 1.5 if place.get("interest.others") == 0.1 else 1.0),
    9: ("DAM-TOGD", lambda place, T: 1.5 if place.get("interest.others") == 0.1 else 1.0),
}


@pytest.mark.parametrize("spoiled", SPOILED)
def test_every_finding_can_fail(spoiled, tmp_path):
    culprit, factor = SPOILED[spoiled]
    found = findings(all_panels(tmp_path, lambda place, label, seed, T: paper(place, label, seed, T) * (factor(place, T) if label == culprit else 1.0)))
    failed = [i for i, finding in enumerate(found) if finding.verdict == "fails"]
    assert failed == {2: [2, 3]}.get(spoiled, [spoiled])


def test_what_was_not_run_is_not_measured(tmp_path):
    short = make(tmp_path / "b", spec("fig1b", rounds=2500))
    assert [finding.verdict for finding in findings([short])] == ["holds"] * 3 + ["not measured"]
    half = make(tmp_path / "c", spec("fig1c", ('"stream.correlation" = [0.0, 0.5]',)))
    assert {finding.verdict for finding in findings([half])} == {"not measured"}
    alone = make(tmp_path / "d", spec("fig1d", algorithms=("ogd", "c_dogd")))
    assert {finding.verdict for finding in findings([alone])} == {"not measured"}
    assert findings([make(tmp_path / "other", spec("other"))]) == ()
    assert Finding("b", "", None, None, None, "<", 1.0).verdict == "not measured"
    one = findings(all_panels(tmp_path / "one", seeds=1))
    assert {finding.verdict for finding in one} == {"holds"} and all(np.isnan(finding.low) for finding in one)


@pytest.mark.parametrize(("value", "words"), [
    (0.75, "0.75"), (12.3456, "12.35"), (673968.2, "673,968"), (1e-9, "1e-09"), (2500, "2,500"), (np.int64(7), "7"), (True, "yes"), (None, ""),
    (float("nan"), "-"), (float("-inf"), "-inf"), (0.0, "0"), ("steiner", "steiner"), (np.float64(999.96), "1,000"),
])  # fmt: skip
def test_numbers_are_shown_to_four_digits(value, words):
    assert shown(value) == words


def test_a_table_is_text_json_html_and_rich():
    table = Table("<T>", ("name", "x"), (("a<b", 1.0), ("c", float("nan")), ("d", float("inf")), ("e", None)), "n & m")
    assert json.loads(table.json()) == [{"name": "a<b", "x": 1.0}, {"name": "c", "x": None}, {"name": "d", "x": None}, {"name": "e", "x": None}]
    lines = table.text().splitlines()
    assert lines[0] == "<T>" and lines[3] == "a<b     1" and lines[4] == "c       -" and lines[-1] == "n & m"
    assert "a&lt;b" in table.html() and "n &amp; m" in table.html() and "<b" not in table.html().replace("<body", "").replace("<tbody", "")
    assert table.rich().row_count == 4
    assert table.without("x").columns == ("name",) and table.column("name") == ("a<b", "c", "d", "e")
    with pytest.raises(ShapeError, match="a row of 1 values"):
        Table("", ("a", "b"), ((1,),))
    with pytest.raises(ShapeError, match="twice"):
        Table("", ("a", "a"), ())
