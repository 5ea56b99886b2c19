"""Stores against a model in plain Python: what was acknowledged is there once, nothing goes back, and no damage is passed over in silence."""

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mnemesh.errors import StoreError
from mnemesh.live.store import Counts, MemoryStore, SQLiteStore, export_state, import_state
from mnemesh.live.store.wal import damaged

SHAPE, KEYS, AGE = (3, 4), 2, 5
QUICK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # where the disk is not waited for
FACTS = {"agent": "lisbon", "shape": SHAPE, "dtype": "float32", "key_dim": KEYS}


def opened(path, **settings):
    return SQLiteStore(path, **{**FACTS, "max_age": AGE, **settings})


def memory(number):
    return np.full(SHAPE, number, np.float32)


def told(number):
    """An association that says which one it is; the gate comes in every form."""
    gates = (None, 0.5, np.full(SHAPE[0], 0.25), np.full(SHAPE[1], 0.75))
    return np.full(KEYS, number), np.full(SHAPE[0], -number), gates[number % 4]


def same(one, number):
    key, value, gate = told(number)
    kinds = {part.dtype for part in (one.key, one.value)} == {np.dtype("float32")}
    return one.id == number and kinds and (one.key == key).all() and (one.value == value).all() and np.array_equal(one.gate, gate)


def filled(path, rounds=6, **settings):
    """A store with a history: two associations a round, one of them played."""
    store = opened(path, **settings)
    for r in range(1, rounds + 1):
        store.learn_all([told(2 * r - 1), told(2 * r)])
        store.commit(r, 0, memory(r), 0.5, 100.0 + r, [r])
    return store


def state(store):
    """All that a store would go on from, comparable."""
    kept, plain = store.load(), lambda one: (one.id, one.batch, one.key.tolist(), one.value.tolist(), None if one.gate is None else one.gate.tolist())
    made = None if kept is None else {r: [plain(one) for one in played] for r, played in kept.made.items()}
    rest = None if kept is None else (kept.incarnation, kept.round, kept.memory.tolist(), kept.credit, kept.time, kept.memory_round, kept.lost)
    return rest, made, [plain(one) for one in store.waiting()], store.counts


def left_by_a_crash(path, folder):
    """What a killed process leaves: the file and its log as they are now."""
    folder.mkdir(parents=True)
    for part in path.parent.iterdir():
        if part.name in (path.name, f"{path.name}-wal"):
            shutil.copy(part, folder / part.name)
    return folder / path.name


def flip(path, at, by=1):
    data = bytearray(path.read_bytes())
    data[at] ^= by
    path.write_bytes(data)


