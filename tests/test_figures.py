"""Figures of results of every shape: nothing overlaps, nothing is clipped, the same bytes each time, and nothing global changes."""

import re
from itertools import combinations

import matplotlib
import networkx as nx
import numpy as np
import pytest
from PIL import Image

import mnemesh as mm
from mnemesh.errors import RoutingError
from mnemesh.lab import figures, graphs, layouts
from mnemesh.lab.looks import log_places, number, place_name, styles
from mnemesh.lab.panels import plan
from synthetic import PANELS, make, paper, spec

LONG = "DAM-TOGD on Steiner trees with naive ties and a name that goes on until nobody reads it"
MANY = (
    ("ogd", "OGD"), ("dam_togd", "DAM-TOGD"), ("dam_togd", LONG), ("c_dogd", "_C-DOGD for $5 and 5%"), ("local_ogd", "local OGD"), ("ogd", "OGD, c = 0.8"),
    ("c_dogd", "C"), ("local_ogd", "l"), ("dam_togd", "DAM-TOGD, Mehlhorn"),
)  # fmt: skip
RHO, OTHERS = '"stream.correlation" = [0.0, 0.25, 0.5, 0.75, 1.0]', '"interest.others" = [0.1, 2.0, 6.0]'
TREES = 'routing = ["steiner", { name = "steiner", ties = "naive" }, "mehlhorn", "shortest_path"]'


def troubled(place, label, seed, T):
    """Negative for one algorithm, infinite for another."""
    if label == "DAM-TOGD" and place["stream.correlation"] > 0.6 and seed == 2:
        return float("inf")
    return paper(place, label, seed, T) * (-1 if label == "C-DOGD" else 1)


SHAPES = {
    "rounds": (spec("fig1b", seeds=2), paper),
    "swept": (spec("fig1c"), paper),
    "one seed, one horizon": (spec("one", seeds=1, horizons=(2500,)), paper),
    "a grid": (spec("grid", (RHO, OTHERS)), paper),
    "a grid against rounds": (spec("rounds", (RHO, OTHERS), figure='x = "rounds"'), paper),
    "ten panels": (spec("ten", (f'"interest.own" = {list(range(1, 11))}',), figure='x = "rounds"'), paper),
    "many points and algorithms": (spec("many", (f'"stream.correlation" = {np.linspace(0, 1, 41).round(3).tolist()}',), MANY), paper),
    "categories": (spec("trees", (TREES,), MANY), paper),
    "categories in panels": (spec("panels", (TREES, RHO), figure='x = "routing"'), paper),
    "keys that move together": (spec("pairs", ('"stream.correlation" = [0.0, 0.5]\n"interest.others" = [1.0, 1.0]',), figure='x = "interest.others"'), paper),
    "long names": (
        spec("long", ('"stream.correlation" = [0.0, 1.0]\n"interest.own" = [10.0, 20.0]\n"interest.others" = [1.5, 2.5]\n"stream.noise" = [0.125, 0.25]', TREES), figure='x = "routing"'),
        paper,
    ),
    "long rows": (spec("rows", ('"stream.correlation" = [0.0, 1.0]\nloss = ["delta", "linear"]\n"domain.radius" = [100.0, 200.0]',), figure='x = "loss"'), paper),
    "negative and infinite": (spec("troubled", (RHO,)), troubled),
    "negative and infinite on a logarithmic axis": (spec("log", (RHO,), figure='log = ["y"]'), troubled),
    "negative alone": (spec("negative", figure='log = ["x", "y"]'), lambda place, label, seed, T: -float(T)),
    "infinite alone": (spec("infinite"), lambda place, label, seed, T: float("inf")),
    "seventeen decades": (spec("huge"), lambda place, label, seed, T: T * (1e12 * seed if label == "OGD" else 1e-5)),
    "hardly different": (spec("narrow", figure='log = ["x", "y"]'), lambda place, label, seed, T: T * (7.01 + 0.001 * seed)),
}


