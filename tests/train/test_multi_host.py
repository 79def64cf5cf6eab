"""Two processes on this machine, each with two simulated devices, train a model together: a toy, and LSM-2."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import toy_pretraining as toy

from wearjax.errors import ConfigError
from wearjax.train import config as configs
from wearjax.train import devices, loop, metrics
from wearjax.train.config import PretrainConfig

# Most of this test is compiling, which need not make fast programs here.
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
SCRIPT = """
import sys
import jax
jax.config.update("jax_num_cpu_devices", 2)
from wearjax.train import devices, host, loop
import test_multi_host
import toy_pretraining as toy
store, out, port, process, steps = sys.argv[1:]
host.compiler_options = lambda platform: None  # as the fixture `quick_compilation`
devices.start_multi_host(coordinator=f"127.0.0.1:{port}", processes=2, process=int(process))
assert jax.device_count() == 4
stop = lambda step, found: step >= int(steps)
settings = toy.config(steps=4, devices=4, validate_every=2, checkpoint_every=2)
loop.pretrain(settings, data_dir=store, out=out, bundles=toy.Bundles, task=toy.task(), on_validation=stop)
if int(steps) > 4:
    loop.pretrain(test_multi_host.lsm2(), data_dir=store, out=out + "-lsm2", bundles=toy.Bundles)
"""


def lsm2() -> PretrainConfig:
    """A short pretraining of a small LSM-2 on all devices."""
    given = "loop.steps=2 loop.devices=4 loop.log_every=1 loop.validate_every=2 loop.validation_examples=4"
    given += " loop.checkpoint_every=2 model.patch=360"
    given += " model.encoder_depth=1 model.encoder_dim=8 model.decoder_dim=8"
    return configs.override(configs.load_config("tiny"), [f"--{field}" for field in given.split()])


def train_together(store: Path, out: Path, *, until: int) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = f"{os.environ.get('XLA_FLAGS', '')} {QUICK}".strip()
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent), "XLA_FLAGS": flags}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(store), str(out), str(port), str(process), str(until)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for process in (0, 1)
    ]  # fmt: skip
    said = [process.communicate(timeout=600)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], said


def losses(out: Path):
    return [row["loss"] for row in metrics.read_jsonl(out / "metrics.jsonl") if row["split"] == "train"]


def test_two_processes_stop_and_resume_to_the_losses_of_one(store, tmp_path):
    train_together(store, tmp_path / "two", until=2)
    assert not (tmp_path / "two" / "checkpoints" / "4").exists()
    train_together(store, tmp_path / "two", until=99)
    alone = loop.pretrain(
        toy.config(steps=4, devices=4, validate_every=2, checkpoint_every=2), data_dir=store,
        out=tmp_path / "one", bundles=toy.Bundles, task=toy.task(), console=toy.plain_console(),
    )  # fmt: skip
    assert_alike(tmp_path / "two", alone.run_dir, n_losses=2)
    model = loop.pretrain(
        lsm2(), data_dir=store, out=tmp_path / "one-lsm2", bundles=toy.Bundles, console=toy.plain_console()
    )
    assert_alike(tmp_path / "two-lsm2", model.run_dir, n_losses=2)


def assert_alike(two: Path, one: Path, *, n_losses: int) -> None:
    assert len(losses(two)) == n_losses
    np.testing.assert_allclose(losses(two), losses(one), rtol=1e-5)
    with (
        np.load(two / "bundle" / "weights.npz") as together,
        np.load(one / "bundle" / "weights.npz") as single,
    ):
        assert together.files == single.files
        for name in single.files:
            np.testing.assert_allclose(together[name], single[name], rtol=1e-4, atol=1e-5)


def test_a_job_that_cannot_be_recognised():
    with pytest.raises(ConfigError, match="--multi-host: cannot join the job"):
        devices.start_multi_host()
