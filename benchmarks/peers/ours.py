"""The problems that peers are given too, and our ways through them: float64, a constant rate, whole runs or round by round."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from turns import Play

import mnemesh as mm

__all__ = ["Case"]


class Case:
    """One size of the teachers' problem, d_v = d_k = `dim`: C-DOGD in a ball of `radius`, or without one local OGD, unbounded."""

    def __init__(self, agents: int, dim: int, rounds: int, radius: float | None = None) -> None:
        self.agents, self.dim, self.rounds, self.radius = agents, dim, rounds, radius
        self.rate = 1 / dim  # a sixth of what could diverge on average: ‖k‖² is d/3
        self.graph = mm.topology.random_geometric(agents, radius=0.35 if agents <= 20 else 0.15, seed=1)
        drawn = mm.streams.teacher(agents=agents, key_dim=dim, value_dim=dim, rounds=rounds, correlation=0.75, seed=1, dtype="float64")
        self.stream = mm.streams.from_arrays(drawn.keys, drawn.values)
        domain = mm.domains.everything() if radius is None else mm.domains.ball(radius)
        self.problem = mm.Problem("delta", domain, mm.interest.identity(agents))
        step = mm.steps.constant(self.rate)
        self.algorithm = mm.algorithms.local_ogd(step=step) if radius is None else mm.algorithms.c_dogd(self.graph, step=step)
        self.name = f"{'local OGD' if radius is None else 'C-DOGD'} ({agents}, {dim})"

    def arrays(self, rounds: int) -> dict[str, Any]:
        """The problem's first rounds as a peer is given it."""
        import networkx

        given = {"keys": self.stream.keys[:rounds], "values": self.stream.values[:rounds], "step": self.rate}
        if self.radius is not None:
            adjacency = networkx.to_numpy_array(self.graph, nodelist=range(self.agents))
            given |= {"adjacency": adjacency, "weights": mm.topology.metropolis(self.graph), "radius": self.radius}
        return given

    def ways(self) -> dict[str, Play]:
        """Every way of ours that is installed and can."""
        engines = ["numpy", *(["jax"] if find_spec("jax") else []), *(["numba"] if find_spec("numba") and self.radius is None else [])]
        return {"mm.Online": self._round_by_round, **{f"mm.simulate, {engine}": self._whole(engine) for engine in engines}}

    def _whole(self, engine: str) -> Play:
        def play(keep: bool) -> Any:
            trace = mm.simulate(self.problem, self.algorithm, self.stream, engine=engine, dtype="float64", record_every=1 if keep else None)
            return np.concatenate([trace.history[1:], trace.memories[None]]) if keep and trace.history is not None else trace.memories[None]

        return play

    def _round_by_round(self, keep: bool) -> Any:
        run = mm.Online(self.problem, self.algorithm, key_dim=self.dim, value_dim=self.dim, dtype="float64")
        kept = []
        for keys, values in zip(self.stream.keys, self.stream.values):
            run.learn(keys, values)
            if keep:
                kept.append(run.memories)
        return np.array(kept) if keep else run.memories[None]
