"""Trees against networkx and brute force: they are trees, reach whom they must, cost what theorems promise, and are the same everywhere."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
import time

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemesh import interest as interests
from mnemesh import routing, topology
from mnemesh.errors import GraphError, InterestError, RoutingError


def naive(graph, interest):
    return routing.steiner(graph, interest, ties="naive")


BUILDERS = {"shortest_path": routing.shortest_path, "steiner": routing.steiner, "mehlhorn": routing.mehlhorn, "naive": naive}
CHEAP = [routing.steiner, routing.mehlhorn, naive]
by_builder = pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)


def caring(rows):
    """An Interest in these partners, row by row, all alike."""
    sizes = np.array([len(row) for row in rows])
    partners = [m for row in rows for m in sorted(row)]
    return interests.Interest(np.append(0, np.cumsum(sizes)), partners, np.repeat(1 / sizes, sizes))


@st.composite
def graphs(draw, least=1, most=12):
    agents = draw(st.integers(least, most))
    links = {(draw(st.integers(0, n - 1)), n) for n in range(1, agents)}
    some = st.integers(0, agents - 1)
    links |= {(n, m) for n, m in draw(st.lists(st.tuples(some, some), max_size=2 * agents)) if n != m}
    number = draw(st.permutations(range(agents)))
    graph = nx.empty_graph(agents)
    graph.add_edges_from((number[n], number[m]) for n, m in sorted(links))
    return graph


@st.composite
def worlds(draw, least=1, most=12):
    """A connected graph and an interest in which an agent need not care about itself."""
    graph = draw(graphs(least, most))
    agents = graph.number_of_nodes()
    few = st.sets(st.integers(0, agents - 1), min_size=1, max_size=draw(st.sampled_from([1, 3, agents])))
    return graph, caring([draw(few) for _ in range(agents)])


def relinked(graph, seed):
    """The same graph with its nodes and links added in another order."""
    rng = np.random.default_rng(seed)
    other = nx.Graph()
    other.add_nodes_from(rng.permutation(graph.number_of_nodes()).tolist())
    links = [tuple(rng.permutation(link).tolist()) for link in graph.edges]
    other.add_edges_from(links[i] for i in rng.permutation(len(links)))
    return other


def scattered(agents, count, seed):
    """Each agent cares about itself and `count` others anywhere."""
    rng = np.random.default_rng(seed)
    return caring([{n, *rng.choice(np.delete(np.arange(agents), n), count, replace=False).tolist()} for n in range(agents)])


def as_tree(parents):
    tree = nx.Graph()
    tree.add_nodes_from(parents)
    tree.add_edges_from((node, parent) for node, parent in parents.items() if parent is not None)
    return tree


def assert_routes(graph, interest, trees, roots=None):
    """Everything that makes them routing trees, root by root, and the numbers that follow from them."""
    for root in range(interest.agents) if roots is None else roots:
        partners, parents = interest.row(root)[0].tolist(), trees.parents[root]
        tree = as_tree(parents)
        assert nx.is_tree(tree) and all(graph.has_edge(*link) for link in tree.edges)
        assert parents[root] is None and {root, *partners} <= set(parents)
        assert {node for node in tree if tree.degree(node) == 1} <= {root, *partners}
        depth = nx.single_source_shortest_path_length(tree, root)
        assert all(depth[node] == depth[parent] + 1 for node, parent in parents.items() if parent is not None)
        place = slice(trees.starts[root], trees.starts[root + 1])
        assert trees.partners[place].tolist() == partners
        assert trees.hops[place].tolist() == [depth[m] for m in partners]
        assert trees.delays[place].tolist() == [2 * depth[m] for m in partners]
        stored = slice(trees.tree_starts[root], trees.tree_starts[root + 1])
        assert trees.tree_nodes[stored].tolist() == sorted(parents, key=lambda node: (depth[node], node)) == list(parents)
        assert trees.tree_parents[stored].tolist() == [-1 if parent is None else parent for parent in parents.values()]


def fewest_links(graph, terminals):
    """An exact Steiner minimum by brute force: (links, leaves of that tree)."""
    relays = [node for node in graph if node not in terminals]
    for extra in range(len(relays) + 1):
        for chosen in itertools.combinations(relays, extra):
            if _hangs_together(graph, terminals.union(chosen)):
                tree = nx.bfs_tree(graph.subgraph(terminals.union(chosen)), min(terminals)).to_undirected()
                return len(tree) - 1, sum(degree == 1 for _, degree in tree.degree)
    raise AssertionError("a connected graph has a Steiner tree")


def _hangs_together(graph, nodes):
    found, ring = set(), {min(nodes)}
    while ring:
        found |= ring
        ring = {far for near in ring for far in graph[near] if far in nodes} - found
    return found == nodes


def closure_cost(graph, terminals):
    """The weight of a minimum spanning tree of the metric closure, by networkx: what steps 1 and 2 of Kou's cost."""
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    closure = nx.Graph()
    closure.add_nodes_from(terminals)
    closure.add_weighted_edges_from((s, t, distance[s][t]) for s, t in itertools.combinations(terminals, 2))
    return int(nx.minimum_spanning_tree(closure).size("weight"))


