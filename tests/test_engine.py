"""What the engine decides and keeps: which way to play, what comes back at horizons, data drawn inside the run."""

import numpy as np
import pytest

import mnemesh as mm
from mnemesh.engine import choose
from mnemesh.engine.stage import Stage


def stage(rounds: int, algorithm: str = "ogd", loss: object = "delta", agents: int = 20) -> Stage:
    stream = mm.streams.teacher(agents=agents, key_dim=10, value_dim=10, rounds=rounds, correlation=0.5, seed=1)
    problem = mm.Problem(loss, mm.domains.ball(100.0), mm.interest.uniform(agents))
    step = mm.steps.constant(0.01)
    made = mm.algorithms.c_dogd(mm.topology.ring(agents), step=step) if algorithm == "c_dogd" else mm.algorithms.get(algorithm, step=step)
    return Stage((problem,), (made,), (stream,), (10, 10))


def test_a_short_run_does_not_wait_for_a_compiler_and_a_long_one_does():
    assert choose.choose(stage(500), "auto") == "numpy"
    assert choose.choose(stage(100_000), "auto") == "numba"
    assert choose.choose(stage(100_000, "c_dogd"), "auto") == "jax"


def test_without_compilers_numpy_plays_everything(monkeypatch):
    monkeypatch.setattr(choose, "find_spec", lambda name: None)
    assert choose.choose(stage(100_000), "auto") == "numpy"
    assert choose.choose(stage(100_000, "c_dogd"), "auto") == "numpy"


def test_who_can_play_is_told_whatever_is_installed(monkeypatch):
    monkeypatch.setattr(choose, "find_spec", lambda name: None)
    huber = mm.losses.from_value("huber", lambda z, v: ((1 + (z - v) ** 2) ** 0.5 - 1).sum(-1))
    for made, engines in ((stage(9), ("numpy", "numba", "jax")), (stage(9, "c_dogd"), ("numpy", "jax")), (stage(9, loss=huber), ("jax",))):
        assert choose.playable(made.problems[0], made.algorithms[0]) == engines


def test_a_loss_given_by_its_value_is_jaxs():
    huber = mm.losses.from_value("huber", lambda z, v: ((1 + (z - v) ** 2) ** 0.5 - 1).sum(-1))
    assert choose.choose(stage(10, loss=huber), "auto") == "jax"
    with pytest.raises(mm.errors.EngineError, match="jax can"):
        choose.choose(stage(10, loss=huber), "numpy")


@pytest.mark.parametrize("engine", ["numpy", "numba", "jax"])
def test_regret_at_horizons_is_the_regret_of_the_full_losses(engine):
    interest = mm.interest.dirichlet(6, own=5.0, others=1.0, seed=2)
    trees = mm.routing.shortest_path(mm.topology.ring(6), interest)
    problem = mm.Problem(mm.losses.gated_linear(), mm.domains.ball(4.0), interest)
    stream = mm.streams.teacher(
        agents=6, key_dim=3, value_dim=2, rounds=300, correlation=0.5, seed=3, gate="value", associations=2, presence=0.7, mean_range=1.0, variance=1.0
    )
    algorithm = mm.algorithms.dam_togd(trees, step=mm.steps.inverse_sqrt(0.2))
    horizons = [1, 17, 256, 299, 300]
    full = mm.regret.static(problem, stream, mm.simulate(problem, algorithm, stream, engine=engine, dtype="float64"), horizons=horizons)
    kept = mm.simulate(problem, algorithm, stream, engine=engine, dtype="float64", horizons=horizons)
    assert kept.losses is None
    np.testing.assert_allclose(mm.regret.static(problem, stream, kept).per_agent, full.per_agent, rtol=1e-10, atol=1e-9)


CASES = {
    "delta": ("delta", {}),
    "gated, masked": (mm.losses.gated_linear(), {"gate": "value", "associations": 2, "presence": 0.7}),
    "features": ("softmax_norm", {"features": mm.features.taylor()}),
}


