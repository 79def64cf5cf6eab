from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax.train import optimizer
from wearjax.train.config import OptimizerConfig

torch = pytest.importorskip("torch")


def torch_adamw(config, steps, parameter):
    made = torch.optim.AdamW(
        [parameter], lr=config.learning_rate, betas=(config.beta1, config.beta2), eps=config.epsilon,
        weight_decay=config.weight_decay,
    )  # fmt: skip
    warmup = optimizer.warmup_steps(steps, config.warmup_fraction)
    rising = torch.optim.lr_scheduler.LinearLR(made, start_factor=config.warmup_start, total_iters=warmup)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(
        made, T_max=max(1, steps - warmup), eta_min=config.final_learning_rate
    )
    return made, torch.optim.lr_scheduler.SequentialLR(made, [rising, falling], milestones=[warmup])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("steps", [2, 19, 100, 333])
def test_schedule_is_that_of_the_published_training(steps):
    config = OptimizerConfig()
    made, schedule = torch_adamw(config, steps, torch.nn.Parameter(torch.zeros(1)))
    expected = []
    for _ in range(steps):
        expected.append(made.param_groups[0]["lr"])
        made.step()
        schedule.step()
    got = optimizer.warmup_cosine(config, steps=steps)(np.arange(400))[:steps]
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=1e-10)


def test_ends_of_the_schedule():
    config = OptimizerConfig(learning_rate=1e-3)
    schedule = optimizer.warmup_cosine(config, steps=200)
    assert float(schedule(0)) == pytest.approx(1e-9, rel=1e-4)
    assert float(schedule(10)) == pytest.approx(1e-3, rel=1e-5)
    assert float(schedule(200)) == pytest.approx(1e-6, rel=1e-3)
    assert float(schedule(10**6)) == pytest.approx(1e-6, rel=1e-3)


@settings(max_examples=20)
@given(steps=st.integers(1, 5000), fraction=st.floats(0, 0.9))
def test_schedule_stays_within_bounds(steps, fraction):
    config = OptimizerConfig(warmup_fraction=fraction)
    some_steps = np.linspace(0, steps - 1, 32).astype(np.int32)
    rates = np.asarray(optimizer.warmup_cosine(config, steps=steps)(some_steps))
    assert np.isfinite(rates).all()
    assert (rates > 0).all()
    assert (rates <= 1.0001e-4).all()
    assert optimizer.warmup_steps(steps, fraction) >= 1


@pytest.mark.filterwarnings("ignore")
def test_updates_are_those_of_torch():
    config, steps = OptimizerConfig(learning_rate=1e-2, weight_decay=0.5), 30
    start = np.random.default_rng(0).normal(size=(5,)).astype(np.float32)
    theirs = torch.nn.Parameter(torch.tensor(start))
    made, schedule = torch_adamw(config, steps, theirs)
    ours = {"bias": jnp.asarray(start)}  # decayed although a bias
    update = optimizer.adamw(config, optimizer.warmup_cosine(config, steps=steps))
    state = update.init(ours)
    target = np.linspace(-1, 1, 5).astype(np.float32)
    for _ in range(steps):
        made.zero_grad()
        (((theirs - torch.tensor(target)) ** 2).sum()).backward()
        made.step()
        schedule.step()
        grads = {"bias": 2 * (ours["bias"] - target)}
        changes, state = update.update(grads, state, ours)
        ours = optax.apply_updates(ours, changes)
    np.testing.assert_allclose(ours["bias"], theirs.detach().numpy(), rtol=2e-5, atol=2e-6)
    assert not np.allclose(ours["bias"], start, atol=1e-2)


def test_clipping_limits_the_gradient():
    params = {"w": jnp.zeros(4)}
    grads = {"w": jnp.full(4, 100.0)}
    clipped = optimizer.adamw(OptimizerConfig(clip_norm=1.0), lambda step: 1.0)
    state = clipped.update(grads, clipped.init(params), params)[1]
    moments = optax.tree.get(state, "mu")["w"]
    np.testing.assert_allclose(moments, 0.1 * np.full(4, 0.5), rtol=1e-5)
