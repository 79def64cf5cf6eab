"""Predictors by name: found without importing the others, and given the weights that they need."""

from __future__ import annotations

import sys
import types

import pytest

from wearjax.errors import ConfigError
from wearjax.predict.predictors import registry


@pytest.fixture
def made(monkeypatch):
    """Stands in for the module of every predictor and keeps what its class was given."""
    calls = []
    for entry in registry.PREDICTORS.values():
        module = types.ModuleType(entry.module)

        def build(*given, _name=entry.name, **keywords):
            calls.append((_name, given, keywords))
            return _name

        setattr(module, entry.name, build)
        monkeypatch.setitem(sys.modules, f"wearjax.predict.predictors.{entry.module}", module)
    return calls


def test_builds_with_days_weights_and_cache(made, tmp_path):
    assert registry.build("xgboost", "days", cache_dir=tmp_path) == "XGBoost"
    assert registry.build("wbm", "days", weights="bundle", progress=print) == "WBM"
    assert registry.build("toto", "days", weights=tmp_path, options={"lora_alpha": 8.0}) == "Toto"
    assert registry.build("grud", "days", tasks={"age": "regression"}) == "GRUD"
    assert registry.build("multirocket", "days", tasks={"age": "regression"}) == "MultiRocket"
    assert made == [
        ("XGBoost", ("days",), {"cache_dir": tmp_path, "progress": None}),
        ("WBM", ("days", "bundle"), {"cache_dir": None, "progress": print}),
        ("Toto", ("days", tmp_path), {"lora_alpha": 8.0, "cache_dir": None, "progress": None}),
        ("GRUD", ("days",), {"tasks": {"age": "regression"}, "cache_dir": None, "progress": None}),
        ("MultiRocket", ("days",), {"cache_dir": None, "progress": None}),
    ]


def test_refusals(made):
    with pytest.raises(ConfigError, match="predictor 'svm' is unknown; expected some of linear, xgboost"):
        registry.build("svm", "days")
    for name in ("wbm", "lsm2"):
        with pytest.raises(ConfigError, match=f"{name}: needs a bundle"):
            registry.build(name, "days")
    for name in ("toto", "chronos2"):
        with pytest.raises(ConfigError, match=f"{name}: needs a checkpoint"):
            registry.build(name, "days")
    with pytest.raises(ConfigError, match="grud: takes neither"):
        registry.build("grud", "days", weights="x")
    assert made == []
