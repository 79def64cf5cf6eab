"""Training of a VitalBench model on one centre, track and horizon, and its forecasts (VitalBench, section "Training").

A model that treats channels alone keeps one shape whatever channels a batch has; several steps run in one call. A
model that mixes channels is compiled once for every number of channels that occurs (at most K), and in the incomplete
track each step is a call, since neighbouring batches differ in shape. The order of the draws is kept in both.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Float32

from wearjax.errors import ConfigError, MethodError
from wearjax.models.vital import registry
from wearjax.objectives.vital_forecast import OrderCosts
from wearjax.segments import vital_masks
from wearjax.segments.vital_scaled import ScaledCases
from wearjax.segments.vital_settings import ChannelOrder, VitalSettings
from wearjax.train import vital_checkpoint, vital_evaluation, vital_steps
from wearjax.train.vital_evaluation import Channels, View
from wearjax.train.vital_networks import Network, network_of


@dataclass(frozen=True)
class VitalTraining:
    """How a model is trained; the defaults are those of the published runs.

    Attributes:
        context, horizon: rows of a model's input and of its forecast.
        incomplete: each batch has its own draw of channels (tracks 2 and 3); else all channels (track 1).
        patience: epochs in a row with a worse validation loss that end training; an equal one counts as better.
        batch_size: windows a step; what is left of an epoch is dropped. Fewer windows than that make one batch.
        steps_per_call: steps in one call of the compiled function, where all have one shape.
    """

    context: int
    horizon: int
    learning_rate: float
    incomplete: bool = False
    epochs: int = 10
    patience: int = 3
    batch_size: int = 512
    steps_per_call: int = 8
    settings: VitalSettings = field(default_factory=VitalSettings)

    def __post_init__(self):
        for name in ("context", "horizon", "epochs", "patience", "batch_size", "steps_per_call"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: must be at least 1, got {getattr(self, name)}")
        if not self.learning_rate > 0:
            raise ConfigError(f"learning_rate: must be positive, got {self.learning_rate}")

    def rate(self, epoch: int) -> float:
        """Learning rate of an epoch, from 1: the first two alike, then halved every epoch."""
        return self.learning_rate * 0.5 ** max(0, epoch - 2)


def model_of(config: registry.VitalConfig, *, learning_rate: float, **training: Any) -> VitalModel:
    """An untrained model; what `VitalTraining` has beside the sizes of the configuration may be given.

    Raises ConfigError for a class that is no model, and for a fixed number of channels in the incomplete track.
    """
    plan = VitalTraining(config.context, config.horizon, learning_rate, **training)
    return VitalModel(network_of(config, plan.settings), plan)


class VitalModel:
    """A model of one context and horizon with its weights: training and forecasts."""

    def __init__(self, network: Network, training: VitalTraining):
        if training.incomplete and not network.flexible:
            raise ConfigError(
                f"{network.kind}: takes a fixed number of channels; the incomplete track varies it"
            )
        self.network, self.training, settings = network, training, training.settings
        graph, self.params = nnx.split(network.build(nnx.Rngs(settings.seed)))
        reduction = network.reduction if settings.reduction == "by_model" else settings.reduction
        self.steps = vital_steps.Steps(
            graph, network.call, training.context, training.horizon, reduction,
            permute=network.permutes, faithful_costs=settings.faithful_vpt,
            filled_up=training.incomplete and network.mixes,
        )  # fmt: skip
        self.costs: OrderCosts | None = None
        self.history: list[dict[str, float]] = []
        self.record: dict[str, Any] = {}
        self._rows: tuple[ScaledCases, vital_steps.Rows] | None = None

    def fit(
        self,
        train: ScaledCases,
        validation: ScaledCases,
        *,
        folder: Path | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Trains until the validation loss no longer falls and keeps the weights of the best epoch.

        Args:
            folder: keeps the state after every epoch there; a run that was interrupted goes on from it and ends with
                the same weights, and one that had finished is read.
            progress: called with the steps done and all steps.

        Raises:
            ConfigError: no windows of this horizon, or no observed target to validate on.
            MethodError: a loss that is not finite.
            StoreError: a state of another run in the folder.
        """
        epochs = _Epochs(self, train, validation, progress)
        file = folder / "training.npz" if folder else None
        run = epochs.begin()
        if file and file.exists():
            run = vital_checkpoint.read(file, run, epochs.fingerprint)
        while not run.finished(self.training):
            run = epochs.one(run)
            if file:
                vital_checkpoint.write(file, run, epochs.fingerprint)
        self.params, self.costs, self.history = run.best_params, run.best_costs, run.history
        self.record = epochs.record(run)

    def views(
        self,
        cases: ScaledCases,
        *,
        costs: OrderCosts | None = None,
        channel_order: ChannelOrder | None = None,
    ) -> list[View]:
        """What of every case of a validation or test split goes through the model.

        Args:
            channel_order: in place of that of the settings.
        """
        chosen = channel_order or self.training.settings.channel_order
        return vital_evaluation.case_views(
            cases, self.training.settings, incomplete=self.training.incomplete, mixes=self.network.mixes,
            order=None if chosen == "identity" else self.order(self.costs if costs is None else costs),
        )  # fmt: skip

    def order(self, costs: OrderCosts | None) -> vital_evaluation.Order | None:
        """The solved order in which kept channels are processed in evaluation; None for that of the table."""
        solve, solved = self.network.order, {}
        if solve is None or costs is None:
            return None
        host = OrderCosts(*jax.device_get(costs))

        def order(kept: Channels) -> Channels:
            key = tuple(kept.tolist())
            if key not in solved:
                solved[key] = solve(host, kept)
            return solved[key]

        return order

    def forecasts(
        self, cases: ScaledCases, *, views: list[View] | None = None
    ) -> Iterator[tuple[int, View, Float32[np.ndarray, "window horizon target"]]]:
        """Forecasts of every window of every case, of its scored targets in ascending order, case by case.

        Cases without a window of this horizon are passed over; `cases.windows_of` counts them.
        """
        views = self.views(cases) if views is None else views
        for case in np.flatnonzero(cases.windows_of(self.training.horizon)):
            yield int(case), views[case], self.predict(cases, int(case), views[case])

    def predict(
        self, cases: ScaledCases, case: int, seen: View
    ) -> Float32[np.ndarray, "window horizon target"]:
        """Forecasts of one case's windows."""
        return vital_evaluation.forecast_case(
            self.steps, self.params, self.rows(cases), cases, case, seen, self.training.batch_size
        )

    def ahead(self, cases: ScaledCases, case: int, seen: View) -> Float32[np.ndarray, "horizon channel"]:
        """The forecast from the last row of a case, of all channels seen, in their order."""
        ends = np.full(self.training.batch_size, cases.offsets[case + 1] - 1, np.int32)
        return np.asarray(self.steps.forecast(self.params, self.rows(cases), ends, seen.channels))[0]

    def rows(self, cases: ScaledCases) -> vital_steps.Rows:
        """The split on the device; the last one asked for stays there."""
        if self._rows is None or self._rows[0] is not cases:
            self._rows = (cases, vital_steps.rows_of(cases, self.training.context))
        return self._rows[1]

    def module(self) -> nnx.Module:
        """The module with these weights."""
        return nnx.merge(self.steps.graph, self.params)

    def save(self, file: Path) -> None:
        """Writes weights, costs, history and record. Raises StoreError."""
        vital_checkpoint.write_weights(file, self)

    def load(self, file: Path) -> None:
        """Takes what `save` wrote of the same model. Raises StoreError."""
        vital_checkpoint.read_weights(file, self)


