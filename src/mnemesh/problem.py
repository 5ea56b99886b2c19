"""What is to be learned: a loss on features, a feasible set, and who cares about whom. Checked once, then frozen."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from mnemesh.domains import Domain
from mnemesh.errors import DomainError, ProblemError, ShapeError
from mnemesh.features import Features, identity
from mnemesh.interest import Interest, as_interest
from mnemesh.losses import Loss, as_loss
from mnemesh.streams.stream import Block, Stream
from mnemesh.types import Array, Float, numbers, refuse_dense

__all__ = ["Problem", "RecallErrors"]


@final
class Problem:
    """Σ_n Σ_t Σ_m w_{n,m} f_{m,t}(X_{n,t}) over memories in 𝒳, for a loss f on features φ, a domain 𝒳 and an interest W."""

    __slots__ = ("domain", "features", "interest", "loss")

    loss: Loss
    domain: Domain
    interest: Interest
    features: Features

    def __init__(self, loss: Loss | str, domain: Domain, interest: Any, features: Features | None = None) -> None:
        if not isinstance(domain, Domain):
            raise ProblemError(f"domain={domain!r} is no domain: pass mm.domains.ball(radius), box(low, high) or everything().")
        if features is not None and not isinstance(features, Features):
            raise ProblemError(f"features={features!r} is no feature map: pass one of mm.features, such as mm.features.elu_plus_one().")
        loss = as_loss(loss)
        if features is None and loss.demands_features:
            raise ProblemError(
                f"the loss {loss.name!r} needs features=: without softmax-kernel features it would be a linear loss renamed. "
                "Pass mm.features.positive_random(key_dim, count, seed=…), elu_plus_one(), taylor(), or identity() if you mean it."
            )
        for name, part in (("loss", loss), ("domain", domain), ("interest", as_interest(interest)), ("features", features or identity())):
            object.__setattr__(self, name, part)

    def __setattr__(self, name: str, value: object) -> None:
        raise ProblemError(f"a Problem is frozen: build another one instead of setting {name!r}, or what was checked no longer holds.")

    def __reduce__(self) -> tuple[Any, ...]:
        return Problem, (self.loss, self.domain, self.interest, self.features)  # copies and pickles are checked again

    @property
    def agents(self) -> int:
        """N."""
        return self.interest.agents

    def shape(self, stream: Stream) -> tuple[int, int]:
        """(d_v, d_φ) of a memory, after checking that the stream's agents, keys and gates fit."""
        if stream.agents != self.agents:
            raise ShapeError(f"the stream has {stream.agents} agents and the interest matrix {self.agents}: they must be the same agents.")
        shape = self.memory_shape(stream.key_dim, stream.value_dim)
        if self.loss.gate is not None:
            if not stream.gated:
                raise ShapeError(f"the loss {self.loss.name!r} has gates and the stream has none: pass gates= to the stream, one per agent and round.")
            self.check_gates(stream.block(0, 1), shape)
        return shape

    def memory_shape(self, key_dim: int, value_dim: int) -> tuple[int, int]:
        """(d_v, d_φ) for keys and values of these dimensions."""
        shape = (int(value_dim), int(self.features.dim(key_dim)))
        self.domain.check_shape(shape)
        return shape

    def check_gates(self, block: Block, shape: tuple[int, int]) -> None:
        """Refuse gates that are missing, or whose shape is not that of the loss's gate axis."""
        tail = {"value": shape[:1], "key": shape[1:], "scalar": (), None: ()}[self.loss.gate]
        if self.loss.gate is not None and (block.gates is None or block.gates.shape[2:] != tail):
            found = "none" if block.gates is None else f"(T, N{''.join(f', {size}' for size in block.gates.shape[2:])})"
            wanted = f"(T, N{''.join(f', {size}' for size in tail)})"
            raise ShapeError(f"{self.loss.name}(gate={self.loss.gate!r}) needs gates of shape {wanted}, and the stream's are {found}: the axis is the loss's.")

    def decay(self, gates: Array | None, active: Array | None, like: Array) -> Array | None:
        """D of some agents, (…, d_v or 1, d_φ or 1): None where the loss has none, 0 for an agent that sees nothing.

        `gates` (…, gate axis) and `active` (…,) come from a block or a round of it; `like` gives the leading shape (…, d) and the dtype.
        """
        if not self.loss.decays:
            return None
        ones = like[..., :1, None] * 0 + 1
        decay = self.loss.decay(ones if self.loss.gate is None else gates)
        return decay if active is None else decay * active[..., None, None]

    def start(self, shape: tuple[int, int], initial: Any = None) -> np.ndarray:
        """X_{n,1}, (N, d_v, d_φ) in float64: Π(0), or `initial`, which must lie in the domain."""
        full = (self.agents, *shape)
        if initial is None:
            return np.broadcast_to(self.domain.project(np.zeros(shape)), full)
        memories = numbers("initial", initial, ShapeError)
        if memories.shape not in (full, shape):
            raise ShapeError(f"initial memories of shape {memories.shape}: {full} is needed, or one of shape {shape} for all agents.")
        memories = np.array(np.broadcast_to(memories, full))
        outside = np.flatnonzero(~np.asarray(self.domain.contains(memories)) | ~np.isfinite(memories).all((-2, -1)))
        if len(outside):
            n = outside[0]
            size = np.linalg.norm(memories[n])
            raise DomainError(f"the initial memory of agent {n} (norm {size:.6g}) lies outside {self.domain!r}: the bounds and the comparator assume it inside.")
        return memories

    def recall(self, memory: Float[Array, "*batch d_v d_phi"], key: Float[Array, "*batch d_k"]) -> Float[Array, "*batch d_v"]:
        """X φ(k): what a memory answers to a cue, or to many."""
        memory, key = (part if hasattr(part, "__array_namespace__") else np.asarray(part) for part in (memory, key))
        if key.ndim < 1 or memory.ndim < 2 or key.dtype.kind not in "biuf" or memory.dtype.kind not in "biuf":
            raise ShapeError(f"recall of {memory.dtype}{memory.shape} with {key.dtype}{key.shape}: (…, d_v, d_φ) and (…, d_k) are needed.")
        if not np.isfinite(key).all():
            raise ShapeError("a cue with NaN or infinite entries: there is nothing to recall from it.")
        features = self.features(key)
        if features.shape[-1] != memory.shape[-1]:
            raise ShapeError(f"a cue with {features.shape[-1]} features and a memory of shape {memory.shape}: the last axes must agree.")
        return (memory @ features[..., None])[..., 0]

    def recall_errors(self, memories: Float[Array, "N d_v d_phi"], stream: Stream, *, last: int = 100) -> RecallErrors:
        """How wrong each agent is about each partner's associations of the last rounds: √(Σ‖X_n φ − v‖² / Σ‖v‖²)."""
        full = (self.agents, *self.shape(stream))
        if np.shape(memories) != full:
            raise ShapeError(f"memories of shape {np.shape(memories)}, and this problem and stream have {full}: whose errors are meant?")
        if last < 1:
            raise ShapeError(f"last={last!r}: at least one round is needed to measure an error on.")
        block = stream.block(max(stream.rounds - last, 0), stream.rounds)
        there = np.ones(block.keys.shape[:3], dtype=bool) if block.present is None else block.present
        features = np.asarray(self.features(block.keys), dtype=np.float64) * there[..., None]
        values = np.asarray(block.values, dtype=np.float64) * there[..., None]
        sizes = (values**2).sum((0, 2, 3))
        features, values = (np.moveaxis(part, 1, 0).reshape(self.agents, -1, part.shape[-1]) for part in (features, values))
        errors = np.empty(len(self.interest.partners))
        for n in range(self.agents):  # agent by agent: the pairs together would not fit
            partners, place = self.interest.row(n)[0], slice(self.interest.starts[n], self.interest.starts[n + 1])
            wrong = features[partners] @ np.asarray(memories[n], dtype=np.float64).T - values[partners]
            with np.errstate(divide="ignore", invalid="ignore"):
                errors[place] = np.sqrt((wrong**2).sum((1, 2)) / sizes[partners])
        return RecallErrors(self.interest, errors)

    def __repr__(self) -> str:
        return f"Problem(loss={self.loss.name!r}, domain={self.domain!r}, agents={self.agents}, features={self.features.name!r})"