def damage(path, table, column, row):
    """One bit of one value, in a file that SQLite finds nothing wrong with."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        data = bytearray(db.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (row,)).fetchone()[0])
        data[len(data) // 2] ^= 4
        db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (bytes(data), row))


def contents(folder):
    return {part.name: part.read_bytes() for part in folder.iterdir() if not part.name.endswith((".lock", "-shm"))}


# --- the model -------------------------------------------------------------------------------------------------------------------------------


class Life(RuleBasedStateMachine):
    """An agent's store over many lives, beside lists and dicts that hold the same."""

    durable = True

    @initialize(every=st.integers(1, 4))
    def begin(self, every):
        self.every, self.files = every, tempfile.TemporaryDirectory(dir=QUICK)
        self.path = Path(self.files.name) / "0" / "lisbon.db"
        self.path.parent.mkdir()
        self.acknowledged, self.made, self.round, self.incarnation = 0, {}, 0, 0
        self.written: list[int] = []  # rounds whose memories are on the disk and whole
        self.since, self.lives, self.bad, self.batch = every, 0, False, {}
        self.store = opened(self.path, commit_every=every) if self.durable else MemoryStore(**FACTS, max_age=AGE, commit_every=every)

    def waits(self):
        played = {number for numbers in self.made.values() for number in numbers}
        return [number for number in range(1, self.acknowledged + 1) if number not in played]

    @rule(count=st.integers(1, 3), together=st.booleans())
    def learn(self, count, together):
        coming, first = [told(self.acknowledged + i) for i in range(1, count + 1)], self.acknowledged + 1
        numbers = self.store.learn_all(coming) if together else [self.store.learn(*one) for one in coming]
        assert list(numbers) == list(range(self.acknowledged + 1, self.acknowledged + count + 1))
        self.acknowledged += count
        self.batch |= {number: first if together else number for number in numbers}

    @rule(ahead=st.integers(1, 3), share=st.integers(0, 3), reborn=st.booleans())
    def commit(self, ahead, share, reborn):
        waits = self.waits()
        assigned = waits[:share] if ahead < 3 else waits[::-1][:share]
        self.round, self.incarnation = self.round + ahead, self.incarnation + reborn
        self.store.commit(self.round, self.incarnation, memory(self.round), 0.25, 7.0 * self.round, assigned)
        self.made[self.round] = assigned
        self.since += 1
        if self.since >= self.every:
            self.wrote()

    def wrote(self):
        self.written, self.since, self.bad = [*self.written[-1:], self.round], 0, False

    @rule(fault=st.sampled_from(["round", "incarnation", "nan", "shape", "twice", "unknown", "played", "credit", "key", "value", "half"]))
    def refuse(self, fault):
        waits, before = self.waits(), self.store.counts
        played = [number for numbers in self.made.values() for number in numbers]
        given = {"round": self.round + 1, "incarnation": self.incarnation, "memory": memory(1), "credit": 0.0, "time": 0.0, "assigned": waits[:1]}
        wrong = {
            "round": {"round": self.round},
            "incarnation": {"incarnation": self.incarnation - 1},
            "nan": {"memory": memory(np.nan)},
            "shape": {"memory": memory(1).T},
            "twice": {"assigned": waits[:1] * 2 or [0]},
            "unknown": {"assigned": [*waits[:1], self.acknowledged + 1]},
            "played": {"assigned": [*waits[:1], *(played[-1:] or [0])]},
            "credit": {"credit": float("inf")},
        }
        with pytest.raises(StoreError):
            if fault == "key":
                self.store.learn_all([told(1), (np.ones(KEYS + 1), np.ones(SHAPE[0]))])
            elif fault == "half":
                self.store.learn_all([told(1), (np.ones(KEYS),)])
            elif fault == "value":
                self.store.learn_all([told(1), (np.ones(KEYS), np.full(SHAPE[0], 1e300))])
            else:
                self.store.commit(**{**given, **wrong[fault]})
        assert self.store.counts == before

    @rule()
    def flush(self):
        self.store.flush()
        if self.made and 0 < self.since < self.every:
            self.wrote()

    @rule()
    def crash(self):
        self.reopen(clean=False)

    @rule()
    def stop(self):
        self.flush()
        self.reopen(clean=True)

    def reopen(self, clean):
        self.since, self.lives = self.every, self.lives + 1
        if not self.durable:
            return
        if not clean:
            after = left_by_a_crash(self.path, Path(self.files.name) / str(self.lives))
            self.store.close()
            shutil.rmtree(self.path.parent)
            self.path = after
        else:
            self.store.close()
        self.store = opened(self.path, commit_every=self.every, allow_older=self.bad)

    @precondition(lambda self: self.durable and len(self.written) == 2 and not self.bad)
    @rule()
    def lose_the_newest_memory(self):
        self.stop()
        self.store.close()
        damage(self.path, "memories", "data", self.written[-1])
        before = contents(self.path.parent)
        with pytest.raises(StoreError, match=rf"memory of round {self.written[-1]} differs.*allow_older=True.*round {self.written[0]}"):
            opened(self.path, commit_every=self.every)
        assert contents(self.path.parent) == before
        del self.written[-1]
        self.bad = True
        self.store = opened(self.path, commit_every=self.every, allow_older=True)

    @precondition(lambda self: self.durable)
    @rule(spare=st.integers(0, 2))
    def fill_the_disk(self, spare):
        db = self.store._db
        db.execute(f"PRAGMA max_page_count={db.execute('PRAGMA page_count').fetchone()[0] + spare}")
        for _ in range(3000):
            try:
                self.store.learn_all([told(self.acknowledged + i) for i in range(1, 41)])
            except StoreError as full:
                assert "the disk is full" in str(full)
                break
            self.batch |= {self.acknowledged + i: self.acknowledged + 1 for i in range(1, 41)}
            self.acknowledged += 40
        else:
            raise AssertionError("no disk is that large")
        assert self.store.waiting(1) or not self.waits()
        db.execute("PRAGMA max_page_count=1000000")

    @invariant()
    def each_is_there_once(self):
        waits = self.waits()
        played = sum(map(len, self.made.values()))
        assert self.store.counts == Counts(self.acknowledged, played, len(waits))
        there = self.store.waiting()
        assert [one.id for one in there] == waits and all(same(one, number) for one, number in zip(there, waits, strict=True))
        assert all(one.batch == self.batch[one.id] for one in there)
        assert [one.id for one in self.store.oldest()] == list(takewhile(lambda number: self.batch[number] == self.batch[waits[0]], waits))

    @precondition(lambda self: self.since == self.every)  # loading is what a start does
    @invariant()
    def a_start_goes_on_from_here(self):
        kept = self.store.load()
        if not self.made:
            assert kept is None
            return
        written = self.written[-1]
        assert (kept.round, kept.incarnation, kept.memory_round) == (self.round, self.incarnation, written)
        assert (kept.credit, kept.time) == (0.25, 7.0 * self.round)
        assert (kept.memory == memory(written)).all() and kept.memory.dtype == np.float32 and not kept.memory.flags.writeable
        expected = {r: numbers for r, numbers in self.made.items() if r > self.round - AGE}
        assert {r: [one.id for one in played] for r, played in kept.made.items()} == expected
        assert all(same(one, one.id) for played in kept.made.values() for one in played)
        recent = [r for r in self.made if r > max(written, self.round - AGE)]
        assert [r for r in kept.lost if r > self.round - AGE] == recent and all(r > written for r in kept.lost)

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            self.files.cleanup()


