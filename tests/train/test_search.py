"""Search: choices, pruning, results, and that a search killed anywhere ends like one that was not."""

from __future__ import annotations

import functools
import json
import math
import subprocess
import sys
from types import SimpleNamespace

import pytest
import toy_pretraining

from wearjax.errors import ConfigError, StoreError, WearjaxError
from wearjax.models import registry
from wearjax.train import loop, search, search_spaces
from wearjax.train.config import DataConfig, LoopConfig, PretrainConfig
from wearjax.train.search_spaces import Choice, LogUniform, SearchSpace, Uniform

optuna = pytest.importorskip("optuna", reason="searching needs optuna (extra `search`)")

UNITS = 17
SPACE = SearchSpace(
    {
        "optimizer.learning_rate": LogUniform(1e-5, 1e-3),
        "optimizer.weight_decay": Uniform(0.0, 0.2),
        "data.batch_size": Choice((4, 8)),
    },
    trials=6,
)


def badness(config: PretrainConfig) -> float:
    """Lowest at a learning rate of 2e-4 and no decay; says nothing before a trial is under way a while."""
    distance = abs(math.log10(config.optimizer.learning_rate / 2e-4))
    return distance + config.optimizer.weight_decay + 0.01 * (config.data.batch_size == 8)


def loss_at(config: PretrainConfig, unit: int) -> float:
    return badness(config) * (1 - math.exp(-unit / 4)) + 1 / unit


class Killed(BaseException):
    """The process is gone."""


class Trainer:
    """Takes one unit after another, keeps a checkpoint every third, as a run folder would."""

    def __init__(self, *, diverge_above: float = math.inf, kill_at: tuple[int, int] | None = None):
        self.diverge_above, self.kill_at = diverge_above, kill_at
        self.units_trained = 0

    def __call__(self, config, *, data_dir, out, on_validation):
        every = config.loop.validate_every
        units = config.loop.steps // every
        assert config.loop.steps % every == 0
        out.mkdir(parents=True, exist_ok=True)
        (out / "config.json").write_text("{}")
        saved = out / "saved"
        done = int(saved.read_text()) if saved.exists() else 0
        for unit in range(done + 1, units + 1):
            if self.kill_at == (int(out.name.removeprefix("trial-")), unit):
                raise Killed
            self.units_trained += 1
            if badness(config) > self.diverge_above and unit == 3:
                raise WearjaxError(f"step {unit * every}: loss nan is not finite")
            ended = on_validation(unit * every, {"loss": loss_at(config, unit)})
            if ended or unit % 3 == 0 or unit == units:
                saved.write_text(str(unit))
            if ended:
                return SimpleNamespace(finished=unit == units, step=unit * every)
        return SimpleNamespace(finished=True, step=units * every)


def config(**settings) -> PretrainConfig:
    kept = {"epochs": float(UNITS)} | settings
    return PretrainConfig(name="toy", seed=4, data=DataConfig(batch_size=8), loop=LoopConfig(**kept))


