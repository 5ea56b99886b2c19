"""A network under a schedule of failures, watched in every period by rules that know nothing of how the protocol keeps them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import networkx
import numpy as np

import mnemesh as mm
from mnemesh.live.books import FATES
from mnemesh.live.mesh import Mesh

__all__ = ["Watched", "schedule", "watch", "world"]

RATE, RADIUS = 0.05, 20.0
KINDS = ("ring", "line", "star", "geometric")


def world(seed: int) -> tuple[np.random.Generator, Any, mm.Problem]:
    """A generator, a graph of four to eight agents, and a problem on it."""
    rng = np.random.default_rng(seed)
    agents = int(rng.integers(4, 9))
    make = {"ring": mm.topology.ring, "line": mm.topology.line, "star": mm.topology.star}
    kind = KINDS[seed % 4]
    graph = mm.topology.random_geometric(agents, radius=0.6, seed=seed) if kind == "geometric" else make[kind](agents)
    dense = rng.random() < 0.5
    interest = mm.interest.dirichlet(agents, own=4.0, others=1.0, seed=seed) if dense else mm.interest.nearest(graph, min(3, agents - 1))
    return rng, graph, mm.Problem("delta", mm.domains.ball(RADIUS), interest)


def schedule(rng: np.random.Generator, graph: Any, until: int) -> dict[str, Any]:
    """What goes wrong up to a period: arguments of Mesh.faults."""
    agents, links = graph.number_of_nodes(), list(graph.edges)

    def span(*who: Any) -> tuple[Any, ...]:
        first = int(rng.integers(2, until - 5))
        return (*who, first, min(until, first + int(rng.integers(1, 15))))

    return {
        "loss": float(rng.choice([0, 0.05, 0.2])),
        "delay": int(rng.choice([0, 1, 3])),
        "duplicate": float(rng.choice([0, 0.1])),
        "corrupt": float(rng.choice([0, 0.05])),
        "cuts": [span(*(str(n) for n in links[i])) for i in rng.integers(0, len(links), rng.integers(0, 3))],
        "crashes": [span(str(n)) for n in rng.integers(0, agents, rng.integers(0, 3))],
        "pauses": [span(str(n)) for n in rng.integers(0, agents, rng.integers(0, 2))],
        "partitions": [span([str(n) for n in range(agents // 2)])] if rng.random() < 0.3 else [],
    }


@dataclass
class Watched:
    """What was seen of a run."""

    mesh: Mesh
    healed: int = 0  # R: the largest round made when nothing was wrong any more
    played: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)  # X of (agent, round)
    samples: dict[tuple[int, int], Any] = field(default_factory=dict)
    heard: dict[tuple[int, int], set[int]] = field(default_factory=dict)  # whose terms were applied in (agent, round)
    learned: Counter[bytes] = field(default_factory=Counter)  # how often each association was played
    losses: dict[tuple[int, int], float] = field(default_factory=dict)

    @property
    def recovered(self) -> int:
        """The round from which on every root hears of every partner."""
        trees = mm.routing.steiner(self.mesh.graph, self.mesh.problem.interest)
        return self.healed + 2 * int(trees.delays.max()) + networkx.diameter(self.mesh.graph)

    def unheard(self) -> list[tuple[int, int, set[int]]]:
        """Rounds past recovery in which a root lacked a term of some partner."""
        found = []
        for (n, r), came in sorted(self.heard.items()):
            missing = set(self.mesh.problem.interest.row(n)[0].tolist()) - {n} - came
            if r >= self.recovered and missing:
                found.append((n, r, missing))
        return found


def watch(seed: int, *, until: int = 50, after: int = 60, **settings: Any) -> Watched:
    """Play schedule `seed` on world `seed`, everybody learning in every period; the rules are asserted as it goes."""
    rng, graph, problem = world(seed)
    mesh = Mesh(problem, graph, step=mm.steps.constant(RATE), key_dim=2, value_dim=2, dtype="float64", **settings)
    faults = mesh.faults(seed, until=until, **schedule(rng, graph, until))
    agents = range(problem.agents)
    last = dict.fromkeys(agents, 0)
    seen = Watched(mesh)
    teacher = 2 * rng.normal(size=(2, 2))
    for _ in range(until + after):
        mesh.learn({str(n): (key, teacher @ key + rng.normal(size=2)) for n in agents for key in [rng.uniform(-1, 1, 2)]})
        for name, report in mesh.reports.items():
            n = int(name)
            assert report.round > last[n], f"seed {seed}: agent {n} made round {report.round} after {last[n]}"
            last[n] = report.round
            _note(seen, n, report)
        ledger = mesh.ledger
        closed = sum(ledger[fate] for fate in FATES[1:])
        assert (ledger["launched"] == closed + ledger["in_flight"]).all(), f"seed {seed}: books that do not add up in period {mesh.period}"
        assert mesh.rounds.max() <= mesh.period + 8, f"seed {seed}: rounds run ahead of time"
        if not seen.healed and mesh.period > faults.healed + faults.delay:
            seen.healed = int(mesh.rounds.max())
    return seen


def _note(seen: Watched, n: int, report: Any) -> None:
    """Keep what agent n played, and hold every sum that it applied against the losses that it is a sum of."""
    mesh = seen.mesh
    sample = mesh.sample_of(str(n), report.round)
    seen.played[n, report.round], seen.samples[n, report.round] = report.memory, sample
    seen.learned.update(feature.tobytes() + value.tobytes() for feature, value in zip(sample.features, sample.values, strict=True))
    seen.heard[n, report.round] = set()
    weights = dict(zip(*(part.tolist() for part in mesh.problem.interest.row(n)), strict=True))
    wrong = sample.features @ report.memory.T - sample.values
    descent = weights.get(n, 0.0) * wrong.T @ sample.features / max(len(wrong), 1)
    for reply in report.replies:
        expected = np.zeros(mesh.shape)
        loss = 0.0
        for m, stamp in reply.terms:
            theirs, iterate = seen.samples[m, stamp], seen.played[n, stamp]
            wrong = theirs.features @ iterate.T - theirs.values
            expected += weights[m] * wrong.T @ theirs.features / max(len(wrong), 1)
            loss += weights[m] * 0.5 * float((wrong**2).sum()) / max(len(wrong), 1)
            seen.heard[n, report.round].add(m)
        payload = reply.payload
        found = payload.dense if payload.dense is not None else payload.residuals.T @ payload.features
        np.testing.assert_allclose(found, expected, atol=1e-11)
        assert abs(reply.loss - loss) < 1e-9
        descent = descent + expected
    after = report.memory - RATE * descent
    size = np.linalg.norm(after)
    np.testing.assert_allclose(mesh.memories[n], after * min(1.0, RADIUS / size) if size else after, atol=1e-11)
