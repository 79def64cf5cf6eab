"""Where the time of an LSM-2 training step goes: its parts timed alone, at their real shapes."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from wearjax.layers import attention, blocks
from wearjax.models.lsm2 import BACKWARD, LSM2, LSM2Config
from wearjax.train import optimizer
from wearjax.train.config import OptimizerConfig
from wearjax.train.throughput import STEPS, CompiledStep, timed


def breakdown(step_: CompiledStep, *, repeats: int = 3) -> list[dict]:
    """Rows of parts: each is timed alone at its real shapes, in turns with the whole step."""
    config, batch_size = step_.config, step_.batch_size
    assert isinstance(config, LSM2Config)
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
            times[name].append(timed(call)[0])
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