@final
class RecallErrors:
    """Relative recall errors per (agent, partner): `errors[n, m]`, ragged `values` in the order of the interest's partners, or np.asarray(errors)."""

    __slots__ = ("interest", "values")

    def __init__(self, interest: Interest, values: np.ndarray) -> None:
        self.interest, self.values = interest, values

    @property
    def per_agent(self) -> np.ndarray:
        """Each agent's errors, averaged by its interest, (N,). A partner without a value of size above 0 makes it NaN."""
        return np.bincount(self.interest.rows, self.interest.weights * self.values, self.interest.agents)

    def __getitem__(self, pair: tuple[int, int]) -> float:
        agent, partner = pair
        partners, _ = self.interest.row(agent)
        at = np.flatnonzero(partners == partner)
        if not len(at):
            raise ProblemError(f"agent {agent} has no interest in agent {partner}: it never learns to recall it, so no error is measured.")
        return float(self.values[self.interest.starts[agent] + at[0]])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        refuse_dense(self.interest.agents, "the recall errors", ProblemError)
        dense = np.full((self.interest.agents,) * 2, np.nan, dtype=dtype or np.float64)
        dense[self.interest.rows, self.interest.partners] = self.values
        return dense

    def __repr__(self) -> str:
        return f"RecallErrors(agents={self.interest.agents}, median {np.nanmedian(self.values):.3g}, worst {np.nanmax(self.values):.3g})"
