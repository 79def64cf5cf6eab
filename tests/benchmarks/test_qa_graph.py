"""Stored computations, what they read, and their perturbed readings."""

from __future__ import annotations

import json

import numpy as np
import pytest
from made_daily import END, made, pair_graph, person, window_leaf

from wearjax.benchmarks.wearableqa import reads, seeds, variants, windows
from wearjax.benchmarks.wearableqa.graph import Graph, Leaf, Node, evaluate, evaluate_many
from wearjax.errors import ConfigError
from wearjax.sources.daily_record import BloodValue, Demographics


def somebody(**options):
    rng = np.random.default_rng(5)
    return person("p", {"rhr": 60 + rng.standard_normal(200), "steps": np.arange(200.0)}, **options)


def baseline_graph() -> Graph:
    """Median of the window in units of the baseline."""
    leaves = {"w": window_leaf("rhr"), "b": Leaf("series", "rhr", *windows.baseline_range(), "baseline")}
    nodes = (
        Node("m", "median", ("b",)),
        Node("s", "scale", ("b",)),
        Node("z", "robust_z", ("w", "m", "s")),
        Node("key", "median", ("z",)),
    )
    return Graph(leaves, nodes, "key")


def test_a_graph_survives_its_json_with_its_digest():
    graph = baseline_graph()
    again = Graph.from_json(json.loads(json.dumps(graph.to_json())))
    assert again.digest() == graph.digest() != pair_graph("rhr", "steps").digest()
    assert pair_graph("rhr", "steps").program == pair_graph("hrv", "steps").program


def test_graphs_refuse_what_they_cannot_compute():
    with pytest.raises(ConfigError, match="no primitive 'guess'"):
        Graph({"a": window_leaf("rhr")}, (Node("x", "guess", ("a",)),), "x")
    with pytest.raises(ConfigError, match="neither from a leaf"):
        Graph({"a": window_leaf("rhr")}, (Node("x", "mean", ("b",)),), "x")
    with pytest.raises(ConfigError, match="no daily metric"):
        reads.read(Graph({"a": window_leaf("mood")}, (), "a"), somebody(), END)


def test_reads_see_the_window_only_through_window_leaves():
    someone = somebody()
    graph = Graph(
        {
            "late": window_leaf("steps", 2),
            "early": window_leaf("steps", -1),
            "history": Leaf("series", "steps", -1, 2, "history"),
            "future": Leaf("series", "steps", 1, 2, "future"),
        },
        (),
        "late",
    )
    found = reads.read(graph, someone, END - 10)  # steps are 162…189 in the window
    np.testing.assert_array_equal(found["late"][0], [*range(164, 190), np.nan, np.nan])
    np.testing.assert_array_equal(found["early"][0], [np.nan, *range(162, 189)])
    np.testing.assert_array_equal(found["history"][0], [188, 189, np.nan, np.nan])
    np.testing.assert_array_equal(found["future"][0], [190, 191])


def test_reads_of_single_numbers():
    someone = somebody(
        demographics=Demographics(age=40, sex="Female"), blood={"ldl": BloodValue(3.1, "mmol/L")}
    )
    leaves = {name: Leaf("profile", name) for name in ("age", "sex", "bmi")}
    leaves |= {
        "ldl": Leaf("blood", "ldl"),
        "tsh": Leaf("blood", "tsh"),
        "c": Leaf("cohort", "rhr", statistic="p25"),
    }
    found = {name: value[0, 0] for name, value in reads.read(Graph(leaves, (), "age"), someone, END).items()}
    assert (found["age"], found["sex"], found["ldl"]) == (40, 0, 3.1)
    assert np.isnan([found["bmi"], found["tsh"], found["c"]]).all()


def test_an_answer_is_verified_against_the_record():
    someone, graph = somebody(), baseline_graph()
    key = tuple(evaluate(graph, reads.read(graph, someone, END))[0])
    assert reads.verify(graph, key, someone, END)
    assert not reads.verify(graph, (key[0] + 1e-6,), someone, END)
    assert not reads.verify(graph, key, someone, END - 1)


def test_many_graphs_answer_as_one_by_one():
    someone = somebody()
    graphs = [
        baseline_graph(),
        pair_graph("rhr", "steps"),
        pair_graph("steps", "rhr", 2),
        pair_graph("rhr", "rhr"),
    ]
    values = [
        variants.read(g, someone, END, variants.of(made(someone, g, (0.0,), resample="days"))) for g in graphs
    ]
    for graph, value, found in zip(graphs, values, evaluate_many(graphs, values), strict=True):
        np.testing.assert_array_equal(found, evaluate(graph, value))


