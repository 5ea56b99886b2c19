"""Laws of losses and feature maps."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import numpy as np

from mnemesh.domains import ball, box
from mnemesh.draws import generator
from mnemesh.features import Features
from mnemesh.losses import GATE_AXES, Loss, as_loss
from mnemesh.testing.laws import close, differences, has, holds, on_jax

__all__ = ["check_features", "check_loss"]

_BATCH = 5


def check_loss(loss: Loss | str, *, value_dim: int = 3, feature_dim: int = 4, seed: int = 0) -> None:
    """Value agrees with residual (finite differences; autodiff with JAX) and is convex, shapes and dtypes are kept, the decay fits its gates, claims hold.

    >>> from mnemesh import losses
    >>> check_loss(losses.delta())
    """
    loss = as_loss(loss)
    rng = generator(seed, "testing/loss")
    holds(loss.gate is None or loss.gate in GATE_AXES, f"{loss!r}: gate={loss.gate!r} is none of {GATE_AXES}.")
    holds(not loss.needs_jax or has("jax"), f"{loss!r} needs JAX, which is not installed: nothing can be checked.")
    outputs, values = 2 * rng.standard_normal((2, _BATCH, value_dim))
    _check_kept(loss, outputs, values)
    slope = differences(partial(_call, loss, "value"), outputs, values)
    close(_call(loss, "residual", outputs, values), slope, 1e-6, f"{loss!r}: the residual is not the slope of the value, so descent climbs")
    if has("jax"):
        _check_jax(loss, outputs, values)
    _check_convex(loss, rng, value_dim)
    _check_decay(loss, rng, value_dim, feature_dim)
    _check_gradient(loss, rng, value_dim, feature_dim)
    _check_claims(loss, rng, value_dim, feature_dim)


def _call(loss: Loss, method: str, *arrays: np.ndarray) -> np.ndarray:
    function = getattr(loss, method)
    return on_jax(function, *arrays) if loss.needs_jax else np.asarray(function(*arrays))


def _check_kept(loss: Loss, outputs: np.ndarray, values: np.ndarray) -> None:
    for dtype in (np.float64, np.float32):
        z, v = outputs.astype(dtype), values.astype(dtype)
        for method, shape in (("value", z.shape[:-1]), ("residual", z.shape)):
            whole = _call(loss, method, z, v)
            holds(whole.shape == shape, f"{loss!r}: {method} turns outputs {z.shape} into {whole.shape}; {shape} is needed.")
            holds(whole.dtype == dtype, f"{loss!r}: {method} turns {np.dtype(dtype)} into {whole.dtype}, so a run would change its precision.")
            one = np.stack([_call(loss, method, z[i], v[i]) for i in range(len(z))])
            close(one, whole, 1e-5, f"{loss!r}: {method} of one association depends on the others of its batch")
    before = outputs.copy(), values.copy()
    _call(loss, "residual", outputs, values)
    holds(np.array_equal(before[0], outputs) and np.array_equal(before[1], values), f"{loss!r}: residual changes its arguments.")


def _check_convex(loss: Loss, rng: np.random.Generator, value_dim: int) -> None:
    here, there, values = 3 * rng.standard_normal((3, 200, value_dim))
    rise = ((_call(loss, "residual", here, values) - _call(loss, "residual", there, values)) * (here - there)).sum(-1)
    holds(rise >= -1e-9 * (1 + abs(rise).max()), f"{loss!r}: the value is not convex in the outputs, so no bound on regret holds and descent may end anywhere.")


def _check_jax(loss: Loss, outputs: np.ndarray, values: np.ndarray) -> None:
    jax = importlib.import_module("jax")
    residual = on_jax(loss.residual, outputs, values)
    slope = on_jax(lambda z, v: jax.grad(lambda at: loss.value(at, v).sum())(z), outputs, values)
    close(residual, slope, 1e-9, f"{loss!r}: the residual is not the automatic derivative of the value")
    for method in ("value", "residual"):
        if not loss.needs_jax:
            there = on_jax(getattr(loss, method), outputs, values)
            close(there, getattr(loss, method)(outputs, values), 1e-12, f"{loss!r}: {method} differs between NumPy and JAX")


def _gates(loss: Loss, rng: np.random.Generator, value_dim: int, feature_dim: int) -> np.ndarray:
    """Gates of the shape that the loss names; ones for a loss without."""
    tail: tuple[int, ...] = {"value": (value_dim,), "key": (feature_dim,), "scalar": (), None: (1, 1)}[loss.gate]
    return np.ones((_BATCH, *tail)) if loss.gate is None else rng.random((_BATCH, *tail))


def _check_decay(loss: Loss, rng: np.random.Generator, value_dim: int, feature_dim: int) -> None:
    gates = _gates(loss, rng, value_dim, feature_dim)
    if not loss.decays:
        holds(loss.gate is None, f"{loss!r} has gates but decays=False: its gates would be ignored.")
        decay = loss.decay(gates)
        holds(decay is None or not np.any(decay), f"{loss!r} says decays=False and has a decay, which no engine would apply.")
        return
    decay = loss.decay(gates)
    shape = (_BATCH, *{"value": (value_dim, 1), "key": (1, feature_dim)}.get(loss.gate or "", (1, 1)))
    holds(np.shape(decay) == shape, f"{loss!r}: the decay of {_BATCH} gates has shape {np.shape(decay)}; gate={loss.gate!r} needs {shape}.")
    holds(np.isfinite(decay) & (decay >= 0), f"{loss!r}: a negative decay makes the loss unbounded below, a non-finite one loses the memory.")
    if loss.gate is None:
        holds(decay == 1, f"{loss!r} decays without gates, so its D is 1 by definition; it gives {decay.flat[0]:.6g}.")
    for dtype in (np.float64, np.float32):
        holds(np.asarray(loss.decay(gates.astype(dtype))).dtype == dtype, f"{loss!r}: the decay changes the dtype of its gates.")
    flat, moved = gates.reshape(-1), gates.copy().reshape(-1)
    moved[0] = 1 - flat[0]
    elsewhere = (loss.decay(moved.reshape(gates.shape)) != decay).reshape(-1)[1:]
    holds(not elsewhere.any(), f"{loss!r}: one gate changes the decay of other rows or agents.")


def _check_gradient(loss: Loss, rng: np.random.Generator, value_dim: int, feature_dim: int) -> None:
    memories = rng.standard_normal((_BATCH, value_dim, feature_dim))
    features, values = rng.standard_normal((_BATCH, feature_dim)), rng.standard_normal((_BATCH, value_dim))
    decay = loss.decay(_gates(loss, rng, value_dim, feature_dim)) if loss.decays else np.zeros((_BATCH, 1, 1))

    def whole(at: np.ndarray, features: np.ndarray, values: np.ndarray, decay: np.ndarray) -> np.ndarray:
        return _call(loss, "value", np.einsum("bij,bj->bi", at, features), values) + 0.5 * (decay * at**2).sum((-2, -1))

    residual = _call(loss, "residual", np.einsum("bij,bj->bi", memories, features), values)
    gradient = residual[:, :, None] * features[:, None, :] + decay * memories
    slope = differences(whole, memories, features, values, decay)
    close(gradient, slope, 1e-6, f"{loss!r}: r φᵀ + D ∘ X is not the gradient of the loss in the memory")


def _check_claims(loss: Loss, rng: np.random.Generator, value_dim: int, feature_dim: int) -> None:
    outputs, values = 2 * rng.standard_normal((2, 50, value_dim))
    if loss.curvature is not None:
        a = loss.curvature
        quadratic = 0.5 * a * (outputs**2).sum(-1) - (outputs * values).sum(-1) + 0.5 * a * (values**2).sum(-1)
        close(_call(loss, "value", outputs, values), quadratic, 1e-12, f"{loss!r} says curvature={a!r}, and its value is not that quadratic")
    features = rng.standard_normal((50, feature_dim))
    for domain in (ball(1.5), box(-1.0, 0.5)):
        norms = np.linalg.norm(values, axis=-1), np.linalg.norm(features, axis=-1)
        bound = loss.lipschitz(domain.furthest(features, values), *norms)
        if bound is None:
            return
        memories = np.asarray(domain.project(3 * rng.standard_normal((50, value_dim, feature_dim))))
        residual = _call(loss, "residual", np.einsum("bij,bj->bi", memories, features), values)
        found = np.linalg.norm(residual, axis=-1) * norms[1]
        holds(found <= bound * (1 + 1e-9), f"{loss!r}: a gradient of size {np.max(found / bound):.4g} times its Lipschitz bound on {domain!r}.")


def check_features(features: Features, *, key_dim: int = 3, seed: int = 0) -> None:
    """φ is one fixed map: d_φ = dim(d_k), shapes and dtypes are kept, a key's features depend on that key alone, NumPy and JAX agree.

    >>> from mnemesh.features import taylor
    >>> check_features(taylor())
    """
    keys = generator(seed, "testing/features").uniform(-1, 1, (4, _BATCH, key_dim))
    count: Any = features.dim(key_dim)
    for dtype in (np.float64, np.float32):
        found = np.asarray(features(keys.astype(dtype)))
        holds(found.shape == (4, _BATCH, count), f"{features!r}: keys {keys.shape} become {found.shape}, and dim({key_dim}) says {count}.")
        holds(found.dtype == dtype, f"{features!r} turns {np.dtype(dtype)} into {found.dtype}, so a run would change its precision.")
        holds(np.isfinite(found), f"{features!r} is not finite for keys in [−1, 1].")
    before, whole = keys.copy(), np.asarray(features(keys))
    holds(np.array_equal(before, keys), f"{features!r} changes its argument.")
    holds(np.array_equal(np.asarray(features(keys)), whole), f"{features!r} gives other features the second time: every agent must use the same map.")
    one = np.stack([[np.asarray(features(key)) for key in row] for row in keys])
    close(one, whole, 1e-12, f"{features!r}: the features of a key depend on the other keys of its batch")
    if has("jax"):
        close(on_jax(features, keys), whole, 1e-12, f"{features!r} differs between NumPy and JAX")