@by_builder
@given(world=worlds())
@settings(max_examples=60)
def test_every_builder_gives_routing_trees(build, world):
    graph, interest = world
    assert_routes(graph, interest, build(graph, interest))


@given(world=worlds(least=2))
@settings(max_examples=120)
def test_few_links_cost_at_most_what_the_theorem_promises(world):
    graph, interest = world
    for root in range(min(interest.agents, 3)):
        terminals = {root, *interest.row(root)[0].tolist()}
        fewest, leaves = fewest_links(graph, terminals)
        bound = 2 * (1 - 1 / leaves) * fewest if leaves else 0
        for build in CHEAP:
            cost = len(build(graph, interest).parents[root]) - 1
            assert fewest <= cost <= bound + 1e-9
            assert cost <= closure_cost(graph, terminals)


@pytest.mark.parametrize("seed", range(6))
def test_few_links_on_graphs_where_relays_matter(seed):
    graph = [topology.grid(4, 5), topology.random_geometric(22, radius=0.3, seed=seed), topology.small_world(20, seed=seed)][seed % 3]
    interest = scattered(graph.number_of_nodes(), 4, seed)
    trees = [build(graph, interest) for build in CHEAP]
    relayed = 0
    for root in range(interest.agents):
        terminals = {root, *interest.row(root)[0].tolist()}
        fewest, leaves = fewest_links(graph, terminals)
        for tree in trees:
            cost = len(tree.parents[root]) - 1
            assert fewest <= cost <= 2 * (1 - 1 / leaves) * fewest + 1e-9
            assert cost <= closure_cost(graph, terminals)
        relayed += fewest >= len(terminals)
    assert relayed > interest.agents / 2  # or nothing was put to the test


@given(world=worlds())
@settings(max_examples=100)
def test_shortest_paths_are_breadth_first_distances(world):
    graph, interest = world
    trees = routing.shortest_path(graph, interest)
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    assert trees.delays.tolist() == [2 * distance[n][m] for n, m in zip(interest.rows.tolist(), interest.partners.tolist(), strict=True)]


@given(graph=graphs())
@settings(max_examples=60)
def test_where_all_are_terminals_few_links_are_as_fast_as_shortest_paths(graph):
    agents = graph.number_of_nodes()
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    expected = [[2 * distance[n][m] for m in range(agents)] for n in range(agents)]
    for build in (routing.shortest_path, routing.steiner, routing.mehlhorn):
        trees = build(graph, interests.uniform(agents))
        assert trees.delay.tolist() == expected and trees.messages_per_round().queries == agents * (agents - 1)
    slow = naive(graph, interests.uniform(agents))
    assert (slow.delay >= expected).all() and slow.messages_per_round().queries == agents * (agents - 1)


