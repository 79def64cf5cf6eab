"""A model, an objective, a store and a bundle format of the smallest kind; as a script, one pretraining run.

python toy_pretraining.py STORE OUT STEPS [SECONDS_A_BATCH]
"""

from __future__ import annotations

import datetime as dt
import io
import json
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from rich.console import Console

from wearjax.batches import examples
from wearjax.day import Day
from wearjax.days.store import DayStoreWriter
from wearjax.train import loop
from wearjax.train.config import DataConfig, LoopConfig, OptimizerConfig, PretrainConfig
from wearjax.train.tasks import Task

HOURS = 24


def write_store(path: Path, *, participants: int = 6, days: int = 6) -> Path:
    """4 train, 1 validation, 1 test participant; one day in three has a missing hour."""
    rng = np.random.default_rng(0)
    with DayStoreWriter(path, provenance={}) as writer:
        for p in range(participants):
            for d in range(days):
                values = rng.normal(50, 20, (19, 1440)).astype(np.float32)
                values[7:] = values[7:] > 50
                if d % 3 == 0:
                    values[:, 60 * d : 60 * d + 60] = np.nan
                writer.add(Day(values, f"p{p}", dt.date(2024, 1, 1 + d), 100.0, "toy"))
    names = [f"p{p}" for p in range(participants)]
    split = {"train": names[:-2], "validation": names[-2:-1], "test": names[-1:]}
    (path / "splits.json").write_text(json.dumps(split))
    return path


class Toy(nnx.Module):
    """Two linear maps over hourly means, with a dropout that holds its own random stream."""

    def __init__(self, width: int = 8, *, rngs: nnx.Rngs):
        self.down = nnx.Linear(19 * HOURS, width, rngs=rngs)
        self.drop = nnx.Dropout(0.1, rngs=rngs)
        self.up = nnx.Linear(width, 19 * HOURS, rngs=rngs)
        self.seen = nnx.BatchStat(jnp.zeros(()))

    def __call__(self, x, *, train: bool):
        if train:
            self.seen[...] = self.seen[...] + 1
        return self.up(self.drop(jnp.tanh(self.down(x)), deterministic=not train))


def objective(model: Toy, batch, *, key, train: bool):
    """Reconstructs hourly means from a random half of them."""
    missing = jnp.isnan(batch["values"])
    values = jnp.where(missing, 0.0, (batch["values"] - 50) / 20)
    hourly = values.reshape(values.shape[0], 19, HOURS, 60).mean(axis=3).reshape(values.shape[0], -1)
    keep = jax.random.bernoulli(key, 0.5, hourly.shape)
    loss = jnp.square(model(hourly * keep, train=train) - hourly).mean()
    return loss, {"kept": keep.mean()}


def task(width: int = 8) -> Task:
    return Task("toy", lambda rngs: Toy(width, rngs=rngs), lambda stats: objective)


def config(
    *, steps: int = 6, batch_size: int = 8, seed: int = 1, learning_rate: float = 1e-2, **settings
) -> PretrainConfig:
    kept = {
        "log_every": 2,
        "validate_every": 4,
        "validation_examples": 4,
        "checkpoint_every": 2,
        "devices": 1,
    } | settings
    return PretrainConfig(
        name="toy",
        seed=seed,
        data=DataConfig(batch_size=batch_size),
        optimizer=OptimizerConfig(learning_rate=learning_rate),
        loop=LoopConfig(steps=steps, **kept),
    )


class Bundles:
    """Parameters as one npz file."""

    @staticmethod
    def save_bundle(path, *, kind, config, model, stats, origin):
        path.mkdir()
        flat, _ = jax.tree_util.tree_flatten_with_path(nnx.split(model, nnx.Param, ...)[1])
        np.savez(path / "weights.npz", **{jax.tree_util.keystr(p): np.asarray(v) for p, v in flat})

    @staticmethod
    def load_bundle(path):
        raise NotImplementedError


def plain_console() -> Console:
    """Takes what a run says; read it with `said`."""
    return Console(file=io.StringIO(), force_terminal=False, width=200)


def said(console: Console) -> str:
    return console.file.getvalue()


def main(store: str, out: str, steps: str, seconds_a_batch: str = "0") -> None:
    read = examples.DayExamples.read

    def slowly(self, items, positions):
        time.sleep(float(seconds_a_batch))
        return read(self, items, positions)

    examples.DayExamples.read = slowly
    loop.pretrain(config(steps=int(steps)), data_dir=store, out=out, bundles=Bundles, task=task())


if __name__ == "__main__":
    main(*sys.argv[1:])
