"""Where a sweep's batches are played: whatever has the interface of `concurrent.futures.Executor`."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from typing import Any

from mnemesh.cores import threads
from mnemesh.errors import SweepError, require

__all__ = ["dask", "local"]

_ALONE = {"MNEMESH_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
_ADDRESS = re.compile(r"((tcp|tls|ucx|ws|wss)://)?[^/]+:\d+|inproc://.+")
_PATIENCE = "5s"  # for a scheduler to answer


@contextmanager
def local(workers: int | None = None) -> Iterator[Executor]:
    """Processes on this machine, one a core unless told otherwise. They end with this one, whatever ends it."""
    count = threads() if workers is None else workers
    if count < 1:
        raise SweepError(f"workers={workers!r}: at least one process is needed, or nothing is computed.")
    before = {name: os.environ.get(name) for name in _ALONE}
    os.environ.update(_ALONE)  # processes are started later, and inherit it
    context = get_context("spawn")  # threads of compilers do not survive a fork
    stop = context.Event()
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(stop,))
    try:
        yield pool
    except BaseException:
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    else:
        pool.shutdown()
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def _begin(stop: Any) -> None:
    """In a new process: leave Ctrl-C to the parent, and end when it says so or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow, args=(stop,), daemon=True).start()


def _follow(stop: Any) -> None:
    parent = parent_process()
    while not stop.wait(0.5):
        if parent is not None and wait([parent.sentinel], timeout=0):
            break
    os._exit(1)


@contextmanager
def dask(address: str) -> Iterator[Executor]:
    """The workers of a running Dask scheduler, such as "tcp://10.0.0.5:8786"."""
    distributed = require("distributed", "a sweep on a Dask cluster")
    if not _ADDRESS.fullmatch(address):  # a client of such an address could neither start nor stop
        raise SweepError(f"{address!r} is no address of a Dask scheduler: one such as tcp://10.0.0.5:8786 is needed, with its port.")
    try:
        client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as silent:
        why = str(silent).splitlines()[0] if str(silent) else type(silent).__name__
        raise SweepError(f"no Dask scheduler answers at {address!r} ({why}): start one with `dask scheduler`, and workers with `dask worker {address}`.") from None
    try:
        if not client.scheduler_info(n_workers=-1)["workers"]:
            raise SweepError(f"the Dask scheduler at {address!r} has no workers: start some with `dask worker {address} --nthreads 1`, or nothing is computed.")
        yield client.get_executor()
    finally:
        client.close()
