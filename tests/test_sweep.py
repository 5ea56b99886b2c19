"""Sweeps: what they compute, what goes into a batch, and that nothing that is finished is lost or computed twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mnemesh as mm
from mnemesh import lab
from mnemesh.errors import ResultsError, SweepError
from mnemesh.lab.plan import plan
from mnemesh.lab.record import FORMAT, load, versions
from mnemesh.lab.work import do
from sweeping import Here, bytes_of, small, sweeping_process

UNCHECKED = {name: value for name, value in os.environ.items() if name != "MNEMESH_CHECK_SHAPES"}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return lab.run(small(), tmp_path_factory.mktemp("undisturbed") / "out", executor=Here())


def test_every_number_is_what_the_library_computes(undisturbed):
    """The sweep's tables against simulate, tune and regret called by hand."""
    frame = undisturbed.results.to_pandas()
    assert len(frame) == 2 * 4 * 3 * 2
    graph, make = mm.topology.ring(6), {"ogd": lambda step, _: mm.algorithms.ogd(step=step), "c_dogd": lambda step, _: mm.algorithms.c_dogd(graph, step=step)}
    make["dam_togd"] = lambda step, posed: mm.algorithms.dam_togd(mm.routing.steiner(graph, posed.interest), step=step)
    for number, correlation in enumerate((0.25, 1.0)):
        posed = {seed: mm.Problem("delta", mm.domains.ball(50.0), mm.interest.dirichlet(6, own=4.0, others=1.0, seed=seed)) for seed in (1, 3, 1001, 1002)}
        seen = {s: mm.streams.teacher(agents=6, key_dim=3, value_dim=2, rounds=60, correlation=correlation, seed=s) for s in posed}
        for name in make:
            c = 0.3
            if name != "dam_togd":
                trial = [posed[1001], posed[1002]]
                c = mm.tune(trial, lambda step, name=name, trial=trial: [make[name](step, p) for p in trial], [seen[1001], seen[1002]], [0.2, 0.4]).best
            for seed in (1, 3):
                trace = mm.simulate(posed[seed], make[name](mm.steps.inverse_sqrt(c), posed[seed]), seen[seed])
                regret = mm.regret.static(posed[seed], seen[seed], trace, [20, 60])
                rows = frame[(frame.point == number) & (frame.algorithm == name) & (frame.seed == seed)].sort_values("horizon")
                assert rows["stream.correlation"].tolist() == [correlation] * 2
                assert rows.c.tolist() == [c, c]
                np.testing.assert_allclose(rows.regret, regret.total, rtol=1e-5)
                np.testing.assert_allclose(rows.comparator, regret.comparator.sum(1), rtol=1e-9)
                np.testing.assert_allclose(np.stack(rows.per_agent), regret.per_agent, rtol=1e-4, atol=1e-4)
                np.testing.assert_allclose(rows.cumulative_loss - rows.comparator, rows.regret, rtol=1e-9)
                np.testing.assert_allclose(rows.regret / rows.horizon, rows.regret_per_round)


def test_bounds_and_messages_stand_with_every_run(undisturbed):
    frame = undisturbed.results.to_pandas().set_index(["algorithm", "seed", "horizon", "point"]).sort_index()
    posed = mm.Problem("delta", mm.domains.ball(50.0), mm.interest.dirichlet(6, own=4.0, others=1.0, seed=1))
    stream = mm.streams.teacher(agents=6, key_dim=3, value_dim=2, rounds=60, correlation=0.25, seed=1)
    trees = mm.routing.steiner(mm.topology.ring(6), posed.interest)
    row, bound = frame.loc["dam_togd", 1, 60, 0], mm.theory.dam_togd(posed, stream, trees, step=mm.steps.inverse_sqrt(0.3))
    assert row.bound_sharp == bound.sharp[-1]
    assert row.bound_repaired == bound.repaired[-1]
    assert row.bound_printed == bound.printed[-1]
    assert (row.delay_mean, row.delay_max) == (trees.delays.mean(), 6)
    assert row.messages == sum(trees.messages_per_round()[:2])
    assert row.replies_single == trees.messages_per_round().replies_single
    assert frame.loc["c_dogd", 1, 60, 0].messages == 2 * 6
    assert np.isnan(frame.loc["ogd", 1, 60, 0].messages)
    assert (frame.regret <= frame.bound_sharp.fillna(np.inf)).all()


