"""A network as data: its agents and where they are, their links and interests, what they learn and how. Frozen, typed, hashable; TOML in and out."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from mnemesh.errors import NetworkError, require
from mnemesh.live.addresses import Address, parse_address
from mnemesh.live.agreement import agreement, digest
from mnemesh.live.checks import check
from mnemesh.live.making import graph_of, interest_of, oldest, problem_of, routes_of, step_of
from mnemesh.words.refusals import nearest
from mnemesh.words.tables import parsed, raw, structured
from mnemesh.words.values import Choice, Table, thaw

if TYPE_CHECKING:
    from mnemesh.live.mesh import Mesh
    from mnemesh.problem import Problem
    from mnemesh.steps import Step
    from mnemesh.types import Graph

__all__ = ["FILE", "VARIABLE", "Http", "Member", "Network", "Rounds", "Transport", "convert", "parse", "read", "write"]

FILE, VARIABLE = "network.toml", "MNEMESH_NETWORK"  # what is read where no file is named


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An agent: where its neighbours find it, where it listens and answers if not there, its neighbours, and whom it cares about."""

    name: str
    address: str = ""
    listen: str = ""  # the address, unless a machine knows itself by another
    http: str = ""  # http.host and http.port + its number, unless stated
    links: tuple[str, ...] = ()
    interest: Table | None = None


class Rounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When an agent makes a round, and how long it waits for whom. Seconds."""

    driven: Literal["timer", "data", "free"] = "timer"  # every min_period; when there is something to learn; as fast as the neighbours do
    min_period: float = 0.05
    deadline: float = 0.25
    max_age: int | None = None
    leap: int = 8
    commit_every: int = 1


class Transport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How messages travel. TLS is on as soon as an address is not loopback, unless stated."""

    name: Literal["embedded", "zenoh"] = "embedded"
    lease: float = 2.0
    tls: bool | None = None
    insecure: bool = False
    keys: str = "pki"