def texts(drawn):
    """Every text of a figure that is drawn, with what it says."""
    found = [*drawn.texts, *(text for legend in drawn.legends for text in legend.get_texts())]
    for axes in drawn.axes:
        found += [axes.title, axes._left_title, axes._right_title, *axes.texts]
        found += axes.get_legend().get_texts() if axes.get_legend() else []
        for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
            found += [axis.label, axis.offsetText, *(tick.label1 for tick in axis._update_ticks())]
    return [text for text in found if text.get_visible() and text.get_text().strip()]


def check_layout(drawn):
    """No text on another, none off the canvas, no legend on data."""
    drawn.draw_without_rendering()
    wide, high = drawn.bbox.width, drawn.bbox.height
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(drawn)]
    assert boxes
    for words, box in boxes:
        assert box.x0 >= -0.5 and box.y0 >= -0.5 and box.x1 <= wide + 0.5 and box.y1 <= high + 0.5, f"{words!r} leaves the canvas: {box} in {wide} x {high}"
    for (one, a), (other, b) in combinations(boxes, 2):
        apart = a.x1 <= b.x0 + 0.5 or b.x1 <= a.x0 + 0.5 or a.y1 <= b.y0 + 0.5 or b.y1 <= a.y0 + 0.5
        assert apart, f"{one!r} and {other!r} overlap"
    for legend in drawn.legends:
        assert not any(legend.get_window_extent().overlaps(axes.bbox) for axes in drawn.axes)


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_overlaps_and_nothing_is_clipped(shape, tmp_path):
    told, regret = SHAPES[shape]
    drawn = figures.figure(make(tmp_path, told, regret))
    check_layout(drawn)
    for axes in drawn.axes:
        (left, right), (low, high) = sorted(axes.get_xlim()), sorted(axes.get_ylim())
        for line in axes.get_lines():
            x, y = (np.asarray(values, dtype=float) for values in line.get_data())
            if len(x) > 2 and line.get_label() != "_nolegend_":  # the caps of intervals that run off the axis lie beyond it
                assert (x >= left).all() and (x <= right).all() and (y >= low).all() and (y <= high).all()


def test_what_cannot_be_drawn_is_said(tmp_path):
    assert plan(make(tmp_path / "a", *SHAPES["negative and infinite"])).notes == (
        "Not drawn: DAM-TOGD where a run diverged (in up to 1 of 5 seeds).",
    )
    on_log = plan(make(tmp_path / "b", *SHAPES["negative and infinite on a logarithmic axis"]))
    assert on_log.log == ("y",) and "C-DOGD where mean regret is zero or negative" in on_log.notes[1]
    assert plan(make(tmp_path / "c", *SHAPES["negative alone"])).log == ("x",)
    assert plan(make(tmp_path / "d", *SHAPES["one seed, one horizon"])).notes == ("One seed: no intervals.",)
    many = figures.figure(make(tmp_path / "e", spec("many", (f'"interest.own" = {list(range(1, 41))}',), seeds=1, horizons=(10, 2500), figure='x = "rounds"')))
    assert len(many.axes) == 36 and "first 36 of 40" in many._supxlabel.get_text()


