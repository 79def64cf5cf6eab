"""The three forms of the state-space scan against the step by step recurrence in float64, and the mixer on it."""

from __future__ import annotations

from functools import partial

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import strategies as st

from wearjax.errors import ConfigError
from wearjax.layers import linear, ssd

BATCH, HEADS, WIDTH, STATE = 2, 4, 3, 5
FORMS = ("associative", "chunked", "quadratic")


def made(seed: int, length: int, groups: int = 1, dt_scale: float = 1.0):
    """x, dt, a, b, c, and the cotangent of y."""
    rng = np.random.default_rng(seed)
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    dt = (np.exp(rng.uniform(np.log(1e-3), np.log(0.3), (BATCH, length, HEADS))) * dt_scale).astype(
        np.float32
    )
    a = -rng.uniform(1, 16, HEADS).astype(np.float32)
    x = normal(BATCH, length, HEADS, WIDTH)
    b, c = normal(BATCH, length, groups, STATE), normal(BATCH, length, groups, STATE)
    return (x, dt, a, b, c), normal(*x.shape)


def recurrence(x, dt, a, b, c, cotangent):
    """y and the gradients of sum(cotangent y), one step and head at a time, float64."""
    x, dt, a, b, c, cotangent = (np.asarray(v, np.float64) for v in (x, dt, a, b, c, cotangent))
    y, grads = np.zeros_like(x), [np.zeros_like(v) for v in (x, dt, a, b, c)]
    d_x, d_dt, d_a, d_b, d_c = grads
    per_group = x.shape[2] // b.shape[2]
    for i, h in np.ndindex(x.shape[0], x.shape[2]):
        g = h // per_group
        states = [np.zeros((x.shape[3], b.shape[3]))]
        for t in range(x.shape[1]):
            new = np.exp(dt[i, t, h] * a[h]) * states[-1] + dt[i, t, h] * np.outer(x[i, t, h], b[i, t, g])
            states.append(new)
            y[i, t, h] = new @ c[i, t, g]
        back = np.zeros_like(states[0])
        for t in reversed(range(x.shape[1])):
            step, decay, before = dt[i, t, h], np.exp(dt[i, t, h] * a[h]), states[t]
            back = back + np.outer(cotangent[i, t, h], c[i, t, g])
            d_c[i, t, g] += states[t + 1].T @ cotangent[i, t, h]
            d_x[i, t, h] = step * back @ b[i, t, g]
            d_b[i, t, g] += step * back.T @ x[i, t, h]
            through_decay = decay * (back * before).sum()
            d_dt[i, t, h] = a[h] * through_decay + x[i, t, h] @ back @ b[i, t, g]
            d_a[h] += step * through_decay
            back = decay * back
    return y, *grads


# Little optimization: here compiling takes longer than running.
@partial(
    jax.jit,
    static_argnames=("form", "chunk", "reverse"),
    compiler_options={"xla_backend_optimization_level": 0},
)
def forward_and_gradients(arguments, cotangent, form, chunk=None, reverse=False):
    run = partial(ssd.ssd, implementation=form, chunk=chunk, reverse=reverse)
    y, pull = jax.vjp(run, *arguments)
    return y, *pull(cotangent)


def close(found, wanted, tolerance=1e-4):
    """Equal to the tolerance of the largest value; gradients that are zero may be its rounding errors."""
    for one, other in zip(found, wanted, strict=True):
        scale = max(np.abs(other).max(), 1e-4)
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * scale)


@hypothesis.settings(max_examples=3)  # each compiles all forms anew
@hypothesis.given(
    length=st.integers(1, 20),
    chunk=st.integers(1, 12),
    groups=st.sampled_from([1, 2]),
    seed=st.integers(0, 99),
)
@hypothesis.example(length=1, chunk=4, groups=1, seed=0)
@hypothesis.example(length=16, chunk=7, groups=2, seed=1)
def test_every_form_is_the_recurrence_at_any_length(length, chunk, groups, seed):
    arguments, cotangent = made(seed, length, groups)
    wanted = recurrence(*arguments, cotangent)
    for form in FORMS:
        close(forward_and_gradients(arguments, cotangent, form, chunk if form == "chunked" else None), wanted)


