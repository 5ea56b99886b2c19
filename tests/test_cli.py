"""The command line: what it prints is what the library computes, and whatever a user gets wrong ends in one line and an exit code."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command
from typer.testing import CliRunner

import mnemesh as mm
from mnemesh import lab
from mnemesh.cli import printing
from mnemesh.cli.application import app
from mnemesh.cli.endings import CODES
from mnemesh.cli.options import assignment
from mnemesh.lab import build, catalogue
from mnemesh.lab.findings import findings
from mnemesh.lab.paper import Reproduction
from synthetic import make, paper
from synthetic import spec as synthetic_spec
from test_docs import agree

ROOT = Path(__file__).parents[1]
HEAVY = ("matplotlib", "pyarrow", "numba", "jax", "scipy", "networkx", "dask", "distributed", "jinja2", "pandas", "rich.console", "msgspec")
TINY = """
name = "tiny"
rounds = 40
seeds = 2
topology = { name = "ring", agents = 5 }
interest = { name = "dirichlet", own = 10.0, others = 2.0 }
stream = { name = "teacher", key_dim = 3, value_dim = 2, correlation = 0.75 }
domain = { name = "ball", radius = 100.0 }
algorithms = [{ name = "ogd" }, { name = "dam_togd", step = { name = "inverse_sqrt", c = 0.4 } }]
tuning = { grid = [0.1, 0.4], seeds = 1 }
"""
SWEPT = TINY + 'sweep = [{ "stream.correlation" = [0.0, 1.0] }]\n'


def plain_environment(**changed: str) -> dict[str, str]:
    """The environment without the test run's shape checks, in which warnings are errors."""
    return {name: value for name, value in os.environ.items() if name != "MNEMESH_CHECK_SHAPES"} | changed


def program(*words: str, cwd: Path, timeout: float = 120.0, **variables: str) -> subprocess.CompletedProcess[str]:
    """`mnemesh` as a user runs it: a process of its own."""
    command = [sys.executable, "-m", "mnemesh", *words]
    return subprocess.run(command, cwd=cwd, env=plain_environment(**variables), capture_output=True, text=True, timeout=timeout, check=False)


def told(*words: str) -> Any:
    """What a command does, in this process."""
    return CliRunner().invoke(app, list(words), prog_name="mnemesh", catch_exceptions=False)


def printed(*words: str) -> str:
    done = told(*words)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def rows(*words: str) -> list[dict[str, Any]]:
    return json.loads(printed(*words, "--json"))


def refused(done: Any, *words: str) -> None:
    """Exit code 2, nothing on stdout, and one line on stderr that says these things."""
    code = getattr(done, "returncode", None) if hasattr(done, "returncode") else done.exit_code
    assert code == 2, (code, done.stderr)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("mnemesh: "), done.stderr
    missing = [word for word in words if word not in done.stderr]
    assert not missing, f"{missing} not in: {done.stderr}"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two specs, from which commands are run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "swept.toml").write_text(SWEPT)
    return tmp_path


# What it costs, and how it is started.


def test_help_imports_nothing_heavy_and_answers_at_once(tmp_path):
    code = f"import sys\nsys.argv = ['mnemesh', '--help']\nfrom mnemesh.cli import main\ntry: main()\nfinally: print([name for name in {HEAVY} if name in sys.modules])"
    took = []
    for _ in range(12):  # the best of several: others use the machine, too
        start = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code], env=plain_environment(), cwd=tmp_path, capture_output=True, text=True, check=True)
        took.append(time.perf_counter() - start)
        assert done.stdout.splitlines()[-1] == "[]"
        if min(took) < 0.5:
            break
    assert min(took) < 0.5, took


def test_the_entry_points_are_one_program(tmp_path):
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert scripts == {"mnemesh": "mnemesh.cli:main"}
    assert program("--version", cwd=tmp_path).stdout == f"mnemesh {mm.__version__}\n"


def test_no_command_prints_help_and_is_a_misuse():
    done = told()
    assert done.exit_code == 2 and "Commands:" in done.stdout


def test_without_typer_the_extra_is_named(tmp_path):
    code = "import sys\nsys.modules['typer'] = None\nfrom mnemesh.cli import main\nmain()"
    refused(subprocess.run([sys.executable, "-c", code], env=plain_environment(), cwd=tmp_path, capture_output=True, text=True, check=False), "mnemesh[lab]")


def test_a_bug_keeps_its_traceback_and_has_a_code_of_its_own(tmp_path):
    code = "import sys\nimport mnemesh.lab.catalogue as shelf\nshelf.catalogue = lambda kind: 1 / 0\nfrom mnemesh.cli import main\nsys.argv = ['mnemesh', 'list']\nmain()"
    done = subprocess.run([sys.executable, "-c", code], env=plain_environment(), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Traceback" in done.stderr and "ZeroDivisionError" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="pipes end otherwise there")
def test_a_closed_pipe_is_silent(tmp_path):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "mnemesh", "list"], stdout=write, stderr=subprocess.PIPE, env=plain_environment(), cwd=tmp_path, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device is full")
def test_a_full_disk_is_one_line(tmp_path):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-m", "mnemesh", "list"], stdout=full, stderr=subprocess.PIPE, env=plain_environment(), cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr.decode()) == (2, "mnemesh: No space left on device: the output.\n")


