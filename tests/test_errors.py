"""Whatever a new user gets wrong is refused with the value, the rule and the consequence, by an error of ours."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest

import mnemesh as mm

E = mm.errors
Call = Callable[[], Any]
HUGE = 100_000


def keys(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, size=shape)


def small(loss: Any = "delta", domain: Any = None, **rest: Any) -> Any:
    return mm.Problem(loss, domain or mm.domains.ball(5.0), mm.interest.uniform(4), **rest)


def stream(agents: int = 4, rounds: int = 30, **rest: Any) -> Any:
    return mm.streams.from_arrays(keys(rounds, agents, 3), keys(rounds, agents, 2), **rest)


def simulate(problem: Any = None, learner: Any = None, data: Any = None, **settings: Any) -> Any:
    return mm.simulate(problem or small(), learner or mm.algorithms.ogd(step=mm.steps.inverse_sqrt(0.1)), data or stream(), **settings)


def in_shards(shards: Any, learner: Any = None, data: Any = None, **settings: Any) -> Any:
    from mnemesh.lab import simulate_shards  # not part of what `import mnemesh` brings

    return simulate_shards(small(), learner or ogd(mm.steps.inverse_sqrt(0.1)), data or stream(), shards=shards, **settings)


def spoiled(array: np.ndarray, value: float) -> np.ndarray:
    array = array.copy()
    array[4, 2, 1] = value
    return array


def ogd(step: Any) -> Any:
    return mm.algorithms.ogd(step=step)


def c_dogd() -> Any:
    return mm.algorithms.c_dogd(LINE, step=mm.steps.constant(0.1))


def dam_togd(W: Any) -> Any:
    return mm.algorithms.dam_togd(mm.routing.shortest_path(LINE, mm.interest.from_array(W)), step=mm.steps.constant(0.1))


def online(loss: Any = "delta", **settings: Any) -> Any:
    return mm.Online(small(loss), ogd(lambda t: 0.1), key_dim=3, value_dim=2, **settings)


LINE = nx.path_graph(4)
APART = nx.Graph([(0, 1), (2, 3)])
FAR = np.eye(4)[[3, 1, 2, 3]]  # agent 0 cares for agent 3 alone
LEAVES = [{1: None}, {2: None}, {3: None}]
BOXED = mm.Problem("delta", mm.domains.box(-0.1, 0.1), mm.interest.uniform(4))
DOUBLED = mm.losses.from_value("doubled", lambda z, v: ((z - v) ** 2).sum(-1))

# What is wrong: the call, the error, and what its message must say.
WRONG: dict[str, tuple[Call, type[Exception], tuple[str, ...]]] = {
    # interest
    "a row that does not sum to one": (lambda: mm.interest.from_array([[0.5, 0.4], [0.0, 1.0]]), E.InterestError, ("row 0", "0.9", "not 1", "scaled")),
    "a row of zeros": (lambda: mm.interest.from_array([[1.0, 0.0], [0.0, 0.0]]), E.InterestError, ("row 1", "sums to 0", "not 1")),
    "a negative weight": (lambda: mm.interest.from_array([[1.5, -0.5], [0.0, 1.0]]), E.InterestError, ("agent 0", "agent 1", "-0.5", "negative", "forgetting")),
    "a weight that is not a number": (lambda: mm.interest.from_array([[np.nan, 1.0], [0.0, 1.0]]), E.InterestError, ("agent 0", "nan", "finite")),
    "an interest that is not square": (lambda: mm.interest.from_array(np.ones((2, 3)) / 3), E.InterestError, (r"\(2, 3\)", "one row and one column per agent")),
    "an interest in nobody": (lambda: mm.interest.Interest([0, 1, 2], [0, 7], [1.0, 1.0]), E.InterestError, ("agent 1", "agent 7", r"0\.\.1")),
    "a dense interest of 10⁵ agents": (lambda: np.asarray(mm.interest.identity(HUGE)), E.InterestError, ("100,000", "GiB", "20,000", "sparse")),
    "a uniform interest of 10⁵ agents": (lambda: mm.interest.uniform(HUGE), E.InterestError, ("100,000", "GiB", "20,000")),
    "no agents": (lambda: mm.interest.uniform(0), E.InterestError, ("agents=0", "at least 1")),
    "a Dirichlet parameter of zero": (lambda: mm.interest.dirichlet(4, own=0.0, others=1.0, seed=0), E.InterestError, ("own=0.0", "positive")),
    "more neighbours than others": (lambda: mm.interest.nearest(LINE, 4), E.InterestError, ("count=4", "1 to 3")),
    "a negative seed": (lambda: mm.interest.dirichlet(4, own=1.0, others=1.0, seed=-1), E.DataError, ("seed=-1", "from 0 on")),
    # graphs
    "a disconnected graph": (lambda: mm.routing.shortest_path(APART, mm.interest.uniform(4)), E.GraphError, ("2 components", "0, 1", "2, 3", "no message")),
    "a disconnected graph to mix on": (lambda: mm.algorithms.c_dogd(APART, step=mm.steps.constant(0.1)), E.GraphError, ("2 components", "0, 1", "2, 3", "no message")),
    "edges that leave nodes apart": (lambda: mm.topology.from_edges([(0, 1), (2, 3)]), E.GraphError, ("2 components", "0, 1", "2, 3", "no message")),
    "nodes with names": (lambda: mm.routing.steiner(nx.relabel_nodes(LINE, dict(enumerate("abcd"))), mm.interest.uniform(4)), E.GraphError, (r"0\.\.3", "from_networkx")),
    "a radius too small to connect": (lambda: mm.topology.random_geometric(30, radius=0.001, seed=0), E.GraphError, ("0.001", "connect")),
    "no such builder of graphs": (lambda: mm.topology.get("rng", agents=4), E.GraphError, ("'rng'", "did you mean 'ring'")),
    # trees
    "a partner outside its tree": (lambda: mm.routing.from_parents(LINE, [{0: None, 1: 0, 2: 1}, *LEAVES], FAR), E.RoutingError, ("agent 3", "root 0|agent 0|tree 0|rooted at 0")),
    "a parent that is no neighbour": (lambda: mm.routing.from_parents(LINE, [{0: None, 1: 0, 3: 1}, *LEAVES], FAR), E.RoutingError, ("1", "3", "link|neighbour")),
    "a circle of parents": (lambda: mm.routing.from_parents(LINE, [{0: None, 1: 2, 2: 3, 3: 2}, *LEAVES], FAR), E.RoutingError, ("0", "root|circle|cycle")),
    "too few trees": (lambda: mm.routing.from_parents(LINE, LEAVES, FAR), E.RoutingError, ("3", "4")),
    "a leaf that nobody needs": (lambda: mm.routing.from_parents(LINE, [{0: None, 1: 0, 2: 1, 3: 2}, {1: None, 0: 1}, *LEAVES[1:]], FAR), E.RoutingError, ("0", "leaf")),
    "trees for another interest": (lambda: simulate(learner=dam_togd(FAR)), E.RoutingError, ("trees", "interest")),
    "trees for other agents": (lambda: mm.routing.shortest_path(LINE, mm.interest.uniform(5)), E.MnemeshError, ("4", "5")),
    "dense delays of 10⁵ agents": (lambda: mm.routing.instant(None, mm.interest.identity(HUGE)).delay, E.RoutingError, ("100,000", "GiB", "20,000")),
    "no such builder of trees": (lambda: mm.routing.get("stiener"), E.RoutingError, ("'stiener'", "did you mean 'steiner'")),
    # domains
    "a radius of zero": (lambda: mm.domains.ball(0.0), E.DomainError, ("0.0", "positive", "stay at 0")),
    "a negative radius": (lambda: mm.domains.ball(-2.0), E.DomainError, ("-2.0", "positive")),
    "a radius that is not a number": (lambda: mm.domains.ball(float("nan")), E.DomainError, ("nan", "positive and finite")),
    "a box inside out": (lambda: mm.domains.box(1.0, -1.0), E.DomainError, ("1.0", "-1.0", "below", "no inside")),
    "a box without end": (lambda: mm.domains.box(0.0, np.inf), E.DomainError, ("not finite", "everything")),
    "a box of another shape": (lambda: simulate(small(domain=mm.domains.box(-np.ones((2, 5)), 1.0))), E.DomainError, (r"\(2, 5\)", r"\(2, 3\)")),
    "no such domain": (lambda: mm.domains.get("boll", radius=1.0), E.DomainError, ("'boll'", "did you mean 'ball'")),
    # steps
    "a rate that rises": (lambda: simulate(learner=ogd(lambda t: 0.1 * t)), E.StepError, ("rises to 0.2", "round 2", "increase", "bound")),
    "a rate of zero": (lambda: mm.steps.constant(0.0), E.StepError, ("c=0.0", "positive")),
    "a rate that is not a number": (lambda: simulate(learner=ogd(lambda t: float("nan"))), E.StepError, ("round 1", "nan", "finite")),
    "rates for other agents": (lambda: simulate(learner=ogd(mm.steps.constant(np.ones(3)))), E.StepError, (r"\(3,\)", "4 agents")),
    "c for other agents": (lambda: simulate(learner=ogd(mm.steps.inverse_sqrt(np.ones(3)))), E.StepError, (r"\(3,\)", "4 agents")),
    "a step before time began": (lambda: mm.steps.inverse(0.1, t0=-1.0), E.StepError, ("t0=-1.0", "positive")),
    "no such step rule": (lambda: mm.steps.get("invers_sqrt", c=0.1), E.StepError, ("'invers_sqrt'", "did you mean 'inverse_sqrt'")),
    # losses and features
    "no such loss": (lambda: small("detla"), E.LossError, ("'detla'", "did you mean 'delta'", "gated_linear")),
    "softmax without features": (lambda: small("softmax"), E.ProblemError, ("'softmax'", "features=", "linear loss renamed")),
    "gated softmax without features": (lambda: small("gated_softmax"), E.ProblemError, ("'gated_softmax'", "features=")),
    "normalised softmax without features": (lambda: small("softmax_norm"), E.ProblemError, ("'softmax_norm'", "features=")),
    "features for other keys": (lambda: simulate(small("softmax", features=mm.features.positive_random(5, 8, seed=0))), E.FeatureError, ("3", "5")),
    "no features at all": (lambda: mm.features.positive_random(3, 0, seed=0), E.FeatureError, ("count=0", "from 1 on|at least 1", "nothing to map")),
    # streams
    "keys with NaN": (lambda: mm.streams.from_arrays(spoiled(keys(9, 4, 3), np.nan), keys(9, 4, 2)), E.DataError, ("key ", "agent 2", "round 5", "not finite", "no memory can learn")),
    "values without end": (lambda: mm.streams.from_arrays(keys(9, 4, 3), spoiled(keys(9, 4, 2), np.inf)), E.DataError, ("value ", "agent 2", "round 5", "not finite", "no memory can learn")),
    "gates above one": (lambda: stream(gates=1 + 0.5 * np.ones((30, 4))), E.DataError, ("gate", "1.5", r"\[0, 1\]")),
    "gates below zero": (lambda: stream(gates=-0.25 * np.ones((30, 4, 2))), E.DataError, ("gate", "-0.25", r"\[0, 1\]")),
    "keys and values of other agents": (lambda: mm.streams.from_arrays(keys(9, 4, 3), keys(9, 5, 2)), E.ShapeError, (r"\(9, 4", r"\(9, 5")),
    "keys and values of other rounds": (lambda: mm.streams.from_arrays(keys(9, 4, 3), keys(8, 4, 2)), E.ShapeError, (r"\(9, 4", r"\(8, 4")),
    "keys of one agent without its axis": (lambda: mm.streams.from_arrays(keys(9, 3), keys(9, 2)), E.ShapeError, (r"\(9, 3\)",)),
    "gates of other rounds": (lambda: stream(gates=np.ones((29, 4))), E.ShapeError, (r"\(29, 4\)", "30")),
    "a mask of another shape": (lambda: mm.streams.from_arrays(keys(9, 4, 2, 3), keys(9, 4, 2, 2), present=np.ones((9, 4, 3), bool)), E.ShapeError, (r"\(9, 4, 3\)", r"\(9, 4, 2")),
    "no rounds": (lambda: mm.streams.teacher(agents=4, key_dim=3, value_dim=2, rounds=0, correlation=0.5, seed=0), E.MnemeshError, ("rounds=0", "1")),
    "arrays without rounds": (lambda: mm.streams.from_arrays(keys(0, 4, 3), keys(0, 4, 2)), E.MnemeshError, (r"\(0, 4, 3\)|0 rounds|rounds=0|no round",)),
    "a correlation above one": (lambda: mm.streams.teacher(agents=4, key_dim=3, value_dim=2, rounds=9, correlation=1.5, seed=0), E.MnemeshError, ("1.5", "correlation")),
    "a stream of a negative seed": (lambda: mm.streams.teacher(agents=4, key_dim=3, value_dim=2, rounds=9, correlation=0.5, seed=-3).keys, E.DataError, ("seed=-3",)),
    "an event of nobody": (lambda: mm.streams.from_events([-1], [1], keys(1, 3), keys(1, 2)), E.MnemeshError, ("-1", "agent")),
    "an event before round 1": (lambda: mm.streams.from_events([0], [0], keys(1, 3), keys(1, 2)), E.MnemeshError, ("0", "round")),
    # what does not go together
    "an interest of other agents": (lambda: simulate(data=stream(agents=5)), E.ShapeError, ("5 agents", "4", "same agents")),
    "gates missing": (lambda: simulate(small("gated_linear")), E.ShapeError, ("'gated_linear'", "gates", "gates=")),
    "gates on the wrong axis": (lambda: simulate(small("gated_linear"), data=stream(gates=keys(30, 4, 3) ** 2)), E.ShapeError, ("'value'", r"\(T, N, 2\)", r"\(T, N, 3\)", "axis")),
    "a scalar gate for rows": (lambda: simulate(small("gated_linear"), data=stream(gates=keys(30, 4) ** 2)), E.ShapeError, ("'value'", r"\(T, N, 2\)", r"\(T, N\)")),
    "a graph of other agents": (lambda: simulate(learner=mm.algorithms.c_dogd(nx.path_graph(5), step=mm.steps.constant(0.1))), E.AlgorithmError, ("5 nodes", "4 agents")),
    "an initial memory outside": (lambda: simulate(initial=9 * np.ones((4, 2, 3))), E.DomainError, ("agent 0", "22.0", r"ball\(5\)", "outside")),
    "an initial memory that is not a number": (lambda: simulate(initial=np.full((4, 2, 3), np.nan)), E.MnemeshError, ("agent 0", "nan")),
    "initial memories of another shape": (lambda: simulate(initial=np.zeros((4, 3, 2))), E.ShapeError, (r"\(4, 3, 2\)", r"\(4, 2, 3\)")),
    "a cue of another dimension": (lambda: small().recall(np.zeros((2, 3)), np.ones(4)), E.ShapeError, ("4 features", r"\(2, 3\)")),
    "a cue that is not a number": (lambda: small().recall(np.zeros((2, 3)), np.full(3, np.nan)), E.ShapeError, ("NaN", "cue")),
    "a problem set anew": (lambda: setattr(small(), "loss", mm.losses.linear()), E.ProblemError, ("frozen", "'loss'")),
    # playing
    "no such engine": (lambda: simulate(engine="nunpy"), E.EngineError, ("'nunpy'", "numpy", "numba", "jax", "auto")),
    "an engine of another library": (lambda: simulate(engine="torch"), E.EngineError, ("'torch'", "numpy", "numba", "jax")),
    "an engine that cannot play consensus": (lambda: simulate(learner=c_dogd(), engine="numba"), E.EngineError, ("numba", "c_dogd", "numpy", "jax")),
    "an engine that cannot play a loss of one's own": (lambda: simulate(small(DOUBLED), engine="numba"), E.EngineError, ("numba", "'doubled'", "jax")),
    "no autodiff without JAX": (lambda: simulate(small(DOUBLED), engine="numpy"), E.EngineError, ("numpy", "'doubled'", "jax")),
    "a dtype that is not offered": (lambda: simulate(dtype="float16"), E.EngineError, ("'float16'", "float32", "float64")),
    "a dtype misspelt": (lambda: simulate(dtype="double64"), E.EngineError, ("'double64'", "float32", "float64")),
    "recording every zero rounds": (lambda: simulate(record_every=0), E.EngineError, ("record_every=0", "1")),
    "recording every -5 rounds": (lambda: simulate(record_every=-5), E.EngineError, ("record_every=-5",)),
    "a horizon beyond the end": (lambda: simulate(horizons=[10, 31]), E.EngineError, ("31", "30")),
    "a horizon of zero": (lambda: simulate(horizons=[0, 10]), E.EngineError, ("0", "1")),
    "half a horizon": (lambda: simulate(horizons=[10.5]), E.EngineError, ("10.5", "whole numbers")),
    "no horizons": (lambda: simulate(horizons=[]), E.EngineError, ("horizon",)),
    "resuming from nowhere": (lambda: simulate(resume=True), E.MnemeshError, ("checkpoint=", "resume")),
    "a checkpoint in no folder": (lambda: simulate(checkpoint="/nowhere/at/all"), E.CheckpointError, ("'/nowhere/at/all'", "No such file", "taken up")),
    "batches of different lengths": (lambda: mm.simulate_many([small()] * 2, [ogd(lambda t: 0.1)] * 3, stream()), E.ShapeError, ("2 problems", "3 runs", "one each")),
    "runs of different lengths": (lambda: mm.simulate_many(small(), ogd(lambda t: 0.1), [stream(), stream(rounds=20)]), E.ShapeError, ("30", "20", "stacked")),
    "an empty batch": (lambda: mm.simulate_many([], ogd(lambda t: 0.1), stream()), E.ShapeError, ("0|empty|no run",)),
    "no such algorithm": (lambda: mm.algorithms.get("damtogd"), E.AlgorithmError, ("'damtogd'", "did you mean 'dam_togd'")),
    "regret beyond the end": (lambda: mm.regret.static(small(), stream(), simulate(), horizons=[31]), E.RegretError, ("31", "30")),
    "regret of another stream": (lambda: mm.regret.static(small(), stream(rounds=40), simulate()), E.RegretError, ("30", "40")),
    "regret where nothing is least": (
        lambda: mm.regret.static(small("linear", mm.domains.everything()), stream(), simulate(small("linear", mm.domains.everything()))),
        E.RegretError, ("everything|unbounded|−∞|-inf",),
    ),
    # shards
    "no shards": (lambda: in_shards(0), E.ShardError, ("shards=0", "1 to 4", "an agent to play")),
    "more shards than agents": (lambda: in_shards(5), E.ShardError, ("shards=5", "1 to 4")),
    "consensus in shards": (lambda: in_shards(2, c_dogd()), E.ShardError, ("c_dogd", "others' memories", "mm.simulate")),
    "shards beyond the end": (lambda: in_shards(2, horizons=[31]), E.ShardError, (r"horizons=\[31\]", r"1\.\.30", "regret")),
    "a bound without a diameter": (
        lambda: mm.theory.dam_togd(small(domain=mm.domains.everything()), stream(), mm.routing.instant(LINE, mm.interest.uniform(4)), step=mm.steps.inverse_sqrt(0.1)),
        E.BoundError, (r"everything\(\)", "diameter|bounded"),
    ),
}  # fmt: skip

# Arguments that are not even of the right kind. The test run's type checker would be faster, so these run elsewhere, without it.
WRONG_KIND: dict[str, tuple[Call, type[Exception], tuple[str, ...]]] = {
    "ties of no kind": (lambda: mm.routing.steiner(LINE, mm.interest.uniform(4), ties="random"), E.RoutingError, ("'random'", "distance", "naive")),
    "no such gate axis": (lambda: mm.losses.gated_linear(gate="row"), E.MnemeshError, ("'row'", "value, key, scalar")),
    "a string for a step": (lambda: ogd("0.1"), E.StepError, ("'0.1'", "callable", "mm.steps")),
    "a number for a step": (lambda: ogd(0.1), E.StepError, ("0.1", "callable", "constant")),
    "a number for a domain": (lambda: mm.Problem("delta", 200.0, np.eye(2)), E.ProblemError, ("200.0", "ball")),
    "a string for features": (lambda: mm.Problem("softmax", mm.domains.ball(1.0), np.eye(2), features="elu_plus_one"), E.ProblemError, ("'elu_plus_one'", "mm.features")),
    "a number for a loss": (lambda: mm.Problem(3, mm.domains.ball(1.0), np.eye(2)), E.LossError, ("3", "delta")),
    "a seed of text": (lambda: mm.interest.dirichlet(4, own=1.0, others=1.0, seed="today"), E.DataError, ("'today'", "whole number")),
    "half an agent": (lambda: mm.interest.uniform(2.5), E.InterestError, ("2.5", "whole number")),
    "a number for an engine": (lambda: simulate(engine=3), E.EngineError, ("3", "numpy")),
    "an engine in a list": (lambda: simulate(engine=["numpy"]), E.EngineError, ("numpy",)),
    "recording every half round": (lambda: simulate(record_every=0.5), E.EngineError, ("record_every=0.5",)),
    "arrays for a stream": (lambda: mm.simulate(small(), ogd(lambda t: 0.1), keys(30, 4, 3)), E.MnemeshError, ("stream", "no Stream", "ndarray|array")),
    "a name for an algorithm": (lambda: mm.simulate(small(), "ogd", stream()), E.MnemeshError, ("ogd'", "no Algorithm")),
    "a graph for trees": (lambda: mm.simulate(small(), mm.algorithms.dam_togd(LINE, step=lambda t: 0.1), stream()), E.MnemeshError, ("Graph", "mm.routing")),
    "an adjacency matrix for a graph": (lambda: mm.routing.steiner(np.ones((4, 4)), mm.interest.uniform(4)), E.GraphError, ("ndarray", "networkx.Graph", "from_edges")),
    "a directed graph": (lambda: mm.routing.steiner(nx.DiGraph(LINE), mm.interest.uniform(4)), E.GraphError, ("DiGraph", "both ways", "networkx.Graph")),
    "a dictionary for a problem": (lambda: mm.simulate({}, ogd(lambda t: 0.1), stream()), E.MnemeshError, ("problem", r"\{\}|dict", "no Problem")),
}  # fmt: skip


GENTLE = mm.algorithms.ogd(step=mm.steps.constant(0.01))
WRONG_KIND |= {
    "a name for a study": (lambda: importlib.import_module("mnemesh.lab").run("fig1b", "nowhere"), E.SweepError, ("run\\(str\\)", "a Spec is needed", "read")),
    "a list for simulate": (lambda: mm.simulate([small(), small()], GENTLE, stream()), E.MnemeshError, ("simulate_many",)),
    "starts of other runs": (lambda: mm.simulate_many(small(), [GENTLE] * 3, stream(), initial=np.zeros((2, 4, 2, 3))), E.MnemeshError, ("2 initial memories for 3 runs",)),
    "words for memories": (lambda: mm.simulate(small(), GENTLE, stream(), initial="zeros"), E.MnemeshError, ("initial='zeros'",)),
    "a run that is not there": (lambda: mm.simulate_many(small(), [GENTLE] * 2, stream()).run(2), E.MnemeshError, ("no run 2",)),
    "a run of one run": (lambda: mm.simulate(small(), GENTLE, stream()).run(0), E.MnemeshError, ("one run already",)),
    "a regret of many runs": (lambda: mm.regret.static(small(), stream(), mm.simulate_many(small(), [GENTLE] * 2, stream(), horizons=[30])), E.MnemeshError, (r"trace\.run\(i\)",)),
    "a regret of another length": (lambda: mm.regret.static(small(), stream(rounds=31), mm.simulate(small(), GENTLE, stream(), horizons=[30])), E.MnemeshError, ("30 rounds .* 31",)),
    "a regret of nothing": (lambda: mm.regret.static(small(), stream(), None), E.MnemeshError, ("NoneType",)),
    "an algorithm to tune": (lambda: mm.tune(small(), GENTLE, stream()), E.MnemeshError, ("function from a step",)),
    "no streams to tune on": (lambda: mm.tune(small(), lambda step: GENTLE, []), E.MnemeshError, ("at least one",)),
    "a name for an online algorithm": (lambda: mm.Online(small(), "ogd", key_dim=3, value_dim=2), E.MnemeshError, ("str is no Algorithm",)),
    "no key dimension": (lambda: mm.Online(small(), GENTLE, key_dim=0, value_dim=2), E.MnemeshError, ("key_dim=0",)),
    "a graph for trees in a bound": (lambda: mm.theory.dam_togd(small(), stream(), mm.topology.ring(4), step=mm.steps.constant(0.1)), E.MnemeshError, ("no routing trees",)),
    "trees for a graph in a bound": (lambda: mm.theory.c_dogd(small(), stream(), mm.interest.identity(4), step=mm.steps.constant(0.1)), E.MnemeshError, ("Interest",)),
    "words for a radius": (lambda: mm.domains.ball("big"), E.MnemeshError, ("radius='big'",)),
    "ends that do not fit": (lambda: mm.domains.box([1, 2], [3, 4, 5]), E.MnemeshError, (r"\(2,\) and \(3,\)",)),
    "ragged interests": (lambda: mm.interest.from_array([[0.5, 0.5], [1.0]]), E.MnemeshError, ("not an array",)),
    "an agent that is not there": (lambda: small().interest.row(9), E.MnemeshError, ("no agent 9",)),
    "a gate that is None": (lambda: mm.losses.gated_linear(gate=None), E.MnemeshError, ("None",)),
    "settings that nothing takes": (lambda: mm.topology.get("ring", n=5), E.MnemeshError, ("ring",)),
    "ragged horizons": (lambda: mm.simulate(small(), GENTLE, stream(), horizons=[[1, 2], [3]]), E.MnemeshError, ("horizons=",)),
    "horizons between rounds": (lambda: mm.simulate(small(), GENTLE, stream(), horizons=[1.5]), E.MnemeshError, ("whole numbers",)),
    "ragged keys": (lambda: mm.Online(small(), GENTLE, key_dim=3, value_dim=2).learn([[1.0, 2, 3], [1]], np.zeros((4, 2))), E.MnemeshError, ("keys=",)),
    "a run by name": (lambda: mm.simulate_many(small(), [GENTLE] * 2, stream()).run("a"), E.MnemeshError, ("no run 'a'",)),
    "half a shard": (lambda: in_shards(0.5), E.ShardError, ("shards=0.5", "whole number")),
    "shards in words": (lambda: in_shards("two"), E.ShardError, ("shards='two'", "whole number")),
    "yes for shards": (lambda: in_shards(True), E.ShardError, ("shards=True", "whole number")),
    "a name for an algorithm in shards": (lambda: in_shards(2, "ogd"), E.ShardError, ("algorithm: str is no Algorithm",)),
    "arrays for a stream in shards": (lambda: in_shards(2, data=[1, 2]), E.ShardError, ("stream: list is no Stream",)),
    "words for horizons in shards": (lambda: in_shards(2, horizons="all"), E.ShardError, ("horizons='all'",)),
    "recall of words": (lambda: small().recall(np.zeros((2, 3)), ["a", "b", "c"]), E.MnemeshError, ("recall of",)),
}  # fmt: skip


EXTRAS = ("numba", "jax", "scipy")

# What needs an extra: the call, the library it lacks and the extra that brings that; or none.
MISSING: dict[str, tuple[Call, str, str]] = {
    "the numba engine": (lambda: simulate(engine="numba"), "numba", "sim"),
    "the JAX engine": (lambda: simulate(engine="jax"), "jax", "jax"),
    "many runs in JAX": (lambda: mm.simulate_many([small()] * 2, ogd(lambda t: 0.1), stream(), engine="jax"), "jax", "jax"),
    "autodiff": (lambda: DOUBLED.residual(np.ones(2), np.ones(2)), "jax", "jax"),
    "the automatic engine": (lambda: simulate(engine="auto"), "", ""),
    "regret in a ball": (lambda: mm.regret.static(small(), stream(), simulate()), "", ""),
    "regret in a box": (lambda: mm.regret.static(BOXED, stream(), simulate(BOXED)), "", ""),
    "trees": (lambda: [getattr(mm.routing, name)(LINE, mm.interest.uniform(4)) for name in ("steiner", "mehlhorn", "shortest_path")], "", ""),
    "a round online": (lambda: online().learn(keys(4, 3), keys(4, 2)), "", ""),
}


def says(found: SimpleNamespace, error: type[Exception], words: tuple[str, ...]) -> None:
    """An error of ours, of the right class, in one readable sentence or two that hold these words."""
    assert error.__name__ in found.classes, f"{found.classes[0]}: {found.message}"
    missing = [word for word in words if not re.search(word, found.message)]
    assert not missing, f"{missing} not in: {found.message}"
    assert (30 < len(found.message) < 400 and found.message.endswith(".")) or found.message.endswith(")"), found.message
    assert "\n" not in found.message and "array([" not in found.message, found.message


def outcome(call: Call) -> SimpleNamespace:
    """What comes of a call."""
    try:
        call()
    except Exception as error:
        return SimpleNamespace(classes=[base.__name__ for base in type(error).__mro__], message=str(error))
    return SimpleNamespace(classes=["nothing"], message="it was accepted")


@pytest.mark.parametrize("what", WRONG)
def test_refused_with_the_value_the_rule_and_the_consequence(what: str) -> None:
    call, error, words = WRONG[what]
    says(outcome(call), error, words)
    assert issubclass(error, E.MnemeshError)


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, SimpleNamespace]:
    """What comes of WRONG_KIND and MISSING in a process of the base install: no type checker, no extra."""
    plain = {name: value for name, value in os.environ.items() if name != "MNEMESH_CHECK_SHAPES"}
    code = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS})); sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_errors; test_errors.main()"
    done = subprocess.run([sys.executable, "-c", code], env=plain, capture_output=True, text=True, check=True)
    return {what: SimpleNamespace(**found) for what, found in json.loads(done.stdout).items()}


def main() -> None:
    json.dump({what: vars(outcome(call)) for what, (call, *_) in {**WRONG_KIND, **MISSING}.items()}, sys.stdout)


@pytest.mark.parametrize("what", WRONG_KIND)
def test_refused_even_if_it_is_of_the_wrong_kind(what: str, elsewhere: dict[str, SimpleNamespace]) -> None:
    _, error, words = WRONG_KIND[what]
    says(elsewhere[what], error, words)


@pytest.mark.parametrize("what", [what for what in MISSING if MISSING[what][1]])
def test_a_missing_extra_is_named_with_the_command_that_brings_it(what: str, elsewhere: dict[str, SimpleNamespace]) -> None:
    _, module, extra = MISSING[what]
    says(elsewhere[what], E.MissingExtraError, (module, "not installed", "needed for", rf"pip install 'mnemesh\[{extra}\]'"))


@pytest.mark.parametrize("what", [what for what in MISSING if not MISSING[what][1]])
def test_what_needs_no_extra_works_without_any(what: str, elsewhere: dict[str, SimpleNamespace]) -> None:
    assert elsewhere[what].classes == ["nothing"], elsewhere[what].message


def test_a_broken_library_is_not_called_a_missing_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An extra that is installed and cannot find a library of its own is reported as that."""
    (tmp_path / "rich.py").write_text("import a_library_that_rich_needs\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "rich", raising=False)
    with pytest.raises(ModuleNotFoundError, match="a_library_that_rich_needs"):
        E.require("rich", "progress")


# One round at a time.


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: online().learn(keys(4, 2), keys(4, 2)), (r"\(4, 2\)", r"\(4, 3\)|3")),
        (lambda: online().learn(keys(5, 3), keys(5, 2)), ("5", "4")),
        (lambda: online().learn(np.full((4, 3), np.nan), keys(4, 2)), ("key ", "agent 0", "round", "not finite")),
        (lambda: online("gated_linear").learn(keys(4, 3), keys(4, 2)), ("gated_linear", "gates")),
        (lambda: online("gated_linear").learn(keys(4, 3), keys(4, 2), gates=keys(4, 3) ** 2), ("gate", r"\(4, 3\)|, 3\)")),
        (lambda: online("gated_linear").learn(keys(4, 3), keys(4, 2), gates=2 * np.ones((4, 2))), ("gate", r"2", r"\[0, 1\]")),
        (lambda: online().recall(4, np.ones(3)), ("4", r"0\.\.3|4 agents")),
        (lambda: online().recall(0, np.ones(7)), ("7", "3")),
        (lambda: online(dtype="float16"), ("'float16'", "float32", "float64")),
        (lambda: online(initial=9 * np.ones((4, 2, 3))), ("agent 0", "outside")),
    ],
)
def test_an_online_run_refuses_what_simulate_refuses(call: Call, words: tuple[str, ...]) -> None:
    says(outcome(call), E.MnemeshError, words)


