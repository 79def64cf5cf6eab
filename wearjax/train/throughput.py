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
from wearjax.layers import attention, blocks
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


@dataclass(frozen=True)
class CompiledStep:
    """A training step that keeps its own state: each call of `advance` is one step."""

    config: LSM2Config
    batch_size: int
    advance: Callable[[], Any]
    compile_seconds: float
    temp_bytes: int


def compile_step(config: LSM2Config, *, batch_size: int) -> CompiledStep:
    """Compiles the step and runs it once."""
    run, train_state = train_step(config)
    batch = {"values": jnp.asarray(made_days(batch_size, config.minutes))}
    start = time.perf_counter()
    compiled = jax.jit(run, donate_argnums=0).lower(train_state, batch).compile()
    compile_seconds = time.perf_counter() - start
    memory = compiled.memory_analysis()

    def advance():
        nonlocal train_state
        train_state, metrics = compiled(train_state, batch)
        return train_state, metrics

    jax.block_until_ready(advance())
    temp_bytes = memory.temp_size_in_bytes if memory else 0
    return CompiledStep(config, batch_size, advance, compile_seconds, temp_bytes)


def measure_step(step_: CompiledStep, *, repeats: int = 3) -> StepRate:
    """Times a training step and plain products in turns."""
    products = _matmuls()
    steps: list[tuple[float, float]] = []
    taken: list[list[tuple[float, float]]] = [[] for _ in products]
    for _ in range(repeats):
        for times, (_, product) in zip(taken, products, strict=True):
            times += [_timed(product) for _ in range(5)]
        steps.append(_timed(step_.advance))
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
        float(training_flops(step_.config) * step_.batch_size),
        wall,
        processor,
        step_.compile_seconds,
        step_.temp_bytes,
    )


