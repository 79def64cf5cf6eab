"""Two processes on this machine, each with two simulated devices, train one model together."""

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
from wearjax.train import devices, loop, metrics

SCRIPT = """
import sys
import jax
jax.config.update("jax_num_cpu_devices", 2)
from wearjax.train import devices, loop
import toy_pretraining as toy
store, out, port, process, steps = sys.argv[1:]
devices.start_multi_host(coordinator=f"127.0.0.1:{port}", processes=2, process=int(process))
assert jax.device_count() == 4
stop = lambda step, found: step >= int(steps)
settings = toy.config(steps=4, devices=4, validate_every=2, checkpoint_every=2)
loop.pretrain(settings, data_dir=store, out=out, bundles=toy.Bundles, task=toy.task(), on_validation=stop)
"""


def train_together(store: Path, out: Path, *, until: int) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(store), str(out), str(port), str(process), str(until)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for process in (0, 1)
    ]  # fmt: skip
    said = [process.communicate(timeout=240)[0] for process in started]
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
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(alone.run_dir), rtol=1e-5)
    with (
        np.load(tmp_path / "two" / "bundle" / "weights.npz") as together,
        np.load(tmp_path / "one" / "bundle" / "weights.npz") as single,
    ):
        assert together.files == single.files
        for name in single.files:
            np.testing.assert_allclose(together[name], single[name], rtol=1e-4, atol=1e-5)


def test_a_job_that_cannot_be_recognised():
    with pytest.raises(ConfigError, match="--multi-host: cannot join the job"):
        devices.start_multi_host()