def test_the_naive_tie_break_is_slower_at_the_same_number_of_messages():
    graph, interest = topology.default(), interests.dirichlet(20, own=10.0, others=2.0, seed=1)
    near, far = routing.steiner(graph, interest), naive(graph, interest)
    assert near.messages_per_round().queries == far.messages_per_round().queries == 380
    assert far.delays.mean() > 1.2 * near.delays.mean()
    assert near == routing.mehlhorn(graph, interest) == routing.shortest_path(graph, interest) != far


def test_few_links_are_nearer_to_the_root_than_naive_ones_where_partners_are_anywhere():
    for seed in range(3):
        graph, interest = topology.random_geometric(100, radius=0.18, seed=seed), scattered(100, 8, seed)
        slow, fast = naive(graph, interest), routing.shortest_path(graph, interest)
        for trees in (routing.steiner(graph, interest), routing.mehlhorn(graph, interest)):
            assert abs(trees.messages_per_round().queries / slow.messages_per_round().queries - 1) < 0.02
            assert trees.messages_per_round().queries < 0.85 * fast.messages_per_round().queries
            assert fast.delays.mean() < trees.delays.mean() < 0.88 * slow.delays.mean()


@given(world=worlds())
@settings(max_examples=100)
def test_equal_cost_is_broken_by_distance_to_the_root_then_node_id(world):
    graph, interest = world
    for build in (routing.shortest_path, routing.steiner, routing.mehlhorn):
        for root, parents in enumerate(build(graph, interest).parents):
            depth = nx.single_source_shortest_path_length(as_tree(parents), root)
            assert depth == nx.single_source_shortest_path_length(graph.subgraph(parents), root)  # no other tree on these nodes is nearer
            for node, parent in parents.items():
                if parent is not None:
                    assert parent == min(m for m in graph[node] if m in parents and depth[m] == depth[node] - 1)


def closure_ways(graph, far, root, terminals):
    """(s, t): a shortest way from t back to s, each step to the node nearest to the root, then with the smallest id."""
    ways = {pair: [pair[1]] for pair in itertools.permutations(terminals, 2)}
    for (s, _), way in ways.items():
        while way[-1] != s:
            way.append(min((node for node in graph[way[-1]] if far[s][node] < far[s][way[-1]]), key=lambda node: (far[root][node], node)))
    return {pair: (len(way) - 1, way) for pair, way in ways.items()}


def bridge_ways(graph, far, root, terminals):
    """(s, t): the shortest way over a link between their regions, of equal ones that whose ends are nearest to the root, then smallest."""
    owner = {node: min(terminals, key=lambda t: (far[t][node], far[root][t], t)) for node in graph}
    best = {}
    for u, v in [*graph.edges, *((v, u) for u, v in graph.edges)]:
        s, t = owner[u], owner[v]
        if s < t:
            bridge = (far[s][u] + 1 + far[t][v], far[root][u] + far[root][v], u, v)
            best[s, t] = min(bridge, best.get((s, t), bridge))
    ways = {}
    for (s, t), (length, _, *ends) in best.items():
        way = list(ends)
        for node in ends:
            while node != owner[node]:
                node = min(m for m in graph[node] if owner[m] == owner[node] and far[owner[node]][m] < far[owner[node]][node])
                way.append(node)
        ways[s, t] = ways[t, s] = (length, way)
    return ways


def unhurried(graph, root, partners, ways):
    """Kou's or Mehlhorn's tree by searches of the whole graph, rule by rule: what searches that stop early must find, too."""
    far = dict(nx.all_pairs_shortest_path_length(graph))
    nodes = {root, *partners}
    ways = ways(graph, far, root, sorted(nodes))
    depth = {root: 0}
    while len(depth) < len({root, *partners}):
        _, deep, new, old = min((length, depth[s] + length, t, s) for (s, t), (length, _) in ways.items() if s in depth and t not in depth)
        depth[new] = deep
        nodes.update(ways[old, new][1])
    near = nx.single_source_shortest_path_length(graph.subgraph(nodes), root)
    parents = {root: None}
    for node in partners:
        while node not in parents:
            parents[node] = node = min(m for m in graph[node] if m in nodes and near[m] == near[node] - 1)
    return parents


