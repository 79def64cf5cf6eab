"""One plan carried out: training, forecasts of every test surgery, its errors; kept, so that a stopped run goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float32

from wearjax import checksum, json_text, npz, writing
from wearjax.benchmarks.vitalbench.plans import Plan
from wearjax.errors import StoreError
from wearjax.scores import vital as metrics
from wearjax.segments.vital_settings import VitalSettings
from wearjax.vitals import Centre

if TYPE_CHECKING:
    from wearjax.predict.vital_persistence import Persistence
    from wearjax.segments.vital_scaled import ScaledCases
    from wearjax.train.vitals import VitalModel

    Forecaster = VitalModel | Persistence

EXAMPLES = 3  # forecasts kept of a model, for the report
_RECORD, _CASES, _VARIABLES, _EXAMPLES = "job.json", "cases.parquet", "variables.parquet", "examples.npz"


@dataclass(frozen=True)
class Splits:
    """Scaled surgeries that a job trains, selects and is scored on.

    Attributes:
        centre: of the test cases; its targets name the rows of errors by variable.
    """

    train: ScaledCases
    validation: ScaledCases
    test: ScaledCases
    centre: Centre


@dataclass(frozen=True, eq=False)
class Example:
    """One forecast: what was seen, what came, what was expected; scaled, NaN = not observed.

    Attributes:
        variables: positions among the centre's targets.
    """

    case: str
    row: int
    variables: tuple[int, ...]
    past: Float32[np.ndarray, "context variable"]
    future: Float32[np.ndarray, "horizon variable"]
    forecast: Float32[np.ndarray, "horizon variable"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a job left behind.

    Attributes:
        cases: metrics of every test case, by id.
        variables: case, variable, MAE and RMSE in the variable's own unit; NaN where never observed.
        record: of the training, with the counts of cases that had no window.
    """

    plan: Plan
    cases: dict[str, dict[str, float]]
    variables: list[tuple[str, str, float, float]]
    record: dict[str, Any]
    examples: tuple[Example, ...]