@hypothesis.settings(max_examples=15)
@hypothesis.given(seed=st.integers(0, 10**6), dt_scale=st.sampled_from([0.01, 1.0, 20.0]))
def test_every_form_is_the_recurrence_at_any_step_size(seed, dt_scale):
    arguments, cotangent = made(seed, 14, dt_scale=dt_scale)
    wanted = recurrence(*arguments, cotangent)
    for form in FORMS:
        close(forward_and_gradients(arguments, cotangent, form, 5 if form == "chunked" else None), wanted)


@pytest.mark.parametrize("form", ["quadratic", "chunked"])
def test_a_week_of_hours_and_beyond(form):
    """At the lengths that are run, with the chunk that is chosen; against the scan of states."""
    length = 168 if form == "quadratic" else 420
    arguments, cotangent = made(3, length)
    close(
        forward_and_gradients(arguments, cotangent, form),
        forward_and_gradients(arguments, cotangent, "associative"),
    )


@pytest.mark.parametrize("form", FORMS)
def test_every_form_runs_in_reverse(form):
    """Reversed, it is the same map of turned time."""
    (x, dt, a, b, c), cotangent = made(7, 11)
    turned = [v[:, ::-1] for v in (x, dt, b, c)]
    wanted = recurrence(turned[0], turned[1], a, *turned[2:], cotangent[:, ::-1])
    found = forward_and_gradients((x, dt, a, b, c), cotangent, form, 4 if form == "chunked" else None, True)
    close(found, [w if w.ndim == 1 else w[:, ::-1] for w in wanted])


def test_huge_steps_stay_finite():
    """A decay that a product of two exponentials could not hold."""
    arguments, cotangent = made(0, 14)
    arguments = (arguments[0], np.full_like(arguments[1], 30.0), arguments[2] * 10, *arguments[3:])
    for form in FORMS:
        for found in forward_and_gradients(arguments, cotangent, form):
            assert np.isfinite(found).all()


def test_bfloat16_operands_keep_float32_decay():
    arguments, cotangent = made(1, 14)
    wanted = forward_and_gradients(arguments, cotangent, "quadratic")[0]
    rounded = (jnp.asarray(arguments[0], jnp.bfloat16), *arguments[1:])
    for form in FORMS:
        found = forward_and_gradients(rounded, cotangent, form, 5 if form == "chunked" else None)[0]
        assert found.dtype == jnp.float32
        error = jnp.abs(found - wanted).max() / jnp.abs(wanted).max()
        assert 0 < error < 0.03


def test_choices():
    assert [ssd.choose(n) for n in (168, 400, 401, 10080)] == ["quadratic"] * 2 + ["chunked"] * 2
    assert [ssd.chunk_size(n) for n in (168, 672, 1344, 10080)] == [84] * 4
    assert ssd.chunk_size(450) == 90
    assert ssd.chunk_size(997) == 84  # a prime is padded
    assert ssd.chunk_size(20) == 20
    arguments, cotangent = made(0, 14)
    found, wanted = (forward_and_gradients(arguments, cotangent, form)[0] for form in ("auto", "quadratic"))
    np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ConfigError, match="expected one of auto"):
        ssd.ssd(*arguments, implementation="scan")
    with pytest.raises(ConfigError, match="4 heads do not divide into 3 groups"):
        ssd.ssd(*arguments[:3], np.zeros((BATCH, 14, 3, STATE)), np.zeros((BATCH, 14, 3, STATE)))


def test_convolution_ends_at_the_current_step():
    rng = np.random.default_rng(0)
    x, kernel, bias = rng.normal(size=(2, 7, 3)), rng.normal(size=(3, 4)), rng.normal(size=3)
    wanted = np.zeros_like(x) + bias
    for t in range(7):
        for k in range(4):
            if t - 3 + k >= 0:
                wanted[:, t] += kernel[:, k] * x[:, t - 3 + k]
    np.testing.assert_allclose(
        ssd.causal_conv(*map(jnp.float32, (x, kernel, bias))), wanted, rtol=1e-5, atol=1e-6
    )


DIM = 6


@pytest.fixture(scope="module")
def mixers():
    """Two mixers with weights large enough that every part shows."""
    pair = []
    for seed in (0, 1):
        mixer = ssd.Mamba2(DIM, d_state=STATE, headdim=3, rngs=nnx.Rngs(seed))
        rng = np.random.default_rng(seed)
        state = nnx.state(mixer)
        nnx.update(mixer, jax.tree.map(lambda p, r=rng: p + jnp.float32(r.normal(0, 0.3, p.shape)), state))
        pair.append(mixer)
    return pair


