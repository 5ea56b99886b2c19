"""A sweep from its first batch to its tables: what is finished is on disk, and is not run again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from pathlib import Path
from typing import Any

from mnemesh.errors import ResultsError, SweepError, require
from mnemesh.lab.build import bring
from mnemesh.lab.executors import local
from mnemesh.lab.plan import Batch, Job, Plan, plan
from mnemesh.lab.record import PASSING, Results, load, open_results, save, versions, write_whole
from mnemesh.lab.spec import Line, Spec, parse
from mnemesh.lab.work import do, home

__all__ = ["Progress", "run"]

_STALE = 3600.0  # seconds after which nobody is still writing a file
Progress = Callable[[float, float, str], None]


def run(spec: Spec, out: str | os.PathLike[str], *, executor: Executor | None = None, progress: Progress | None = None, fresh: bool = False) -> Results:
    """Play a spec's whole sweep and leave its tables in the folder `out`.

    `executor` is anything with the interface of concurrent.futures.Executor: `mm.lab.local()` unless given, `mm.lab.dask(address)`, your own.
    `progress(done, total, words)` is called as batches end. What a killed or stopped sweep had finished is taken from `out`, unless `fresh`.
    """
    if not isinstance(spec, Spec):
        raise SweepError(f"run({type(spec).__name__}): a Spec is needed; mm.lab.read(path) reads one.")
    if executor is not None and not hasattr(executor, "submit"):
        raise SweepError(f"executor={executor!r} is none: pass what has the interface of concurrent.futures.Executor, or nothing.")
    bring(spec)
    todo, folder = plan(spec), _folder(spec, out)
    if executor is not None:
        return _Sweep(spec, folder, todo, progress, fresh).through(executor)
    with local() as pool:
        return _Sweep(spec, folder, todo, progress, fresh).through(pool)


class _Sweep:
    """The batches under way, and those that are done."""

    def __init__(self, spec: Spec, folder: Path, todo: Plan, progress: Progress | None, fresh: bool) -> None:
        self.spec, self.folder, self.plan, self.progress, self.fresh = spec, folder, todo, progress, fresh
        self.versions, self.home = versions(spec.imports), home()
        self.tables: dict[Any, Any] = {}
        self.rates: dict[tuple[int, str], float] = {}
        self.waiting = list(range(len(todo.playing)))
        self.done, self.total, self.reused = 0.0, sum(batch.cost for batch in (*todo.choosing, *todo.playing)), 0
        self.running: dict[Future[Any], tuple[Any, Batch]] = {}

    def through(self, executor: Executor) -> Results:
        """Run what is not yet finished on this executor, and put the tables together."""
        try:
            for place, batch in enumerate(self.plan.choosing):
                self._start(executor, ("tune", place), batch)
            self._start_ready(executor)
            while self.running:
                ended, _ = wait(self.running, return_when=FIRST_COMPLETED)
                for future in ended:
                    place, batch = self.running.pop(future)
                    self._finish(place, batch, future.result())
                self._start_ready(executor)
        except BaseException as stop:
            self._keep()
            told = _told(stop, self.folder)
            if told is stop:
                raise
            raise told from stop
        return self._together()

    def _keep(self) -> None:
        """Call off what has not begun, and keep what is done."""
        for future, (place, batch) in self.running.items():
            future.cancel()
            if future.done() and not future.cancelled() and future.exception() is None:
                save(self._path(batch), future.result(), place[0], self.spec, self.versions)

    def _start(self, executor: Executor, place: Any, batch: Batch) -> None:
        path = self._path(batch)
        if not self.fresh and path.exists():
            try:
                table, _ = load(path, place[0])
            except ResultsError:
                path.unlink()  # not what was written: computed again
            else:
                self.total -= batch.cost
                self.reused += 1
                return self._note(place, batch, table)
        self.running[executor.submit(do, batch, self.home, self.versions)] = place, batch
        return None

    def _start_ready(self, executor: Executor) -> None:
        """Start the batches whose rates are all known."""
        for place in list(self.waiting):
            batch = self.plan.playing[place]
            try:
                rates = tuple(tuple(self._rate(job, line) for line in job.point.spec.algorithms) for job in batch.jobs)
            except KeyError:
                continue
            self.waiting.remove(place)
            self._start(executor, ("play", place), batch._replace(rates=rates))

    def _rate(self, job: Job, line: Line) -> float | None:
        return self.rates[job.point.number, line.called] if line.tuned else None

    def _finish(self, place: Any, batch: Batch, table: Any) -> None:
        save(self._path(batch), table, place[0], self.spec, self.versions)
        self.done += batch.cost
        self._note(place, batch, table)

    def _note(self, place: Any, batch: Batch, table: Any) -> None:
        self.tables[place] = table
        if batch.chooses:
            chosen = next(c for c, best in zip(table["c"].to_pylist(), table["chosen"].to_pylist(), strict=True) if best)
            self.rates[batch.jobs[0].point.number, batch.line.called] = chosen
        if self.progress is not None:
            reused = f", {self.reused} taken from before" if self.reused else ""
            self.progress(self.done, self.total, f"batch {len(self.tables)} of {len(self.plan.choosing) + len(self.plan.playing)}{reused}")

    def _path(self, batch: Batch) -> Path:
        return self.folder / "batches" / f"{batch.key(self.versions)}.parquet"

    def _together(self) -> Results:
        pa = require("pyarrow", "keeping results")
        for kind, name, batches in (("tune", "tuning", self.plan.choosing), ("play", "results", self.plan.playing)):
            parts = [self.tables[kind, place] for place in range(len(batches))]
            table = pa.concat_tables(parts).combine_chunks() if parts else _no_tuning(pa)
            save(self.folder / f"{name}.parquet", table, name, self.spec, self.versions)
        return open_results(self.folder)


def _no_tuning(pa: Any) -> Any:
    return pa.schema([("point", pa.int64()), ("algorithm", pa.string()), ("c", pa.float64()), ("seed", pa.int64()), ("regret", pa.float64()), ("chosen", pa.bool_())]).empty_table()


def _told(stop: BaseException, folder: Path) -> BaseException:
    """What ended a sweep, in words where it was no fault of the code."""
    kept = f"what is finished is in {str(folder)!r} and is not run again"
    if isinstance(stop, BrokenExecutor):
        guard = 'in a script, call it under `if __name__ == "__main__":`; else memory may have run out, so try fewer workers'
        return SweepError(f"a worker process ended before its batch was done: {guard}; {kept}.")
    if isinstance(stop, Exception) and type(stop).__module__.partition(".")[0] == "distributed":
        return SweepError(f"the Dask cluster lost a batch ({str(stop).splitlines()[0]}): {kept}.")
    return stop


def _folder(spec: Spec, out: str | os.PathLike[str]) -> Path:
    """The folder, made, found writable, free of another study's results and of what a killed sweep was writing."""
    folder = Path(out)
    told = folder / "spec.toml"
    try:
        kept = any(folder.glob("*.parquet")) or any(folder.glob("batches/*.parquet"))
        if kept and not told.exists():
            raise ResultsError(f"{str(folder)!r} holds tables without a spec.toml: choose another folder, so that nothing is lost unasked.")
        if kept and _asked(parse(told.read_text(encoding="utf-8"), str(told))) != _asked(spec):
            raise ResultsError(f"{str(folder)!r} holds results of another spec (see {told}): choose another folder, or delete this one, so that nothing is lost unasked.")
        (folder / "batches").mkdir(parents=True, exist_ok=True)
        write_whole(told, lambda file: file.write(spec.text.encode()))
        for left in (*folder.glob(f"{PASSING}*"), *folder.glob(f"batches/{PASSING}*")):
            if time.time() - left.stat().st_mtime > _STALE:
                left.unlink(missing_ok=True)
    except (OSError, UnicodeDecodeError) as refused:
        raise ResultsError(f"{str(folder)!r} cannot be written to ({getattr(refused, 'strerror', None) or refused}): choose another folder with --out.") from None
    return folder


def _asked(spec: Spec) -> Spec:
    """A spec without what no number depends on."""
    return spec.with_(title="", about="", figure={})
