"""Streams: whoever reads a part reads the same numbers, the paper's moments, other people's arrays and events."""

import copy
import pickle
import subprocess
import sys
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mnemesh import streams
from mnemesh.errors import DataError, ShapeError
from mnemesh.streams import drawn
from mnemesh.streams import given as own
from mnemesh.streams.computed import threefry

SIZES = {"agents": 5, "key_dim": 3, "value_dim": 2, "rounds": 600, "correlation": 0.75, "seed": 1}
RICH = {**SIZES, "gate": "value", "presence": 0.7, "associations": 2}
KINDS = [streams.teacher, streams.computed_teacher]


def same(block, other):
    return all(a is b is None or np.array_equal(a, b) for a, b in zip(parts(block), parts(other), strict=True))


def parts(block):
    return block.keys, block.values, block.gates, block.present


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("settings_", [SIZES, RICH, {**RICH, "gate": "scalar", "correlation": 1.0}, {**RICH, "gate": "key", "gate_dim": 7, "dtype": "float64"}])
def test_any_block_is_the_same_part_of_the_whole(make, settings_, monkeypatch):
    whole = make(**settings_).block(0, 600)
    monkeypatch.setattr(drawn, "KEPT_SIZE", 0)
    stream = make(**settings_)
    for first, last, agents in [
        (0, 600, None), (0, 1, None), (255, 257, [3, 1]), (16, 48, None), (48, 64, None), (64, 500, [4]), (70, 80, None), (599, 600, [0, 4]), (5, 5, None),
    ]:  # fmt: skip
        chosen = None if agents is None else np.array(agents)
        assert same(stream.block(first, last, chosen), whole.part(first, last, chosen))
    assert whole.keys.dtype == whole.values.dtype == settings_.get("dtype", "float32")


@given(st.lists(st.tuples(st.integers(0, 600), st.integers(0, 600), st.sets(st.integers(0, 4))), min_size=1, max_size=5), st.sampled_from(KINDS))
@settings(max_examples=30)
def test_the_order_of_reading_makes_no_difference(reads, make):
    whole = make(**RICH).block(0, 600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawn, "KEPT_SIZE", 0)
        patch.setattr(drawn, "WORTH_THREADS", 0)
        stream = make(**RICH)
        for a, b, some in reads:
            first, last, agents = min(a, b), max(a, b), np.array(sorted(some), dtype=int) if some else None
            assert same(stream.block(first, last, agents), whole.part(first, last, agents))


@pytest.mark.parametrize("make", KINDS)
def test_a_longer_horizon_begins_with_the_shorter_ones_data(make):
    longer = make(**{**RICH, "rounds": 900}).block(0, 600)
    assert same(make(**RICH).block(0, 600), longer)


def test_more_agents_keep_whole_blocks_of_agents_and_all_teachers():
    few, many = (streams.teacher(**{**SIZES, "agents": n, "rounds": 20}) for n in (1024, 1500))
    assert same(few.block(0, 20), many.block(0, 20, np.arange(1024)))
    assert np.array_equal(streams.teacher(**SIZES).matrices, many.matrices[:5])
    some = np.array([1499, 3, 1024, 1023])
    assert same(many.block(3, 9, some), many.block(0, 20).part(3, 9, some))


def test_more_agents_keep_every_agents_computed_data():
    few, many = (streams.computed_teacher(**{**SIZES, "agents": n, "rounds": 20}).block(0, 20, np.arange(5)) for n in (5, 1500))
    assert same(few, many)


def test_another_process_draws_the_same_numbers():
    program = (
        "import mnemesh.streams as s, zlib, sys\n"
        f"for make in (s.teacher, s.computed_teacher):\n"
        f"    b = make(**{RICH!r}).block(200, 300)\n"
        "    print(zlib.crc32(b.keys.tobytes()), zlib.crc32(b.values.tobytes()), zlib.crc32(b.gates.tobytes()), zlib.crc32(b.present.tobytes()))\n"
        "print('jax' in sys.modules, 'scipy' in sys.modules)"
    )
    lines = {subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout for _ in range(2)}
    assert len(lines) == 1
    here = [" ".join(str(zlib.crc32(part.tobytes())) for part in parts(make(**RICH).block(200, 300))) for make in KINDS]
    assert lines.pop().splitlines() == [*here, "False False"]


