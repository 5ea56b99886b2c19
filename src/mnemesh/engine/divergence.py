"""What is said of a run whose numbers stopped being finite."""

from __future__ import annotations

import math

import numpy as np

from mnemesh.engine.stage import Stage
from mnemesh.errors import DataError, DivergenceError
from mnemesh.streams.stream import Block, Stream

__all__ = ["refuse_divergence", "stable_rate"]


def stable_rate(tau_max: int, curvature: float) -> float:
    """The largest constant rate that is stable, as a guide: 2 sin(π / (4 τ_max + 2)) / λ with λ = max(‖φ‖² + max D)."""
    return 2 * math.sin(math.pi / (4 * tau_max + 2)) / curvature if curvature > 0 else math.inf


def refuse_divergence(stage: Stage, numbers: np.ndarray, start: int, *, rounds: int = 1, block: Block | None = None) -> None:
    """Raise if a number of some agent is not finite: the agent, the round and the largest stable rate on its stream, or on `block`.

    `numbers` are (R, B·N) from round start + 1 on, or the sums (B·N,) of so many `rounds`.
    """
    fine = np.atleast_2d(np.isfinite(numbers))
    if fine.all():
        return
    i, n = np.argwhere(~fine)[0].tolist()
    run, agent, t = n // stage.agents, n % stage.agents, start + i + 1
    rows = stage.algorithms[run].rows(stage.problems[run])
    entries = slice(rows.starts[agent], rows.starts[agent + 1])
    tau, stream = int(rows.delays[entries].max()), stage.streams[run]
    _refuse_data(stream if block is None else block, t)
    blocks = [block] if block is not None else (piece for _, piece in stream.blocks())
    largest = stable_rate(tau, max(_curvature(stage, piece, rows.partners[entries]) for piece in blocks))
    rates = stage.rates(t, t)
    rate = float(rates[0, n * rates.shape[1] // stage.total])
    whose = f"agent {agent} of run {run}" if stage.runs > 1 else f"agent {agent}"
    when = f"in round {t}" if rounds == 1 or numbers.ndim == 2 else f"between rounds {t} and {start + rounds}"
    raise DivergenceError(
        f"{whose} diverged: its numbers stopped being finite {when}, at a rate of {rate:.3g}. With delays up to {tau} rounds on these data, "
        f"about {largest:.3g} is the largest rate that is stable: lower the step."
    )


def _refuse_data(data: Stream | Block, t: int) -> None:
    """Say so where it is the data of round t or before that are not finite: a stream of somebody's own is read as it comes."""
    for first, piece in data.blocks() if isinstance(data, Stream) else ((t - 1, data),):
        for name, array in (("key", piece.keys), ("value", piece.values)):
            wrong = np.argwhere(~np.isfinite(array).all((-2, -1)))
            if len(wrong):
                i, n = wrong[0].tolist()
                raise DataError(f"the {name} of agent {n} in round {first + i + 1} is not finite: no memory can learn it.")
        if first + len(piece.keys) >= t:
            return


def _curvature(stage: Stage, block: Block, partners: np.ndarray) -> float:
    """max ‖φ‖² + max D over what these partners see."""
    features = np.asarray(stage.features(block.keys[:, partners]), dtype=np.float64)
    if block.present is not None:
        features = features * block.present[:, partners, :, None]
    decay = 0.0
    if stage.loss.decays:
        gated = stage.loss.gate is not None and block.gates is not None
        decay = float(np.max(1 - block.gates[:, partners])) if gated else 1.0  # type: ignore[index]
    return float((features**2).sum(-1).max()) + decay
