"""The peer comparison without the peers: what it says when they are missing, and that it catches one that computes something else."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PEERS = Path(__file__).parents[1] / "benchmarks" / "peers"
FAKE = f"""
import sys
sys.path.insert(0, {str(PEERS)!r})
import numpy as np
from turns import serve

def prepare(problem):
    def play(keep):
        x, kept = np.zeros((problem["keys"].shape[1], problem["values"].shape[2], problem["keys"].shape[2])), []
        for keys, values in zip(problem["keys"], problem["values"]):
            mixed = np.einsum("nm,mij->nij", problem["weights"], x)
            y = mixed - FACTOR * problem["step"] * np.einsum("ni,nj->nij", np.einsum("nij,nj->ni", x, keys) - values, keys)
            x = np.array([m * min(1, problem["radius"] / np.linalg.norm(m)) for m in y])
            kept.append(x)
        return np.array(kept)
    return play, {{"version": "0", "mixing": problem["weights"]}}

serve(prepare)
"""


@pytest.fixture
def compare(monkeypatch):
    monkeypatch.syspath_prepend(str(PEERS))
    module, ours = (importlib.import_module(name) for name in ("compare", "ours"))
    monkeypatch.setattr(ours, "find_spec", lambda name: None)  # NumPy and Online: nothing to compile
    monkeypatch.setattr(module, "CASES", {"tvopt": [(4, 3, 40, 9.0)]})
    monkeypatch.setattr(module, "WAYS", {"tvopt": {"own": "a peer"}})
    monkeypatch.setattr(module.os, "sched_setaffinity", lambda *_: None, raising=False)  # the other tests keep their cores
    yield module
    for name in ("compare", "ours", "turns"):
        sys.modules.pop(name, None)


def played(compare, monkeypatch, tmp_path, factor):
    program = tmp_path / "fake.py"
    program.write_text(FAKE.replace("FACTOR", factor), encoding="utf-8")
    monkeypatch.setattr(compare, "PROGRAMS", {"tvopt": program})
    file = str(tmp_path / "out" / "peers.json")
    monkeypatch.setattr(sys, "argv", ["compare.py", "--repeats", "1", "--python", sys.executable, "--json", file])
    compare.main()


def test_ours_agree_with_the_rule_written_out(compare, monkeypatch, tmp_path, capsys):
    played(compare, monkeypatch, tmp_path, "1")
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if "mm.Online" in line] and "mm.simulate, numpy" in printed
    edge = re.search(r"(\d+)% of C-DOGD \(4, 3\)", printed)
    assert edge is not None and 0 < int(edge[1]) < 100, "the ball must bind sometimes and not always, or its projection is not compared"
    assert (tmp_path / "out" / "peers.json").exists()


def test_a_peer_that_computes_something_else_is_refused(compare, monkeypatch, tmp_path):
    with pytest.raises(SystemExit, match=r"differs by .* on C-DOGD \(4, 3\), more than 1e-09"):
        played(compare, monkeypatch, tmp_path, "1.0000001")


def test_a_difference_that_is_no_number_is_refused(compare):
    row = {"contender": "somebody", "problem": "a problem", "difference": float("nan")}
    assert "somebody differs by nan" in (compare.disagreement([row]) or "")
    assert compare.disagreement([{**row, "difference": 1e-12}, {**row, "difference": None}]) is None


def test_difference_is_of_the_worst_round(compare):
    wanted = np.ones((3, 2, 2, 2)) * np.array([1.0, 10.0, 100.0])[:, None, None, None]
    found = wanted.copy()
    found[1, 0, 1, 1] += 0.5
    assert compare.difference(found, wanted) == pytest.approx(0.05)


def test_missing_environment_names_the_command(tmp_path):
    command = [sys.executable, str(PEERS / "compare.py"), "--only", "river", "--python", str(tmp_path / "nowhere")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.rstrip().endswith("`make peers` builds it."), done.stderr


def test_requirements_are_pinned_names():
    lines = [line for line in (PEERS / "requirements.txt").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert lines and all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", line) for line in lines), lines
