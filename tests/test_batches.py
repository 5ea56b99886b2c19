"""Many runs as one network, and what else the layout of a run must not change: masks, steps, starts, links, lanes, the order of agents."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import mnemesh as mm

ENGINES = ("numpy", "numba", "jax")


def streams(rounds=30, agents=5, **options):
    return [
        mm.streams.teacher(agents=agents, key_dim=3, value_dim=2, rounds=rounds, correlation=0.5, seed=1, associations=2, presence=0.6, **options),
        mm.streams.teacher(agents=agents, key_dim=3, value_dim=2, rounds=rounds, correlation=0.5, seed=2, associations=2, **options),
        mm.streams.computed_teacher(agents=agents, key_dim=3, value_dim=2, rounds=rounds, correlation=0.5, seed=3, associations=2, **options),
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_runs_with_and_without_masks_and_with_steps_of_all_kinds_stack(engine):
    seen = streams()
    seen = [seen[0], seen[1], seen[0], seen[2]]
    problem = mm.Problem("delta", mm.domains.ball(20.0), mm.interest.dirichlet(5, own=3.0, others=1.0, seed=1))
    trees = mm.routing.steiner(mm.topology.line(5), problem.interest)
    rules = [mm.steps.constant(0.05), mm.steps.inverse_sqrt([0.1, 0.2, 0.1, 0.05, 0.3]), lambda t: 0.1 / t**0.5, mm.steps.inverse(1.0, t0=9.0)]
    learners = [mm.algorithms.dam_togd(trees, step=rule) for rule in rules]
    starts = np.random.default_rng(0).normal(size=(4, 5, 2, 3))
    many = mm.simulate_many(problem, learners, seen, engine=engine, dtype="float64", initial=starts)
    for run in range(4):
        alone = mm.simulate(problem, learners[run], seen[run], engine=engine, dtype="float64", initial=starts[run])
        np.testing.assert_allclose(many.run(run).losses, alone.losses, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(many.run(run).memories, alone.memories, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("engine", ["numpy", "jax"])
def test_mixing_over_links_is_mixing_by_a_matrix(engine, monkeypatch):
    graphs = [mm.topology.ring(6), mm.topology.star(6)]
    problem = mm.Problem("delta", mm.domains.ball(20.0), mm.interest.uniform(6))
    learners = [mm.algorithms.c_dogd(graph, step=mm.steps.constant(0.1)) for graph in graphs]
    seen = streams(agents=6)[1]
    by_matrix = mm.simulate_many(problem, learners, seen, engine=engine, dtype="float64")
    monkeypatch.setattr("mnemesh.engine.rounds.DENSE_MIXING", 0)
    by_links = mm.simulate_many(problem, learners, seen, engine=engine, dtype="float64")
    np.testing.assert_allclose(by_links.memories, by_matrix.memories, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("value_dim", [33, 64, 65, 100])
def test_the_widest_lanes_play_the_same(value_dim, dtype):
    problem = mm.Problem("delta", mm.domains.ball(200.0), mm.interest.uniform(3))
    stream = mm.streams.teacher(agents=3, key_dim=2, value_dim=value_dim, rounds=20, correlation=0.5, seed=1)
    learner = mm.algorithms.ogd(step=mm.steps.constant(0.1))
    fast, plain = (mm.simulate(problem, learner, stream, engine=engine, dtype=dtype) for engine in ("numba", "numpy"))
    scale = abs(plain.memories).max()
    np.testing.assert_allclose(fast.memories, plain.memories, atol=scale * (1e-5 if dtype == "float32" else 1e-13))


@pytest.mark.parametrize("gate", [None, "value", "key", "scalar"])
def test_playing_along_the_network_changes_nothing_with_masks_gates_and_a_stop(gate, monkeypatch, tmp_path):
    from mnemesh.engine import layout

    names = np.random.default_rng(3).permutation(40)
    graph = mm.topology.from_edges([(int(names[a]), int(names[(a + 1) % 40])) for a in range(40)], 40)
    interest = mm.interest.nearest(graph, 3)
    loss = "delta" if gate is None else mm.losses.gated_linear(gate)
    problem = mm.Problem(loss, mm.domains.ball(5.0), interest)
    sizes = {"agents": 40, "key_dim": 3, "value_dim": 2, "correlation": 0.5, "seed": 5, "associations": 2, "presence": 0.5, "gate": gate}
    learner = mm.algorithms.dam_togd(mm.routing.shortest_path(graph, interest), step=mm.steps.constant(0.1))
    play = lambda rounds, **more: mm.simulate(problem, learner, mm.streams.teacher(rounds=rounds, **sizes), engine="numba", **more)  # noqa: E731
    plain = play(50)
    monkeypatch.setattr(layout, "_SCATTERED", 10)
    play(21, checkpoint=tmp_path / "run.npz")
    along = play(50, checkpoint=tmp_path / "run.npz", resume=True)
    np.testing.assert_array_equal(plain.losses, along.losses)
    np.testing.assert_array_equal(plain.memories, along.memories)


class Own(mm.algorithms.Algorithm):
    """Learns from one partner at a delay of its own; `settings` says nothing."""

    name, agent_by_agent = "own", True

    def __init__(self, delay):
        super().__init__(mm.steps.constant(0.1))
        self.delay = delay

    def rows(self, problem):
        rows = mm.algorithms.own_rows(problem)
        return rows._replace(delays=rows.delays + self.delay)

    def init(self, world, memories):
        return mm.algorithms.Memories(memories)

    def step(self, world, state, sample, rate):
        raise AssertionError("only the kernel plays this")

    def signature(self):
        return type(self)


def test_own_algorithms_of_one_kind_keep_their_own_rows():
    problem = mm.Problem("delta", mm.domains.ball(20.0), mm.interest.identity(3))
    seen = streams(agents=3)[1]
    many = mm.simulate_many(problem, [Own(0), Own(4)], seen, engine="numba")
    for run, delay in enumerate((0, 4)):
        np.testing.assert_array_equal(many.run(run).losses, mm.simulate(problem, Own(delay), seen, engine="numba").losses)
    assert not np.array_equal(many.run(0).losses, many.run(1).losses)


def test_gates_that_do_not_decay_do_not_decay_on_any_engine():
    loss = mm.losses.Attention("plain", gate="value")
    problem = mm.Problem(loss, mm.domains.ball(20.0), mm.interest.uniform(5))
    seen = streams(gate="value")[1]
    learner = mm.algorithms.ogd(step=mm.steps.constant(0.1))
    traces = [mm.simulate(problem, learner, seen, engine=engine, dtype="float64") for engine in ENGINES]
    for other in traces[1:]:
        np.testing.assert_allclose(other.memories, traces[0].memories, atol=1e-12)


def test_problems_can_be_copied_and_sent_to_other_processes():
    problem = mm.Problem(mm.losses.gated_linear("key"), mm.domains.ball(3.0), mm.interest.uniform(3), mm.features.taylor())
    for other in (copy.copy(problem), copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert repr(other) == repr(problem)
        assert (other.interest, other.domain, other.loss) == (problem.interest, problem.domain, problem.loss)


def test_tuning_blames_only_the_stream_that_diverged():
    problem = mm.Problem("delta", mm.domains.everything(), mm.interest.identity(1))
    mild, wild = (mm.streams.from_arrays(scale * np.ones((400, 1, 1)), np.ones((400, 1, 1))) for scale in (1.0, 40.0))
    found = mm.tune(problem, lambda step: mm.algorithms.ogd(step=step), [mild, wild], grid=[1e-4, 4e-4, 0.4])
    assert np.isinf(found.per_stream[-1]).tolist() == [False, True]


class Broken(mm.streams.Stream):
    agents, rounds, key_dim, value_dim = 3, 9, 1, 1

    def block(self, first, last, agents=None):
        keys = np.ones((last - first, 3, 1, 1))
        if first <= 4 < last:
            keys[4 - first, 2] = np.nan
        return mm.streams.Block(keys, np.ones_like(keys))


def test_data_that_are_not_finite_are_not_called_divergence():
    problem = mm.Problem("delta", mm.domains.ball(1.0), mm.interest.identity(3))
    with pytest.raises(mm.errors.DataError, match="key of agent 2 in round 5"):
        mm.simulate(problem, mm.algorithms.ogd(step=mm.steps.constant(0.1)), Broken())


@pytest.mark.parametrize("asked", ["0", "00", "two", "²", "-1"])
def test_threads_are_a_whole_number(asked, monkeypatch):
    from mnemesh import cores

    monkeypatch.setenv("MNEMESH_THREADS", asked)
    with pytest.raises(mm.errors.EngineError, match="MNEMESH_THREADS"):
        cores.threads()


def test_a_compiled_program_does_not_keep_trees_and_graphs_alive():
    interest = mm.interest.uniform(4)
    problem, stream = mm.Problem("delta", mm.domains.ball(3.25), interest), streams(agents=4)[1]
    learner = mm.algorithms.dam_togd(mm.routing.shortest_path(mm.topology.ring(4), interest), step=mm.steps.constant(0.1))
    mm.simulate(problem, learner, stream, engine="jax")
    watched = [weakref.ref(part) for part in (learner, learner.trees.graph)]
    del problem, learner
    gc.collect()
    assert [ref() for ref in watched] == [None, None]


def test_features_are_those_of_the_right_agents_however_many_threads_there_are(monkeypatch):
    from mnemesh.engine import layout

    monkeypatch.setattr(layout, "_SCATTERED", 10)
    interest = mm.interest.nearest(mm.topology.ring(40), 4)
    problem = mm.Problem("softmax_norm", mm.domains.ball(3.0), interest, mm.features.elu_plus_one())
    stream = mm.streams.teacher(agents=40, key_dim=3, value_dim=2, rounds=500, correlation=0.5, seed=1)
    learner = mm.algorithms.ogd(step=mm.steps.constant(0.1))
    seen = []
    for count in ("1", "3"):
        monkeypatch.setenv("MNEMESH_THREADS", count)
        monkeypatch.setattr("mnemesh.engine.agents._WORTH_THREADS", 0)
        seen.append(mm.simulate(problem, learner, stream, engine="numba").losses)
    np.testing.assert_array_equal(*seen)
    plain = mm.simulate(problem, learner, stream, engine="numpy").losses
    np.testing.assert_allclose(seen[0], plain, rtol=1e-3, atol=1e-4)


def test_whole_numbers_of_numpy_can_be_written_down(tmp_path):
    from mnemesh.engine import checkpoint

    checkpoint.write(tmp_path / "file", "test", {"rounds": np.int64(20)}, {"a": np.arange(3)})
    facts, arrays = checkpoint.read(tmp_path / "file", "test")
    assert facts["rounds"] == 20 and arrays["a"].tolist() == [0, 1, 2]
