from __future__ import annotations

import dataclasses
import json

import pytest
from flax import nnx
from hypothesis import given
from hypothesis import strategies as st

from wearjax.errors import ConfigError
from wearjax.models.lsm2 import LSM2Config
from wearjax.train import config as configs
from wearjax.train import shipped, state, tasks
from wearjax.train.config import DataConfig, LoopConfig, OptimizerConfig, PretrainConfig

PARAMETERS = {
    "lsm2_daily": 24_559_498,
    "tiny": 43_260,
    "demo": 108_382,
    "lsm2_weekly": 24_591_548,
    "lsm2_sparse": 24_559_498,
    "wbm": 6_405_120,
    "dlinear_forecast": 23_638,
    "segrnn_forecast": 27_985,
    "mixlinear_forecast": 1_184,
}
SHIPPED = {file.stem: file for folder in shipped.folders() for file in folder.glob("*.py")}


@pytest.fixture(scope="module")
def tiny():
    return configs.load_config("tiny")


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_every_shipped_configuration_builds_its_model(name):
    config = configs.load_config(name)
    assert config.name == name
    _, params, _ = state.blueprint(tasks.task_of(config.model).build)
    if name in PARAMETERS:
        assert state.count(params) == PARAMETERS[name]
    assert configs.from_dict(json.loads(json.dumps(configs.to_dict(config)))) == config


def test_recorded_configurations_are_shipped():
    assert set(PARAMETERS) <= set(SHIPPED)


def test_loading_by_path_and_by_name(tiny):
    assert configs.load_config(SHIPPED["tiny"]) == tiny
    assert configs.load_config("tiny.py") == tiny


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("x = 1", "has no function get_config"),
        ("def get_config(): return 3", "returned int, expected PretrainConfig"),
        (
            "def get_config(): return OptimizerConfig(weight_decy=1)",
            r"OptimizerConfig has no field 'weight_decy' \(did you mean weight_decay\?\)",
        ),
        ("def get_config(): return LoopConfig(steps=0)", "loop.steps: must be at least 1, got 0"),
        ("def get_config(): return 1 / 0", "ZeroDivisionError: division by zero"),
        ("def get_config(:", "SyntaxError"),
    ],
)  # fmt: skip
def test_faults_of_a_file_are_one_line(tmp_path, body, message):
    file = tmp_path / "mine.py"
    file.write_text(f"from wearjax.train.config import LoopConfig, OptimizerConfig\n{body}\n")
    with pytest.raises(ConfigError, match=message) as caught:
        configs.load_config(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_unknown_name_lists_what_there_is():
    with pytest.raises(
        ConfigError, match=r"no configuration 'tinny' \(did you mean tiny\?\); shipped: .*lsm2_daily"
    ):
        configs.load_config("tinny")


def test_shipped_configurations_say_what_they_are():
    found = shipped.descriptions()
    assert set(found) == set(SHIPPED)
    assert found["wbm"].startswith("WBM at the published size")
    assert all(line.endswith(".") for line in found.values())


def test_fields_are_those_that_overrides_set(tiny):
    found = {name: (value, kind) for name, value, kind in configs.fields(tiny)}
    assert found["data.batch_size"] == ("8", "int")
    assert found["loop.strategy"] == ("jit", "one of jit, pmap")
    assert found["loop.patience"] == ("None", "int or None")
    given = [token for name in found for token in (f"--{name}", found[name][0]) if name != "loop.writers"]
    assert configs.override(tiny, given) == tiny


def test_overrides_by_dotted_name(tiny):
    got = configs.override(
        tiny,
        ["--loop.steps", "7", "--model.encoder-depth=3", "--optimizer.clip_norm", "0.5",
         "--data.retained_only", "False", "--loop.writers", "tensorboard", "wandb",
         "--loop.validate-every", "None", "--name", "other"],
    )  # fmt: skip
    assert got.loop.steps == 7
    assert got.model.encoder_depth == 3
    assert got.optimizer.clip_norm == 0.5
    assert got.data.retained_only is False
    assert got.loop.writers == ("tensorboard", "wandb")
    assert got.loop.validate_every is None
    assert dataclasses.replace(
        got, name="tiny", data=tiny.data, loop=tiny.loop, optimizer=tiny.optimizer, model=tiny.model
    ) == tiny  # fmt: skip
    assert configs.override(tiny, []) == tiny


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--loop.step", "7"], r"--loop.step: no such field \(did you mean --loop.steps\?\)"),
        (["--batch", "7"], r"--batch: no such field \(did you mean --data.batch_size\?\)"),
        (["--loop.steps", "many"], "--loop.steps: expected int or None, got many"),
        (["--loop.steps"], "--loop.steps: expected int or None, got nothing"),
        (["--seed", "1", "--loop.log-every", "1.5"], "--loop.log_every: expected int, got 1.5"),
        (["--data.retained_only", "perhaps"], "--data.retained_only: expected bool, got perhaps"),
        (["--loop.strategy", "fast"], "--loop.strategy: expected one of jit, pmap, got fast"),
        (["--loop.steps", "0"], "loop.steps: must be at least 1, got 0"),
        (["seven"], "'seven': overrides are written --section.field value"),
    ],
)
def test_faults_of_an_override_are_one_line(tiny, capfd, arguments, message):
    with pytest.raises(ConfigError, match=message) as caught:
        configs.override(tiny, arguments)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"optimizer": {"lerning_rate": 1}},
            r"optimizer.lerning_rate: no such field \(did you mean learning_rate\?\)",
        ),
        ({"loop": {"steps": 1.5}}, "loop.steps: expected int, got 1.5"),
        ({"loop": {"steps": True}}, "loop.steps: expected int, got True"),
        ({"data": {"retained_only": 1}}, "data.retained_only: expected bool, got 1"),
        ({"data": 3}, "data: expected an object, got int"),
        ({"loop": {"steps": 1, "writers": "wandb"}}, "loop.writers: expected"),
        ({"name": None}, "name: expected str, got None"),
    ],
)
def test_faults_of_the_json_form_name_the_field(change, message):
    with pytest.raises(ConfigError, match=message):
        configs.from_dict({"name": "x", **change})


