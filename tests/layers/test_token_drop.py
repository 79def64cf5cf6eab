"""Dropping tokens and laying them back, and that both directions differentiate as plain indexing does."""

from __future__ import annotations

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from wearjax.layers import token_drop

BATCH, LENGTH, KEPT, WIDTH = 3, 10, 4, 2

keep = jax.jit(token_drop.keep_lowest, static_argnums=1)


def made(seed: int = 0):
    rng = np.random.default_rng(seed)
    tokens = jnp.asarray(rng.normal(size=(BATCH, LENGTH, WIDTH)), jnp.float32)
    return tokens, keep(jnp.asarray(rng.random((BATCH, LENGTH)), jnp.float32), KEPT)


@pytest.mark.parametrize("n_keep", [1, KEPT, LENGTH])
@hypothesis.settings(max_examples=20)
@hypothesis.given(seed=st.integers(0, 2**32 - 1), levels=st.sampled_from([1, 2, 5, 10**6]))
def test_exactly_the_lowest_are_kept_in_order(n_keep, seed, levels):
    priority = np.random.default_rng(seed).integers(0, levels, (BATCH, LENGTH)).astype(np.float32)
    found = keep(priority, n_keep)
    for row in range(BATCH):  # ties go to the earlier token
        wanted = sorted(sorted(range(LENGTH), key=lambda t: (priority[row, t], t))[:n_keep])
        assert found.index[row].tolist() == wanted
        assert np.flatnonzero(found.kept[row]).tolist() == wanted
        assert np.asarray(found.slot[row])[wanted].tolist() == list(range(n_keep))
    assert np.asarray(found.slot).min() >= 0
    assert np.asarray(found.slot).max() < n_keep


def test_masked_tokens_go_first():
    masked = np.arange(LENGTH)[None] % 3 == 0  # 4 of 10
    order = np.random.default_rng(0).random((1, LENGTH)).astype(np.float32)
    kept = np.asarray(keep(100.0 * masked + order, 8).kept)
    assert kept[~masked].all()
    assert kept[masked].sum() == 2


def test_round_trip():
    tokens, selection = made()
    kept = token_drop.gather(tokens, selection)
    assert kept.shape == (BATCH, KEPT, WIDTH)
    np.testing.assert_array_equal(
        kept, np.take_along_axis(np.asarray(tokens), np.asarray(selection.index)[..., None], axis=1)
    )
    spread = token_drop.spread(kept, selection)
    np.testing.assert_array_equal(spread, np.where(np.asarray(selection.kept)[..., None], tokens, 0))
    np.testing.assert_array_equal(token_drop.gather(spread, selection), kept)
    flags = selection.kept
    assert token_drop.gather(flags, selection).all()  # (B, T) arrays of any type are gathered alike
    assert token_drop.gather(flags, selection).dtype == bool


def test_all_kept_changes_nothing():
    tokens, _ = made()
    selection = keep(jnp.zeros((BATCH, LENGTH)), LENGTH)
    np.testing.assert_array_equal(token_drop.gather(tokens, selection), tokens)
    np.testing.assert_array_equal(token_drop.spread(tokens, selection), tokens)


def test_restore_puts_mask_tokens_elsewhere():
    tokens, selection = made()
    mask_token = jnp.asarray([7.0, 8.0])
    masked = np.random.default_rng(1).random((BATCH, LENGTH)) < 0.5
    out = token_drop.restore(token_drop.gather(tokens, selection), selection, mask_token, masked=masked)
    visible = np.asarray(selection.kept) & ~masked
    assert visible.any()
    np.testing.assert_array_equal(out, np.where(visible[..., None], tokens, mask_token))


def plain_gather(x, selection):
    return jnp.take_along_axis(x, selection.index[..., None], axis=1)


def plain_spread(x, selection):
    rows = jnp.arange(BATCH)[:, None]
    return jnp.zeros((BATCH, LENGTH, WIDTH)).at[rows, selection.index].set(x)


@pytest.mark.parametrize(
    ("ours", "plain", "length"),
    [(token_drop.gather, plain_gather, LENGTH), (token_drop.spread, plain_spread, KEPT)],
    ids=["gather", "spread"],
)
def test_gradients_are_those_of_plain_indexing(ours, plain, length):
    _, selection = made()
    x = jnp.asarray(np.random.default_rng(2).normal(size=(BATCH, length, WIDTH)), jnp.float32)
    value = lambda function: lambda x: jnp.sin(3 * function(x, selection)).sum()  # noqa: E731
    np.testing.assert_array_equal(ours(x, selection), plain(x, selection))
    np.testing.assert_allclose(jax.grad(value(ours))(x), jax.grad(value(plain))(x), rtol=1e-6)


def test_gradients_of_restore():
    tokens, selection = made()
    kept = plain_gather(tokens, selection)
    masked = jnp.asarray(np.random.default_rng(1).random((BATCH, LENGTH)) < 0.5)

    def ours(kept, token):
        return jnp.sin(3 * token_drop.restore(kept, selection, token, masked=masked)).sum()

    def plain(kept, token):
        rows = jnp.arange(BATCH)[:, None]
        full = jnp.broadcast_to(token, (BATCH, LENGTH, WIDTH)).at[rows, selection.index].set(kept)
        return jnp.sin(3 * jnp.where(masked[..., None], token, full)).sum()

    token = jnp.asarray([0.3, -0.2])
    found, wanted = (jax.grad(f, argnums=(0, 1))(kept, token) for f in (ours, plain))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
