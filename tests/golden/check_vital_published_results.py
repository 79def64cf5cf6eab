"""The published tables of VitalBench speak of the models, centres, horizons and metrics that the code knows."""

from __future__ import annotations

import harness

from wearjax import vitals
from wearjax.benchmarks.vitalbench import plans
from wearjax.models.vital import registry
from wearjax.scores import vital

CENTRES = {"VitalDB": "vitaldb", "MOVER-SIS": "mover"}
UPPER_BOUND = "UpperBound"
TRACKS = {"track1": 1, "track2": 2, "track3": 3}


@harness.checks("vital_published_results")
def check(case: dict) -> None:
    assert set(CENTRES.values()) == set(vitals.CENTRES)
    assert tuple(case["horizon_minutes"]) == vitals.HORIZON_MINUTES
    _steps(case["steps"])
    for name, table in case["tables"].items():
        _table(TRACKS[name.partition("_")[0]], table["values"], by_horizon=name.endswith("by_horizon"))


def _steps(steps: dict) -> None:
    fine = vitals.CENTRES["vitaldb"]
    for name, centre in (("VitalDB_5s", fine), ("one_minute", vitals.one_minute(fine))):
        assert steps[name]["input"] == centre.context_steps
        assert steps[name]["pred"] == list(centre.horizons.values())
    assert list(vitals.CENTRES["mover"].horizons.values()) == steps["one_minute"]["pred"]


def _table(track: int, values: dict, *, by_horizon: bool) -> None:
    """Centres (from one to the other in track 3), horizons, metrics, models: all of them and no others."""
    names = list(CENTRES)
    pairs = {f"{a}->{b}" for a in names for b in names if a != b}
    assert set(values) == (pairs if track == 3 else set(names))
    models = [registry.get(kind).name for kind in plans.models_of(track)]
    for horizons in values.values():
        wanted = map(str, vitals.HORIZON_MINUTES) if by_horizon else ("avg",)
        assert list(horizons) == list(wanted)
        for metrics in horizons.values():
            assert tuple(metrics) == vital.PUBLISHED
            for of_models in metrics.values():
                assert list(of_models) == [UPPER_BOUND] * (track == 3) + models