UNHURRIED = {routing.steiner: closure_ways, routing.mehlhorn: bridge_ways}


@given(world=worlds(most=14))
@settings(max_examples=60)
def test_searches_that_stop_early_find_what_searches_of_the_whole_graph_find(world):
    graph, interest = world
    for build, ways in UNHURRIED.items():
        for root, parents in enumerate(build(graph, interest).parents[:4]):
            assert parents == unhurried(graph, root, interest.row(root)[0].tolist(), ways)


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("graph", [
    nx.relabel_nodes(topology.grid(8, 8), dict(enumerate(np.random.default_rng(2).permutation(64).tolist()))),
    topology.random_geometric(60, radius=0.22, seed=3),
], ids=["grid", "geometric"])  # fmt: skip
def test_they_do_so_where_ties_and_relays_abound(graph, count):
    interest = scattered(graph.number_of_nodes(), count, 5)
    for build, ways in UNHURRIED.items():
        for root, parents in enumerate(build(graph, interest).parents):
            assert parents == unhurried(graph, root, interest.row(root)[0].tolist(), ways)


@by_builder
def test_ties_on_a_small_graph_by_hand(build):
    #  0 - 1 - 4     from 0 to 4 both ways are equally long: node 1 wins over 2. 5 hangs on 4.
    #   \- 2 -/ \5
    graph = nx.Graph([(0, 2), (2, 4), (0, 1), (1, 4), (4, 5), (5, 3)])
    trees = build(graph, caring([{4, 5}, {1}, {4, 5}, {3}, {4}, {0}]))
    alone = {n: {n: None} for n in range(6)}
    assert trees.parents == ({0: None, 1: 0, 4: 1, 5: 4}, alone[1], {2: None, 4: 2, 5: 4}, alone[3], alone[4], {5: None, 4: 5, 1: 4, 0: 1})
    assert trees.hops.tolist() == [2, 3, 0, 1, 2, 0, 0, 3]


@by_builder
@given(world=worlds(), seed=st.integers(0, 1_000))
@settings(max_examples=40)
def test_the_order_in_which_nodes_and_links_were_added_does_not_matter(build, world, seed):
    graph, interest = world
    assert build(graph, interest) == build(relinked(graph, seed), np.asarray(interest))


def test_a_fresh_process_with_another_hash_seed_gives_the_same_trees():
    program = (
        "import hashlib; from mnemesh import routing, topology, interest as w; import numpy as np\n"
        "g = topology.random_geometric(60, radius=.25, seed=4); rng = np.random.default_rng(1)\n"
        "m = np.zeros((60, 60)); [m.__setitem__((n, rng.choice(60, 7, replace=False)), 1 / 7) for n in range(60)]\n"
        "for t in (routing.shortest_path(g, m), routing.steiner(g, m), routing.steiner(g, m, ties='naive'), routing.mehlhorn(g, m)):\n"
        "    print(t, hashlib.sha256(b''.join(a.tobytes() for a in (t.tree_starts, t.tree_nodes, t.tree_parents, t.hops))).hexdigest())\n"
    )
    outcomes = set()
    for seed in ("1", "2", "random"):
        fresh = {**os.environ, "PYTHONHASHSEED": seed}
        outcomes.add(subprocess.run([sys.executable, "-c", program], env=fresh, capture_output=True, text=True, check=True).stdout)
    assert len(outcomes) == 1 and len(set(outcomes.pop().splitlines())) == 4


@by_builder
@given(world=worlds())
@settings(max_examples=40)
def test_messages_and_loads_are_those_of_the_trees_walked_by_hand(build, world):
    graph, interest = world
    trees = build(graph, interest)
    load: dict[tuple[int, int], int] = {}
    single = 0
    for root, parents in enumerate(trees.parents):
        for link in as_tree(parents).edges:
            load[min(link), max(link)] = load.get((min(link), max(link)), 0) + 1
        for node in interest.row(root)[0].tolist():
            while parents[node] is not None:
                single, node = single + 1, parents[node]
    assert trees.load() == load and trees.links.tolist() == [list(link) for link in sorted(load)]
    assert trees.messages_per_round() == (sum(load.values()), sum(load.values()), single)
    dense = np.full((interest.agents,) * 2, -1)
    dense[interest.rows, interest.partners] = 2 * trees.hops
    assert (trees.delay == dense).all()


