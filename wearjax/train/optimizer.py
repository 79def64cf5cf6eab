"""AdamW and its learning-rate schedule."""

from __future__ import annotations

import jax.numpy as jnp
import optax

from wearjax.train.config import OptimizerConfig


def warmup_steps(steps: int, fraction: float) -> int:
    """W = max(1, floor(fraction · S)) (OpenMHC LSM-2)."""
    return max(1, int(fraction * steps))


def warmup_cosine(config: OptimizerConfig, *, steps: int) -> optax.Schedule:
    """Learning rate at 0-based step s of S (OpenMHC LSM-2; SGDR cosine, Loshchilov & Hutter 2017, eq. 5).

    s < W:  peak · (start + (1 − start) · s / W)
    s ≥ W:  final + (peak − final) · (1 + cos(π (s − W) / (S − W))) / 2
    """
    warmup = warmup_steps(steps, config.warmup_fraction)
    peak, final, start = config.learning_rate, config.final_learning_rate, config.warmup_start

    def schedule(step):
        s = jnp.asarray(step, jnp.float32)
        rising = peak * (start + (1 - start) * s / warmup)
        share = jnp.clip((s - warmup) / max(1, steps - warmup), 0.0, 1.0)
        falling = final + (peak - final) * 0.5 * (1 + jnp.cos(jnp.pi * share))
        return jnp.where(s < warmup, rising, falling)

    return schedule


def adamw(config: OptimizerConfig, schedule: optax.Schedule) -> optax.GradientTransformation:
    """AdamW (Loshchilov & Hutter 2019); the decay applies to every parameter, biases and norms included."""
    update = optax.adamw(
        schedule, b1=config.beta1, b2=config.beta2, eps=config.epsilon, weight_decay=config.weight_decay
    )
    if config.clip_norm is None:
        return update
    return optax.chain(optax.clip_by_global_norm(config.clip_norm), update)
