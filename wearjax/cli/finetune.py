"""Verbs that go on training published models with their own packages."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from wearjax.cli.output import Bar, Force, PathArgument, console


def chronos2(
    data: PathArgument,
    *,
    checkpoint: str,
    out: Path,
    mode: Literal["lora", "full"] = "lora",
    rank: int = 8,
    alpha: float = 16.0,
    context: int = 168,
    horizon: int = 24,
    steps: int = 1000,
    batch_size: int = 16,
    learning_rate: float = 1e-5,
    device: str | None = None,
    seed: int = 42,
    force: Force = False,
) -> None:
    """Fine-tune Chronos-2 on the training participants; `evaluate forecasting --chronos2-checkpoint OUT` scores it.

    Interrupted, it begins anew: the package that trains does not resume.

    Args:
        data: day store with splits, or OpenMHC data root.
        checkpoint: folder of the model to start from, or hub:owner/name.
        out: folder to make: the model with merged weights, the settings and the loss.
        mode: low-rank updates of the weights, or all of them.
        rank: of the updates.
        alpha: scale of the updates, divided by their rank.
        context: hours before an origin.
        horizon: hours to forecast.
        steps: of the optimizer.
        batch_size: windows a step.
        learning_rate: at the start; it falls linearly to zero.
        device: cpu, cuda or cuda:N (default: a GPU where there is one).
        seed: of the windows and the new weights.
    """
    from wearjax.predict.forecasters import chronos2_training

    settings = chronos2_training.FineTuning(
        mode=mode, rank=rank, alpha=alpha, context=context, horizon=horizon, steps=steps,
        batch_size=batch_size, learning_rate=learning_rate, seed=seed,
    )  # fmt: skip
    with Bar("Steps") as progress:
        made = chronos2_training.fine_tune(
            data, checkpoint=checkpoint, out=out, settings=settings, device=device, force=force,
            progress=progress,
        )  # fmt: skip
    console.print(f"Model: {made}", soft_wrap=True)