@by_builder
@given(world=worlds(), seed=st.integers(0, 1_000))
@settings(max_examples=40)
def test_trees_come_back_from_their_parents_and_from_their_arrays_in_any_order(build, world, seed):
    graph, interest = world
    trees = build(graph, interest)
    rng = np.random.default_rng(seed)
    mixed = np.concatenate([rng.permutation(np.arange(*ends)) for ends in itertools.pairwise(trees.tree_starts)])
    arrays = (trees.tree_starts.tolist(), trees.tree_nodes[mixed], trees.tree_parents[mixed])
    again = routing.Trees(graph, interest, *arrays, builder=trees.builder)
    assert again == trees and repr(again) == repr(trees)
    assert routing.from_parents(graph, trees.parents, interest) == trees
    assert pickle.loads(pickle.dumps(trees)) == trees


def test_instant_trees_have_no_delay_no_links_and_need_no_graph():
    interest = scattered(12, 3, 1)
    for trees in (routing.instant(None, interest), routing.instant(topology.ring(12), np.asarray(interest))):
        assert (trees.hops == 0).all() and (trees.delays == 0).all() and len(trees.delays) == len(interest.partners)
        assert trees.messages_per_round() == (0, 0, 0) and trees.load() == {} and trees.links.shape == (0, 2)
        assert trees.parents == tuple({n: None} for n in range(12))
        assert routing.Trees(None, interest, trees.tree_starts, trees.tree_nodes, trees.tree_parents, builder="instant") == trees
    assert trees != routing.shortest_path(topology.ring(12), interest)


