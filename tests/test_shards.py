"""A simulation in shards is the simulation: its numbers, its errors, and nothing of the whole's size sent to a worker."""

from __future__ import annotations

import functools
import pickle
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mnemesh as mm
from mnemesh import errors
from mnemesh.engine.stage import Stage
from mnemesh.lab import simulate_shards
from mnemesh.lab.cuts import Part, cuts
from mnemesh.lab.shard import Ask, play

N, ROUNDS, HORIZONS = 13, 40, [1, 7, 32, 39]
GRAPH = mm.topology.random_geometric(N, radius=0.4, seed=1)
INTERESTS = {
    "scattered": mm.interest.scattered(N, 3, own=0.25, seed=1),
    "without oneself": mm.interest.nearest(GRAPH, 2, own=0.0),
    "a hub": mm.interest.from_array(np.eye(N) / 2 + np.eye(N)[[4] * N] / 2),
    "ragged": mm.interest.from_array(np.tril(np.ones((N, N))) / np.arange(1, N + 1)[:, None]),
    "oneself": mm.interest.identity(N),
}
DENSE = mm.interest.dirichlet(N, own=3.0, others=1.0, seed=1)
LOSSES: dict[str, tuple[Any, Any, str | None]] = {
    "linear": ("linear", None, None),
    "gated linear": (mm.losses.gated_linear("value"), None, "value"),
    "gated by key": (mm.losses.gated_linear("key"), None, "key"),
    "delta": ("delta", None, None),
    "softmax": ("softmax", mm.features.positive_random(3, 5, seed=1), None),
    "softmax norm": ("softmax_norm", mm.features.taylor(), None),
    "gated softmax": (mm.losses.gated_softmax("scalar"), mm.features.elu_plus_one(), "scalar"),
}
DOMAINS = {"ball": mm.domains.ball(0.7), "box": mm.domains.box(-0.3, 0.4)}


def per_agent(t: int) -> np.ndarray:
    return np.linspace(0.1, 0.3, N) / t**0.5


STEPS = {
    "one c": mm.steps.inverse_sqrt(0.2),
    "c per agent": mm.steps.inverse_sqrt(np.linspace(0.1, 0.3, N)),
    "one's own": mm.steps.as_step(per_agent),
    "optax": mm.steps.as_step(lambda t: 0.2 / t),
}


def teacher(**changes: Any) -> Any:
    settings = {"agents": N, "key_dim": 3, "value_dim": 2, "rounds": ROUNDS, "correlation": 0.5, "seed": 2, "mean_range": 1.0, "variance": 1.0}
    return mm.streams.teacher(**{**settings, **changes})


def learner(name: str, interest: Any, step: Any = STEPS["c per agent"]) -> Any:
    if name != "dam_togd":
        return mm.algorithms.get(name, step=step)
    return mm.algorithms.dam_togd(mm.routing.steiner(GRAPH, interest), step=step)


def whole(problem: Any, algorithm: Any, stream: Any, **asked: Any) -> tuple[Any, Any]:
    """Memories and regret in one piece."""
    trace = mm.simulate(problem, algorithm, stream, horizons=HORIZONS, **asked)
    return trace, mm.regret.static(problem, stream, trace)


