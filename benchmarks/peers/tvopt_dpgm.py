"""tvopt's distributed proximal gradient method on our problem: a program for .venv-peers, started by compare.py.

Every round is one call of `dpgm` on the cost sampled at that round, from where the last one ended, as in tvopt's own online examples.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
from turns import Play, serve
from tvopt import costs, distributed_solvers, networks, sets


class Recall(costs.Cost):
    """½ ‖X k − v‖² of one agent in one round; X is a column of d_v d_k numbers, row after row."""

    def __init__(self, key: np.ndarray, value: np.ndarray) -> None:
        super().__init__(sets.R(value.size * key.size, 1))
        self.key, self.value, self.smooth = key, value, 2

    def gradient(self, x: np.ndarray) -> np.ndarray:
        residual = x.reshape(self.value.size, self.key.size) @ self.key - self.value
        return (residual[:, None] * self.key).reshape(-1, 1)


class RecallTogether(costs.Cost):
    """The same of all agents in one round, who are the last axis of the state."""

    def __init__(self, keys: np.ndarray, values: np.ndarray) -> None:
        super().__init__(sets.R(values.shape[1] * keys.shape[1], 1, len(keys)))
        self.keys, self.values, self.smooth = np.ascontiguousarray(keys.T), np.ascontiguousarray(values.T), 2

    def gradient(self, x: np.ndarray) -> np.ndarray:
        memories = x.reshape(len(self.values), *self.keys.shape)
        residual = (memories * self.keys).sum(1) - self.values
        return (residual[:, None] * self.keys).reshape(x.shape)


class BallTogether(costs.Cost):
    """The indicator of a ball about 0, for all agents together."""

    def __init__(self, shape: tuple[int, ...], radius: float) -> None:
        super().__init__(sets.R(*shape))
        self.radius = radius

    def proximal(self, x: np.ndarray, penalty: float = 1) -> np.ndarray:
        return x * (self.radius / np.maximum(np.sqrt((x * x).sum((0, 1))), self.radius))


def linear_regression(key: np.ndarray, value: np.ndarray) -> costs.Cost:
    """tvopt's ½ ‖A x − b‖², with A = I ⊗ kᵀ."""
    return costs.LinearRegression(np.kron(np.eye(value.size), key[None, :]), value[:, None])


def costs_of(problem: dict[str, np.ndarray]) -> tuple[list[costs.Cost], costs.Cost]:
    """f of each round, and g, in the way that was asked for."""
    keys, values, radius, way = problem["keys"], problem["values"], float(problem["radius"]), str(problem["way"])
    agents, size = keys.shape[1], values.shape[2] * keys.shape[2]
    if way == "together":
        return [RecallTogether(*given) for given in zip(keys, values)], BallTogether((size, 1, agents), radius)
    one = {"shipped": linear_regression, "own": Recall}[way]
    rounds = [costs.SeparableCost([one(*given) for given in zip(*of_round)]) for of_round in zip(keys, values)]
    return rounds, costs.SeparableCost([costs.Indicator(sets.Ball(np.zeros(size), radius)) for _ in range(agents)])


def prepare(problem: dict[str, np.ndarray]) -> tuple[Play, dict[str, Any]]:
    """Build tvopt's objects."""
    rounds, g = costs_of(problem)
    f, step = costs.DiscreteDynamicCost(rounds), float(problem["step"])
    net = networks.Network(problem["adjacency"], problem["weights"])
    shape = (problem["values"].shape[2], problem["keys"].shape[2], net.N)

    def play(keep: bool) -> Any:
        x, kept = np.zeros(f.dom.shape), []
        for t in range(len(rounds)):
            x = distributed_solvers.dpgm({"f": f.sample(t), "g": g, "network": net}, step, x_0=x, num_iter=1)
            if keep:
                kept.append(np.moveaxis(x.reshape(shape), -1, 0))
        return np.array(kept)

    return play, {"version": version("tvopt"), "mixing": networks.metropolis_hastings(problem["adjacency"])}


if __name__ == "__main__":
    serve(prepare)
