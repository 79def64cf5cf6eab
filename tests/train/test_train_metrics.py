from __future__ import annotations

import json
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from wearjax.errors import ConfigError, WearjaxError
from wearjax.train import metrics


class Memory:
    def __init__(self):
        self.rows, self.closed = [], False

    def write(self, step, split, scalars):
        self.rows.append((step, split, dict(scalars)))

    def close(self):
        self.closed = True


def ledger(tmp_path, *, log_every=2, last_step=5, **options):
    memory = Memory()
    made = metrics.Ledger(
        [memory], run_dir=tmp_path, log_every=log_every, last_step=last_step, days_per_step=4,
        clock=metrics.Clock(), **options,
    )  # fmt: skip
    return made, memory


def measured(loss, *, grad_norm=1.0, learning_rate=0.1):
    values = {"loss": loss, "grad_norm": grad_norm, "learning_rate": learning_rate}
    return {name: jnp.float32(value) for name, value in values.items()}


def test_interval_means_are_logged_one_step_late(tmp_path):
    book, memory = ledger(tmp_path)
    for step in (1, 2):
        book.record(step, np.arange(4), measured(float(step), learning_rate=step / 10))
    assert memory.rows == []  # step 2 is still on the device
    book.record(3, np.arange(4), measured(30.0))
    step, split, row = memory.rows[0]
    assert (step, split, row["loss"]) == (2, "train", 1.5)
    assert row["learning_rate"] == pytest.approx(0.2)
    book.record(4, np.arange(4), measured(50.0))
    book.record(5, np.arange(4), measured(7.0))
    book.flush()
    assert [(s, r["loss"]) for s, _, r in memory.rows] == [(2, 1.5), (4, 40.0), (5, 7.0)]
    book.flush()
    assert len(memory.rows) == 3
    book.close()
    assert memory.closed


def test_an_interval_survives_a_checkpoint(tmp_path):
    first, _ = ledger(tmp_path, log_every=3)
    first.record(1, np.arange(4), measured(1.0))
    first.record(2, np.arange(4), measured(2.0))
    first.flush()
    kept = json.loads(json.dumps(first.progress()))
    second, memory = ledger(tmp_path, log_every=3, interval=kept["interval"])
    second.record(3, np.arange(4), measured(6.0))
    second.flush()
    assert memory.rows[0][2]["loss"] == 3.0


def test_what_a_checkpoint_keeps_does_not_go_on_changing(tmp_path):
    book, _ = ledger(tmp_path, log_every=4)
    book.record(1, np.arange(4), measured(1.0))
    book.flush()
    kept = book.progress()
    book.record(2, np.arange(4), measured(2.0))
    book.flush()
    assert kept["interval"]["count"] == 1
    assert kept["interval"]["sums"]["loss"] == 1.0


@pytest.mark.parametrize("bad", [{"loss": np.nan}, {"loss": 1.0, "grad_norm": np.inf}])
def test_a_loss_that_is_not_finite_stops_the_run(tmp_path, bad):
    book, _ = ledger(tmp_path)
    book.record(1, np.arange(4), measured(1.0))
    book.record(2, np.array([8, 6, 7, 5]), measured(**bad))
    with pytest.raises(
        WearjaxError, match=r"step 2: loss is .* examples 8, 6, 7, 5 \(all in .*nonfinite_step_2.json\)"
    ):
        book.record(3, np.arange(4), measured(1.0))
    dumped = json.loads((tmp_path / "nonfinite_step_2.json").read_text())
    assert dumped["index"] == [8, 6, 7, 5]
    assert dumped["step"] == 2


def test_jsonl_lines(tmp_path):
    file = tmp_path / "metrics.jsonl"
    writer = metrics.JsonlWriter(file)
    writer.write(1, "train", {"loss": 0.5})
    assert list(metrics.read_jsonl(file)) == [{"step": 1, "split": "train", "loss": 0.5}]  # before close
    writer.close()
    metrics.JsonlWriter(file).write(2, "validation", {"loss": 0.25})
    assert [row["step"] for row in metrics.read_jsonl(file)] == [1, 2]


def test_cutting_back_drops_later_steps_and_torn_lines(tmp_path):
    file = tmp_path / "metrics.jsonl"
    lines = [{"step": s, "split": "train", "loss": 0.1 * s} for s in (2, 4, 6)]
    whole = [json.dumps(line) + "\n" for line in lines]
    file.write_text("".join(whole) + '{"step": 4, "spl')
    metrics.cut_back(file, 4)
    assert file.read_text() == "".join(whole[:2])
    metrics.cut_back(tmp_path / "none.jsonl", 4)
    assert (tmp_path / "none.jsonl").read_text() == ""


def test_optional_writers_name_their_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    monkeypatch.setitem(sys.modules, "wandb", None)
    for name in ("tensorboard", "wandb"):
        with pytest.raises(ConfigError, match=rf"pip install 'wearjax\[{name}\]'"):
            metrics.open_writers([name], tmp_path)
    with pytest.raises(ConfigError, match="no writer 'paper'; there are tensorboard, wandb"):
        metrics.open_writers(["paper"], tmp_path)


def test_optional_writers_pass_scalars_on(tmp_path, monkeypatch):
    import types

    seen = []

    class Board:
        def __init__(self, folder):
            seen.append(folder)

        def add_scalar(self, name, value, step):
            seen.append((name, value, step))

        def close(self):
            seen.append("closed")

    monkeypatch.setitem(sys.modules, "tensorboardX", types.SimpleNamespace(SummaryWriter=Board))
    for writer in metrics.open_writers(["tensorboard"], tmp_path):
        writer.write(3, "train", {"loss": 1.0})
        writer.close()
    assert seen == [str(tmp_path / "tensorboard"), ("train/loss", 1.0, 3), "closed"]
    assert len(list(metrics.read_jsonl(tmp_path / "metrics.jsonl"))) == 1


def test_the_clock_keeps_waiting_and_pauses_apart(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(metrics.time, "perf_counter", lambda: now[0])
    clock = metrics.Clock(seconds_before=100.0)
    assert clock.rates(8) == {}
    with clock.waiting():
        now[0] += 1
    with clock.pause():
        now[0] += 10
    now[0] += 3
    clock.count_step()
    assert clock.rates(8) == {"days_per_second": 2.0, "data_wait_fraction": 0.25}
    assert clock.seconds == 114.0
    clock.restart()
    assert clock.rates(8) == {}
