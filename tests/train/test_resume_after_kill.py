"""SIGKILL at a random moment, the same command again: the final bundle is the same to the byte."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import toy_pretraining

from wearjax.train import metrics

STEPS = 16


def start(store, out, *, seconds_a_batch=0.0):
    command = [sys.executable, toy_pretraining.__file__, store, out, STEPS, seconds_a_batch]
    return subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish(process):
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


def wait_for(condition, process):
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_run_ends_as_if_nothing_had_happened(store, tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "killed"
    process = start(store, out, seconds_a_batch=0.05)
    try:
        wait_for(lambda: any(p.name.isdigit() for p in Path(out / "checkpoints").glob("*")), process)
        time.sleep(random.uniform(0.02, 0.4))
    finally:
        process.kill()
        process.communicate()
    assert not (out / "bundle").exists()
    uninterrupted = start(store, whole)
    said = finish(start(store, out))
    finish(uninterrupted)
    assert "resuming from step" in said
    assert (out / "bundle" / "weights.npz").read_bytes() == (whole / "bundle" / "weights.npz").read_bytes()
    for a, b in zip(
        metrics.read_jsonl(out / "metrics.jsonl"), metrics.read_jsonl(whole / "metrics.jsonl"), strict=True
    ):
        assert (a["step"], a["split"], a["loss"]) == (b["step"], b["split"], b["loss"])
