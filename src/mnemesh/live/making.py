"""From a network's words to things: its graph, its problem, its step rule and its tree builder."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemesh import domains, features, interest, losses, routing, steps, topology
from mnemesh.errors import NetworkError
from mnemesh.interest import Interest
from mnemesh.problem import Problem
from mnemesh.steps import Step
from mnemesh.types import Graph
from mnemesh.words.makers import blamed, made, signature
from mnemesh.words.values import thaw

if TYPE_CHECKING:
    from mnemesh.live.config import Network

__all__ = ["graph_of", "interest_of", "oldest", "problem_of", "routes_of", "step_of"]


def graph_of(network: Network) -> Graph:
    """The stated topology, or the agents' own links, on 0..N-1."""
    agents = len(network.agents)
    if network.topology is None:
        number = {name: n for n, name in enumerate(network.names)}
        pairs = {tuple(sorted((n, number[far]))) for n, member in enumerate(network.agents) for far in member.links}
        return topology.from_edges(sorted(pairs), agents)
    graph = made(topology.maker, network.topology, "topology", NetworkError, agents=agents, seed=network.seed)
    with blamed("topology", NetworkError):
        topology.check_graph(graph)
        if graph.number_of_nodes() != agents:
            raise NetworkError(f"{network.topology} has {graph.number_of_nodes()} nodes, and there are {agents} agents: each agent is a node.")
    return graph


def interest_of(network: Network, graph: Graph) -> Interest:
    """What the stated maker makes, or the agents' own rows."""
    agents = len(network.agents)
    if network.interest is None:
        number = {name: n for n, name in enumerate(network.names)}
        rows = [{} if member.interest is None else thaw(member.interest) for member in network.agents]
        starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        return Interest(starts, [number[name] for row in rows for name in row], [weight for row in rows for weight in row.values()])
    cares = made(interest.maker, network.interest, "interest", NetworkError, agents=agents, graph=graph, seed=network.seed)
    if not isinstance(cares, Interest):
        raise NetworkError(f"interest: {network.interest.name} made {cares!r}, which is no interest.")
    if cares.agents != agents:
        raise NetworkError(f"interest: {network.interest} is of {cares.agents} agents, and there are {agents}: each has a row.")
    return cares


def problem_of(network: Network, cares: Interest) -> Problem:
    """Loss, features and domain, with who cares about whom; keys and values of the stated dimensions fit it."""
    known = {"agents": len(network.agents), "seed": network.seed, "key_dim": network.key_dim}
    loss = made(losses.maker, network.loss, "loss", NetworkError, **known)
    domain = made(domains.maker, network.domain, "domain", NetworkError, **known)
    mapped = None if network.features is None else made(features.maker, network.features, "features", NetworkError, **known)
    with blamed("loss, features, domain", NetworkError):
        problem = Problem(loss, domain, cares, mapped)
    with blamed("key_dim, value_dim", NetworkError):
        problem.memory_shape(network.key_dim, network.value_dim)
    return problem


def step_of(network: Network) -> Step:
    """The step rule, with as many rates as there are agents, or one for all."""
    agents = len(network.agents)
    step = made(steps.maker, network.step, "step", NetworkError, agents=agents)
    with blamed("step", NetworkError):
        step = steps.as_step(step)
        rates = np.shape(step.rate(np.array([[1]]), np.zeros((1, 1))))
        if rates[-1] not in (1, agents):
            raise NetworkError(f"{rates[-1]} rates for {agents} agents: one for all is needed, or one for each.")
    return step


def routes_of(network: Network) -> Callable[[Any, Any], Any]:
    """The tree builder with its stated settings: (graph, interest) → trees."""
    with blamed("routing", NetworkError):
        build, stated = routing.maker(network.routing.name), thaw(network.routing.settings)
        known = {"seed": network.seed} if "seed" in signature(build) and "seed" not in stated else {}
    small = topology.line(2)
    made(routing.maker, network.routing, "routing", NetworkError, graph=small, interest=interest.uniform(2), seed=network.seed)
    return partial(build, **stated, **known)


def oldest(graph: Graph) -> int:
    """The age up to which answers count by default: 4 · diameter + 8, or 2N where that is less."""
    import networkx

    return min(4 * int(networkx.diameter(graph)) + 8, max(2 * graph.number_of_nodes(), 4))
