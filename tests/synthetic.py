"""Results without a sweep: tables of the same columns, filled by a function that the test knows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow

from mnemesh.lab import record
from mnemesh.lab.points import shown
from mnemesh.lab.record import Results
from mnemesh.lab.spec import Spec, parse

PAPER = ("ogd", "dam_togd", "c_dogd")
LABELS = {"ogd": "OGD", "dam_togd": "DAM-TOGD", "c_dogd": "C-DOGD", "local_ogd": "local OGD"}
PANELS = {
    "fig1b": "",
    "fig1c": '"stream.correlation" = [0.0, 0.25, 0.5, 0.75, 1.0]',
    "fig1d": '"interest.others" = [0.1, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0]',
}
Regret = Callable[[dict[str, Any], str, int, int], float]


def spec(name: str = "fig1b", axes: tuple[str, ...] | None = None, algorithms: tuple[str, ...] = PAPER, **settings: Any) -> Spec:
    """A small spec; `axes` are TOML lines, one per axis of the sweep, and `algorithms` names or (name, label) pairs."""
    pairs = [(given, LABELS.get(given, given)) if isinstance(given, str) else given for given in algorithms]
    lines = "".join(f'[[algorithms]]\nname = "{kind}"\nlabel = {label!r}\n' for kind, label in pairs)
    axes = axes if axes is not None else tuple(filter(None, (PANELS.get(name, ""),)))
    swept = "".join(f"[[sweep]]\n{axis}\n" for axis in axes)
    world = 'topology = "default"\ninterest = { name = "dirichlet", own = 10.0, others = 2.0 }\n'
    world += 'stream = { name = "teacher", key_dim = 10, value_dim = 10, correlation = 0.75 }\n'
    figure = settings.pop("figure", None)
    top = {"title": "A study", "rounds": 5000 if name == "fig1b" else 2500, "seeds": 5, **settings}
    told = "".join(f"{key} = {list(value) if isinstance(value, tuple) else value!r}\n" for key, value in top.items())
    return parse(f"name = {name!r}\n{told}{world}{lines}{swept}" + (f"[figure]\n{figure}\n" if figure else ""))


def paper(place: dict[str, Any], label: str, seed: int, horizon: int) -> float:
    """Regret as in the paper's Figure 1: everything that the findings ask for holds, with room."""
    noise = 1 + 0.02 * np.cos(7.0 * seed + len(label))
    rho, others = place.get("stream.correlation", 0.75), place.get("interest.others", 2.0)
    if label == "C-DOGD":
        per_round = (6 + 200 * (1 - rho) ** 2 / (1 + others)) * (2500 / horizon) ** 0.1
    else:
        per_round = {"OGD": 5.0, "DAM-TOGD": 6.0}.get(label, 60.0) * (2500 / horizon) ** 0.8
    return float(noise * per_round * horizon)


def make(folder: Path, told: Spec, regret: Regret = paper, **columns: Regret) -> Results:
    """The results of a spec whose cumulative regret is regret(place, label, seed, horizon), written and read again."""
    axes = [[dict(axis.place(i)) for i in range(len(axis))] for axis in told.sweep]
    rows, tried = [], []
    for point, parts in enumerate(product(*axes)):
        place = {key: shown(value) for part in parts for key, value in part.items()}
        for line, seed in product(told.algorithms, told.seed_list):
            rows += [_row(point, place, line.called, seed, int(T), regret, columns) for T in told.horizon_list]
        for line, c, seed in product(told.algorithms, (0.4, 0.8, 1.6), told.tuning_seeds):
            lost = regret(place, line.called, seed, told.tuning_rounds) * (1 + abs(np.log2(c / 0.8)))
            tried.append({"point": point, **place, "algorithm": line.called, "c": c, "seed": seed, "regret": lost, "chosen": c == 0.8})
    folder.mkdir(parents=True, exist_ok=True)
    versions = {"python": "3.11.0", "mnemesh": "0.1.0", "numpy": "2.0.0"}
    record.save(folder / "results.parquet", pyarrow.Table.from_pylist(rows), "results", told, versions)
    record.save(folder / "tuning.parquet", pyarrow.Table.from_pylist(tried), "tuning", told, versions)
    return record.open_results(folder)


def _row(point: int, place: dict[str, Any], label: str, seed: int, T: int, regret: Regret, columns: dict[str, Regret]) -> dict[str, Any]:
    lost = float(regret(place, label, seed, T))
    trees, consensus = label.startswith("DAM"), label.startswith("C-DOGD")
    row = {"point": point, **place, "algorithm": label, "seed": seed, "c": 0.8, "engine": "agents", "horizon": T, "regret": lost}
    row |= {"regret_per_round": lost / T, "cumulative_loss": lost + 10.0 * T, "comparator": 10.0 * T, "per_agent": [lost / 4] * 4}
    bound = None if consensus else 1e4 * T
    row |= {"bound_printed": None if bound is None else 1e4 * bound, "bound_repaired": None if bound is None else 3 * bound, "bound_sharp": bound}
    delays = {"delay_mean": 5.0, "delay_weighted": 4.0 + 0.01 * seed, "delay_max": 12, "queries": 380, "replies_aggregated": 380, "replies_single": 950}
    row |= {name: value if trees else None for name, value in delays.items()}
    row |= {"messages": 1710 if trees else 98 if consensus else None, "busiest_link": 44 if trees else None}
    return row | {name: given(place, label, seed, T) for name, given in columns.items()}
