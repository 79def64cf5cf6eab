"""The report of a VitalBench run: tables by horizon, errors in original units, example forecasts, switches."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from wearjax import json_text, plural, vitals
from wearjax.benchmarks.vitalbench import jobs
from wearjax.benchmarks.vitalbench import results as result_tables
from wearjax.errors import WearjaxError
from wearjax.report import drawing, page_file, words

_TEMPLATES = Path(__file__).parent / "templates"
_METRICS = {
    "MAE": "mean absolute error, scaled units",
    "RMSE": "root mean squared error, scaled units",
    "R2": "R², between the variables of a step as published",
    "CC": "correlation, of ranks as published",
}
_HIGHER = ("R2", "CC")
_SHOWN_MODELS, _SHOWN_VARIABLES = 4, 6


@dataclass(frozen=True)
class MetricTable:
    """One metric: a row a model, the best first; a cell is value, deviation, interval and whether it is best."""

    name: str
    meaning: str
    headings: list[str]
    rows: list[tuple[str, list[tuple[str, str, str, bool]]]]


def is_run(folder: str | os.PathLike) -> bool:
    """Whether a folder holds the results of a VitalBench run."""
    try:
        return json_text.loads((Path(folder) / "results.json").read_text()).get("benchmark") == "vitalbench"
    except (OSError, ValueError, AttributeError):
        return False


def write(
    folder: str | os.PathLike, out: str | os.PathLike | None = None, *, overwrite: bool = False
) -> Path:
    """Writes the page of one run.

    Args:
        out: the HTML file; default `report.html` in the run folder.
        overwrite: replace `out` whatever it is, not an earlier page only.

    Raises:
        WearjaxError: results that cannot be read, or a page that cannot be written.
    """
    folder = Path(folder)
    target = page_file.place(folder, out, kind="VitalBench", overwrite=overwrite)
    try:
        results = json_text.loads((folder / "results.json").read_text())
        html = _render(folder, results)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WearjaxError(f"{folder}: results.json is not that of a VitalBench run ({error})") from None
    return page_file.write(html, target)


def _render(folder: Path, results: dict[str, Any]) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    config = results["config"]
    scores = results["scores"]
    untrained = result_tables.baselines(config)
    ranked = _ranked(scores, untrained)
    return environment.get_template("vital.html.j2").render(
        title=f"VitalBench: {config['title']}",
        sentence=_sentence(scores, [m for m in ranked if m not in untrained], results["counts"]),
        tables=[_table(scores, metric, ranked, untrained) for metric in _METRICS],
        units=_units(results["variables"], ranked),
        figures=_figures(folder, config, ranked or list(dict.fromkeys(p["kind"] for p in config["plans"]))),
        notes=result_tables.notes(config),
        jobs=_jobs(results["counts"]["jobs"]),
        counts=_flat({k: v for k, v in results["counts"].items() if k != "jobs"}),
        per_case=config["switches"]["scaling"] == "per_case",
        switches=_switches(config),
        config=_flat({k: v for k, v in config.items() if k not in ("switches", "plans")}),
    )


def _ranked(scores: list[dict[str, Any]], untrained: Collection[str]) -> list[str]:
    """Models by their average MAE, the best first, then what is not trained."""
    average = {s["model"]: s["mean"] for s in scores if s["metric"] == "MAE" and s["minutes"] == 0}

    def key(model: str) -> tuple[bool, float]:
        return model in untrained, np.inf if average[model] is None else average[model]

    return sorted(average, key=key)


def _sentence(scores: list[dict[str, Any]], ranked: list[str], counts: dict[str, Any]) -> str:
    if not ranked:
        return "Nothing could be scored: no surgery is longer than a horizon. Forecasts from their last rows are below."
    best = next(s for s in scores if s["model"] == ranked[0] and s["metric"] == "MAE" and s["minutes"] == 0)
    tested = counts["test_cases"]
    value = "undefined" if best["mean"] is None else f"{best['mean']:.3f}"
    return (
        f"Of {len(ranked)} {plural.noun(len(ranked), 'model')}, {ranked[0]} has the lowest error averaged over "
        f"horizons: MAE {value}, over {tested} test {plural.noun(tested, 'surgery', 'surgeries')}."
    )


def _table(
    scores: list[dict[str, Any]], metric: str, ranked: list[str], untrained: Collection[str]
) -> MetricTable:
    mine = {(s["model"], s["minutes"]): s for s in scores if s["metric"] == metric}
    minutes = [*sorted({m for _, m in mine if m}), 0]
    best = {}
    for m in minutes:
        known = [
            s["mean"]
            for (model, at), s in mine.items()
            if at == m and model not in untrained and s["mean"] is not None
        ]
        best[m] = (max(known) if metric in _HIGHER else min(known)) if known else None
    rows = []
    for model in ranked:
        cells = [_cell(mine.get((model, m)), None if model in untrained else best[m]) for m in minutes]
        rows.append((result_tables.label(model, untrained), cells))
    return MetricTable(metric, _METRICS[metric], [f"{m} min" if m else "average" for m in minutes], rows)


def _cell(score: dict[str, Any] | None, best: float | None) -> tuple[str, str, str, bool]:
    if score is None or score["mean"] is None:
        return "–", "", "", False
    spread = "" if score["std"] is None else f"± {score['std']:.3f}"
    interval = "" if score["ci_lo"] is None else f"[{score['ci_lo']:.3f}, {score['ci_hi']:.3f}]"
    return f"{score['mean']:.3f}", spread, interval, score["mean"] == best


def _units(
    errors: list[dict[str, Any]], ranked: list[str]
) -> list[tuple[str, str, list[tuple[str, list[str]]]]]:
    """Of every variable: its name, unit, and a row a horizon with the MAE of every model."""
    units = {v.name: v.unit for centre in vitals.CENTRES.values() for v in centre.targets}
    found = {(e["variable"], e["minutes"], e["model"]): e["mae"] for e in errors}
    out = []
    for variable in dict.fromkeys(e["variable"] for e in errors):
        rows = []
        for m in sorted({e["minutes"] for e in errors}):
            values = [found.get((variable, m, model)) for model in ranked]
            rows.append((f"{m} min", ["–" if v is None else f"{v:.3g}" for v in values]))
        out.append((variable, units.get(variable, ""), rows))
    return out


def _figures(folder: Path, config: dict[str, Any], ranked: list[str]) -> list[tuple[str, Markup]]:
    """The first example surgery at every horizon, with the forecasts of the best models."""
    target = config["target"] or config["data"]
    names = [v.name for v in vitals.CENTRES[target["centre"]].targets]
    found = []
    for m in sorted({plan["minutes"] for plan in config["plans"]}):
        examples = {}
        for model in ranked:
            try:
                kept = jobs.read_examples(folder / "jobs" / f"{model}-{m}min")
            except (OSError, ValueError, KeyError):
                continue
            if kept:
                examples[model] = kept[0]
        shown = dict(list(examples.items())[:_SHOWN_MODELS])
        if shown:
            one = next(iter(shown.values()))
            place = "middle" if np.isfinite(one.future).any() else "last row"
            caption = (
                f"Surgery {words.plain(one.case, 40)}, {m} {plural.noun(m, 'minute')} ahead from its {place}"
            )
            found.append((caption, _draw(shown, names, target["step_seconds"], name=f"f{m}")))
    return found


def _draw(examples: dict[str, jobs.Example], names: list[str], step_seconds: int, *, name: str) -> Markup:
    first = next(iter(examples.values()))
    known = [i for i, past in enumerate(first.past.T) if np.isfinite(past).any()]
    shown = known[:_SHOWN_VARIABLES] or [0]
    context, horizon = len(first.past), len(first.future)
    before = np.arange(1 - context, 1) * step_seconds / 60
    after = np.arange(1, horizon + 1) * step_seconds / 60

    def panels(figure: Any) -> None:
        axes = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
        for ax, column in zip(axes, shown, strict=True):
            variable = first.variables[column]
            ax.axvspan(0, after[-1], color=words.SHADE_COLOUR, linewidth=0, zorder=0)
            for times, values in ((before, first.past), (after, first.future)):
                ax.plot(
                    times,
                    values[:, column],
                    color=words.OBSERVED_COLOUR,
                    linewidth=1.0,
                    marker=".",
                    markersize=2,
                )
            for (model, example), colour in zip(examples.items(), words.WHEEL, strict=False):
                if variable in example.variables:
                    at = example.variables.index(variable)
                    ax.plot(after, example.forecast[:, at], color=colour, linewidth=1.3, label=model)
            ax.set_title(names[variable])
        axes[0].legend(loc="upper left", ncols=len(examples))
        axes[-1].set_xlabel("minutes from the last row seen; vertical: scaled units")

    label = "Forecasts of one window beside what was recorded: " + ", ".join(
        names[first.variables[column]] for column in shown
    )
    return Markup(drawing.svg(panels, size=(drawing.WIDTH, 0.9 * len(shown) + 0.7), name=name, label=label))


def _jobs(jobs: dict[str, dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """Of every model and horizon: what it was trained on and how long."""
    names = ("cases", "windows", "cases_without_windows", "windows_dropped_per_epoch", "epochs", "best_epoch")
    return [(job, [words.plain(record.get(name, "–")) for name in names]) for job, record in jobs.items()]


def _switches(config: dict[str, Any]) -> list[tuple[str, str]]:
    values = {name: str(value) for name, value in config["switches"].items()}
    if config["track"] == 3:  # as the released scripts evaluate it
        orders = {"upper_bound": values["channel_order"], **config.get("channel_orders", {})}
        values["channel_order"] = f"identity across centres, {orders['upper_bound']} for the upper bound"
        if "best_epoch" in orders:
            values["channel_order"] += f"; {orders['best_epoch']} where the best epoch is chosen"
    return [(words.readable(name), value) for name, value in values.items()]


def _flat(content: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Names joined by dots, values as text; long lists by their length."""
    if isinstance(content, dict):
        return [
            row
            for key, value in content.items()
            for row in _flat(value, f"{prefix}.{key}" if prefix else key)
        ]
    if isinstance(content, list) and len(content) > 20:
        return [(prefix, f"{len(content)} entries")]
    return [(prefix, words.plain(content))]
