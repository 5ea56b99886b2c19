"""Teachers' data computed where the run is: a pure function of (seed, round, agent, entry) that NumPy and JAX both evaluate.

Words come from Threefry-2×32 (Salmon et al. 2011), which needs sums, rotations and exclusive-ors of 32 bits only, so uniforms are the same
bits everywhere; normals (Box–Muller) and values are the same to rounding. The teachers are those of `mm.streams.teacher` with the same seed,
keys, noise, gates and presence are not: this is another stream.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, final

import numpy as np

from mnemesh.draws import generator
from mnemesh.errors import DataError
from mnemesh.streams.stream import Block
from mnemesh.streams.taught import Taught
from mnemesh.types import Array

__all__ = ["Computed", "computed_teacher", "threefry"]

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PURPOSES = ("keys", "noise", "gates", "presence")
PIECE = 2**16  # numbers that the host computes at once: their hashes stay in cache


def threefry(key: tuple[Array, Array], counter: tuple[Array, Array], rounds: int = 13) -> tuple[Array, Array]:
    """Threefry-2×32: two random words for every counter, all four of uint32. 13 rounds pass every test of BigCrush."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA)
    x, y = counter[0] + schedule[0], counter[1] + schedule[1]
    for i in range(rounds):
        turn = ROTATIONS[i % 8]
        x = x + y
        y = ((y << turn) | (y >> (32 - turn))) ^ x
        if i % 4 == 3:
            step = i // 4 + 1
            x, y = x + schedule[step % 3], y + (schedule[(step + 1) % 3] + step)
    return x, y


@final
@dataclass(eq=False, repr=False)
class Computed(Taught):
    """A teacher whose data an engine computes round by round, on its device: nothing is stored but the teachers, one matrix at ρ = 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        widest = self.associations * max(self.key_dim, self.value_dim, self.gate_dim or 1)
        if self.agents * widest >= 2**32 or self.rounds >= 2**32:
            raise DataError(f"{self!r}: 2³² entries a round or rounds are more than a counter of 32 bits tells apart; data would repeat.")

    def kind(self) -> tuple[Any, ...]:
        """All settings but the seed: streams of one kind are drawn by one program from different constants."""
        return tuple(getattr(self, field.name) for field in fields(self) if field.name != "seed")

    def constants(self) -> dict[str, np.ndarray]:
        """What `draw` needs, an engine keeps on its device and may stack over runs: (N or 1, d_v, d_k) teachers and the hash keys of the seed.

        Everything survives a cast to float32: a hash key is kept in four pieces of 16 bits.
        """
        return {"matrices": self.matrices, "seeds": self._seeds()}

    def _seeds(self) -> np.ndarray:
        return np.array([generator(self.seed, f"computed/{purpose}").integers(0, 2**16, 4) for purpose in PURPOSES], np.float32)

    def draw(self, constants: dict[str, Array], t: Any, xp: Any, agents: Array | None = None) -> tuple[Array, Array, Array | None, Array | None]:
        """Round t + 1 in `dtype`: keys (N, A, d_k), values (N, A, d_v), gates or None, present (N, A) or None.

        `t` is a whole number or a traced one, `xp` numpy or jax.numpy; `agents` (N',) for those agents only.
        """
        rounds = xp.asarray(t).astype(xp.uint32).reshape(1, 1, 1)
        everyone = xp.arange(self.agents, dtype=xp.uint32) if agents is None else xp.asarray(agents).astype(xp.uint32)
        matrices = constants["matrices"] if agents is None or self.correlation == 1 else constants["matrices"][agents]
        keys, values, gates, present = self._compute(constants["seeds"], matrices, rounds, everyone.reshape(1, -1, 1), xp)
        return keys[0], values[0], None if gates is None else gates[0], None if present is None else present[0]

    def block(self, first: int, last: int, agents: np.ndarray | None = None) -> Block:
        self.check_range(first, last)
        chosen = np.arange(self.agents) if agents is None else np.arange(self.agents)[agents]
        seeds = self._seeds()
        a_round = self.associations * (self.key_dim + self.value_dim)
        width = max(PIECE // a_round, 1)
        height = max(PIECE // (a_round * min(width, len(chosen))), 1)
        rows = []
        for start in range(first, last, height) if last > first else (first,):
            rounds = np.arange(start, min(start + height, last), dtype=np.uint32)[:, None, None]
            pieces = []
            for low in range(0, len(chosen), width):
                some = chosen[low : low + width]
                pieces.append(self._compute(seeds, self.teachers_of(some), rounds, some.astype(np.uint32)[None, :, None], np))
            rows.append([_join(parts, 1) for parts in zip(*pieces)])
        return Block(*(_join(parts, 0) for parts in zip(*rows)))  # type: ignore[arg-type]

    def _compute(self, seeds: Array, matrices: Array, rounds: Array, agents: Array, xp: Any) -> tuple[Array, Array, Array | None, Array | None]:
        """Rounds (R, 1, 1) of agents (1, N, 1), both of uint32: keys (R, N, A, d_k), …, present (R, N, A)."""
        a, lead, dtype = self.associations, (rounds.shape[0], agents.shape[1]), getattr(xp, self.dtype)

        def words(purpose: str, *shape: int) -> tuple[Array, Array]:
            count = math.prod(shape)
            high, low, top, bottom = (seeds[PURPOSES.index(purpose)].astype(xp.uint32).reshape(4, 1, 1, 1)[i] for i in range(4))
            entries = agents * count + xp.arange(count, dtype=xp.uint32).reshape(1, 1, -1)
            first, second = threefry((high << 16 | low, top << 16 | bottom), (rounds, entries))
            return first.reshape(*lead, *shape), second.reshape(*lead, *shape)

        def uniform(words: Array) -> Array:
            return (words >> 8).astype(dtype) * 2.0**-24

        first, second = words("noise", a, self.value_dim)
        noise = xp.sqrt(-2 * xp.log((first.astype(dtype) + 0.5) * 2.0**-32)) * xp.cos(2 * math.pi * uniform(second)) * self.noise
        keys = (uniform(words("keys", a, self.key_dim)[0]) - 0.5) * (2 * self.key_range)
        columns = matrices.astype(dtype).reshape(1, -1, 1, self.value_dim, self.key_dim)
        values = noise
        for j in range(self.key_dim):  # in this order for every reader; compiled, it is one pass and stores nothing
            values = values + keys[..., j : j + 1] * columns[..., j]
        gates = (uniform(words("gates", *self.gate_shape)[0]) < self.gate_probability).astype(dtype) if self.gated else None
        if not self.masked:
            return keys, values, gates, None
        present = uniform(words("presence", a)[0]) < self.presence
        there = present.astype(dtype)[..., None]
        return keys * there, values * there, gates, present


def _join(parts: Any, axis: int) -> np.ndarray | None:
    return None if parts[0] is None else parts[0] if len(parts) == 1 else np.concatenate(parts, axis=axis)


def computed_teacher(*, agents: int, key_dim: int, value_dim: int, rounds: int, correlation: float, seed: int, **options: Any) -> Computed:
    """The paper's data with correlation ρ, computed inside the run. Options and their defaults: those of `Teacher`."""
    return Computed(agents=agents, key_dim=key_dim, value_dim=value_dim, rounds=rounds, correlation=correlation, seed=seed, **options)
