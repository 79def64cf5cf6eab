"""The transformer stack in all its ways of running, and the small formulas under it."""

from __future__ import annotations

import math
from functools import partial

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from wearjax.errors import ConfigError
from wearjax.layers import blocks, linear, patch, position

BATCH, LENGTH, DIM = 2, 6, 8


def stack(**choices):
    return blocks.TransformerStack(DIM, 2, 2, mlp_ratio=2, dropout_rate=0.2, rngs=nnx.Rngs(0), **choices)


def outline(**choices):
    """Structure and shapes of a stack, without drawing its weights."""
    return nnx.split(nnx.eval_shape(lambda: stack(**choices)))


def inputs():
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(BATCH, LENGTH, DIM)), jnp.float32)
    key_mask = jnp.asarray([[True, False, True, True, False, True], [True] * 3 + [False] * 3])
    return x, key_mask


# Little optimization: here compiling takes longer than running.
@partial(jax.jit, static_argnums=0, compiler_options={"xla_backend_optimization_level": 0})
def run(graph, state, x, key_mask, keys):
    def loss(state, x):
        out = nnx.merge(graph, state)(x, key_mask=key_mask, keys=keys)
        return jnp.sin(out).sum(), out

    gradients, out = jax.grad(loss, argnums=(0, 1), has_aux=True)(state, x)
    return out, gradients


@pytest.fixture(scope="module")
def weights():
    """Weights large enough that every part of a block shows in the output."""
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda p: jnp.asarray(rng.normal(0.1, 0.3, p.shape), p.dtype), outline()[1])


@pytest.fixture(scope="module")
def plain(weights):
    """Output and gradients of the loop that recomputes nothing, in training and in evaluation."""
    keys = jax.random.split(jax.random.key(3), BATCH)
    graph, _ = outline()
    return {name: run(graph, weights, *inputs(), k) for name, k in (("train", keys), ("evaluate", None))}


def assert_same(found, wanted):
    found, wanted = jax.tree.leaves(found), jax.tree.leaves(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("scan_layers", "remat"),
    [(True, "none"), (True, "full"), (True, "attn_out"), (False, "full"), (False, "attn_out")],
)
def test_every_way_of_running_gives_the_same_numbers(weights, plain, scan_layers, remat):
    keys = jax.random.split(jax.random.key(3), BATCH)
    graph, _ = outline(scan_layers=scan_layers, remat=remat)
    assert_same(run(graph, weights, *inputs(), keys), plain["train"])
    if remat == "none":
        assert_same(run(graph, weights, *inputs(), None), plain["evaluate"])


def test_dropout_only_with_keys(plain):
    assert not np.allclose(plain["train"][0], plain["evaluate"][0], atol=1e-2)


def test_one_checkpoint_for_loop_and_scan():
    shapes = [
        jax.tree.map(jnp.shape, nnx.state(stack(scan_layers=scan), nnx.Param)) for scan in (False, True)
    ]
    assert shapes[0] == shapes[1]
    kernels = np.asarray(stack().blocks.attn.qkv.kernel[...])
    assert kernels.shape == (2, DIM, 3 * DIM)
    assert not np.allclose(kernels[0], kernels[1])  # every layer draws its own start


def test_a_block_takes_the_words_it_announces():
    block = blocks.Block(DIM, 2, mlp_ratio=3, dropout_rate=0.1, rngs=nnx.Rngs(0))
    x, _ = inputs()
    wanted = blocks.n_dropout_words(LENGTH, DIM, 2, 3)
    for n, enough in ((wanted, True), (wanted - 1, False)):
        stream = blocks.dropout.WordStream(jnp.zeros((BATCH, n), jnp.uint32))
        if enough:
            jax.eval_shape(lambda x, s=stream: block(x, stream=s), x)
        else:
            with pytest.raises(ValueError, match="random words needed"):
                jax.eval_shape(lambda x, s=stream: block(x, stream=s), x)


def test_impossible_stacks_are_refused():
    with pytest.raises(ConfigError, match="remat: expected none, full or attn_out, got 'some'"):
        stack(remat="some")
    with pytest.raises(ConfigError, match="dim 8 is not divisible by 3 heads"):
        blocks.TransformerStack(DIM, 1, 3, rngs=nnx.Rngs(0))


