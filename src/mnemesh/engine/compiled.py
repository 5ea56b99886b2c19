"""Round by round on JAX: the same `step`, compiled once per kind of run, on whatever device JAX finds. The caller's JAX settings are left alone."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mnemesh.algorithms.algorithm import Algorithm
from mnemesh.algorithms.world import World
from mnemesh.engine.choose import drawn_inside
from mnemesh.engine.inside import Drawn, Sums, bare_problem, wide
from mnemesh.engine.rounds import arrays_of, parts_of, same_state, sample_of, world_of
from mnemesh.engine.stage import Stage
from mnemesh.errors import EngineError, require
from mnemesh.problem import Problem
from mnemesh.statistics import Statistics
from mnemesh.streams import Computed
from mnemesh.streams.stream import Block

__all__ = ["JaxRounds"]

_TINY = 16  # up to this dimension a GPU sums products faster than it multiplies matrices


class _Fixed(NamedTuple):
    """What a compilation depends on, beside shapes."""

    signature: Any
    loss: Any
    features: Any
    domain: Any
    ages: tuple[int, ...]
    samples: int
    associations: int
    complete: int
    tiny: bool
    drawn: Any  # the computed stream's kind, where data are drawn inside the run
    totals: bool


class JaxRounds:
    """The way to play for GPUs, and for losses whose residual JAX must find."""

    name = "jax"

    def __init__(self, stage: Stage, memories: np.ndarray, dtype: Any, longest: int, totals: bool = False) -> None:
        jax = require("jax", 'engine="jax"')
        self.stage, self.dtype, self.longest = stage, np.dtype(dtype), longest
        self.draws = drawn_inside(stage)
        tiny = jax.default_backend() != "cpu" and max(stage.shape) <= _TINY
        drawn = Drawn(stage.sources[0]) if self.draws and isinstance(stage.sources[0], Computed) else None
        self._fixed = _Fixed(
            stage.algorithm.signature(), stage.loss, stage.features, stage.domain, stage.ages, stage.samples, stage.associations, stage.complete,
            tiny, drawn, totals,
        )
        with wide():
            self._arrays = jax.device_put(arrays_of(stage, self.dtype))
            world = world_of(stage, self._arrays, tiny)
            self._state = jax.tree.map(jax.numpy.array, stage.algorithm.init(world, jax.numpy.asarray(memories, dtype=self.dtype)))
            self._constants = jax.device_put(self._constants_of(stage)) if self.draws else None
        self._sums: Sums | None = None

    def _constants_of(self, stage: Stage) -> Any:
        each = [source.constants() for source in stage.sources]  # type: ignore[attr-defined]
        return {name: np.stack([constants[name] for constants in each]) for name in each[0]}

    @property
    def memories(self) -> np.ndarray:
        """X_{n,t} of the next round."""
        return np.array(self._state.memories)

    @property
    def state_memories(self) -> np.ndarray:
        """The same, as it lies: not to be kept."""
        return np.asarray(self._state.memories)

    def play(self, blocks: Sequence[Block] | int, start: int, rates: np.ndarray) -> np.ndarray:
        """Play blocks, or so many rounds drawn on the spot, from round start + 1; losses (R, B·N), or if totals are all that is kept their float64 sum."""
        rounds = blocks if isinstance(blocks, int) else len(blocks[0].keys)
        parts: Any = None
        if not isinstance(blocks, int):
            parts = tuple(None if part is None else self._padded(part) for part in parts_of(self.stage.side_by_side(blocks), self.dtype))
        rates = self._padded(np.asarray(rates, dtype=self.dtype)[:rounds, :, None, None])
        with wide(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
            run = _compiled(self._fixed, self.stage.algorithm)
            at = (np.int32(start), np.int32(rounds))
            try:
                self._state, losses = run(self._state, self._arrays, self._constants, parts, rates, *at)
            except require("jax", 'engine="jax"').errors.TracerArrayConversionError as problem:
                raise EngineError(
                    "a loss, domain, feature map or algorithm of this run is not written for JAX arrays: use operators and the functions of "
                    "mnemesh.types.namespace(array), or play it with engine='numpy'."
                ) from problem
            losses = np.asarray(losses)
        if parts is None:
            if self._sums is None:
                self._sums = Sums(self._fixed.drawn, self._constants, self.stage)
            self._sums.add(start, rounds)
        return losses if self._fixed.totals else losses[:rounds]

    def statistics(self) -> list[Statistics] | None:
        """Of data drawn inside the run, the sums that a comparator needs, source by source; None where the loss has no such sums."""
        return None if self._sums is None else self._sums.each()

    def _padded(self, part: np.ndarray) -> np.ndarray:
        """One length for all stretches, so that one compilation serves them."""
        if len(part) == self.longest:
            return part
        return np.concatenate([part, np.zeros((self.longest - len(part), *part.shape[1:]), dtype=part.dtype)])

    def dump(self) -> dict[str, np.ndarray]:
        """The state as arrays by name."""
        state = {name: np.array(part) for name, part in self._state._asdict().items() if part is not None}
        return state if self._sums is None else {**state, **self._sums.dump()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Take up a dumped state."""
        jax = require("jax", 'engine="jax"')
        with wide():
            fields = {name: part for name, part in arrays.items() if not name.startswith("sums.")}
            own = {name: part for name, part in self._state._asdict().items() if part is not None}
            state = {name: jax.numpy.asarray(part) for name, part in same_state(own, fields).items()}
            self._state = self._state._replace(**state)
        if len(state) < len(arrays) and self._constants is not None:
            self._sums = Sums(self._fixed.drawn, self._constants, self.stage)
            self._sums.restore(arrays)