@pytest.mark.parametrize("resample", ["days", "blocks", "jitter", "baseline", "none"])
def test_variants_are_thirty_resamples_every_deletion_and_two_baselines(resample):
    someone = somebody()
    how = variants.of(made(someone, baseline_graph(), (0.0,), resample=resample))
    assert how.kind.count("resample") == (0 if resample == "none" else 30)
    assert (how.kind.count("deletion"), how.kind.count("baseline"), how.kind[0]) == (28, 2, "as_is")
    np.testing.assert_array_equal(how.rows[0], np.arange(28))
    drawn = how.rows[how.of_kind("resample")]
    if resample == "days":
        assert drawn[:, :14].max() < 14 <= drawn[:, 14:].min()
    elif resample == "blocks":
        blocks = drawn.reshape(30, 7, 4)
        assert (np.diff(blocks, axis=2) == 1).all()
        assert (np.diff(blocks[:, :, 0], axis=1) >= 0).all()
    elif resample == "jitter":
        assert ((drawn == -1).sum(axis=1) == 3).all()
    elif resample == "baseline":
        assert (drawn == np.arange(28)).all()
        assert len({tuple(rows) for rows in how.baseline_rows[how.of_kind("resample")]}) == 30
    deleted = how.rows[how.of_kind("deletion")]
    assert [row.tolist().index(-1) for row in deleted] == list(range(28))


def test_variants_follow_from_the_question_alone():
    someone = somebody()
    first, again = (variants.of(made(someone, pair_graph("rhr", "steps"), (1.0,))) for _ in range(2))
    other = variants.of(made(someone, pair_graph("rhr", "steps"), (1.0,), end=END - 14))
    np.testing.assert_array_equal(first.rows, again.rows)
    assert not np.array_equal(first.rows, other.rows)
    assert 0 <= seeds.seed_of("u", "t", 3, "x") < 2**64
    assert seeds.seed_of("u", "t", 3, "x") != seeds.seed_of("u", "t", 3, "x", version=f"{seeds.VERSION}+")


def test_resampled_lags_stay_together():
    someone = person("p", {"rhr": np.arange(28.0), "steps": np.arange(28.0)})
    graph = pair_graph("rhr", "steps", 2)
    values = variants.read(graph, someone, END, variants.of(made(someone, graph, (1.0,))))
    gap = values["b"] - values["a"]
    assert (gap[np.isfinite(gap)] == 2).all()
    assert np.isfinite(gap).any(axis=1).all()


def test_baselines_are_read_again_and_must_be_measured():
    days = 60 + np.arange(140.0) % 7
    someone = person("p", {"rhr": days})
    graph = baseline_graph()
    how = variants.of(made(someone, graph, (0.0,), resample="none"))
    values = variants.read(graph, someone, END, how)["b"]
    measured = np.isfinite(values).sum(axis=1)
    np.testing.assert_array_equal(measured[[0, -2, -1]], [84, 56, 112])
    np.testing.assert_array_equal(values[0, -84:], reads.read(graph, someone, END)["b"][0])
    short = person("p", {"rhr": days[-28 - 66 :]})  # 66 of 112 are too few, 66 of 84 enough
    measured = np.isfinite(variants.read(graph, short, END, how)["b"]).sum(axis=1)
    np.testing.assert_array_equal(measured[[0, -2, -1]], [66, 56, 0])


def test_leaves_of_other_days_cannot_be_perturbed():
    someone = somebody()
    for leaf in (Leaf("series", "rhr", -40, -20, "window"), Leaf("series", "rhr", -55, -28, "baseline")):
        graph = Graph({"a": leaf}, (Node("x", "mean", ("a",)),), "x")
        with pytest.raises(ConfigError, match="of group"):
            variants.read(graph, someone, END, variants.of(made(someone, graph, (0.0,))))


def test_a_half_is_read_from_the_perturbed_window():
    someone = somebody()
    graph = Graph({"a": Leaf("series", "steps", *windows.SECOND_HALF, "window")}, (), "a")
    how = variants.of(made(someone, graph, (0.0,)))
    values = variants.read(graph, someone, END, how)["a"]
    assert np.isnan(values[how.of_kind("deletion")][14, 0])
    assert np.isfinite(values[how.of_kind("deletion")][:14]).all()


def test_end_dates_step_back_by_two_weeks_where_something_is_measured():
    someone = somebody()
    assert list(windows.end_dates(someone.record)) == [END - 14 * k for k in range(12)]
    gap = np.full(80, 60.0)
    gap[32:60] = np.nan
    ends = list(windows.end_dates(person("p", {"rhr": gap}).record))
    assert ends == [END - 42]
    for end in ends:
        assert windows.valid_metrics(person("p", {"rhr": gap}).record, end) == ("rhr",)