def test_json_form_needs_a_name():
    with pytest.raises(ConfigError, match="name: missing"):
        configs.from_dict({})


@given(
    seed=st.integers(0, 2**32 - 1),
    batch=st.integers(1, 512),
    rate=st.floats(1e-6, 1),
    clip=st.none() | st.floats(0.1, 10),
    steps=st.none() | st.integers(1, 10**6),
    writers=st.lists(st.sampled_from(["tensorboard", "wandb"])).map(tuple),
)
def test_json_form_is_faithful(seed, batch, rate, clip, steps, writers):
    config = PretrainConfig(
        "x", seed, DataConfig(batch_size=batch), LSM2Config(remat="full"),
        OptimizerConfig(learning_rate=rate, clip_norm=clip),
        LoopConfig(steps=steps, epochs=2.5, writers=writers),
    )  # fmt: skip
    assert configs.from_dict(json.loads(json.dumps(configs.to_dict(config)))) == config


@pytest.mark.parametrize(
    "make",
    [
        lambda: LoopConfig(), lambda: LoopConfig(epochs=0.0), lambda: LoopConfig(steps=1, log_every=0),
        lambda: DataConfig(batch_size=0), lambda: DataConfig(workers=-1),
        lambda: OptimizerConfig(learning_rate=0.0), lambda: OptimizerConfig(beta2=1.0),
        lambda: OptimizerConfig(weight_decay=-1.0), lambda: PretrainConfig("x", seed=-1),
    ],
)  # fmt: skip
def test_impossible_values(make):
    with pytest.raises(ConfigError):
        make()


def test_total_steps():
    assert LoopConfig(epochs=25).total_steps(train_examples=1000, batch_size=64) == 390
    assert LoopConfig(epochs=0.01).total_steps(train_examples=10, batch_size=64) == 1
    assert LoopConfig(steps=5, epochs=25).total_steps(train_examples=1000, batch_size=64) == 5


def test_a_model_without_task():
    with pytest.raises(ConfigError, match="no architecture takes a dict"):
        tasks.task_of({})


def test_the_task_of_lsm2(tiny):
    task = tasks.task_of(tiny.model)
    assert task.kind == "lsm2"
    assert isinstance(nnx.eval_shape(lambda: task.build(nnx.Rngs(0))), nnx.Module)