def breakdown(step_: CompiledStep, *, repeats: int = 3) -> list[dict]:
    """Where a step's time goes: its parts timed alone at their real shapes, in turns with the whole step."""
    config, batch_size = step_.config, step_.batch_size
    stacks = {
        "encoder": (config.n_kept, config.encoder_dim, config.encoder_heads, config.encoder_depth, True),
        "decoder": (config.n_tokens, config.decoder_dim, config.decoder_heads, config.decoder_depth, False),
    }
    calls = {("step", ""): step_.advance, ("optimizer", ""): _optimizer_call(config)}
    for side, (tokens, dim, heads, _, masked) in stacks.items():
        for part, call in _stack_calls(config, batch_size, tokens, dim, heads, masked).items():
            calls[part, side] = call
    times: dict[tuple[str, str], list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(_timed(call)[0])
    seconds = {name: statistics.median(taken) for name, taken in times.items()}

    def over_stacks(part: str) -> float:
        return sum(stack[3] * seconds[part, side] for side, stack in stacks.items())

    attended, mapped, plain = (over_stacks(part) for part in ("attention", "linear maps", "block"))
    parts = {
        "attention": attended,
        "linear maps": mapped,
        "norms, GELU, residuals": max(plain - attended - mapped, 0.0),
        "dropout and its words": max(over_stacks("block with dropout") - plain, 0.0),
        "optimizer": seconds["optimizer", ""],
    }
    whole = seconds["step", ""]
    parts["masks, gathers, embedding, loss, allocation"] = max(whole - sum(parts.values()), 0.0)
    scale = (1 + BACKWARD) * batch_size
    flops = {
        "attention": sum(scale * depth * 4 * tokens**2 * dim for tokens, dim, _, depth, _ in stacks.values()),
        "linear maps": sum(
            scale * depth * tokens * dim**2 * (8 + 4 * config.mlp_ratio)
            for tokens, dim, _, depth, _ in stacks.values()
        ),
    }
    return [
        {
            "part": name,
            "ms": f"{1e3 * taken:,.0f}",
            "share of step": f"{taken / whole:.0%}",
            "GFLOP/s": f"{flops[name] / taken / 1e9:,.0f}" if name in flops else "",
        }
        for name, taken in parts.items()
    ]


def _warm(function: Callable, *args: Any) -> Callable[[], Any]:
    """A call of the compiled function, compiled already."""
    compiled = jax.jit(function)
    jax.block_until_ready(compiled(*args))
    return partial(compiled, *args)


def _stack_calls(config, batch_size, tokens, dim, heads, masked) -> dict[str, Callable[[], Any]]:
    """Forward and backward of one block without and with dropout, of its attention, and of its linear maps."""
    x = jax.random.normal(jax.random.key(0), (batch_size, tokens, dim))
    keys = jax.random.split(jax.random.key(1), batch_size)
    key_mask = jnp.broadcast_to(jnp.arange(tokens) % 4 > 0, (batch_size, tokens)) if masked else None
    calls = {}
    for name, rate in (("block", 0.0), ("block with dropout", config.dropout)):
        stack = blocks.TransformerStack(
            dim, 1, heads, mlp_ratio=config.mlp_ratio, dropout_rate=rate, implementation=config.attention,
            block=config.attention_block, rngs=nnx.Rngs(0),
        )  # fmt: skip
        graph, params = nnx.split(stack)

        def whole(params, x, graph=graph):
            return nnx.merge(graph, params)(x, key_mask=key_mask, keys=keys).sum()

        calls[name] = _warm(jax.grad(whole, argnums=(0, 1)), params, x)

    q = jax.random.normal(jax.random.key(2), (batch_size, heads, tokens, dim // heads))

    def attended(q, k, v):
        out = attention.attend(
            q, k, v, key_mask=key_mask, implementation=config.attention, block=config.attention_block
        )
        return jnp.square(out).sum()

    calls["attention"] = _warm(jax.grad(attended, argnums=(0, 1, 2)), q, q, q)
    hidden = config.mlp_ratio * dim
    kernels = [jnp.full(shape, 0.02) for shape in ((dim, 3 * dim), (dim, dim), (dim, hidden), (hidden, dim))]

    def mapped(x, kernels):
        to_qkv, proj, up, down = kernels
        x = (x @ to_qkv)[..., :dim] @ proj
        return jnp.square(x @ up @ down).sum()

    calls["linear maps"] = _warm(jax.grad(mapped, argnums=(0, 1)), x, kernels)
    return calls


def _optimizer_call(config: LSM2Config) -> Callable[[], Any]:
    settings = OptimizerConfig()
    update = optimizer.adamw(settings, optimizer.warmup_cosine(settings, steps=STEPS))
    params = nnx.state(LSM2(config, rngs=nnx.Rngs(0)), nnx.Param)
    moments = jax.jit(update.init)(params)
    gradients = jax.tree.map(jnp.ones_like, params)

    def apply(params, moments, gradients):
        changes, moments = update.update(gradients, moments, params)
        return jax.tree.map(jnp.add, params, changes), moments

    compiled = jax.jit(apply, donate_argnums=(0, 1))

    def advance():
        nonlocal params, moments
        params, moments = compiled(params, moments, gradients)
        return params

    jax.block_until_ready(advance())
    return advance


def measure_lsm2(
    *, repeats: int = 3, batch_sizes: Sequence[int] = (1, 2), config: LSM2Config | None = None
) -> list[Table]:
    """Tables of the training step (published size by default) and of where its time goes."""
    config = config or LSM2Config()
    steps = [compile_step(config, batch_size=size) for size in batch_sizes]
    rates = [measure_step(compiled, repeats=repeats) for compiled in steps]
    device = jax.devices()[0]
    cores = f", {os.cpu_count()} cores" if device.platform == "cpu" else ""
    title = f"LSM-2 training step, {config.dtype}, {device.device_kind}{cores}"
    parts = breakdown(steps[0], repeats=repeats)
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