def test_rates_are_chosen_on_other_seeds_and_each_once(undisturbed):
    tuning = undisturbed.tuning.to_pandas()
    assert set(tuning.seed) == {1001, 1002}
    assert set(tuning.algorithm) == {"ogd", "c_dogd"}
    means = tuning.groupby(["point", "algorithm", "c"]).regret.mean()
    for key, chosen in tuning[tuning.chosen].groupby(["point", "algorithm"]):
        assert chosen.c.nunique() == 1
        assert means.loc[key].idxmin() == chosen.c.iloc[0]
        tried = sorted(tuning[(tuning.point == key[0]) & (tuning.algorithm == key[1])].c.unique())
        assert tried[0] < chosen.c.iloc[0] < tried[-1]  # extended until the optimum is inside


def test_the_same_spec_gives_the_same_bytes_on_any_executor(undisturbed, tmp_path):
    with ThreadPoolExecutor(3) as threads:
        lab.run(small(), tmp_path / "threads", executor=threads)
    with lab.local(2) as processes:
        lab.run(small(), tmp_path / "processes", executor=processes)
    assert bytes_of(tmp_path / "threads") == bytes_of(tmp_path / "processes") == bytes_of(undisturbed.folder)


def test_what_a_stopped_sweep_had_finished_is_not_computed_again(undisturbed, tmp_path):
    def stop(count: int) -> None:
        if count == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.run(small(), tmp_path, executor=Here(stop))
    total = len(plan(small()).choosing) + len(plan(small()).playing)
    kept = len(list((tmp_path / "batches").glob("*.parquet")))
    assert not (tmp_path / "results.parquet").exists()
    rest, told = Here(), []
    lab.run(small(), tmp_path, executor=rest, progress=lambda done, total, words: told.append((done, total, words)))
    assert (rest.count, kept + rest.count) == (total - kept, total)
    assert told[-1][0] == pytest.approx(told[-1][1])
    assert f"{kept} taken from before" in told[-1][2]
    assert bytes_of(tmp_path) == bytes_of(undisturbed.folder)
    again = Here()
    lab.run(small(), tmp_path, executor=again)
    assert again.count == 0
    lab.run(small(), tmp_path, executor=again, fresh=True)
    assert again.count == total
    assert bytes_of(tmp_path) == bytes_of(undisturbed.folder)


def test_a_batch_that_was_damaged_is_computed_again(undisturbed, tmp_path):
    lab.run(small(), tmp_path, executor=Here())
    first, second, *_ = sorted((tmp_path / "batches").glob("*.parquet"))
    first.write_bytes(first.read_bytes()[:100])
    second.write_bytes(b"")
    again = Here()
    lab.run(small(), tmp_path, executor=again)
    assert again.count == 2
    assert bytes_of(tmp_path) == bytes_of(undisturbed.folder)


def long() -> lab.Spec:
    return small(rounds=4000, horizons=[2000, 4000], seeds=24, sweep=[{"stream.correlation": [0.0, 0.25, 0.5, 0.75, 1.0]}])