RICHER = {**RICH, "agents": 2_500, "rounds": 300}


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("again", [lambda stream: pickle.loads(pickle.dumps(stream)), copy.copy, copy.deepcopy])
@pytest.mark.parametrize("settings_", [RICH, {**RICHER, "correlation": 1.0}, {**RICHER, "gate": "key", "gate_dim": 7, "dtype": "float64"}])
def test_a_copy_draws_the_same_bits_and_takes_nothing_along(make, again, settings_):
    stream = make(**settings_)
    before = pickle.dumps(stream)
    some, beginning = np.array([settings_["agents"] - 1, 2]), stream.block(16, 48)
    if make is streams.teacher and settings_["agents"] > 2_000:
        assert stream._cursors  # there is something to leave behind
    stream.keys, stream.matrices  # noqa: B018
    assert pickle.dumps(stream) == before and len(before) < 700
    other = again(stream)
    assert type(other) is type(stream) and repr(other) == repr(stream) and not {"_whole", "matrices"} & set(vars(other))
    assert not other._teachers and not getattr(other, "_cursors", None)
    assert same(other.block(16, 48), beginning) and same(other.block(250, 270, some), stream.block(250, 270, some))
    assert np.array_equal(other.matrices, stream.matrices) and (other.masked, other.gated) == (stream.masked, stream.gated)


def test_a_copy_in_another_process_draws_the_same_numbers():
    made = [make(**RICH) for make in KINDS]
    for stream in made:
        stream.block(0, 100), stream.keys
    program = (
        "import pickle, sys, zlib\n"
        "for stream in pickle.load(sys.stdin.buffer):\n"
        "    b = stream.block(200, 300)\n"
        "    print(*(zlib.crc32(part.tobytes()) for part in (b.keys, b.values, b.gates, b.present)))"
    )
    there = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(made), capture_output=True, check=True).stdout.decode()
    assert there.splitlines() == [" ".join(str(zlib.crc32(part.tobytes())) for part in parts(stream.block(200, 300))) for stream in made]


@pytest.mark.parametrize("make", KINDS)
def test_who_reads_some_agents_draws_no_others_teachers(make):
    stream = make(**{**SIZES, "agents": 5_000, "rounds": 2_000})  # too large to be kept
    stream.block(0, 16, np.array([1_100, 4_999]))
    assert set(stream._teachers) == {1, 4}
    assert np.array_equal(stream.teachers_of(np.array([4_999, 0])), stream.matrices[[4_999, 0]])


def test_drawing_in_threads_gives_the_same_bits(monkeypatch):
    big = {**SIZES, "agents": 2500, "rounds": 40}
    alone = streams.teacher(**big)._draw(0, 40, None)
    monkeypatch.setattr(drawn, "WORTH_THREADS", 0)
    assert same(streams.teacher(**big)._draw(0, 40, None), alone)


def test_a_small_stream_is_drawn_once_and_cannot_be_written_to(monkeypatch):
    stream = streams.teacher(**SIZES)
    stream.block(0, 10)
    monkeypatch.setattr(drawn, "generator", None)  # nothing is drawn any more
    assert stream.block(300, 310).keys.base is not None and stream.keys.shape == (600, 5, 3)
    with pytest.raises(ValueError, match="read-only"):
        stream.keys[0] = 0


def test_what_streams_keep_is_bounded_and_given_back(monkeypatch):
    size = 600 * 5 * 5 * 4
    monkeypatch.setattr(drawn, "_kept", 0)
    monkeypatch.setattr(drawn, "KEPT_TOTAL", 2 * size)
    kept = [streams.teacher(**{**SIZES, "seed": seed}) for seed in range(3)]
    whole = [stream.block(0, 600) for stream in kept]
    assert ["_whole" in vars(stream) for stream in kept] == [True, True, False] and drawn._kept == 2 * size
    assert same(kept[2].block(0, 600), whole[2])
    del kept
    assert drawn._kept == 0


def test_a_long_stream_takes_no_memory():
    stream = streams.teacher(**{**SIZES, "rounds": 50_000_000})
    tracemalloc.start()
    stream.block(0, 16), stream.block(49_999_000, 50_000_000)
    assert tracemalloc.get_traced_memory()[1] < 4e6
    tracemalloc.stop()
    with pytest.raises(DataError, match="as one array would hold 7,500,000,000 numbers"):
        streams.teacher(**{**SIZES, "rounds": 500_000_000}).keys  # noqa: B018


