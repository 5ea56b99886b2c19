"""How a peer in an environment of its own takes turns with us: arrays go through .npz files, and a line on a pipe asks for one timed run.

Both ends are here. This file needs NumPy alone, so that either environment can import it.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Peer", "PeerError", "Play", "serve", "timed"]

Play = Callable[[bool], Any]  # play(keep): all rounds; returns X after each of them, (T, N, d_v, d_k), if told to keep them


class PeerError(RuntimeError):
    """A peer that is not installed, or that failed."""


def timed(play: Play) -> float:
    """Seconds of one run that keeps nothing; the garbage of earlier ones is not collected meanwhile."""
    gc.collect()
    gc.disable()
    try:
        begin = time.perf_counter()
        play(False)
        return time.perf_counter() - begin
    finally:
        gc.enable()


def serve(prepare: Callable[[dict[str, np.ndarray]], tuple[Play, dict[str, Any]]]) -> None:
    """The peer's end: `prepare(problem)` builds what it needs, and gives a way to play and whatever else it has to tell."""
    problem_file, answer_file = sys.argv[1:3]
    with np.load(problem_file, allow_pickle=False) as arrays:
        play, facts = prepare(dict(arrays))
    np.savez(answer_file, iterates=play(True), **facts)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(timed(play), flush=True)


class Peer:
    """Our end: a peer's program with one problem; what it built stays built between turns."""

    def __init__(self, python: Path, program: Path, problem: dict[str, Any], folder: Path) -> None:
        if not python.exists():
            raise PeerError(f"{python} is not there: the peers live in an environment of their own, and `make peers` builds it.")
        folder.mkdir()
        asked, self._answer = folder / "problem.npz", folder / "answer.npz"
        np.savez(asked, **problem)
        self._process = subprocess.Popen(
            [str(python), str(program), str(asked), str(self._answer)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        self.program = program
        self._hear()

    def answer(self) -> dict[str, np.ndarray]:
        """Its iterates, and whatever else it had to tell."""
        with np.load(self._answer, allow_pickle=False) as arrays:
            return dict(arrays)

    def turn(self) -> float:
        """Seconds of one more run."""
        assert self._process.stdin is not None
        self._process.stdin.write("again\n")
        self._process.stdin.flush()
        return float(self._hear())

    def _hear(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(f"{self.program.name} ended with status {self._process.wait()}: why is above, and nothing was compared.")
        return line.strip()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
