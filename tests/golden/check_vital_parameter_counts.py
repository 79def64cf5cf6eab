"""Parameters of the published run configurations, trained and in all, at every horizon."""

from __future__ import annotations

import harness

from wearjax.models.vital import registry

CENTRES = {"VitalDB": "vitaldb", "MOVER-SIS": "mover", "VitalDB-1min": "vitaldb"}


@harness.checks("vital_parameter_counts")
def check(case: dict) -> None:
    for data_set, models in case["counts"].items():
        for label, horizons in models.items():
            model, *settings = label.split("_")
            published = registry.published(model, CENTRES[data_set], track(data_set, settings))
            for horizon, wanted in horizons.items():
                found = registry.parameter_counts(published(int(horizon)))
                assert found._asdict() == wanted, f"{data_set}, {label}, horizon {horizon}"


def track(data_set: str, settings: list[str]) -> int:
    """One that has the run configuration; without a word it is that of complete variables."""
    if data_set.endswith("1min"):
        return 3
    words = [word for word in settings if word.startswith("track")]
    return int(words[0].removeprefix("tracks").removeprefix("track")) if words else 1
