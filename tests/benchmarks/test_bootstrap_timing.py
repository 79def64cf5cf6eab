"""The bootstrap beside a plain data-frame version: the same numbers, from either."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from wearjax import bench
from wearjax.benchmarks.openmhc import bootstrap_timing
from wearjax.errors import ConfigError

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "pandas_bootstrap.py"
SCENARIOS = ("random_noise", "sleep_gap")


@pytest.fixture(scope="module")
def rival():
    spec = importlib.util.spec_from_file_location("pandas_bootstrap", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.score


def test_both_give_the_same_means_for_the_same_draws(rival):
    table = bootstrap_timing.random_table(n_participants=7, n_methods=3, scenarios=SCENARIOS)
    found = bootstrap_timing.compare(rival, table, 6, 3)
    assert found.largest_difference < 1e-6
    assert found.n_compared == 3 * (2 * (2 + 4 + 2) + 3)  # skill and rank of eight scopes, three fair skills
    assert found.times == pytest.approx(found.rival / found.ours)


def test_the_rivals_numbers_are_looked_at():
    table = bootstrap_timing.random_table(n_participants=7, n_methods=2, scenarios=SCENARIOS)

    def one_off(rival):
        def score(*args):
            answer = rival(*args)
            answer.loc[3, "mean"] += 0.01
            return answer

        return score

    spec = importlib.util.spec_from_file_location("pandas_bootstrap", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(ConfigError, match=r"differ from ours by up to 0.01"):
        bootstrap_timing.compare(one_off(module.score), table, 2, 2)
    with pytest.raises(ConfigError, match="only one program has a mean"):
        bootstrap_timing.compare(lambda *args: module.score(*args).iloc[1:], table, 2, 2)


def test_the_bench_verb_shows_both(rival, monkeypatch):
    small = bootstrap_timing.random_table(n_participants=5, n_methods=2, scenarios=SCENARIOS)
    monkeypatch.setattr(
        bootstrap_timing, "cases", lambda repeats: [bootstrap_timing.Case(small, 4, 2, repeats)]
    )
    ((_, rows),) = bench.run("bootstrap", repeats=1, against=FILE)
    assert rows[0]["participants"] == 5
    assert rows[0]["pandas_bootstrap, s"].endswith("(of 2)")
    with pytest.raises(ConfigError, match="--batch, --dtype: only for models"):
        bench.run("bootstrap", repeats=1, batch_sizes=(2,))
    with pytest.raises(ConfigError, match="--against: only for models"):
        bench.run("masks", repeats=1, against=FILE)
    with pytest.raises(ConfigError, match=r"has no function score\(errors"):
        bench.run("bootstrap", repeats=1, against=Path(__file__))
