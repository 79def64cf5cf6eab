"""Chronos-2 fine-tuned to hours of wearables, through the training of its own package.

The published OpenMHC model: low-rank updates of rank 8 and scale 16 on a week of context, merged before release
(Hu et al. 2021, LoRA). Everything else is the package's choice.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from wearjax import writing
from wearjax.channels import HOURS_PER_DAY, N_CHANNELS
from wearjax.days import splits
from wearjax.errors import ConfigError
from wearjax.predict.forecasters import chronos2
from wearjax.predict.predictors import series_probe
from wearjax.segments import forecast_points, trajectories
from wearjax.segments.trajectories import Trajectories

CHECKPOINT, RECORD = "checkpoint", "fine_tuning.json"
_LOSSES = 20  # that are kept of a training
# The layers that the package adapts unless told otherwise.
_ADAPTED = (
    "self_attention.q", "self_attention.v", "self_attention.k", "self_attention.o",
    "output_patch_embedding.output_layer",
)  # fmt: skip


@dataclass(frozen=True)
class FineTuning:
    """How a Chronos-2 is fine-tuned.

    Attributes:
        mode: low-rank updates, or all weights.
        rank, alpha: of the updates, which are alpha / rank times the product of their factors.
        context: hours before an origin.
        horizon: hours to forecast.
        steps: of the optimizer.
        batch_size: windows a step.
        learning_rate: at the start; it falls linearly to zero.
        seed: of the order of the windows and of the new factors.

    Raises:
        ConfigError: a number out of its range.
    """

    mode: Literal["lora", "full"] = "lora"
    rank: int = 8
    alpha: float = 16.0
    context: int = 168
    horizon: int = 24
    steps: int = 1000
    batch_size: int = 16
    learning_rate: float = 1e-5
    seed: int = 42

    def __post_init__(self):
        if self.mode not in ("lora", "full"):
            raise ConfigError(f"mode {self.mode!r}: expected lora or full")
        for name in ("rank", "context", "horizon", "steps", "batch_size"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: must be at least 1, got {getattr(self, name)}")
        for name in ("alpha", "learning_rate"):
            if not 0 < getattr(self, name) < np.inf:
                raise ConfigError(f"{name}: must be positive, got {getattr(self, name)}")
        if not 0 <= self.seed < 2**32:
            raise ConfigError(f"seed: must be in [0, 2^32), got {self.seed}")


class Windows(Sequence):
    """Training windows as the package reads them: context and target of every training time point.

    A window whose history is shorter than the context begins with missing hours. The hours of a participant are kept
    once; windows are made when they are taken.

    Args:
        records: of the participants to learn from.

    Attributes:
        participants: those with a window.
    """

    def __init__(self, records: Trajectories, *, context: int, horizon: int):
        torch = series_probe.package("torch", of="Chronos-2")
        points = forecast_points.sample(records, horizon, cap=None)
        self.participants = tuple(points)
        self._places = [
            (owner, HOURS_PER_DAY * day) for owner, user in enumerate(points) for day in points[user]
        ]
        before = np.full((N_CHANNELS, context), np.nan, np.float32)
        self._hours = [
            torch.from_numpy(np.concatenate([before, records.get(user).values], axis=1)) for user in points
        ]
        self._length = context + horizon
        self._unknown = torch.full((N_CHANNELS, horizon), torch.nan)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index):
        owner, start = self._places[index]
        return {
            "context": self._hours[owner][
                :, start : start + self._length
            ],  # target included: it is cut off there
            "future_covariates": self._unknown,
            "n_targets": N_CHANNELS,
            "n_covariates": 0,
            "n_future_covariates": 0,
        }


def fine_tune(
    data_dir: str | os.PathLike,
    *,
    checkpoint: str | os.PathLike,
    out: str | os.PathLike,
    settings: FineTuning | None = None,
    device: str | None = None,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Fine-tunes a Chronos-2 on the training participants; returns the folder, which `Chronos2` opens.

    Its folder `checkpoint/` holds the whole model with merged weights, `fine_tuning.json` the settings, counts and
    the loss. Both appear when training is over; an interrupted one leaves nothing and begins anew, since the package
    does not resume. The package seeds the random streams of Python, NumPy and PyTorch with the given seed.

    Args:
        data_dir: day store with splits, or OpenMHC data root.
        checkpoint: the model to start from, as for `Chronos2`.
        out: folder to make.
        device: of PyTorch; None takes a GPU where there is one.
        force: replace what is at `out`.
        progress: called with (steps done, steps).

    Raises:
        ConfigError: a package is not installed (low-rank updates need `peft` too), `out` exists, a checkpoint that
            does not exist, or no window to learn from. CheckpointError: not a Chronos-2.
    """
    settings, out = settings or FineTuning(), Path(out)
    if out.exists() and not force:
        raise ConfigError(f"{out} exists; pass --force (force=True) to replace it")
    if settings.mode == "lora":  # without it the package would train all weights instead
        series_probe.package("peft", of="fine-tuning by low-rank updates (or choose mode full)")
    chosen = series_probe.chosen_device(device)
    pipeline = chronos2.load(checkpoint, dtype="float32", device=chosen)
    members = splits.read_splits(data_dir).of("train")
    records = trajectories.open_trajectories(data_dir, participants=members)
    windows = Windows(records, context=settings.context, horizon=settings.horizon)
    if not len(windows):
        raise ConfigError(f"{data_dir}: no training participant has a time point to forecast from")
    with writing.folder(out) as made:
        work = made / "work"  # of the trainer
        tuned, losses = _fit(pipeline, windows, settings, work, progress)
        shutil.rmtree(work, ignore_errors=True)
        tuned.save_pretrained(made / CHECKPOINT)
        record = {
            "checkpoint": str(checkpoint), **dataclasses.asdict(settings),
            "participants": len(windows.participants), "windows": len(windows), "loss": losses,
        }  # fmt: skip
        (made / RECORD).write_text(json.dumps(record, indent=1) + "\n")
    return out