def run(out, *, train=None, console=None, asked=None, **settings):
    settings = {"trials": 6, "space": SPACE} | settings
    return search.search(
        asked or config(), data_dir="days", out=out, train=train or Trainer(),
        measure=lambda config, data_dir: (40, "digest"),
        console=console or toy_pretraining.plain_console(), **settings,
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A search that nothing interrupted."""
    return run(tmp_path_factory.mktemp("search") / "whole")


def test_finds_the_good_region_and_prunes(whole, tmp_path):
    assert {t.state for t in whole.trials} == {"complete", "pruned"}
    assert whole.best.value == min(t.value for t in whole.trials if t.state == "complete")
    assert all(t.units in (5, 15, 17) for t in whole.trials)  # the rungs of Hyperband from 5 with factor 3
    longer = run(tmp_path / "longer", trials=18)
    assert badness(search_spaces.apply(config(), longer.best.parameters)) < 0.4
    late = [t for t in longer.trials[9:]]
    early = longer.trials[:6]

    def mean(found):
        return sum(badness(search_spaces.apply(config(), t.parameters)) for t in found) / len(found)

    assert mean(late) < mean(early)  # TPE has learnt where to look


def test_trials_have_whole_units(whole):
    first = json.loads((whole.out / "search.json").read_text())["trials"][0]
    batch = first["parameters"]["data.batch_size"]
    # 17 passes over 40 examples
    assert first["steps"] == first["units"] * (UNITS * 40 // batch // UNITS)


def test_result_files(whole):
    content = json.loads((whole.out / "search.json").read_text())
    assert [t["state"] for t in content["trials"]] == [t.state for t in whole.trials]
    assert content["best"]["number"] == whole.best.number
    assert content["best"]["run"] == whole.best.folder
    assert content["versions"]["optuna"] == optuna.__version__
    assert content["min_units"] == 5
    assert content["reduction_factor"] == 3
    best = json.loads((whole.out / "best.json").read_text())
    assert search_spaces.apply(config(), best) == search_spaces.apply(config(), whole.best.parameters)
    assert not list(whole.out.glob(".*.partial"))


def test_best_parameters_become_command_line_overrides(whole):
    from wearjax.train import config as configs

    got = configs.override(config(), search.arguments(whole.best))
    assert got == search_spaces.apply(config(), whole.best.parameters)


def test_rows_of_the_table(whole):
    rows = search.rows(whole)
    assert len(rows) == 6
    assert rows[0]["trial"] == f"{whole.best.number} (best)"
    assert rows[0]["validations"] == "17 of 17"
    assert list(rows[0]) == ["trial", "state", "validation loss", "validations", "steps", "settings"]
    chosen = dict(pair.split("=") for pair in rows[0]["settings"].split())
    assert float(chosen["learning_rate"]) == pytest.approx(
        whole.best.parameters["optimizer.learning_rate"], rel=1e-3
    )
    assert int(chosen["batch_size"]) == whole.best.parameters["data.batch_size"]
    assert sum("best" in row["trial"] for row in rows) == 1


def test_decides_as_optuna_does_by_itself(whole):
    """The same search written with Optuna alone, in one process, with no journal."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        study_name="wearjax",
        pruner=optuna.pruners.HyperbandPruner(min_resource=5, max_resource=UNITS, reduction_factor=3),
    )

    def objective(trial):
        parameters = {
            "optimizer.learning_rate": trial.suggest_float("optimizer.learning_rate", 1e-5, 1e-3, log=True),
            "optimizer.weight_decay": trial.suggest_float("optimizer.weight_decay", 0.0, 0.2),
            "data.batch_size": trial.suggest_categorical("data.batch_size", (4, 8)),
        }
        chosen = search_spaces.apply(config(), parameters)
        for unit in range(1, UNITS + 1):
            trial.report(loss_at(chosen, unit), unit)
            if unit < UNITS and trial.should_prune():
                raise optuna.TrialPruned
        return loss_at(chosen, UNITS)

    import numpy as np

    for number in range(6):
        seed = int(np.random.SeedSequence([4, number]).generate_state(1)[0])
        study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=4, multivariate=True)
        study.optimize(objective, n_trials=1)
    assert [t.state.name.lower() for t in study.trials] == [t.state for t in whole.trials]
    assert [t.value for t in study.trials] == [t.value for t in whole.trials]


def test_finished_search_trains_nothing(whole):
    trainer = Trainer()
    assert run(whole.out, train=trainer) == whole
    assert trainer.units_trained == 0


def test_asking_for_more_trials_continues(whole, tmp_path):
    run(tmp_path, trials=2)
    trainer = Trainer()
    got = run(tmp_path, trials=6, train=trainer)
    assert got.trials == whole.trials
    assert trainer.units_trained == sum(t.units for t in whole.trials[2:])


@pytest.mark.parametrize(("trial", "unit"), [(0, 1), (0, 5), (1, 6), (2, 5), (3, 2), (5, 17)])
def test_killed_in_training_ends_alike(whole, tmp_path, trial, unit):
    if whole.trials[trial].units < unit:
        unit = whole.trials[trial].units
    with pytest.raises(Killed):
        run(tmp_path, train=Trainer(kill_at=(trial, unit)))
    unfinished = json.loads((tmp_path / "search.json").read_text())["trials"] if trial else []
    assert len(unfinished) == trial  # written after every trial
    console = toy_pretraining.plain_console()
    assert run(tmp_path, console=console).trials == whole.trials
    assert f"continuing: {trial} trials are finished" in toy_pretraining.said(console)