@pytest.mark.parametrize("case", CASES)
def test_data_drawn_inside_a_run_are_those_that_the_host_draws(case, tmp_path):
    loss, options = CASES[case]
    options = dict(options)
    problem = mm.Problem(loss, mm.domains.ball(5.0), mm.interest.uniform(5), features=options.pop("features", None))

    def play(engine, rounds=120, **more):
        sizes = {"agents": 5, "key_dim": 3, "value_dim": 2, "correlation": 0.5, "mean_range": 1.0, "variance": 1.0}
        streams = [mm.streams.computed_teacher(rounds=rounds, seed=seed, **sizes, **options) for seed in (1, 2)]
        algorithms = [mm.algorithms.ogd(step=mm.steps.inverse_sqrt(c)) for c in (0.1, 0.2)]
        return streams, mm.simulate_many(problem, algorithms, streams, engine=engine, **more)

    streams, inside = play("jax", horizons=[57, 120])
    _, outside = play("numpy", horizons=[57, 120])
    np.testing.assert_allclose(inside.cumulative, outside.cumulative, rtol=1e-4)
    for here, there in zip(inside.statistics, outside.statistics, strict=True):
        assert (here is None) == (there is None)
        if here is not None:
            np.testing.assert_allclose(here, there, rtol=1e-5, atol=1e-4)
    regrets = [mm.regret.static(problem, streams[1], trace.run(1)).comparator for trace in (inside, outside)]
    np.testing.assert_allclose(*regrets, rtol=1e-5)

    path = tmp_path / "run.npz"
    play("jax", rounds=80, horizons=[57], checkpoint=path)
    with pytest.raises(mm.errors.CheckpointError, match="horizons"):
        play("jax", horizons=[30, 57, 120], checkpoint=path, resume=True)
    _, further = play("jax", horizons=[57, 120], checkpoint=path, resume=True)
    np.testing.assert_array_equal(further.cumulative, inside.cumulative)
    np.testing.assert_array_equal(further.statistics.cross, inside.statistics.cross)


def test_sums_drawn_inside_a_run_survive_a_checkpoint(tmp_path, monkeypatch):
    from mnemesh.engine import run

    monkeypatch.setattr(run, "_SECONDS", 0)
    problem = mm.Problem("delta", mm.domains.ball(5.0), mm.interest.uniform(5))
    stream = mm.streams.computed_teacher(agents=5, key_dim=3, value_dim=2, rounds=120, correlation=0.5, seed=1)
    algorithm = mm.algorithms.ogd(step=mm.steps.inverse_sqrt(0.1))
    whole = mm.simulate(problem, algorithm, stream, engine="jax", horizons=[50, 120])

    class Enough(Exception):
        pass

    def stop(self, done):
        if done == 50:
            raise Enough

    with monkeypatch.context() as patched, pytest.raises(Enough):
        patched.setattr(run.Progress, "at", lambda self, done: None)
        patched.setattr(run.Book, "next_stop", lambda self, longest: 50 if self.done < 50 else stop(self, self.done))
        mm.simulate(problem, algorithm, stream, engine="jax", horizons=[50, 120], checkpoint=tmp_path / "run.npz")
    resumed = mm.simulate(problem, algorithm, stream, engine="jax", horizons=[50, 120], checkpoint=tmp_path / "run.npz", resume=True)
    np.testing.assert_array_equal(resumed.cumulative, whole.cumulative)
    np.testing.assert_array_equal(resumed.statistics.second, whole.statistics.second)


def test_runs_of_several_kinds_come_back_in_their_order():
    interest = mm.interest.uniform(4)
    problem = mm.Problem("delta", mm.domains.ball(50.0), interest)
    stream = mm.streams.teacher(agents=4, key_dim=3, value_dim=2, rounds=40, correlation=0.5, seed=5)
    step, graph = mm.steps.constant(0.1), mm.topology.ring(4)
    kinds = [mm.algorithms.ogd(step=step), mm.algorithms.c_dogd(graph, step=step), mm.algorithms.local_ogd(step=step), mm.algorithms.ogd(step=mm.steps.constant(0.05))]
    many = mm.simulate_many(problem, kinds, stream, engine="numpy")
    for place, algorithm in enumerate(kinds):
        alone = mm.simulate(problem, algorithm, stream, engine="numpy")
        np.testing.assert_array_equal(many.run(place).losses, alone.losses)


