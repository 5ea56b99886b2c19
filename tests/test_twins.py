"""Runs that must be the same run: with the delays taken away, with the names changed, in another engine, one round at a time, stopped and resumed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import threadpoolctl

import mnemesh as mm
from builders import ALGORITHMS, Built, Case, build, connected_graph, sparse_interest

ENGINES = ("numpy", "numba", "jax")
PLAYS = [(engine, algorithm) for engine in ENGINES for algorithm in ALGORITHMS if (engine, algorithm) != ("numba", "c_dogd")]


def same_bits(one: Any, other: Any) -> None:
    """Two traces hold the same numbers, bit for bit."""
    for part in ("losses", "memories", "history", "cumulative"):
        mine, others = getattr(one, part), getattr(other, part)
        assert (mine is None) == (others is None), part
        if mine is not None:
            assert mine.dtype == others.dtype and mine.shape == others.shape
            np.testing.assert_array_equal(mine, others, err_msg=part)


def close(found: Any, expected: Any, tolerance: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * max(1.0, float(np.max(abs(expected)))))


def parts(case: Case) -> tuple[Built, Any]:
    """A built case and a step that any algorithm may use in it."""
    return build(case), mm.steps.inverse_sqrt(0.3)


# Delays, interests and mixing that make one algorithm another.


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("loss", "gate"), [("delta", None), ("gated_linear", "key")])
def test_without_delay_tree_descent_is_ogd_bit_for_bit(engine: str, dtype: str, loss: str, gate: str | None) -> None:
    built, step = parts(Case("ogd", loss, gate, masked=True, seed=1))
    instant = mm.routing.instant(built.graph, built.problem.interest)
    descent, ogd = mm.algorithms.dam_togd(instant, step=step), mm.algorithms.ogd(step=step)
    runs = [mm.simulate(built.problem, algorithm, built.stream, engine=engine, dtype=dtype, record_every=5) for algorithm in (descent, ogd)]
    same_bits(*runs)
    delayed = mm.algorithms.dam_togd(mm.routing.shortest_path(built.graph, built.problem.interest), step=step)
    assert not np.array_equal(mm.simulate(built.problem, delayed, built.stream, engine=engine, dtype=dtype).memories, runs[1].memories)


@pytest.mark.parametrize("engine", ENGINES)
def test_who_cares_about_itself_alone_learns_alone_bit_for_bit(engine: str) -> None:
    built, step = parts(Case("ogd", "delta", seed=2))
    alone = mm.Problem("delta", built.problem.domain, mm.interest.identity(6))
    trees = mm.routing.steiner(built.graph, alone.interest)
    local, ogd, descent = (
        mm.simulate(alone, algorithm, built.stream, engine=engine)
        for algorithm in (mm.algorithms.local_ogd(step=step), mm.algorithms.ogd(step=step), mm.algorithms.dam_togd(trees, step=step))
    )
    same_bits(local, ogd)
    same_bits(local, descent)


@pytest.mark.parametrize("engine", ["numpy", "jax"])
@pytest.mark.parametrize(("loss", "gate"), [("delta", None), ("softmax_norm", None), ("gated_linear", "value")])
def test_consensus_over_everybody_is_ogd_in_the_mean_after_one_round(engine: str, loss: str, gate: str | None) -> None:
    """W = 11ᵀ/N and a_{n,m} = 1/N, which is Metropolis on the complete graph; no projection."""
    built, step = parts(Case("ogd", loss, gate, "everything", features="elu_plus_one", rounds=1, seed=3))
    problem = mm.Problem(built.problem.loss, built.problem.domain, mm.interest.uniform(6), features=built.problem.features)
    start = np.random.default_rng(0).normal(size=problem.shape(built.stream))
    consensus, ogd = (
        mm.simulate(problem, algorithm, built.stream, engine=engine, dtype="float64", initial=start)
        for algorithm in (mm.algorithms.c_dogd(nx.complete_graph(6), step=step), mm.algorithms.ogd(step=step))
    )
    for agent in range(6):
        close(consensus.memories.mean(0), ogd.memories[agent], 1e-12)
    assert np.ptp(consensus.memories, axis=0).max() > 1e-3  # each on its own data


@pytest.mark.parametrize(("engine", "algorithm"), PLAYS)
def test_other_names_for_the_agents_change_nothing_else(engine: str, algorithm: str) -> None:
    built, step = parts(Case("ogd", "gated_linear", "value", masked=True, agents=7, seed=4))
    new = np.random.default_rng(5).permutation(7)  # agent n is called new[n]
    old = np.argsort(new)
    stream, W = built.stream, np.asarray(built.problem.interest)
    graph = nx.relabel_nodes(built.graph, dict(enumerate(new.tolist())))
    problem = mm.Problem(built.problem.loss, built.problem.domain, W[np.ix_(old, old)])
    renamed = mm.streams.from_arrays(stream.keys[:, old], stream.values[:, old], gates=stream.gates[:, old], present=stream.present[:, old])
    trees = mm.routing.mehlhorn(built.graph, built.problem.interest)
    moved = [{int(new[node]): None if up is None else int(new[up]) for node, up in trees.parents[n].items()} for n in old]

    def play(problem: Any, stream: Any, graph: Any, trees: Any) -> Any:
        make = getattr(mm.algorithms, algorithm)
        where = {"c_dogd": [graph], "dam_togd": [trees]}.get(algorithm, [])
        return mm.simulate(problem, make(*where, step=step), stream, engine=engine, dtype="float64")

    before, after = play(built.problem, stream, built.graph, trees), play(problem, renamed, graph, mm.routing.from_parents(graph, moved, problem.interest))
    close(after.memories[new], before.memories, 1e-12)
    close(after.losses[:, new], before.losses, 1e-12)


# One agent alone: recurrences with names of their own.


@pytest.mark.parametrize(("engine", "algorithm"), PLAYS)
def test_one_agent_with_a_constant_rate_is_the_delta_rule(engine: str, algorithm: str) -> None:
    """S ← S − β(Sk − v)kᵀ."""
    rng, beta = np.random.default_rng(6), 0.3
    keys, values = rng.uniform(-1, 1, size=(50, 1, 4)), rng.normal(size=(50, 1, 3))
    problem = mm.Problem("delta", mm.domains.everything(), mm.interest.identity(1))
    graph = nx.empty_graph(1)
    where = {"c_dogd": [graph], "dam_togd": [mm.routing.shortest_path(graph, problem.interest)]}.get(algorithm, [])
    learner = getattr(mm.algorithms, algorithm)(*where, step=mm.steps.constant(beta))
    trace = mm.simulate(problem, learner, mm.streams.from_arrays(keys, values), engine=engine, dtype="float64")
    S = np.zeros((3, 4))
    for k, v in zip(keys[:, 0], values[:, 0]):
        S = S - beta * np.outer(S @ k - v, k)
    close(trace.memories[0], S, 1e-12)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("axis", ["value", "key", "scalar"])
def test_one_gated_agent_with_rate_one_is_the_gated_recurrence(engine: str, axis: str) -> None:
    """S ← diag(ψ)S + vkᵀ; on the key axis S ← S diag(ψ) + vkᵀ, gated linear attention as published; a scalar's S ← ψS + vkᵀ."""
    rng = np.random.default_rng(7)
    keys, values = rng.uniform(-1, 1, size=(50, 1, 4)), rng.normal(size=(50, 1, 3))
    gates = rng.random((50, 1, *{"value": (3,), "key": (4,), "scalar": ()}[axis]))
    problem = mm.Problem(mm.losses.gated_linear(gate=axis), mm.domains.everything(), mm.interest.identity(1))
    stream = mm.streams.from_arrays(keys, values, gates=gates)
    trace = mm.simulate(problem, mm.algorithms.ogd(step=mm.steps.constant(1.0)), stream, engine=engine, dtype="float64")
    S = np.zeros((3, 4))
    for k, v, psi in zip(keys[:, 0], values[:, 0], gates[:, 0]):
        kept = np.diag(psi) @ S if axis == "value" else S @ np.diag(psi) if axis == "key" else psi * S
        S = kept + np.outer(v, k)
    close(trace.memories[0], S, 1e-12)