@pytest.mark.parametrize("moment", ["before", "torn", "after"])
@pytest.mark.parametrize("write", [1, 2, 3, 4, 9, 17, 19, 20, 21, 26, 33, 60])
def test_killed_while_writing_the_journal_ends_alike(whole, tmp_path, monkeypatch, write, moment):
    backend = optuna.storages.journal.JournalFileBackend
    append, count = backend.append_logs, 0

    def dying(self, logs):
        nonlocal count
        count += 1
        if count == write:
            if moment == "after":
                append(self, logs)
            if moment == "torn":
                with open(self._file_path, "ab") as file:
                    file.write(json.dumps(logs[0]).encode()[:-3])
            (tmp_path / "study.journal.lock").symlink_to("study.journal")
            raise Killed
        append(self, logs)

    with monkeypatch.context() as patch:
        patch.setattr(backend, "append_logs", dying)
        with pytest.raises(Killed):
            run(tmp_path)
    assert run(tmp_path).trials == whole.trials


def test_seed_decides(whole, tmp_path):
    assert run(tmp_path / "again").trials == whole.trials
    assert run(tmp_path / "other", seed=5).trials != whole.trials


def test_diverging_trials_are_counted_not_fatal(tmp_path):
    got = run(tmp_path, train=Trainer(diverge_above=0.5))
    lost = [t for t in got.trials if t.state == "diverged"]
    assert lost
    assert all("loss nan" in t.reason and t.units == 2 for t in lost)
    assert len(got.trials) == 6
    assert got.best.state == "complete"
    assert run(tmp_path).trials == got.trials


def test_validation_loss_that_is_not_finite_ends_the_trial(tmp_path):
    def train(config, *, data_dir, out, on_validation):
        assert not on_validation(config.loop.validate_every, {"loss": 1.0})
        assert on_validation(2 * config.loop.validate_every, {"loss": math.nan})
        return SimpleNamespace(finished=False, step=2 * config.loop.validate_every)

    got = run(tmp_path, train=train, trials=2)
    assert [t.state for t in got.trials] == ["diverged", "diverged"]
    assert got.best is None
    assert json.loads((tmp_path / "search.json").read_text())["best"] is None
    assert not (tmp_path / "best.json").exists()


def test_settings_at_fault_are_not_taken_for_divergence(tmp_path):
    def train(config, **_):
        raise StoreError("days: no such store")

    with pytest.raises(StoreError):
        run(tmp_path, train=train)
    assert len(run(tmp_path).trials) == 6  # the trial went on


def test_few_units_are_not_pruned(tmp_path):
    console = toy_pretraining.plain_console()
    got = run(tmp_path, units=4, console=console)
    assert {t.state for t in got.trials} == {"complete"}
    assert "no pruning" in toy_pretraining.said(console)


def test_says_that_ranges_are_its_own(tmp_path):
    console = toy_pretraining.plain_console()
    run(tmp_path, space=None, units=4, trials=1, console=console)
    said = toy_pretraining.said(console)
    assert "Table 24" in said
    assert "ranges are not published" in said
    assert "optimizer.learning_rate: 1e-05 to 0.001" in said


def test_another_search_in_the_folder_is_refused(whole):
    for change in ({"seed": 9}, {"units": 5}, {"asked": config(epochs=30.0), "units": UNITS}):
        with pytest.raises(ConfigError, match=r"holds a search with .*--force"):
            run(whole.out, **change)
    other = SearchSpace({"optimizer.learning_rate": LogUniform(1e-4, 1e-2)}, trials=2)
    with pytest.raises(ConfigError, match="holds a search"):
        run(whole.out, space=other)


def test_force_starts_over(tmp_path):
    run(tmp_path, trials=2)
    got = run(tmp_path, trials=1, seed=9, force=True)
    assert len(got.trials) == 1
    assert not (tmp_path / "trial-0001").exists()


def test_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    for force in (False, True):
        with pytest.raises(ConfigError, match="holds no search"):
            run(tmp_path, force=force)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_one_search_a_folder_at_a_time(tmp_path):
    def train(config, *, data_dir, out, on_validation):
        with pytest.raises(ConfigError, match="another search is running"):
            run(out.parent)
        return Trainer()(config, data_dir=data_dir, out=out, on_validation=on_validation)

    run(tmp_path, trials=1, train=train)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"optimizer.learning_rat": Uniform(1e-4, 1e-3)}, "did you mean optimizer.learning_rate"),
        ({"optimizer": Choice((1,))}, "section"),
        ({"optimizer.beta1": Uniform(0.5, 1.5)}, "optimizer.beta1"),
        ({"data.batch_size": Choice((8, 4000))}, "too few"),
    ],
)
def test_impossible_spaces_are_refused_before_training(tmp_path, space, message):
    trainer = Trainer()
    with pytest.raises(ConfigError, match=message):
        run(tmp_path / "s", space=SearchSpace(space, trials=2), train=trainer)
    assert trainer.units_trained == 0
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Uniform(1.0, 1.0), lambda: LogUniform(0.0, 1.0), lambda: Uniform(0.0, math.inf),
        lambda: Choice(()), lambda: Choice((1, 1)), lambda: SearchSpace({}, trials=1),
    ],
)  # fmt: skip
def test_impossible_ranges(make):
    with pytest.raises(ConfigError, match="search space"):
        make()


