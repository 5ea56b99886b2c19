"""A whole network in one process: the same agents, messages and rounds as over a real network, in periods instead of seconds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from mnemesh import routing as builders
from mnemesh.errors import MeshError, MnemeshError, WireError
from mnemesh.live import wire
from mnemesh.live.books import FATES
from mnemesh.live.faults import Faults, spans
from mnemesh.live.learning import Learner, Sample
from mnemesh.live.making import oldest
from mnemesh.live.messages import Bundle
from mnemesh.live.protocol import Agent, Report, State, blind, on_round, ready
from mnemesh.live.seat import Seat
from mnemesh.live.store import Association, MemoryStore, SQLiteStore, Store
from mnemesh.live.sums import MODES
from mnemesh.live.transports.embedded import Embedded
from mnemesh.live.view import Router, configured
from mnemesh.problem import Problem
from mnemesh.routing import Trees
from mnemesh.steps import as_step
from mnemesh.topology import check_graph
from mnemesh.types import Graph

__all__ = ["LEDGER", "Mesh"]

_TOLD = 64  # associations that an agent plays in one round, at the most

LEDGER = np.dtype([("root", "i8"), ("partner", "i8"), *((fate, "i8") for fate in FATES), ("in_flight", "i8")])


@final
class Mesh:
    """Agents on a graph that learn their own associations and those of the agents they care about, message by message.

    `learn({name: (key, value[, gate]), …})` runs one period: in it, every agent that hears its neighbours makes a round. `recall(name, key)` answers.
    Without faults the memories are those of `mm.simulate` with DAM-TOGD. `aggregation` is how replies are joined where they meet ("auto", "dense",
    "factored"); `deadline` is after how many periods a silent neighbour is no longer waited for; `max_age` the age up to which answers count.
    With a folder for `store` the network is durable: what `learn` has taken on is kept, and another mesh on the folder goes on from there.
    `commit_every` rounds the memory is written; a crash costs at most as many rounds of learning, and no association.
    """

    def __init__(
        self,
        problem: Problem,
        graph: Graph,
        *,
        routing: str | Callable[..., Trees] = "steiner",
        step: Any,
        key_dim: int,
        value_dim: int,
        names: Sequence[str] | None = None,
        aggregation: str = "auto",
        dtype: str = "float32",
        deadline: float = 2.0,
        max_age: int | None = None,
        leap: int = 8,
        store: str | os.PathLike[str] | None = None,
        commit_every: int = 1,
    ) -> None:
        check_graph(graph)
        if graph.number_of_nodes() != problem.agents:
            raise MeshError(f"a graph of {graph.number_of_nodes()} nodes for {problem.agents} agents: each agent is a node.")
        if aggregation not in MODES:
            raise MeshError(f"aggregation={aggregation!r}: replies are joined as one of {', '.join(MODES)}.")
        if not deadline >= 1:
            raise MeshError(f"deadline={deadline!r}: at least one period, or nobody is ever waited for.")
        self.problem, self.graph = problem, graph
        self.names = _names(names, problem.agents)
        self._number = {name: n for n, name in enumerate(self.names)}
        self.key_dim, self.shape = int(key_dim), problem.memory_shape(key_dim, value_dim)
        age = oldest(graph) if max_age is None else max_age
        build = builders.maker(routing) if isinstance(routing, str) else routing
        view, step = configured(graph), as_step(step)
        trees = build(graph, problem.interest)
        if not isinstance(age, int | np.integer) or not int(trees.delays.max()) <= age <= 16 * problem.agents:
            raise MeshError(f"max_age={age!r}: a whole number of rounds from the longest delay, {int(trees.delays.max())}, to {16 * problem.agents}, or no answer counts.")
        if not isinstance(leap, int | np.integer) or leap < 1:
            raise MeshError(f"leap={leap!r}: a whole number of rounds, at least 1, or nobody could ever catch up.")
        agents = problem.agents
        most = agents**2 if aggregation == "factored" else 0  # where nothing is joined, a middle link carries many replies
        self._shape = wire.Shape(agents, *self.shape, dtype, _decay_size(problem, self.shape), age, max_replies=most, max_rank=_TOLD * agents * (age + 1))
        self._seats = []
        for n in range(problem.agents):
            partners, weights = problem.interest.row(n)
            nearest = int(trees.delays[trees.starts[n] : trees.starts[n + 1]].min())
            learner = Learner(problem, step, self.shape, dtype, nearest)
            router = Router(n, dict(zip(partners.tolist(), weights.tolist(), strict=True)), build)
            agent = Agent(n, tuple(sorted(graph[n])), learner, router, age, aggregation, 1.0, float(deadline), leap)
            facts = {"agent": self.names[n], "shape": self.shape, "dtype": dtype, "key_dim": self.key_dim, "max_age": age, "commit_every": commit_every}
            try:
                kept: Store = MemoryStore(**facts) if store is None else SQLiteStore(_file(store, self.names[n]), **facts)  # type: ignore[arg-type]
                self._seats.append(Seat(agent, view, kept))
            except Exception:
                self.close()  # or those that were opened would stay locked
                raise
        self.period = max(seat.last for seat in self._seats)
        self._network = Embedded(Faults(), wire.join)
        self._bytes: Counter[str] = Counter({"query": 0, "reply": 0})

    @property
    def memories(self) -> np.ndarray:
        """X of every agent's coming round, (N, d_v, d_φ)."""
        return np.stack([seat.state.memory for seat in self._seats])

    @property
    def rounds(self) -> np.ndarray:
        """The last round that each agent has made, (N,)."""
        return np.array([seat.state.round for seat in self._seats])

    @property
    def reports(self) -> dict[str, Report]:
        """What the agents that made a round in the last period have to say of it."""
        return {name: seat.report for name, seat in zip(self.names, self._seats, strict=True) if seat.report is not None}

    @property
    def counts(self) -> dict[str, Counter[str]]:
        """What each agent dropped or refused, by reason."""
        return {name: Counter(seat.counts) for name, seat in zip(self.names, self._seats, strict=True)}

    @property
    def ledger(self) -> np.ndarray:
        """A row for every root and partner: launched = applied + missed + discarded + lost + in_flight, over all incarnations of the root."""
        rows = []
        for seat in self._seats:
            counts = sum((books.counts for books in seat.closed), start=seat.state.books.counts)
            flight = seat.state.books.in_flight()
            rows += [(seat.agent.number, m, *counts[i], flight[i]) for i, m in enumerate(seat.state.books.partners)]
        return np.array(rows, LEDGER)

    @property
    def bytes(self) -> dict[str, int]:
        """How many bytes were sent so far, by kind."""
        return dict(self._bytes)

    @property
    def waiting(self) -> np.ndarray:
        """How many associations each agent has taken on and not yet played, (N,)."""
        return np.array([seat.store.counts.waiting for seat in self._seats])

    def sample_of(self, name: str, number: int) -> Sample:
        """What an agent played in one of its last rounds."""
        samples = self._seat(name).state.samples
        if number not in samples:
            raise MeshError(f"{name} made no round {number}, or no longer holds it: it keeps its last {self._seat(name).agent.max_age}.")
        return samples[number]

    def taken_apart(self, name: str) -> tuple[Agent, State, tuple[Bundle, ...]]:
        """An agent, its state and its unread inbox, for `mnemesh.live.protocol` by hand."""
        seat = self._seat(name)
        return seat.agent, seat.state, tuple(seat.inbox)

    def faults(
        self, seed: int = 0, *, loss: float = 0.0, delay: int = 0, duplicate: float = 0.0, corrupt: float = 0.0, cuts: Sequence[Any] = (),
        partitions: Sequence[Any] = (), crashes: Sequence[Any] = (), pauses: Sequence[Any] = (), until: int | None = None,
    ) -> Faults:  # fmt: skip
        """Schedule failures by period: chances per frame up to `until`, links cut ("a", "b", first, last), agents that crash or pause ("a", first, last),
        groups that are parted from the others (["a", "b"], first, last). The same seed plays the same failures again. A later schedule takes the
        place of an earlier one."""
        parts = {"cuts": cuts, "partitions": partitions, "crashes": crashes, "pauses": pauses}
        told = {kind: spans(kind, given, self._agent) for kind, given in parts.items()}
        for span in told["cuts"]:
            if len(span.who) != 2 or not self.graph.has_edge(*span.who):
                raise MeshError(f"there is no link {' to '.join(self.names[n] for n in span.who)} to cut: cuts name two neighbours.")
        self._network.faults = Faults(seed, loss, delay, duplicate, corrupt, **told, until=until)
        return self._network.faults

    def learn(self, associations: Mapping[str, Any] | None = None) -> None:
        """One period: these associations are taken on, and every agent that may close its round does."""
        if associations is not None and not isinstance(associations, Mapping):
            raise MeshError(f"learn({type(associations).__name__}): {{name: (key, value), …}} is needed.")
        taken = [(self._seat(name), self._told(name, given)) for name, given in (associations or {}).items()]
        for seat, told in taken:
            seat.store.learn_all(told)
        self.period += 1
        self._crash()
        arriving = self._network.arriving(self.period)
        for seat in self._seats:
            for sender, frame in arriving.get(seat.agent.number, ()):
                self._hear(seat, sender, frame)
        failed: list[Exception] = []
        for seat in self._seats:
            seat.report = None
            if not seat.down and not self._network.faults.paused(seat.agent.number, self.period):
                try:
                    self._step(seat)
                except MnemeshError as wrong:  # one agent's failure stops no other
                    failed.append(wrong)
        if failed:
            raise failed[0]

    def close(self) -> None:
        """Write what waits to be written, and let go of the stores."""
        for seat in self._seats:
            seat.store.close()

    def __enter__(self) -> Mesh:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def recall(self, name: str, key: Any) -> np.ndarray:
        """What an agent answers to a cue (d_k,), or to many (…, d_k)."""
        seat = self._seat(name)
        try:
            cue = np.asarray(key, seat.agent.learner.dtype)
        except (TypeError, ValueError):
            raise MeshError(f"{name}: {key!r} is no cue: numbers are needed.") from None
        if cue.shape[-1:] != (self.key_dim,) or not np.isfinite(cue).all():
            raise MeshError(f"{name}: a cue of shape {cue.shape}: {self.key_dim} numbers are needed, or (…, {self.key_dim}) for many.")
        return seat.agent.learner.recall(seat.state.memory, cue)

    def _step(self, seat: Seat) -> None:
        """A round of one agent, if it may make one."""
        agent, faults = seat.agent, self._network.faults
        links = [n for n in agent.neighbours if not faults.cut(agent.number, n, self.period) and not faults.crashed(n, self.period)]
        elapsed = float(self.period - seat.last)
        if not ready(agent, seat.state, seat.inbox, links, elapsed):
            return
        told: Sequence[Association] = ()
        if not blind(seat.state, seat.inbox):
            told = seat.store.oldest() if agent.learner.loss.gate else seat.store.waiting(_TOLD)  # a gate is one round's
        state, outbox, report = on_round(agent, seat.state, seat.inbox, seat.sample(told), links, elapsed)
        frames = {receiver: wire.encode(bundle, self._shape) for receiver, bundle in outbox.items()}
        seat.store.commit(state.round, state.incarnation, state.memory, state.credit, float(self.period), [one.id for one in told])
        seat.state, seat.report, seat.last, seat.inbox = state, report, self.period, []  # committed before anything leaves
        seat.counts.update(report.counts)
        for receiver, frame in frames.items():
            self._bytes.update(wire.sizes(outbox[receiver], self._shape))
            self._network.send(agent.number, receiver, frame, self.period)

    def _hear(self, seat: Seat, sender: int, frame: Any) -> None:
        try:
            seat.inbox.append(wire.decode(frame, self._shape, sender))
            if len(seat.inbox) > 4 * seat.agent.max_age * max(len(seat.agent.neighbours), 1):
                del seat.inbox[0]  # of a time that no round will go back to
                seat.counts["unread too long"] += 1
        except WireError as refused:
            seat.counts[f"refused: {refused.reason}"] += 1

    def _crash(self) -> None:
        """Agents that go down lose all but what they committed; those that come back begin a new incarnation."""
        for seat in self._seats:
            down = self._network.faults.crashed(seat.agent.number, self.period)
            if seat.down and not down:
                seat.end()
                seat.state = seat.begin()
            seat.inbox = [] if down else seat.inbox
            seat.down = down

    def _told(self, name: str, given: Any) -> list[tuple[Any, ...]]:
        """What an agent is told in one period, checked: (key, value, gate) of every association."""
        if not isinstance(given, tuple | list) or len(given) not in (2, 3):
            raise MeshError(f"{name}: {type(given).__name__} is no association: (key, value) is needed, or (key, value, gate).")
        try:
            key, value, *gate = (np.asarray(part, np.float64) for part in given)
        except (TypeError, ValueError):
            raise MeshError(f"{name}: {given!r} is no association of numbers: (key, value) is needed, or (key, value, gate).") from None
        wanted = {"key": (key, self.key_dim), "value": (value, self.shape[0])}
        for what, (part, size) in wanted.items():
            with np.errstate(over="ignore"):
                finite = np.isfinite(part.astype(self._seats[0].agent.learner.dtype)).all()
            if part.shape[-1:] != (size,) or part.ndim > 2 or not finite:
                raise MeshError(f"{name}: a {what} of shape {part.shape}: {size} finite numbers are needed, or (A, {size}) for several associations.")
        axes = {"value": (self.shape[0],), "key": (self.shape[1],), "scalar": ()}
        loss = self.problem.loss
        if (loss.gate is None) != (not gate) or (gate and gate[0].shape != axes[loss.gate or "scalar"]):
            needed = f"a gate of shape {axes[loss.gate]}" if loss.gate else "no gate"
            raise MeshError(f"{name}: the loss {loss.name!r} takes {needed}: what its gate acts on is the loss's.")
        if gate and not ((gate[0] >= 0) & (gate[0] <= 1)).all():
            raise MeshError(f"{name}: a gate outside [0, 1]: it says how much is kept.")
        keys, values = np.atleast_2d(key), np.atleast_2d(value)
        if len(keys) != len(values) or len(keys) > _TOLD:
            raise MeshError(f"{name}: {len(keys)} keys and {len(values)} values: each association has one of both, and a round at most {_TOLD}.")
        return [(k, v, gate[0] if gate else None) for k, v in zip(keys, values, strict=True)]

    def _seat(self, name: str) -> Seat:
        return self._seats[self._agent(name)]

    def _agent(self, name: str) -> int:
        if not isinstance(name, str) or name not in self._number:
            raise MeshError(f"there is no agent {name!r}: there are {', '.join(map(repr, self.names[:6]))}{', …' if len(self.names) > 6 else ''}.")
        return self._number[name]

    def __repr__(self) -> str:
        return f"Mesh(agents={len(self.names)}, period={self.period}, rounds {self.rounds.min()}..{self.rounds.max()})"


def _names(names: Sequence[str] | None, agents: int) -> tuple[str, ...]:
    told = tuple(str(n) for n in range(agents)) if names is None else tuple(names)
    if len(told) != agents or len(set(told)) != agents or not all(isinstance(name, str) and name for name in told):
        raise MeshError(f"{len(told)} names for {agents} agents, {len(set(told))} of them different: each agent needs one of its own.")
    return told


def _file(folder: str | os.PathLike[str], name: str) -> Path:
    """Where an agent's store lies."""
    place = Path(folder)
    if not all(letter.isalnum() or letter in "-_." for letter in name) or name.startswith("."):
        raise MeshError(f"an agent called {name!r} cannot have a file: letters, digits, '-', '_' and '.' are needed where a store is.")
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as refused:
        raise MeshError(f"store={str(place)!r} is no folder that can be made ({refused.strerror}): nothing could be kept there.") from refused
    return place / f"{name}.sqlite"


def _decay_size(problem: Problem, shape: tuple[int, int]) -> int:
    if not problem.loss.decays:
        return 0
    return {"value": shape[0], "key": shape[1]}.get(problem.loss.gate or "scalar", 1)
