"""Round by round: all agents at once, any loss and any algorithm, by the algorithm's own `step`, on NumPy or on JAX arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mnemesh.algorithms.algorithm import Rows
from mnemesh.algorithms.world import Mixing, Partners, Sample, World
from mnemesh.engine.stage import Stage, pad
from mnemesh.errors import CheckpointError
from mnemesh.problem import Problem
from mnemesh.streams.stream import Block

__all__ = ["NumpyRounds", "arrays_of", "parts_of", "same_state", "sample_of", "world_of"]

DENSE_MIXING = 1_024  # agents up to which mixing is a matrix product; above it runs over the links


def arrays_of(stage: Stage, dtype: Any) -> tuple[Partners, Partners, Mixing | None]:
    """The rows as padded arrays of this dtype."""
    score, learn = (_partners(rows, dtype) for rows in (stage.score, stage.learn))
    return score, learn, None if stage.mixing is None else _mixing(stage, stage.mixing, dtype)


def _partners(rows: Rows, dtype: Any) -> Partners:
    padded = pad(rows)
    return Partners(padded.partners.astype(np.int32), padded.weights.astype(dtype), padded.delays.astype(np.int32))


def _mixing(stage: Stage, rows: Rows, dtype: Any) -> Mixing:
    targets = np.repeat(np.arange(stage.total), np.diff(rows.starts))
    if stage.agents <= DENSE_MIXING:
        dense = np.zeros((stage.runs, stage.agents, stage.agents), dtype=dtype)
        dense[targets // stage.agents, targets % stage.agents, rows.partners % stage.agents] = rows.weights
        return Mixing(dense)
    return Mixing(None, rows.starts[:-1].astype(np.int32), rows.partners.astype(np.int32), targets.astype(np.int32), rows.weights.astype(dtype))


def world_of(stage: Stage, arrays: tuple[Partners, Partners, Mixing | None], tiny: bool = False) -> World:
    """The arrays with what is fixed when compiling."""
    score, learn, mixing = arrays
    return World(stage.loss, stage.domain, score, learn, mixing, stage.ages, stage.samples, stage.associations, stage.complete, tiny)


def sample_of(problem: Problem, t: Any, keys: Any, values: Any, gates: Any, share: Any, active: Any) -> Sample:
    """One round as the algorithm sees it: features instead of keys, decay instead of gates."""
    return Sample(t, problem.features(keys), values, share, problem.decay(gates, active, values[:, 0]))


def parts_of(block: Block, dtype: Any) -> tuple[Any, ...]:
    """keys, values, gates, share and activity in the run's dtype."""
    share, active = block.share, block.active
    cast = lambda part: None if part is None else np.asarray(part, dtype=dtype)  # noqa: E731
    return cast(block.keys), cast(block.values), cast(block.gates), cast(share), cast(active)


def same_state(own: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`arrays`, refused unless they are a state of this very run: a history of another length would be read in the wrong places."""
    found, wanted = ({name: array.shape for name, array in parts.items()} for parts in (arrays, own))
    if found != wanted:
        raise CheckpointError(f"the file holds a state of shapes {found}, and this problem and algorithm have {wanted}: they are not those that were saved.")
    return arrays


class NumpyRounds:
    """The way to play that reads like the equation, and needs NumPy alone."""

    name = "numpy"

    def __init__(self, stage: Stage, memories: np.ndarray, dtype: Any) -> None:
        self.stage, self.dtype = stage, np.dtype(dtype)
        self._world = world_of(stage, arrays_of(stage, self.dtype))
        self.state = stage.algorithm.init(self._world, memories.astype(self.dtype))

    @property
    def memories(self) -> np.ndarray:
        """X_{n,t} of the next round."""
        return np.array(self.state.memories, dtype=self.dtype)

    @property
    def state_memories(self) -> np.ndarray:
        """The same, as it lies: not to be kept."""
        return np.asarray(self.state.memories)

    def play(self, blocks: Sequence[Block], start: int, rates: np.ndarray) -> np.ndarray:
        """Play the sources' blocks, whose first round is start + 1; losses (R, B·N)."""
        block = self.stage.side_by_side(blocks)
        parts, rates = parts_of(block, self.dtype), rates.astype(self.dtype)
        if 1 < rates.shape[1] < self.stage.total:
            rates = np.repeat(rates, self.stage.agents, axis=1)
        rates = rates[:, :, None, None]
        losses = np.empty((len(block.keys), self.stage.total), dtype=self.dtype)
        with np.errstate(over="ignore", invalid="ignore"):  # a run that diverges is stopped by name
            for i in range(len(losses)):
                now = (None if part is None else part[i] for part in parts)
                sample = sample_of(self.stage.problems[0], start + i, *now)
                self.state, info = self.stage.algorithm.step(self._world, self.state, sample, rates[i])
                losses[i] = info.losses
        return losses

    def dump(self) -> dict[str, np.ndarray]:
        """The state as arrays by name."""
        return {name: np.array(part) for name, part in self.state._asdict().items() if part is not None}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Take up a dumped state."""
        self.state = self.state._replace(**same_state(self.dump(), arrays))