def carry_out(
    plan: Plan,
    splits: Splits,
    settings: VitalSettings,
    folder: Path,
    *,
    training: dict[str, Any],
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Trains and scores, or reads what the same job left in its folder; a baseline is only scored.

    Args:
        training: further fields of `wearjax.train.vitals.VitalTraining`.

    Raises:
        StoreError: the folder holds another job.
    """
    if plan.role == "baseline":
        training = {}
    fingerprint = _fingerprint(plan, splits, settings, training)
    if (folder / _RECORD).exists():
        return _read(plan, folder, fingerprint)
    folder.mkdir(parents=True, exist_ok=True)
    if plan.role == "baseline":
        outcome = score(_baseline(plan, settings), plan, splits, settings)
        if progress is not None:
            progress(1, 1)
    else:
        model = _untrained(plan, settings, training)
        model.fit(splits.train, splits.validation, folder=folder, progress=progress)
        outcome = score(model, plan, splits, settings)
        model.save(folder / "weights.npz")
    _write(outcome, folder, fingerprint)
    (folder / "training.npz").unlink(missing_ok=True)
    return outcome


def rescore(plan: Plan, splits: Splits, settings: VitalSettings, trained: Path, folder: Path) -> Outcome:
    """Scores the weights that a job left, or a baseline, on other test cases; reads what was scored before.

    Raises:
        StoreError: weights that cannot be read, or the folder holds another job.
    """
    weights = trained / "weights.npz"
    facts = {"trained": str(trained)}
    if plan.role != "baseline" and weights.exists():
        facts["weights"] = checksum.sha256(weights)
    fingerprint = _fingerprint(plan, splits, settings, facts)
    if (folder / _RECORD).exists():
        return _read(plan, folder, fingerprint)
    forecaster: Forecaster
    if plan.role == "baseline":
        forecaster = _baseline(plan, settings)
    else:
        forecaster = _untrained(plan, settings, {})
        forecaster.load(weights)
    outcome = score(forecaster, plan, splits, settings)
    folder.mkdir(parents=True, exist_ok=True)
    _write(outcome, folder, fingerprint)
    return outcome


def _untrained(plan: Plan, settings: VitalSettings, training: dict[str, Any]) -> VitalModel:
    from wearjax.train import vitals

    assert plan.learning_rate is not None
    return vitals.model_of(
        plan.config,
        learning_rate=plan.learning_rate,
        incomplete=plan.track > 1,
        settings=settings,
        **training,
    )


def _baseline(plan: Plan, settings: VitalSettings) -> Persistence:
    from wearjax.predict.vital_persistence import Persistence

    return Persistence(plan.config.context, plan.config.horizon, settings, incomplete=plan.track > 1)


def score(model: Forecaster, plan: Plan, splits: Splits, settings: VitalSettings) -> Outcome:
    """Errors of a trained model, or of a baseline, on the test cases."""
    test, context, horizon = splits.test, plan.config.context, plan.config.horizon
    names = [variable.name for variable in splits.centre.targets]
    cases: dict[str, dict[str, float]] = {}
    variables: list[tuple[str, str, float, float]] = []
    examples: list[Example] = []
    counts = test.windows_of(horizon)
    chosen = set(np.flatnonzero(counts)[:EXAMPLES].tolist())
    views = model.views(test, channel_order=plan.test_order(settings))
    if not chosen:  # recordings too short to score can still be looked at
        examples += [
            _ahead(model, test, case, views[case], context) for case in range(min(EXAMPLES, len(test)))
        ]
    for case, seen, forecast in model.forecasts(test, views=views):
        positions = np.sort(seen.channels[seen.scored]) - (test.n_channels - test.n_targets)
        future, observed = (part[:, :, positions] for part in test.future(case, horizon))
        span = test.span[case, test.n_channels - test.n_targets + positions]
        guess, truth = forecast, future
        if settings.report_units == "original":
            guess, truth = forecast * span.astype(np.float32), future * span.astype(np.float32)
        cases[test.ids[case]] = metrics.case_metrics(
            guess, truth, observed, cc=settings.correlation, r2=settings.r2_axis, name=plan.name
        )
        errors = metrics.variable_errors(forecast, future, observed, span)
        variables += [
            (test.ids[case], names[i], float(mae), float(rmse))
            for i, mae, rmse in zip(positions, *errors, strict=True)
        ]
        if case in chosen:
            row = len(forecast) // 2  # in the middle of the surgery
            coming = np.where(observed[row], future[row], np.nan).astype(np.float32)
            examples.append(_example(test, case, row, positions, coming, forecast[row], context))
    record = {
        **model.record,
        "test_cases": len(test),
        "test_cases_without_windows": int((counts == 0).sum()),
        "test_windows": int(counts.sum()),
        "history": model.history,
    }
    return Outcome(plan, cases, variables, record, tuple(examples))


def _example(test: ScaledCases, case: int, row: int, positions, coming, forecast, context: int) -> Example:
    """The window that ends at a row of a surgery."""
    first = int(test.offsets[case])
    rows = first + np.arange(max(0, row + 1 - context), row + 1)
    past = np.full((context, len(positions)), np.nan, np.float32)
    past[context - len(rows) :] = np.where(test.observed[rows], test.targets[rows], np.nan)[:, positions]
    return Example(
        test.ids[case], row, tuple(int(i) for i in positions), past, coming, np.asarray(forecast, np.float32)
    )


def _ahead(model: Forecaster, test: ScaledCases, case: int, seen, context: int) -> Example:
    """The forecast from the last row of a surgery, of which nothing is known yet."""
    order = np.argsort(seen.channels[seen.scored])
    positions = seen.channels[seen.scored][order] - (test.n_channels - test.n_targets)
    row = int(test.offsets[case + 1] - test.offsets[case]) - 1
    forecast = model.ahead(test, case, seen)[:, np.flatnonzero(seen.scored)[order]]
    unknown = np.full(forecast.shape, np.nan, np.float32)
    return _example(test, case, row, positions, unknown, forecast, context)


def _fingerprint(plan: Plan, splits: Splits, settings: VitalSettings, training: dict[str, Any]) -> str:
    digest = hashlib.sha256()
    facts = {"plan": plan.facts(), "settings": settings.to_dict(), "training": training}
    digest.update(json.dumps(facts, sort_keys=True, default=str).encode())
    for cases in (splits.train, splits.validation, splits.test):
        digest.update(repr(cases.ids).encode())
        for array in (cases.offsets, cases.values, cases.targets, cases.observed):
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _write(outcome: Outcome, folder: Path, fingerprint: str) -> None:
    """Everything but the record, then the record: with it the job counts as done."""
    names = list(outcome.cases)
    table: dict[str, Sequence[Any]] = {"case": names}
    for metric in metrics.METRICS:
        table[metric] = [outcome.cases[name][metric] for name in names]
    pq.write_table(pa.table(table), folder / _CASES)
    columns = list(zip(*outcome.variables, strict=True)) or [(), (), (), ()]
    pq.write_table(
        pa.table(dict(zip(("case", "variable", "MAE", "RMSE"), map(list, columns), strict=True))),
        folder / _VARIABLES,
    )
    arrays: dict[str, np.ndarray] = {}
    for i, example in enumerate(outcome.examples):
        arrays |= {f"{i}.{part}": getattr(example, part) for part in ("past", "future", "forecast")}
    facts = [[e.case, e.row, list(e.variables)] for e in outcome.examples]
    np.savez_compressed(folder / _EXAMPLES, facts=np.array(json.dumps(facts)), **arrays)  # type: ignore[arg-type]
    text = json.dumps({"fingerprint": fingerprint, "record": outcome.record}, default=str, indent=1)
    with writing.file(folder / _RECORD) as partial:
        partial.write_text(text)


def read_examples(folder: Path) -> tuple[Example, ...]:
    """The forecasts that a finished job kept. Raises OSError, ValueError or KeyError where they are not readable."""
    arrays = npz.load(folder / _EXAMPLES)
    return tuple(
        Example(
            case,
            row,
            tuple(positions),
            *(arrays[f"{i}.{part}"] for part in ("past", "future", "forecast")),
        )
        for i, (case, row, positions) in enumerate(json_text.loads(str(arrays["facts"])))
    )


def _read(plan: Plan, folder: Path, fingerprint: str) -> Outcome:
    try:
        stored = json_text.loads((folder / _RECORD).read_text())
        table = pq.read_table(folder / _CASES).to_pylist()
        variables = pq.read_table(folder / _VARIABLES).to_pylist()
        examples = read_examples(folder)
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(f"{folder}: not readable as a finished job ({error}); remove it") from None
    if stored["fingerprint"] != fingerprint:
        raise StoreError(f"{folder}: holds a job of other settings or data; pass --force to start over")
    cases = {row.pop("case"): row for row in table}
    listed = [(row["case"], row["variable"], row["MAE"], row["RMSE"]) for row in variables]
    return Outcome(plan, cases, listed, stored["record"], examples)