def test_trees_print_as_a_line_and_cannot_be_written_to():
    trees = routing.steiner(topology.line(3), interests.uniform(3))
    assert repr(trees) == "Trees(steiner, agents=3, delay mean 1.78, at most 4, messages a round 6 out, 6 to 8 back)"
    for name in ("hops", "delays", "partners", "weights", "starts", "tree_starts", "tree_nodes", "tree_parents"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(trees, name)[0] = 1


def test_builders_are_found_by_name_and_new_ones_can_be_added():
    graph, interest = topology.ring(6), interests.uniform(6)
    assert routing.names() == ("shortest_path", "steiner", "mehlhorn", "instant")
    for name in routing.names():
        assert routing.get(name, graph=graph, interest=interest).builder == name
    with pytest.raises(RoutingError, match="did you mean 'steiner'"):
        routing.get("stiener", graph=graph, interest=interest)
    with pytest.raises(RoutingError, match="registered tree builder already"):
        routing.register("steiner", naive)


PATH = nx.path_graph(4)
ENDS = caring([{0, 3}, {1}, {2}, {3}])
OWN = [{0: None}, {1: None}, {2: None}, {3: None}]


@pytest.mark.parametrize(("tree", "message"), [
    ({0: None, 3: 0}, r"in agent 0's tree, agent 0 is the parent of agent 3, but no link joins them"),
    ({0: None, 1: 0, 2: 1}, r"agent 3 is outside agent 0's tree, though agent 0 cares about it"),
    ({0: None}, r"agent 3 is outside agent 0's tree"),
    ({1: None, 2: 1, 3: 2}, r"agent 0 is outside its own tree"),
    ({}, r"agent 0 is outside its own tree"),
    ({0: None, 1: 2, 2: 3, 3: 2}, r"agent 1 hangs on a cycle"),
    ({0: None, 1: 0, 2: 3, 3: 2}, r"agent 2 hangs on a cycle"),
    ({0: None, 1: 1, 2: 1, 3: 2}, r"agent 1 hangs on a cycle"),
    ({0: 1, 1: 2, 2: 3, 3: None}, r"agent 0 is its root and has a parent"),
    ({0: None, 1: None, 2: 1, 3: 2}, r"agent 1 has no parent and is not the root"),
    ({0: None, 2: 1, 3: 2}, r"agent 2 has a parent that is not in that tree"),
    ({0: None, 1: 0, 2: 1, 3: 5}, r"agent 3 has a parent that is not in that tree"),
    ({0: None, 1: 0, 2: 1, 3: -3}, r"agent 3 has a parent that is not in that tree"),
    ({0: None, 1: 0, 2: 1, 4: 3}, r"agent 4 is none of the agents 0..3"),
    ({0: None, 1: 0, 2: 1, "three": 2}, r"no whole numbers"),
    ({0: None, 1: 0, 2: 1, 3: 2.0}, r"no whole numbers"),
])  # fmt: skip
def test_trees_that_are_none_are_refused(tree, message):
    with pytest.raises(RoutingError, match=message):
        routing.from_parents(PATH, [tree, *OWN[1:]], ENDS)


def test_a_useless_leaf_is_refused():
    with pytest.raises(RoutingError, match=r"in agent 1's tree, agent 2 is a leaf and no partner"):
        routing.from_parents(PATH, [{0: None, 1: 0, 2: 1, 3: 2}, {1: None, 2: 1}, OWN[2], OWN[3]], ENDS)
    routing.from_parents(PATH, [{0: None, 1: 0, 2: 1, 3: 2}, *OWN[1:]], ENDS)  # as it should be


@pytest.mark.parametrize(("starts", "nodes", "parents", "message"), [
    ([0, 4, 5, 6], [0, 1, 2, 3, 1, 2], [-1, 0, 1, 2, -1, -1], "3 trees in ragged rows that do not fit 4 agents"),
    ([0, 4, 5, 6, 8], [0, 1, 2, 3, 1, 2, 3], [-1, 0, 1, 2, -1, -1, -1], "do not fit"),
    ([0, 4, 3, 6, 7], [0, 1, 2, 3, 1, 2, 3], [-1, 0, 1, 2, -1, -1, -1], "do not fit"),
    ([1, 4, 5, 6, 7], [0, 1, 2, 3, 1, 2, 3], [-1, 0, 1, 2, -1, -1, -1], "do not fit"),
    ([0, 4, 5, 6, 7], [0, 1, 2, 3, 1, 2, 3], [-1, 0, 1, 2, -1, -1], "do not fit"),
    ([0, 5, 6, 7, 8], [0, 1, 2, 3, 3, 1, 2, 3], [-1, 0, 1, 2, 2, -1, -1, -1], "agent 3 stands there twice"),
    ([0, 4, 5, 6, 7], [0, 1, 2, 3.0, 1, 2, 3], [-1, 0, 1, 2, -1, -1, -1], "flat arrays of whole numbers"),
    ([0, 4, 5, 6, 7], [[0, 1, 2, 3, 1, 2, 3]], [-1, 0, 1, 2, -1, -1, -1], "flat arrays of whole numbers"),
])  # fmt: skip
def test_ragged_arrays_that_hold_no_trees_are_refused(starts, nodes, parents, message):
    with pytest.raises(RoutingError, match=message):
        routing.Trees(PATH, ENDS, starts, nodes, parents)


def test_trees_without_a_graph_or_with_links_that_take_no_time_are_refused():
    right = ([0, 4, 5, 6, 7], [0, 1, 2, 3, 1, 2, 3], [-1, 0, 1, 2, -1, -1, -1])
    assert routing.Trees(PATH, ENDS, *right).hops.tolist() == [0, 3, 0, 0, 0]
    with pytest.raises(RoutingError, match="without a graph"):
        routing.Trees(None, ENDS, *right)
    with pytest.raises(RoutingError, match="instant trees with links"):
        routing.Trees(PATH, ENDS, *right, builder="instant")


@pytest.mark.parametrize("build", [*BUILDERS.values(), routing.instant, lambda graph, interest: routing.from_parents(graph, OWN, interest)])
def test_graphs_that_do_not_fit_are_refused(build):
    with pytest.raises(GraphError, match=r"falls into 2 components \(0, 1; 2, 3\)"):
        build(nx.Graph([(0, 1), (2, 3)]), interests.identity(4))
    with pytest.raises(GraphError, match=r"node 'a' is none of the agents 0..3"):
        build(nx.path_graph(["a", "b", "c", "d"]), interests.identity(4))
    with pytest.raises(RoutingError, match="5 nodes and the interest matrix 4 agents"):
        build(nx.path_graph(5), interests.identity(4))
    with pytest.raises(InterestError, match="sums to"):
        build(nx.path_graph(4), np.eye(4) * 0.5)


def test_other_refusals():
    with pytest.raises(RoutingError, match="ties='random'"):
        routing.steiner(PATH, ENDS, ties="random")
    with pytest.raises(RoutingError, match="3 trees for 4 agents"):
        routing.from_parents(PATH, OWN[1:], ENDS)
    trees = routing.steiner(PATH, ENDS)
    trees.check(ENDS)
    trees.check(np.array([[0.1, 0, 0, 0.9], *np.eye(4)[1:]]))  # other weights, same partners
    with pytest.raises(RoutingError, match="agent 1 differs about agent 2, whose"):
        trees.check(caring([{0, 3}, {1, 2}, {2}, {3}]))
    with pytest.raises(RoutingError, match="4 agents and an interest matrix of 5"):
        trees.check(interests.identity(5))
    many = interests.identity(20_001)
    with pytest.raises(RoutingError, match="the delays of 20,001 agents would take"):
        _ = routing.instant(None, many).delay


def test_dense_interests_are_routed_at_once():
    began = time.process_time()
    routing.steiner(topology.default(), interests.uniform(20))
    assert time.process_time() - began < 0.2  # milliseconds, with room for a busy machine
    graph, everybody = topology.random_geometric(200, radius=0.15, seed=1), interests.uniform(200)
    began = time.process_time()
    trees = [routing.steiner(graph, everybody), naive(graph, everybody)]
    assert time.process_time() - began < 8
    assert_routes(graph, everybody, trees[0], range(0, 200, 40))
    assert_routes(graph, everybody, trees[1], range(0, 200, 40))


def large_run(agents, radius):
    """Seconds that the builders take for 10 local partners each, and their trees."""
    graph = topology.random_geometric(agents, radius=radius, seed=1)
    interest = interests.nearest(graph, 10)
    outcome = {}
    for name in ("shortest_path", "mehlhorn", "steiner"):
        began = time.perf_counter()
        trees = BUILDERS[name](graph, interest)
        outcome[name] = time.perf_counter() - began
        assert_routes(graph, interest, trees, range(0, agents, agents // 40))
        assert trees.messages_per_round().queries >= 10 * agents
        print(f"{outcome[name]:8.2f} s  {trees!r}")
    return outcome


def test_five_thousand_agents_with_local_partners_take_seconds():
    assert max(large_run(5_000, 0.036).values()) < 15


@pytest.mark.study
def test_a_hundred_thousand_agents_with_local_partners():
    seconds = large_run(100_000, 0.008)
    assert seconds["shortest_path"] < 60 and seconds["mehlhorn"] < 300


@pytest.mark.study
def test_a_hundred_thousand_agents_whose_partners_need_relays():
    graph, rng = topology.random_geometric(100_000, radius=0.008, seed=1), np.random.default_rng(0)
    rows = []
    for root in range(100_000):
        near = sorted(nx.single_source_shortest_path_length(graph, root, cutoff=3).keys() - {root})
        rows.append({root, *rng.choice(near, min(10, len(near)), replace=False).tolist()})
    interest = caring(rows)
    for name, limit in (("shortest_path", 60), ("mehlhorn", 300)):
        began = time.perf_counter()
        trees = BUILDERS[name](graph, interest)
        seconds = time.perf_counter() - began
        print(f"{seconds:8.2f} s  {trees!r}")
        assert seconds < limit
        assert_routes(graph, interest, trees, range(0, 100_000, 2_500))
