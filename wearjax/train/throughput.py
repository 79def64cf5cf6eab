"""How fast a training step is on this machine, as a share of the matrix products it could do.

Steps and plain matrix products are timed in turns in one process, so that a busy machine slows both; a step of
another library can take its turns beside them.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wearjax import channels
from wearjax.days.normalization import NormalizationStats
from wearjax.models import registry
from wearjax.models.lsm2_sparse import LSM2SparseConfig
from wearjax.models.registry import ForecastConfig, ModelConfig
from wearjax.models.wbm import WBMConfig
from wearjax.train import host, optimizer, state, step, tasks
from wearjax.train.config import OptimizerConfig
from wearjax.train.rival import RivalStep

Table = tuple[str, list[dict]]

# The widest product of LSM-2, and a large square one: the faster counts as what the machine can do.
MATMULS = ((1368, 384, 1536), (2048, 2048, 2048))
ACCELERATOR_MATMULS = ((8192, 8192, 8192),)
STEPS = 100_000  # of the made-up schedule
WARM_UPS = 2


@dataclass(frozen=True)
class StepRate:
    """A timed training step; medians.

    Attributes:
        seconds: a step.
        processor_seconds: of all threads together.
        flops: of a step, see `training_flops` of the model.
        matmul_rate, matmul_processor_rate: FLOP of plain products a second, and a processor second, in the same
            process at the same time.
        compile_seconds: of the step.
        peak_bytes: arguments and working memory of the compiled step.
        rival_seconds: a step of the other library, if there is one.
    """

    batch_size: int
    seconds: float
    processor_seconds: float
    flops: float
    matmul_rate: float
    matmul_processor_rate: float
    compile_seconds: float
    peak_bytes: int
    rival_seconds: float | None = None

    @property
    def share(self) -> float:
        """Rate of the step over that of plain products."""
        return self.flops / self.seconds / self.matmul_rate

    @property
    def processor_share(self) -> float:
        """The same a processor second: hardly depends on what else runs, but does not see idle cores."""
        return self.flops / self.processor_seconds / self.matmul_processor_rate


def timed(function: Callable[[], Any]) -> tuple[float, float]:
    """Seconds and processor seconds of a call."""
    wall, processor = time.perf_counter(), time.process_time()
    jax.block_until_ready(function())
    return time.perf_counter() - wall, time.process_time() - processor


def _matmuls(dtype: str) -> list[tuple[float, Callable[[], jax.Array]]]:
    """FLOP of a call, and the call, for each product."""
    product = jax.jit(jnp.matmul)
    made: list[tuple[float, Callable[[], jax.Array]]] = []
    for m, k, n in MATMULS if jax.default_backend() == "cpu" else ACCELERATOR_MATMULS:
        left, right = (jax.random.normal(jax.random.key(0), shape, dtype) for shape in ((m, k), (k, n)))
        jax.block_until_ready(product(left, right))
        made.append((2.0 * m * k * n, partial(product, left, right)))
    return made


def made_batch(config: ModelConfig, batch_size: int) -> dict[str, np.ndarray]:
    """A batch of noise with a gap of the watch, for timing: raw units, NaN = not measured."""
    rng, n = np.random.default_rng(0), channels.N_CHANNELS
    if isinstance(config, WBMConfig):
        values = rng.random((batch_size, config.hours, n), np.float32)
        values[:, : config.hours // 4, list(channels.DEVICE_GROUPS["watch"])] = np.nan
        return {"values": values, "participant": np.arange(batch_size)}
    if isinstance(config, ForecastConfig):
        values = rng.random((batch_size, config.steps + config.horizon, n), np.float32)
        values[:, : config.steps // 4, list(channels.DEVICE_GROUPS["watch"])] = np.nan
        return {"values": values}
    days = config.n_days if isinstance(config, LSM2SparseConfig) else 1
    values = rng.random((batch_size, n, days, config.minutes), np.float32)
    values[:, list(channels.DEVICE_GROUPS["watch"]), :, : config.minutes // 4] = np.nan
    offsets = np.tile(np.arange(days, dtype=np.int32), (batch_size, 1))
    return {"values": values.reshape(batch_size, n, -1), "day_offsets": offsets}


def train_step(config: ModelConfig) -> tuple[Callable, state.TrainState]:
    """The step of the training loop (AdamW as published) and a state to begin with."""
    settings, task = OptimizerConfig(), tasks.task_of(config)
    schedule = optimizer.warmup_cosine(settings, steps=STEPS)
    update = optimizer.adamw(settings, schedule)
    blueprint, *_ = state.blueprint(task.build, frozen=task.frozen)
    return (
        step.train_step(blueprint, task.objective(NormalizationStats.identity()), update, schedule, seed=0),
        state.initialiser(task.build, update, seed=0, frozen=task.frozen)(),
    )


@dataclass(frozen=True)
class CompiledStep:
    """A training step that keeps its own state: each call of `advance` is one step."""

    config: ModelConfig
    batch_size: int
    advance: Callable[[], Any]
    compile_seconds: float
    peak_bytes: int


def compile_step(config: ModelConfig, *, batch_size: int) -> CompiledStep:
    """Compiles the step and runs it once."""
    run, train_state = train_step(config)
    batch = jax.tree.map(jnp.asarray, made_batch(config, batch_size))
    start = time.perf_counter()
    options = host.compiler_options(jax.default_backend())
    compiled = jax.jit(run, donate_argnums=0, compiler_options=options).lower(train_state, batch).compile()
    compile_seconds = time.perf_counter() - start
    memory = compiled.memory_analysis()

    def advance():
        nonlocal train_state
        train_state, metrics = compiled(train_state, batch)
        return train_state, metrics

    jax.block_until_ready(advance())
    peak_bytes = memory.temp_size_in_bytes + memory.argument_size_in_bytes if memory else 0
    return CompiledStep(config, batch_size, advance, compile_seconds, peak_bytes)


def measure_step(
    step_: CompiledStep, *, repeats: int = 3, rival: Callable[[], Any] | None = None
) -> StepRate:
    """Times a training step, plain products, and a step of another library, in turns."""
    products = _matmuls(step_.config.dtype)
    steps: list[tuple[float, float]] = []
    taken: list[list[tuple[float, float]]] = [[] for _ in products]
    rivals: list[float] = []
    for _ in range(WARM_UPS):  # until the allocator has found places for both that it keeps
        timed(step_.advance)
        if rival is not None:
            timed(rival)
    for _ in range(repeats):
        for times, (_, product) in zip(taken, products, strict=True):
            times += [timed(product) for _ in range(5)]
        steps.append(timed(step_.advance))
        if rival is not None:
            rivals.append(timed(rival)[0])
    wall, processor = (
        max(
            flops / statistics.median(time[i] for time in times)
            for times, (flops, _) in zip(taken, products, strict=True)
        )
        for i in (0, 1)
    )
    return StepRate(
        step_.batch_size,
        statistics.median(seconds for seconds, _ in steps),
        statistics.median(seconds for _, seconds in steps),
        float(registry.of(step_.config).training_flops(step_.config) * step_.batch_size),
        wall,
        processor,
        step_.compile_seconds,
        step_.peak_bytes,
        statistics.median(rivals) if rivals else None,
    )


def measure(
    config: ModelConfig,
    *,
    batch_sizes: Sequence[int],
    repeats: int = 3,
    make_rival: Callable[[int], RivalStep] | None = None,
    loader_rate: float | None = None,
) -> tuple[Table, list[CompiledStep]]:
    """Table of the training step of a model, and the compiled steps.

    Args:
        make_rival: starts a step of another library for a batch size; both are then timed in turns.
        loader_rate: days a second that the loader gives; adds the share of the step that reading would take.
    """
    steps = [compile_step(config, batch_size=size) for size in batch_sizes]
    rates = []
    for compiled in steps:
        with contextlib.nullcontext() if make_rival is None else make_rival(compiled.batch_size) as rival:
            rates.append(measure_step(compiled, repeats=repeats, rival=rival))
    device = jax.devices()[0]
    cores = f", {os.cpu_count()} cores" if device.platform == "cpu" else ""
    kind = registry.of(config).kind
    title = f"Training step of {kind}, {config.dtype}, {device.device_kind}{cores}"
    days = config.n_days if isinstance(config, LSM2SparseConfig) else 1
    return (title, [_row(rate, days, loader_rate) for rate in rates]), steps


def _row(rate: StepRate, days: int, loader_rate: float | None) -> dict:
    row = {
        "batch": rate.batch_size,
        "s/step": f"{rate.seconds:.3g}",
        "examples/s": f"{rate.batch_size / rate.seconds:.3g}",
        "GFLOP/s": f"{rate.flops / rate.seconds / 1e9:,.0f}",
        "matmul GFLOP/s": f"{rate.matmul_rate / 1e9:,.0f}",
        "share": f"{rate.share:.0%}",
        "share, processor time": f"{rate.processor_share:.0%}",
        "compile s": f"{rate.compile_seconds:.0f}",
        "peak MB": f"{rate.peak_bytes / 1e6:,.0f}",
    }
    if loader_rate is not None:
        row["reading"] = f"{rate.batch_size * days / loader_rate / rate.seconds:.2%}"
    if rate.rival_seconds is not None:
        row["rival s/step"] = f"{rate.rival_seconds:.3g}"
        row["times faster"] = f"{rate.rival_seconds / rate.seconds:.2f}"
    return row
