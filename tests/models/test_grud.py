"""GRU-D against a step-by-step restatement in PyTorch, what it knows of a silent channel, and pooling in chunks."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from wearjax.errors import ConfigError
from wearjax.models import grud

HEADS = (
    grud.Head("sex", "binary"), grud.Head("wake", "ordinal", 4),
    grud.Head("kind", "multiclass", 3), grud.Head("age", "regression"),
)  # fmt: skip
TINY = grud.GRUDConfig(hidden=5, hours=7, channels=3, heads=HEADS)


def made_hours(n=6, hours=7, channels=3, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(2, 3, (n, hours, channels)).astype(np.float32)
    values[rng.random(values.shape) < 0.4] = np.nan
    values[0, :, 1] = np.nan
    values[1] = np.nan
    return values


@pytest.fixture(scope="module")
def model():
    return grud.GRUD(TINY, rngs=nnx.Rngs(0))


@pytest.fixture(scope="module")
def split(model):
    return nnx.split(model)


def test_what_is_known_at_every_hour():
    values = made_hours(seed=1)
    last, observed, elapsed = (
        np.asarray(x).swapaxes(0, 1) for x in jax.jit(grud.last_values)(values.swapaxes(0, 1))
    )
    for day, channel in np.ndindex(len(values), 3):
        series = values[day, :, channel]
        seen = [float(v) for v in series if not np.isnan(v)]
        current, silent = (seen[0] if seen else 0.0), 0.0
        for hour, value in enumerate(series):
            if hour:
                silent = 1.0 + (silent if np.isnan(series[hour - 1]) else 0.0)
            current = current if np.isnan(value) else float(value)
            assert last[day, hour, channel] == np.float32(current)
            assert elapsed[day, hour, channel] == silent
            assert observed[day, hour, channel] == (not np.isnan(value))


def test_is_the_published_cell(model, split):
    torch = pytest.importorskip("torch")
    values, means = made_hours(), np.array([1.5, -2.0, 0.5], np.float32)
    graph, state = split
    pooled, outputs = jax.jit(
        lambda s, v: (lambda m: (m.embed(v, means), m.outputs(m.embed(v, means))))(nnx.merge(graph, s))
    )(state, values)
    weight = {
        name: torch.tensor(np.asarray(getattr(model, name)[...])) for name in (
            "decay_h_kernel", "decay_h_bias", "decay_x_scale", "decay_x_bias", "input_kernel", "input_bias",
            "hidden_kernel", "hidden_bias", "head_kernel", "head_bias",
        )
    }  # fmt: skip
    cell = torch.nn.GRUCell(2 * 3 + 5, 5)
    with torch.no_grad():
        cell.weight_ih.copy_(weight["input_kernel"].T)
        cell.weight_hh.copy_(weight["hidden_kernel"].T)
        cell.bias_ih.copy_(weight["input_bias"])
        cell.bias_hh.copy_(weight["hidden_bias"])
        last, observed, elapsed = (
            torch.tensor(np.array(x, np.float32))
            for x in grud.last_values(jnp.asarray(values.swapaxes(0, 1)))
        )
        state_, mean = torch.zeros(len(values), 5), torch.tensor(means)
        for hour in range(7):
            m, gap = observed[hour], elapsed[hour]
            fade_h = torch.exp(-torch.relu(gap @ weight["decay_h_kernel"] + weight["decay_h_bias"]))
            diagonal = torch.diag(weight["decay_x_scale"])
            fade_x = torch.exp(-torch.relu(gap @ diagonal.T + weight["decay_x_bias"]))
            state_ = fade_h * state_
            x = m * last[hour] + (1 - m) * (fade_x * last[hour] + (1 - fade_x) * mean)
            state_ = cell(torch.cat([x, state_, m], dim=1), state_)
        wanted = state_ @ weight["head_kernel"] + weight["head_bias"]
    np.testing.assert_allclose(pooled, state_.numpy(), rtol=1e-5, atol=1e-5)
    assert [out.shape[1] for out in outputs] == [2, 3, 3, 1]
    np.testing.assert_allclose(np.concatenate(outputs, axis=1), wanted.numpy(), rtol=1e-5, atol=1e-5)
    assert np.abs(np.asarray(pooled)[2:] - np.asarray(pooled)[1]).max() > 1e-2


def test_participants_are_means_of_their_days(model, split):
    values, means = made_hours(seed=3), np.zeros(3, np.float32)
    owners = np.array([1, 0, 1, 1, 0, 3], np.int32)
    graph, state = split

    def pool(state, chunks, remat):
        pooled = nnx.merge(graph, state).pool(*chunks, means, n_participants=3, remat=remat)
        return jnp.square(pooled).sum(), pooled

    days = np.asarray(jax.jit(lambda s, v: nnx.merge(graph, s).embed(v, means))(state, values))
    wanted = [days[owners == i].mean(axis=0) if (owners == i).any() else np.zeros(5) for i in range(3)]
    chunks = values.reshape(3, 2, 7, 3), owners.reshape(3, 2)
    slopes = []
    for remat in (False, True):
        of = jax.jit(jax.value_and_grad(functools.partial(pool, remat=remat), has_aux=True))
        (_, found), slope = of(state, chunks)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        slopes.append(slope)
    for one, other in zip(*map(jax.tree.leaves, slopes), strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert any(np.abs(leaf).max() > 1e-3 for leaf in jax.tree.leaves(slopes))


def test_start_and_sizes():
    published = dataclasses.replace(grud.GRUDConfig(), heads=HEADS)
    params = nnx.state(grud.GRUD(published, rngs=nnx.Rngs(1)))
    sizes = {path[-1]: leaf.shape for path, leaf in nnx.to_flat_state(params)}
    assert sizes["input_kernel"] == (19 + 64 + 19, 3 * 64)
    assert sizes["head_kernel"] == (64, 9)
    for name, bound in (("input_kernel", 1 / 8), ("decay_x_scale", 19**-0.5), ("decay_h_kernel", 1 / 8)):
        widest = np.abs(np.asarray(params[name][...])).max()
        assert 0.7 * bound < widest <= bound
    with pytest.raises(ConfigError, match="head age: kind 'number'"):
        grud.Head("age", "number")
    with pytest.raises(ConfigError, match="at least two classes"):
        grud.Head("age", "ordinal", 1)
    with pytest.raises(ConfigError, match=r"model\.hidden"):
        grud.GRUDConfig(hidden=0)