class LifeInMemory(Life):
    durable = False


TestLife = Life.TestCase
TestLifeInMemory = LifeInMemory.TestCase
TestLife.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestLifeInMemory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


# --- processes -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [1, 4])
def test_killed_processes_lose_nothing_that_they_acknowledged(tmp_path, every):
    command = [sys.executable, "-W", "error", str(Path(__file__).with_name("killing.py")), str(tmp_path / "lisbon.db"), "20", str(every)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["told"] >= 20 and said["incarnation"] > 0
    assert (max(said["lost"]) > 0) == (every > 1)


def elsewhere(program, *arguments):
    start = f"from mnemesh.live.store import *; from mnemesh.errors import StoreError; import sys; facts = {FACTS!r} | {{'max_age': {AGE}}}\n"
    done = subprocess.run([sys.executable, "-W", "error", "-c", start + program, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_second_process_is_refused_and_told_who_has_it(tmp_path):
    path, try_it = tmp_path / "lisbon.db", "try: SQLiteStore(sys.argv[1], **facts)\nexcept StoreError as e: print(e)"
    (tmp_path / "link.db").symlink_to(path)
    with filled(path) as store:
        before = state(store)
        for name in (path, tmp_path / "link.db"):
            refused = elsewhere(try_it, name)
            assert refused == f"{path} is in use by process {os.getpid()}: an agent is one process, so stop that one first."
        with pytest.raises(StoreError, match="in use by process"):
            opened(path)
        assert state(store) == before
    assert not elsewhere(try_it, path)


def test_a_process_that_may_write_no_more_keeps_what_it_acknowledged(tmp_path):
    path = tmp_path / "lisbon.db"
    program = """import resource, numpy
resource.setrlimit(resource.RLIMIT_FSIZE, (90_000, 90_000))
store, n = SQLiteStore(sys.argv[1], **facts), 0
try:
    while n < 10_000:
        n = store.learn(numpy.ones(2), numpy.ones(3))
except StoreError as error:
    assert 'acknowledged is safe' in str(error), error
print(n, store.counts.waiting, len(store.waiting()))"""
    acknowledged = int(elsewhere(program, path).split()[0])
    with opened(path) as store:
        assert acknowledged <= store.counts.acknowledged <= acknowledged + 1 < 10_000
        store.learn(*told(1))


def test_threads_learn_while_rounds_are_committed(tmp_path):
    with opened(tmp_path / "lisbon.db", max_age=1000) as store:
        numbers: list[int] = []
        threads = [threading.Thread(target=lambda: numbers.extend(store.learn(*told(1)) for _ in range(15))) for _ in range(4)]
        for thread in threads:
            thread.start()
        played, r = 0, 0
        while any(thread.is_alive() for thread in threads) or store.waiting(1):
            r, coming = r + 1, [one.id for one in store.waiting(5)]
            store.commit(r, 0, memory(r), 0.0, 0.0, coming)
            played += len(coming)
        assert sorted(numbers) == list(range(1, 61)) and played == 60
        assert sorted(one.id for made in store.load().made.values() for one in made) == sorted(numbers)


# --- damage ----------------------------------------------------------------------------------------------------------------------------------


def test_a_flipped_bit_anywhere_is_refused_or_harmless(tmp_path):
    path, chance = tmp_path / "lisbon.db", random.Random(3)
    with filled(path, 30) as store:
        expected = state(store)
    whole, refused = path.read_bytes(), 0
    for _ in range(250):
        flip(path, chance.randrange(len(whole)), 1 << chance.randrange(8))
        broken = path.read_bytes()
        try:
            with opened(path) as store:
                assert state(store) == expected
        except StoreError as error:
            assert str(error).startswith(str(path)) and "\n" not in str(error)
            assert path.read_bytes() == broken, "a damaged file was changed"
            refused += 1
        path.write_bytes(whole)
    assert refused > 25  # most of the rest is space that nothing uses


def test_a_flipped_bit_in_the_log_costs_nothing_that_a_later_commit_shows_to_be_missing(tmp_path):
    chance, states = random.Random(4), []
    store = opened(tmp_path / "a" / "lisbon.db") if (tmp_path / "a").mkdir() is None else None
    for r in range(1, 7):
        store.learn(*told(r))
        states.append(state(store))
        store.commit(r, 0, memory(r), 0.0, 0.0, [r])
        states.append(state(store))
    left = left_by_a_crash(store.path, tmp_path / "left")
    store.close()
    log, refused = left.with_name("lisbon.db-wal"), 0
    for i in range(120):
        path = left_by_a_crash(left, tmp_path / str(i))
        flip(path.with_name(log.name), chance.randrange(log.stat().st_size), 1 << chance.randrange(8))
        before = contents(path.parent)
        try:
            with opened(path) as store:
                assert state(store) in states[-2:], "transactions vanished without a word"
        except StoreError as error:
            assert "damaged ahead of what was committed later" in str(error)
            assert contents(path.parent) == before
            refused += 1
        shutil.rmtree(path.parent)
    assert refused > 60


def test_a_log_that_ends_anywhere_is_what_a_crash_leaves(tmp_path):
    (tmp_path / "a").mkdir()
    with filled(tmp_path / "a" / "lisbon.db", 3) as store:
        left = left_by_a_crash(store.path, tmp_path / "left")
    log = left.with_name("lisbon.db-wal")
    whole = log.read_bytes()
    for size in range(0, len(whole), 777):
        log.write_bytes(whole[:size])
        assert not damaged(log)
        log.write_bytes(whole[:size].ljust(len(whole), b"\0"))
        assert not damaged(log)


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "lisbon.db"
    filled(path, 30).close()
    whole = path.read_bytes()
    for size in [*range(0, len(whole), 1500), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(StoreError, match=r"lisbon\.db"):
            opened(path)
        assert path.read_bytes() == whole[:size]


@pytest.mark.parametrize(("table", "column", "row"), [("associations", "data", 9), ("rounds", "assigned", 5), ("facts", "checksum", 1), ("memories", "data", 5)])
def test_a_damaged_row_is_named(tmp_path, table, column, row):
    path = tmp_path / "lisbon.db"
    filled(path).close()
    damage(path, table, column, row)
    if table == "memories":  # not the newest: nothing depends on it
        opened(path).close()
        damage(path, table, column, 6)
    with pytest.raises(StoreError, match=r"corrupt: .*nothing was changed: .*import the last export"):
        opened(path)


@pytest.mark.parametrize("lost", ["DELETE FROM associations WHERE id = 12", "DELETE FROM associations WHERE id = 5", "DELETE FROM memories WHERE round = 6",
                                  "DELETE FROM rounds WHERE round = 6", "DELETE FROM facts", "DROP TABLE rounds"])  # fmt: skip
def test_a_row_that_is_gone_is_missed(tmp_path, lost):
    path = tmp_path / "lisbon.db"
    filled(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(lost)
    with pytest.raises(StoreError, match=r"corrupt"):
        opened(path)


def test_the_older_memory_is_never_given_up_for_one_that_is_damaged(tmp_path):
    path = tmp_path / "lisbon.db"
    filled(path).close()
    damage(path, "memories", "data", 6)
    with opened(path, allow_older=True) as store:
        kept = store.load()
        assert (kept.round, kept.memory_round, kept.lost) == (6, 5, (6,)) and (kept.memory == memory(5)).all()
        store.commit(7, 1, memory(7), 0.0, 0.0)
    damage(path, "memories", "data", 7)
    with opened(path, allow_older=True) as store:
        assert store.load().memory_round == 5


# --- files that are something else -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"agent": "porto"}, "agent 'lisbon', not 'porto'"),
        ({"shape": (4, 4)}, r"shape \(3, 4\), not \(4, 4\)"),
        ({"dtype": "float64"}, "dtype 'float32', not 'float64'"),
        ({"key_dim": 3, "agent": "faro"}, "agent 'lisbon', not 'faro', key_dim 2, not 3"),
    ],
)
def test_another_agents_file_is_left_as_it_is(tmp_path, settings, named):
    filled(tmp_path / "lisbon.db").close()
    before = contents(tmp_path)
    with pytest.raises(StoreError, match=f"of another agent or network, and was left as it is: {named}"):
        opened(tmp_path / "lisbon.db", **settings)
    assert contents(tmp_path) == before


def test_strange_files_are_refused(tmp_path):
    path = tmp_path / "lisbon.db"
    for strange, words in ((b"", "it is empty"), (b"key,value\n" * 500, "no SQLite database")):
        path.write_bytes(strange)
        with pytest.raises(StoreError, match=words):
            opened(path)
        assert path.read_bytes() == strange
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE songs (name TEXT)")
    with pytest.raises(StoreError, match="a database of something else"):
        opened(path)
    path.unlink()
    filled(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version=2")
    with pytest.raises(StoreError, match="is of format 2, and this version of mnemesh reads format 1"):
        opened(path)


def test_places_that_cannot_hold_a_store_are_refused(tmp_path):
    with pytest.raises(StoreError, match="is a folder: a store is one file"):
        opened(tmp_path)
    with pytest.raises(StoreError, match=r"there is no folder .*mount the disk"):
        opened(tmp_path / "disk" / "lisbon.db")
    closed = Path("/proc")  # where not even root may write
    if os.geteuid():
        closed = tmp_path / "closed"
        closed.mkdir()
        closed.chmod(0o500)
    with pytest.raises(StoreError, match="cannot open it"):
        opened(closed / "lisbon.db")


def test_half_of_a_store_is_never_taken_for_a_new_agent(tmp_path):
    (tmp_path / "a").mkdir()
    with filled(tmp_path / "a" / "lisbon.db") as store:
        left = left_by_a_crash(store.path, tmp_path / "left")
    left.unlink()
    with pytest.raises(StoreError, match=r"it is gone, and lisbon\.db-wal is still there"):
        opened(left)


@pytest.mark.parametrize("ending", ["", "-wal"])
def test_a_file_that_is_moved_away_while_in_use_takes_no_more(tmp_path, ending):
    path = tmp_path / "lisbon.db"
    store = filled(path)
    path.with_name(path.name + ending).rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="moved or replaced while in use"):
        store.learn(*told(1))
    store.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_closed_store_says_so(tmp_path, kind):
    store = MemoryStore(**FACTS, max_age=AGE) if kind == "memory" else opened(tmp_path / "lisbon.db")
    store.close()
    store.close()
    with pytest.raises(StoreError, match="the store of lisbon is closed"):
        store.learn(*told(1))


@pytest.mark.parametrize("wrong", [{"agent": ""}, {"dtype": "float16"}, {"shape": (0, 4)}, {"key_dim": 0}, {"max_age": 0}, {"commit_every": 0}])
def test_impossible_settings_are_refused(tmp_path, wrong):
    with pytest.raises(StoreError):
        opened(tmp_path / "lisbon.db", **wrong)
    assert not list(tmp_path.iterdir())


# --- moving ------------------------------------------------------------------------------------------------------------------------------------


def test_what_is_exported_is_what_is_imported(tmp_path):
    source, file, target = tmp_path / "lisbon.db", tmp_path / "lisbon.export", tmp_path / "other.db"
    with filled(source, commit_every=4) as store:
        store.export(file)
        expected = state(store)
        assert expected[0][5] == 6, "the last round's memory is in it"
        store.learn(*told(13))
        before = contents(tmp_path)
        elsewhere("export_state(*sys.argv[1:])", source, file)  # by another process, while this one has it
        assert contents(tmp_path).keys() == before.keys()
        later = state(store)
    import_state(file, target, **FACTS)
    assert {part.stat().st_mode & 0o777 for part in (source, file, target)} == {0o600}
    with opened(target) as other:
        assert state(other) == later and later != expected
        other.commit(7, 1, memory(7), 0.0, 0.0, [13])
    export_state(target, file)
    import_state(file, source, **FACTS, replace=True)
    with opened(source) as store, opened(tmp_path / "lisbon.db.before") as before:
        assert store.load().round == 7
        assert state(before) == later


def test_nothing_is_replaced_by_mistake(tmp_path):
    source, file = tmp_path / "lisbon.db", tmp_path / "lisbon.export"
    filled(source).close()
    export_state(source, file)
    notes = tmp_path / "notes.txt"
    notes.write_text("keep me")
    before = contents(tmp_path)
    with pytest.raises(StoreError, match=r"notes.txt is there and is no export"):
        export_state(source, notes)
    with pytest.raises(StoreError, match="are the same file"):
        export_state(source, source)
    with pytest.raises(StoreError, match="nothing to export"):
        export_state(tmp_path / "faro.db", tmp_path / "new")
    with pytest.raises(StoreError, match="what it holds would be lost"):
        import_state(file, source, **FACTS)
    with pytest.raises(StoreError, match="agent 'lisbon', not 'porto'"):
        import_state(file, tmp_path / "porto.db", **{**FACTS, "agent": "porto"})
    with pytest.raises(StoreError, match="no SQLite database"):
        import_state(notes, source, **FACTS, replace=True)
    with opened(source), pytest.raises(StoreError, match="in use by process"):
        import_state(file, source, **FACTS, replace=True)
    damage(file, "associations", "data", 9)
    changed = contents(tmp_path)["lisbon.export"]
    with pytest.raises(StoreError, match="the checksum of association 9 differs"):
        import_state(file, source, **FACTS, replace=True)
    assert contents(tmp_path) == before | {"lisbon.export": changed}


def test_a_damaged_store_is_brought_back_from_its_export(tmp_path):
    source, file = tmp_path / "lisbon.db", tmp_path / "lisbon.export"
    with filled(source) as store:
        store.export(file)
        expected = state(store)
    flip(source, 4096 * 2 + 3, 255)
    broken = source.read_bytes()
    with pytest.raises(StoreError, match="corrupt"):
        opened(source)
    import_state(file, source, **FACTS, replace=True)
    assert source.with_name("lisbon.db.before").read_bytes() == broken
    with opened(source) as store:
        assert state(store) == expected
