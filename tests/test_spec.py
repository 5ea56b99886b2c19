"""Specs: written and read again they are equal, what is wrong is refused in one line with its key, and none ends in a traceback."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mnemesh as mm
from mnemesh import lab
from mnemesh.errors import MnemeshError, SpecError
from mnemesh.lab.plan import plan
from mnemesh.lab.points import points
from mnemesh.lab.record import versions
from mnemesh.lab.spec import convert
from mnemesh.lab.work import do, home
from mnemesh.words.tables import raw

PLAIN: dict[str, Any] = {
    "name": "small",
    "rounds": 40,
    "seeds": 2,
    "horizons": 3,
    "topology": {"name": "ring", "agents": 4},
    "interest": {"name": "dirichlet", "own": 4.0, "others": 1.0},
    "stream": {"name": "teacher", "key_dim": 2, "value_dim": 2, "correlation": 0.5},
    "domain": {"name": "ball", "radius": 50.0},
    "algorithms": [{"name": "ogd", "step": {"name": "inverse_sqrt", "c": 0.5}}],
    "tuning": {"seeds": 1, "grid": [0.2, 0.4]},
}


def plain(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(PLAIN), **changes}


def refusal(tables: Any) -> str:
    with pytest.raises(SpecError) as refused:
        plan(convert(tables))
    said = str(refused.value)
    assert "\n" not in said
    assert said.endswith((".", "?"))
    return said


@pytest.mark.parametrize("name", lab.shipped())
def test_shipped_specs_are_read_written_and_read_again(name):
    spec = lab.read(name)
    assert spec.name == name
    assert spec.title
    assert spec.about
    again = lab.parse(spec.text)
    assert again == spec
    assert hash(again) == hash(spec)
    assert again.text == spec.text
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert plan(spec.with_(seeds=1)).playing


def test_the_paper_s_figures_are_shipped():
    assert set(lab.shipped()) >= {"fig1b", "fig1c", "fig1d", "routing-trade-off", "loss-table"}
    b, c, d = (lab.read(f"fig1{panel}") for panel in "bcd")
    assert (b.stream.get("correlation"), b.interest.get("others"), b.interest.get("own")) == (0.75, 2.0, 10.0)
    assert {1250, 2500, 5000} <= set(b.horizon_list)
    assert (c.interest.get("others"), c.rounds, c.swept) == (6.0, 2500, ("stream.correlation",))
    assert (d.stream.get("correlation"), d.rounds, d.swept) == (0.75, 2500, ("interest.others",))
    assert {value for _, value in (point.values[0] for point in points(c))} >= {0.0, 1.0}
    assert {point.spec.loss.name for point in points(lab.read("loss-table"))} == set(mm.losses.names())


def test_what_is_not_stated_is_as_by_default_and_not_written():
    spec = convert(plain())
    assert spec.loss.name == "delta"
    assert "loss" not in spec.text
    assert spec.with_(loss="delta").text == spec.text
    assert spec.seed_list == (1, 2)
    assert not set(spec.seed_list) & set(spec.tuning_seeds)
    assert spec.horizon_list[-1] == spec.rounds


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        (plain(seed=3), ("there is no key 'seed'", "did you mean 'seeds'?")),
        (plain(tuning={"gird": [1.0]}), ("tuning: there is no key 'gird'", "'grid'")),
        (plain(algorithms=[*PLAIN["algorithms"], {"name": "ogd", "lable": "x"}]), ("algorithms[2]", "'lable'", "'label'")),
        (plain(seeds="many"), ("seeds", "got text")),
        (plain(seeds=True), ("seeds", "got bool")),
        (plain(seeds=0), ("seeds = 0",)),
        (plain(seeds=[1, 1]), ("seeds = [1, 1]", "different")),
        (plain(rounds=2.5), ("rounds", "got float")),
        (plain(rounds=0), ("rounds = 0",)),
        (plain(horizons=[0]), ("horizons = [0]", "1..40")),
        (plain(horizons=[41]), ("horizons = [41]", "1..40")),
        (plain(dtype="float16"), ("dtype: 'float16'", "'float32', 'float64'")),
        (plain(engine="cuda"), ("engine", "'cuda'")),
        (plain(name="../up"), ("name = '../up'",)),
        (plain(algorithms=[]), ("algorithms", "nothing learns")),
        (plain(algorithms=[{"name": "ogd"}, {"name": "ogd"}]), ("two are called 'ogd'",)),
        (plain(algorithms=[{"name": "odg"}]), ("algorithms.odg", "did you mean 'ogd'?")),
        (plain(algorithms=[{"name": "ogd", "step": {"name": "constant", "c": "tuned"}}]), ("algorithms.ogd.step", "'constant'")),
        (plain(algorithms=[{"name": "ogd", "step": {"name": "constant", "c": -1.0}}]), ("algorithms.ogd.step", "-1")),
        (plain(algorithms=[{"name": "ogd", "step": {"name": "constant"}}]), ("algorithms.ogd.step", "needs 'c'")),
        (plain(algorithms=[{"name": "ogd"}], tuning={"seeds": [2]}), ("tuning.seeds", "seed 2")),
        (plain(tuning={"grid": [0.0]}), ("tuning.grid = [0.0]",)),
        (plain(loss="dleta"), ("loss", "did you mean 'delta'?")),
        (plain(loss="softmax"), ("softmax", "features")),
        (plain(loss="gated_linear"), ("stream", "gates")),
        (plain(loss={"name": "delta", "gate": "value"}), ("loss", "'gate'")),
        (plain(domain={"radius": 3.0}), ("domain", "a name is needed")),
        (plain(domain={"name": "ball", "radius": "big"}), ("domain", "radius")),
        (plain(domain={"name": "ball", "raduis": 1.0}), ("domain", "'raduis'", "did you mean 'radius'?")),
        (plain(domain={"name": "ball", "radius": float("nan")}), ("domain", "nan")),
        (plain(topology={"name": "ring", "agents": "four"}), ("topology", "agents = 'four'")),
        (plain(topology="ring"), ("topology", "needs 'agents'")),
        (plain(topology={"name": "random_geometric", "agents": 50, "radius": 0.01}), ("topology", "connected")),
        (plain(stream={"name": "teacher", "key_dim": 2, "value_dim": 2, "correlation": 1.5}), ("stream", "correlation=1.5")),
        (plain(stream={"name": "teacher", "key_dim": 2, "value_dim": 2, "correlation": 0.5, "rounds": 7}), ("stream", "7 rounds", "rounds = 40")),
        (plain(interest={"name": "dirichlet", "own": 4.0, "others": 0.0}), ("interest", "others=0.0")),
        (plain(rounds=3, algorithms=[{"name": "dam_togd"}]), ("rounds = 3", "longest delay", "4 rounds")),
        (plain(routing={"name": "steiner", "ties": "none"}, algorithms=[{"name": "dam_togd"}]), ("routing", "ties='none'")),
        (plain(algorithms=[{"name": "dam_togd", "routing": "stiener"}]), ("algorithms.dam_togd.routing", "did you mean 'steiner'?")),
        (plain(imports=["no_such_module_here"]), ()),
        (plain(imports=[""]), ()),
        (plain(imports=[".x"]), ()),
        (plain(rounds=10**12), ("rounds = 1000000000000",)),
        (plain(stream={**PLAIN["stream"], "seed": 7}), ("stream.seed", "the same data")),
        (plain(stream={**PLAIN["stream"], "key_dim": 10**18}), ("stream",)),
        (plain(sweep=[{"stream.correlation": [0.5, 0.5]}]), ("0.5 stands twice",)),
        (plain(engine="numba", algorithms=[{"name": "c_dogd"}]), ("engine = 'numba' cannot play c_dogd", "numpy and jax can")),
        (plain(algorithms=[{"name": "dam_togd"}], tuning={"rounds": 4}), ("tuning.rounds = 4", "longest delay")),
        (plain(loss="linear", domain="everything"), ("no comparator and no regret",)),
        (plain(stream={**PLAIN["stream"], "gate": "strange"}), ("'strange'",)),
        (plain(sweep=[{"stream.correlation": 0.5}]), ("sweep[1]", "a list of at least one value")),
        (plain(sweep=[{"stream.correlation": []}]), ("sweep[1]", "a list of at least one value")),
        (plain(sweep=[{"stream.correlation": [0.1, 0.2], "rounds": [30]}]), ("sweep[1]", "different lengths")),
        (plain(sweep=[{"rounds": [30]}, {"rounds": [35]}]), ("'rounds' is swept twice",)),
        (plain(sweep=[{"steam.correlation": [0.1]}]), ("'steam.correlation'", "did you mean 'stream.correlation'?")),
        (plain(sweep=[{"seeds": [1, 2]}]), ("'seeds'",)),
        (plain(sweep=[{"stream.correlation": [0.1, 7.0]}]), ("stream.correlation = 7.0", "correlation=7.0")),
        (plain(sweep=[{"rounds": list(range(1, 400))}, {"seeds": list(range(400))}]), ("100,000 points",)),
        (plain(figure={"x": "steps"}), ("figure.x = 'steps'",)),
        (plain(figure={"log": ["z"]}), ("figure.log[1]: 'z'", "'x', 'y'")),
    ],
    ids=lambda part: None if isinstance(part, dict) else "-".join(part)[:60],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_its_key(tables, words):
    if "imports" in tables:
        with pytest.raises(SpecError, match=r"imports: '.*' cannot be imported"):
            mm.lab.build.bring(convert(tables))
        return
    said = refusal(tables)
    for word in words:
        assert word in said, said


def test_files_that_are_no_specs(tmp_path):
    with pytest.raises(SpecError, match=r"there is no file 'fig1e'; did you mean 'fig1[bcd]'\?"):
        lab.read("fig1e")
    broken = tmp_path / "broken.toml"
    broken.write_text("rounds =\n")
    with pytest.raises(SpecError, match=r"broken.toml is no TOML: .*line 1"):
        lab.read(broken)
    broken.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="cannot be read as text"):
        lab.read(broken)
    with pytest.raises(SpecError, match="cannot be read as text"):
        lab.read(tmp_path)


def test_a_sweep_spans_the_grid_and_zips_within_an_axis():
    spec = convert(plain(sweep=[{"rounds": [30, 40]}, {"stream.correlation": [0.0, 0.5, 1.0], "interest.others": [1.0, 2.0, 3.0]}]))
    found = [(point.spec.rounds, point.spec.stream.get("correlation"), point.spec.interest.get("others")) for point in points(spec)]
    assert found == [(t, r, y) for t in (30, 40) for r, y in ((0.0, 1.0), (0.5, 2.0), (1.0, 3.0))]
    assert [point.number for point in points(spec)] == list(range(6))


def test_algorithms_can_be_swept_by_label_and_tables_by_name():
    lines = [{"name": "dam_togd", "label": "v1.0"}]
    sweep = [{"algorithms.v1.0.step.c": [0.1, 0.2]}, {"routing": ["steiner", {"name": "steiner", "ties": "naive"}]}]
    found = points(convert(plain(algorithms=lines, sweep=sweep)))
    assert [(point.spec.algorithms[0].step.get("c"), point.spec.routing.get("ties")) for point in found] == [
        (0.1, None), (0.1, "naive"), (0.2, None), (0.2, "naive"),
    ]  # fmt: skip
    assert not any(point.spec.algorithms[0].tuned for point in found)


# --- what nobody thought of ----------------------------------------------------------------------------------------------------------------

scalars = st.one_of(
    st.booleans(), st.integers(-3, 60), st.floats(width=32), st.sampled_from(["", "ring", "steiner", "tuned", "ball", "key", "naive", "float64"]), st.text(max_size=3),
)  # fmt: skip
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "c", "x", "agents"]), inner, max_size=3), max_leaves=4)
modules = {
    "topology": mm.topology, "interest": mm.interest, "stream": mm.streams, "loss": mm.losses, "features": mm.features, "domain": mm.domains, "routing": mm.routing,
    "step": mm.steps, "algorithm": mm.algorithms,
}  # fmt: skip
names = {part: module.names() for part, module in modules.items()}  # here: the type checker picks what it looks at by chance, which no strategy may
settings_known = ["agents", "radius", "own", "others", "count", "ties", "c", "t0", "gate", "correlation", "key_dim", "noise", "presence", "associations", "low", "high", "seed", "rows"]


@st.composite
def nearly_valid(draw: Any) -> dict[str, Any]:
    """Valid tables with a few places changed to something that a user might have written."""
    tables = plain(algorithms=[{"name": name} for name in draw(st.lists(st.sampled_from(names["algorithm"]), min_size=1, max_size=2, unique=True))])
    tables["rounds"] = draw(st.integers(5, 40))
    for _ in range(draw(st.integers(0, 3))):
        where = draw(st.sampled_from([*mm.lab.spec.PARTS, "step", "top", "sweep", "setting"]))
        if where in mm.lab.spec.PARTS:
            part = {"name": draw(st.sampled_from(names[where]))}
            tables[where] = part | draw(st.dictionaries(st.sampled_from(settings_known), values, max_size=3))
        elif where == "step":
            tables["algorithms"][0]["step"] = {"name": draw(st.sampled_from(names["step"]))} | draw(st.dictionaries(st.sampled_from(["c", "t0"]), values, max_size=2))
        elif where == "setting":
            part = draw(st.sampled_from(["stream", "interest", "domain"]))
            if isinstance(tables[part], dict):
                tables[part][draw(st.sampled_from(settings_known))] = draw(values)
        elif where == "sweep":
            key = draw(st.sampled_from(["rounds", "stream.correlation", "interest.others", "domain.radius", "loss", "algorithms.ogd.step.c", "dtype"]))
            tables["sweep"] = [{key: draw(st.lists(values, min_size=1, max_size=2))}]
        else:
            tables[draw(st.sampled_from(["seeds", "horizons", "dtype", "engine", "title", "figure", "imports", "rounds", "extra"]))] = draw(values)
    return tables


@given(nearly_valid())
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
def test_no_spec_ends_in_a_traceback(tables):
    """Whatever is written: it is refused in one line, or it runs; and what is accepted survives being written and read."""
    try:
        spec = convert(tables)
        assert lab.parse(spec.text) == spec
        todo = plan(spec)
        if spec.rounds * max(job.point.spec.rounds for batch in todo.playing for job in batch.jobs) <= 10_000 and len(todo.playing) < 4:
            for batch in todo.choosing:
                do(batch, home(), versions())
            for batch in todo.playing:
                known = tuple(tuple(0.3 if line.tuned else None for line in job.point.spec.algorithms) for job in batch.jobs)
                assert do(batch._replace(rates=known), home(), versions()).num_rows
    except MnemeshError as refused:
        assert "\n" not in str(refused)
        assert len(str(refused)) > 20


@given(nearly_valid())
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
def test_raw_tables_make_the_spec_again(tables):
    try:
        spec = convert(tables)
    except SpecError:
        return
    assert convert(raw(spec)) == spec
    assert spec.digest == lab.parse(spec.text).digest
