"""Network files: written and read again they are equal, what is wrong is refused in one line with its key, and none ends in a traceback."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mnemesh as mm
from mnemesh.errors import MnemeshError, NetworkError
from mnemesh.live.addresses import parse_address
from mnemesh.live.agreement import disagreement
from mnemesh.live.config import Network, convert, parse, read

TWENTY = Path(__file__).parents[1] / "examples" / "twenty.toml"
PLAIN: dict[str, Any] = {
    "name": "three",
    "key_dim": 2,
    "value_dim": 3,
    "step": {"name": "inverse_sqrt", "c": 0.5},
    "agents": {
        "lisbon": {"address": "127.0.0.1:7401", "links": ["porto"], "interest": {"lisbon": 0.5, "porto": 0.25, "faro": 0.25}},
        "porto": {"address": "127.0.0.1:7402", "links": ["lisbon", "faro"], "interest": {"porto": 1.0}},
        "faro": {"address": "127.0.0.1:7403", "links": ["porto"], "interest": {"faro": 0.75, "lisbon": 0.25}},
    },
}


def plain(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(PLAIN), **changes}


def member(name: str = "faro", /, **changes: Any) -> dict[str, Any]:
    """The plain network with a change in one agent; a key set to None is left out."""
    tables = plain()
    changed = {**tables["agents"][name], **changes}
    tables["agents"][name] = {key: value for key, value in changed.items() if value is not None}
    return tables


def renamed(name: str) -> dict[str, Any]:
    """The plain network on a ring, one of its agents under another name."""
    return plain(agents={"lisbon": {}, "porto": {}, name: {}}, topology={"name": "ring"}, interest="uniform")


def abroad(**changes: Any) -> dict[str, Any]:
    return member("faro", address="10.0.0.3:7401") | changes


def refusal(tables: Any) -> str:
    with pytest.raises(NetworkError) as refused:
        convert(tables)
    said = str(refused.value)
    assert "\n" not in said
    assert said.endswith((".", "?"))
    return said


def test_the_example_is_the_paper_s_world():
    network = read(TWENTY)
    graph, problem = network.graph(), network.problem()
    assert len(network.names) == 20
    assert networkx.utils.graphs_equal(graph, mm.topology.default())
    assert problem.interest == mm.interest.dirichlet(20, own=10.0, others=2.0, seed=1)
    assert (problem.loss.name, problem.features.name, problem.domain) == ("delta", "identity", mm.domains.ball(500.0))
    assert problem.memory_shape(network.key_dim, network.value_dim) == (10, 10)
    assert network.neighbours("lisbon") == tuple(network.names[n] for n in sorted(graph[0]))
    assert ("lisbon", "porto") in network.links
    assert len(network.links) == graph.number_of_edges()
    assert not network.encrypted
    assert network.max_age == min(4 * networkx.diameter(graph) + 8, 40)
    places = [network.address(name).place for name in network.names] + [network.answers(name).place for name in network.names]
    assert len(set(places)) == 40


def test_what_is_read_is_written_and_read_again():
    for network in (read(TWENTY), parse(TWENTY.read_text(encoding="utf-8")), convert(plain()), convert(abroad(http={"token": "t"}))):
        again = parse(network.text)
        assert again == network
        assert hash(again) == hash(network)
        assert again.text == network.text
        assert again.names == network.names
        assert again.digest == network.digest
        assert pickle.loads(pickle.dumps(network)) == network
    with pytest.raises(AttributeError):
        network.name = "other"  # type: ignore[misc]


def test_links_and_interests_by_name():
    network = convert(plain())
    assert network.links == (("lisbon", "porto"), ("porto", "faro"))
    assert network.neighbours("porto") == ("lisbon", "faro")
    np.testing.assert_array_equal(np.asarray(network.problem().interest), [[0.5, 0.25, 0.25], [0, 1, 0], [0.25, 0, 0.75]])
    assert network.agent("faro").links == ("porto",)
    assert str(network.address("faro")) == "127.0.0.1:7403"
    with pytest.raises(NetworkError, match=r"no agent 'frao' in the network three; did you mean 'faro'\?"):
        network.agent("frao")


def test_defaults():
    network = convert(plain())
    assert (network.rounds.driven, network.transport.name, network.dtype, network.aggregation) == ("timer", "embedded", "float32", "auto")
    assert network.answers("faro").place == ("127.0.0.1", 8082)
    assert network.listens("faro") == network.address("faro")
    assert not network.encrypted
    assert convert(abroad()).encrypted, "TLS is the default as soon as an address is not loopback"
    assert convert(member(listen="0.0.0.0:7403")).encrypted, "listening everywhere is not loopback"
    assert not convert(abroad(transport={"tls": False, "insecure": True})).encrypted
    assert convert(plain(transport={"tls": True})).encrypted


def test_a_file_is_found_and_its_paths_are_its_own(tmp_path, monkeypatch):
    network = convert(plain(store="kept", http={"token": "/run/token"}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MNEMESH_NETWORK", raising=False)
    with pytest.raises(NetworkError, match=r"no network file 'network.toml'.*\$MNEMESH_NETWORK"):
        read()
    (tmp_path / "network.toml").write_text(network.text)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "n.toml").write_text(network.with_(name="other").text)
    assert read().name == "three"
    assert (read().store, read().http.token, read().transport.keys) == (str(tmp_path / "kept"), "/run/token", str(tmp_path / "pki"))
    monkeypatch.setenv("MNEMESH_NETWORK", "elsewhere/n.toml")
    assert read().name == "other"
    assert read().store == str(tmp_path / "elsewhere" / "kept")
    assert read("network.toml").name == "three"
    assert parse(read().text) == read()


def test_files_that_are_no_networks(tmp_path):
    broken = tmp_path / "broken.toml"
    for content, said in [(b"rounds =\n", "is no TOML"), (b"\xff\xfe", "cannot be read as text"), (b"", "name is missing"), (b"x = " + b"[" * 5000, "no TOML")]:
        broken.write_bytes(content)
        with pytest.raises(NetworkError, match=said):
            read(broken)
    for path in (tmp_path, tmp_path / "none.toml", "nul\0.toml", broken / "under"):
        with pytest.raises(NetworkError, match=r"none\.toml|cannot be read|no network file"):
            read(path)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        # keys and types
        (plain(adress=1), ("there is no key 'adress'",)),
        (plain(rouds={}), ("there is no key 'rouds'", "did you mean 'rounds'?")),
        (plain(rounds={"dedline": 1.0}), ("rounds: there is no key 'dedline'", "did you mean 'deadline'?")),
        (plain(rounds={"deadline": "soon"}), ("rounds.deadline: expected float", "got text")),
        (plain(rounds={"driven": "clock"}), ("rounds.driven: 'clock' is none of 'timer', 'data', 'free'",)),
        (plain(transport={"name": "zeno"}), ("transport.name: 'zeno' is none of 'embedded', 'zenoh'",)),
        (plain(transport="zenoh"), ("transport", "table")),
        (plain(dtype="float16"), ("dtype: 'float16'", "'float32'")),
        (plain(aggregation="some"), ("aggregation: 'some'", "'dense'")),
        (plain(key_dim=2.5), ("key_dim", "got float")),
        (plain(key_dim=True), ("key_dim", "got bool")),
        (plain(key_dim=10**30), ("key_dim",)),
        (member(adress="x"), ("agents.faro: there is no key 'adress'", "did you mean 'address'?")),
        (member(links="porto"), ("agents.faro.links", "got text")),
        (member(links=["porto", 3]), ("agents.faro.links[2]", "got int")),
        (member(name="x"), ("agents.faro: there is no key 'name'",)),
        (plain(agents=["lisbon"]), ("agents: a table of names",)),
        (plain(agents={"lisbon": 7401}), ("agents.lisbon: an address is needed",)),
        (plain(agents={}), ("agents: at least one",)),
        ({key: value for key, value in plain().items() if key != "step"}, ("step is missing",)),
        ([], ("expected table, got list",)),
        # names
        (plain(name="../up"), ("name: '../up'", "cannot be a name")),
        (plain(name="n" * 49), ("name: ", "48")),
        (renamed("fa/ro"), ("agents: 'fa/ro'", "cannot be a name")),
        (renamed(""), ("agents: ''", "cannot be a name")),
        (renamed(".."), ("agents: '..'", "cannot be a name")),
        (renamed("_authority"), ("agents: '_authority'", "cannot be a name")),
        (renamed("faro\n"), (r"agents: 'faro\n'", "cannot be a name")),
        (renamed("são"), ("agents: 'são'", "cannot be a name")),
        (renamed("a" * 65), ("cannot be a name", "64")),
        (renamed("Lisbon"), ("'lisbon' and 'Lisbon'", "capital letters")),
        # links
        (member(links=["prto"]), ("agents.faro.links", "'prto'", "did you mean 'porto'?")),
        (member(links=["madrid"]), ("agents.faro.links", "'madrid'", "no agent")),
        (member(links=["porto", "lisbon"]), ("agents.faro.links: the link to lisbon is declared on this side only", "agents.lisbon.links")),
        (member(links=["porto", "faro"]), ("agents.faro.links", "linked to itself")),
        (member(links=["porto", "porto"]), ("agents.faro.links", "twice")),
        (plain(topology={"name": "ring"}), ("agents.lisbon.links", "topology")),
        (plain(agents={n: {"address": f"127.0.0.1:{p}", "interest": {n: 1.0}} for p, n in enumerate("abc", 7401)}), ("topology is missing",)),
        (
            plain(agents={n: {"links": [m], "interest": {n: 1.0}} for n, m in [("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")]}),
            ("agents: their links make 2 pieces (a, b; c, d)",),
        ),
        (renamed("faro") | {"topology": "default"}, ("topology", "20 nodes", "3 agents")),
        (renamed("faro") | {"topology": "rnig"}, ("topology", "did you mean 'ring'?")),
        (renamed("faro") | {"topology": {"name": "ring", "agents": 4}}, ("topology", "4 nodes")),
        (renamed("faro") | {"topology": {"name": "random_geometric", "radius": 0.0001}}, ("topology", "connected")),
        # interests
        (member(interest={"fro": 1.0}), ("agents.faro.interest", "'fro'", "did you mean 'faro'?")),
        (member(interest={"madrid": 1.0}), ("agents.faro.interest", "'madrid'", "no agent")),
        (member(interest={"faro": 0.5}), ("agents.faro.interest", "sum to 0.5")),
        (member(interest={}), ("agents.faro.interest", "sum to 0")),
        (member(interest={"faro": 1.5, "porto": -0.5}), ("agents.faro.interest.faro = 1.5",)),
        (member(interest={"faro": "all"}), ("agents.faro.interest.faro = 'all'",)),
        (member(interest={"faro": float("nan")}), ("agents.faro.interest", "nan")),
        (member(interest=None), ("agents.faro.interest is missing",)),
        (member(interest="uniform"), ("agents.faro.interest", "no table")),
        (plain(interest="uniform"), ("agents.lisbon.interest", "leave one of them out")),
        (renamed("faro") | {"interest": {"name": "dirichlet", "own": 1.0}}, ("interest", "needs 'others'")),
        (renamed("faro") | {"interest": {"name": "dirichlet", "own": 1.0, "others": 2.0, "agents": 4}}, ("interest", "4 agents")),
        # addresses
        (member(address="127.0.0.1:7401"), ("agents.faro.address is 127.0.0.1:7401", "agents.lisbon.address")),
        (member(address="localhost:7401"), ("agents.faro.address is localhost:7401", "agents.lisbon.address")),
        (member(address="127.0.0.1:8081"), ("porto's http", "8081")),
        (member(address="127.0.0.1"), ("agents.faro.address = '127.0.0.1'", "a host and a port")),
        (member(address="tcp/127.0.0.1:7403"), ("agents.faro.address", "no name of a host")),
        (member(address="127.0.0.1:0"), ("agents.faro.address", "port 0")),
        (member(address="127.0.0.1:65536"), ("agents.faro.address", "port 65536")),
        (member(address="127.0.0.300:7403"), ("agents.faro.address", "no IP address")),
        (member(address="::1:7403"), ("agents.faro.address", "[::1]:7401")),
        (member(address="[fe80::1%eth0]:7403"), ("agents.faro.address", "interface")),
        (member(address="0.0.0.0:7403"), ("agents.faro.address", "nobody can be found there")),
        (member(address="224.0.0.1:7403"), ("agents.faro.address", "single machine")),
        (member(address=None, links=["porto"]) | {"transport": {"name": "zenoh"}}, ("agents.faro.address is missing",)),
        (member(listen="7403"), ("agents.faro.listen = '7403'",)),
        (member(http="0.0.0.0:80"), ("agents.faro.http", "nobody can be found there")),
        (plain(http={"port": 65534}), ("http.port = 65534", "faro", "65536")),
        (plain(http={"port": 0}), ("http.port = 0", "lisbon")),
        (plain(http={"host": "here:80"}), ("http.host",)),
        # security
        (abroad(transport={"tls": False}), ("transport.tls = false", "agents.faro.address = '10.0.0.3:7401'", "insecure = true")),
        (member(listen="0.0.0.0:7403") | {"transport": {"tls": False}}, ("transport.tls = false", "agents.faro.listen")),
        (plain(http={"host": "10.0.0.1"}), ("http.token is missing", "10.0.0.1:8080")),
        (member(http="10.0.0.1:80"), ("http.token is missing", "faro")),
        # rounds
        (plain(rounds={"deadline": 0.0}), ("rounds.deadline = 0.0",)),
        (plain(rounds={"deadline": -1.0}), ("rounds.deadline = -1.0",)),
        (plain(rounds={"deadline": float("nan")}), ("rounds.deadline = nan",)),
        (plain(rounds={"deadline": 0.01}), ("rounds.deadline = 0.01", "min_period")),
        (plain(rounds={"min_period": 0.0}), ("rounds.min_period = 0.0",)),
        (plain(rounds={"min_period": float("inf")}), ("rounds.min_period = inf",)),
        (plain(rounds={"max_age": 3}), ("rounds.max_age = 3", "4 rounds old")),
        (plain(rounds={"max_age": 0}), ("rounds.max_age = 0",)),
        (plain(rounds={"leap": 0}), ("rounds.leap = 0",)),
        (plain(rounds={"commit_every": 0}), ("rounds.commit_every = 0",)),
        (plain(transport={"lease": 0.0}), ("transport.lease = 0.0",)),
        # what is learned
        (plain(loss="softmax"), ("loss, features, domain", "softmax", "features")),
        (plain(loss="dleta"), ("loss", "did you mean 'delta'?")),
        (plain(features={"name": "positive_random"}), ("features", "needs 'count'")),
        (plain(domain={"name": "ball", "raduis": 1.0}), ("domain", "'raduis'", "did you mean 'radius'?")),
        (plain(domain={"name": "box", "low": 0.0, "high": [[1.0, 1.0, 1.0]]}), ("key_dim, value_dim", "(1, 3)")),
        (plain(key_dim=0), ("key_dim = 0",)),
        (plain(value_dim=2**16 + 1), ("value_dim = 65537",)),
        (plain(key_dim=2**16, value_dim=2**16), ("key_dim, value_dim", "4,294,967,296")),
        (plain(key_dim=2**16, features="taylor"), ("key_dim, value_dim",)),
        (plain(step={"name": "inverse_sqrt"}), ("step", "needs 'c'")),
        (plain(step={"name": "inverse_sqrt", "c": [0.1, 0.2]}), ("step", "2 rates for 3 agents")),
        (plain(step={"name": "inverse_sqrt", "c": -0.1}), ("step", "-0.1")),
        (plain(routing="stiener"), ("routing", "did you mean 'steiner'?")),
        (plain(routing={"name": "steiner", "ties": "none"}), ("routing", "'none'")),
        (plain(seed=-1), ("seed = -1",)),
    ],
    ids=lambda part: None if isinstance(part, dict | list) else "-".join(part)[:60],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_its_key(tables, words):
    said = refusal(tables)
    for word in words:
        assert word in said, said


def test_the_source_is_named():
    with pytest.raises(NetworkError, match=r"^n.toml: agents.a: there is no key 'x'"):
        parse('name = "n"\nkey_dim = 1\nvalue_dim = 1\nstep = "x"\nagents.a = { x = 1 }\n', "n.toml")


@pytest.mark.parametrize(
    ("text", "place", "loopback"),
    [
        ("127.0.0.1:1", ("127.0.0.1", 1), True),
        ("127.9.0.1:65535", ("127.9.0.1", 65535), True),
        ("LocalHost:7401", ("127.0.0.1", 7401), True),
        ("[::1]:7401", ("::1", 7401), True),
        ("[0:0:0:0:0:0:0:1]:7401", ("::1", 7401), True),
        ("[::ffff:127.0.0.1]:7401", ("127.0.0.1", 7401), True),
        ("10.0.0.1:7401", ("10.0.0.1", 7401), False),
        ("[2001:db8::1]:7401", ("2001:db8::1", 7401), False),
        ("Porto.Example.org.:7401", ("porto.example.org", 7401), False),
        ("0.0.0.0:7401", ("0.0.0.0", 7401), False),
    ],
)
def test_addresses(text, place, loopback):
    address = parse_address(text)
    assert (address.place, address.loopback) == (place, loopback)
    assert parse_address(str(address)) == address


@given(st.text(alphabet="01279.:[]abfx-%/ é\n", max_size=24))
@settings(max_examples=500)
def test_an_address_is_read_or_refused(text):
    try:
        address = parse_address(text)
    except ValueError as refused:
        assert "\n" not in str(refused)
        return
    assert parse_address(str(address)) == address
    assert 1 <= address.port <= 65_535
    assert address.ip is not None or "." in address.host or address.host.isascii()


# --- what agents must agree on -------------------------------------------------------------------------------------------------------------


def test_where_agents_are_is_not_agreed_on():
    network = convert(plain())
    moved = network.with_(
        agents={name: {**table, "address": f"127.0.0.9:{port}"} for port, (name, table) in enumerate(PLAIN["agents"].items(), 9000)},
        store="kept", http={"port": 9}, rounds={"deadline": 9.0}, transport={"name": "zenoh", "keys": "k"}, about="another",
    )  # fmt: skip
    assert moved != network
    assert moved.digest == network.digest
    assert disagreement(network.agreement(), moved.agreement()) == ""


@pytest.mark.parametrize(
    ("changes", "topic"),
    [
        ({"name": "four"}, "network (three here, four there)"),
        ({"value_dim": 4}, "value_dim (3 here, 4 there)"),
        ({"dtype": "float64"}, "dtype (float32 here, float64 there)"),
        ({"loss": "linear"}, "loss (delta() here, linear() there)"),
        ({"domain": {"name": "ball", "radius": 499.0}}, "domain (ball(radius=500.0) here, ball(radius=499.0) there)"),
        ({"features": "elu_plus_one"}, "features (identity() here, elu_plus_one() there)"),
        ({"step": {"name": "inverse_sqrt", "c": 0.25}}, "step (inverse_sqrt(c=0.5) here, inverse_sqrt(c=0.25) there)"),
        ({"step": {"name": "inverse_sqrt", "c": [0.5, 0.5, 0.25]}}, "step ("),
        ({"aggregation": "dense"}, "aggregation (auto here, dense there)"),
        ({"rounds": {"max_age": 9}}, "max_age (6 here, 9 there)"),
        ({"agents": member(interest={"faro": 0.5, "lisbon": 0.5})["agents"]}, "interests ("),
        ({"agents": dict(reversed(PLAIN["agents"].items()))}, "agents (3 agents"),
    ],
    ids=lambda part: part if isinstance(part, str) else None,
)
def test_what_agents_must_agree_on(changes, topic):
    one, other = convert(plain()), convert(plain()).with_(**changes)
    assert one.digest != other.digest
    assert topic in disagreement(one.agreement(), other.agreement())


def test_two_ways_to_say_the_same_agree():
    links = {name: {**table, "links": []} for name, table in PLAIN["agents"].items()}
    same = convert(plain(agents=links, topology={"name": "line"}, features="identity", domain={"name": "ball", "radius": 500.0}, rounds={"max_age": 6}))
    assert disagreement(convert(plain()).agreement(), same.agreement()) == ""


# --- the network that a file makes ---------------------------------------------------------------------------------------------------------


def test_with_changes_what_it_is_told():
    network = convert(plain(transport={"lease": 1.0}))
    assert network.with_(transport={"name": "zenoh"}).transport.lease == 1.0
    assert network.with_(rounds={"driven": "free"}).rounds.driven == "free"
    assert network.with_().text == network.text
    with pytest.raises(NetworkError, match=r"no 'sore' in a network; did you mean 'store'\?"):
        network.with_(sore="x")


def test_the_embedded_network_is_simulate():
    network = read(TWENTY).with_(dtype="float64", rounds={"deadline": float("inf")}, step={"name": "constant", "c": 0.005})
    mesh = network.mesh()
    stream = mm.streams.teacher(agents=20, key_dim=10, value_dim=10, rounds=30, correlation=0.75, seed=1)
    for t in range(30):
        mesh.learn({name: (stream.keys[t, n], stream.values[t, n]) for n, name in enumerate(network.names)})
    trees = network.routes()(network.graph(), network.problem().interest)
    trace = mm.simulate(network.problem(), mm.algorithms.dam_togd(trees, step=network.rule()), stream, dtype="float64")
    np.testing.assert_allclose(mesh.memories, trace.memories, rtol=1e-10, atol=1e-12)
    assert mesh.recall("lisbon", stream.keys[0, 0]).shape == (10,)


# --- what nobody thought of ----------------------------------------------------------------------------------------------------------------

words = st.sampled_from(["", "lisbon", "porto", "faro", "127.0.0.1:7401", "10.0.0.1:1", "ring", "zenoh", "free", "dense", "uniform", "ball", "softmax", "constant"])
scalars = st.one_of(st.booleans(), st.integers(-2, 9), st.integers(-(2**70), 2**70), st.floats(), words, st.text(max_size=4))
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "c", "radius", "lisbon", "links", "count"]) | st.text(max_size=2), inner, max_size=3),
    max_leaves=5,
)
parts = {
    "topology": mm.topology, "interest": mm.interest, "loss": mm.losses, "features": mm.features, "domain": mm.domains, "routing": mm.routing, "step": mm.steps,
}  # fmt: skip
known = {part: module.names() for part, module in parts.items()}
stated = ["agents", "radius", "own", "others", "count", "ties", "c", "t0", "gate", "key_dim", "low", "high", "seed", "rows", "graph", "interest", "neighbours"]
inside = {
    "rounds": ["driven", "min_period", "deadline", "max_age", "leap", "commit_every"],
    "transport": ["name", "lease", "tls", "insecure", "keys"],
    "http": ["host", "port", "token"],
}


@st.composite
def nearly_valid(draw: Any) -> Any:
    """Valid tables with a few places changed to something that a user might have written."""
    tables = plain()
    for _ in range(draw(st.integers(0, 3))):
        where = draw(st.sampled_from([*known, "top", "inside", "member", "entry", "members"]))
        if where in known:
            tables[where] = {"name": draw(st.sampled_from(known[where]))} | draw(st.dictionaries(st.sampled_from(stated), values, max_size=2))
            if where in ("topology", "interest") and isinstance(tables["agents"], dict):
                key = "links" if where == "topology" else "interest"
                tables["agents"] = {name: {k: v for k, v in dict(table).items() if k != key} for name, table in tables["agents"].items() if isinstance(table, dict)}
        elif where == "top":
            tables[draw(st.sampled_from([*Network.__struct_fields__, "extra"]))] = draw(values)
        elif where == "inside":
            part = draw(st.sampled_from(list(inside)))
            tables[part] = {draw(st.sampled_from(inside[part])): draw(values)}
        elif where == "members":
            tables["agents"] = draw(st.dictionaries(words | st.text(max_size=3), values, max_size=3))
        elif isinstance(tables["agents"], dict) and tables["agents"]:
            name = draw(st.sampled_from(sorted(tables["agents"])))
            if where == "entry":
                tables["agents"][name] = draw(values)
            elif isinstance(tables["agents"][name], dict):
                tables["agents"][name][draw(st.sampled_from(["address", "listen", "http", "links", "interest", "extra"]))] = draw(values)
    return tables


@given(nearly_valid() | values)
@settings(max_examples=400, suppress_health_check=list(HealthCheck))
def test_no_network_file_ends_in_a_traceback(tables):
    """Whatever is written: it is refused in one line, or it is a network that can be written, read and run."""
    try:
        network = convert(tables)
    except MnemeshError as refused:
        assert "\n" not in str(refused)
        assert len(str(refused)) > 20
        assert isinstance(refused, NetworkError)
        return
    again = parse(network.text)
    assert again == network
    assert hash(again) == hash(network)
    assert again.digest == network.digest
    mesh = network.mesh()
    mesh.learn()
    assert mesh.memories.shape[0] == len(network.names)


@given(st.text(max_size=60) | st.binary(max_size=40))
@settings(max_examples=100)
def test_no_text_ends_in_a_traceback(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    with pytest.raises(NetworkError) as refused:
        read(path)
    assert "\n" not in str(refused.value)
