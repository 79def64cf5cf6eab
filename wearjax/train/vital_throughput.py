"""How fast the training steps of VitalBench's models are on this machine, beside the same step of another library.

Ours is the step of training as it is: windows are cut from the rows on the device, dropout and Adam included. Both
take turns, so that a busy machine slows both.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wearjax import vitals as table
from wearjax.errors import ConfigError
from wearjax.models.vital import registry
from wearjax.segments.vital_scaled import ScaledCases
from wearjax.train import throughput, vital_steps, vitals
from wearjax.train.rival import RivalStep

BATCH_SIZE = 512
HORIZON_MINUTES = 1
KINDS = ("dlinear", "itransformer", "patchtst")  # those that the rival has
ROWS = 4000
OBSERVED = 0.75
WARM_UPS = 2

_WRAPPER = """
import importlib.util
spec = importlib.util.spec_from_file_location("rival_models", {file!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
if not hasattr(module, "make_step"):
    raise AttributeError("has no function make_step(batch_size, model=...)")

def make_step(batch_size):
    return module.make_step(batch_size, model={model!r})
"""


@dataclass(frozen=True)
class VitalStepRate:
    """A timed training step; medians.

    Attributes:
        kind: the model.
        channels: that ours forecasts; the rival forecasts all.
        seconds, rival_seconds: a step.
        flops: products of ours.
    """

    kind: str
    batch_size: int
    channels: int
    seconds: float
    rival_seconds: float | None
    flops: float
    compile_seconds: float


def made_cases(centre: table.Centre, *, rows: int = ROWS, seed: int = 0) -> ScaledCases:
    """One surgery of noise with a quarter missing, for timing."""
    rng = np.random.default_rng(seed)
    values = rng.random((rows, centre.n_variables), np.float32)
    values[rng.random(values.shape) > OBSERVED] = 0.0
    targets = values[:, centre.n_covariates :].copy()
    limits = (np.zeros((1, centre.n_variables)), np.ones((1, centre.n_variables)))
    return ScaledCases(("made",), np.array([0, rows]), values, targets, targets != 0, *limits)


def compile_step(
    config: registry.VitalConfig,
    learning_rate: float,
    *,
    centre: table.Centre,
    channels: np.ndarray,
    batch_size: int,
) -> tuple[Callable[[], Any], float]:
    """A training step that keeps its own state, each call being one step, and the seconds until it had run once."""
    model = vitals.model_of(config, learning_rate=learning_rate, batch_size=batch_size)
    cases = made_cases(centre)
    rows = vital_steps.rows_of(cases, config.context)
    state = model.steps.start(model.params, cases.n_channels)
    ends, _ = cases.window_ends(config.horizon)
    ends = np.random.default_rng(1).choice(ends, (1, batch_size))
    scored = channels >= centre.n_covariates
    rate, key = jnp.float32(learning_rate), jax.random.key(0)

    def advance():
        nonlocal state
        state, sums = model.steps.train(
            state, rows, ends, channels[None].astype(np.int32), scored[None], np.int32(1), rate, key
        )
        return sums

    seconds, _ = throughput.timed(advance)
    return advance, seconds


def measure_kind(
    kind: str,
    *,
    batch_size: int = BATCH_SIZE,
    repeats: int = 3,
    against: Path | None = None,
    all_channels: bool = False,
) -> VitalStepRate:
    """Times the training step of a model at the published sizes of VitalDB, one minute ahead.

    Args:
        all_channels: forecast every channel even where channels are alone and only targets count, as the rival does.

    Raises:
        ConfigError: unknown model, or a rival that cannot run.
    """
    centre, architecture = table.CENTRES["vitaldb"], registry.get(kind)
    published = registry.published(kind, centre.name, 1)
    config = published(centre.horizons[HORIZON_MINUTES])
    first = 0 if all_channels or architecture.mixes_channels else centre.n_covariates
    channels = np.arange(first, centre.n_variables)
    with _rival(against, architecture.kind, batch_size) as rival:
        step, compile_seconds = compile_step(
            config, published.learning_rate, centre=centre, channels=channels, batch_size=batch_size
        )
        for _ in range(WARM_UPS):
            throughput.timed(step)
            if rival is not None:
                rival()
        ours, theirs = [], []
        for _ in range(repeats):
            ours.append(throughput.timed(step)[0])
            if rival is not None:
                theirs.append(throughput.timed(rival)[0])
    share = len(channels) / centre.n_variables
    flops = architecture.training_flops(config) * batch_size * share
    return VitalStepRate(
        architecture.kind, batch_size, len(channels), statistics.median(ours),
        statistics.median(theirs) if theirs else None, flops, compile_seconds,
    )  # fmt: skip


def measure(
    *,
    kinds: Sequence[str] = KINDS,
    batch_size: int = BATCH_SIZE,
    repeats: int = 3,
    against: Path | None = None,
) -> throughput.Table:
    """Table of the training steps of some models; those whose channels are alone appear with all of them, too.

    Args:
        against: Python file with `make_step(batch_size, model=...)`, whose step of another library is timed in turns.

    Raises:
        ConfigError: numbers below 1, an unknown model, or a rival that cannot run.
    """
    if repeats < 1 or batch_size < 1:
        raise ConfigError("bench vital: repeats and batch size must be at least 1")
    rows = []
    for kind in kinds:
        alone = not registry.get(kind).mixes_channels
        for all_channels in (True, False) if alone else (True,):
            rate = measure_kind(
                kind, batch_size=batch_size, repeats=repeats, against=against, all_channels=all_channels
            )
            rows.append(_row(rate))
    device = jax.devices()[0]
    cores = f", {os.cpu_count()} cores" if device.platform == "cpu" else ""
    return f"Training steps of VitalBench's models, float32, {device.device_kind}{cores}", rows


@contextlib.contextmanager
def _rival(file: Path | None, kind: str, batch_size: int) -> Iterator[RivalStep | None]:
    """The rival's step of one model in a process of its own."""
    if file is None:
        yield None
        return
    if not file.is_file():
        raise ConfigError(f"{file}: no such file")
    with tempfile.TemporaryDirectory() as folder:
        wrapper = Path(folder) / file.name
        wrapper.write_text(_WRAPPER.format(file=str(file.resolve()), model=kind))
        with RivalStep(wrapper, batch_size) as step:
            yield step


def _row(rate: VitalStepRate) -> dict:
    row = {
        "model": registry.get(rate.kind).name,
        "channels": rate.channels,
        "batch": rate.batch_size,
        "s/step": f"{rate.seconds:.3g}",
        "windows/s": f"{rate.batch_size / rate.seconds:,.0f}",
        "GFLOP/s": f"{rate.flops / rate.seconds / 1e9:,.0f}",
        "compile s": f"{rate.compile_seconds:.0f}",
    }
    if rate.rival_seconds is not None:
        row["rival s/step"] = f"{rate.rival_seconds:.3g}"
        row["times faster"] = f"{rate.rival_seconds / rate.seconds:.2f}"
    return row
