"""Small studies, and executors to run them on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from mnemesh import lab
from mnemesh.lab.spec import convert

__all__ = ["Here", "bytes_of", "small", "sweeping_process"]


def small(**changes: Any) -> lab.Spec:
    """Two points, three methods, four seeds: seconds at most, and more than one batch."""
    return convert({
        "name": "small",
        "rounds": 60,
        "seeds": 4,
        "horizons": [20, 60],
        "topology": {"name": "ring", "agents": 6},
        "interest": {"name": "dirichlet", "own": 4.0, "others": 1.0},
        "stream": {"name": "teacher", "key_dim": 3, "value_dim": 2, "correlation": 0.5},
        "domain": {"name": "ball", "radius": 50.0},
        "algorithms": [{"name": "ogd"}, {"name": "dam_togd", "step": {"name": "inverse_sqrt", "c": 0.3}}, {"name": "c_dogd"}],
        "tuning": {"seeds": 2, "grid": [0.2, 0.4]},
        "sweep": [{"stream.correlation": [0.25, 1.0]}],
        **changes,
    })  # fmt: skip


class Here(Executor):
    """Runs what it is given at once, in this process. `before` is called with the number of tasks that came earlier."""

    def __init__(self, before: Callable[[int], None] = lambda count: None) -> None:
        self.count, self.before = 0, before

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.before(self.count)
        self.count += 1
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as wrong:
            future.set_exception(wrong)
        return future


def bytes_of(folder: Path) -> dict[str, bytes]:
    """The tables of a results folder as they lie on disk."""
    return {name: (folder / f"{name}.parquet").read_bytes() for name in ("results", "tuning")}


def sweeping_process(folder: Path, spec: Path, *, pool: str = "lab.local()") -> list[str]:
    """A command that sweeps in a process of its own, without the test run's checks."""
    program = f"""
from mnemesh import lab
if __name__ == '__main__':
    with {pool} as executor:
        lab.run(lab.read({str(spec)!r}), {str(folder)!r}, executor=executor, progress=lambda done, total, words: print(words, flush=True))
"""
    return [sys.executable, "-c", program]
