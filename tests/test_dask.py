"""A sweep and a sharded simulation on a real Dask scheduler with real worker processes, one of which is killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from mnemesh import lab
from mnemesh.errors import SweepError
from mnemesh.lab.plan import plan
from sweeping import bytes_of, small, sweeping_process

UNCHECKED = {name: value for name, value in os.environ.items() if name != "MNEMESH_CHECK_SHAPES"}
PATIENCE = 90.0


def dask(*words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dask", *words, "--no-dashboard"]
    return subprocess.Popen(command, env=UNCHECKED, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def until(there, what: str) -> None:
    patience = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < patience, what
        time.sleep(0.02)


class Cluster:
    """A scheduler and its workers, each a process."""

    def __init__(self, folder, workers: int) -> None:
        file = folder / "scheduler.json"
        self.processes = [dask("scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(file))]
        until(lambda: file.exists() and file.read_text().endswith("}"), "the scheduler did not start")
        self.address = json.loads(file.read_text())["address"]
        self.workers = [dask("worker", self.address, "--nthreads", "1", "--no-nanny") for _ in range(workers)]
        self.processes += self.workers

    def end(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path, 2)
    yield made
    made.end()


def test_a_worker_killed_in_the_middle_leaves_the_same_bytes(cluster, tmp_path):
    spec = small(rounds=2500, horizons=[2500], seeds=16, sweep=[{"stream.correlation": [0.0, 0.25, 0.5, 1.0]}])
    file, there, here = tmp_path / "spec.toml", tmp_path / "there", tmp_path / "here"
    file.write_text(spec.text, encoding="utf-8")
    sweep = subprocess.Popen(
        sweeping_process(there, file, pool=f"lab.dask({cluster.address!r})"), env=UNCHECKED, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until(lambda: len(list(there.glob("batches/*.parquet"))) >= 3 or sweep.poll() is not None, "no batch was finished")
    cluster.workers[0].send_signal(signal.SIGKILL)
    finished = len(list(there.glob("batches/*.parquet")))
    _, said = sweep.communicate(timeout=PATIENCE)
    assert sweep.returncode == 0, said
    assert finished < len(plan(spec).choosing) + len(plan(spec).playing)
    subprocess.run(sweeping_process(here, file), env=UNCHECKED, check=True, capture_output=True)
    assert bytes_of(there) == bytes_of(here)


def test_shards_played_by_the_cluster_are_those_played_here(cluster):
    program = f"""
import mnemesh as mm
from mnemesh import lab
graph = mm.topology.ring(300)
problem = mm.Problem("delta", mm.domains.ball(50.0), mm.interest.nearest(graph, 4))
stream = mm.streams.teacher(agents=300, key_dim=4, value_dim=3, rounds=100, correlation=0.5, seed=1)
learner = mm.algorithms.dam_togd(mm.routing.shortest_path(graph, problem.interest), step=mm.steps.inverse_sqrt(0.4))
with lab.dask({cluster.address!r}) as executor:
    there = lab.simulate_shards(problem, learner, stream, shards=5, executor=executor)
whole = mm.simulate(problem, learner, stream, engine=there.engine)
print((there.memories == whole.memories).all(), abs(there.regret.total / mm.regret.static(problem, stream, whole).total - 1).max() < 1e-6)
"""
    done = subprocess.run([sys.executable, "-c", program], env=UNCHECKED, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_a_scheduler_that_is_not_there_is_told_in_one_line():
    start = time.monotonic()
    with pytest.raises(SweepError, match=r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:1'") as refused, lab.dask("tcp://127.0.0.1:1"):
        pass
    assert "\n" not in str(refused.value)
    assert time.monotonic() - start < 15


@pytest.mark.parametrize("address", ["nonsense://here", "", "tcp://"])
def test_an_address_that_is_none_is_told_in_one_line(address):
    with pytest.raises(SweepError, match="is no address of a Dask scheduler") as refused, lab.dask(address):
        pass
    assert "\n" not in str(refused.value)


def test_a_scheduler_without_workers_is_told(tmp_path):
    idle = Cluster(tmp_path, 0)
    program = f"from mnemesh import lab\nwith lab.dask({idle.address!r}): pass"
    done = subprocess.run([sys.executable, "-c", program], env=UNCHECKED, capture_output=True, text=True, check=False)
    idle.end()
    assert done.returncode
    assert "has no workers: start some with `dask worker" in done.stderr