def test_sequential_reading_draws_nothing_twice(monkeypatch):
    monkeypatch.setattr(drawn, "KEPT_SIZE", 0)
    stream = streams.teacher(**SIZES)
    drawn_rounds = []
    piece = drawn.Teacher._piece
    monkeypatch.setattr(drawn.Teacher, "_piece", lambda self, *args: drawn_rounds.append(args[-1]) or piece(self, *args))
    for first in range(0, 600, 32):
        stream.block(first, min(first + 32, 600))
    assert sum(drawn_rounds) == 608


@pytest.mark.parametrize("make", KINDS)
def test_moments_are_the_papers(make):
    stream = make(agents=40, key_dim=4, value_dim=3, rounds=5000, correlation=0.3, seed=3, noise=0.5, key_range=2.0)
    keys, values = stream.keys.astype(float), stream.values.astype(float)
    assert keys.min() >= -2 and keys.max() <= 2
    assert stats.kstest(keys.ravel()[::4], stats.uniform(-2, 4).cdf).pvalue > 1e-3
    noise = values - np.einsum("nij,tnj->tni", stream.matrices.astype(float), keys)
    assert stats.kstest(noise.ravel()[::4], stats.norm(0, 0.5).cdf).pvalue > 1e-3
    for data in (keys / 2, noise / 0.5):
        flat = data.reshape(5000, -1)
        among = np.corrcoef(flat.T) - np.eye(flat.shape[1])  # of neighbours, and of entries of one agent
        assert abs(among).max() < 5.5 / np.sqrt(5000)
        for lag in (1, 2, 16, 256):  # of rounds
            then = (data[lag:] * data[:-lag]).mean((0, 1, 2)) / (data**2).mean()
            assert abs(then) < 5 / np.sqrt(data[lag:].size)
    assert abs(np.corrcoef(keys[..., :3].ravel(), noise.ravel())[0, 1]) < 5 / np.sqrt(noise.size)


def test_teachers_have_the_papers_law():
    stream = streams.teacher(agents=3000, key_dim=12, value_dim=12, rounds=1, correlation=0.0, seed=2)
    matrices = stream.matrices.astype(float).reshape(3000, -1)
    means, variances = matrices.mean(1), matrices.var(1, ddof=1)
    within = np.sqrt(variances / 144)
    assert abs(means.mean()) < 0.2 and np.std(means) == pytest.approx(np.sqrt(100 / 12 + (within**2).mean()), rel=0.04)
    assert variances.mean() == pytest.approx(25, rel=0.03) and variances.max() < 80 and variances.min() < 1  # a variance up to 50, not a deviation
    standard = (matrices - means[:, None]) / np.sqrt(variances)[:, None]
    assert stats.kstest(standard.ravel()[::50], stats.norm.cdf).pvalue > 1e-3
    common = streams.teacher(agents=3, key_dim=60, value_dim=60, rounds=1, correlation=1.0, seed=2).matrices
    assert common.shape == (1, 60, 60) and stats.kstest(common.ravel(), stats.chi2(2).cdf).pvalue > 1e-3
    half, own = (streams.teacher(agents=3, key_dim=60, value_dim=60, rounds=1, correlation=rho, seed=2).matrices for rho in (0.5, 0.0))
    np.testing.assert_allclose(half, (own + common) / 2, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make", KINDS)
def test_gates_and_presence_come_with_their_probability(make):
    stream = make(**{**RICH, "rounds": 4000, "gate_probability": 0.2})
    assert set(np.unique(stream.gates)) == {0.0, 1.0} and stream.gates.shape == (4000, 5, 2)
    assert stream.gates.mean() == pytest.approx(0.2, abs=0.01) and stream.present.mean() == pytest.approx(0.7, abs=0.01)
    assert abs(np.corrcoef(stream.gates.reshape(4000, -1).T) - np.eye(10)).max() < 0.08
    assert not stream.keys[~stream.present].any() and not stream.values[~stream.present].any()
    assert (stream.keys[stream.present] != 0).all()
    assert make(**{**SIZES, "gate": "scalar"}).gates.shape == (600, 5)
    assert make(**{**SIZES, "gate": "key"}).gates.shape == (600, 5, 3) and make(**{**SIZES, "gate": "key", "gate_dim": 9}).gates.shape == (600, 5, 9)
    assert make(**SIZES).gates is None and make(**SIZES).present is None


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"correlation": 1.5}, r"correlation=1.5: .* lies in \[0, 1\]"),
        ({"agents": 0}, "agents=0: a stream has a whole number of them"),
        ({"seed": -1}, "seed=-1 is not a whole number"),
        ({"noise": -0.1}, "noise=-0.1: .* not negative"),
        ({"key_range": 0.0}, "key_range=0.0: it must be positive"),
        ({"variance": float("nan")}, "variance=nan"),
        ({"presence": 2.0}, "presence=2.0"),
        ({"gate": "row"}, "gate='row': an axis of a memory is needed"),
        ({"gate": "value", "gate_dim": 4}, "gate_dim=4 with gate='value': only a 'key' gate"),
        ({"dtype": "float16"}, "dtype='float16'"),
    ],
)
def test_parameters_without_meaning_are_refused(make, wrong, words):
    with pytest.raises(DataError, match=words):
        make(**{**SIZES, **wrong})


