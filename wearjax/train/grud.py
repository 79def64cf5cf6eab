"""Training of GRU-D on all tasks at once: participants as ragged sets of days, in batches of few shapes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Float32, Float64, Int64

from wearjax import json_text, npz, writing
from wearjax.errors import ConfigError, MethodError, StoreError
from wearjax.models import grud
from wearjax.objectives import multi_task

REMAT_CHUNKS = 16  # batches of more chunks compute their states again instead of keeping them


@dataclass(frozen=True)
class GRUDTraining:
    """How the network is trained; the defaults are those of OpenMHC's baseline.

    Attributes:
        batch_size: participants a step, each with all of its days.
        patience: epochs without a better validation loss before training ends; the best epoch is kept.
        days_a_chunk: days encoded at once; a batch is a number of chunks.
    """

    learning_rate: float = 1e-3
    batch_size: int = 32
    epochs: int = 50
    patience: int = 5
    seed: int = 42
    hidden: int = 64
    days_a_chunk: int = 256

    def __post_init__(self):
        for name in ("batch_size", "epochs", "patience", "hidden", "days_a_chunk"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: must be at least 1, got {getattr(self, name)}")
        if not self.learning_rate > 0:
            raise ConfigError(f"learning_rate: must be positive, got {self.learning_rate}")


@dataclass(frozen=True, eq=False)
class Cohort:
    """Participants of a split with their labels and days.

    Attributes:
        users: ids, sorted.
        labels: NaN = none.
        hours: of all retained days, a participant's days together.
        starts: first day of each participant, and the number of days at the end.
        means: of the measured hours of each channel.
    """

    users: tuple[str, ...]
    labels: Float64[np.ndarray, "participant task"]
    hours: Float32[np.ndarray, "day hour channel"]
    starts: Int64[np.ndarray, "participant+1"]
    means: Float32[np.ndarray, "channel"]

    def __len__(self) -> int:
        return len(self.users)

    def part(self, rows: Int64[np.ndarray, "row"]) -> Cohort:
        """Some of the participants, with the channel means of these."""
        own = [np.arange(self.starts[row], self.starts[row + 1]) for row in rows]
        hours = self.hours[np.concatenate([*own, np.empty(0, np.int64)])]
        return Cohort(
            users=tuple(self.users[row] for row in rows),
            labels=self.labels[rows],
            hours=hours,
            starts=np.cumsum([0, *map(len, own)]),
            means=channel_means(hours),
        )

    def batch(self, rows: Int64[np.ndarray, "row"], size: int, chunk: int) -> dict[str, np.ndarray]:
        """Days, owners and labels of some participants, filled up to a shape of which there are few."""
        days = [np.arange(self.starts[row], self.starts[row + 1]) for row in rows]
        owners = np.repeat(np.arange(len(rows)), [len(each) for each in days])
        n_chunks = padded_chunks(-(-len(owners) // chunk))
        values = np.full((n_chunks * chunk, *self.hours.shape[1:]), np.nan, np.float32)
        values[: len(owners)] = self.hours[np.concatenate(days)]
        owner = np.full(n_chunks * chunk, size, np.int32)
        owner[: len(owners)] = owners
        labels = np.full((size, self.labels.shape[1]), np.nan, np.float32)
        labels[: len(rows)] = self.labels[rows]
        return {
            "values": values.reshape(n_chunks, chunk, *values.shape[1:]),
            "owners": owner.reshape(n_chunks, chunk),
            "labels": labels,
        }


def padded_chunks(n: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, ...: each shape compiles once."""
    power = 1 << (n - 1).bit_length()
    between = power * 3 // 4
    return between if power >= 4 and n <= between else power


