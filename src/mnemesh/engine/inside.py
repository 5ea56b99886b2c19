"""Data drawn inside a compiled run: computed streams as one program draws them, and the comparator's sums, taken where the data are."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from mnemesh.domains import Domain
from mnemesh.engine.stage import Stage
from mnemesh.errors import require
from mnemesh.features import Features
from mnemesh.interest import identity
from mnemesh.losses import Loss
from mnemesh.problem import Problem
from mnemesh.statistics import Statistics, empty
from mnemesh.streams import Computed

__all__ = ["Drawn", "Sums", "bare_problem", "wide"]

_AT_ONCE = 8  # rounds whose outer products are added before a sum is written


def wide() -> AbstractContextManager[Any]:
    """JAX with 64-bit types, here and nowhere else. Every array of ours names its type, so float32 runs stay float32."""
    jax = require("jax", 'engine="jax"')
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return require("jax.experimental", 'engine="jax"').enable_x64()


class Drawn:
    """Rounds of computed streams that differ in their seeds alone, drawn inside the run."""

    def __init__(self, source: Computed) -> None:
        self._source, self._kind = source, source.kind()

    def __call__(self, constants: Any, t: Any, dtype: Any) -> list[Any]:
        """keys, values, gates, share and activity of all streams side by side, as `parts_of` gives them."""
        jax = require("jax", 'engine="jax"')
        drawn = jax.vmap(lambda own: self._source.draw(own, t, jax.numpy))(constants)
        keys, values, gates, present = jax.tree.map(lambda part: part.reshape(-1, *part.shape[2:]), drawn)
        share = active = None
        if present is not None:
            share = present / jax.numpy.maximum(present.sum(-1, keepdims=True), 1)
            active = present.any(-1)
        elif keys.shape[1] > 1:
            share = jax.numpy.full(keys.shape[:2], 1 / keys.shape[1])
        return [None if part is None else part.astype(dtype) for part in (keys, values, gates, share, active)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Drawn) and other._kind == self._kind

    def __hash__(self) -> int:
        return hash(self._kind)


class Sums:
    """The statistics of every source, in float64 on the device."""

    def __init__(self, drawn: Drawn, constants: Any, stage: Stage) -> None:
        jax = require("jax", 'engine="jax"')
        self._constants, self._stage = constants, stage
        if stage.loss.curvature is None:
            self._now = None
            return
        zeros = empty(stage.problems[0], stage.shape)
        every = Statistics._make(None if part is None else np.concatenate([part] * len(stage.sources)) for part in zeros)
        with wide():
            self._now = jax.device_put(every)
        self._run = _adding(drawn, bare_problem(stage.loss, stage.domain, stage.features))

    def add(self, start: int, rounds: int) -> None:
        """Take in so many rounds from start + 1 on."""
        if self._now is not None:
            with wide():
                self._now = self._run(self._now, self._constants, np.int32(start), np.int32(rounds))

    def dump(self) -> dict[str, np.ndarray]:
        """The sums as arrays by name."""
        named = {} if self._now is None else self._now._asdict()
        return {f"sums.{name}": np.asarray(part) for name, part in named.items() if part is not None}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Take up dumped sums."""
        if self._now is not None:
            jax = require("jax", 'engine="jax"')
            with wide():
                self._now = jax.device_put(Statistics._make(arrays.get(f"sums.{name}") for name in Statistics._fields))

    def each(self) -> list[Statistics] | None:
        """The sums so far, source by source."""
        if self._now is None:
            return None
        split = [None if part is None else self._stage.by_source(np.asarray(part)) for part in self._now]
        return [Statistics._make(None if part is None else part[place] for part in split) for place in range(len(self._stage.sources))]


def bare_problem(loss: Loss, domain: Domain, features: Features) -> Problem:
    """A problem of this kind for compiled programs, which live on: they must not keep interests, trees and graphs alive."""
    return Problem(loss, domain, identity(1), features)


_ADDING: dict[Any, Any] = {}


def _adding(drawn: Drawn, problem: Problem) -> Any:
    """The compiled sum over a stretch of rounds; one for all streams of a kind under one loss and feature map."""
    key = (drawn, problem.loss, problem.features)
    if key not in _ADDING:
        jax = require("jax", 'engine="jax"')

        def run(sums: Statistics, constants: Any, start: Any, rounds: Any) -> Any:
            def some(i: Any, sums: Statistics) -> Statistics:
                for place in range(_AT_ONCE):
                    k = i * _AT_ONCE + place
                    sums = _with_round(problem, sums, drawn(constants, start + k, "float64"), (k < rounds).astype("float64"))
                return sums

            return jax.lax.fori_loop(0, (rounds + _AT_ONCE - 1) // _AT_ONCE, some, sums)

        _ADDING[key] = jax.jit(run, donate_argnums=(0,))
    return _ADDING[key]


def _with_round(problem: Problem, sums: Statistics, parts: list[Any], counts: Any) -> Statistics:
    """`sums` with one round of all agents added, `counts` times (1, or 0 past the end)."""
    keys, values, gates, share, active = parts
    features, curvature = problem.features(keys), problem.loss.curvature or 0.0
    weights = counts if share is None else counts * share[..., None]
    weighted = features * weights
    cross = sums.cross + (values[..., :, None] * weighted[..., None, :]).sum(1)
    second, constant, decay = sums.second, sums.constant, sums.decay
    if second is not None:
        second = second + curvature * (features[..., :, None] * weighted[..., None, :]).sum(1)
        constant = constant + 0.5 * curvature * (values * values * weights).sum((1, 2))
    if decay is not None:
        decay = decay + counts * problem.decay(gates, active, values[:, 0])
    return Statistics(second, cross, decay, constant)
