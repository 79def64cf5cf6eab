"""The three tracks of VitalBench: complete variables, incomplete ones, and across centres (VitalBench, section 8)."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import wearjax
from wearjax import json_text
from wearjax.benchmarks import earlier, result_files
from wearjax.benchmarks.vitalbench import jobs, plans, results
from wearjax.benchmarks.vitalbench.results import VitalResults
from wearjax.errors import ConfigError
from wearjax.segments import vital_scaled
from wearjax.segments.vital_cases import CaseStore, open_cases
from wearjax.segments.vital_scaled import ScaledCases
from wearjax.segments.vital_settings import VitalSettings
from wearjax.segments.vital_windows import Range
from wearjax.vitals import HORIZON_MINUTES, Centre, one_minute

TITLES = {1: "complete variables", 2: "incomplete variables", 3: "across centres"}
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Budget:
    """What a run may change of the published training, by name of `wearjax.train.vitals.VitalTraining`.

    Attributes:
        fraction: of the train list, its first part (the data-scale ablation); validation and test stay.
    """

    epochs: int = 10
    patience: int = 3
    batch_size: int = 512
    learning_rate: float | None = None
    fraction: float = 1.0

    def __post_init__(self):
        if not 0.0 < self.fraction <= 1.0:
            raise ConfigError(f"fraction: must be above 0 and at most 1, got {self.fraction}")


def evaluate(
    data: str | os.PathLike,
    *,
    track: int = 1,
    target: str | os.PathLike | None = None,
    models: tuple[str, ...] = (),
    horizons: Sequence[int] = HORIZON_MINUTES,
    size: plans.Size = "published",
    settings: VitalSettings = VitalSettings(),  # noqa: B008 (frozen)
    budget: Budget = Budget(),
    output_dir: str | os.PathLike,
    bootstrap: int = 1000,
    seed: int = 42,
    force: bool = False,
    progress: Progress | None = None,
) -> VitalResults:
    """Trains and scores models on a track, one a horizon; a stopped run goes on where it was, a finished one is read.

    Persistence, which is not trained, is always scored beside them.

    Args:
        data: store of surgeries: what is trained on, and in tracks 1 and 2 also tested on.
        target: track 3: the other centre's store, on whose test split the models are scored, at one-minute steps.
            MambaTS trained there stands beside them as upper bound.
        models: by name; default all that the track can take.
        horizons: in minutes.
        size: `published`, or `small` for two processor cores.
        settings: switches; the split is the store's.
        bootstrap: draws for the intervals; 0 leaves them out.
        force: start over what a run left in the output folder.

    Raises:
        ConfigError: impossible settings, the target missing in track 3 or given elsewhere, or the output folder holds
            another run; the message names what differs. StoreError: it holds jobs that cannot be read.
    """
    if track not in TITLES:
        raise ConfigError(f"--track: expected 1, 2 or 3, got {track}")
    if (target is None) == (track == 3):
        raise ConfigError("--target: track 3 needs the other centre's store; tracks 1 and 2 take none")
    kinds = plans.models_of(track, tuple(models))
    if not horizons:
        raise ConfigError("--horizons: none given")
    home = _home(open_cases(data), settings, minute=track == 3, fraction=budget.fraction)
    splits = home.splits()
    todo = [
        (
            plans.plan(kind, m, home.centre, track=track, size=size, learning_rate=budget.learning_rate),
            splits,
            home,
        )
        for kind in kinds
        for m in horizons
    ]
    others: list[_Home] = []
    if target is not None:
        away = _home(open_cases(target), settings, minute=True)
        if away.centre.name == home.centre.name:
            raise ConfigError(f"--target: {target} is of the same centre, {away.centre.title}")
        bound = away.splits()
        splits = dataclasses.replace(splits, test=bound.test, centre=away.centre)
        others.append(away)
        todo = [(plan, splits, home) for plan, _, home in todo]
        todo += [
            (
                plans.plan(
                    plans.UPPER_BOUND, m, away.centre, track=3, size=size, learning_rate=budget.learning_rate,
                    role="upper_bound",
                ),
                bound,
                away,
            )
            for m in horizons
        ]  # fmt: skip
    todo += [(plans.baseline(m, splits.centre, track=track), splits, todo[0][2]) for m in horizons]
    out = Path(output_dir)
    config = _config(track, home, others, [plan for plan, _, _ in todo], budget, size, bootstrap, seed)
    _make_room(out, config, force=force)
    out.mkdir(parents=True, exist_ok=True)
    result_files.write_json(out / "config.json", config)
    training = {name: getattr(budget, name) for name in ("epochs", "patience", "batch_size")}
    outcomes = []
    for plan, these, place in todo:
        name = f"{plan.name}-{plan.minutes}min"
        outcomes.append(
            jobs.carry_out(
                plan, these, place.settings, out / "jobs" / name, training=training,
                progress=None if progress is None else _named(progress, name),
            )
        )  # fmt: skip
    counts = _counts(splits, home, outcomes)
    found = results.of_outcomes(
        outcomes, track=track, config=config, counts=counts, bootstrap=bootstrap, seed=seed
    )
    found.save(out)
    return found


def score_run(
    run: str | os.PathLike,
    data: str | os.PathLike,
    *,
    output_dir: str | os.PathLike,
    split: str = "test",
    force: bool = False,
    progress: Progress | None = None,
) -> VitalResults:
    """Scores the trained models of a finished run on another store, with the run's switches; goes on as `evaluate`.

    Args:
        run: output folder of `evaluate`.
        split: of the store; `all` takes every surgery.
        force: start over what a run left in the output folder.

    Raises:
        ConfigError: no finished run, a store whose variables the models cannot take, or an output folder that is the
            run's own or holds another run.
        StoreError: weights that cannot be read.
    """
    config = _finished(Path(run))
    place = _home(open_cases(data), VitalSettings(**config["switches"]), minute=config["track"] == 3)
    ids = place.store.ids if split == "all" else place.store.splits.get(split)
    if ids is None:
        raise ConfigError(f"--split: expected train, validation, test or all, got {split!r}")
    made = [plans.of_facts(plan, place.centre) for plan in config["plans"] if plan["role"] == "model"]
    horizons = dict.fromkeys(plan.minutes for plan in made)
    baselines = [plans.baseline(m, place.centre, track=config["track"]) for m in horizons]
    listed = [plan for plan in config["plans"] if plan["role"] != "baseline"]
    listed += [plan.facts() for plan in baselines]
    shown = {**config, "data": place.facts(), "trained_on": config["data"], "split": split, "target": None,
             "plans": listed, "switches": _of_scores(config["track"], config["switches"])}  # fmt: skip
    shown["title"] = f"{config['title']}, scored on {place.store.centre.title}"
    out = Path(output_dir)
    if out.resolve() == Path(run).resolve():
        raise ConfigError(f"--out: {out} is the run itself; its scores would be replaced")
    _make_room(out, shown, force=force)
    test = place.scaled(ids)
    splits = jobs.Splits(test, test, test, place.centre)
    outcomes = []
    for done, plan in enumerate([*made, *baselines]):
        name = f"{plan.name}-{plan.minutes}min"
        outcomes.append(
            jobs.rescore(plan, splits, place.settings, Path(run) / "jobs" / name, out / "jobs" / name)
        )
        if progress is not None:
            progress(name, done + 1, len(made) + len(baselines))
    counts = _counts(splits, place, outcomes) | {
        "train_cases": 0,
        "train_cases_left_out": 0,
        "validation_cases": 0,
    }
    found = results.of_outcomes(
        outcomes, track=config["track"], config=shown, counts=counts, bootstrap=config["bootstrap"],
        seed=config["seed"],
    )  # fmt: skip
    result_files.write_json(out / "config.json", shown)
    found.save(out)
    return found


def clear(out: Path) -> None:
    """Removes what a run of VitalBench left in a folder; anything else stays."""
    if _run_config(out) is not None or (out / "ablation.json").exists():
        shutil.rmtree(out)


def _make_room(out: Path, config: dict[str, Any], *, force: bool) -> None:
    """Refuses a folder with another run, or clears it. Models and horizons may be added to a run, draws may change."""
    if force:
        return clear(out)
    earlier.check_kind(out, "benchmark", "vitalbench")
    if (before := _run_config(out)) is not None:
        earlier.refuse_other(out, _deciding(before), _deciding(config), _DECIDING)
    return None


_DECIDING = ("track", "data", "target", "trained_on", "split", "switches", "channel_orders", "size", "budget")


def _deciding(config: dict[str, Any]) -> dict[str, Any]:
    """Stores by what they hold, wherever they lie."""
    stores = ("data", "target", "trained_on")
    return config | {name: (config.get(name) or {}).get("store") for name in stores}


def _run_config(out: Path) -> dict[str, Any] | None:
    """What the run in a folder was begun with; None where there is none."""
    try:
        found = json_text.loads((out / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("benchmark") == "vitalbench" else None


def _finished(run: Path) -> dict[str, Any]:
    try:
        content = json_text.loads((run / "results.json").read_text())
        if content["benchmark"] == "vitalbench" and "plans" in content["config"]:
            return content["config"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise ConfigError(f"{run}: no finished run of wearjax vitalbench train (results.json)")


@dataclass(frozen=True, eq=False)
class _Home:
    """A centre's store with its switches, at its own or at one-minute steps."""

    store: CaseStore
    settings: VitalSettings
    minute: bool = False
    fraction: float = 1.0

    @property
    def every(self) -> int:
        return 60 // self.store.centre.step_seconds if self.minute else 1

    @property
    def centre(self) -> Centre:
        return one_minute(self.store.centre) if self.every > 1 else self.store.centre

    def splits(self) -> jobs.Splits:
        """Scaled cases of the three lists. Raises ConfigError naming an empty one."""
        lists = self.store.splits
        for name, ids in lists.items():
            if not ids:
                raise ConfigError(
                    f"{self.store.path}: its {name} list is empty ({len(self.store.ids)} surgeries in all): prepare "
                    "more, or give lists of your own with --split"
                )
        train = self.train
        return jobs.Splits(
            self.scaled(train), self.scaled(lists["validation"]), self.scaled(lists["test"]), self.centre
        )

    def scaled(self, ids: Sequence[str]) -> ScaledCases:
        """Some surgeries as models see them."""
        return vital_scaled.of_store(self.store, ids, self.settings, every=self.every, stats=self._range)

    @cached_property
    def _range(self) -> Range | None:
        if self.settings.scaling == "per_case":
            return None
        return vital_scaled.training_range(self.store, self.train, self.settings, every=self.every)

    @property
    def train(self) -> list[str]:
        listed = self.store.splits["train"]
        return listed[: max(1, round(self.fraction * len(listed)))]

    def facts(self) -> dict[str, Any]:
        digest = hashlib.sha256()
        for name in ("vital.json", "splits.json"):
            digest.update((self.store.path / name).read_bytes())
        return {
            "path": str(self.store.path),
            "centre": self.store.centre.name,
            "title": self.store.centre.title,
            "step_seconds": self.centre.step_seconds,
            "source": self.store.meta["provenance"].get("source"),
            "store": digest.hexdigest()[:16],
        }