class Network:
    """The model of some targets: training, answers, weights on disk."""

    def __init__(self, targets: Mapping[str, multi_task.Target], training: GRUDTraining):
        self.targets, self.training = dict(targets), training
        heads = tuple(
            grud.Head(code, target.kind, max(2, target.n_classes)) for code, target in self.targets.items()
        )
        config = grud.GRUDConfig(hidden=training.hidden, heads=heads)
        graph, self.params = nnx.split(grud.GRUD(config, rngs=nnx.Rngs(training.seed)))
        self._optimizer = optax.adam(training.learning_rate)
        listed = list(self.targets.values())

        def pooled(params, batch, means):
            model, size = nnx.merge(graph, params), len(batch["labels"])
            remat = len(batch["values"]) > REMAT_CHUNKS
            return model.outputs(
                model.pool(batch["values"], batch["owners"], means, n_participants=size, remat=remat)
            )

        def loss(params, batch, means):
            return multi_task.loss(pooled(params, batch, means), batch["labels"], listed)

        def step(params, moments, batch, means):
            value, gradient = jax.value_and_grad(loss)(params, batch, means)
            updates, moments = self._optimizer.update(gradient, moments, params)
            return optax.apply_updates(params, updates), moments, value

        self._step, self._loss, self._pooled = (
            jax.jit(step, donate_argnums=(0, 1)),
            jax.jit(loss),
            jax.jit(pooled),
        )

    def train(
        self, train: Cohort, validation: Cohort, progress: Callable[[int, int], None]
    ) -> list[dict[str, float]]:
        """Trains until the validation loss stops falling, and keeps the best epoch.

        Losses of batches count by their participants. Without validation participants the training loss decides.
        """
        settings = self.training
        params = jax.tree.map(jnp.copy, self.params)  # a step takes over what it is given
        moments = self._optimizer.init(params)
        best, best_epoch, best_loss = params, 0, np.inf
        history: list[dict[str, float]] = []
        for epoch in range(settings.epochs):
            order = np.random.default_rng([settings.seed, epoch]).permutation(len(train))
            losses, sizes = [], []
            for rows, batch in self._batches(train, order):
                params, moments, value = self._step(params, moments, batch, train.means)
                losses.append(value)
                sizes.append(len(rows))
            measured = {"train": _weighted(losses, sizes), "validation": self._evaluate(params, validation)}
            history.append(measured)
            progress(epoch + 1, settings.epochs)
            decisive = measured["validation" if len(validation) else "train"]
            if not np.isfinite([decisive, measured["train"]]).all():
                raise MethodError(f"GRU-D: the loss of epoch {epoch + 1} is not finite ({measured})")
            if decisive < best_loss:
                best, best_loss, best_epoch = jax.tree.map(jnp.copy, params), decisive, epoch
            elif epoch - best_epoch >= settings.patience:
                break
        self.params = best
        return history

    def _batches(
        self, cohort: Cohort, order: Int64[np.ndarray, "row"]
    ) -> Iterator[tuple[Int64[np.ndarray, "row"], dict[str, np.ndarray]]]:
        size = self.training.batch_size
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            yield rows, cohort.batch(rows, size, self.training.days_a_chunk)

    def _evaluate(self, params, cohort: Cohort) -> float:
        pairs = [
            (self._loss(params, batch, cohort.means), len(rows))
            for rows, batch in self._batches(cohort, np.arange(len(cohort)))
        ]
        return _weighted(*zip(*pairs, strict=True)) if pairs else float("nan")

    def answers(self, cohort: Cohort) -> dict[str, tuple[np.ndarray, ...]]:
        """Outputs of every head, by participant."""
        found: dict[str, tuple[np.ndarray, ...]] = {}
        for rows, batch in self._batches(cohort, np.arange(len(cohort))):
            outputs = [np.asarray(out) for out in self._pooled(self.params, batch, cohort.means)]
            found |= {cohort.users[row]: tuple(out[i] for out in outputs) for i, row in enumerate(rows)}
        return found

    def save(self, file: Path, history: list[dict[str, float]]) -> None:
        """Writes the weights; the file appears whole or not at all. Raises StoreError."""
        arrays = {
            ".".join(map(str, path)): np.asarray(leaf[...]) for path, leaf in nnx.to_flat_state(self.params)
        }
        with writing.file(file) as partial:
            np.savez(partial, history=json.dumps(history), **arrays)  # type: ignore[arg-type]

    def load(self, file: Path) -> list[dict[str, float]]:
        """Takes weights that `save` wrote; returns the history. Raises StoreError."""
        flat = nnx.to_flat_state(self.params)
        try:
            stored = npz.load(file)
            arrays = [stored[".".join(map(str, path))] for path, _ in flat]
            history = json_text.loads(str(stored["history"]))
        except (OSError, ValueError, KeyError) as error:
            raise StoreError(f"{file}: not readable as weights ({error}); remove it") from None
        for array, (path, leaf) in zip(arrays, flat, strict=True):
            if array.shape != leaf.shape:
                raise StoreError(
                    f"{file}: {'.'.join(map(str, path))} is {array.shape}, expected {leaf.shape}; remove it"
                )
        leaves = [leaf.replace(jnp.asarray(array)) for array, (_, leaf) in zip(arrays, flat, strict=True)]
        self.params = nnx.from_flat_state(
            [(path, leaf) for (path, _), leaf in zip(flat, leaves, strict=True)]
        )
        return history


def channel_means(hours: Float32[np.ndarray, "day hour channel"]) -> Float32[np.ndarray, "channel"]:
    """Mean of the measured hours of each channel; 0 of none."""
    measured = np.isfinite(hours)
    total = np.where(measured, hours, 0).sum(axis=(0, 1), dtype=np.float64)
    return (total / np.maximum(measured.sum(axis=(0, 1)), 1)).astype(np.float32)


def _weighted(losses, sizes) -> float:
    return float(np.average(np.asarray(jax.device_get(list(losses)), np.float64), weights=sizes))