@pytest.mark.parametrize("name", ["fig1b", "fig1c", "trees"])
def test_an_interval_that_reaches_zero_runs_off_a_logarithmic_axis_without_an_end_of_its_own(name, tmp_path):
    """One seed of five is a hundred times the others: the interval of OGD's mean reaches below zero, and no end is invented for it."""

    def wide(place, label, seed, T):
        return paper(place, label, seed, T) * (100.0 if (seed, label) == (1, "OGD") else 1.0)

    results = make(tmp_path, spec(name, (TREES,) if name == "trees" else None, figure='log = ["y"]'), wide)
    shown = plan(results)
    assert (shown.panels[0].curves["OGD"].low < 0).all() and (shown.panels[0].curves["C-DOGD"].low > 0).all()
    (note,) = shown.notes
    assert "interval of OGD that runs off the axis" in note and "zero or below" in note
    drawn = figures.figure(results)
    axes = drawn.axes[0]
    edge = min(axes.get_ylim() if shown.ordered else axes.get_xlim())
    least = min(curve.mean.min() for curve in shown.panels[0].curves.values())
    assert 0.02 * least < edge < least  # the axis is that of the means
    along = 1 if shown.ordered else 0
    colour = matplotlib.colors.to_rgb(styles(results.spec.algorithms, ("OGD",))["OGD"].colour)
    bars = [each for each in axes.collections if tuple(each.get_edgecolor()[0][:3] if name != "fig1b" else each.get_facecolor()[0][:3]) == colour]
    assert bars
    for path in (path for each in bars for path in each.get_paths()):
        assert path.vertices[:, along].min() <= edge  # all the way
    caps = [line.get_data()[along] for line in axes.get_lines() if line.get_label() == "_nolegend_" and matplotlib.colors.to_rgb(line.get_color()) == colour]
    assert not any(edge <= end < mean for ends in caps for end in ends for mean in [shown.panels[0].curves["OGD"].mean.min()])


def test_axes_are_found_where_the_spec_leaves_them_open(tmp_path):
    assert plan(make(tmp_path / "b", spec())).x == "rounds"
    swept = plan(make(tmp_path / "c", spec("c", (TREES, RHO))))
    assert (swept.x, swept.ordered, len(swept.panels)) == ("stream.correlation", True, 4)
    words = plan(make(tmp_path / "d", spec("d", (TREES,))))
    assert (words.x, words.ordered, words.log) == ("routing", False, ())
    assert next(iter(words.panels[0].curves.values())).x[:2] == ("steiner", "steiner(ties='naive')")


def test_a_panel_shows_means_and_intervals(tmp_path):
    results = make(tmp_path, spec("fig1c"))
    axes = figures.figure(results).axes[0]
    line = next(line for line in axes.get_lines() if line.get_label() == "C-DOGD")
    values = np.array([[paper({"stream.correlation": rho}, "C-DOGD", seed, 2500) / 2500 for seed in results.spec.seed_list] for rho in line.get_xdata()])
    np.testing.assert_allclose(line.get_ydata(), values.mean(1))
    assert axes.get_yscale() == "log" and axes.get_xlabel() == r"correlation $\rho$"


def test_files_are_the_same_bytes_each_time_and_nothing_global_changes(tmp_path):
    results = make(tmp_path / "c", spec("fig1c"))
    with matplotlib.rc_context():
        matplotlib.rcParams["font.size"] = 3.0  # a reader's own settings: neither used nor lost
        before = dict(matplotlib.rcParams)
        first = figures.draw(results)
        assert dict(matplotlib.rcParams) == before
    again = figures.draw(results, tmp_path / "again")
    assert [path.name for path in first] == [path.name for path in again] == ["fig1c.png", "fig1c.svg", "fig1c.pdf"]
    assert all(one.read_bytes() == other.read_bytes() for one, other in zip(first, again, strict=True))
    with Image.open(first[0]) as drawn:
        assert drawn.info["dpi"] == pytest.approx((200, 200), abs=0.1) and drawn.width > 1000


def test_algorithms_look_alike_everywhere_and_differ_in_grey():
    told = spec("x", (), MANY)
    looks = styles(told.algorithms, tuple(label for _, label in MANY))
    assert len({(style.marker, str(style.line)) for style in looks.values()}) == len(MANY)  # without any colour
    assert styles(told.algorithms, ("DAM-TOGD",))["DAM-TOGD"] == looks["DAM-TOGD"]
    few = spec("y", (), ("local_ogd", "c_dogd"))
    assert styles(few.algorithms, ("local OGD",))["local OGD"] == looks["local OGD"]