def test_wide_sparse_runs_are_played_along_the_network_with_the_same_result(monkeypatch):
    from mnemesh.engine import layout

    graph = mm.topology.ring(60)
    names = np.random.default_rng(3).permutation(60)
    graph = mm.topology.from_edges([(int(names[a]), int(names[b])) for a, b in graph.edges], 60)
    interest = mm.interest.nearest(graph, 4)
    problem = mm.Problem("delta", mm.domains.ball(50.0), interest)
    stream = mm.streams.teacher(agents=60, key_dim=3, value_dim=2, rounds=50, correlation=0.5, seed=5)
    algorithm = mm.algorithms.dam_togd(mm.routing.shortest_path(graph, interest), step=mm.steps.constant(0.1))
    plain = mm.simulate(problem, algorithm, stream, engine="numba")
    monkeypatch.setattr(layout, "_SCATTERED", 10)
    along = mm.simulate(problem, algorithm, stream, engine="numba")
    np.testing.assert_array_equal(plain.losses, along.losses)
    np.testing.assert_array_equal(plain.memories, along.memories)


def test_a_run_of_too_many_losses_keeps_sums_unless_all_are_asked_for(monkeypatch):
    from mnemesh.engine import play

    monkeypatch.setattr(play, "FULL_LIMIT", 1000)
    problem = mm.Problem("delta", mm.domains.ball(50.0), mm.interest.uniform(4))
    stream = mm.streams.teacher(agents=4, key_dim=1, value_dim=1, rounds=300, correlation=1.0, seed=1)
    algorithm = mm.algorithms.ogd(step=mm.steps.constant(0.1))
    kept, full = (mm.simulate(problem, algorithm, stream, dtype="float64", keep_losses=keep) for keep in (None, True))
    assert kept.losses is None and kept.horizons[-1] == 300 and len(kept.horizons) > 10
    np.testing.assert_allclose(kept.cumulative[-1], full.losses.sum(0), rtol=1e-12)
    both = mm.simulate(problem, algorithm, stream, dtype="float64", keep_losses=True, horizons=[300])
    np.testing.assert_array_equal(both.losses, full.losses)
    assert both.statistics is not None


def test_tuning_extends_the_grid_until_the_best_lies_inside():
    problem = mm.Problem("delta", mm.domains.ball(50.0), mm.interest.uniform(4))
    streams = [mm.streams.teacher(agents=4, key_dim=3, value_dim=2, rounds=100, correlation=0.5, seed=seed) for seed in (1, 2)]
    found = mm.tune(problem, lambda step: mm.algorithms.ogd(step=step), streams, grid=[0.001, 0.002])
    assert not found.at_edge and found.best > 0.002
    by_hand = mm.simulate(problem, mm.algorithms.ogd(step=mm.steps.inverse_sqrt(found.best)), streams[1])
    assert found.per_stream[list(found.c).index(found.best), 1] == pytest.approx(mm.regret.static(problem, streams[1], by_hand).total[-1], rel=1e-4)


def test_tuning_takes_a_rate_that_diverges_for_an_infinitely_bad_one():
    problem = mm.Problem("delta", mm.domains.everything(), mm.interest.uniform(2))
    stream = mm.streams.teacher(agents=2, key_dim=30, value_dim=2, rounds=400, correlation=0.5, seed=1)
    found = mm.tune(problem, lambda step: mm.algorithms.ogd(step=step), stream, grid=[0.05, 0.1, 50.0])
    assert np.isinf(found.regret[-1]) and np.isfinite(found.regret[0]) and found.best < 50


def test_full_losses_that_were_not_kept_are_kept_when_asked_for_by_every_round():
    problem = mm.Problem("delta", mm.domains.ball(50.0), mm.interest.uniform(3))
    stream = mm.streams.teacher(agents=3, key_dim=3, value_dim=2, rounds=30, correlation=0.5, seed=1)
    algorithm = mm.algorithms.ogd(step=mm.steps.constant(0.1))
    every = mm.simulate(problem, algorithm, stream, dtype="float64", horizons=range(1, 31))
    full = mm.simulate(problem, algorithm, stream, dtype="float64")
    np.testing.assert_allclose(np.diff(every.cumulative, axis=0, prepend=0), full.losses, atol=1e-9)
