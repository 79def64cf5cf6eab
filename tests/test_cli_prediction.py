"""The verb `evaluate prediction`: methods by name and from a file, refusals, files of the run folder."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_days import made_cohort

from wearjax.cli import prediction
from wearjax.days.splits import Splits, to_json
from wearjax.days.store import DayStoreWriter
from wearjax.errors import ConfigError

N = 16
OWN = """
class Own:
    name = "own"

    def predict(self, data):
        return [float(len(days)) + k for k, days in enumerate(data)]
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "store"
    users = sorted({day.participant for day in made_cohort(N, 1)})
    with DayStoreWriter(path, provenance={}) as writer:
        writer.add_all(made_cohort(N, 1))
        writer.attach("splits.json", to_json(Splits(tuple(users[:8]), (), tuple(users[8:]))))
    labels = {
        "user_id": users,
        "date": ["2021-03-01"] * N,
        "age": np.arange(N) + 30,
        "Diabetes": np.arange(N) % 2,
    }
    pq.write_table(pa.table(labels), path / "task_labels.parquet")
    return path


def test_scores_methods_and_writes_the_run_folder(data, tmp_path, capsys):
    (tmp_path / "own.py").write_text(OWN)
    out = tmp_path / "run"
    asked = {"method": (f"{tmp_path / 'own.py'}:Own",), "tasks": ("age", "Diabetes"), "bootstrap": 5}
    prediction.prediction_track(data, out=out, **asked)
    shown = capsys.readouterr().out
    assert "own" in shown
    assert "report.html" in shown
    for file in ("results.json", "scores.parquet", "report.html", "own/age/test.parquet"):
        assert (out / file).exists()
    before = (out / "results.json").read_bytes()
    prediction.prediction_track(data, out=out, **asked)
    assert capsys.readouterr().out == shown, "the same command shows the scores again"
    assert (out / "results.json").read_bytes() == before
    (tmp_path / "own.py").write_text(OWN.replace('name = "own"', 'name = "own"\n    settings = {"k": 2}'))
    with pytest.raises(ConfigError, match=r"own.age.*made with another method \(.*--force"):
        prediction.prediction_track(data, out=out, **asked)
    other = {**json.loads(before), "track": "imputation"}
    (out / "results.json").write_text(json.dumps(other))
    with pytest.raises(ConfigError, match=r"results of another kind \(imputation, now prediction\).*--force"):
        prediction.prediction_track(data, out=out, **asked)
    prediction.prediction_track(data, out=out, force=True, **asked)


def test_methods_of_the_library_get_cache_and_progress(data, tmp_path, monkeypatch):
    given = {}

    class Made:
        def __init__(self, days, **keywords):
            given.update(keywords, n=len(days))

        def predict(self, data):
            given["progress"](1, 2)
            return np.arange(len(data))

    module = types.ModuleType("xgboost")
    module.XGBoost = Made
    monkeypatch.setitem(sys.modules, "wearjax.predict.predictors.xgboost", module)
    cache = tmp_path / "cache"
    prediction.prediction_track(
        data, out=tmp_path / "run", methods=("linear", "xgboost"), tasks=("age",), cache=cache, bootstrap=0
    )
    assert (given["cache_dir"], given["n"]) == (cache, N)
    assert (tmp_path / "run" / "xgboost" / "age" / "test.parquet").exists()


def test_a_fine_tuned_toto_gets_its_base_and_scale(data, tmp_path, monkeypatch):
    given = {}

    class Made:
        def __init__(self, days, checkpoint, **keywords):
            given.update(keywords, checkpoint=checkpoint)

        def predict(self, data):
            return np.arange(len(data))

    module = types.ModuleType("toto")
    module.Toto = Made
    monkeypatch.setitem(sys.modules, "wearjax.predict.predictors.toto", module)
    asked = {"tasks": ("age",), "bootstrap": 0, "toto_base": Path("hub:owner/name")}
    with pytest.raises(ConfigError, match="only with --toto-checkpoint"):
        prediction.prediction_track(data, out=tmp_path / "run", **asked)
    prediction.prediction_track(
        data, out=tmp_path / "run", toto_checkpoint=tmp_path, toto_lora_alpha=16.0, **asked
    )
    assert (given["checkpoint"], given["lora_alpha"]) == (tmp_path, 16.0)
    assert str(given["base"]) == "hub:owner/name"


def test_refusals(data, tmp_path):
    with pytest.raises(ConfigError, match="predictor 'svm'"):
        prediction.prediction_track(data, out=tmp_path / "run", methods=("svm",))
    with pytest.raises(ConfigError, match="wbm: needs a bundle"):
        prediction.prediction_track(data, out=tmp_path / "run", methods=("wbm",))
    llm = {"methods": ("llm_statistics",), "out": tmp_path / "run"}
    with pytest.raises(ConfigError, match=r"llm_statistics: needs --llm-url .* and --llm-model"):
        prediction.prediction_track(data, llm_url="http://127.0.0.1:9/v1", **llm)
    with pytest.raises(ConfigError, match="no method asks a language model"):
        prediction.prediction_track(data, out=tmp_path / "run", llm_model="toy")
    llm["methods"] = ("llm_magic",)
    with pytest.raises(ConfigError, match="'llm_magic' asks no language model; llm_statistics, llm_vision"):
        prediction.prediction_track(data, llm_url="http://127.0.0.1:9/v1", llm_model="toy", **llm)
    assert not (tmp_path / "run").exists()
