"""The example method of the documentation runs unchanged, in Python and from the command line."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import numpy as np
import pytest
from made_days import made_day

from wearjax import cli
from wearjax.benchmarks.openmhc import imputation
from wearjax.days.store import DayStoreWriter
from wearjax.predict import from_file

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "openmhc_imputer.py"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "days"
    with DayStoreWriter(path, provenance={}) as writer:
        for person in ("p1", "p2", "p3", "p4"):
            for day in range(3):
                writer.add(made_day(person, day))
        content = {"train": ["p1"], "validation": ["p2"], "test": ["p3", "p4"]}
        writer.attach("splits.json", json.dumps(content))
    return path


def test_it_knows_nothing_of_wearjax():
    imported = [node for node in ast.walk(ast.parse(EXAMPLE.read_text())) if isinstance(node, ast.Import)]
    assert [alias.name for node in imported for alias in node.names] == ["numpy"]
    assert not [n for n in ast.walk(ast.parse(EXAMPLE.read_text())) if isinstance(n, ast.ImportFrom)]


def test_it_runs_through_the_python_interface(data_dir):
    method = from_file.load(f"{EXAMPLE}:LocalMean")
    found = imputation.evaluate_imputation(
        method, data_dir=data_dir, scenarios=("temporal_slice", "sleep_gap"), bootstrap=0
    )
    assert found.method_names == ("local_mean",)
    assert found.score("local_mean", "temporal_slice").point > 0.2  # neighbours say more than the last value
    assert found.substituted["local_mean"] == 0


def test_it_averages_what_is_known_nearby():
    method = from_file.load(f"{EXAMPLE}:LocalMean")
    data = np.full((1, 19, 200), np.nan, np.float32)
    data[0, 0, 60:70] = np.arange(10)
    data[0, 0, 100] = 50  # hidden from it, whatever stands there
    target = np.zeros(data.shape, bool)
    target[0, 0, [75, 98, 100, 190]] = True
    target[0, 1, 5] = True
    out = method.impute(data, np.ones(data.shape, bool), target)
    np.testing.assert_allclose(out[0, 0, [75, 98]], [4.5, 8.5])  # all ten; the last two
    assert out[0, 0, 190] == pytest.approx(4.5)  # the level of the day
    assert np.isnan(out[0, 1, 5])
    np.testing.assert_array_equal(out[~target], data[~target])


def test_the_command_line_takes_it_from_its_file(data_dir, tmp_path, capsys):
    arguments = [
        "evaluate", "imputation", str(data_dir), "--out", str(tmp_path / "run"),
        "--methods", "mean", "personalized_temporal_mean", "--scenarios", "temporal_slice", "--n-days", "7",
        "--bootstrap", "10", "--method", f"{EXAMPLE}:LocalMean",
    ]  # fmt: skip
    cli.main(arguments)
    out = capsys.readouterr().out
    for name in ("local_mean", "mean", "personalized_temporal_mean", "locf", "in windows of 7"):
        assert name in out
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["methods"] == ["locf", "mean", "personalized_temporal_mean", "local_mean"]
    assert results["n_days"] == 7
    cli.main(arguments)
    assert "local_mean" in capsys.readouterr().out
    assert json.loads((tmp_path / "run" / "results.json").read_text()) == results
    with pytest.raises(SystemExit):
        cli.main([*arguments, "--seed", "7"])
    assert "--force" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main([*arguments, f"{EXAMPLE}:LocalMean", "--force"])
    assert "two methods are called 'local_mean'" in capsys.readouterr().err
