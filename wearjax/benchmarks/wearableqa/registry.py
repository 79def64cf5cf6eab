"""The sixteen question types in the order of the taxonomy; a type's module is imported when it is first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence

from wearjax.benchmarks.wearableqa.candidate import QuestionType
from wearjax.errors import ConfigError

# What a record must hold for a type to propose anything, and how many questions of 4,084 are to be of it.
NEEDS: dict[str, str] = {
    "signal_summary": "one metric with a full window",
    "trend_shape": "one metric with a full window and the weeks before it",
    "excursion_count": "one metric with a full window and the weeks before it",
    "recovery_time": "resting heart rate, HRV, sleep or stress with the weeks before the window",
    "strongest_pair": "six metrics with full windows",
    "signed_correlation": "two metrics with full windows",
    "lead_lag": "two metrics with full windows",
    "level_shift": "one metric with a full window",
    "risk_assessment": "a blood panel, and a profile with sex",
    "multimodal_phenotype": "fitness and sleep metrics, and a blood panel",
    "fitness_prediction": "resting heart rate, steps, a profile and a blood panel",
    "cross_signal_prediction": "several metrics with full windows and months of history",
    "prognostic_prediction": "months of history, and 28 days after the end date",
    "recommendation": "a metric worse than the cohort's quartile, metrics that a habit changes, and history",
    "differential_reasoning": "resting heart rate, HRV, sleep, steps, exercise and stress",
    "concordance": "two metrics of a known relation with full windows and the weeks before",
}
TARGETS: dict[str, int] = {
    **dict.fromkeys(tuple(NEEDS)[:6], 380),
    **dict.fromkeys(tuple(NEEDS)[6:8], 222),
    **dict.fromkeys(tuple(NEEDS)[8:], 170),
}
NAMES: tuple[str, ...] = tuple(NEEDS)


class _Types(Mapping[str, QuestionType]):
    def __init__(self):
        self._found: dict[str, QuestionType] = {}

    def __getitem__(self, name: str) -> QuestionType:
        if name not in NEEDS:
            raise KeyError(name)
        if name not in self._found:
            module = importlib.import_module(f"wearjax.benchmarks.wearableqa.questions.{name}")
            self._found[name] = module.TYPE
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


TYPES: Mapping[str, QuestionType] = _Types()


def chosen(names: Sequence[str] | None) -> tuple[QuestionType, ...]:
    """Types by name, all where none is given, in the order of the taxonomy. Raises ConfigError on another name."""
    unknown = [name for name in names or () if name not in NEEDS]
    if unknown:
        raise ConfigError(f"question type {unknown[0]!r}: known are {', '.join(NAMES)}")
    return tuple(TYPES[name] for name in NAMES if names is None or name in names)