def _fit(
    pipeline: Any,
    windows: Windows,
    settings: FineTuning,
    work: Path,
    progress: Callable[[int, int], None] | None,
) -> tuple[Any, list[dict[str, float]]]:
    """The tuned pipeline with plain weights, and the loss as the package logged it."""
    torch = series_probe.package("torch", of="Chronos-2")
    watch = _watch(progress)
    lora: dict[str, Any] = {"finetune_mode": "full"}
    if settings.mode == "lora":
        factors = {"r": settings.rank, "lora_alpha": settings.alpha, "target_modules": list(_ADAPTED)}
        lora = {"finetune_mode": "lora", "lora_config": factors}
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)  # the factors are drawn before the package seeds anything
        tuned = pipeline.fit(
            inputs=windows,
            prediction_length=settings.horizon,
            context_length=settings.context,
            min_past=settings.context,
            num_steps=settings.steps,
            batch_size=settings.batch_size * N_CHANNELS,  # the package counts channels
            learning_rate=settings.learning_rate,
            output_dir=work,
            callbacks=[watch],
            remove_printer_callback=True,
            disable_tqdm=True,
            logging_steps=max(1, settings.steps // _LOSSES),
            seed=settings.seed,
            **lora,
        )
    if settings.mode == "lora":
        tuned = type(tuned)(tuned.model.merge_and_unload())
    return tuned, watch.losses


def _watch(progress: Callable[[int, int], None] | None) -> Any:
    """What the package tells of each step; `losses` collects what it logs."""
    base: Any = series_probe.package("transformers", of="Chronos-2").TrainerCallback

    class Watch(base):
        losses: list[dict[str, float]] = []  # noqa: RUF012 - one class a training

        def on_step_end(self, args, state, control, **_):
            if progress is not None:
                progress(state.global_step, state.max_steps)

        def on_log(self, args, state, control, logs=None, **_):
            if logs and "loss" in logs:
                self.losses.append({"step": state.global_step, "loss": float(logs["loss"])})

    return Watch()