def test_figure_1_has_four_panels_and_the_paper_s_horizon(tmp_path):
    results = dict(zip("bcd", (make(tmp_path / name, spec(name)) for name in PANELS), strict=True))
    graph, trees = network()
    drawn = figures.figure1(graph, trees, results)
    check_layout(drawn)
    assert [axes.get_title(loc="left")[:3] for axes in drawn.axes] == ["(a)", "(b)", "(c)", "(d)"]
    assert any(list(line.get_xdata()) == [2500, 2500] for line in drawn.axes[1].get_lines())


def test_a_figure_is_described_in_words(tmp_path):
    ends = [np.mean([paper({"stream.correlation": rho}, "C-DOGD", seed, 2500) / 2500 for seed in (1, 2, 3, 4, 5)]) for rho in (0.0, 1.0)]
    words = figures.described(make(tmp_path / "c", spec("fig1c")))
    assert words.startswith("Regret per round against stream.correlation, regret logarithmic, means over 5 seeds. OGD goes from ")
    assert f"C-DOGD goes from {ends[0]:.3g} at 0.0 to {ends[1]:.3g} at 1.0." in words
    against = figures.described(make(tmp_path / "b", spec("fig1b", seeds=1)))
    assert "against T on logarithmic axes, one seed. OGD goes from" in against and "at 5000; " in against
    assert "inf" not in figures.described(make(tmp_path / "i", *SHAPES["infinite alone"]))
    assert "OGD is 5." in figures.described(make(tmp_path / "o", *SHAPES["one seed, one horizon"]))


def test_trees_are_compared_where_there_are_several(tmp_path):
    delays = {"DAM a": 4.0, "DAM b": 7.0}
    told = spec("trade", (OTHERS,), (("dam_togd", "DAM a"), ("dam_togd", "DAM b"), ("c_dogd", "C-DOGD")))
    drawn = figures.traffic_figure(make(tmp_path / "t", told, delay_mean=lambda place, label, *_: delays.get(label)))
    check_layout(drawn)
    assert all(float(tick).is_integer() for tick in drawn.axes[2].get_xticks())
    assert len(drawn.axes) == 3 and [text.get_text() for text in drawn.legends[0].get_texts()] == ["DAM a", "DAM b"]
    assert figures.traffic_figure(make(tmp_path / "c", spec("fig1c"))) is None


def network():
    graph = mm.topology.default()
    return graph, mm.routing.steiner(graph, mm.interest.dirichlet(20, own=10.0, others=2.0, seed=1))


@pytest.mark.parametrize("graph", [mm.topology.default(), mm.topology.ring(12), mm.topology.grid(5, 6), mm.topology.star(9), mm.topology.line(1), mm.topology.line(2)])
def test_agents_on_a_network_do_not_hide_each_other(graph):
    agents = graph.number_of_nodes()
    drawn = graphs.graph_figure(graph, mm.routing.steiner(graph, mm.interest.uniform(agents)), root=agents - 1)
    check_layout(drawn)
    placed = [text for text in drawn.axes[0].texts if text.get_text().isdigit()]
    assert sorted(int(text.get_text()) for text in placed) == list(range(agents))


def test_layouts_hold_no_chance_and_large_networks_are_drawn():
    graph = nx.Graph(mm.topology.ring(9).edges)
    assert layouts.positions(graph) == layouts.positions(graph.copy())
    large = mm.topology.small_world(150, seed=1)
    check_layout(graphs.graph_figure(large, mm.routing.shortest_path(large, mm.interest.scattered(150, count=3, seed=1))))
    at = layouts.positions(large)
    assert at[0] == (0.0, 0.0)  # the root, and rings of agents about it
    hops = nx.single_source_shortest_path_length(large, 0)
    assert all(np.hypot(*at[node]) == pytest.approx(hops[node]) for node in large)
    assert len({(round(x, 6), round(y, 6)) for x, y in at.values()}) == 150