class _Epochs:
    """The epochs of one training run."""

    def __init__(self, model: VitalModel, train: ScaledCases, validation: ScaledCases, progress):
        self.model, self.training, self.progress = model, model.training, progress
        settings, context = self.training.settings, self.training.context
        self.cases, self.validation = train, validation
        self.ends, _ = train.window_ends(self.training.horizon)
        if not len(self.ends) or not validation.windows_of(self.training.horizon).any():
            raise ConfigError(
                f"horizon: no {'validation' if len(self.ends) else 'training'} case is longer than "
                f"{self.training.horizon} rows"
            )
        self.size = min(self.training.batch_size, len(self.ends))
        self.per_epoch = len(self.ends) // self.size
        self.rows, self.validation_rows = (
            vital_steps.rows_of(cases, context) for cases in (train, validation)
        )
        self.n_last = None
        if settings.faithful_track1 and not self.training.incomplete:
            self.n_last = vital_masks.last_targets_of_training(
                train.n_channels - train.n_targets, train.n_targets, seed=settings.seed
            )
        self.key = jax.random.fold_in(jax.random.key(settings.seed), 1)

    def begin(self) -> vital_checkpoint.Run:
        state = self.model.steps.start(self.model.params, self.cases.n_channels)
        return vital_checkpoint.Run(state, self.model.params, state.costs, [])

    @functools.cached_property
    def fingerprint(self) -> str:
        """Of everything that decides the result."""
        facts = {
            "kind": self.model.network.kind,
            "config": repr(self.model.network.config),
            "training": dataclasses.asdict(self.training),
            "cases": [_digest(cases) for cases in (self.cases, self.validation)],
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def one(self, run: vital_checkpoint.Run) -> vital_checkpoint.Run:
        """The next epoch and its validation."""
        epoch = len(run.history) + 1
        state, losses, observed = self._steps(run.state, epoch)
        if not np.isfinite(losses).all():
            raise MethodError(
                f"{self.model.network.kind}: the loss of epoch {epoch}, step {int(np.argmin(np.isfinite(losses))) + 1} "
                "is not finite"
            )
        some = observed > 0
        views = self.model.views(self.validation, costs=state.costs)
        worth = vital_evaluation.validation_loss(
            self.model.steps,
            state.params,
            self.validation_rows,
            self.validation,
            views,
            self.training.batch_size,
        )
        if not np.isfinite(worth):
            raise MethodError(
                f"{self.model.network.kind}: the validation loss of epoch {epoch} is not finite: no target is "
                "observed, or training diverged"
            )
        measured = {
            "epoch": epoch,
            "learning_rate": self.training.rate(epoch),
            "train": float(losses[some].astype(np.float64).mean()) if some.any() else float("nan"),
            "validation": worth,
            "batches": len(losses),
            "batches_without_targets": int(len(losses) - some.sum()),
        }
        return run.after(state, measured)

    def _steps(self, state, epoch: int):
        views = self._views(epoch)
        order = np.random.default_rng([self.training.settings.seed, epoch]).permutation(len(self.ends))
        ends = self.ends[order[: self.per_epoch * self.size]].reshape(self.per_epoch, self.size)
        rate, found = jnp.float32(self.training.rate(epoch)), []
        for part in self._calls([len(each.channels) for each in views]):
            place = np.minimum(np.arange(part.start, part.start + self._most), part.stop - 1)
            channels, scored = (
                np.stack([getattr(views[i], name) for i in place]) for name in ("channels", "scored")
            )
            count = part.stop - part.start
            state, sums = self.model.steps.train(
                state, self.rows, ends[place], channels, scored, np.int32(count), rate, self.key
            )
            found.append((count, sums))
            if self.progress:
                self.progress((epoch - 1) * self.per_epoch + part.stop, self.training.epochs * self.per_epoch)
        losses, observed = (
            np.concatenate([sums[i][:count] for count, sums in jax.device_get(found)]) for i in range(2)
        )
        return state, losses, observed

    @property
    def _most(self) -> int:
        """Steps that a call has room for."""
        return min(self.training.steps_per_call, self.per_epoch)

    def _calls(self, widths: list[int]) -> Iterator[slice]:
        """The steps of an epoch as calls: neighbours of one width, up to `_most`."""
        start = 0
        for stop in range(1, len(widths) + 1):
            if stop == len(widths) or stop - start == self._most or widths[stop] != widths[start]:
                yield slice(start, stop)
                start = stop

    def _views(self, epoch: int) -> list[View]:
        """Channels of every batch of an epoch."""
        n, targets, mixes = self.cases.n_channels, self.cases.n_targets, self.model.network.mixes
        if not self.training.incomplete:
            everything = np.arange(n)
            one = vital_evaluation.view(everything, n, targets, mixes=mixes, n_last=self.n_last)
            return [one] * self.per_epoch
        draws = vital_masks.of_batches(
            n - targets, targets, (epoch - 1) * self.per_epoch, self.per_epoch,
            seed=self.training.settings.seed,
        )  # fmt: skip
        return [vital_evaluation.view(kept, n, targets, mixes=mixes) for kept in draws]

    def record(self, run: vital_checkpoint.Run) -> dict[str, Any]:
        """What a result file says of the run."""
        return {
            "kind": self.model.network.kind,
            "training": dataclasses.asdict(self.training),
            "reduction": self.model.steps.reduction,
            "cases": len(self.cases),
            "validation_cases": len(self.validation),
            "windows": len(self.ends),
            "cases_without_windows": int((self.cases.windows_of(self.training.horizon) == 0).sum()),
            "windows_dropped_per_epoch": len(self.ends) - self.per_epoch * self.size,
            "batch_size": self.size,
            "batches_per_epoch": self.per_epoch,
            "targets_trained_on": self.n_last or self.cases.n_targets,
            "epochs": len(run.history),
            "best_epoch": run.best_epoch,
        }


def _digest(cases: ScaledCases) -> str:
    digest = hashlib.sha256(repr(cases.ids).encode())
    for array in (cases.offsets, cases.values, cases.targets, cases.observed):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