@pytest.mark.parametrize("stream", [streams.teacher(**SIZES), streams.computed_teacher(**SIZES), streams.from_arrays(np.ones((600, 5, 3)), np.ones((600, 5, 2)))])
def test_blocks_outside_the_horizon_are_refused(stream):
    for first, last in ((-1, 3), (5, 4), (0, 601)):
        with pytest.raises(DataError, match=f"block\\({first}, {last}\\) of a stream of 600 rounds"):
            stream.block(first, last)


def test_streams_print_as_a_line():
    text = "Teacher(agents=5, rounds=600, key_dim=3, value_dim=2, correlation=0.75, seed=1)"
    assert repr(streams.teacher(**SIZES)) == text
    assert repr(streams.computed_teacher(**SIZES)) == text.replace("Teacher", "Computed")
    assert "up to 2 associations a round, gated" in repr(streams.teacher(**RICH))


@pytest.mark.parametrize("stream", [streams.teacher(**RICH), streams.from_arrays(np.ones((600, 5, 3)), np.ones((600, 5, 2)))])
def test_blocks_cover_the_stream_in_order(stream):
    pieces = list(stream.blocks(size=2000))
    assert [first for first, _ in pieces] == list(np.cumsum([0, *(len(block.keys) for _, block in pieces)])[:-1])
    assert np.array_equal(np.concatenate([block.keys for _, block in pieces]), stream.block(0, 600).keys)
    assert all(len(block.keys) % 16 == 0 for _, block in pieces[:-1]) and len(pieces) > 4


# Threefry and the data computed inside a run


def test_threefry_gives_its_published_answers():
    def run(key, counter, rounds):
        words = threefry(*(tuple(np.array([w], np.uint32) for w in pair) for pair in (key, counter)), rounds=rounds)
        return tuple(int(w[0]) for w in words)

    ones, pi = (0xFFFFFFFF,) * 2, ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3))
    assert run((0, 0), (0, 0), 20) == (0x6B200159, 0x99BA4EFE)
    assert run(ones, ones, 20) == (0x1CB996FC, 0xBB002BE7)
    assert run(*pi, 20) == (0xC4923A9C, 0x483DF7A0)
    assert run((0, 0), (0, 0), 13) == (0x9D1C5EC6, 0x8BD50731)
    assert run(ones, ones, 13) == (0xFD36D048, 0x2D17272C)
    assert run(*pi, 13) == (0xBA3E4725, 0xF27D669E)


@pytest.mark.parametrize("correlation", [0.75, 1.0])
def test_numpy_and_jax_compute_the_same_data(correlation):
    jax = pytest.importorskip("jax")
    stream = streams.computed_teacher(**{**RICH, "value_dim": 3, "gate": "key", "correlation": correlation})
    constants = {name: array.astype(np.float32) for name, array in stream.constants().items()}
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        draw = jax.jit(lambda constants, t: stream.draw(constants, t, jax.numpy))
        for t in (0, 1, 599):
            here, there = stream.draw(constants, t, np), draw(constants, t)
            for exact in (0, 2, 3):
                assert np.array_equal(here[exact], there[exact])
            np.testing.assert_allclose(there[1], here[1], atol=2e-5)
            block = stream.block(t, t + 1)
            assert all(np.array_equal(a, b[0]) for a, b in zip(here, parts(block), strict=True))
            some = np.array([4, 2])
            assert all(np.array_equal(a[some], b) for a, b in zip(here, stream.draw(constants, t, np, agents=some), strict=True))
        together = jax.vmap(draw, (None, 0))(constants, np.arange(3))
        assert together[0].shape == (3, 5, 2, 3)


