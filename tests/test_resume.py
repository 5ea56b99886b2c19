"""A checkpoint is taken up by its own run alone: everything that could differ, one thing at a time."""

import numpy as np
import pytest

import mnemesh as mm

GRAPH = mm.topology.ring(4)
KEYS = np.random.default_rng(1).uniform(-1, 1, (40, 4, 3))
VALUES = np.random.default_rng(2).normal(size=(40, 4, 2))
GATES = np.random.default_rng(3).integers(0, 2, (40, 4, 2)).astype(float)
HALF = np.full((2, 3), 0.5)
RUN = {
    "loss": "delta", "domain": mm.domains.box(-HALF, HALF), "interest": mm.interest.uniform(4), "features": None,
    "trees": mm.routing.shortest_path, "step": mm.steps.constant(0.1), "keys": KEYS, "values": VALUES, "gates": None,
    "dtype": "float64", "initial": None, "record_every": None,
}  # fmt: skip


def late(array):
    """The same in round 1, other data in the last round of the checkpoint."""
    return np.concatenate([array[:19], -array[19:]])


def play(path, engine, rounds, resume, **changes):
    run = {**RUN, **changes}
    problem = mm.Problem(run["loss"], run["domain"], run["interest"], run["features"])
    algorithm = mm.algorithms.dam_togd(run["trees"](GRAPH, problem.interest), step=run["step"])
    gates = None if run["gates"] is None else run["gates"][:rounds]
    stream = mm.streams.from_arrays(run["keys"][:rounds], run["values"][:rounds], gates)
    options = {"dtype": run["dtype"], "initial": run["initial"], "record_every": run["record_every"]}
    return mm.simulate(problem, algorithm, stream, engine=engine, checkpoint=path, resume=resume, **options)


OTHER = {
    "only the box's numbers": {"domain": mm.domains.box(-HALF, HALF * 1.0001)},
    "only the step after round 1": {"step": mm.steps.inverse_sqrt(0.1)},
    "only the last round's values": {"values": late(VALUES)},
    "only the last round's keys": {"keys": late(KEYS)},
    "only the interest": {"interest": mm.interest.dirichlet(4, own=1.0, others=1.0, seed=1)},
    "only the trees": {"trees": mm.routing.instant},
    "only the initial memories": {"initial": HALF / 2},
    "only the number type": {"dtype": "float32"},
    "only the record": {"record_every": 5},
    "only the loss": {"loss": "linear"},
    "only the features": {"features": mm.features.elu_plus_one()},
}


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize("changes", OTHER.values(), ids=OTHER)
def test_another_run_is_refused(changes, engine, tmp_path):
    play(tmp_path / "run.npz", engine, 20, False)
    with pytest.raises(mm.errors.CheckpointError, match="another run"):
        play(tmp_path / "run.npz", engine, 40, True, **changes)


def test_other_gates_are_refused(tmp_path):
    gated = {"loss": mm.losses.gated_linear(), "gates": GATES}
    play(tmp_path / "run.npz", "numpy", 20, False, **gated)
    with pytest.raises(mm.errors.CheckpointError, match="last data"):
        play(tmp_path / "run.npz", "numpy", 40, True, **{**gated, "gates": np.concatenate([GATES[:19], 1 - GATES[19:]])})


def test_another_seed_of_random_features_is_refused(tmp_path):
    first, second = (mm.features.positive_random(3, 3, seed=seed) for seed in (1, 2))
    play(tmp_path / "run.npz", "numpy", 20, False, features=first)
    with pytest.raises(mm.errors.CheckpointError, match="features differs"):
        play(tmp_path / "run.npz", "numpy", 40, True, features=second)


@pytest.mark.parametrize("engine", ["numpy", "numba", "jax"])
def test_the_same_run_goes_on_to_the_same_bits(engine, tmp_path):
    whole = play(tmp_path / "whole.npz", engine, 40, False)
    play(tmp_path / "run.npz", engine, 20, False)
    further = play(tmp_path / "run.npz", engine, 40, True)
    np.testing.assert_array_equal(further.losses, whole.losses)
    np.testing.assert_array_equal(further.memories, whole.memories)


def test_what_auto_began_auto_goes_on_with(tmp_path, monkeypatch):
    """A longer run might be another engine's; one that goes on is played as it was begun."""
    from mnemesh.engine import choose

    play(tmp_path / "run.npz", "auto", 20, False)
    monkeypatch.setattr(choose, "_WORTH_COMPILING", 0.0)
    assert play(tmp_path / "run.npz", "auto", 40, True).engine == "numpy"
    assert play(tmp_path / "new.npz", "auto", 40, True).engine == "numba"