def test_a_terminal_that_lacks_letters_shows_others(tmp_path):
    done = program("list", "losses", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "Linear attention: ? = " in done.stdout


# list and spec.


@pytest.mark.parametrize("kind", catalogue.KINDS)
def test_list_shows_every_name(kind):
    found = [row["name"] for row in rows("list", kind)]
    assert found == list(catalogue.names(kind)) and found
    assert all(name in printed("list", kind) for name in found)


def test_list_follows_the_registries(monkeypatch):
    monkeypatch.setattr(mm.losses._REGISTRY, "_makers", dict(mm.losses._REGISTRY._makers))

    def squashed(limit=2.0):
        """Nothing above a limit.

        And more that is not shown.
        """

    mm.losses.register("squashed", squashed)
    assert rows("list", "losses")[-1] == {"name": "squashed", "settings": ["limit=2.0"], "what it is": "Nothing above a limit."}
    assert "squashed" in {row["kind"]: row["names"] for row in rows("list")}["losses"]


def test_list_shows_what_a_maker_takes():
    topologies = {row["name"]: row["settings"] for row in rows("list", "topologies")}
    assert topologies["small_world"] == ["agents", "neighbours=4", "rewired=0.1", "seed"]
    assert "agents, neighbours=4, rewired=0.1, seed" in printed("list", "topologies")
    engines = {row["name"]: row["installed"] for row in rows("list", "engines")}
    assert set(engines) == {"auto", "numpy", "numba", "jax"} and engines["numpy"] is True


def test_list_says_what_a_spec_supplies(monkeypatch):
    """What the lab hands to the makers, against what the lists and the page on studies say of it."""
    supplied: dict[str, set[str]] = {}
    make = build.made

    def recorded(maker: Any, choice: Any, at: str, error: Any, **settings: Any) -> Any:
        supplied[at] = set(settings)
        return make(maker, choice, at, error, **settings)

    monkeypatch.setattr(build, "made", recorded)
    spec = lab.parse(TINY + 'features = "identity"\n')
    world = build.World(spec, 1, spec.rounds)
    world.algorithm(spec.algorithms[1])
    page = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8").partition("| part | supplied |")[2].partition("\n\n")[0]
    on_page = {part: set(re.findall("`(.*?)`", names)) for parts, names in re.findall(r"^\| (.*) \| (.*) \|$", page, re.M) for part in re.findall("`(.*?)`", parts)}
    for kind, part in zip(catalogue.KINDS[:-2], ("loss", "algorithms.dam_togd", "topology", "routing", "features", "domain", "algorithms.dam_togd.step", "interest", "stream"), strict=True):
        noted = catalogue.catalogue(kind).note.partition(" supplied by")[0]
        assert set(re.findall(r"\w+", noted)) - {"and", "are", "is"} == supplied[part], kind
        assert on_page.get("[[algorithms]]" if kind == "algorithms" else part, set()) == supplied[part], kind


@pytest.mark.parametrize("name", lab.shipped())
def test_spec_prints_what_may_be_saved_and_run(name, tmp_path):
    (tmp_path / "mine.toml").write_text(printed("spec", name), encoding="utf-8")
    assert lab.read(tmp_path / "mine.toml") == lab.read(name)


# bound and routes.


def test_bound_prints_the_theory(here):
    (plain, delayed), problem = rows("bound", "tiny.toml", "--seed", "3"), world(3)
    bound = mm.theory.dam_togd(problem.problem, problem.stream, problem.trees, step=mm.steps.inverse_sqrt(0.4))
    for form in ("printed", "repaired", "sharp", "sharp_sum"):
        assert delayed[form.replace("_", " ")] == pytest.approx(getattr(bound, form)[-1])
    assert delayed["T"] == 40 and delayed["notes"]["printed"] == bound.notes["printed"]
    best = mm.theory.ogd(problem.problem, problem.stream, step=mm.steps.inverse_sqrt(1.0)).best_c
    least = mm.theory.ogd(problem.problem, problem.stream, step=mm.steps.inverse_sqrt(best))
    assert plain["sharp"] == pytest.approx(least.sharp[-1]) and plain["printed"] is None
    text = printed("bound", "tiny.toml", "--seed", "3")
    assert "best c, " in text and least.notes["printed"] in text


def test_bound_says_why_there_is_none(here):
    changes = ["--set", "interest=uniform", "--set", "algorithms=[{name='c_dogd'}, {name='local_ogd'}]"]
    consensus, local = rows("bound", "tiny.toml", *changes)
    graph, problem = mm.topology.ring(5), mm.Problem("delta", mm.domains.ball(100.0), mm.interest.uniform(5))
    theorem_2 = mm.theory.c_dogd(problem, world(1).stream, graph, step=mm.steps.inverse_sqrt(0.5))
    assert consensus["repaired"] == pytest.approx(theorem_2.repaired[-1]) and consensus["sharp"] is None
    assert consensus["notes"]["sharp"] == theorem_2.notes["sharp"] and consensus["step"] == "c = 0.5, Theorem 2's"
    assert local["repaired"] is None and local["notes"]["repaired"] == "no theorem is about local_ogd"
    unbounded = printed("bound", "tiny.toml", "--set", "domain=everything")
    assert "has no diameter" in unbounded and ".." not in unbounded and "Best c" not in unbounded


class world:
    """The tiny spec's world, without the lab."""

    def __init__(self, seed: int, topology: Any = None) -> None:
        self.graph = mm.topology.ring(5) if topology is None else topology
        agents = self.graph.number_of_nodes()
        self.stream = mm.streams.get("teacher", agents=agents, key_dim=3, value_dim=2, rounds=40, correlation=0.75, seed=seed)
        self.interest = mm.interest.dirichlet(agents, own=10.0, others=2.0, seed=seed)
        self.problem = mm.Problem("delta", mm.domains.ball(100.0), self.interest)
        self.trees = mm.routing.steiner(self.graph, self.interest)


def test_routes_prints_delays_and_load(here):
    graph = mm.topology.random_geometric(12, radius=0.5, seed=7)
    changes = ["--topology", "random_geometric", "--set", "topology.agents=12", "--set", "topology.radius=0.5"]
    found = rows("routes", "tiny.toml", *changes, "--all", "--seed", "7")
    assert {row["trees"] for row in found} == set(mm.routing.names())
    for row in found:
        trees = mm.routing.get(row["trees"], graph=graph, interest=world(7, graph).interest)
        assert row["mean delay"] == pytest.approx(trees.delays.mean()) and row["longest"] == trees.delays.max()
        assert [row[name] for name in ("queries", "replies, joined", "replies, single")] == list(trees.messages_per_round())
        assert row["busiest link"] == max(trees.load().values(), default=0)
        cared = np.where(trees.delay < 0, 0, trees.delay) * np.asarray(trees.interest) if len(trees.graph or ()) else np.zeros(1)
        assert row["by interest"] == pytest.approx(cared.sum() / 12 if row["trees"] != "instant" else 0.0)


@pytest.mark.parametrize("root", [0, 4])
def test_routes_prints_a_tree(here, root):
    graph = mm.topology.grid(3, 4)
    changes = ["--topology", "grid", "--set", "topology.rows=3", "--set", "topology.columns=4", "--set", "interest={name='nearest', count=3}"]
    lines = printed("routes", "tiny.toml", *changes, "--root", str(root)).partition(f"The tree of agent {root}, steiner:\n")[2].splitlines()
    trees = mm.routing.steiner(graph, mm.interest.nearest(graph, 3))
    path, parents, relays = [], {}, set()
    for line in lines:
        node = int(re.search(r"\d+", line)[0])
        depth = line.index(str(node)) // 3
        parents[node] = path[depth - 1] if depth else None
        path[depth:] = [node]
        relays |= {node} if line.endswith("relay") else set()
    assert parents == trees.parents[root]
    assert relays == set(parents) - set(trees.interest.row(root)[0].tolist())


def test_routes_prints_a_tree_as_json(here):
    changes = ["--topology", "grid", "--set", "topology.rows=3", "--set", "topology.columns=4", "--set", "interest={name='nearest', count=3}"]
    first, *others = rows("routes", "tiny.toml", *changes, "--root", "4", "--all")
    graph = mm.topology.grid(3, 4)
    trees = mm.routing.steiner(graph, mm.interest.nearest(graph, 3))
    assert first["root"] == 4 and others and all("tree" not in row for row in others)
    assert {row["agent"]: row["parent"] for row in first["tree"]} == trees.parents[4]
    partners, weights = trees.interest.row(4)
    told = {row["agent"]: (row["weight"], row["delay"]) for row in first["tree"] if row["weight"] is not None}
    delays = trees.delays[trees.starts[4] : trees.starts[5]]
    assert told == {int(m): (pytest.approx(w), tau) for m, w, tau in zip(partners, weights, delays, strict=True)}


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_routes_draws(here, kind):
    printed("routes", "tiny.toml", "--root", "2", "--out", f"tree.{kind}")
    begins = (here / f"tree.{kind}").read_bytes()[:5]
    assert begins in (b"\x89PNG\r", b"<?xml", b"%PDF-")


def test_the_graph_is_the_one_that_is_named(here):
    title = printed("routes", "tiny.toml", "--topology", "star", "--set", "topology.agents=9").splitlines()[0]
    assert "9 agents on star(agents=9)" in title and f"{nx.star_graph(8).number_of_edges()} links" in title


# run.


def test_run_leaves_results_and_prints_their_table(here):
    done = program("run", "swept.toml", "--workers", "1", cwd=here)
    assert done.returncode == 0, done.stderr
    spec = lab.read(here / "swept.toml")
    folder = here / "out" / f"tiny-{spec.digest}"
    results = lab.open_results(folder)
    assert results.spec == spec and f"{folder.relative_to(here)}" in done.stderr
    assert "dam_togd" in done.stdout and (folder / "report.html").exists()
    again = program("run", "swept.toml", "--workers", "1", "--json", cwd=here)
    found = json.loads(again.stdout)
    assert [(row["stream.correlation"], row["algorithm"]) for row in found] == [(0.0, "ogd"), (0.0, "dam_togd"), (1.0, "ogd"), (1.0, "dam_togd")]
    last = results.results.to_pandas().query("horizon == 40").groupby(["point", "algorithm"], sort=False).regret_per_round.mean()
    assert [row["regret per round"] for row in found] == pytest.approx(last.tolist())


def test_run_takes_seeds_changes_and_a_folder(here):
    words = ["run", "tiny.toml", "--seeds", "3", "--set", "rounds=30", "--set", "topology=star", "--set", "topology.agents=4", "--engine", "numpy"]
    assert program(*words, "--out", "there", "--workers", "1", cwd=here).returncode == 0
    results = lab.open_results(here / "there")
    assert results.spec.seeds == 3 and results.spec.rounds == 30 and results.spec.topology.label == "star(agents=4)"
    assert set(results.column("seed")) == {1, 2, 3} and set(results.column("engine")) == {"numpy"}


def test_a_study_finds_modules_beside_it_and_in_the_current_folder(here):
    """As the console script starts, without the current folder on the path; worker processes find them, too."""
    (here / "elsewhere").mkdir()
    parts = "import mnemesh as mm\nmm.losses.register({name!r}, mm.losses.maker('delta'))\n"
    (here / "elsewhere" / "beside.py").write_text(parts.format(name="beside"))
    (here / "current.py").write_text(parts.format(name="current"))
    (here / "elsewhere" / "mine.toml").write_text('imports = ["beside", "current"]\nloss = "beside"\n' + TINY)
    for folder, start in (("one", ["-P", "-c", "from mnemesh.cli import main; main()"]), ("two", ["-m", "mnemesh"])):
        words = [sys.executable, *start, "run", "elsewhere/mine.toml", "--workers", "1", "--out", folder]
        done = subprocess.run(words, cwd=here, env=plain_environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert {"code of beside", "code of current"} < set(lab.open_results(here / folder).versions)


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors are closed otherwise there")
def test_closed_output_goes_nowhere(here):
    """The results are kept, and no file is written to in the output's place."""
    words = [sys.executable, "-m", "mnemesh", "run", "tiny.toml", "--workers", "1", "--out", "there"]
    done = subprocess.run(["sh", "-c", shlex.join(words) + " >&-"], cwd=here, env=plain_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Traceback" not in done.stderr and "results in there" in done.stderr, done.stderr
    assert lab.open_results(here / "there").spec.name == "tiny"
    assert subprocess.run(["sh", "-c", shlex.join([*words[:3], "list"]) + " >&- 2>&-"], cwd=here, env=plain_environment(), check=False).returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent otherwise there")
def test_ctrl_c_says_what_is_kept_and_the_same_command_goes_on(here):
    words = [sys.executable, "-m", "mnemesh", "run", "swept.toml", "--set", "rounds=15000", "--set", "horizons=3", "--out", "kept", "--workers", "1", "--engine", "numpy"]
    started = subprocess.Popen(words, cwd=here, env=plain_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    for _ in range(600):
        if list((here / "kept" / "batches").glob("*.parquet")) or started.poll() is not None:
            break
        time.sleep(0.1)
    os.killpg(started.pid, signal.SIGINT)
    out, err = started.communicate(timeout=30)
    assert started.returncode == 130, err
    assert out == "" and "kept in kept" in err.splitlines()[-1] and "goes on" in err and "Traceback" not in err
    done = program(*words[3:], cwd=here)
    assert done.returncode == 0 and lab.open_results(here / "kept").spec.rounds == 15000, done.stderr


# reproduce.


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """`reproduce` without its hours: the results are those of a function that the test knows."""
    seen: dict[str, Any] = {"regret": paper}

    def reproduce(what: str, *, out: Any, executor: Any, progress: Any, **settings: Any) -> Reproduction:
        seen.update(settings, what=what, out=Path(out))
        played: list[Any] = []
        for name in ("fig1b", "fig1c", "fig1d") if what == "all" else (what,):
            progress(1.0, 2.0, name)
            (Path(out) / name).mkdir(parents=True)
            played.append(make(Path(out) / name, synthetic_spec(name), seen["regret"]))
        return Reproduction(Path(out) / "the-page.html", tuple(played), findings(played))

    monkeypatch.setattr("mnemesh.lab.paper.reproduce", reproduce)
    return seen


def test_reproduce_prints_the_findings_that_hold(here, pretended):
    done = told("reproduce", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert {row["figure"] for row in found} == {"1(b)", "1(c)", "1(d)"} and {row["verdict"] for row in found} == {"holds"}
    assert pretended["out"] == Path("out/paper-20") and (pretended["seeds"], pretended["quick"]) == (None, False)
    paths = ("results in out/paper-20,", "pictures in out/paper-20/figures and in each panel's own,", "all of it in out/paper-20/the-page.html")
    assert all(path in done.stderr for path in paths), done.stderr


def test_reproduce_names_the_findings_that_fail_and_ends_with_3(here, pretended):
    pretended["regret"] = lambda place, label, seed, horizon: 10.0 * horizon * (1 + seed / 100)  # nothing ever falls
    done = told("reproduce", "fig1b", "--quick", "--seeds", "4")
    assert done.exit_code == 3
    assert "2 of 4 findings failed" in done.stderr.splitlines()[-1] and "OGD falls with T" in done.stderr.splitlines()[-1]
    assert "fails" in done.stdout and "holds" in done.stdout
    assert pretended["out"] == Path("out/quick-4") and (pretended["seeds"], pretended["quick"]) == (4, True)
    assert "pictures in out/quick-4/fig1b/figures, all of it in out/quick-4/the-page.html" in done.stderr


@pytest.mark.parametrize(("words", "folder", "seeds"), [
    ("", "paper-20", None), ("--quick", "quick", None), ("--seeds 7", "paper-7", 7), ("--quick --seeds 7", "quick-7", 7), ("--quick --out there", "../there", None),
])  # fmt: skip
def test_reproduce_names_its_folder_after_what_is_asked(words, folder, seeds, here, pretended):
    assert told("reproduce", "fig1c", *words.split()).exit_code == 0
    assert Path("out", folder).resolve() == pretended["out"].resolve() and pretended["seeds"] == seeds


def test_reproduce_draws_the_network(here):
    done = told("reproduce", "fig1a", "--out", "network")
    assert done.exit_code == 0 and done.stdout == "", done.stderr
    assert (here / "network" / "report-fig1a.html").exists() and "network/report-fig1a.html" in done.stderr
    assert "network/fig1a/figures" in done.stderr and (here / "network" / "fig1a" / "figures" / "fig1a.png").exists()


# plot and compare.


def test_plot_draws_again_and_lists_what_it_drew(here):
    (here / "there").mkdir()
    make(here / "there", synthetic_spec())
    drawn = [Path(line) for line in printed("plot", "there").splitlines()]
    assert {path.name for path in drawn} == {"fig1b.png", "fig1b.svg", "fig1b.pdf", "report.html"} and all(path.stat().st_size for path in drawn)


def test_compare_pairs_runs_by_seed(here):
    for name, more in (("one", 0.0), ("two", 5.0)):
        (here / name).mkdir()
        make(here / name, synthetic_spec(), lambda place, label, seed, horizon, more=more: horizon * (seed + len(label) + more))
    for row in rows("compare", "one", "two"):
        assert row["difference"] == pytest.approx(5.0) and (row["low"], row["high"]) == pytest.approx((5.0, 5.0))
        assert row["first"] == pytest.approx(3 + len(row["algorithm"])) and row["outcome"] == "differs"
    assert {row["outcome"] for row in rows("compare", "one", "one")} == {"same bytes"}


# What a user gets wrong: the command, and what the line must say.

WRONG = {
    "no such command": ("rnu", ["no such command", "rnu"]),
    "no such option": ("run tiny.toml --seed 3", ["--seed"]),
    "no such file": ("run nowhere.toml", ["nowhere.toml", "fig1b"]),
    "a name that is nearly one": ("run fig1e", ["fig1e", "did you mean 'fig1"]),
    "a folder instead of a file": ("run .", ["directory"]),
    "no TOML": ("run broken.toml", ["broken.toml", "no TOML", "line 2"]),
    "no text": ("run bytes.toml", ["bytes.toml", "cannot be read as text"]),
    "a misspelt key": ("run misspelt.toml", ["misspelt.toml", "'roundz'", "did you mean 'rounds'"]),
    "a misspelt algorithm": ("run tiny.toml --set algorithms.ogd.step.name=inverse_sqr", ["inverse_sqr", "inverse_sqrt"]),
    "a misspelt loss": ("run tiny.toml --set loss=dleta", ["dleta", "did you mean 'delta'"]),
    "a misspelt setting": ("run tiny.toml --set domain.radus=3.0", ["radus", "radius"]),
    "seeds in words": ("run tiny.toml --seeds many", ["--seeds", "'many'", "whole number"]),
    "no seeds": ("run tiny.toml --seeds 0", ["seeds = 0"]),
    "T smaller than a delay": ("run tiny.toml --set rounds=3 --out new", ["rounds = 3", "longest delay", "4 rounds"]),
    "no rounds": ("run tiny.toml --set rounds=0", ["rounds = 0"]),
    "a change without a value": ("run tiny.toml --set rounds", ["KEY=VALUE", "'rounds'"]),
    "a change of nothing": ("bound tiny.toml --set rouns=3", ["'rouns'", "did you mean 'rounds'"]),
    "a change that is no TOML": ("run tiny.toml --set rounds=[1,", ["'[1,'", "no TOML value"]),
    "a change to words": ("run tiny.toml --set stream.correlation=high", ["correlation = 'high'", "expected float"]),
    "a change of what is swept": ("run swept.toml --set stream.correlation=0.5", ["sweeps stream.correlation"]),
    "a date": ("run tiny.toml --set stream.correlation=1979-05-27", ["date"]),
    "a folder that cannot be": ("run tiny.toml --out tiny.toml/there", ["tiny.toml/there", "cannot be written"]),
    "a file for a folder": ("run tiny.toml --out tiny.toml", ["tiny.toml", "cannot be written"]),
    "somebody else's results": ("run tiny.toml --out others", ["others", "another spec"]),
    "no such engine": ("run tiny.toml --engine nmupy", ["nmupy", "numpy"]),
    "no workers": ("run tiny.toml --workers 0", ["workers=0"]),
    "a cluster and processes": ("run tiny.toml --dask tcp://127.0.0.1:9 --workers 2", ["--dask", "--workers"]),
    "no address": ("run tiny.toml --dask here", ["'here'", "address"]),
    "nothing to list": ("list loses", ["loses", "did you mean 'losses'"]),
    "no spec to print": ("spec fig2", ["fig2", "did you mean"]),
    "no spec to bound": ("bound", ["SPEC"]),
    "a negative rate": ("run tiny.toml --set algorithms.ogd.step.c=-1.0", ["-1.0", "positive"]),
    "no comparator in an unbounded domain": ("run tiny.toml --set domain=everything --set loss=linear", ["everything()", "no comparator", "Use a ball or a box"]),
    "seeds twice": ("run tiny.toml --seeds 2 --set seeds=1", ["seeds is set twice", "--seeds and --set"]),
    "an engine twice": ("run tiny.toml --engine numpy --set engine=numba", ["engine is set twice"]),
    "a topology twice": ("routes tiny.toml --topology ring --set topology=star", ["topology is set twice"]),
    "a key twice": ("run tiny.toml --set rounds=30 --set rounds=40", ["rounds is set twice, by --set:"]),
    "a folder without a name": ("run tiny.toml --out ''", ["--out", "names nothing"]),
    "a spec without a name": ("run ''", ["names nothing"]),
    "results without a name": ("plot ''", ["names nothing"]),
    "a picture without a name": ("routes --out ''", ["--out", "names nothing"]),
    "a folder of several studies": ("plot several", ["'several'", "name one of several/fig1b, several/fig1c."]),
    "several studies to compare": ("compare others several", ["name one of several/fig1b"]),
    "a study that was stopped": ("plot stopped", ["'stopped' was not finished", "`mnemesh run stopped/spec.toml --out stopped` goes on"]),
    "no such root": ("routes tiny.toml --root 5", ["agent 5", "0..4"]),
    "no such topology": ("routes tiny.toml --topology rng", ["rng", "did you mean 'ring'"]),
    "a topology without its size": ("routes tiny.toml --topology ring", ["'agents'", "not stated"]),
    "a picture of no kind": ("routes tiny.toml --out tree.gif", ["tree.gif", ".png"]),
    "a picture nowhere": ("routes tiny.toml --out tiny.toml/tree.png", ["tiny.toml/tree.png", "cannot be written", "'tiny.toml' is a file, not a folder"]),
    "a picture further down": ("routes tiny.toml --out tiny.toml/a/b/tree.png", ["'tiny.toml' is a file, not a folder"]),
    "a negative seed": ("routes tiny.toml --seed -1", ["seed=-1"]),
    "no folder of results": ("plot nowhere", ["nowhere", "no folder"]),
    "a folder without results": ("plot empty", ["results.parquet"]),
    "results that are no table": ("plot garbage", ["results.parquet", "cannot be read"]),
    "results of another format": ("plot future", ["format '999'", "reads format"]),
    "results of one study alone": ("compare others", ["RESULTS"]),
    "results that share nothing": ("compare others apart", ["share no run"]),
    "no such panel": ("reproduce fig1e", ["fig1e", "did you mean 'fig1"]),
    "no seeds to reproduce with": ("reproduce fig1b --seeds 0 --out new", ["seeds"]),
    "seeds to reproduce in words": ("reproduce all --seeds many", ["--seeds", "'many'"]),
    "nowhere to reproduce": ("reproduce fig1b --quick --out tiny.toml/there", ["tiny.toml/there", "cannot be written"]),
}
MUST = (
    "a misspelt key", "no such file", "a folder that cannot be", "seeds in words", "T smaller than a delay", "no TOML", "a folder instead of a file",
    "a misspelt loss", "a change without a value", "results of another format", "no folder of results", "nowhere to reproduce",
)  # fmt: skip


@pytest.fixture
def wrong(here: Path) -> Path:
    """The folder with all that is wrong in it."""
    (here / "broken.toml").write_text("rounds = 5\nseeds = = 2\n")
    (here / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    (here / "misspelt.toml").write_text(TINY.replace("rounds", "roundz"))
    (here / "empty").mkdir()
    (here / "garbage").mkdir()
    (here / "garbage" / "results.parquet").write_text("not a table")
    for name, seeds in (("others", (1, 2)), ("apart", (3, 4)), ("future", (1,))):
        (here / name).mkdir()
        told = make(here / name, synthetic_spec(seeds=seeds)).spec
        (here / name / "spec.toml").write_text(told.text, encoding="utf-8")
    for name in ("fig1c", "fig1b"):
        (here / "several" / name).mkdir(parents=True)
        make(here / "several" / name, synthetic_spec(name, seeds=1))
    (here / "stopped" / "batches").mkdir(parents=True)
    (here / "stopped" / "spec.toml").write_text(TINY)
    _rewrite(here / "future" / "results.parquet", b"mnemesh.format", b"999")
    return here


def _rewrite(path: Path, key: bytes, value: bytes) -> None:
    import pyarrow.parquet as parquet

    table = parquet.read_table(path)
    parquet.write_table(table.replace_schema_metadata({**table.schema.metadata, key: value}), path)


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_one_line(what: str, wrong: Path) -> None:
    command, words = WRONG[what]
    refused(told(*shlex.split(command)), *words)


@pytest.mark.parametrize("what", MUST)
def test_what_is_wrong_is_one_line_in_a_process_of_its_own(what: str, wrong: Path) -> None:
    command, words = WRONG[what]
    refused(program(*shlex.split(command), cwd=wrong), *words)


def test_a_scheduler_that_is_not_there_is_given_up_soon(here: Path) -> None:
    start = time.monotonic()
    refused(program("run", "tiny.toml", "--dask", "tcp://127.0.0.1:9", "--out", "new", cwd=here), "no Dask scheduler answers", "tcp://127.0.0.1:9")
    assert time.monotonic() - start < 20  # 5 s of patience, and what a busy machine adds


def test_a_refused_study_leaves_no_folder_that_is_in_the_way(here: Path) -> None:
    refused(told("run", "tiny.toml", "--set", "rounds=3", "--out", "there"), "longest delay")
    assert program("run", "tiny.toml", "--out", "there", "--workers", "1", cwd=here).returncode == 0


# Changes on the command line.

words = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=12)
values = st.recursive(
    st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc_", min_size=1), inner, max_size=3),
    max_leaves=6,
)


@given(value=values)
def test_a_change_is_any_toml_value(value):
    text = tomli_w.dumps({"v": [value, 0]}).partition("=")[2].strip()  # in a mixed list, so that a table stands inline
    assert assignment(f"some.key = {text}") == ("some.key", [value, 0])


@given(text=st.text(max_size=20))
def test_a_change_is_understood_or_refused(text):
    try:
        key, value = assignment(text)
    except mm.errors.SpecError as wrong:
        assert text in str(wrong) or repr(text) in str(wrong)
    else:
        told = text.partition("=")
        assert key == told[0].strip() and (value == told[2].strip() or tomllib.loads(f"v = {told[2].strip()}") == {"v": value})


# Progress.


class Ticking:
    """A clock that moves when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_time_to_go_counts_down_between_two_batches():
    tick = Ticking()
    clock = printing.Clock(tick)
    clock.tell(0.0, 50.0)
    assert clock.left is None and clock.words == ""
    tick.now += 10
    clock.tell(10.0, 50.0)
    assert clock.left == pytest.approx(40.0) and clock.words == "about 40 s left"
    tick.now += 15
    assert clock.left == pytest.approx(25.0)
    tick.now += 100
    assert clock.left == 0.0 and clock.words == ""


@given(st.lists(st.floats(0.1, 50), min_size=1, max_size=8))
def test_at_an_even_pace_the_time_to_go_is_right(steps):
    tick, total, done = Ticking(), sum(steps) + 1.0, 0.0
    clock = printing.Clock(tick)
    for work in steps:
        tick.now += 2 * work
        done += work
        clock.tell(done, total)
        assert clock.left == pytest.approx(2 * (total - done), rel=1e-6)


@pytest.mark.parametrize(("seconds", "words"), [(0.04, "0.0 s"), (9.94, "9.9 s"), (59.6, "1:00"), (61, "1:01"), (3599.7, "1:00:00"), (7380, "2:03:00")])
def test_spans_are_said_as_people_say_them(seconds, words):
    assert printing.span(float(seconds)) == words


def test_without_a_terminal_there_is_a_line_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(printing, "_PAUSE", 0.0)
    with printing.progress_bar() as tell:
        tell(0.0, 4.0, "batch 0 of 4")
        tell(1.0, 4.0, "batch 1 of 4")
        tell(0.0, 0.0, "batch 4 of 4")
    first, second, last = capsys.readouterr().err.splitlines()
    assert last.startswith("batch 4 of 4: 100%")  # all of it was there already
    assert first.startswith("batch 0 of 4: 0%") and second.startswith("batch 1 of 4: 25%") and second.endswith(" left")


@pytest.mark.skipif(sys.platform == "win32", reason="no pty there")
def test_in_a_terminal_there_is_a_bar_and_a_drawn_table(here):
    import pty

    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "mnemesh", "run", "swept.toml", "--workers", "1"]
    started = subprocess.Popen(words, cwd=here, env=plain_environment(TERM="xterm", COLUMNS="100"), stdout=theirs, stderr=theirs, close_fds=True)
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert started.wait() == 0
    text = seen.decode()
    assert "batch" in text and "0:00:0" in text and "100%" in text  # the bar
    assert "\N{BOX DRAWINGS LIGHT HORIZONTAL}" in text and "regret per round" in text  # the table


# Completion.


def completed(*typed: str, cwd: Path) -> list[str]:
    line = ["mnemesh", *typed]
    done = program(cwd=cwd, _MNEMESH_COMPLETE="complete_bash", COMP_WORDS=" ".join(line), COMP_CWORD=str(len(line) - 1))
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.split()


def test_a_shell_completes_commands_specs_files_and_names(here):
    (here / "specs").mkdir()
    assert completed("re", cwd=here) == ["reproduce"]
    assert completed("run", "fig1", cwd=here) == ["fig1b", "fig1c", "fig1d"]
    assert completed("run", "s", cwd=here) == ["specs/", "swept.toml"]
    assert completed("list", "l", cwd=here) == ["losses"]
    assert completed("routes", "--topology", "r", cwd=here) == ["random_geometric", "ring"]
    assert completed("run", "tiny.toml", "--engine", "n", cwd=here) == ["numpy", "numba"]
    assert completed("reproduce", "fig1", cwd=here) == ["fig1a", "fig1b", "fig1c", "fig1d"]


# The page about it.


PAGE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^```console\n\$ mnemesh (.*?)\n(.*?)^```$", PAGE, re.M | re.S)
TYPED = [line.partition("#")[0].strip() for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S) for line in block.splitlines()]


@pytest.mark.parametrize(("command", "promised"), SHOWN, ids=[command.partition(" ")[0] for command, _ in SHOWN])
def test_the_page_shows_what_is_printed(command, promised, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    agree(printed(*shlex.split(command)), promised)


@pytest.mark.parametrize("line", TYPED)
def test_every_line_of_the_page_can_be_typed(line):
    name, *words = shlex.split(line.partition(">")[0])
    command = get_command(app)
    assert name == "mnemesh"
    with command.make_context("mnemesh", words) as outer:
        called, inner, rest = command.resolve_command(outer, words)
        inner.make_context(called, rest)


def test_the_page_names_every_command_option_and_exit_code():
    for name, command in get_command(app).commands.items():
        assert f"`mnemesh {name}" in PAGE
        options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")} - {"--help"}
        missing = {option for option in options if f"{option}" not in PAGE}
        assert not missing, f"{name}: {missing}"
    assert re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.M) == [(str(code), meaning) for code, meaning in CODES.items()]


def test_help_states_the_exit_codes():
    assert all(f"{code}  {meaning}" in printed("--help") for code, meaning in CODES.items())


def test_keys_are_made_once_and_stay(tmp_path):
    file = Path(__file__).parents[1] / "examples" / "twenty.toml"
    first = program("keys", str(file), "--out", "pki", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    key = tmp_path / "pki" / "lisbon" / "agent.key"
    assert key.stat().st_mode & 0o777 == 0o600
    before = key.read_bytes()
    again = program("keys", str(file), "--out", "pki", "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["made"] == []
    assert key.read_bytes() == before
    refused(program("keys", "nowhere.toml", cwd=tmp_path), "nowhere.toml")