def mixed(mixer, u):
    """The mixer from its description, float64."""
    u = np.asarray(u, np.float64)
    p = {
        ".".join(map(str, k)): np.asarray(v[...], np.float64) for k, v in nnx.to_flat_state(nnx.state(mixer))
    }
    silu = lambda v: v / (1 + np.exp(-v))  # noqa: E731
    wide = u @ p["in_proj.kernel"]
    z, xbc, dt = wide[..., :12], wide[..., 12 : 24 + 2 * STATE], wide[..., 24 + 2 * STATE :]
    conv = np.zeros_like(xbc) + p["conv1d.bias"]
    for k in range(4):
        conv[:, 3 - k :] += p["conv1d.kernel"][:, k] * xbc[:, : xbc.shape[1] - 3 + k]
    xbc = silu(conv)
    x = xbc[..., :12].reshape(*u.shape[:2], 4, 3)
    b, c = (xbc[..., 12 + i * STATE : 12 + (i + 1) * STATE][:, :, None] for i in (0, 1))
    dt = np.log1p(np.exp(dt + p["dt_bias"]))
    y = recurrence(x, dt, -np.exp(p["A_log"]), b, c, np.zeros_like(x))[0] + p["D"][:, None] * x
    g = y.reshape(z.shape) * silu(z)
    g = g / np.sqrt((g**2).mean(axis=-1, keepdims=True) + 1e-5) * p["norm.weight"]
    return g @ p["out_proj.kernel"]


def test_mixer_is_its_description(mixers):
    u = np.random.default_rng(5).normal(size=(BATCH, 9, DIM)).astype(np.float32)
    wanted = mixed(mixers[0], u)
    np.testing.assert_allclose(
        nnx.jit(lambda m, u: m(u))(mixers[0], u), wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max()
    )


def test_reversed_is_the_mixer_of_turned_time(mixers):
    u = np.random.default_rng(6).normal(size=(BATCH, 9, DIM)).astype(np.float32)
    run = nnx.jit(lambda m, u, reverse: m(u, reverse=reverse), static_argnums=2)
    found = run(mixers[0], u, True)
    np.testing.assert_allclose(found, run(mixers[0], u[:, ::-1], False)[:, ::-1], rtol=1e-4, atol=1e-5)
    changed = u.copy()
    changed[:, 5] += 1
    moved = np.abs(np.asarray(found - run(mixers[0], changed, True))).max(axis=(0, 2))
    assert (moved[6:] < 1e-6).all()
    assert (moved[2:6] > 1e-2).all()


def test_both_directions_are_two_mixers_merged(mixers):
    u = np.random.default_rng(6).normal(size=(BATCH, 9, DIM)).astype(np.float32)
    merge = linear.Linear(2 * DIM, 5, rngs=nnx.Rngs(2))
    merge.bias[...] = jnp.arange(5.0)
    found = nnx.jit(ssd.both_directions)(*mixers, merge, u)
    apart = jnp.concatenate([mixers[0](u), mixers[1](u, reverse=True)], axis=-1)
    np.testing.assert_allclose(found, merge(apart), rtol=1e-5, atol=1e-5)


def test_published_sizes_and_start():
    mixer = nnx.eval_shape(lambda: ssd.Mamba2(256, rngs=nnx.Rngs(0)))
    shapes = {".".join(map(str, k)): v.shape for k, v in nnx.to_flat_state(nnx.state(mixer, nnx.Param))}
    assert shapes == {
        "in_proj.kernel": (256, 1288), "conv1d.kernel": (768, 4), "conv1d.bias": (768,), "dt_bias": (8,),
        "A_log": (8,), "D": (8,), "norm.weight": (512,), "out_proj.kernel": (512, 256),
    }  # fmt: skip
    rate = np.exp(ssd.Mamba2(8, headdim=1, rngs=nnx.Rngs(0)).A_log[...])
    assert rate.std() > 1
    assert (rate >= 1).all()
    assert (rate <= 16).all()
    dt = jax.nn.softplus(ssd.draw_dt_bias(jax.random.key(0), 4000))
    assert dt.min() == pytest.approx(1e-3, rel=0.05)
    assert dt.max() == pytest.approx(0.1, rel=0.05)
    assert np.median(np.log10(dt)) == pytest.approx(-2, abs=0.1)  # log-uniform
    with pytest.raises(ConfigError, match="do not divide into heads of 5"):
        ssd.Mamba2(6, headdim=5, rngs=nnx.Rngs(0))