def test_runs_of_several_seeds_share_one_program():
    jax = pytest.importorskip("jax")
    runs = [streams.computed_teacher(**{**SIZES, "seed": seed}) for seed in (1, 70_000, 2**40)]
    constants = {name: np.stack([run.constants()[name] for run in runs]) for name in ("matrices", "seeds")}
    keys, values, _, _ = jax.vmap(lambda one: runs[0].draw(one, 3, jax.numpy))(constants)
    for place, run in enumerate(runs):
        assert np.array_equal(keys[place], run.block(3, 4).keys[0])
        np.testing.assert_allclose(values[place], run.block(3, 4).values[0], atol=2e-5)


def test_nothing_is_stored_per_agent_where_all_have_one_teacher():
    constants = streams.computed_teacher(**{**SIZES, "agents": 1_000_000, "correlation": 1.0}).constants()
    assert sum(array.size for array in constants.values()) == 6 + 16


def test_float64_computes_the_same_uniforms():
    narrow, wide = (streams.computed_teacher(**{**RICH, "dtype": dtype}).block(0, 50) for dtype in ("float32", "float64"))
    assert np.array_equal(narrow.keys, wide.keys) and np.array_equal(narrow.present, wide.present) and wide.values.dtype == np.float64
    np.testing.assert_allclose(narrow.values, wide.values, atol=2e-5)


def test_a_counter_that_would_repeat_is_refused():
    with pytest.raises(DataError, match="data would repeat"):
        streams.computed_teacher(**{**SIZES, "agents": 2**31})


# Somebody's own data


def arrays(seed=0, shape=(7, 4), places=()):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((*shape, *places, 3)), rng.standard_normal((*shape, *places, 2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_are_kept_and_not_copied(dtype):
    keys, values = (array.astype(dtype) for array in arrays())
    gates = np.linspace(0, 1, 7 * 4 * 2).reshape(7, 4, 2).astype(dtype)
    stream = streams.from_arrays(keys, values, gates)
    assert np.shares_memory(stream.keys, keys) and np.shares_memory(stream.values, values) and np.shares_memory(stream.gates, gates)
    assert stream.keys.dtype == dtype and stream.keys.shape == (7, 4, 3) and stream.block(2, 4).keys.shape == (2, 4, 1, 3)
    assert np.array_equal(stream.block(2, 4, np.array([3, 0])).values[:, :, 0], values[2:4][:, [3, 0]])
    assert keys.flags.writeable


def test_other_numbers_become_floats():
    assert streams.from_arrays(np.ones((2, 2, 1), int), [[[1], [2]], [[3], [4]]]).keys.dtype == np.float64
    assert streams.from_arrays(np.ones((2, 2, 1), np.float16), np.ones((2, 2, 1))).keys.dtype == np.float32
    with pytest.raises(DataError, match="keys of type complex128"):
        streams.from_arrays(np.ones((2, 2, 1), complex), np.ones((2, 2, 1)))


def test_absent_places_may_hold_anything_and_are_zero():
    keys, values = arrays(places=(2,))
    present = np.random.default_rng(1).random((7, 4, 2)) < 0.5
    present[2, 1] = False
    gates = np.full((7, 4), 0.5)
    gates[2, 1] = np.nan
    keys[~present] = np.nan
    values[~present] = np.inf
    stream = streams.from_arrays(keys, values, gates, present)
    assert not stream.keys[~present].any() and np.array_equal(stream.keys[present], keys[present]) and np.isnan(keys[~present]).all()
    assert np.array_equal(stream.present, present) and stream.masked and np.isfinite(stream.gates).all()
    block = stream.block(0, 7)
    np.testing.assert_array_equal(block.active, present.any(-1))
    np.testing.assert_allclose(block.share.sum(-1), present.any(-1))
    assert streams.from_arrays(*arrays(), present=np.ones((7, 4), bool)).present.shape == (7, 4, 1)


@pytest.mark.parametrize("at", [(0, 0), (6, 3), (3, 1)])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_data_that_are_not_finite_name_the_agent_and_the_round(at, bad, monkeypatch):
    monkeypatch.setattr(own, "CHECKED_AT_ONCE", 20)
    for which, name in enumerate(("key", "value")):
        data = arrays()
        data[which][at][1] = bad
        with pytest.raises(DataError, match=f"the {name} of agent {at[1]} in round {at[0] + 1} is not finite"):
            streams.from_arrays(*data)


@pytest.mark.parametrize("bad", [-0.1, 1.1, np.nan])
def test_gates_outside_the_unit_interval_name_the_agent_and_the_round(bad):
    for shape in ((7, 4), (7, 4, 2)):
        gates = np.ones(shape)
        gates[5, 2] = bad
        with pytest.raises(DataError, match="the gate of agent 2 in round 6 is"):
            streams.from_arrays(*arrays(), gates)


@pytest.mark.parametrize(
    ("keys", "values", "gates", "present"),
    [
        ((7, 4, 3), (7, 5, 2), None, None),
        ((7, 4, 3), (7, 4, 1, 2), None, None),
        ((7, 4), (7, 4), None, None),
        ((0, 4, 3), (0, 4, 2), None, None),
        ((7, 4, 3), (7, 4, 2), (7, 3), None),
        ((7, 4, 3), (7, 4, 2), (7, 4, 1, 2), None),
        ((7, 4, 2, 3), (7, 4, 2, 2), None, (7, 4)),
        ((7, 4, 3), (7, 4, 2), None, (7, 4, 2)),
    ],
)
def test_shapes_that_disagree_are_named(keys, values, gates, present):
    with pytest.raises(ShapeError) as refusal:
        streams.from_arrays(*(None if shape is None else np.ones(shape) for shape in (keys, values, gates, present)))
    wrong = present or gates or values
    assert str(wrong) in str(refusal.value)


def test_a_mask_holds_true_and_false():
    with pytest.raises(DataError, match="present holds something else"):
        streams.from_arrays(*arrays(), present=np.full((7, 4), 0.5))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), min_size=1, max_size=25), st.integers(0, 5), st.integers(0, 5))
