"""One round at a time, for somebody's own loop: the same step that `simulate` folds over a stream."""

from __future__ import annotations

import os
from typing import Any, final

import numpy as np

from mnemesh.algorithms.algorithm import Algorithm
from mnemesh.engine import checkpoint
from mnemesh.engine.divergence import refuse_divergence
from mnemesh.engine.recipe import pack, unpack
from mnemesh.engine.rounds import NumpyRounds
from mnemesh.engine.run import known_dtype
from mnemesh.engine.stage import Stage
from mnemesh.errors import DataError, ShapeError
from mnemesh.problem import Problem
from mnemesh.streams import from_arrays
from mnemesh.streams.stream import Stream
from mnemesh.types import numbers

__all__ = ["Online"]


@final
class Online:
    """N memories that learn whenever `learn` is called.

    >>> import numpy as np, mnemesh as mm
    >>> problem = mm.Problem("delta", mm.domains.ball(10.0), mm.interest.identity(2))
    >>> run = mm.Online(problem, mm.algorithms.ogd(step=mm.steps.constant(1.0)), key_dim=2, value_dim=1)
    >>> run.learn(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[3.0], [5.0]]))
    array([ 4.5, 12.5], dtype=float32)
    >>> run.recall(1, np.array([0.0, 1.0]))
    array([5.], dtype=float32)
    """

    def __init__(
        self, problem: Problem, algorithm: Algorithm, *, key_dim: int, value_dim: int, associations: int = 1, dtype: str = "float32", initial: Any = None
    ) -> None:
        for given, kind in ((problem, Problem), (algorithm, Algorithm)):
            if not isinstance(given, kind):
                raise ShapeError(f"{type(given).__name__} is no {kind.__name__}: Online(problem, algorithm, key_dim=, value_dim=) takes them in this order.")
        for name, size in (("key_dim", key_dim), ("value_dim", value_dim), ("associations", associations)):
            if not isinstance(size, int | np.integer) or size < 1:
                raise ShapeError(f"{name}={size!r}: a whole number, at least 1, is needed, or there is nothing to remember.")
        self.problem, self.algorithm, self.rounds = problem, algorithm, 0
        self.key_dim, self.value_dim, self.associations, self.dtype = int(key_dim), int(value_dim), int(associations), known_dtype(dtype)
        shape = problem.memory_shape(key_dim, value_dim)
        self._stage = Stage((problem,), (algorithm,), (_Endless(problem.agents, key_dim, value_dim, associations),), shape)
        if problem.loss.needs_jax:
            from mnemesh.engine.compiled import JaxRounds

            self._player: Any = JaxRounds(self._stage, problem.start(shape, initial), dtype, 1)
        else:
            self._player = NumpyRounds(self._stage, problem.start(shape, initial), dtype)

    @property
    def memories(self) -> np.ndarray:
        """X_{n,t} of the coming round, (N, d_v, d_φ)."""
        return np.asarray(self._player.memories)

    def learn(self, keys: Any, values: Any, gates: Any = None, present: Any = None) -> np.ndarray:
        """One round: keys (N, d_k) and values (N, d_v), or (N, A, …) with `present` (N, A). Σ_m w_{n,m} f_{m,t}(X_{n,t}) comes back, (N,)."""
        given = {"keys": keys, "values": values, "gates": gates}
        parts = [None if part is None else (part if isinstance(part, np.ndarray) else numbers(name, part, ShapeError))[None] for name, part in given.items()]
        parts.append(None if present is None else np.asarray(present)[None])
        several = self.associations > 1 or (parts[0] is not None and parts[0].ndim == 4)
        expected = (1, self.problem.agents, *((self.associations,) if several else ()))
        for name, part, size in (("keys", parts[0], self.key_dim), ("values", parts[1], self.value_dim)):
            if part is None or part.shape != (*expected, size):
                raise ShapeError(f"{name} of shape {None if part is None else part.shape[1:]} in a round: {(*expected[1:], size)} is what this run was built for.")
        block = from_arrays(*parts).block(0, 1)
        self.problem.check_gates(block, self._stage.shape)
        rates = self._stage.rates(self.rounds + 1, self.rounds + 1)
        losses = self._player.play([block], self.rounds, rates)
        refuse_divergence(self._stage, losses, self.rounds, block=block)
        self.rounds += 1
        return np.asarray(losses[0])

    def recall(self, agent: int, key: Any) -> np.ndarray:
        """What this agent answers to a cue (d_k,), or to many (…, d_k)."""
        if not isinstance(agent, int | np.integer) or not 0 <= agent < self.problem.agents:
            raise DataError(f"agent={agent!r}: there are agents 0..{self.problem.agents - 1}, and no other remembers anything.")
        return np.asarray(self.problem.recall(self._player.state_memories[agent], np.asarray(key, dtype=self.dtype)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything that the next round depends on, gradients under way included."""
        words, arrays = pack(self.problem, self.algorithm)
        sizes = {"key_dim": self.key_dim, "value_dim": self.value_dim, "associations": self.associations, "dtype": self.dtype}
        state = {f"state.{name}": array for name, array in self._player.dump().items()}
        checkpoint.write(path, "online", {"rounds": self.rounds, "sizes": sizes, "recipe": words}, {**arrays, **state})

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, problem: Problem | None = None, algorithm: Algorithm | None = None) -> Online:
        """Take up a saved run, to the same bits. A loss or step of your own is not in the file: give `problem` or `algorithm` again."""
        facts, arrays = checkpoint.read(path, "online")
        run = cls(*unpack(facts["recipe"], arrays, problem, algorithm), **facts["sizes"])
        run._player.restore({name.removeprefix("state."): array for name, array in arrays.items() if name.startswith("state.")})
        run.rounds = facts["rounds"]
        return run

    def __repr__(self) -> str:
        return f"Online({self.problem!r}, {self.algorithm!r}, key_dim={self.key_dim}, value_dim={self.value_dim}, rounds={self.rounds})"


class _Endless(Stream):
    """The shape of a stream whose rounds come one by one."""

    rounds = 2**62

    def __init__(self, agents: int, key_dim: int, value_dim: int, associations: int) -> None:
        self.agents, self.key_dim, self.value_dim, self.associations = agents, key_dim, value_dim, associations

    def block(self, first: int, last: int, agents: np.ndarray | None = None) -> Any:
        raise DataError("the rounds of an Online run come through learn(keys, values); they cannot be read again.")