def test_several_fields_share_a_value():
    got = search_spaces.apply(config(), {"optimizer.beta1, optimizer.beta2": 0.5})
    assert (got.optimizer.beta1, got.optimizer.beta2) == (0.5, 0.5)
    assert search_spaces.overrides({"a.x,b.y": 1}) == {"a.x": 1, "b.y": 1}


def test_metric_of_the_space(tmp_path):
    def train(config, *, data_dir, out, on_validation):
        def both(step, metrics):
            return on_validation(step, {"loss": 1.0, "top": metrics["loss"]})

        return Trainer()(config, data_dir=data_dir, out=out, on_validation=both)

    space = SearchSpace(SPACE.parameters, trials=2, metric="top")
    got = run(tmp_path / "top", space=space, train=train)
    assert got.trials == run(tmp_path / "loss").trials
    assert "validation top" in search.rows(got)[0]
    with pytest.raises(ConfigError, match="no validation metric 'top'"):
        run(tmp_path / "none", space=space)


@pytest.mark.parametrize("kind", sorted(set(search_spaces.SPACES) & set(registry.ARCHITECTURES)))
def test_published_spaces_fit_their_models(kind):
    space, model = search_spaces.SPACES[kind], registry.ARCHITECTURES[kind].config()
    asked = PretrainConfig(name="x", model=model)
    assert search_spaces.space_of(asked) is space
    for name, found in space.parameters.items():
        for end in found.ends():
            search_spaces.apply(asked, {name: end})
    assert "ranges are not published" in space.note


def test_published_numbers_of_trials():
    assert {kind: space.trials for kind, space in search_spaces.SPACES.items()} == {
        "lsm2": 15, "lsm2_sparse": 30, "wbm": 15, "dlinear_forecast": 15, "segrnn": 15, "mixlinear": 15,
    }  # fmt: skip


def test_without_optuna_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError, match=r"pip install 'wearjax\[search\]'"):
        run(tmp_path)


@pytest.mark.parametrize(
    ("asked", "message"), [({"units": 0}, "units: must be"), ({"seed": -1}, "seed: must be")]
)
def test_impossible_numbers_are_refused(tmp_path, asked, message):
    with pytest.raises(ConfigError, match=message):
        run(tmp_path, **asked)


def test_importing_a_search_does_not_import_optuna():
    code = "import sys, wearjax.train.search; print('optuna' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_missing_validation_is_named(tmp_path):
    def train(config, **_):
        return SimpleNamespace(finished=True, step=config.loop.steps)

    with pytest.raises(ConfigError, match=r"loop\.validation_examples"):
        run(tmp_path, train=train)


def test_real_pretraining_killed_and_continued(store, tmp_path):
    """A trial of the toy model, once whole and once interrupted."""
    space = SearchSpace({"optimizer.learning_rate": LogUniform(1e-3, 1e-1)}, trials=1)
    kept = {"steps": 8, "validate_every": None, "checkpoint_every": None, "log_every": 4}
    asked = toy_pretraining.config(**kept)

    def go(out, **changes):
        console = toy_pretraining.plain_console()
        train = functools.partial(loop.pretrain, task=toy_pretraining.task(), console=console)
        settings = {"train": train} | changes
        return search.search(
            asked, data_dir=store, out=out, space=space, units=4, console=console, **settings
        )

    def interrupted(config, *, out, on_validation, **settings):
        def ctrl_c(step, metrics):
            on_validation(step, metrics)
            if (out.name, step) == ("trial-0000", 6):
                raise Killed
            return False

        return loop.pretrain(
            config, out=out, on_validation=ctrl_c, task=toy_pretraining.task(),
            console=toy_pretraining.plain_console(), **settings,
        )  # fmt: skip

    whole = go(tmp_path / "whole")
    assert [(t.state, t.units, t.steps) for t in whole.trials] == [("complete", 4, 8)]
    with pytest.raises(Killed):
        go(tmp_path / "killed", train=interrupted)
    assert go(tmp_path / "killed").trials == whole.trials
