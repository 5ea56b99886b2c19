"""A process that forks agents which learn and commit, kills each with SIGKILL, and looks at what they left: `python killing.py FILE KILLS COMMIT_EVERY`."""

import itertools
import json
import os
import random
import signal
import sys
import time

import numpy as np

from mnemesh.live.store import SQLiteStore

SHAPE, KEYS = (16, 16), 16


def opened(path, every):
    return SQLiteStore(path, agent="lisbon", shape=SHAPE, dtype="float32", key_dim=KEYS, max_age=10**9, commit_every=every)


def live(path, every, pipe):
    """Learn, commit, and say so, until the end comes."""
    store = opened(path, every)
    kept = store.load()
    incarnation, first = (0, 1) if kept is None else (kept.incarnation + 1, kept.round + 1)
    for r in itertools.count(first):
        number = store.counts.acknowledged + 1
        store.learn(np.full(KEYS, number), np.full(SHAPE[0], -number))
        os.write(pipe, f"a {number}\n".encode())
        if r % 3:
            store.commit(r, incarnation, np.full(SHAPE, r, np.float32), 0.0, time.time(), [one.id for one in store.waiting(2)])
            os.write(pipe, f"r {r} {incarnation}\n".encode())


def said(path, every, seconds):
    """What an agent said before it was killed."""
    out, pipe = os.pipe()
    child = os.fork()
    if not child:
        try:
            live(path, every, pipe)
        finally:
            os._exit(1)
    os.close(pipe)
    with os.fdopen(out) as lines:
        words = [lines.readline().split()]  # it is alive
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        words += [line.split() for line in lines]
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended == -signal.SIGKILL, ended
    return words


def main(path, kills, every):
    chance, told, rounds, incarnations = random.Random(1), 0, 0, -1
    lost = []
    for _ in range(kills):
        words = said(path, every, chance.uniform(0.0, 0.08))
        told = max([told, *(int(word[1]) for word in words if word[0] == "a")])
        for word in words:
            if word[0] == "r":
                assert int(word[1]) > rounds and int(word[2]) >= incarnations, "a round, or an incarnation, went back"
                rounds, incarnations = int(word[1]), int(word[2])
        with opened(path, every) as store:
            kept, waiting, counts = store.load(), store.waiting(), store.counts
            assert told <= counts.acknowledged <= told + 1, (told, counts)
            made = [] if kept is None else [one for played in kept.made.values() for one in played]
            numbers = [one.id for one in (*made, *waiting)]
            assert sorted(numbers) == list(range(1, counts.acknowledged + 1)), "an association is lost, or there twice"
            assert all((one.key == one.id).all() and (one.value == -one.id).all() for one in (*made, *waiting)), "an association changed"
            if kept is not None:
                assert rounds <= kept.round <= rounds + 2 and kept.incarnation >= incarnations
                assert (kept.memory == kept.memory_round).all(), "a memory of another round"
                assert len(kept.lost) < every and kept.lost == tuple(r for r in kept.made if r > kept.memory_round)
                lost.append(len(kept.lost))
                rounds, incarnations = kept.round, kept.incarnation
    print(json.dumps({"kills": kills, "told": told, "rounds": rounds, "incarnation": incarnations, "lost": lost}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
