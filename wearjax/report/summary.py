"""The plain sentences at the top of the report, and the warnings a careful reader needs beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from wearjax.predict import fill
from wearjax.report import figures, tables, words
from wearjax.report.run_folder import RunFolder, Score
from wearjax.scores import completeness

_MUST_AGREE = {
    "split": "split",
    "n_days": "days a method sees at once",
    "horizon": "forecast hours",
    "seed": "seed",
    "n_participants": "participants",
    "n_samples": "days or windows",
    "bootstrap": "bootstrap draws",
}


def title(runs: Sequence[RunFolder]) -> str:
    what = (
        "Filled recordings"
        if all(r.is_imputation_of_recordings for r in runs)
        else "Imputation of wearable days"
    )
    if runs and all(r.is_prediction for r in runs):
        what = "Prediction of health outcomes"
    if runs and all(r.is_forecasting for r in runs):
        what = "Forecast of wearable hours"
    if len(_tracks(runs)) > 1:
        what = "Evaluations of several tracks"
    if not any(r.scores or r.is_imputation_of_recordings for r in runs):
        what = "Training run" if any(r.metrics for r in runs) else "Run"
    return f"{what}: {', '.join(r.name for r in runs)}"


def _tracks(runs: Sequence[RunFolder]) -> set[str]:
    """Tracks of the runs that hold scores."""
    return {str(r.results.get("track", "imputation")) for r in runs if r.scores}


def sentences(runs: Sequence[RunFolder], rows: Sequence[tables.Entry]) -> list[str]:
    """What happened, for a reader who reads nothing else."""
    said = []
    if rows and (len(runs) == 1 or (len(_tracks(runs)) == 1 and not disagreements(runs))):
        said.append(_best(runs, rows))
    elif rows:
        said.append(
            "These runs were not scored alike; their methods stand side by side and are not ranked together."
        )
    for run in runs:
        prefix = f"{run.name}: " if len(runs) > 1 else ""
        said += [prefix + text for text in (_training(run), _filled(run)) if text]
    return said or ["The run holds neither scores nor training metrics nor imputed days yet."]


def _best(runs: Sequence[RunFolder], rows: Sequence[tables.Entry]) -> str:
    scored = [r for r in rows if not r.is_baseline and math.isfinite(r.overall())]
    if not scored:
        return (
            "No method has an overall skill: each lacks a task that others have, or shares no participant with an "
            "error with the baseline."
        )
    best = scored[0]
    learned = next((r for r in scored if r.is_learned), None)
    text = f"{_cohort(runs, best)}{_verdict(best, runs)}"
    if len(rows) > 2:
        text += f", the best of {len(scored) + sum(r.is_baseline for r in rows)} methods"
    if learned is not None and learned is not best:
        text += f"; the best learned method, {learned.label}, {_verdict(learned, runs, subject=False)}"
    elif learned is None and not any(r.is_own for r in rows):
        text += "; none of them is a learned model"
    return text + "."


def _cohort(runs: Sequence[RunFolder], entry: tables.Entry) -> str:
    run = next(r for r in runs if r.name == entry.run)
    results, unit = run.results, "window" if run.is_forecasting else "day"
    days, people, split = (results.get(k) for k in ("n_samples", "n_participants", "split"))
    parts = [f"{_amount(days)} {_plural(days, unit)}"] if _is_count(days) else []
    parts += [f"{_amount(people)} {_plural(people, 'participant')}"] if _is_count(people) else []
    where = f" ({words.plain(split)} split)" if isinstance(split, str) else ""
    return f"On {' of '.join(parts)}{where}, " if parts else ""


def _verdict(entry: tables.Entry, runs: Sequence[RunFolder], *, subject: bool = True) -> str:
    score: Score = entry.scores[tables.SKILL, "overall"]
    value = tables.value_of(score)
    baseline = next(r.baseline for r in runs if r.name == entry.run)
    more = "less" if value >= 0 else "more"
    amount = f"{tables.percent(abs(value))} % {more} error than {words.plain(baseline, 60)}"
    interval = ""
    if math.isfinite(score.ci_lo) and math.isfinite(score.ci_hi) and score.n_participants != 1:
        low, high = sorted((score.ci_lo, score.ci_hi) if value >= 0 else (-score.ci_hi, -score.ci_lo))
        interval = f" (95 % interval {tables.percent(low)} to {tables.percent(high)} %"
        interval += ", so no clear difference)" if low <= 0 <= high else ")"
    return f"{entry.label + ' ' if subject else ''}makes {amount}{interval}"


def _training(run: RunFolder) -> str:
    steps, loss = figures.series(run, "loss", "train")
    if not len(steps):
        return ""
    text = f"trained to step {int(steps[-1]):,}"
    seconds = [row["seconds"] for row in run.metrics if isinstance(row.get("seconds"), int | float)]
    if seconds and math.isfinite(max(seconds)):
        text += f" in {_duration(max(seconds))}"
    at, validation = figures.series(run, "loss", "validation")
    if len(validation):
        lowest = int(np.argmin(validation))
        went = (
            f"; the validation loss was {validation[0]:.3g}, measured once"
            if len(validation) == 1
            else f"; the validation loss went from {validation[0]:.3g} to {validation[-1]:.3g}"
            f" (lowest {validation[lowest]:.3g} at step {int(at[lowest]):,})"
        )
        text += went
    else:
        text += f"; the training loss went from {loss[0]:.3g} to {loss[-1]:.3g}, without a validation loss"
    return f"The model was {text}."


def _filled(run: RunFolder) -> str:
    if not run.is_imputation_of_recordings:
        return ""
    people, cells = run.results.get("n_participants"), run.results.get("filled_cells")
    days = run.results.get("n_samples", run.results.get("n_days"))
    if isinstance(cells, dict) and all(_is_count(n) for n in cells.values()):
        cells = sum(cells.values())
    text = f"{_amount(days)} {_plural(days, 'day')}" if _is_count(days) else "The recorded days"
    text += f" of {_amount(people)} {_plural(people, 'participant')}" if _is_count(people) else ""
    text += " was filled" if days == 1 else " were filled"
    if run.gallery is not None and run.gallery.imputed:
        text += f" with {' and '.join(run.gallery.imputed)}"
    text += (
        f": {_amount(cells)} minute values that no device measured now hold an estimate."
        if _is_count(cells)
        else "."
    )
    text += " There is no truth to score these estimates against; read them as estimates."
    if by := fill.filled_by(run.config):
        text += f" {by}"
    if never := fill.guessed(run.results):
        names = ", ".join(words.channel(name) for name in never)
        text += f" Without any recording, so that every value is the model's guess: {names}."
    return text


def disagreements(runs: Sequence[RunFolder]) -> list[str]:
    """Why the scores of several runs may not be comparable."""
    scored = [r for r in runs if r.scores]
    found = []
    for key, meaning in _MUST_AGREE.items():
        values = {r.name: words.plain(r.results.get(key, "unknown"), 60) for r in scored}
        if len(set(values.values())) > 1:
            found.append(f"{meaning}: " + ", ".join(f"{name} {value}" for name, value in values.items()))
    names = {r.name: ", ".join(sorted(map(str, tables.mapping(r.results.get("scenarios"))))) for r in scored}
    if len(set(names.values())) > 1:
        found.append(
            "scenarios: " + "; ".join(f"{name}: {words.plain(value)}" for name, value in names.items())
        )
    return found


def notes(runs: Sequence[RunFolder]) -> list[str]:
    """What the evaluations themselves say must be known before their scores are compared."""
    found = []
    for run in runs:
        own = run.results.get("notes")
        prefix = f"{run.name}: " if len(runs) > 1 else ""
        found += [prefix + words.plain(text, 500) for text in own] if isinstance(own, list) else []
        lacking = completeness.lacking(
            run.scores or (), baseline=run.baseline, methods=tables.scored_methods(run)
        )
        found += [prefix + words.plain(text, 500) for text in completeness.told(lacking)]
        people = _scored_participants(run)
        few = completeness.few_participants(people) if people else None
        found += [prefix + few] if few else []
    return found


def _scored_participants(run: RunFolder) -> int:
    """Participants behind the scores: of outcomes, those of the task with most; 0 where that is not known."""
    if not run.scores:
        return 0
    if run.is_prediction:
        found = tables.mapping(run.results.get("tasks")).values()
        sizes = [tables.mapping(task).get("n_test") for task in found]
        return max((n for n in sizes if isinstance(n, int)), default=0)
    people = run.results.get("n_participants")
    return people if isinstance(people, int) and _is_count(people) else 0


def facts(run: RunFolder) -> list[tuple[str, str]]:
    """The few numbers that stand as tiles under the title."""
    labels = {
        "n_participants": "participants", "n_samples": "windows" if run.is_forecasting else "days",
        "split": "split", "horizon": "hours ahead",
        "n_days": "days" if run.is_imputation_of_recordings else "days seen at once",
        "bootstrap": "bootstrap draws", "seed": "seed",
    }  # fmt: skip
    return [(text, tables.number(run.results[key])) for key, text in labels.items() if key in run.results]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _amount(value: object) -> str:
    return tables.number(value)


def _plural(value: object, noun: str) -> str:
    return noun if value == 1 else f"{noun}s"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
