"""How fast a training step is on this machine, as a share of the matrix products it could do, and what the rest is.

Rates of a step and of plain matrix products are taken in turns in one process, so that a busy machine slows both.
`python -m wearjax.train.throughput` prints the tables.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from wearjax import channels
from wearjax.days.normalization import NormalizationStats
from wearjax.layers import attention, blocks, dropout
from wearjax.models.lsm2 import LSM2, LSM2Config
from wearjax.objectives.masked_reconstruction import MaskedReconstruction
from wearjax.train import optimizer, state, step
from wearjax.train.config import OptimizerConfig

Table = tuple[str, list[dict]]

# The widest product of the model, and a large square one: the faster counts as what the machine can do.
MATMULS = ((1368, 384, 1536), (2048, 2048, 2048))
BACKWARD = 2  # a product y = x w is differentiated by two of the same size
STEPS = 100_000  # of the made-up schedule


def block_flops(tokens: int, dim: int, *, mlp_ratio: int = 4) -> int:
    """Forward FLOP of one block and example: projections 8 T D^2, attention 4 T^2 D, MLP 4 ratio T D^2."""
    return tokens * dim * dim * (8 + 4 * mlp_ratio) + 4 * tokens * tokens * dim


def training_flops(config: LSM2Config) -> int:
    """FLOP of one example's forward and backward pass; removed tokens and recomputed values do not count."""
    kept, tokens, ratio = config.n_kept, config.n_tokens, config.mlp_ratio
    stacks = config.encoder_depth * block_flops(kept, config.encoder_dim, mlp_ratio=ratio)
    stacks += config.decoder_depth * block_flops(tokens, config.decoder_dim, mlp_ratio=ratio)
    edges = kept * config.encoder_dim * (config.patch + config.decoder_dim)
    edges += tokens * config.decoder_dim * config.patch
    return (1 + BACKWARD) * (stacks + 2 * edges)


@dataclass(frozen=True)
class StepRate:
    """A timed training step; medians.

    Attributes:
        seconds: a step.
        processor_seconds: of all threads together.
        flops: of a step, see `training_flops`.
        matmul_rate, matmul_processor_rate: FLOP of plain products a second, and a processor second, in the same
            process at the same time.
        compile_seconds, temp_bytes: of the compiled step.
    """

    batch_size: int
    seconds: float
    processor_seconds: float
    flops: float
    matmul_rate: float
    matmul_processor_rate: float
    compile_seconds: float
    temp_bytes: int

    @property
    def share(self) -> float:
        """Rate of the step over that of plain products."""
        return self.flops / self.seconds / self.matmul_rate

    @property
    def processor_share(self) -> float:
        """The same a processor second: hardly depends on what else runs, but does not see idle cores."""
        return self.flops / self.processor_seconds / self.matmul_processor_rate


def _timed(function: Callable[[], Any]) -> tuple[float, float]:
    """Seconds and processor seconds of a call."""
    wall, processor = time.perf_counter(), time.process_time()
    jax.block_until_ready(function())
    return time.perf_counter() - wall, time.process_time() - processor


def _matmuls() -> list[tuple[float, Callable[[], jax.Array]]]:
    """FLOP of a call, and the call, for each product."""
    product = jax.jit(jnp.matmul)
    made: list[tuple[float, Callable[[], jax.Array]]] = []
    for m, k, n in MATMULS:
        left, right = (jax.random.normal(jax.random.key(0), shape) for shape in ((m, k), (k, n)))
        jax.block_until_ready(product(left, right))
        made.append((2.0 * m * k * n, partial(product, left, right)))
    return made


