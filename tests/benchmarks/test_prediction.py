"""The prediction evaluation end to end on a small cohort: methods, substitution, skipping, resuming."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_days import made_cohort
from openmhc_root import write_openmhc_root

from wearjax.benchmarks.openmhc import prediction
from wearjax.benchmarks.openmhc.prediction import evaluate_prediction
from wearjax.days.splits import Splits, to_json
from wearjax.days.store import DayStoreWriter
from wearjax.errors import ConfigError, MethodError
from wearjax.predict.predictors import linear
from wearjax.predict.protocols import DataSpec

N = 24
TASKS = ("age", "Diabetes", "Hdl", "BMI_categories")
DATES = ("2021-03-01", "2021-03-03")
NAN = float("nan")
USERS = tuple(sorted({day.participant for day in made_cohort(N, 1)}))
TRAIN, VALIDATION, TEST = USERS[:10], USERS[10:14], USERS[14:]


def label_columns() -> dict:
    rng = np.random.default_rng(3)
    age = rng.integers(20, 80, N)
    return {
        "age": age,
        "BiologicalSex": rng.integers(0, 2, N),
        "Diabetes": np.arange(N) % 2,
        "Hdl": np.round(age / 30 + rng.random(N), 2),
        "BMI_categories": np.arange(N) % 4,
        "PH": np.ones(N, int),  # one class
        "CAD": np.where(np.arange(N) == 0, 1, -1),  # one participant
    }


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("prediction") / "store"
    with DayStoreWriter(path, provenance={"source": "made"}) as writer:
        writer.add_all(made_cohort(participants=N, days=3))  # the second day is not retained
        writer.attach("splits.json", to_json(Splits(TRAIN, VALIDATION, TEST)))
    columns = {"user_id": np.repeat(USERS, 2), "date": list(DATES) * N}
    columns |= {code: np.repeat(values, 2) for code, values in label_columns().items()}
    pq.write_table(pa.table(columns), path / "task_labels.parquet")
    return path


def evaluate(method, data_dir, **options):
    return evaluate_prediction(method, data_dir=data_dir, **{"tasks": TASKS, "bootstrap": 0, **options})


def truth(code, users=TEST):
    return label_columns()[code][[USERS.index(user) for user in users]].astype(float)


class MeanSteps:
    """As written for OpenMHC: nothing of this library is in it."""

    name = "mean steps"
    data_spec = ("hourly", "day")

    def set_context(self, context):
        self.context = context

    def fit(self, data, labels, task_type):
        self.low, self.high = min(labels), max(labels)

    def predict(self, data):
        steps = [np.nanmean(days[..., 3]) if np.isfinite(days[..., 3]).any() else np.nan for days in data]
        return self.low + (self.high - self.low) * np.asarray(steps) / max(steps)


class Trained:
    """As a loaded model offers itself: what predicts is made for the store under evaluation."""

    name = "trained"

    def as_predictor(self, days):
        assert len(days) == 3 * N
        return MeanSteps()


def test_a_trained_model_is_a_method(data_dir):
    found, wanted = (evaluate(method, data_dir, tasks=("age",)) for method in (Trained(), MeanSteps()))
    assert found.method_names == ("trained",)
    assert found.score("trained").point == wanted.score("mean steps").point


class Constant:
    """Answers with a number by position, and keeps how it was called."""

    def __init__(self, answer=lambda n: np.linspace(0, 1, n), **members):
        self.answer, self.calls = answer, []
        self.__dict__.update(members)

    def set_context(self, context):
        self.calls.append(("context", context.task, context.split, len(context.user_ids)))

    def fit(self, data, labels, task_type):
        self.calls.append(("fit", len(data), task_type, tuple(labels)))

    def predict(self, data):
        self.calls.append(("predict", len(data)))
        return self.answer(len(data))


def test_a_method_written_for_openmhc_runs_unchanged(data_dir, tmp_path):
    evaluate(MeanSteps(), data_dir, output_dir=tmp_path / "run")
    for name in ("mean_steps", "linear"):
        for code in TASKS:
            table = pq.read_table(tmp_path / "run" / name / code / "test.parquet").to_pydict()
            assert table["uid"] == list(TEST)
            assert table["y_true"] == truth(code).tolist()
            assert np.isfinite(table["y_pred"]).all()


def test_calls_of_a_method_in_order(data_dir):
    method = Constant()
    evaluate(method, data_dir, tasks=("Diabetes", "Hdl"))
    assert method.calls == [
        ("context", "Diabetes", "train", 10),
        ("fit", 10, "binary", tuple(truth("Diabetes", TRAIN))),
        ("context", "Diabetes", "test", 10),
        ("predict", 10),
        ("context", "Hdl", "train", 10),
        ("fit", 10, "regression", tuple(truth("Hdl", TRAIN))),
        ("context", "Hdl", "test", 10),
        ("predict", 10),
    ]


@pytest.mark.parametrize(
    ("spec", "shape"),
    [
        (DataSpec("hourly", "day"), (2, 24, 38)),
        (DataSpec("hourly", "series", 30), (30, 38)),
        (("minute", "day"), (2, 1440, 38)),
    ],
)
def test_inputs_that_a_method_asks_for(data_dir, spec, shape):
    class Looking:
        data_spec = spec

        def predict(self, data):
            assert [a.shape for a in data] == [shape] * 4
            return np.arange(4)

    evaluate(Looking(), data_dir, tasks="Hdl", split="val")


def columns_of(folder, method, code):
    table = pq.read_table(folder / method / code / "test.parquet").to_pydict()
    return np.array(table["y_pred"]), np.array(table["y_proba"])


def test_raw_answers_become_columns(data_dir, tmp_path):
    raw = np.array([0.5, 1.5, 2.5, -0.2, 0.49, 0.51, 3.0, 2.0, 1.0, 0.0])
    evaluate({"m": Constant(lambda n: raw)}, data_dir, output_dir=tmp_path / "a")
    expected = {
        "Diabetes": (raw >= 0.5).astype(float),
        "BMI_categories": np.rint(raw),  # halves to even
        "Hdl": raw,
        "age": raw,
    }
    for code, y_pred in expected.items():
        found = columns_of(tmp_path / "a", "m", code)
        np.testing.assert_array_equal(found[0], y_pred)
        np.testing.assert_array_equal(found[1], raw)
    evaluate({"m": Constant(lambda n: raw)}, data_dir, output_dir=tmp_path / "b", round_ordinal=False)
    np.testing.assert_array_equal(columns_of(tmp_path / "b", "m", "BMI_categories")[0], raw)


def test_predictions_that_lack_are_taken_from_the_baseline_and_counted(data_dir, tmp_path):
    raw = np.arange(10.0)
    raw[[2, 5]] = NAN, np.inf
    results = evaluate({"m": Constant(lambda n: raw)}, data_dir, output_dir=tmp_path)
    linear = columns_of(tmp_path, "linear", "Hdl")[1]
    np.testing.assert_array_equal(
        columns_of(tmp_path, "m", "Hdl")[1], np.where(np.isfinite(raw), raw, linear)
    )
    merged = columns_of(tmp_path, "m", "Diabetes")[1]
    assert sorted(merged[[2, 5]].tolist()) == [0.5, 1.0]
    np.testing.assert_allclose(merged[np.isfinite(raw)], np.arange(1, 9) / 8)
    assert results.fallback_rate == dict.fromkeys(TASKS, 0.2)
    assert results.overall_fallback_rate == 0.2


def test_only_tasks_with_substitutions_have_a_rate(data_dir):
    class Sometimes(Constant):
        def set_context(self, context):
            self.task = context.task

        def predict(self, data):
            return np.where(np.arange(len(data)) == 0, NAN if self.task == "age" else 0.0, 1.0)

    results = evaluate({"m": Sometimes()}, data_dir)
    assert results.fallback_rate == {"age": 0.1}
    assert results.overall_fallback_rate == pytest.approx(0.1 / len(TASKS))


def test_tasks_that_cannot_be_evaluated_are_counted_with_the_reason(data_dir):
    results = evaluate(Constant(), data_dir, tasks=("Hdl", "PH", "CAD", "Ldl"))
    assert {reason: n for reason, n in results.skipped.items() if reason.startswith("task ")} == {
        "task PH: all labels in train are equal": 1,
        "task CAD: fewer than 2 participants with a label in train": 1,
        "task Ldl: no labels": 1,
    }
    assert "not evaluated: PH (all labels in train are equal)\n" in results.summary()
    with pytest.raises(ConfigError, match=r"no task can be evaluated \(task Ldl: no labels\)"):
        evaluate(Constant(), data_dir, tasks="Ldl")


def test_eligible_days_that_the_store_lacks_are_counted(data_dir, tmp_path):
    (tmp_path / "shards").symlink_to(data_dir / "shards")
    for name in ("store.json", "index.parquet", "splits.json"):
        (tmp_path / name).write_bytes((data_dir / name).read_bytes())
    table = pq.read_table(data_dir / "task_labels.parquet").to_pydict()
    table["date"][0], table["date"][3] = "2021-03-02", "2030-01-01"  # one not retained, one not there
    pq.write_table(pa.table(table), tmp_path / "task_labels.parquet")
    results = evaluate(Constant(), tmp_path, tasks="Hdl")
    assert results.skipped["task Hdl: eligible days that the data do not have"] == 2


def test_a_failing_method_stops_the_run_with_its_name_and_task(data_dir):
    def fail(n):
        raise ZeroDivisionError("oh")

    with pytest.raises(
        MethodError, match=r"^m\.predict, task 'age': ZeroDivisionError: oh \(\S*test_prediction\.py:\d+\)$"
    ):
        evaluate({"m": Constant(fail)}, data_dir)
    with pytest.raises(MethodError, match=r"^m\.predict, task 'age': returned shape \(3,\)"):
        evaluate({"m": Constant(lambda n: np.zeros(3))}, data_dir)


def test_no_other_method_goes_by_the_name_of_the_baseline(data_dir, monkeypatch):
    with pytest.raises(ConfigError, match="method name 'linear': taken by the baseline"):
        evaluate({"linear": Constant()}, data_dir)
    monkeypatch.setattr(linear.Linear, "predict", lambda self, data: np.full(len(data), NAN))
    with pytest.raises(MethodError, match=r"linear, task 'age': 10 predictions are not finite"):
        evaluate(Constant(), data_dir)


def test_a_method_that_lacks_a_task_is_shown_without_skill_and_rank(data_dir):
    def settled(n):  # the same number for everybody has no correlation
        return np.full(n, 0.5)

    found = evaluate({"settled": Constant(settled), "m": Constant()}, data_dir, tasks=("Hdl", "Diabetes"))
    assert found.undefined == {"settled": ["Hdl"]}
    lines = {line.split()[0]: line.split() for line in found.summary().splitlines()[2:5]}
    assert lines["settled"][1:4] == ["-", "-", "-"]
    assert lines["m"][1] != "-"
    assert list(lines)[-1] == "settled"
    text = found.summary()
    assert "settled: no metric in Hdl (one label only, or the same prediction for everybody)" in text
    assert (
        "settled: no score, or one of fewer participants, in Hdl; it has no skill, rank or best mark" in text
    )
    assert "settled - %" in repr(found)
    assert found.config["own_methods"] == ["settled", "m"]


def test_few_participants_and_replaced_answers_are_said(data_dir):
    found = evaluate({"m": Constant(lambda n: np.full(n, NAN))}, data_dir, tasks=("Hdl",), split="validation")
    assert (
        "only 4 participants were scored: intervals, skills and ranks mean little below about 10"
        in found.summary()
    )
    assert "m: 4 predictions were not finite: linear stands in (Hdl 100.00%)" in found.summary()
    assert "linear (baseline)" in found.summary()


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_that_no_generator_takes_is_refused(data_dir, seed):
    with pytest.raises(ConfigError, match=rf"^seed: must be in \[0, 2\^32\), got {seed}$"):
        evaluate(Constant(), data_dir, seed=seed)


def test_an_empty_dict_evaluates_the_baseline(data_dir):
    assert evaluate({}, data_dir, tasks="Hdl").method_names == ("linear",)


class Falling(Constant):
    """Answers the other way round, and may stop the evaluation at its second task, as Ctrl-C does."""

    def __init__(self, *, stops=False):
        super().__init__(lambda n: -np.arange(n))
        self.stops = stops

    def predict(self, data):
        if self.stops and any(call[0] == "predict" for call in self.calls):
            raise KeyboardInterrupt
        return super().predict(data)


def asked(method) -> list[str]:
    return [call[1] for call in method.calls if call[0] == "context" and call[2] == "test"]


def test_an_interrupted_evaluation_continues(data_dir, tmp_path):
    whole = evaluate({"a": Constant(), "b": Falling()}, data_dir)
    with pytest.raises(KeyboardInterrupt):
        evaluate({"a": Constant(), "b": Falling(stops=True)}, data_dir, output_dir=tmp_path)
    assert not (tmp_path / "results.json").exists()
    finished = sorted(str(f.parent.relative_to(tmp_path)) for f in tmp_path.glob("*/*/test.json"))
    assert finished == ["a/Diabetes", "a/age", "b/age", "linear/Diabetes", "linear/age"]
    again = {"a": Constant(), "b": Falling()}
    results = evaluate(again, data_dir, output_dir=tmp_path)
    assert asked(again["a"]) == ["Hdl", "BMI_categories"]
    assert asked(again["b"]) == ["Diabetes", "Hdl", "BMI_categories"]
    assert results.scores == whole.scores
    # A third time nobody is asked, and other draws are a matter of scoring.
    idle = {"a": Constant(), "b": Falling()}
    rescored = evaluate(idle, data_dir, output_dir=tmp_path, bootstrap=20, seed=1)
    assert (idle["a"].calls, idle["b"].calls) == ([], [])
    assert [s.point for s in rescored.scores] == [s.point for s in whole.scores]


def test_other_settings_are_refused_and_force_replaces(data_dir, tmp_path):
    def run(depth, **options):
        method = Constant(settings={"depth": depth})
        return evaluate({"m": method}, data_dir, output_dir=tmp_path, tasks="Hdl", **options)

    run(1)
    run(1)
    with pytest.raises(
        ConfigError, match=r"m/Hdl/test\.parquet: made with another method \(.*'depth': 1.*--force"
    ):
        run(2)
    with pytest.raises(ConfigError, match=r"linear/Hdl/test\.parquet: made with another round_ordinal"):
        run(1, round_ordinal=False)
    run(2, force=True)
    settings = json.loads((tmp_path / "m" / "Hdl" / "test.json").read_text())["settings"]
    assert settings["method"]["depth"] == 2


def test_another_split_is_another_file(data_dir, tmp_path):
    evaluate({"m": Constant()}, data_dir, output_dir=tmp_path, tasks="Hdl")
    evaluate({"m": Constant()}, data_dir, output_dir=tmp_path, tasks="Hdl", split="val")
    assert (tmp_path / "m" / "Hdl" / "test.parquet").exists()
    assert pq.read_table(tmp_path / "m" / "Hdl" / "validation.parquet")["uid"].to_pylist() == list(VALIDATION)


def test_it_tells_the_cohorts_that_were_scored(data_dir, tmp_path):
    found = evaluate({}, data_dir, output_dir=tmp_path / "run").scored_on
    again = evaluate(MeanSteps(), data_dir, tasks=("age", "Hdl")).scored_on
    assert found["cells"].items() > again["cells"].items()
    other = evaluate({}, data_dir, tasks=("age",), split="val").scored_on
    assert other["cells"]["age"] != found["cells"]["age"]
    sidecar = json.loads((tmp_path / "run" / "linear.meta.json").read_text())
    assert sidecar["scored_on"] == found


def test_progress_names_task_and_method(data_dir):
    seen = []
    evaluate({"m": Constant()}, data_dir, tasks=("age", "Hdl"), progress=lambda *told: seen.append(told))
    assert seen == [
        (0, 4, "age", "linear"), (1, 4, "age", "m"), (2, 4, "Hdl", "linear"), (3, 4, "Hdl", "m"), (4, 4, "Hdl", ""),
    ]  # fmt: skip


def test_results_tell_what_was_evaluated(data_dir, tmp_path):
    results = evaluate({"m": Constant()}, data_dir, output_dir=tmp_path, bootstrap=10)
    assert results.method_names == ("m",)
    assert results.config["methods"] == ["linear", "m"]
    assert results.config["tasks"] == list(TASKS)
    assert set(results.seconds) == {"linear", "m"}
    assert results.summary().endswith(f"\nrun folder: {tmp_path}")
    assert "m" in results.summary()
    assert (tmp_path / "results.json").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"split": "train"}, "split 'train'"),
        ({"tasks": ()}, "tasks: none given"),
        ({"tasks": "shoe_size"}, "'shoe_size' is unknown"),
        ({"bootstrap": -1}, "bootstrap: expected at least 0"),
        ({"label_window": "weekly"}, "label_window 'weekly'"),
        ({"method_name": "x"}, "method_name: only for a single method"),
    ],
)
def test_impossible_arguments(data_dir, options, told):
    with pytest.raises(ConfigError, match=told):
        evaluate({"m": Constant()}, data_dir, **options)


def test_what_is_no_method(data_dir):
    with pytest.raises(MethodError, match=r"constant: is a class, expected an object of it: Constant\(…\)"):
        evaluate(Constant, data_dir, method_name="constant")
    with pytest.raises(MethodError, match="m: has no predict"):
        evaluate({"m": object()}, data_dir)
    with pytest.raises(ConfigError, match="DataSpec"):
        evaluate({"m": Constant(data_spec=("hourly", "week"))}, data_dir)


def test_a_data_root_and_its_forward_window(tmp_path):
    days = made_cohort(participants=8, days=3)
    users = sorted({day.participant for day in days})
    root = write_openmhc_root(
        tmp_path / "root", days, {"train": users[:4], "validation": users[4:5], "test": users[5:]}
    )
    labels = {
        "user_id": np.repeat(users, 2),
        "date": list(DATES) * 8,
        "age": np.repeat(np.arange(8) + 40, 2),
        "Hdl": np.repeat(np.arange(8) / 4, 2),
    }
    pq.write_table(pa.table(labels), root / "processed" / "daily_labels_lookup_full_history.parquet")
    labels["Hdl"] = np.where(
        np.arange(16) % 2 == 0, labels["Hdl"], NAN
    )  # the second day is beyond the window
    pq.write_table(pa.table(labels), root / "processed" / "daily_labels_lookup.parquet")

    class Days(Constant):
        def predict(self, data):
            self.calls.append([len(days) for days in data])
            return super().predict(data)

    method = Days()
    evaluate({"m": method}, root, tasks="Hdl")
    assert method.calls[-2] == [2, 2, 2]
    evaluate({"m": method}, root, tasks="Hdl", label_window="forward")
    assert method.calls[-2] == [1, 1, 1]


def test_default_tasks_are_the_benchmark():
    assert len(prediction.ALL) == 32