def test_events_land_where_the_log_says(log, first, length):
    agents, rounds = np.array(log).T
    keys, values = np.arange(1.0, len(log) * 2 + 1).reshape(-1, 2), -np.arange(1.0, len(log) + 1)[:, None]
    stream = streams.from_events(agents, rounds, keys, values, total_agents=4, total_rounds=6)
    expected = {}
    for e, (n, t) in enumerate(log):
        expected.setdefault((t - 1, n), []).append((keys[e].tolist(), values[e].tolist()))
    assert stream.associations == max(map(len, expected.values())) and (stream.agents, stream.rounds) == (4, 6)
    last = min(first + length, 6)
    block, whole = stream.block(first, last), stream.block(0, 6)
    assert same(block, whole.part(first, last))
    there = np.ones(whole.keys.shape[:3], bool) if whole.present is None else whole.present
    for t in range(6):
        for n in range(4):
            found = [(whole.keys[t, n, a].tolist(), whole.values[t, n, a].tolist()) for a in range(stream.associations) if there[t, n, a]]
            assert found == expected.get((t, n), [])  # in the order of the log
    assert not whole.keys[~there].any() and not whole.values[~there].any()
    assert same(stream.block(first, last, np.array([2, 0])), whole.part(first, last, np.array([2, 0])))


def test_events_that_fill_every_place_need_no_mask():
    agents, rounds = np.tile([0, 1], 3), np.repeat([1, 2, 3], 2)
    stream = streams.from_events(agents, rounds, np.arange(6.0)[:, None], np.ones((6, 1)), gates=np.full((3, 2), 0.5))
    assert not stream.masked and stream.keys.shape == (3, 2, 1) and stream.gates.shape == (3, 2)
    assert np.array_equal(stream.keys[..., 0], [[0, 1], [2, 3], [4, 5]])


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"rounds": [0, 1]}, DataError, "event 0 names round 0: rounds are counted from 1"),
        ({"agents": [0, -1]}, DataError, "event 1 names agent -1: agents are counted from 0"),
        ({"agents": [0, 3], "total_agents": 3}, DataError, "event 1 names agent 3: agents are counted from 0, here to 2"),
        ({"rounds": [1, 9], "total_rounds": 8}, DataError, "event 1 names round 9"),
        ({"agents": [0.5, 1]}, DataError, "agents of type float64: whole numbers"),
        ({"agents": [0, 1, 2]}, ShapeError, r"agents \(3,\)"),
        ({"keys": np.array([[1.0, 2], [np.nan, 0]])}, DataError, r"the key of agent 1 in round 2 \(event 1\) is not finite"),
        ({"values": np.array([[np.inf], [0]])}, DataError, r"the value of agent 0 in round 1 \(event 0\)"),
        ({"keys": np.ones((2, 0))}, DataError, "a log without events"),
        ({"gates": np.ones((3, 2))}, ShapeError, "gates of shape"),
    ],
)
def test_logs_that_make_no_sense_are_refused(changes, error, words):
    log = {"agents": [0, 1], "rounds": [1, 2], "keys": np.ones((2, 2)), "values": np.ones((2, 1)), **changes}
    with pytest.raises(error, match=words):
        streams.from_events(**log)