@pytest.mark.parametrize(("n_rows", "n_columns", "dim", "period"), [(19, 12, 16, 10000.0), (2, 3, 4, 50.0)])
def test_positions_of_a_grid(n_rows, n_columns, dim, period):
    table = position.grid_sincos(n_rows, n_columns, dim, period=period)
    assert table.shape == (n_rows * n_columns, dim)
    assert table.dtype == np.float32
    quarter = dim // 4
    for row in range(n_rows):
        for column in range(n_columns):
            wanted = []
            for coordinate in (row, column):
                angles = [coordinate * period ** (-k / quarter) for k in range(quarter)]
                wanted += [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
            np.testing.assert_allclose(table[row * n_columns + column], wanted, atol=1e-5)


def test_positions_are_shared_and_cannot_be_changed():
    table = position.grid_sincos(2, 3, 8)
    assert position.grid_sincos(2, 3, 8) is table
    with pytest.raises(ValueError, match="read-only"):
        table[0, 0] = 1
    with pytest.raises(ValueError, match="divisible by 4"):
        position.grid_sincos(2, 3, 6)


def norm_formula(x, scale, bias):
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / (variance + 1e-5) ** 0.5 * scale + bias


def test_layer_norm_and_its_gradient():
    rng = np.random.default_rng(4)
    x, scale, bias = (rng.normal(0, 2, shape).astype(np.float32) for shape in ((3, 5, 7), 7, 7))
    wanted = norm_formula(*(a.astype(np.float64) for a in (x, scale, bias)))
    np.testing.assert_allclose(linear.layer_norm(x, scale, bias), wanted, rtol=1e-5, atol=1e-5)
    value = lambda function: lambda *args: jnp.sin(function(*args)).sum()  # noqa: E731
    gradients = [
        jax.jit(jax.grad(value(f), argnums=(0, 1, 2)))(x, scale, bias)
        for f in (linear.layer_norm, norm_formula)
    ]
    assert_same(*gradients)


def test_layer_norm_of_constant_rows():
    x, one, zero = jnp.full((2, 6), 3.0), jnp.ones(6), jnp.zeros(6)
    np.testing.assert_array_equal(linear.layer_norm(x, one, zero), np.zeros((2, 6)))
    assert np.isfinite(jax.grad(lambda x: linear.layer_norm(x, one, zero)[0, 0])(x)).all()


def gelu_formula(x):
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


@hypothesis.settings(max_examples=20)
@hypothesis.given(arrays.arrays(np.float32, 5, elements=st.floats(-30, 30, width=32)))
def test_gelu_is_the_exact_form(x):
    np.testing.assert_allclose(linear.gelu(x), [gelu_formula(float(v)) for v in x], rtol=1e-5, atol=2e-6)


def test_gradient_of_gelu():
    x = np.linspace(-6, 6, 41).astype(np.float32)
    wanted = [
        0.5 * (1 + math.erf(v / math.sqrt(2))) + v * math.exp(-v * v / 2) / math.sqrt(2 * math.pi)
        for v in x.tolist()
    ]
    np.testing.assert_allclose(jax.vmap(jax.grad(linear.gelu))(x), wanted, atol=1e-5)


def test_linear_start_is_a_plain_normal():
    kernel = np.asarray(linear.truncated_normal()(jax.random.key(0), (200, 200)))
    assert abs(kernel.std() - 0.02) < 5e-4
    assert abs(kernel.mean()) < 5e-4
    assert abs(kernel).max() > 0.06  # not cut at two standard deviations


def test_patches():
    x = np.arange(2 * 3 * 8).reshape(2, 3, 8)
    tokens = patch.patchify(x, 4)
    assert tokens.shape == (2, 6, 4)
    assert tokens[1, 3].tolist() == x[1, 1, 4:].tolist()
    np.testing.assert_array_equal(patch.unpatchify(tokens, 3), x)
    flags = np.zeros((1, 2, 4), bool)
    flags[0, 0, 1] = flags[0, 1, 2:] = True
    assert patch.any_in_patch(flags, 2).tolist() == [[True, False, False, True]]
    assert patch.all_in_patch(flags, 2).tolist() == [[False, False, False, True]]