def assert_same(sharded: Any, trace: Any, regret: Any, *, exact: bool = True, rtol: float = 1e-12) -> None:
    assert sharded.memories.dtype == trace.memories.dtype
    if exact:
        np.testing.assert_array_equal(sharded.memories, trace.memories)
    np.testing.assert_allclose(sharded.memories, trace.memories, rtol=rtol, atol=rtol)
    size = abs(regret.comparator).max()
    np.testing.assert_array_equal(sharded.regret.horizons, regret.horizons)
    np.testing.assert_allclose(sharded.regret.comparator, regret.comparator, rtol=rtol, atol=rtol * size)
    np.testing.assert_allclose(sharded.regret.per_agent, regret.per_agent, rtol=rtol, atol=rtol * size)
    np.testing.assert_allclose(sharded.regret.total, sharded.regret.per_agent.sum(1), rtol=1e-15)


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["ogd", "local_ogd", "dam_togd"])
def test_memories_are_those_of_one_piece_to_the_bit(name, loss, dtype, engine):
    """Every loss, gate and algorithm; ball and box, masks and several associations, five kinds of interest in turn."""
    made, features, gate = LOSSES[loss]
    for place, (interest, W) in enumerate(INTERESTS.items()):
        domain = list(DOMAINS)[place % 2]
        stream = teacher(gate=gate, **({"associations": 3, "presence": 0.6} if place % 3 == 0 else {}))
        problem = mm.Problem(made, DOMAINS[domain], W, features=features)
        algorithm = learner(name, W)
        expected = whole(problem, algorithm, stream, engine=engine, dtype=dtype)
        shards = (3, 4, 2, N, 5)[place]
        sharded = simulate_shards(problem, algorithm, stream, shards=shards, horizons=HORIZONS, engine=engine, dtype=dtype)
        assert (sharded.engine, sharded.shards) == (engine, shards), interest
        assert_same(sharded, *expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shards", [1, 4, N])
def test_where_everybody_cares_about_everybody(shards, dtype):
    """To the bit again with numba; with NumPy, whose one product serves all agents, to rounding."""
    stream, rounding = teacher(), {"float32": 2e-6, "float64": 1e-13}[dtype]
    for name in ("ogd", "dam_togd"):
        problem, algorithm = mm.Problem("delta", DOMAINS["ball"], DENSE), learner(name, DENSE)
        for engine, exact in (("numba", True), ("numpy", False)):
            sharded = simulate_shards(problem, algorithm, stream, shards=shards, horizons=HORIZONS, engine=engine, dtype=dtype)
            assert_same(sharded, *whole(problem, algorithm, stream, engine=engine, dtype=dtype), exact=exact, rtol=1e-12 if exact else rounding)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("stream", ["drawn", "computed", "arrays", "events"])
def test_every_rule_and_stream(stream, step):
    rng = np.random.default_rng(0)
    given = {
        "drawn": teacher(),
        "computed": mm.streams.computed_teacher(agents=N, key_dim=3, value_dim=2, rounds=ROUNDS, correlation=0.5, seed=2, variance=1.0),
        "arrays": mm.streams.from_arrays(rng.uniform(-1, 1, (ROUNDS, N, 3)), rng.normal(size=(ROUNDS, N, 2))),
        "events": mm.streams.from_events(
            rng.integers(N, size=300), rng.integers(1, ROUNDS + 1, size=300), rng.uniform(-1, 1, (300, 3)), rng.normal(size=(300, 2)),
            total_agents=N, total_rounds=ROUNDS,
        ),
    }[stream]  # fmt: skip
    W = INTERESTS["without oneself"]
    problem, algorithm = mm.Problem("delta", DOMAINS["box"], W), learner("dam_togd", W, STEPS[step])
    for engine in ("numpy", "numba"):
        expected = whole(problem, algorithm, given, engine=engine, dtype="float64")
        assert_same(simulate_shards(problem, algorithm, given, shards=4, horizons=HORIZONS, engine=engine, dtype="float64"), *expected)


@settings(max_examples=15)
@given(st.integers(2, 30), st.integers(0, 2**32 - 1), st.data())
def test_any_network_in_any_number_of_shards(agents, seed, data):
    rng = np.random.default_rng(seed)
    dense = rng.random((agents, agents)) * (rng.random((agents, agents)) < rng.random()) + np.diag(rng.random(agents) + 0.1) * (rng.random() < 0.7)
    dense[dense.sum(1) == 0, rng.integers(agents)] = 1.0
    W = mm.interest.from_array(dense / dense.sum(1, keepdims=True))
    shards = data.draw(st.integers(1, agents))
    problem = mm.Problem("delta", mm.domains.ball(1.0), W)
    trees = mm.routing.shortest_path(nx.path_graph(agents), W)
    algorithm = mm.algorithms.dam_togd(trees, step=mm.steps.constant(0.05))
    stream = teacher(agents=agents, rounds=20)
    one = mm.simulate(problem, algorithm, stream, engine="numba", dtype="float64")
    sharded = simulate_shards(problem, algorithm, stream, shards=shards, engine="numba", dtype="float64")
    np.testing.assert_array_equal(sharded.memories, one.memories)
    regret = mm.regret.static(problem, stream, one)  # at the default horizons, which are the same
    np.testing.assert_array_equal(sharded.regret.horizons, regret.horizons)
    np.testing.assert_allclose(sharded.regret.per_agent, regret.per_agent, rtol=1e-10, atol=1e-10 * abs(regret.comparator).max())


def test_jax_plays_shards():
    problem, algorithm = mm.Problem("delta", DOMAINS["ball"], INTERESTS["ragged"]), learner("dam_togd", INTERESTS["ragged"])
    for stream in (teacher(), mm.streams.computed_teacher(agents=N, key_dim=3, value_dim=2, rounds=ROUNDS, correlation=0.5, seed=2, variance=1.0)):
        sharded = simulate_shards(problem, algorithm, stream, shards=3, horizons=HORIZONS, engine="jax", dtype="float64")
        assert_same(sharded, *whole(problem, algorithm, stream, engine="numba", dtype="float64"), exact=False, rtol=1e-10)


# What is cut, and what is sent


def stage(problem: Any, algorithm: Any, stream: Any) -> Stage:
    return Stage((problem,), (algorithm,), (stream,), problem.shape(stream))


def large(agents: int) -> Stage:
    graph = nx.cycle_graph(agents)
    W = mm.interest.nearest(graph, 4)
    trees = mm.routing.shortest_path(graph, W)
    return stage(mm.Problem("delta", mm.domains.ball(9.0), W), mm.algorithms.dam_togd(trees, step=mm.steps.inverse_sqrt(0.1)), teacher(agents=agents))


def test_every_agent_plays_once_and_every_partner_is_read():
    for W in (*INTERESTS.values(), DENSE):
        for name in ("local_ogd", "dam_togd"):
            made = stage(mm.Problem("delta", DOMAINS["ball"], W), learner(name, W), teacher())
            parts = list(cuts(made, 4, shared=True))
            assert np.array_equal(np.sort(np.concatenate([cut.players for cut in parts])), np.arange(N))
            assert {len(cut.players) for cut in parts} == {3, 4}
            for cut in parts:
                read = np.unique(np.concatenate([made.score.partners[np.isin(W.rows, cut.players)], cut.players if name == "local_ogd" else []]))
                assert np.array_equal(cut.stream.block(3, 5).keys, made.streams[0].block(3, 5, read.astype(int)).keys)


def test_what_a_worker_is_sent_grows_with_its_share_alone():
    """Ten times as many agents in ten times as many shards: the same bytes a shard."""
    few, many = (pickle.dumps(next(cuts(large(agents), agents // 100, shared=True))) for agents in (500, 5_000))
    assert abs(len(many) - len(few)) < 50 and len(many) < 100_000
    keys = np.zeros((ROUNDS, 1_000, 3))
    (cut, *_) = cuts(stage(large(1_000).problems[0], mm.algorithms.ogd(step=STEPS["one c"]), mm.streams.from_arrays(keys, keys)), 10, shared=True)
    assert len(pickle.dumps(cut)) < 2 * keys.nbytes / 8


def test_agents_are_cut_along_the_network_where_that_leaves_less_to_read():
    ring, names = nx.cycle_graph(600), np.random.default_rng(0).permutation(600)
    shuffled = mm.interest.nearest(nx.relabel_nodes(ring, dict(enumerate(names.tolist()))), 4)
    problem, stream = mm.Problem("delta", mm.domains.ball(9.0), shuffled), teacher(agents=600)
    read = [cut.problem.agents for cut in cuts(stage(problem, mm.algorithms.ogd(step=STEPS["one c"]), stream), 6, shared=True)]
    assert max(read) <= 100 + 2 * 8  # as numbered, a hundred agents would have nearly four hundred partners


@pytest.mark.parametrize("who", [[0, 3, 4, 11], list(range(N))])
def test_a_part_of_a_stream_keeps_the_laws_here_and_sent(who):
    rng = np.random.default_rng(0)
    arrays = mm.streams.from_arrays(rng.normal(size=(ROUNDS, N, 3)), rng.normal(size=(ROUNDS, N, 2)), gates=rng.random((ROUNDS, N)))
    for stream in (teacher(gate="value", associations=2, presence=0.5), arrays):
        part = Part(stream, np.array(who))
        sent = pickle.loads(pickle.dumps(part))
        for made in (part, sent):
            mm.testing.check_stream(made)
            for first, last, agents in ((0, ROUNDS, None), (3, 20, np.array([2, 0]))):
                block, expected = made.block(first, last, agents), stream.block(first, last, np.array(who)[slice(None) if agents is None else agents])
                for name in ("keys", "values", "gates", "present"):
                    assert np.array_equal(getattr(block, name), getattr(expected, name)) or getattr(expected, name) is None


# Executors


class Once(Executor):
    """Plays what it is given at once, after what processes would do to it."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.futures.append(future)
        try:
            work, given = pickle.loads(pickle.dumps((fn, args)))
            future.set_result(pickle.loads(pickle.dumps(work(*given, **kwargs))))
        except Exception as error:
            future.set_exception(error)
        return future


def study(step: Any = STEPS["c per agent"]) -> tuple[Any, Any, Any]:
    W = INTERESTS["scattered"]
    return mm.Problem("delta", DOMAINS["ball"], W), learner("dam_togd", W, step), teacher()


def test_threads_and_processes_give_the_same_bits():
    told: list[tuple[float, float, str]] = []
    alone = simulate_shards(*study(), shards=3, engine="numba")
    with ThreadPoolExecutor(2) as threads, ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        for executor in (threads, processes, Once()):
            made = simulate_shards(*study(), shards=3, engine="numba", executor=executor, progress=lambda *news: told.append(news))
            np.testing.assert_array_equal(made.memories, alone.memories)
            np.testing.assert_array_equal(made.regret.per_agent, alone.regret.per_agent)
    assert told == 3 * [(1, 3, "shard 1 of 3"), (2, 3, "shard 2 of 3"), (3, 3, "shard 3 of 3")]


def test_one_stream_read_by_many_threads_is_read_right(monkeypatch):
    monkeypatch.setattr(mm.streams.drawn, "KEPT_SIZE", 0)
    problem, algorithm, _ = study()
    stream = teacher(rounds=600)
    alone = simulate_shards(problem, algorithm, stream, shards=6, horizons=[100, 600], engine="numba")
    with ThreadPoolExecutor(6) as pool:
        made = simulate_shards(problem, algorithm, stream, shards=6, horizons=[100, 600], engine="numba", executor=pool)
    np.testing.assert_array_equal(made.memories, alone.memories)


def test_the_result_prints_as_a_line():
    made = simulate_shards(*study(), shards=2, engine="numpy")
    assert repr(made).startswith("Sharded(agents=13, 2 shards, memories 2×3, engine='numpy', Regret(agents=13, ") and "\n" not in repr(made)


# What is refused


class Idle(Executor):
    """Plays nothing until told."""

    def __init__(self, *errors: BaseException) -> None:
        self.futures: list[Future[Any]] = []
        self._errors = list(errors)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.futures.append(future)
        if self._errors:
            future.set_exception(self._errors.pop(0))
        return future


@pytest.mark.parametrize("shards", [0, -1, N + 1])
def test_a_number_of_shards_without_meaning_is_refused(shards):
    with pytest.raises(errors.ShardError, match=rf"shards={shards}: a whole number from 1 to {N} is needed"):
        simulate_shards(*study(), shards=shards)


def test_an_algorithm_whose_agents_read_each_others_memories_is_refused():
    problem, _, stream = study()
    with pytest.raises(errors.ShardError, match="c_dogd cannot be cut into shards: an agent there reads others' memories"):
        simulate_shards(problem, mm.algorithms.c_dogd(GRAPH, step=STEPS["one c"]), stream, shards=2)


def test_what_one_piece_refuses_shards_refuse():
    problem, algorithm, stream = study()
    huber = mm.losses.from_value("huber", lambda z, v: ((1 + (z - v) ** 2) ** 0.5 - 1).sum(-1))
    refused: list[tuple[Any, type[Exception], str]] = [
        (lambda: simulate_shards(problem, algorithm, teacher(agents=5), shards=2), errors.ShapeError, "the same agents"),
        (lambda: simulate_shards(problem, algorithm, stream, shards=2, dtype="float16"), errors.EngineError, "'float16'"),
        (lambda: simulate_shards(problem, algorithm, stream, shards=2, engine="nunpy"), errors.EngineError, "did you mean 'numpy'"),
        (lambda: simulate_shards(problem, algorithm, stream, shards=2, horizons=[41]), errors.ShardError, r"horizons=\[41\]: .* within 1\.\.40"),
        (lambda: simulate_shards(problem, algorithm, stream, shards=2, horizons=[]), errors.ShardError, "horizons="),
        (lambda: simulate_shards(problem, algorithm, stream, shards=2, horizons=[2.5]), errors.ShardError, "whole numbers"),
        (lambda: simulate_shards(mm.Problem(huber, DOMAINS["ball"], problem.interest), algorithm, stream, shards=2), errors.RegretError, "'huber'"),
        (lambda: simulate_shards(problem, learner("ogd", None, mm.steps.constant(np.ones(5))), stream, shards=2), errors.StepError, r"\(5,\).*13 agents"),
        (lambda: simulate_shards(problem, learner("ogd", None, lambda t: 0.1 * t), stream, shards=2), errors.StepError, "rises"),
    ]
    for call, error, words in refused:
        with pytest.raises(error, match=words):
            call()


@pytest.mark.parametrize("executor", [None, Once()])
@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_a_diverging_agent_is_named_as_in_one_piece(engine, executor):
    """Only the last agents are given a rate that is not stable: these are not the first of their shard."""
    problem, algorithm, stream = study(mm.steps.constant(np.where(np.arange(N) < N - 2, 0.01, 1e4)))
    problem = mm.Problem("delta", mm.domains.everything(), problem.interest)
    with pytest.raises(errors.DivergenceError) as one:
        mm.simulate(problem, algorithm, stream, engine=engine)
    with pytest.raises(errors.DivergenceError) as sharded:
        simulate_shards(problem, algorithm, stream, shards=3, engine=engine, executor=executor)
    assert str(sharded.value) == str(one.value) and "agent 1" in str(one.value)


def test_an_agent_without_a_comparator_is_named_by_its_own_number():
    keys = np.zeros((ROUNDS, N, 3))
    keys[:, 9] = 1.0  # nobody else has anything to gain
    stream = mm.streams.from_arrays(keys, keys)
    problem = mm.Problem("linear", mm.domains.everything(), mm.interest.identity(N))
    with pytest.raises(errors.RegretError, match=r"agent 9's summed loss over the first 1 rounds"):
        simulate_shards(problem, mm.algorithms.ogd(step=STEPS["one c"]), stream, shards=4)


@functools.cache
def _unbroken() -> tuple[Any, Any, Any]:
    return study()


def test_what_fails_in_a_worker_is_raised_here_and_the_others_are_cancelled():
    executor = Idle(errors.DataError("the key of agent 3 is not finite."))
    with pytest.raises(errors.DataError, match="agent 3"):
        simulate_shards(*_unbroken(), shards=4, executor=executor)
    assert [future.cancelled() for future in executor.futures] == [False, True, True, True]


def test_a_lost_worker_is_reported():
    from concurrent.futures.process import BrokenProcessPool

    with pytest.raises(errors.ShardError, match=r"ended before its shard was done.*__main__.*more shards"):
        simulate_shards(*_unbroken(), shards=2, executor=Idle(BrokenProcessPool("gone")))
    with pytest.raises(ZeroDivisionError):  # nobody knows better
        simulate_shards(*_unbroken(), shards=2, executor=Idle(ZeroDivisionError("a fault")))


def test_a_part_that_cannot_be_sent_is_named():
    with pytest.raises(errors.ShardError, match=r"cannot be sent to another process \(.*lambda.*functions and classes of a module"):
        simulate_shards(*study(STEPS["optax"]), shards=2, executor=Once())


def test_a_shard_holds_no_more_rounds_at_once_than_asked(monkeypatch):
    """Read in many stretches, it plays the same."""
    expected = simulate_shards(*study(), shards=2, horizons=HORIZONS, engine="numba", dtype="float64")
    monkeypatch.setattr("mnemesh.lab.shard._AT_ONCE", 1)
    read: list[tuple[int, int]] = []
    block = Part.block
    monkeypatch.setattr(Part, "block", lambda self, first, last, agents=None: read.append((first, last)) or block(self, first, last, agents))
    made = simulate_shards(*study(), shards=2, horizons=HORIZONS, engine="numba", dtype="float64")
    assert set(read) == {(0, 16), (16, 32), (32, 40)}  # whole stretches of a drawn stream, whatever the horizons
    np.testing.assert_array_equal(made.memories, expected.memories)
    np.testing.assert_allclose(made.regret.per_agent, expected.regret.per_agent, rtol=1e-12)


def test_a_shard_may_be_played_by_hand():
    problem, algorithm, stream = study()
    (cut,) = cuts(stage(problem, algorithm, stream), 1, shared=True)
    played = play(cut, Ask("numpy", "float64", np.array(HORIZONS)))
    trace, regret = whole(problem, algorithm, stream, engine="numpy", dtype="float64")
    np.testing.assert_array_equal(played.memories, trace.memories)
    np.testing.assert_allclose(played.cumulative - played.comparator, regret.per_agent, rtol=1e-12)