@pytest.mark.parametrize("agents", [5, 60, 300])
def test_a_ring_is_a_circle_a_star_has_its_hub_in_the_middle_and_a_line_is_straight_or_folded(agents):
    ring = layouts.positions(mm.topology.ring(agents))
    assert {round(float(np.hypot(*place)), 9) for place in ring.values()} == {1.0}
    step = 2 * np.sin(np.pi / agents)
    assert all(np.hypot(*np.subtract(ring[a], ring[b])) == pytest.approx(step) for a, b in mm.topology.ring(agents).edges)
    star = layouts.positions(mm.topology.star(agents))
    assert star[0] == (0.0, 0.0) and {round(float(np.hypot(*star[node])), 9) for node in range(1, agents)} == {1.0}
    line = layouts.positions(mm.topology.line(agents))
    gaps = [np.abs(np.subtract(line[a], line[b])).tolist() for a, b in mm.topology.line(agents).edges]
    assert all(gap in ([1.0, 0.0], [0.0, 2.0]) for gap in gaps) and ([0.0, 2.0] in gaps) == (agents > 20)


@pytest.mark.parametrize(("graph", "root"), [(mm.topology.ring(60), 3), (mm.topology.ring(300), 17), (mm.topology.line(60), 33), (mm.topology.grid(8, 16), 5)])
def test_many_delays_share_shades_and_the_legend_holds_root_tree_and_links(graph, root):
    agents = graph.number_of_nodes()
    trees = mm.routing.shortest_path(graph, mm.interest.uniform(agents))
    drawn = graphs.graph_figure(graph, trees, root)
    check_layout(drawn)
    words = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert words[0] == f"agent {root}, the root" and words[-2:] == ["the tree", "other links"] and len(words) == 11
    delays = trees.delays[trees.starts[root] : trees.starts[root + 1]]
    ends = [int(number) for text in words[1:-2] for number in re.findall(r"\d+", text)]
    assert ends == sorted(ends) and (ends[0], ends[-1]) == (delays[delays > 0].min(), delays.max())
    assert str(root) in [text.get_text() for text in drawn.axes[0].texts]

def test_an_agent_that_is_not_there_has_no_tree():
    graph, trees = network()
    with pytest.raises(RoutingError, match=r"no agent 20 among 0\.\.19"):
        graphs.graph_figure(graph, trees, root=20)


def test_the_routes_table_counts_what_the_trees_count():
    graph, trees = network()
    (row,) = graphs.routes_table(trees).records()
    assert row["mean delay"] == pytest.approx(trees.delay.mean()) and row["longest"] == trees.delay.max()
    assert row["by interest"] == pytest.approx((np.asarray(trees.interest) * trees.delay).sum(1).mean())
    assert row["queries"] == row["replies, joined"] == 20 * 19 and row["replies, single"] == trees.delay.sum() / 2
    assert row["busiest link"] == max(trees.load().values())
    naive = mm.routing.steiner(graph, trees.interest, ties="naive")
    assert graphs.routes_table({"near": trees, "naive": naive}).column("trees") == ("near", "naive")


@pytest.mark.parametrize(("value", "words"), [(2500.0, "2,500"), (0.125, "0.125"), (0.30000000000000004, "0.3"), (-20.0, "\N{MINUS SIGN}20"), (1e7, "$10^{7}$"), (2e-6, r"$2\times 10^{-6}$")])
def test_ticks_are_plain_numbers_where_they_can_be(value, words):
    assert number(value) == words


def test_ticks_of_logarithmic_axes_lie_within_and_thin_out():
    choices = log_places(3.0, 6000.0)
    assert choices[0] == [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0] and choices[-1] == [10.0, 100.0, 1000.0]
    assert log_places(3.0, 4.0) == []
    assert place_name({"stream.correlation": 0.5, "stream.key_dim": 4}) == r"$\rho$ = 0.5, $d_k$ = 4"
    assert place_name({"topology.agents": 50, "topology.radius": 0.25, "stream.correlation": 0.5}, 30) == "$N$ = 50,\ntopology.radius = 0.25,\n$\\rho$ = 0.5"
