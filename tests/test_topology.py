"""Graphs against networkx and brute force, the mixing matrix against its formula and closed forms."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import subprocess
import sys
from collections import Counter

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemesh import topology
from mnemesh.draws import generator
from mnemesh.errors import DataError, GraphError

seeds = st.integers(0, 10_000)


def edges(graph: nx.Graph) -> set[tuple[int, int]]:
    return {(min(link), max(link)) for link in graph.edges}


def relinked(graph: nx.Graph, seed: int) -> nx.Graph:
    """The same graph with its nodes and links added in another order."""
    rng = np.random.default_rng(seed)
    other = nx.Graph()
    other.add_nodes_from(rng.permutation(graph.number_of_nodes()).tolist())
    links = [tuple(rng.permutation(link).tolist()) for link in graph.edges]
    other.add_edges_from(links[i] for i in rng.permutation(len(links)))
    return other


@given(agents=st.integers(1, 60), radius=st.floats(0.25, 1.6), seed=seeds)
@settings(max_examples=60)
def test_random_geometric_links_exactly_the_pairs_within_the_radius(agents, radius, seed):
    try:
        graph = topology.random_geometric(agents, radius=radius, seed=seed)
    except GraphError as refused:
        assert "raise the radius" in str(refused) and agents > 1
        return
    places = np.array([graph.nodes[n]["pos"] for n in range(agents)])
    assert ((places >= 0) & (places < 1)).all()
    apart = ((places[:, None] - places[None]) ** 2).sum(-1)
    expected = {(n, m) for n in range(agents) for m in range(n + 1, agents) if apart[n, m] <= radius**2}
    assert edges(graph) == expected
    assert list(graph) == list(range(agents)) and nx.is_connected(graph)


@pytest.mark.parametrize(("agents", "radius"), [(3_000, 0.05), (3_000, 0.0334), (500, 1 / 3), (500, 0.1)])
def test_random_geometric_on_a_fine_grid_of_cells_agrees_with_a_search_over_all_pairs(agents, radius):
    places = np.random.default_rng(agents).random((agents, 2))
    places[:7] = [[0, 0], [1 - 2**-53, 1 - 2**-53], [1 / 3, 1 / 3], [2 / 3, 1 / 3], [0.5, 0.5], [0.5 + radius, 0.5], [0, 1 - 2**-53]]
    found = topology._within(places, radius)
    apart = (places[:, None, 0] - places[None, :, 0]) ** 2 + (places[:, None, 1] - places[None, :, 1]) ** 2
    expected = np.argwhere(np.triu(apart <= radius**2, 1))
    assert len(found) == len(expected) and set(map(tuple, found.tolist())) == set(map(tuple, expected.tolist()))


def test_random_geometric_redraws_from_the_same_generator_until_connected():
    first = 0
    for seed in range(12):
        graph = topology.random_geometric(20, radius=0.3, seed=seed)
        rng = generator(seed, "topology/random_geometric")
        for tries in itertools.count():
            places = rng.random((20, 2))
            drawn = nx.empty_graph(20)
            drawn.add_edges_from((n, m) for n in range(20) for m in range(n) if ((places[n] - places[m]) ** 2).sum() <= 0.09)
            if nx.is_connected(drawn):
                first += tries == 0
                break
        assert edges(graph) == edges(drawn)
    assert first <= 9  # or the redrawing was never put to the test


def test_a_hopeless_radius_is_refused_with_the_tries_and_the_remedy():
    with pytest.raises(GraphError, match=r"none of 100 graphs drawn with 20 agents at radius 0.05 is connected.*raise the radius"):
        topology.random_geometric(20, radius=0.05, seed=1)


def test_default_is_the_documented_graph_and_the_same_on_every_machine():
    graph = topology.default()
    assert edges(graph) == edges(topology.random_geometric(20, radius=0.35, seed=1)) and graph.number_of_nodes() == 20
    assert hashlib.sha256(json.dumps(sorted(edges(graph))).encode()).hexdigest()[:16] == DEFAULT_DIGEST
    assert edges(graph) != edges(topology.random_geometric(20, radius=0.35, seed=2))


DEFAULT_DIGEST = "c344d25616bedb27"


def test_graphs_do_not_depend_on_the_hash_seed():
    program = (
        "from mnemesh import topology as t; "
        "gs = [t.random_geometric(40, radius=.3, seed=3), t.small_world(30, rewired=.4, seed=3), t.tree(30, seed=3), "
        "t.from_networkx(__import__('networkx').Graph((x, y) for x in {'a', 'bb', 'c'} for y in {'d', 'e', 7}))]; "
        "print([sorted(map(sorted, g.edges)) for g in gs], gs[-1].nodes(data='name'))"
    )
    outcomes = set()
    for seed in ("1", "2", "77"):
        fresh = {**os.environ, "PYTHONHASHSEED": seed}
        outcomes.add(subprocess.run([sys.executable, "-c", program], env=fresh, capture_output=True, text=True, check=True).stdout)
    assert len(outcomes) == 1 and len(outcomes.pop()) > 500


@given(agents=st.integers(3, 40), half=st.integers(1, 3), rewired=st.floats(0, 1), seed=seeds)
@settings(max_examples=60)
def test_small_world_keeps_the_number_of_links_and_is_connected(agents, half, rewired, seed):
    if 2 * half >= agents:
        with pytest.raises(GraphError, match="an even number from 2"):
            topology.small_world(agents, neighbours=2 * half, rewired=rewired, seed=seed)
        return
    try:
        graph = topology.small_world(agents, neighbours=2 * half, rewired=rewired, seed=seed)
    except GraphError as refused:
        assert half == 1 and "rewire less" in str(refused)
        return
    assert graph.number_of_edges() == agents * half and nx.is_connected(graph) and not any(n in graph[n] for n in graph)


def test_small_world_without_rewiring_is_a_ring_lattice_and_with_it_shortens_the_ways():
    lattice = topology.small_world(60, neighbours=4, rewired=0.0, seed=1)
    assert edges(lattice) == edges(nx.circulant_graph(60, [1, 2]))
    moved = len(edges(topology.small_world(600, neighbours=4, rewired=0.25, seed=1)) - edges(nx.circulant_graph(600, [1, 2])))
    assert 230 <= moved <= 370  # a quarter of 1,200 links, 4.6 standard deviations
    assert nx.average_shortest_path_length(topology.small_world(60, rewired=0.3, seed=1)) < 0.7 * nx.average_shortest_path_length(lattice)


@given(agents=st.integers(1, 30), rows=st.integers(1, 6), columns=st.integers(1, 6), branching=st.integers(1, 4))
def test_fixed_graphs_are_those_of_networkx(agents, rows, columns, branching):
    assert edges(topology.line(agents)) == edges(nx.path_graph(agents))
    assert edges(topology.star(agents)) == edges(nx.star_graph(agents - 1))
    assert edges(topology.complete(agents)) == edges(nx.complete_graph(agents))
    if agents >= 3:
        assert edges(topology.ring(agents)) == edges(nx.cycle_graph(agents))
    assert edges(topology.tree(agents, branching=branching)) == edges(nx.full_rary_tree(branching, agents))
    assert edges(topology.tree(agents)) == edges(nx.full_rary_tree(2, agents))
    grid = topology.grid(rows, columns)
    plain = nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns), ordering="sorted")
    assert edges(grid) == edges(plain)
    assert all(math.dist(grid.nodes[n]["pos"], grid.nodes[m]["pos"]) == 1 for n, m in grid.edges)
    for graph in (topology.line(agents), topology.star(agents), topology.complete(agents), topology.tree(agents), grid):
        topology.check_graph(graph)


def test_random_trees_are_drawn_uniformly():
    drawn = Counter(tuple(sorted(edges(topology.tree(4, seed=seed)))) for seed in range(1_600))
    assert len(drawn) == 16  # Cayley: 4² labelled trees
    assert sum((count - 100) ** 2 / 100 for count in drawn.values()) < 37.7  # χ²(15) at .001
    assert all(nx.is_tree(topology.tree(agents, seed=5)) for agents in range(1, 30))


def test_registered_topologies_are_built_by_name():
    assert edges(topology.get("ring", agents=7)) == edges(nx.cycle_graph(7))
    assert edges(topology.get("default")) == edges(topology.default())
    assert {"random_geometric", "ring", "line", "star", "grid", "small_world", "complete", "tree", "default"} <= set(topology.names())
    with pytest.raises(GraphError, match="did you mean 'ring'"):
        topology.get("rnig", agents=3)


@given(agents=st.integers(1, 20), seed=seeds)
def test_from_edges_builds_the_graph_of_the_pairs(agents, seed):
    plain = nx.random_labeled_tree(agents, seed=seed) if agents > 1 else nx.empty_graph(1)
    rng = np.random.default_rng(seed)
    plain.add_edges_from((int(n), int(m)) for n, m in rng.integers(agents, size=(agents, 2)) if n != m)
    pairs = [tuple(rng.permutation(link).tolist()) for link in plain.edges]
    assert edges(topology.from_edges(pairs, agents)) == edges(plain)
    if pairs:
        assert edges(topology.from_edges(np.array(pairs + pairs))) == edges(plain)


@pytest.mark.parametrize(("pairs", "agents", "message"), [
    ([(0, 1), (1, 2, 3)], None, "pairs"),
    ([(0, 1.5)], None, "whole numbers"),
    ([("a", "b")], None, "whole numbers"),
    ([(0, 1), (1, -1)], None, "leaves the agents"),
    ([(0, 1), (1, 5)], 3, r"\(1, 5\) leaves the agents 0..2"),
    ([(0, 1), (1, 1)], None, "linked to itself"),
    ([(0, 1), (3, 4)], None, r"3 components \(0, 1; 2; 3, 4\)"),
    ([], 0, "agents=0"),
])  # fmt: skip
def test_from_edges_refuses(pairs, agents, message):
    with pytest.raises((GraphError, ValueError), match=message) as refused:
        topology.from_edges(pairs, agents)
    assert isinstance(refused.value, GraphError)


@given(seed=seeds, kind=st.sampled_from(["strings", "tuples", "mixed", "gaps"]))
def test_from_networkx_relabels_in_one_order_and_keeps_names_and_attributes(seed, kind):
    label = {
        "strings": lambda n: f"node-{n:02}",
        "tuples": lambda n: (n // 3, n % 3),
        "mixed": lambda n: n if n % 2 else f"{n}",
        "gaps": lambda n: 3 * n + 5,
    }[kind]
    plain = nx.relabel_nodes(nx.random_labeled_tree(9, seed=seed), label)
    plain.add_edge(label(0), label(8))
    for node in plain:
        plain.nodes[node]["height"] = str(node)
    nx.set_edge_attributes(plain, 2.5, "length")
    graph = topology.from_networkx(plain)
    names = dict(graph.nodes(data="name"))
    assert list(graph) == list(range(9)) and set(names.values()) == set(plain)
    assert {frozenset((names[n], names[m])) for n, m in graph.edges} == set(map(frozenset, plain.edges))
    assert all(graph.nodes[n]["height"] == str(names[n]) for n in graph) and all(length == 2.5 for *_, length in graph.edges(data="length"))
    if kind != "mixed":
        assert list(names.values()) == sorted(plain)
    shuffled = nx.Graph()
    shuffled.add_nodes_from(sorted(plain, key=lambda node: hash((seed, str(node)))))
    shuffled.add_edges_from(reversed([(m, n) for n, m in plain.edges]))
    again = topology.from_networkx(shuffled)
    assert dict(again.nodes(data="name")) == names and edges(again) == edges(graph)
    assert dict(topology.from_networkx(graph).nodes(data="name")) == names  # a second time changes nothing


def test_from_networkx_keeps_the_numbers_0_to_n_and_leaves_the_original_alone():
    plain = nx.Graph([(2, 1), (1, 0), (0, 3)])
    graph = topology.from_networkx(plain)
    assert edges(graph) == edges(plain) and graph.nodes[3]["name"] == 3 and plain.nodes[3] == {}


@given(agents=st.integers(1, 12), seed=seeds)
def test_neighbours_are_the_sorted_adjacency_in_whatever_order_it_was_built(agents, seed):
    plain = nx.random_labeled_tree(agents, seed=seed) if agents > 1 else nx.empty_graph(1)
    plain.add_edges_from((int(n), int(m)) for n, m in np.random.default_rng(seed).integers(agents, size=(agents, 2)) if n != m)
    starts, nodes = topology.neighbours(relinked(plain, seed))
    assert [nodes[starts[n] : starts[n + 1]].tolist() for n in range(agents)] == [sorted(plain[n]) for n in range(agents)]


@pytest.mark.parametrize(("graph", "message"), [
    (nx.Graph([(0, 1), (2, 3), (3, 4)]), r"falls into 2 components \(0, 1; 2, 3, 4\)"),
    (nx.empty_graph(9), r"9 components \(0; 1; 2; 3; and 5 more\)"),
    (nx.disjoint_union(nx.path_graph(8), nx.path_graph(2)), r"0, 1, 2, 3, 4, 5, … \(8 agents\); 8, 9"),
    (nx.Graph(), "without nodes"),
    (nx.Graph([(1, 2), (2, 3)]), "node 3 is none of the agents 0..2: mm.topology.from_networkx"),
    (nx.Graph([("a", 0)]), "node 'a' is none of the agents"),
    (nx.Graph([(0, 1), (1, 1)]), "agent 1 is linked to itself"),
    (nx.DiGraph([(0, 1)]), "DiGraph"),
    (nx.MultiGraph([(0, 1), (0, 1)]), "MultiGraph"),
    ([(0, 1)], "list is no networkx.Graph"),
])  # fmt: skip
def test_graphs_that_cannot_carry_messages_are_refused(graph, message):
    with pytest.raises(GraphError, match=message):
        topology.check_graph(graph)
    with pytest.raises(GraphError, match=message):
        topology.metropolis_rows(graph)


@pytest.mark.parametrize("make", [
    lambda: topology.random_geometric(0, radius=0.5, seed=1),
    lambda: topology.random_geometric(5, radius=0.0, seed=1),
    lambda: topology.random_geometric(5, radius=math.nan, seed=1),
    lambda: topology.ring(2),
    lambda: topology.line(0),
    lambda: topology.grid(3, 0),
    lambda: topology.complete(20_001),
    lambda: topology.tree(5, branching=0),
    lambda: topology.tree(5, branching=2, seed=1),
    lambda: topology.small_world(9, neighbours=3, seed=1),
    lambda: topology.small_world(9, rewired=1.5, seed=1),
    lambda: topology.from_networkx(nx.Graph([("a", "b"), ("c", "d")])),
    lambda: topology.second_singular_value(np.ones((2, 3))),
])  # fmt: skip
def test_settings_without_a_graph_are_refused(make):
    with pytest.raises(GraphError):
        make()


def test_a_negative_seed_is_refused():
    with pytest.raises(DataError, match="seed=-1"):
        topology.random_geometric(5, radius=1.0, seed=-1)


@given(agents=st.integers(1, 15), extra=st.integers(0, 20), seed=seeds)
def test_metropolis_follows_its_formula_and_is_doubly_stochastic(agents, extra, seed):
    graph = nx.random_labeled_tree(agents, seed=seed) if agents > 1 else nx.empty_graph(1)
    graph.add_edges_from((int(n), int(m)) for n, m in np.random.default_rng(seed).integers(agents, size=(extra, 2)) if n != m)
    matrix = topology.metropolis(relinked(graph, seed))
    for n in range(agents):
        for m in range(agents):
            if n != m:
                assert matrix[n, m] == (1 / (1 + max(graph.degree(n), graph.degree(m))) if graph.has_edge(n, m) else 0)
    assert (np.diag(matrix) > 0).all() and (matrix == matrix.T).all()
    assert np.allclose(matrix.sum(0), 1, rtol=0, atol=1e-15 * 15) and np.allclose(matrix.sum(1), 1, rtol=0, atol=1e-15 * 15)
    starts, columns, weights = topology.metropolis_rows(graph)
    rows = np.repeat(np.arange(agents), np.diff(starts))
    assert (np.diff(rows * agents + columns) > 0).all() and len(columns) == agents + 2 * graph.number_of_edges()
    rebuilt = np.zeros((agents, agents))
    rebuilt[rows, columns] = weights
    assert (rebuilt == matrix).all()
    second = topology.second_singular_value(matrix)
    assert 0 <= second < 1
    if agents > 1:
        assert abs(second - np.sort(abs(np.linalg.eigvalsh(matrix)))[-2]) < 1e-12
        assert abs(second - np.linalg.norm(matrix - 1 / agents, 2)) < 1e-12  # what is left of a disagreement


@pytest.mark.parametrize("agents", [3, 4, 7, 12])
def test_second_singular_value_in_closed_form(agents):
    waves = 1 / 3 + 2 / 3 * np.cos(2 * np.pi * np.arange(agents) / agents)  # of the ring, whose weights are all 1/3
    assert abs(topology.second_singular_value(topology.metropolis(topology.ring(agents))) - np.sort(abs(waves))[-2]) < 1e-13
    uniform = topology.metropolis(topology.complete(agents))
    assert np.allclose(uniform, 1 / agents, rtol=1e-14) and topology.second_singular_value(uniform) < 1e-13
    skew = np.roll(np.eye(agents), 1, axis=1)  # not symmetric: all singular values 1, though not all eigenvalues
    assert abs(topology.second_singular_value(skew) - 1) < 1e-13
    assert topology.second_singular_value(np.ones((1, 1))) == 0


def test_a_dense_mixing_matrix_of_too_many_agents_is_refused_and_its_rows_are_not():
    graph = topology.line(20_001)
    with pytest.raises(GraphError, match=r"the mixing matrix of 20,001 agents would take 3 GiB"):
        topology.metropolis(graph)
    assert len(topology.metropolis_rows(graph).weights) == 20_001 + 2 * 20_000