_PROGRAMS: dict[_Fixed, Any] = {}


def _compiled(fixed: _Fixed, algorithm: Algorithm) -> Any:
    """The compiled stretch of rounds; one compilation serves every problem and algorithm of the same kind."""
    if fixed not in _PROGRAMS:
        kind = bare_problem(fixed.loss, fixed.domain, fixed.features)
        bare = object.__new__(type(algorithm)) if fixed.signature is type(algorithm) else algorithm  # such a signature says: `step` needs no more
        _PROGRAMS[fixed] = _program(fixed, kind, bare)
    return _PROGRAMS[fixed]


def _program(fixed: _Fixed, problem: Problem, algorithm: Algorithm) -> Any:
    jax = require("jax", 'engine="jax"')
    jnp = jax.numpy

    def run(state: Any, arrays: Any, constants: Any, parts: Any, rates: Any, start: Any, rounds: Any) -> Any:
        score, learn, mixing = arrays
        world = World(fixed.loss, fixed.domain, score, learn, mixing, fixed.ages, fixed.samples, fixed.associations, fixed.complete, fixed.tiny)
        agents, dtype = state.memories.shape[0], state.memories.dtype

        def one(i: Any, carried: Any) -> Any:
            state, losses = carried
            now = fixed.drawn(constants, start + i, dtype) if parts is None else [None if part is None else part[i] for part in parts]
            rate = rates[i]
            if 1 < len(rate) < agents:
                rate = jnp.broadcast_to(rate[:, None], (len(rate), agents // len(rate), 1, 1)).reshape(agents, 1, 1)
            new, info = algorithm.step(world, state, sample_of(problem, start + i, *now), rate)
            state = jax.tree.map(lambda part, old: part.astype(old.dtype), new, state)  # a loss of one's own may widen
            return state, losses + info.losses if fixed.totals else losses.at[i].set(info.losses)

        losses = jnp.zeros(agents, dtype="float64") if fixed.totals else jnp.zeros((rates.shape[0], agents), dtype=dtype)
        return jax.lax.fori_loop(0, rounds, one, (state, losses))

    return jax.jit(run, donate_argnums=(0,))
