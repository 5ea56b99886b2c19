"""Who cares about whom: the row-stochastic interest matrix W, w_{n,m} = how much agent n cares about agent m's data.

Sparse first: rows are kept ragged, so one agent with 10⁵ partners costs 10⁵ numbers and not N × 10⁵.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np

from mnemesh.draws import generator
from mnemesh.errors import InterestError
from mnemesh.registry import Registry
from mnemesh.types import Graph, numbers, refuse_dense

__all__ = ["Interest", "as_interest", "dirichlet", "from_array", "get", "identity", "maker", "names", "nearest", "register", "scattered", "uniform"]

_TOLERANCE = 1e-6


@final
class Interest:
    """W in ragged rows: agent n's partners are `partners[starts[n]:starts[n + 1]]`, ascending, with the `weights` of the same places.

    Weights of 0 are dropped; a row must sum to 1 within 1e-6 and is then renormalised. `np.asarray(interest)` is the dense W.
    """

    __slots__ = ("partners", "starts", "weights")

    starts: np.ndarray
    partners: np.ndarray
    weights: np.ndarray

    def __init__(self, starts: Any, partners: Any, weights: Any) -> None:
        starts, partners = np.array(starts, dtype=np.int64), np.array(partners, dtype=np.int64)
        weights = np.array(weights, dtype=np.float64)
        agents = len(starts) - 1
        if agents < 1 or starts[0] != 0 or (np.diff(starts) < 0).any() or starts[-1] != len(partners) or len(partners) != len(weights):
            raise InterestError("ragged rows that do not fit: starts must rise from 0 to the number of partners, with one weight per partner.")
        rows = np.repeat(np.arange(agents), np.diff(starts))
        _refuse(~np.isfinite(weights), rows, partners, weights, "is not finite: a loss cannot be weighted by it")
        _refuse(weights < 0, rows, partners, weights, "is negative: agent {n} would be rewarded for forgetting agent {m}")
        _refuse((partners < 0) | (partners >= agents), rows, partners, weights, f"is about an agent outside 0..{agents - 1}")
        order = np.lexsort((partners, rows))
        rows, partners, weights = rows[order], partners[order], weights[order]
        twice = np.zeros(len(rows), dtype=bool)
        twice[1:] = (rows[1:] == rows[:-1]) & (partners[1:] == partners[:-1])
        _refuse(twice, rows, partners, weights, "is given twice: which one is meant?")
        sums = np.bincount(rows, weights, agents)
        wrong = np.flatnonzero(abs(sums - 1) > _TOLERANCE)
        if len(wrong):
            n = wrong[0]
            raise InterestError(f"row {n} of the interest matrix sums to {sums[n]:.6g}, not 1: agent {n}'s loss would be scaled, not weighted.")
        kept = weights > 0
        sums[abs(sums - 1) < len(weights) * np.finfo(np.float64).eps] = 1  # so that normalised rows stay as they are, bit for bit
        rows, partners, weights = rows[kept], partners[kept], weights[kept] / sums[rows[kept]]
        self.starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=agents))])
        self.partners, self.weights = partners, weights
        for array in (self.starts, self.partners, self.weights):
            array.setflags(write=False)

    @property
    def agents(self) -> int:
        """N."""
        return len(self.starts) - 1

    @property
    def rows(self) -> np.ndarray:
        """The agent whose row each of `partners` stands in, (nnz,)."""
        return np.repeat(np.arange(self.agents), np.diff(self.starts))

    @property
    def own(self) -> np.ndarray:
        """w_{n,n}, (N,)."""
        mine = self.partners == self.rows
        return np.bincount(self.rows[mine], self.weights[mine], self.agents).astype(np.float64)

    def row(self, agent: int) -> tuple[np.ndarray, np.ndarray]:
        """𝒲_n and its weights."""
        if not 0 <= agent < self.agents:
            raise InterestError(f"there is no agent {agent!r}: the interests are of agents 0..{self.agents - 1}.")
        place = slice(self.starts[agent], self.starts[agent + 1])
        return self.partners[place], self.weights[place]

    def same_partners(self, other: Interest) -> bool:
        """Whether both care about the same agents, whatever the weights."""
        return np.array_equal(self.starts, other.starts) and np.array_equal(self.partners, other.partners)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        refuse_dense(self.agents, "the interest matrix", InterestError)
        dense = np.zeros((self.agents, self.agents), dtype=dtype or np.float64)
        dense[self.rows, self.partners] = self.weights
        return dense

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interest) and self.same_partners(other) and np.array_equal(self.weights, other.weights)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        sizes = np.diff(self.starts)
        return f"Interest(agents={self.agents}, partners {sizes.min()}..{sizes.max()}, own weight {self.own.min():.3g}..{self.own.max():.3g})"


def _refuse(wrong: np.ndarray, rows: np.ndarray, partners: np.ndarray, weights: np.ndarray, why: str) -> None:
    places = np.flatnonzero(wrong)
    if len(places):
        n, m, w = rows[places[0]], partners[places[0]], weights[places[0]]
        raise InterestError(f"agent {n}'s interest {w:.6g} in agent {m} {why.format(n=n, m=m)}.")


def from_array(matrix: Any) -> Interest:
    """An Interest from a dense (N, N) array or a scipy sparse matrix (which stays sparse).

    >>> from_array([[0.75, 0.25], [0, 1]])
    Interest(agents=2, partners 1..2, own weight 0.75..1)
    """
    if hasattr(matrix, "tocsr"):
        rows = matrix.tocsr()
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()  # what scipy means by an entry given twice
        if rows.shape[0] != rows.shape[1]:
            raise InterestError(f"an interest matrix of shape {rows.shape}: it has one row and one column per agent.")
        return Interest(rows.indptr, rows.indices, rows.data)
    dense = numbers("matrix", matrix, InterestError)
    if dense.ndim != 2 or dense.shape[0] != dense.shape[1]:
        raise InterestError(f"an interest matrix of shape {dense.shape}: it has one row and one column per agent.")
    rows_at, columns = np.nonzero(dense)
    return Interest(np.concatenate([[0], np.cumsum(np.bincount(rows_at, minlength=len(dense)))]), columns, dense[rows_at, columns])


def as_interest(interest: Any) -> Interest:
    """An Interest, from itself, an array or a scipy sparse matrix."""
    return interest if isinstance(interest, Interest) else from_array(interest)


def dirichlet(agents: int, *, own: float, others: float, seed: int) -> Interest:
    """The paper's interests (15): row n ~ Dirichlet(y_0, …, y_1 at n, …, y_0), with y_1 = `own` and y_0 = `others`."""
    _positive_count("agents", agents)
    for name, value in (("own", own), ("others", others)):
        if not (np.isfinite(value) and value > 0):
            raise InterestError(f"{name}={value!r}: a Dirichlet parameter must be positive, or its agent's share is not defined.")
    refuse_dense(agents, "a Dirichlet interest, in which everybody cares about everybody,", InterestError)
    rng = generator(seed, "interest/dirichlet")
    concentration = np.full((agents, agents), float(others))
    np.fill_diagonal(concentration, own)
    return from_array(np.stack([rng.dirichlet(row) for row in concentration]))


