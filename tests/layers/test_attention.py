"""The forms of attention agree with the textbook one, with gaps and with dropout."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wearjax.errors import ConfigError
from wearjax.layers import attention
from wearjax.layers import dropout as dropouts

BATCH, HEADS, WIDTH = 2, 2, 4


def made(seed: int, n_queries: int, n_keys: int | None = None):
    rng = np.random.default_rng(seed)
    n_keys = n_keys or n_queries
    draw = lambda length: jnp.asarray(rng.normal(size=(BATCH, HEADS, length, WIDTH)), jnp.float32)  # noqa: E731
    return draw(n_queries), draw(n_keys), draw(n_keys)


def textbook(q, k, v, key_mask=None):
    """softmax(q kT / sqrt(H)) v in float64 NumPy, zeros for an example without keys."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    out = np.zeros(q.shape)
    for b in range(q.shape[0]):
        seen = slice(None) if key_mask is None else np.asarray(key_mask[b])
        if key_mask is not None and not seen.any():
            continue
        for n in range(q.shape[1]):
            scores = q[b, n] @ k[b, n][seen].T / np.sqrt(q.shape[-1])
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            out[b, n] = weights / weights.sum(axis=1, keepdims=True) @ v[b, n][seen]
    return out


def stream_of(seed: int, n_queries: int, n_keys: int, batch: int = BATCH, heads: int = HEADS):
    keys = jax.random.split(jax.random.key(seed), batch)
    return dropouts.WordStream(dropouts.draw_words(keys, heads * (n_queries + n_keys)))


@partial(jax.jit, static_argnames=("implementation", "block", "rate"))
def forward_and_gradients(q, k, v, key_mask, seed, implementation, block=None, rate=0.0):
    def loss(q, k, v):
        stream = stream_of(seed, q.shape[2], k.shape[2]) if rate else None
        out = attention.attend(
            q, k, v, key_mask=key_mask, dropout_rate=rate, stream=stream,
            implementation=implementation, block=block,
        )  # fmt: skip
        return jnp.sin(3 * out).sum(), out

    gradients, out = jax.grad(loss, argnums=(0, 1, 2), has_aux=True)(q, k, v)
    return out, *gradients