def test_a_refused_round_leaves_an_online_run_as_it_was() -> None:
    run, twin = online(), online()
    for step in range(3):
        with pytest.raises(E.MnemeshError):
            run.learn(np.full((4, 3), np.inf), keys(4, 2))
        np.testing.assert_array_equal(run.learn(keys(4, 3) + step, keys(4, 2)), twin.learn(keys(4, 3) + step, keys(4, 2)))


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04 half a zip"])
def test_a_file_that_is_no_checkpoint_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_bytes(content)
    says(outcome(lambda: simulate(checkpoint=path, resume=True)), E.CheckpointError, ("run", "checkpoint"))
    says(outcome(lambda: mm.Online.load(path)), E.CheckpointError, ("run",))


def test_loading_what_is_not_there_names_the_file(tmp_path: Path) -> None:
    found = outcome(lambda: mm.Online.load(tmp_path / "nowhere"))
    assert "nowhere" in found.message and ("MnemeshError" in found.classes or "FileNotFoundError" in found.classes)


def test_a_saved_run_with_a_step_of_ones_own_asks_for_it_again(tmp_path: Path) -> None:
    online().save(tmp_path / "run")
    says(outcome(lambda: mm.Online.load(tmp_path / "run")), E.CheckpointError, ("step", "algorithm="))
    again = mm.Online.load(tmp_path / "run", algorithm=ogd(lambda t: 0.1))
    np.testing.assert_array_equal(again.learn(keys(4, 3), keys(4, 2)), online().learn(keys(4, 3), keys(4, 2)))