class Http(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where agents answer their users: agent n at port + n, unless it states an address of its own."""

    host: str = "127.0.0.1"
    port: int = 8_080
    token: str = ""  # the file that holds it


class Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A network: all that its agents need to know. `mm.live.config.read` reads one."""

    name: str
    about: str = ""
    seed: int = 1
    agents: tuple[Member, ...]
    topology: Choice | None = None
    interest: Choice | None = None
    loss: Choice = Choice("delta")
    features: Choice | None = None  # identity, where the loss does not demand others
    domain: Choice = Choice("ball", Table((("radius", 500.0),)))
    key_dim: int
    value_dim: int
    dtype: Literal["float32", "float64"] = "float32"
    step: Choice
    routing: Choice = Choice("steiner")
    aggregation: Literal["auto", "dense", "factored"] = "auto"
    rounds: Rounds = Rounds()
    transport: Transport = Transport()
    http: Http = Http()
    store: str = ""  # the folder in which agents keep what they know; without one, nothing outlives them

    def __post_init__(self) -> None:
        check(self)

    @property
    def names(self) -> tuple[str, ...]:
        """The agents, in the order of their numbers."""
        return tuple(member.name for member in self.agents)

    def number(self, name: str) -> int:
        """An agent's number: its place in the file, from 0 on."""
        if name not in self.names:
            raise NetworkError(f"there is no agent {name!r} in the network {self.name}{nearest(name, self.names) or ': there are ' + _some(self.names)}")
        return self.names.index(name)

    def agent(self, name: str) -> Member:
        """What the file says of an agent."""
        return self.agents[self.number(name)]

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """The links, each once, by the numbers of their ends."""
        return tuple((self.names[a], self.names[b]) for a, b in sorted(tuple(sorted(link)) for link in self.graph().edges))

    def neighbours(self, name: str) -> tuple[str, ...]:
        """An agent's neighbours, by their numbers."""
        return tuple(self.names[n] for n in sorted(self.graph()[self.number(name)]))

    def address(self, name: str) -> Address:
        """Where its neighbours find an agent."""
        text = self.agent(name).address
        if not text:
            raise NetworkError(f"agents.{name}.address is missing: its neighbours would not know where to find it.")
        return parse_address(text)

    def listens(self, name: str) -> Address:
        """Where an agent listens for its neighbours."""
        return parse_address(self.agent(name).listen) if self.agent(name).listen else self.address(name)

    def answers(self, name: str) -> Address:
        """Where an agent answers its users over HTTP."""
        number = self.number(name)
        return parse_address(self.agents[number].http) if self.agents[number].http else Address(self.http.host, self.http.port + number)

    @property
    def encrypted(self) -> bool:
        """Whether links use TLS: as stated, or else as soon as an address is not loopback."""
        if self.transport.tls is not None:
            return self.transport.tls
        return any(not parse_address(text).loopback for member in self.agents for text in (member.address, member.listen) if text)

    def graph(self) -> Graph:
        """The links as a graph on 0..N-1."""
        return graph_of(self)

    def problem(self) -> Problem:
        """What is to be learned."""
        return problem_of(self, interest_of(self, self.graph()))

    def rule(self) -> Step:
        """The step rule."""
        return step_of(self)

    def routes(self) -> Callable[[Any, Any], Any]:
        """The tree builder: from a graph and an interest to trees."""
        return routes_of(self)

    @property
    def max_age(self) -> int:
        """The age up to which answers count, in rounds: as stated, or else 4 · diameter + 8, at most 2N."""
        return oldest(self.graph()) if self.rounds.max_age is None else self.rounds.max_age

    def agreement(self) -> dict[str, str]:
        """What all agents must agree on, topic by topic, in words or as a digest. Where they are is not among it."""
        return agreement(self)

    @property
    def digest(self) -> str:
        """Sixteen letters that stand for all that agents must agree on."""
        return digest(self.agreement())

    def mesh(self, **settings: Any) -> Mesh:
        """The whole network in one process, in periods instead of seconds. `settings` are the Mesh's own, and win."""
        from mnemesh.live.mesh import Mesh

        told = {
            "routing": self.routing.name if not self.routing.settings.items else self.routes(), "step": self.rule(), "key_dim": self.key_dim,
            "value_dim": self.value_dim, "names": self.names, "aggregation": self.aggregation, "dtype": self.dtype,
            "deadline": self.rounds.deadline / self.rounds.min_period, "max_age": self.max_age,
            "leap": self.rounds.leap, "commit_every": self.rounds.commit_every, "store": self.store or None,
        }  # fmt: skip
        return Mesh(self.problem(), self.graph(), **{**told, **settings})

    @property
    def text(self) -> str:
        """The network as TOML: what differs from the defaults."""
        return write(self)

    def with_(self, **changes: Any) -> Network:
        """Another network with these keys changed, checked like any. Of a table, only the keys given change: `with_(transport={"name": "zenoh"})`."""
        unknown = sorted(set(changes) - set(self.__struct_fields__))
        if unknown:
            raise NetworkError(f"there is no {unknown[0]!r} in a network{nearest(unknown[0], self.__struct_fields__) or '.'}")
        told = _raw(self)
        for key, value in changes.items():
            whole = key not in ("rounds", "transport", "http") or not isinstance(value, Mapping)
            told[key] = _plain(value) if whole else {**told.get(key, {}), **value}
        return convert({key: value for key, value in told.items() if value is not None})


def convert(plain: Any) -> Network:
    """A network from the plain tables and lists that TOML gives."""
    names: list[str] = []
    if isinstance(plain, Mapping) and "agents" in plain:
        names, entries = _entries(plain["agents"])
        plain = {**plain, "agents": entries}
    try:
        network: Network = structured(plain, Network, {"agents": Member, "rounds": Rounds, "transport": Transport, "http": Http}, NetworkError)
        return network
    except NetworkError as wrong:
        said = re.sub(r"\Aagents\[(\d+)\]", lambda place: f"agents.{names[int(place[1]) - 1]}", str(wrong))
        raise NetworkError(said) from None


def _entries(agents: Any) -> tuple[list[str], list[Any]]:
    """Agents from a table of them, in its order: of each, its address alone, or a table."""
    if not isinstance(agents, Mapping):
        raise NetworkError('agents: a table of names is needed, such as agents.lisbon = "127.0.0.1:7401".')
    entries: list[Any] = []
    for name, told in agents.items():
        if isinstance(told, str):
            told = {"address": told}
        if not isinstance(told, Mapping):
            raise NetworkError(f"agents.{name}: an address is needed, or a table, and this is {told!r}.")
        if "name" in told:
            raise NetworkError(f"agents.{name}: there is no key 'name': an agent is called what its table is called.")
        entries.append({"name": name, **told})
    return [str(name) for name in agents], entries


def _raw(network: Network) -> dict[str, Any]:
    """The plain tables of a network: what differs from the defaults."""
    told = raw(network)
    told["agents"] = _plain(network.agents)
    return told


def _plain(value: Any) -> Any:
    if isinstance(value, tuple) and value and all(isinstance(part, Member) for part in value):
        members = {member.name: {key: told for key, told in raw(member).items() if key != "name"} for member in value}
        return {name: told["address"] if set(told) == {"address"} else told for name, told in members.items()}
    return raw(value) if isinstance(value, msgspec.Struct) else thaw(value)


def write(network: Network) -> str:
    """The network as TOML, without what is as by default: `parse` reads an equal one."""
    return str(require("tomli_w", "writing a network").dumps(_raw(network)))


def parse(text: str, source: str = "the network") -> Network:
    """A network from TOML."""
    network: Network = parsed(text, source, convert, NetworkError)
    return network


def read(path: str | os.PathLike[str] | None = None) -> Network:
    """A network from a file: this one, $MNEMESH_NETWORK, or ./network.toml. Its own paths are read from the file's folder."""
    told = path or os.environ.get(VARIABLE) or FILE
    file = Path(told)
    try:
        network = parse(file.read_text(encoding="utf-8"), str(file))
    except FileNotFoundError:
        hint = "" if path else f" Name one, set ${VARIABLE}, or write ./{FILE}."
        raise NetworkError(f"there is no network file {str(file)!r}: nobody knows which agents there are.{hint}") from None
    except (OSError, UnicodeDecodeError, ValueError) as wrong:
        if isinstance(wrong, NetworkError):
            raise
        raise NetworkError(f"{str(file)!r} cannot be read as text: {getattr(wrong, 'strerror', None) or wrong}.") from None
    folder = file.absolute().parent
    return network.with_(
        store=_from(folder, network.store), transport={"keys": _from(folder, network.transport.keys)}, http={"token": _from(folder, network.http.token)}
    )


def _from(folder: Path, path: str) -> str:
    return str(folder / path) if path else ""


def _some(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:6])}{', …' if len(names) > 6 else ''}."
