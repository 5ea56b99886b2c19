"""Draws regret.svg: regret per round against T under four algorithms, each at its best c of c/√(t − τ_min) on mm.tuning.GRID."""

from pathlib import Path

import numpy as np

import mnemesh as mm

WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, TOP = 640, 360, 60, 46, 150, 16
ROUNDS = 10_000


def curves() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Horizons and network regret per round of each algorithm."""
    graph = mm.topology.random_geometric(20, radius=0.35, seed=1)
    interest = mm.interest.dirichlet(20, own=10.0, others=2.0, seed=1)
    stream = mm.streams.teacher(agents=20, key_dim=10, value_dim=10, rounds=ROUNDS, correlation=0.75, seed=1)
    problem = mm.Problem("delta", mm.domains.ball(200.0), interest)
    trees = mm.routing.steiner(graph, interest)
    learners = {
        "local OGD": mm.algorithms.local_ogd(step=mm.steps.inverse_sqrt(0.05)),
        "C-DOGD": mm.algorithms.c_dogd(graph, step=mm.steps.inverse_sqrt(0.8)),
        "DAM-TOGD": mm.algorithms.dam_togd(trees, step=mm.steps.inverse_sqrt(0.8)),
        "OGD, full information": mm.algorithms.ogd(step=mm.steps.inverse_sqrt(0.8)),
    }
    horizons = np.unique(np.geomspace(50, ROUNDS, 25).astype(int))
    scores = {name: mm.regret.static(problem, stream, mm.simulate(problem, learner, stream), horizons=horizons) for name, learner in learners.items()}
    return {name: (score.horizons, score.total / score.horizons) for name, score in scores.items()}


def draw(lines: dict[str, tuple[np.ndarray, np.ndarray]]) -> str:
    """An SVG with logarithmic axes."""
    low, high = 1.0, 10 ** np.ceil(np.log10(max(y.max() for _, y in lines.values())))
    start, end = 50, ROUNDS

    def place(x: float, y: float) -> tuple[float, float]:
        across = np.log(x / start) / np.log(end / start) * (WIDTH - LEFT - RIGHT)
        up = np.log(y / low) / np.log(high / low) * (HEIGHT - TOP - BOTTOM)
        return round(LEFT + across, 1), round(HEIGHT - BOTTOM - up, 1)

    style = "font-family='sans-serif' font-size='13'"
    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' {style}>", "<rect width='100%' height='100%' fill='white'/>"]
    for y in 10 ** np.arange(np.log10(low), np.log10(high) + 1):
        (x1, y1), (x2, _) = place(start, y), place(end, y)
        parts.append(f"<path d='M{x1} {y1}H{x2}' stroke='#ddd'/><text x='{x1 - 8}' y='{y1 + 4}' text-anchor='end'>{y:,g}</text>")
    for x in (100, 1_000, 10_000):
        at, bottom = place(x, low)
        parts.append(f"<path d='M{at} {bottom}v5' stroke='#555'/><text x='{at}' y='{bottom + 20}' text-anchor='middle'>{x:,}</text>")
    parts.append(f"<text x='{(LEFT + WIDTH - RIGHT) / 2}' y='{HEIGHT - 6}' text-anchor='middle'>rounds T</text>")
    parts.append(f"<text transform='translate(16 {HEIGHT / 2}) rotate(-90)' text-anchor='middle'>Reg(T) / T</text>")
    above = 0.0
    for (name, (x, y)), colour in zip(lines.items(), ("#777777", "#d55e00", "#0072b2", "#009e73"), strict=True):
        points = [place(*point) for point in zip(x, y, strict=True)]
        parts.append(f"<polyline points='{' '.join(f'{a},{b}' for a, b in points)}' fill='none' stroke='{colour}' stroke-width='2'/>")
        above = max(points[-1][1] + 4, above + 17)  # names do not overlap
        parts.append(f"<text x='{points[-1][0] + 6}' y='{above:.1f}' fill='{colour}'>{name}</text>")
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(draw(curves()), encoding="utf-8")