# The same run, played otherwise.


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("loss", "gate"), [("delta", None), ("gated_softmax", "key")])
def test_every_engine_plays_the_same_run(algorithm: str, loss: str, gate: str | None) -> None:
    features = "taylor" if "softmax" in loss else "identity"
    built = build(Case(algorithm, loss, gate, features=features, step="per_agent", masked=True, rounds=300, agents=8, seed=8))
    exact = built.simulate(engine="numpy", dtype="float64")
    for engine in (engine for engine in ENGINES if (engine, algorithm) in PLAYS):
        if engine != "numpy":
            twin = built.simulate(engine=engine, dtype="float64")
            close(twin.losses, exact.losses, 1e-10)
            close(twin.memories, exact.memories, 1e-10)
        rounded = built.simulate(engine=engine)
        assert rounded.memories.dtype == np.float32
        close(rounded.losses, exact.losses, 2e-5)
        close(rounded.memories, exact.memories, 2e-5)


def test_data_computed_inside_a_run_are_those_that_the_host_reads() -> None:
    """JAX draws them on its device where horizons are all that is asked for; two runs at once see their own."""
    kind = {"agents": 8, "key_dim": 3, "value_dim": 2, "rounds": 400, "correlation": 0.5, "gate": "key", "associations": 2, "presence": 0.6, "dtype": "float64"}
    streams = [mm.streams.computed_teacher(seed=seed, **kind) for seed in (1, 2)]
    problem = mm.Problem(mm.losses.gated_linear(gate="key"), mm.domains.ball(5.0), mm.interest.nearest(nx.cycle_graph(8), 3))
    learner = mm.algorithms.dam_togd(mm.routing.shortest_path(nx.cycle_graph(8), problem.interest), step=mm.steps.inverse_sqrt(0.1))
    inside = mm.simulate_many(problem, learner, streams, engine="jax", dtype="float64", horizons=[150, 400])
    assert not np.allclose(inside.memories[0], inside.memories[1], atol=1e-3)
    for run, stream in enumerate(streams):
        host = mm.simulate(problem, learner, stream, engine="numpy", dtype="float64")
        close(inside.memories[run], host.memories, 1e-9)
        close(inside.cumulative[run], host.losses.cumsum(0)[[149, 399]], 1e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_float64_leaves_jax_as_it_was(engine: str) -> None:
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64, jax.numpy.ones(1).dtype
    build(Case(seed=9)).simulate(engine=engine, dtype="float64")
    assert (jax.config.jax_enable_x64, jax.numpy.ones(1).dtype) == before


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_is_a_function_of_its_arguments(engine: str) -> None:
    """Twice the same bits, whatever is recorded, shown or kept besides; and nothing that was passed in is touched."""
    built = build(Case("dam_togd", "gated_linear", "value", masked=True, rounds=700, given=True, seed=10))
    before = [np.array(array) for array in (built.initial, built.stream.keys, built.stream.values, built.stream.gates)]
    plain = built.simulate(engine=engine)
    same_bits(plain, built.simulate(engine=engine))
    for settings in ({"record_every": 1}, {"record_every": 7}, {"progress": True}, {"horizons": [1, 256, 300, 700]}):
        other = built.simulate(engine=engine, **settings)
        np.testing.assert_array_equal(other.memories, plain.memories, err_msg=str(settings))
    for array, now in zip(before, (built.initial, built.stream.keys, built.stream.values, built.stream.gates)):
        np.testing.assert_array_equal(array, now)


@pytest.mark.parametrize(("engine", "algorithm"), PLAYS)
def test_what_is_recorded_are_views_of_one_run(engine: str, algorithm: str) -> None:
    built = build(Case(algorithm, masked=True, rounds=600, seed=11))
    every, some = built.simulate(engine=engine, dtype="float64", record_every=1), built.simulate(engine=engine, dtype="float64", record_every=50)
    np.testing.assert_array_equal(every.recorded_rounds, np.arange(1, 601))
    np.testing.assert_array_equal(some.history, every.history[np.asarray(some.recorded_rounds) - 1])
    horizons = [1, 2, 255, 256, 257, 599, 600]
    at = built.simulate(engine=engine, dtype="float64", horizons=horizons)
    np.testing.assert_array_equal(at.horizons, horizons)
    close(at.cumulative, every.losses.cumsum(0)[np.array(horizons) - 1], 1e-12)
    whole, short = (mm.regret.static(built.problem, built.stream, trace, horizons=horizons) for trace in (every, at))
    for part in ("total", "per_agent", "comparator"):
        close(getattr(short, part), getattr(whole, part), 1e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_goes_on_from_the_memories_it_is_given(engine: str) -> None:
    """With a constant rate and no delay, memories are all there is to a run."""
    built = build(Case("ogd", "delta", step="constant", given=True, rounds=60, seed=12))
    keys, values = built.stream.keys, built.stream.values

    def play(first: int, last: int, initial: np.ndarray) -> Any:
        stream = mm.streams.from_arrays(keys[first:last], values[first:last])
        return mm.simulate(built.problem, built.algorithm, stream, engine=engine, initial=initial)

    whole, start = play(0, 60, built.initial), play(0, 25, built.initial)
    rest = play(25, 60, start.memories)
    np.testing.assert_array_equal(rest.memories, whole.memories)
    np.testing.assert_array_equal(np.concatenate([start.losses, rest.losses]), whole.losses)
    assert not np.array_equal(whole.losses[0], play(0, 60, np.zeros_like(built.initial)).losses[0])


# One round at a time.


def feed(run: Any, built: Built, first: int, last: int) -> np.ndarray:
    """Rounds first..last − 1 of a built case, the losses they gave."""
    stream = built.stream
    parts = (stream.keys, stream.values, stream.gates, stream.present)
    return np.stack([run.learn(*(None if part is None else part[t] for part in parts)) for t in range(first, last)])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("loss", "gate", "masked"), [("delta", None, False), ("delta", None, True), ("gated_softmax", "key", True)])
def test_round_by_round_is_simulate_bit_for_bit(algorithm: str, dtype: str, loss: str, gate: str | None, masked: bool, tmp_path: Path) -> None:
    built = build(Case(algorithm, loss, gate, features="taylor" if gate else "identity", step="per_agent", masked=masked, rounds=40, given=True, seed=13))
    whole = built.simulate(engine="numpy", dtype=dtype)
    several = {"associations": 3} if masked else {}
    run = mm.Online(built.problem, built.algorithm, key_dim=3, value_dim=2, dtype=dtype, initial=built.initial, **several)
    losses = [feed(run, built, 0, 17)]
    run.save(tmp_path / "run")
    again = mm.Online.load(tmp_path / "run")
    losses.append(feed(again, built, 17, 40))
    np.testing.assert_array_equal(np.concatenate(losses), whole.losses)
    np.testing.assert_array_equal(feed(run, built, 17, 40), losses[1])  # saving left the run as it was
    for other in (run, again):
        np.testing.assert_array_equal(other.memories, whole.memories)
        cue = np.linspace(-1, 1, 3)
        close(other.recall(2, cue), built.problem.recall(whole.memories[2].astype(np.float64), cue), 1e-6)


# Stopped and resumed.


class Stopped(mm.streams.Stream):
    """A stream that is switched off when rounds after `until` are asked for, and remembers the first round asked for since it was set."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.until, self.asked = stream, stream.rounds, stream.rounds
        for name in ("agents", "rounds", "key_dim", "value_dim", "associations", "masked", "gated"):
            setattr(self, name, getattr(stream, name))

    def block(self, first: int, last: int, agents: np.ndarray | None = None) -> Any:
        if last > self.until:
            raise KeyboardInterrupt
        if last - first > 1:
            self.asked = min(self.asked, first)
        return self.stream.block(first, last, agents)


@pytest.mark.parametrize(("engine", "algorithm"), PLAYS)
@pytest.mark.parametrize("settings", [{"record_every": 100}, {"horizons": [10, 1000, 3000]}], ids=["recorded", "horizons"])
def test_a_run_stopped_and_resumed_is_the_same_run_bit_for_bit(engine: str, algorithm: str, settings: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("mnemesh.engine.run._SECONDS", 0.0)  # save whenever there is a chance to
    built = build(Case(algorithm, "delta", masked=True, rounds=3000, given=True, seed=14))
    undisturbed = built.simulate(engine=engine, **settings)
    stream = Stopped(built.stream)

    def play() -> Any:
        path = tmp_path / "checkpoint"
        return mm.simulate(built.problem, built.algorithm, stream, engine=engine, initial=built.initial, checkpoint=path, resume=True, **settings)

    stream.until = 2100
    with pytest.raises(KeyboardInterrupt):
        play()
    stream.until, stream.asked = 3000, 3000
    resumed = play()
    assert 0 < stream.asked <= 2100, "a resumed run starts where the stopped one was saved"
    same_bits(resumed, undisturbed)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_finished_run_goes_on_when_its_stream_does_bit_for_bit(engine: str, tmp_path: Path) -> None:
    built = build(Case("dam_togd", "gated_linear", "value", rounds=900, seed=20))
    whole = built.stream
    begun = mm.streams.from_arrays(whole.keys[:500], whole.values[:500], gates=whole.gates[:500])
    path, settings = tmp_path / "checkpoint", {"engine": engine, "record_every": 60}
    mm.simulate(built.problem, built.algorithm, begun, checkpoint=path, **settings)
    same_bits(mm.simulate(built.problem, built.algorithm, whole, checkpoint=path, resume=True, **settings), built.simulate(**settings))


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    built, other = (build(Case("dam_togd", "delta", rounds=600, seed=seed)) for seed in (15, 16))
    built.simulate(engine="numpy", checkpoint=tmp_path / "checkpoint")
    with pytest.raises(mm.errors.CheckpointError):
        other.simulate(engine="numpy", checkpoint=tmp_path / "checkpoint", resume=True)


# Many runs at once.


@pytest.mark.parametrize(("engine", "algorithm"), PLAYS)
def test_many_runs_at_once_are_the_single_runs(engine: str, algorithm: str) -> None:
    """Runs that differ in stream and step, on one problem."""
    base = build(Case(algorithm, "gated_linear", "key", masked=True, seed=17))
    streams = [build(Case(algorithm, "gated_linear", "key", masked=True, seed=17 + run)).stream for run in range(3)]
    where = {"c_dogd": [base.graph], "dam_togd": [base.trees]}.get(algorithm, [])
    learners = [getattr(mm.algorithms, algorithm)(*where, step=mm.steps.inverse_sqrt(c)) for c in (0.1, 0.2, 0.3)]
    together = mm.simulate_many(base.problem, learners, streams, engine=engine, dtype="float64")
    assert together.losses.shape == (3, 30, 6) and together.memories.shape == (3, 6, 2, 3)
    for run, (learner, stream) in enumerate(zip(learners, streams)):
        alone = mm.simulate(base.problem, learner, stream, engine=engine, dtype="float64")
        if engine == "jax":
            close(together.losses[run], alone.losses, 1e-10)
            close(together.memories[run], alone.memories, 1e-10)
        else:
            np.testing.assert_array_equal(together.losses[run], alone.losses)
            np.testing.assert_array_equal(together.memories[run], alone.memories)


def test_many_runs_may_start_each_where_it_likes_and_keep_sums_alone() -> None:
    built = [build(Case("dam_togd", "delta", given=True, rounds=300, seed=seed)) for seed in (18, 19)]
    problem, learner, stream = built[0].problem, built[0].algorithm, built[0].stream
    starts = np.stack([one.initial for one in built])
    together = mm.simulate_many([problem] * 2, learner, stream, engine="numpy", dtype="float64", initial=starts, horizons=[7, 300])
    for run, start in enumerate(starts):
        same_bits(together.run(run), mm.simulate(problem, learner, stream, engine="numpy", dtype="float64", initial=start, horizons=[7, 300]))
    assert not np.array_equal(together.cumulative[0], together.cumulative[1])


@pytest.mark.parametrize("engine", ENGINES)
def test_many_runs_may_differ_in_interest_and_trees(engine: str) -> None:
    built = [build(Case("dam_togd", "delta", partners=None, trees=trees, seed=seed)) for seed, trees in enumerate(("mehlhorn", "instant", "from_parents"))]
    domain = mm.domains.ball(0.6)
    problems = [mm.Problem("delta", domain, one.problem.interest) for one in built]
    learners = [mm.algorithms.dam_togd(one.trees, step=mm.steps.inverse_sqrt(0.2)) for one in built]
    together = mm.simulate_many(problems, learners, built[0].stream, engine=engine, dtype="float64", record_every=10)
    for run, (problem, learner) in enumerate(zip(problems, learners)):
        alone = mm.simulate(problem, learner, built[0].stream, engine=engine, dtype="float64", record_every=10)
        close(together.losses[run], alone.losses, 1e-10)
        close(together.history[run], alone.history, 1e-10)


# Machines.


@pytest.mark.parametrize("many", [False, True], ids=["one run", "many runs"])
@pytest.mark.parametrize("engine", ENGINES)
def test_the_number_of_threads_does_not_change_a_bit(engine: str, many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours by MNEMESH_THREADS, BLAS's by its own switch."""
    graph = mm.topology.random_geometric(24, radius=0.4, seed=1)
    problem = mm.Problem("delta", mm.domains.ball(200.0), mm.interest.dirichlet(24, own=5.0, others=2.0, seed=1))
    stream = mm.streams.teacher(agents=24, key_dim=32, value_dim=32, rounds=300, correlation=0.5, seed=1)
    learner = mm.algorithms.dam_togd(mm.routing.steiner(graph, problem.interest), step=mm.steps.inverse_sqrt(0.02))
    traces = []
    for threads in (1, 2, 5):
        monkeypatch.setenv("MNEMESH_THREADS", str(threads))
        with threadpoolctl.threadpool_limits(threads):
            played = mm.simulate_many(problem, [learner] * 3, stream, engine=engine) if many else mm.simulate(problem, learner, stream, engine=engine)
        traces.append(played)
    same_bits(traces[0], traces[1])
    same_bits(traces[0], traces[2])


# Runs that come apart.


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_that_comes_apart_says_who_when_and_what_rate_would_hold(engine: str) -> None:
    """Agent 4 alone sees keys that are 30 times larger; a rate that suits the others is too much for it."""
    rng = np.random.default_rng(18)
    keys, values = rng.uniform(-1, 1, size=(400, 6, 3)), rng.normal(size=(400, 6, 2))
    keys[:, 4] *= 30
    problem = mm.Problem("delta", mm.domains.everything(), mm.interest.identity(6))
    learner = mm.algorithms.local_ogd(step=mm.steps.constant(0.1))
    with pytest.raises(mm.errors.DivergenceError) as caught:
        mm.simulate(problem, learner, mm.streams.from_arrays(keys, values), engine=engine)
    message = str(caught.value)
    assert "agent 4" in message
    assert 5 < int(re.search(r"round (\d+)", message).group(1)) < 400
    stable = 2 / (keys[:, 4] ** 2).sum(-1).max()
    numbers = [float(number) for number in re.findall(r"\d+\.?\d*(?:e[-+]?\d+)?", message)]
    assert any(number == pytest.approx(stable, rel=0.02) for number in numbers), message


@pytest.mark.parametrize("engine", ENGINES)
def test_the_stable_rate_shrinks_with_the_delay(engine: str) -> None:
    """2 sin(π/(4τ + 2))/λ for one partner at a round trip of 8: just below it a run settles, well above it a run comes apart and says so."""
    T, tau = 6000, 8
    keys = np.ones((T, 5, 1))
    problem = mm.Problem("delta", mm.domains.everything(), np.eye(5)[[4, 1, 2, 3, 4]])
    trees = mm.routing.shortest_path(nx.path_graph(5), problem.interest)
    stable = 2 * np.sin(np.pi / (4 * tau + 2))

    def play(rate: float) -> Any:
        return mm.simulate(problem, mm.algorithms.dam_togd(trees, step=mm.steps.constant(rate)), mm.streams.from_arrays(keys, keys), engine=engine)

    assert abs(play(0.95 * stable).memories[0, 0, 0] - 1) < 1e-3
    with pytest.raises(mm.errors.DivergenceError, match=rf"agent 0.*{stable:.2g}"):
        play(1.5 * stable)


def test_graphs_and_interests_used_here_are_not_degenerate() -> None:
    """Delays differ and somebody does not care about itself, or several twins above would show nothing."""
    rng = np.random.default_rng(14)
    graph, W = connected_graph(rng, 6), sparse_interest(rng, 6, 3)
    trees = mm.routing.shortest_path(graph, mm.interest.from_array(W))
    assert len(set(trees.delays.tolist())) >= 3 and (np.diag(W) == 0).any()
