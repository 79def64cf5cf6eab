"""Rotary angles and the turn, as complex numbers and by the properties that define them."""

from __future__ import annotations

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import strategies as st

from wearjax.layers import blocks, rope

WIDTH = 8


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def as_complex(x):
    return x[..., : x.shape[-1] // 2] + 1j * x[..., x.shape[-1] // 2 :]


def test_frequencies_are_the_published_ones():
    wanted = [10000.0 ** (-2 * j / 64) for j in range(32)]
    np.testing.assert_allclose(rope.frequencies(64), wanted, rtol=1e-6)
    with pytest.raises(ValueError, match="width: must be even for a rotary embedding, got 7"):
        rope.frequencies(7)


def test_a_quarter_turn_takes_the_first_half_to_the_second():
    turned = rope.rotate(jnp.asarray([[1.0, 2.0, 0.0, 0.0]]), jnp.full((1, 2), np.pi / 2))
    np.testing.assert_allclose(turned, [[0, 0, 1, 2]], atol=1e-6)  # plus on the second half
    turned = rope.rotate(jnp.asarray([[0.0, 0.0, 1.0, 2.0]]), jnp.full((1, 2), np.pi / 2))
    np.testing.assert_allclose(turned, [[-1, -2, 0, 0]], atol=1e-6)


def test_turning_is_multiplication_by_a_unit_complex_number():
    x, turns = drawn(2, 3, 5, WIDTH), drawn(2, 1, 5, WIDTH // 2, seed=1)
    found = rope.rotate(jnp.asarray(x), jnp.asarray(turns))
    np.testing.assert_allclose(as_complex(np.asarray(found)), as_complex(x) * np.exp(1j * turns), atol=1e-5)


@hypothesis.settings(max_examples=20)
@hypothesis.given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 150))
def test_products_depend_on_the_distance_alone(first, second, shift):
    q, k = drawn(1, WIDTH), drawn(1, WIDTH, seed=1)

    def product(a, b):
        turned = [rope.rotate(x, rope.angles(jnp.asarray([p]), WIDTH)) for x, p in ((q, a), (k, b))]
        return float((turned[0] * turned[1]).sum())

    assert product(first, second) == pytest.approx(product(first + shift, second + shift), abs=1e-3)


def test_positions_are_clamped():
    positions = jnp.asarray([-1, 0, 6, 364, 365, 4000])
    found = rope.angles(positions, WIDTH, last=364)
    np.testing.assert_array_equal(found, rope.angles(jnp.asarray([0, 0, 6, 364, 364, 364]), WIDTH))
    wanted = np.asarray([6.0 * 10000.0 ** (-2 * j / WIDTH) for j in range(WIDTH // 2)])
    np.testing.assert_allclose(found[2], wanted, rtol=1e-6)
    assert not found[0].any()
    assert not np.allclose(found[3], rope.angles(jnp.asarray(400), WIDTH))


def test_type_in_is_type_out():
    x, turns = drawn(4, WIDTH), rope.angles(jnp.arange(4), WIDTH)
    half = rope.rotate(jnp.asarray(x, jnp.bfloat16), turns)
    assert half.dtype == jnp.bfloat16
    np.testing.assert_allclose(half.astype(jnp.float32), rope.rotate(jnp.asarray(x), turns), atol=0.05)


def test_attention_turns_queries_and_keys_of_every_head():
    heads, length = 2, 5
    graph, shapes = nnx.split(
        nnx.eval_shape(lambda: blocks.SelfAttention(heads * WIDTH, heads, rngs=nnx.Rngs(0)))
    )
    rng = np.random.default_rng(2)
    state = jax.tree.map(lambda p: jnp.asarray(rng.normal(0, 0.4, p.shape), jnp.float32), shapes)
    attention = nnx.merge(graph, state)
    x, positions = drawn(2, length, heads * WIDTH), np.asarray([[0, 1, 1, 9, 9], [0, 0, 3, 5, 30]])
    run = nnx.jit(lambda attention, x, angles: attention(x, angles=angles))
    found = run(attention, jnp.asarray(x), rope.angles(jnp.asarray(positions), WIDTH))
    q, k, v = np.split(x @ np.asarray(attention.qkv.kernel[...]) + np.asarray(attention.qkv.bias[...]), 3, -1)
    out = np.zeros_like(x)
    turns = np.exp(1j * positions[..., None] * rope.frequencies(WIDTH))
    for head in range(heads):
        part = slice(head * WIDTH, (head + 1) * WIDTH)
        turned = [as_complex(array[..., part]) * turns for array in (q, k)]
        scores = np.einsum("btj,bsj->bts", turned[0], turned[1].conj()).real / np.sqrt(WIDTH)
        weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        out[..., part] = weights @ v[..., part]
    wanted = out @ np.asarray(attention.proj.kernel[...]) + np.asarray(attention.proj.bias[...])
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    straight = run(attention, jnp.asarray(x), jnp.zeros((2, length, WIDTH // 2)))
    assert not np.allclose(straight, wanted, atol=1e-2)