def close(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("masked", [False, True], ids=["all keys", "some keys"])
@pytest.mark.parametrize(
    ("n_queries", "n_keys", "block"), [(1, 1, None), (16, 16, 4), (17, 17, 5), (13, 7, 40), (7, 20, 1)]
)
def test_blocked_is_the_plain_softmax(n_queries, n_keys, block, masked):
    q, k, v = made(n_queries, n_queries, n_keys)
    key_mask = None
    if masked:
        key_mask = np.random.default_rng(1).random((BATCH, n_keys)) < 0.6
        key_mask[:, 0] = True
    plain = forward_and_gradients(q, k, v, key_mask, 0, "xla")
    np.testing.assert_allclose(plain[0], textbook(q, k, v, key_mask), rtol=1e-5, atol=1e-5)
    close(forward_and_gradients(q, k, v, key_mask, 0, "blocked", block), plain)


def test_automatic_blocks_of_a_long_sequence(monkeypatch):
    monkeypatch.setattr(attention, "CPU_SCORES", 2 * 23 * 6)  # at most six queries a step
    q, k, v = made(3, 23)
    assert attention._plan(q, k, 0.0, None).queries == 6
    out = attention.attend(q, k, v, implementation="blocked")
    np.testing.assert_allclose(out, textbook(q, k, v), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [1, 12, 13, 97, 2736])
def test_a_step_never_exceeds_its_share(length):
    for steps in range(1, min(length, 30) + 1):
        queries = attention._divisor(length, steps)
        assert 1 <= queries <= -(-length // steps)
        assert -(-length // queries) < 2 * steps or steps == 1


@pytest.mark.parametrize("implementation", ["xla", "blocked"])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_an_example_without_keys_gives_zeros(implementation, rate):
    q, k, v = made(5, 9)
    key_mask = np.array([[False] * 9, [True] * 4 + [False] * 5])
    found = forward_and_gradients(q, k, v, key_mask, 0, implementation, 4, rate)
    for array in found:
        assert np.isfinite(array).all()
        assert not np.asarray(array)[0].any()
        assert np.asarray(array)[1].any()
    assert not np.asarray(found[2])[1, :, 4:].any()  # a hidden key and its value get no gradient
    assert not np.asarray(found[3])[1, :, 4:].any()


def test_hidden_keys_cannot_matter_however_large():
    q, k, v = made(6, 9)
    key_mask = np.array([[True] * 5 + [False] * 4] * 2)
    loud = jnp.where(key_mask[:, None, :, None], 0.0, 1e6)
    wanted = forward_and_gradients(q, k, v, key_mask, 0, "blocked", 4)
    np.testing.assert_array_equal(
        forward_and_gradients(q, k + loud, v + loud, key_mask, 0, "blocked", 4)[0], wanted[0]
    )


def test_large_scores_stay_finite():
    q, k, v = made(7, 9)
    for array in forward_and_gradients(1e4 * q, 1e4 * k, v, None, 0, "blocked", 4):
        assert np.isfinite(array).all()


@pytest.mark.parametrize("masked", [False, True], ids=["all keys", "some keys"])
def test_dropout_is_the_same_in_both_forms(masked):
    q, k, v = made(8, 11)
    key_mask = np.array([[True] * 7 + [False] * 4] * 2) if masked else None
    plain = forward_and_gradients(q, k, v, key_mask, 4, "xla", None, 0.3)
    close(forward_and_gradients(q, k, v, key_mask, 4, "blocked", 4, 0.3), plain)


def test_the_same_key_drops_the_same():
    arrays = made(9, 11)
    run = lambda seed: np.asarray(forward_and_gradients(*arrays, None, seed, "blocked", 4, 0.3)[0])  # noqa: E731
    np.testing.assert_array_equal(run(1), run(1))
    assert not np.allclose(run(1), run(2))


@pytest.mark.parametrize("implementation", ["xla", "blocked"])
def test_rate_zero_is_no_dropout(implementation):
    q, k, v = made(10, 11)
    wanted = attention.attend(q, k, v, implementation=implementation)
    for rate, stream in ((0.0, stream_of(0, 11, 11)), (0.3, None)):
        out = attention.attend(q, k, v, dropout_rate=rate, stream=stream, implementation=implementation)
        np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("implementation", ["xla", "blocked"])
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_share_and_mean_of_dropped_probabilities(implementation, rate):
    length, batch, heads = 64, 4, 4
    zero = jnp.zeros((batch, heads, length, length))
    unit = jnp.broadcast_to(jnp.eye(length), zero.shape)  # the output is then the probabilities, 1/64 each
    out = attention.attend(
        zero, zero, unit, dropout_rate=rate, stream=stream_of(2, length, length, batch, heads),
        implementation=implementation, block=24,
    )  # fmt: skip
    probabilities = np.asarray(out) * length
    dropped = probabilities == 0
    assert abs(dropped.mean() - rate) < 1e-2
    assert abs(probabilities.mean() - 1) < 1e-2
    np.testing.assert_allclose(probabilities[~dropped], 1 / (1 - rate), rtol=1e-5)
    for shifted in (np.roll(dropped, 1, axis=2), np.roll(dropped, 1, axis=3), np.roll(dropped, 1, axis=1)):
        assert abs((dropped & shifted).mean() - rate**2) < 1e-2  # cells drop independently
    assert abs((dropped[0] & dropped[1]).mean() - rate**2) < 1e-2


def test_dropout_of_features():
    keys = jax.random.split(jax.random.key(0), 8)
    x = jnp.ones((8, 64, 64))
    draw = lambda keys: dropouts.WordStream(dropouts.draw_words(keys, 128))  # noqa: E731
    function = jax.jit(lambda x, keys: dropouts.dropout(x, rate=0.1, stream=draw(keys)))
    out = np.asarray(function(x, keys))
    assert abs((out == 0).mean() - 0.1) < 1e-2
    assert abs(out.mean() - 1) < 1e-2
    np.testing.assert_array_equal(function(x, keys), out)
    np.testing.assert_array_equal(function(x[:3], keys[:3]), out[:3])  # whatever else is in the batch
    weights = jnp.arange(64.0)
    gradient = jax.grad(lambda x: (function(x, keys) * weights).sum())(x)
    np.testing.assert_allclose(gradient, out * np.asarray(weights), rtol=1e-6)  # the same mask again
    assert dropouts.dropout(x, rate=0.0, stream=draw(keys)) is x
    assert dropouts.dropout(x, rate=0.1, stream=None) is x


def test_words_run_out_loudly():
    stream = dropouts.WordStream(jnp.zeros((2, 5), jnp.uint32))
    assert stream.take(4).shape == (2, 4)
    with pytest.raises(ValueError, match="6 random words needed, 5 drawn"):
        stream.take(2)


def test_implementations_say_what_they_cannot_do():
    q, k, v = made(11, 3)
    with pytest.raises(ConfigError, match="unknown implementation 'flash'"):
        attention.attend(q, k, v, implementation="flash")
    for name in ("cudnn", "splash"):
        with pytest.raises(ConfigError, match=f"{name} cannot drop"):
            attention.attend(q, k, v, dropout_rate=0.1, stream=stream_of(0, 3, 3), implementation=name)
    with pytest.raises(ConfigError, match="needs bfloat16 or float16"):
        attention.attend(q, k, v, implementation="cudnn")


def test_half_precision_keeps_its_type():
    q, k, v = (x.astype(jnp.bfloat16) for x in made(12, 11))
    for name in ("xla", "blocked"):
        out = attention.attend(q, k, v, implementation=name)
        assert out.dtype == jnp.bfloat16
        np.testing.assert_allclose(np.asarray(out, np.float32), textbook(q, k, v), atol=0.03)