def uniform(agents: int) -> Interest:
    """W = 11ᵀ/N: everybody cares about everybody alike."""
    _positive_count("agents", agents)
    refuse_dense(agents, "a uniform interest, in which everybody cares about everybody,", InterestError)
    return from_array(np.full((agents, agents), 1 / agents))


def identity(agents: int) -> Interest:
    """W = I: everybody cares about itself alone."""
    _positive_count("agents", agents)
    return Interest(np.arange(agents + 1), np.arange(agents), np.ones(agents))


def nearest(graph: Graph, count: int, *, own: float = 0.5) -> Interest:
    """Each agent cares about itself with weight `own` and, alike, about the `count` agents nearest in hops (ties: smaller id)."""
    agents = graph.number_of_nodes()
    _check_shares(agents, count, own, "nearest")
    neighbours = [sorted(graph[node]) for node in range(agents)]
    partners = np.empty((agents, count + 1), dtype=np.int64)
    for n in range(agents):
        partners[n] = _nearest_to(n, neighbours, count)
    return _shared(partners, own)


def scattered(agents: int, count: int, *, own: float = 0.5, seed: int) -> Interest:
    """Each agent cares about itself with weight `own` and, alike, about `count` others drawn uniformly, wherever they are."""
    _positive_count("agents", agents)
    _check_shares(agents, count, own, "others")
    rng = generator(seed, "interest/scattered")
    partners = np.empty((agents, count + 1), dtype=np.int64)
    for n in range(agents):
        others = rng.choice(agents - 1, count, replace=False, shuffle=False)
        partners[n, 0], partners[n, 1:] = n, others + (others >= n)  # n itself is not among those drawn from
    return _shared(partners, own)


def _check_shares(agents: int, count: int, own: float, whom: str) -> None:
    if not isinstance(count, int | np.integer) or not 1 <= count < agents:
        raise InterestError(f"count={count!r}: among {agents} agents an agent has 1 to {agents - 1} others to care about.")
    if not 0 <= own < 1:
        raise InterestError(f"own={own!r}: the own weight lies in [0, 1); the rest is shared by the {count} {whom}.")


def _shared(partners: np.ndarray, own: float) -> Interest:
    """Each agent's weight `own` to the first of its partners, the rest shared alike by the others."""
    agents, width = partners.shape
    weights = np.full((agents, width), (1 - own) / (width - 1))
    weights[:, 0] = own
    return Interest(np.arange(agents + 1) * width, partners.ravel(), weights.ravel())


def _nearest_to(root: int, neighbours: list[list[int]], count: int) -> list[int]:
    found, ring, seen = [root], [root], {root}
    while ring and len(found) <= count:
        ring = sorted({far for near in ring for far in neighbours[near]} - seen)
        seen.update(ring)
        found.extend(ring[: count + 1 - len(found)])
    if len(found) <= count:
        raise InterestError(f"agent {root} reaches only {len(found) - 1} others on this graph, fewer than count={count}: join the components or ask for less.")
    return found


def _positive_count(name: str, value: int) -> None:
    if not isinstance(value, int | np.integer) or value < 1:
        raise InterestError(f"{name}={value!r}: a whole number of agents, at least 1, is needed.")


_REGISTRY = Registry(
    "interest", InterestError, {"dirichlet": dirichlet, "uniform": uniform, "identity": identity, "nearest": nearest, "scattered": scattered}
)
get, maker, names, register = _REGISTRY.get, _REGISTRY.maker, _REGISTRY.names, _REGISTRY.register