def _home(store: CaseStore, asked: VitalSettings, *, minute: bool, fraction: float = 1.0) -> _Home:
    """The split is a fact of the store, whatever was asked."""
    rule = store.meta["split"]
    split: Any = rule if rule in ("time", "random42") else "list"
    return _Home(store, dataclasses.replace(asked, split=split), minute, fraction)


def _config(
    track: int,
    home: _Home,
    others: list[_Home],
    todo: list[plans.Plan],
    budget: Budget,
    size: str,
    bootstrap: int,
    seed: int,
) -> dict[str, Any]:
    title = home.store.centre.title
    if others:
        title += f" to {others[0].store.centre.title}"
    return {
        "benchmark": "vitalbench",
        "wearjax": wearjax.__version__,
        "track": track,
        "title": f"{TITLES[track]}, {title}",
        "data": home.facts(),
        "target": others[0].facts() if others else None,
        "switches": _of_scores(track, home.settings.to_dict()),
        **({"channel_orders": _orders(home.settings)} if others else {}),
        "size": size,
        "budget": dataclasses.asdict(budget),
        "bootstrap": bootstrap,
        "seed": seed,
        "plans": [plan.facts() for plan in todo],
    }


def _of_scores(track: int, switches: dict[str, Any]) -> dict[str, Any]:
    """The switches as the scores of the models follow them."""
    return {**switches, "channel_order": "identity"} if track == 3 else switches


def _orders(asked: VitalSettings) -> dict[str, str]:
    """Which order of the channels what of a run across centres follows."""
    order = asked.channel_order
    return {"scores": "identity", "best_epoch": order, "upper_bound": order}


def _counts(splits: jobs.Splits, home: _Home, outcomes: list[jobs.Outcome]) -> dict[str, Any]:
    return {
        "train_cases": len(splits.train),
        "train_cases_left_out": len(home.store.splits["train"]) - len(splits.train),
        "validation_cases": len(splits.validation),
        "test_cases": len(splits.test),
        "jobs": {
            f"{o.plan.name}-{o.plan.minutes}min": {k: v for k, v in o.record.items() if k != "history"}
            for o in outcomes
        },
    }


def _named(progress: Progress, name: str) -> Callable[[int, int], None]:
    return lambda done, total: progress(name, done, total)
