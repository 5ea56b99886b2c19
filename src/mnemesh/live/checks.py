"""What the types of a network file allow and no network can mean, each with the key, the rule and the consequence."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from mnemesh.errors import NetworkError
from mnemesh.live.addresses import Address, parse_address
from mnemesh.live.making import graph_of, interest_of, problem_of, routes_of, step_of
from mnemesh.words.refusals import nearest
from mnemesh.words.values import Table, thaw

if TYPE_CHECKING:
    from mnemesh.live.config import Member, Network

__all__ = ["check"]

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?")
_MOST = 2**31
_WIDEST = 2**16  # of keys and values
_LARGEST = 2**27  # numbers in a memory


def check(network: Network) -> None:
    """Refuse what is wrong with a network."""
    _check_names(network)
    _check_numbers(network)
    _check_links(network)
    _check_interests(network)
    _check_addresses(network)
    _check_security(network)
    graph = graph_of(network)
    problem = problem_of(network, interest_of(network, graph))
    size = math.prod(problem.memory_shape(network.key_dim, network.value_dim))
    if size > _LARGEST:
        raise NetworkError(f"key_dim, value_dim: a memory of {size:,} numbers, and frames hold up to {_LARGEST:,}: no query could carry it.")
    step_of(network)
    build = routes_of(network)
    if network.rounds.max_age is not None:
        longest = int(build(graph, problem.interest).delays.max())
        if network.rounds.max_age < longest:
            raise NetworkError(f"rounds.max_age = {network.rounds.max_age}: some answers are {longest} rounds old when they are home, and would never count.")


def _check_names(network: Network) -> None:
    _check_name("name", network.name, 48)
    if not network.agents:
        raise NetworkError("agents: at least one is needed, or nothing learns.")
    known: dict[str, str] = {}
    for name in network.names:
        _check_name("agents", name, 64)
        other = known.setdefault(name.lower(), name)
        if other is not name:
            raise NetworkError(f"agents: {other!r} and {name!r} differ by capital letters alone: on some machines, both would have the same files.")


def _check_name(at: str, name: str, longest: int) -> None:
    if not _NAME.fullmatch(name) or len(name) > longest:
        raise NetworkError(
            f"{at}: {name!r} cannot be a name: files, certificates and messages carry it, so it needs 1 to {longest} letters of a-z, A-Z, 0-9, '-', '_' and '.', "
            "a letter or digit first and no '.' last."
        )


def _check_numbers(network: Network) -> None:
    whole = {
        "seed": (network.seed, 0, "the parts that are drawn at random need one"),
        "key_dim": (network.key_dim, 1, "a cue has that many numbers"),
        "value_dim": (network.value_dim, 1, "a response has that many numbers"),
        "rounds.max_age": (network.rounds.max_age, 1, "older answers do not count"),
        "rounds.leap": (network.rounds.leap, 1, "an agent that is behind moves on by that many rounds more than time allows for"),
        "rounds.commit_every": (network.rounds.commit_every, 1, "the memory is written down every so many rounds"),
    }
    for key, (value, least, why) in whole.items():
        most = _WIDEST if key.endswith("_dim") else _MOST - 1
        if value is not None and not least <= value <= most:
            raise NetworkError(f"{key} = {value}: a whole number from {least} to {most:,} is needed: {why}.")
    rounds, lease = network.rounds, network.transport.lease
    if not 1e-6 <= rounds.min_period <= 86_400:
        raise NetworkError(f"rounds.min_period = {rounds.min_period}: seconds, from a millionth to a day, are needed, or rounds would not be paced.")
    if not rounds.deadline > 0:
        raise NetworkError(f"rounds.deadline = {rounds.deadline}: seconds above 0 are needed (inf waits for ever), or nobody would be waited for.")
    if rounds.deadline < rounds.min_period:
        raise NetworkError(
            f"rounds.deadline = {rounds.deadline}: below rounds.min_period = {rounds.min_period}, neighbours that are on time would be taken for silent."
        )
    if not 0.05 <= lease <= 3_600:
        raise NetworkError(f"transport.lease = {lease}: seconds, from 0.05 to 3600, are needed: neighbours that are silent for so long count as gone.")


def _check_links(network: Network) -> None:
    members = {member.name: member for member in network.agents}
    for member in network.agents:
        at = f"agents.{member.name}.links"
        if member.links and network.topology is not None:
            raise NetworkError(f"{at}: the topology says who is linked with whom, too: leave one of them out.")
        for far in member.links:
            _check_known(network, f"{at}: the link leads to {far!r}", far)
    for member in network.agents:
        at = f"agents.{member.name}.links"
        for far in member.links:
            if far == member.name:
                raise NetworkError(f"{at}: {far} is linked to itself, and no message needs that: leave it out.")
            if member.links.count(far) > 1:
                raise NetworkError(f"{at}: {far} stands there twice, and a link is one: leave one out.")
            if member.name not in members[far].links:
                raise NetworkError(f"{at}: the link to {far} is declared on this side only: {far} would refuse it. Add {member.name} to agents.{far}.links.")
    if network.topology is None:
        _check_pieces(network, members)


def _check_pieces(network: Network, members: dict[str, Member]) -> None:
    if len(members) > 1 and not any(member.links for member in network.agents):
        raise NetworkError("topology is missing, and no agent has links: state one, or each agent's links, or no message gets from one to another.")
    left, pieces = dict.fromkeys(network.names), []
    while left:
        piece, ring = [], [next(iter(left))]
        while ring:
            name = ring.pop()
            if name in left:
                del left[name]
                piece.append(name)
                ring += members[name].links
        pieces.append(f"{', '.join(sorted(piece)[:6])}{', …' if len(piece) > 6 else ''}")
    if len(pieces) > 1:
        more = f"; and {len(pieces) - 4} more" if len(pieces) > 4 else ""
        raise NetworkError(f"agents: their links make {len(pieces)} pieces ({'; '.join(pieces[:4])}{more}): no message gets from one to another.")


def _check_interests(network: Network) -> None:
    for member in network.agents:
        at = f"agents.{member.name}.interest"
        if member.interest is None and network.interest is None:
            raise NetworkError(f"{at} is missing, and so is interest for all: whom it learns from must be stated, {{ {member.name} = 1.0 }} for itself alone.")
        if member.interest is not None and network.interest is not None:
            raise NetworkError(f"{at}: interest says for all agents whom they care about: leave one of them out.")
        if member.interest is not None:
            _check_row(network, at, member.interest)


def _check_row(network: Network, at: str, row: Table) -> None:
    weights = thaw(row)
    for name, weight in weights.items():
        _check_known(network, f"{at}: it is in {name!r}", name)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 1:
            raise NetworkError(f"{at}.{name} = {weight!r}: a share from 0 to 1 is needed: how much it cares.")
    total = math.fsum(weights.values())
    if abs(total - 1) > 1e-6:
        raise NetworkError(f"{at}: its shares sum to {total:.6g}, not 1: its loss would be scaled, not weighted.")


def _check_known(network: Network, said: str, name: str) -> None:
    if name not in network.names:
        raise NetworkError(f"{said}, which is no agent of this network{nearest(name, network.names) or ': nobody would answer.'}")


def _check_addresses(network: Network) -> None:
    taken: dict[tuple[str, int], str] = {}
    host = _parsed("http.host", f"[{network.http.host}]:1" if ":" in network.http.host else f"{network.http.host}:1").host
    if host != network.http.host:
        raise NetworkError(f"http.host = {network.http.host!r}: write {host!r}, by which it is known.")
    for number, member in enumerate(network.agents):
        at = f"agents.{member.name}"
        if member.address:
            _claim(taken, f"{at}.address", _reachable(f"{at}.address", member.address))
        elif network.transport.name != "embedded" or member.listen:
            raise NetworkError(f"{at}.address is missing: its neighbours would not know where to find it.")
        if member.listen:
            _parsed(f"{at}.listen", member.listen)
        if member.http:
            _claim(taken, f"{at}.http", _reachable(f"{at}.http", member.http))
        elif not 1 <= network.http.port + number <= 65_535:
            raise NetworkError(f"http.port = {network.http.port}: agent {number}, {member.name}, would answer at {network.http.port + number}: ports are 1 to 65535.")
        else:
            _claim(taken, f"{at}'s http", Address(host, network.http.port + number))


def _parsed(at: str, text: str) -> Address:
    try:
        return parse_address(text)
    except ValueError as wrong:
        raise NetworkError(f"{at} = {text!r}: {wrong}.") from None


def _reachable(at: str, text: str) -> Address:
    address = _parsed(at, text)
    if address.everywhere:
        raise NetworkError(f"{at} = {text!r}: nobody can be found there: state the machine's own address; `listen` may be this one.")
    return address


def _claim(taken: dict[tuple[str, int], Any], at: str, address: Address) -> None:
    other = taken.setdefault(address.place, at)
    if other != at:
        raise NetworkError(f"{at} is {address}, and so is {other}: only one of them could listen there.")


def _check_security(network: Network) -> None:
    open_to_all = [
        (f"agents.{member.name}.{key}", text)
        for member in network.agents
        for key, text in (("address", member.address), ("listen", member.listen))
        if text and not parse_address(text).loopback
    ]
    if open_to_all and network.transport.tls is False and not network.transport.insecure:
        at, text = open_to_all[0]
        raise NetworkError(
            f"transport.tls = false: {at} = {text!r} is not loopback, and whoever is on the way could read and forge messages: "
            "leave it out, or state transport.insecure = true if that is meant."
        )
    if not network.http.token:
        for member in network.agents:
            address = network.answers(member.name)
            if not address.loopback:
                raise NetworkError(
                    f"http.token is missing: {member.name} answers at {address}, which is not loopback, and anybody could read and teach its memory: "
                    "name a file with a token."
                )
