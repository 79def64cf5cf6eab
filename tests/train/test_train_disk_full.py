"""Training on a full disk: a line that names the checkpoints, no bundle, and the same command resumes."""

from __future__ import annotations

import gc
import logging
import resource

import pytest
import toy_pretraining

from wearjax.errors import CheckpointError
from wearjax.train import loop


def train(store, out):
    options = {"bundles": toy_pretraining.Bundles, "task": toy_pretraining.task()}
    config = toy_pretraining.config(steps=4)
    return loop.pretrain(config, data_dir=store, out=out, console=toy_pretraining.plain_console(), **options)


def test_checkpoints_that_cannot_be_written_are_named_and_training_resumes(store, tmp_path, caplog):
    train(store, tmp_path / "whole")  # first: what is compiled is then kept, on a disk with room
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, before[1]))  # stands for the full disk
    try:
        with pytest.raises(
            CheckpointError, match=r"checkpoints: a checkpoint could not be written \(File too large\);"
        ):
            train(store, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    gc.collect()  # of forgotten tasks
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert not (tmp_path / "out" / "bundle").exists()
    assert train(store, tmp_path / "out").step == 4
    bundles = [(tmp_path / name / "bundle" / "weights.npz").read_bytes() for name in ("out", "whole")]
    assert bundles[0] == bundles[1]