def made_days(batch_size: int, minutes: int = channels.MINUTES_PER_DAY) -> np.ndarray:
    """Days of noise with a gap of the watch, for timing: raw units, NaN = not measured."""
    values = np.random.default_rng(0).random((batch_size, channels.N_CHANNELS, minutes), np.float32)
    values[:, list(channels.DEVICE_GROUPS["watch"]), : minutes // 4] = np.nan
    return values


def train_step(config: LSM2Config) -> tuple[Callable, state.TrainState]:
    """The step of the training loop (AdamW as published) and a state to begin with."""
    settings = OptimizerConfig()
    schedule = optimizer.warmup_cosine(settings, steps=STEPS)
    update = optimizer.adamw(settings, schedule)
    build = lambda rngs: LSM2(config, rngs=rngs)  # noqa: E731
    blueprint, _ = state.blueprint(build)
    objective: Any = MaskedReconstruction(NormalizationStats.identity())
    return (
        step.train_step(blueprint, objective, update, schedule, seed=0),
        state.initialiser(build, update, seed=0)(),
    )


def measure_step(config: LSM2Config, *, batch_size: int, repeats: int = 3) -> StepRate:
    """Times a training step and plain products in turns."""
    run, train_state = train_step(config)
    batch = {"values": jnp.asarray(made_days(batch_size, config.minutes))}
    start = time.perf_counter()
    compiled = jax.jit(run, donate_argnums=0).lower(train_state, batch).compile()
    compile_seconds = time.perf_counter() - start
    products = _matmuls()

    def advance():
        nonlocal train_state
        train_state, metrics = compiled(train_state, batch)
        return train_state, metrics

    _timed(advance)
    steps: list[tuple[float, float]] = []
    taken: list[list[tuple[float, float]]] = [[] for _ in products]
    for _ in range(repeats):
        for times, (_, product) in zip(taken, products, strict=True):
            times += [_timed(product) for _ in range(5)]
        steps.append(_timed(advance))
    wall, processor = (
        max(
            flops / statistics.median(time[i] for time in times)
            for times, (flops, _) in zip(taken, products, strict=True)
        )
        for i in (0, 1)
    )
    return StepRate(
        batch_size,
        statistics.median(seconds for seconds, _ in steps),
        statistics.median(seconds for _, seconds in steps),
        float(training_flops(config) * batch_size),
        wall,
        processor,
        compile_seconds,
        memory.temp_size_in_bytes if (memory := compiled.memory_analysis()) else 0,
    )


def breakdown(config: LSM2Config, *, batch_size: int, step_seconds: float, repeats: int = 3) -> list[dict]:
    """Where a step's time goes: its parts timed alone at their real shapes, and what they leave over."""
    stacks = (
        (config.n_kept, config.encoder_dim, config.encoder_heads, config.encoder_depth, True),
        (config.n_tokens, config.decoder_dim, config.decoder_heads, config.decoder_depth, False),
    )
    parts = {
        "attention": 0.0,
        "linear maps": 0.0,
        "norms, GELU, residuals": 0.0,
        "dropout and its words": 0.0,
    }
    flops = {"attention": 0.0, "linear maps": 0.0}
    for tokens, dim, heads, depth, masked in stacks:
        timed = _stack_seconds(config, batch_size, tokens, dim, heads, masked, repeats)
        whole, dropped, attended, mapped = (depth * seconds for seconds in timed)
        parts["attention"] += attended
        parts["linear maps"] += mapped
        parts["norms, GELU, residuals"] += max(whole - attended - mapped, 0.0)
        parts["dropout and its words"] += max(dropped - whole, 0.0)
        scale = (1 + BACKWARD) * batch_size * depth
        flops["attention"] += scale * 4 * tokens * tokens * dim
        flops["linear maps"] += scale * tokens * dim * dim * (8 + 4 * config.mlp_ratio)
    parts["optimizer"] = _optimizer_seconds(config, repeats)
    parts["masks, gathers, embedding, loss, allocation"] = max(step_seconds - sum(parts.values()), 0.0)
    return [
        {
            "part": name,
            "ms": f"{1e3 * seconds:,.0f}",
            "share of step": f"{seconds / step_seconds:.0%}",
            "GFLOP/s": f"{flops[name] / seconds / 1e9:,.0f}" if name in flops else "",
        }
        for name, seconds in parts.items()
    ]


def _median_seconds(function: Callable, *args: Any, repeats: int) -> float:
    compiled = jax.jit(function)
    jax.block_until_ready(compiled(*args))
    return statistics.median(_timed(lambda: compiled(*args))[0] for _ in range(repeats))


def _stack_seconds(config, batch_size, tokens, dim, heads, masked, repeats) -> list[float]:
    """Forward and backward of one block without dropout, with it, of its attention, and of its linear maps."""
    x = jax.random.normal(jax.random.key(0), (batch_size, tokens, dim))
    keys = jax.random.split(jax.random.key(1), batch_size)
    key_mask = jnp.broadcast_to(jnp.arange(tokens) % 4 > 0, (batch_size, tokens)) if masked else None
    seconds = []
    for rate in (0.0, config.dropout):
        stack = blocks.TransformerStack(
            dim, 1, heads, mlp_ratio=config.mlp_ratio, dropout_rate=rate, implementation=config.attention,
            block=config.attention_block, rngs=nnx.Rngs(0),
        )  # fmt: skip
        graph, params = nnx.split(stack)

        def whole(params, x, graph=graph):
            return nnx.merge(graph, params)(x, key_mask=key_mask, keys=keys).sum()

        seconds.append(_median_seconds(jax.grad(whole, argnums=(0, 1)), params, x, repeats=repeats))

    q = jax.random.normal(jax.random.key(2), (batch_size, heads, tokens, dim // heads))
    words = dropout.draw_words(keys, 2 * heads * tokens)

    def attended(q, k, v):
        out = attention.attend(
            q, k, v, key_mask=key_mask, dropout_rate=config.dropout, stream=dropout.WordStream(words),
            implementation=config.attention, block=config.attention_block,
        )  # fmt: skip
        return jnp.square(out).sum()

    seconds.append(_median_seconds(jax.grad(attended, argnums=(0, 1, 2)), q, q, q, repeats=repeats))
    hidden = config.mlp_ratio * dim
    kernels = [jnp.full(shape, 0.02) for shape in ((dim, 3 * dim), (dim, dim), (dim, hidden), (hidden, dim))]

    def mapped(x, kernels):
        to_qkv, proj, up, down = kernels
        x = (x @ to_qkv)[..., :dim] @ proj
        return jnp.square(x @ up @ down).sum()

    seconds.append(_median_seconds(jax.grad(mapped, argnums=(0, 1)), x, kernels, repeats=repeats))
    return seconds


def _optimizer_seconds(config: LSM2Config, repeats: int) -> float:
    settings = OptimizerConfig()
    update = optimizer.adamw(settings, optimizer.warmup_cosine(settings, steps=STEPS))
    params = nnx.state(LSM2(config, rngs=nnx.Rngs(0)), nnx.Param)
    moments = jax.jit(update.init)(params)

    def apply(params, moments, gradients):
        changes, moments = update.update(gradients, moments, params)
        return jax.tree.map(jnp.add, params, changes), moments

    compiled = jax.jit(apply, donate_argnums=(0, 1))
    gradients = jax.tree.map(jnp.ones_like, params)
    seconds = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        params, moments = jax.block_until_ready(compiled(params, moments, gradients))
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def measure_lsm2(
    *, repeats: int = 3, batch_sizes: Sequence[int] = (1, 2), config: LSM2Config | None = None
) -> list[Table]:
    """Tables of the training step (published size by default) and of where its time goes."""
    config = config or LSM2Config()
    rates = [measure_step(config, batch_size=size, repeats=repeats) for size in batch_sizes]
    device = jax.devices()[0]
    cores = f", {os.cpu_count()} cores" if device.platform == "cpu" else ""
    title = f"LSM-2 training step, {config.dtype}, {device.device_kind}{cores}"
    parts = breakdown(config, batch_size=rates[0].batch_size, step_seconds=rates[0].seconds, repeats=repeats)
    return [
        (title, [_row(rate) for rate in rates]),
        (f"Where the step of batch {rates[0].batch_size} goes, parts timed alone", parts),
    ]


def _row(rate: StepRate) -> dict:
    return {
        "batch": rate.batch_size,
        "s/step": f"{rate.seconds:.2f}",
        "days/s": f"{rate.batch_size / rate.seconds:.3f}",
        "GFLOP/s": f"{rate.flops / rate.seconds / 1e9:,.0f}",
        "matmul GFLOP/s": f"{rate.matmul_rate / 1e9:,.0f}",
        "share": f"{rate.share:.0%}",
        "share, processor time": f"{rate.processor_share:.0%}",
        "compile s": f"{rate.compile_seconds:.0f}",
        "temporary MB": f"{rate.temp_bytes / 1e6:,.0f}",
    }


if __name__ == "__main__":
    for heading, rows in measure_lsm2(repeats=int(sys.argv[1]) if len(sys.argv) > 1 else 3):
        print(heading)
        for row in rows:
            print("  " + "; ".join(f"{name} {cell}" for name, cell in row.items()))
