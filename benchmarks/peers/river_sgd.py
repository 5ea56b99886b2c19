"""river's linear regression by SGD, a model for each row of each agent's memory: a program for .venv-peers, started by compare.py.

river's squared loss (p − y)² has twice our derivative, so it learns at half our rate. Intercept and penalties are off.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
from river import linear_model, optim
from turns import Play, serve


def prepare(problem: dict[str, np.ndarray]) -> tuple[Play, dict[str, Any]]:
    """The data as river takes them: a dictionary for a key, a float for an entry of a value."""
    keys, rate = problem["keys"], float(problem["step"]) / 2
    names = range(keys.shape[2])
    features = [[dict(zip(names, key)) for key in of_round] for of_round in keys.tolist()]
    targets = problem["values"].tolist()
    _, agents, d_v = problem["values"].shape

    def play(keep: bool) -> Any:
        memories = [[row(rate) for _ in range(d_v)] for _ in range(agents)]
        kept = []
        for of_round, wanted in zip(features, targets):
            for memory, x, values in zip(memories, of_round, wanted):
                for model, y in zip(memory, values):
                    model.learn_one(x, y)
            if keep:
                kept.append([[[weights[name] for name in names] for weights in (model.weights for model in memory)] for memory in memories])
        return np.array(kept)

    return play, {"version": version("river")}


def row(rate: float) -> linear_model.LinearRegression:
    """One row of a memory; the clipping that is left is river's default, of gradients above 10¹²."""
    return linear_model.LinearRegression(optimizer=optim.SGD(rate), loss=optim.losses.Squared(), intercept_lr=0.0, l2=0.0)


if __name__ == "__main__":
    serve(prepare)