def test_a_sweep_killed_in_the_middle_goes_on_to_the_same_bytes(tmp_path):
    """kill -9 on the parent of real worker processes; the workers end, too."""
    spec = tmp_path / "long.toml"
    spec.write_text(long().text, encoding="utf-8")
    killed, quiet = tmp_path / "killed", tmp_path / "quiet"
    process = subprocess.Popen(sweeping_process(killed, spec), env=UNCHECKED, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    patience = time.monotonic() + 120
    while len(list(killed.glob("batches/*.parquet"))) < 6 and time.monotonic() < patience:
        time.sleep(0.02)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert workers
    assert not psutil.wait_procs(workers, timeout=20)[1]
    finished = {path: path.stat().st_mtime_ns for path in killed.glob("batches/*.parquet")}
    assert 6 <= len(finished) < len(plan(long()).choosing) + len(plan(long()).playing)
    assert not (killed / "results.parquet").exists()
    second = subprocess.run(sweeping_process(killed, spec), env=UNCHECKED, capture_output=True, text=True, check=True)
    assert f"{len(finished)} taken from before" in second.stdout
    assert finished == {path: path.stat().st_mtime_ns for path in finished}
    subprocess.run(sweeping_process(quiet, spec), env=UNCHECKED, capture_output=True, check=True)
    assert bytes_of(killed) == bytes_of(quiet)
    assert len(list(killed.glob("**/.*"))) <= 1  # what was being written when it was killed


def test_a_worker_that_dies_is_told_in_one_line(tmp_path):
    def die(count: int) -> None:
        if count == 3:
            for child in psutil.Process().children(recursive=True):
                if "spawn_main" in " ".join(child.cmdline()):
                    child.kill()

    with lab.local(1) as pool:
        submit = pool.submit

        class Dying(Here):
            def submit(self, fn, /, *args, **kwargs):
                die(self.count)
                self.count += 1
                return submit(fn, *args, **kwargs)

        with pytest.raises(SweepError, match="a worker process ended before its batch was done"):
            lab.run(long(), tmp_path, executor=Dying())


@given(st.integers(1, 40), st.integers(1, 30), st.integers(3, 60))
@settings(max_examples=40)
def test_batches_are_a_pure_function_of_the_spec_and_hold_every_run_once(seeds, values, agents):
    spec = small(seeds=seeds, topology={"name": "ring", "agents": agents}, sweep=[{"stream.correlation": [v / 100 for v in range(values)]}])
    todo = plan(spec)
    assert plan(lab.parse(spec.text)) == todo
    runs = [(job.point.number, job.seed) for batch in todo.playing for job in batch.jobs]
    assert sorted(runs) == [(v, s) for v in range(values) for s in range(1, seeds + 1)]
    sizes = {len(batch.jobs) for batch in todo.playing}
    assert max(sizes) * agents <= max(160, agents)
    assert max(sizes) - min(sizes) <= 1
    keys = [batch.key({}) for batch in (*todo.choosing, *todo.playing)]
    assert len(set(keys)) == len(keys)


def test_points_of_one_shape_share_batches_and_others_do_not():
    numeric = plan(small(seeds=1, sweep=[{"stream.correlation": [0.1, 0.2], "interest.others": [1.0, 2.0]}]))
    assert len(numeric.playing) == 1
    shapes = plan(small(seeds=1, sweep=[{"stream.value_dim": [2, 3]}]))
    assert len(shapes.playing) == 2


def test_a_swept_number_of_an_algorithm_is_played_at_every_point(tmp_path):
    """Each point of a swept c, played in one batch, is that c alone."""
    line = {"name": "dam_togd", "step": {"name": "inverse_sqrt", "c": 0.3}}
    together = lab.run(small(algorithms=[line], sweep=[{"algorithms.dam_togd.step.c": [0.05, 0.3, 0.6]}]), tmp_path / "together", executor=Here())
    frame = together.results.to_pandas()
    assert len(plan(together.spec).playing) == 1
    for c in (0.05, 0.3, 0.6):
        alone = lab.run(small(algorithms=[line | {"step": {"name": "inverse_sqrt", "c": c}}], sweep=[]), tmp_path / str(c), executor=Here())
        rows = frame[frame["algorithms.dam_togd.step.c"] == c]
        assert set(rows.c) == {c}
        np.testing.assert_array_equal(rows.regret, alone.column("regret"))
        np.testing.assert_array_equal(rows.bound_sharp, alone.column("bound_sharp"))


def test_whether_a_rate_is_tuned_is_each_point_s_own(tmp_path):
    for base, swept in ((0.3, ["tuned", 0.3]), ("tuned", [0.1, 0.2])):
        line = {"name": "ogd", "step": {"name": "inverse_sqrt", "c": base}}
        found = lab.run(small(algorithms=[line], sweep=[{"algorithms.ogd.step.c": swept}]), tmp_path / str(base), executor=Here())
        tuned = [point for point, value in enumerate(swept) if value == "tuned"]
        assert sorted(set(found.tuning["point"].to_pylist())) == tuned
        rates = found.results.to_pandas().groupby("point").c.first()
        assert [rates[p] for p in range(2) if p not in tuned] == [value for value in swept if value != "tuned"]


def test_parts_that_points_share_are_made_once(monkeypatch):
    made = []
    builder = mm.routing.maker("steiner")
    monkeypatch.setitem(mm.routing._REGISTRY._makers, "steiner", lambda graph, interest: made.append(1) or builder(graph, interest))
    plan(small(sweep=[{"stream.correlation": [0.1 * v for v in range(8)]}]))
    assert len(made) == 1


def test_code_that_changed_is_played_again(tmp_path, monkeypatch):
    """The batches of another version of somebody's own module are not taken for this one's."""
    import importlib
    import sys

    from mnemesh.lab import record

    monkeypatch.syspath_prepend(str(tmp_path))
    kept, counts = dict(mm.domains._REGISTRY._makers), []
    for radius in (5.0, 0.1):
        (tmp_path / "my_domains.py").write_text(f"import mnemesh as mm\nmm.domains.register('mine', lambda: mm.domains.ball({radius}))\n", encoding="utf-8")
        sys.modules.pop("my_domains", None)
        importlib.invalidate_caches()
        record._code_of.cache_clear()
        mm.domains._REGISTRY._makers = dict(kept)
        here = Here()
        lab.run(small(imports=["my_domains"], domain="mine", seeds=1, sweep=[]), tmp_path / "out", executor=here)
        counts.append(here.count)
    mm.domains._REGISTRY._makers = kept
    assert counts[0] == counts[1] > 0


def test_prose_and_figures_may_change_without_playing_again(tmp_path):
    lab.run(small(), tmp_path, executor=Here())
    again = Here()
    found = lab.run(small(title="Another title", figure={"log": ["y"]}), tmp_path, executor=again)
    assert again.count == 0
    assert found.spec.title == "Another title"


def test_a_key_stands_for_all_that_numbers_depend_on():
    def key(spec: lab.Spec) -> str:
        return plan(spec).choosing[0].key({"numpy": "2"})

    base = key(small())
    assert key(small(title="another", about="words", seeds=9)) == base
    for changed in ({"rounds": 61}, {"dtype": "float64"}, {"tuning": {"seeds": 3}}, {"domain": {"name": "ball", "radius": 51.0}}, {"engine": "numpy"}):
        assert key(small(**changed)) != base
    assert plan(small()).choosing[0].key({"numpy": "3"}) != base


def test_runs_that_diverge_are_recorded_as_infinite(tmp_path):
    wild = {"name": "ogd", "label": "wild", "step": {"name": "constant", "c": 40.0}}
    spec = small(rounds=400, domain="everything", algorithms=[wild, {"name": "ogd", "step": {"name": "constant", "c": 0.1}}])
    frame = lab.run(spec, tmp_path, executor=Here()).results.to_pandas()
    assert np.isinf(frame[frame.algorithm == "wild"].regret).all()
    assert np.isfinite(frame[frame.algorithm == "ogd"].regret).all()
    assert frame.bound_sharp.isna().all()


# --- folders and records -------------------------------------------------------------------------------------------------------------------


def test_a_folder_of_another_study_is_left_alone(undisturbed):
    before = bytes_of(undisturbed.folder)
    with pytest.raises(ResultsError, match="holds results of another spec"):
        lab.run(small(seeds=2), undisturbed.folder, executor=Here())
    assert bytes_of(undisturbed.folder) == before


def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_computed(tmp_path):
    (tmp_path / "file").write_text("")
    never = Here(lambda count: pytest.fail("computed"))
    with pytest.raises(ResultsError, match="cannot be written to"):
        lab.run(small(), tmp_path / "file" / "out", executor=never)


def test_records_say_of_themselves_what_they_are(undisturbed):
    table = pyarrow.parquet.read_table(undisturbed.folder / "results.parquet")
    known = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    assert lab.parse(known["mnemesh.spec"]) == small()
    assert json.loads(known["mnemesh.versions"])["mnemesh"] == mm.__version__
    assert known["mnemesh.format"] == FORMAT
    assert lab.open_results(undisturbed.folder).spec == small()
    assert lab.open_results(undisturbed.folder / "results.parquet").versions == versions()


def test_records_are_read_by_pandas_polars_and_duckdb(undisturbed):
    import duckdb
    import pandas
    import polars

    path = undisturbed.folder / "results.parquet"
    expected = undisturbed.results.to_pandas().query("horizon == 60").groupby("algorithm").regret.mean()
    by_pandas = pandas.read_parquet(path).query("horizon == 60").groupby("algorithm").regret.mean()
    by_polars = polars.read_parquet(path).filter(polars.col("horizon") == 60).group_by("algorithm").agg(polars.col("regret").mean())
    by_duckdb = duckdb.sql(f"SELECT algorithm, avg(regret) AS regret FROM '{path}' WHERE horizon = 60 GROUP BY algorithm").fetchall()
    assert by_pandas.to_dict() == pytest.approx(expected.to_dict())
    assert dict(by_polars.iter_rows()) == pytest.approx(expected.to_dict())
    assert dict(by_duckdb) == pytest.approx(expected.to_dict())
    assert polars.read_parquet(path)["per_agent"].list.len().unique().to_list() == [6]


@pytest.mark.parametrize(
    ("metadata", "words"),
    [({"mnemesh.format": "7", "mnemesh.table": "results"}, "of format '7'"), ({}, "no record of mnemesh"), ({"mnemesh.format": FORMAT, "mnemesh.table": "tuning"}, "'tuning'")],
)
def test_other_formats_and_tables_are_refused_by_name(undisturbed, tmp_path, metadata, words):
    pyarrow.parquet.write_table(undisturbed.results.replace_schema_metadata(metadata), tmp_path / "results.parquet")
    with pytest.raises(ResultsError, match=words):
        lab.open_results(tmp_path)


def test_files_that_are_no_records(tmp_path):
    with pytest.raises(ResultsError, match="there is no folder"):
        lab.open_results(tmp_path / "nowhere")
    with pytest.raises(ResultsError, match="there is no"):
        lab.open_results(tmp_path)
    (tmp_path / "results.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(ResultsError, match="cannot be read as a Parquet table"):
        load(tmp_path / "results.parquet", "results")


def test_a_worker_of_other_versions_refuses(monkeypatch):
    monkeypatch.setenv("MNEMESH_THREADS", "1")
    batch = plan(small()).choosing[0]
    with pytest.raises(SweepError, match=r"numpy 0\.1 there and .* here"):
        do(batch, ("elsewhere", 1), versions() | {"numpy": "0.1"})


def test_modules_that_register_parts_reach_the_workers(tmp_path, monkeypatch):
    (tmp_path / "of_my_own.py").write_text("import mnemesh as mm\nmm.losses.register('mine', mm.losses.delta)\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = small(imports=["of_my_own"], loss="mine", seeds=1, sweep=[])
    with lab.local(1) as pool:
        found = lab.run(spec, tmp_path / "out", executor=pool)
    assert found.results.num_rows == 6


def test_workers_must_be_some():
    with pytest.raises(SweepError, match="workers=0"), lab.local(0):
        pass
