"""LSM-2-Sparse: size, regrouping and decoder restated with loops, what is frozen, what may not matter, memory."""

from __future__ import annotations

import dataclasses
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from wearjax.errors import ConfigError
from wearjax.layers import blocks, token_drop
from wearjax.models import lsm2, lsm2_sparse

SMALL = lsm2_sparse.LSM2SparseConfig(
    patch=240, n_days=3, window_minutes=480, encoder_dim=16, encoder_depth=1, encoder_heads=2,
    decoder_dim=8, decoder_depth=2, decoder_heads=2, mlp_ratio=2, dropout=0.0,
)  # fmt: skip
DAILY = lsm2.LSM2Config(
    patch=240, encoder_dim=16, encoder_depth=1, encoder_heads=2,
    decoder_dim=8, decoder_depth=2, decoder_heads=2, mlp_ratio=2, dropout=0.0,
)  # fmt: skip
DAYS, TOKENS, PATCHES = 3, 114, 6
OFFSETS = np.asarray([[0, 2, 9], [-1, 0, 400]])
QUICKLY = {"xla_backend_optimization_level": 0}  # compiling takes longer than running here


def outline(config):
    build = lsm2_sparse.LSM2Sparse if isinstance(config, lsm2_sparse.LSM2SparseConfig) else lsm2.LSM2
    return nnx.split(nnx.eval_shape(lambda: build(config, rngs=nnx.Rngs(0))))


def drawn(shapes, seed: int = 0, sharp: float = 1.5):
    """Weights far from their start; queries and keys are large enough that attention is not uniform."""
    rng = np.random.default_rng(seed)

    def draw(path, p):
        spread = sharp if "qkv" in jax.tree_util.keystr(path) else 0.3
        return jnp.asarray(rng.normal(0.1, spread, p.shape), jnp.float32)

    return jax.tree_util.tree_map_with_path(draw, shapes)


@pytest.fixture(scope="module")
def state():
    return drawn(outline(SMALL)[1])


@pytest.fixture(scope="module")
def run(state):
    """The forward pass by patches, masks, offsets and perhaps a selection, compiled once for either."""
    graph = outline(SMALL)[0]

    def forward(state, patches, masked, offsets, selection):
        model = nnx.merge(graph, state)
        return model(patches, masked, day_offsets=offsets, selection=selection)

    return partial(jax.jit(forward, compiler_options=QUICKLY), state)


@pytest.fixture(scope="module")
def windows():
    """Patches and masks of two windows of three days; the second begins with a padded day."""
    rng = np.random.default_rng(1)
    patches = rng.normal(size=(2, DAYS, TOKENS, 240)).astype(np.float32)
    masked = rng.random((2, DAYS, TOKENS)) < 0.3
    masked[1, 0] = True
    return np.where(masked[..., None], 0, patches).astype(np.float32), masked


def selection_of(masked, seed: int = 2):
    order = np.random.default_rng(seed).random((masked.shape[0] * DAYS, TOKENS)).astype(np.float32)
    priority = 100 * masked.reshape(order.shape) + order
    return token_drop.keep_lowest(jnp.asarray(priority), SMALL.n_kept)


# size


def named(shapes):
    return {tuple(path): leaf.shape for path, leaf in nnx.to_flat_state(nnx.state(shapes, nnx.Param))}


def test_the_published_model_has_the_size_that_its_shapes_give():
    config = lsm2_sparse.LSM2SparseConfig()
    assert (config.n_tokens, config.n_kept, config.n_windows) == (2736, 1368, 12)
    assert config.n_days * config.n_tokens // config.n_windows == 1596
    own = named(nnx.eval_shape(lambda: lsm2_sparse.LSM2Sparse(config, rngs=nnx.Rngs(0))))
    sizes = {path: math.prod(shape) for path, shape in own.items()}
    assert sum(sizes.values()) == 24_559_498
    trained = 384 * 256 + 256 + 256 + 4 * 789_760 + 2 * 256 + 256 * 10 + 10
    assert sum(n for path, n in sizes.items() if not lsm2_sparse.frozen(path)) == trained == 3_260_938
    for part in ("decoder_local", "decoder_cross"):
        assert own[(part, "attn", "qkv", "kernel")] == (2, 256, 768)
    daily = named(nnx.eval_shape(lambda: lsm2.LSM2(lsm2.LSM2Config(), rngs=nnx.Rngs(0))))
    shared = {path for path in own if path[0] not in ("decoder_local", "decoder_cross", "decoder_norm")}
    assert shared == {path for path in daily if path[0] != "decoder"}
    assert shared == {path for path in own if path[0] in lsm2_sparse.FROM_DAILY}
    assert all(own[path] == daily[path] for path in shared)


def test_paths_are_names_or_key_entries(state):
    for path, _ in jax.tree_util.tree_flatten_with_path(state)[0]:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        wanted = name.startswith(("encoder.", "patch_embed."))
        assert lsm2_sparse.frozen(path) == wanted == lsm2_sparse.frozen(tuple(name.split(".")))


# order of tokens


def test_windows_hold_day_then_channel_then_place():
    n_windows, size = 3, 2
    x = np.arange(2 * DAYS * TOKENS * 5).reshape(2, DAYS, TOKENS, 5)
    found = np.asarray(lsm2_sparse.to_windows(jnp.asarray(x), n_windows))
    assert found.shape == (2 * n_windows, DAYS * 19 * size, 5)
    for b in range(2):
        for w in range(n_windows):
            wanted = [
                x[b, day, channel * PATCHES + w * size + place]
                for day in range(DAYS)
                for channel in range(19)
                for place in range(size)
            ]
            np.testing.assert_array_equal(found[b * n_windows + w], wanted)
    np.testing.assert_array_equal(lsm2_sparse.from_windows(jnp.asarray(found), n_windows, DAYS), x)


def test_a_long_day_is_channel_major():
    x = np.arange(2 * DAYS * TOKENS * 5).reshape(2, DAYS, TOKENS, 5)
    found = np.asarray(lsm2_sparse.join_days(jnp.asarray(x)))
    for channel, day, t in np.ndindex(19, DAYS, PATCHES):
        index = channel * DAYS * PATCHES + day * PATCHES + t
        np.testing.assert_array_equal(found[:, index], x[:, day, channel * PATCHES + t])
    minutes = np.random.default_rng(0).normal(size=(2, 19, DAYS * 1440))
    days = np.asarray(lsm2_sparse.split_days(jnp.asarray(minutes), DAYS))
    assert days.shape == (2, DAYS, 19, 1440)
    np.testing.assert_allclose(np.concatenate(np.moveaxis(days, 1, 0), axis=-1), minutes, rtol=1e-6)


def test_keys_of_rows_are_example_major():
    keys = jax.random.split(jax.random.key(0), 2)
    found = jax.random.key_data(lsm2_sparse.row_keys(keys, 3))
    wanted = [jax.random.key_data(jax.random.fold_in(key, i)) for key in keys for i in range(3)]
    np.testing.assert_array_equal(found, wanted)


# the decoder, stated once more


class Restated:
    """The sparse decoder from its description, one window after the other, in float64 NumPy."""

    def __init__(self, state):
        self.weights = {
            ".".join(map(str, path)): np.asarray(leaf[...], np.float64)
            for path, leaf in nnx.to_flat_state(state)
        }

    def linear(self, name, x, layer=...):
        return x @ self.weights[f"{name}.kernel"][layer] + self.weights[f"{name}.bias"][layer]

    def norm(self, name, x, layer=...):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * self.weights[f"{name}.scale"][layer] + self.weights[f"{name}.bias"][layer]

    def block(self, name, layer, x, days):
        """A pre-norm block on (tokens, features); with the day of each token its queries and keys turn."""
        out, width = np.zeros_like(x), x.shape[1] // SMALL.decoder_heads
        q, k, v = np.split(
            self.linear(f"{name}.attn.qkv", self.norm(f"{name}.norm1", x, layer), layer), 3, -1
        )
        for head in range(SMALL.decoder_heads):
            part = slice(head * width, (head + 1) * width)
            turned = []
            for array in (q[:, part], k[:, part]):
                if days is not None:
                    theta = 10000.0 ** (-2 * np.arange(width // 2) / width)
                    angle = np.clip(days, 0, 364)[:, None] * theta
                    a, b = array[:, : width // 2], array[:, width // 2 :]
                    array = np.concatenate(
                        [a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], axis=1
                    )
                turned.append(array)
            scores = np.exp(turned[0] @ turned[1].T / np.sqrt(width))
            out[:, part] = scores / scores.sum(axis=1, keepdims=True) @ v[:, part]
        x = x + self.linear(f"{name}.attn.proj", out, layer)
        hidden = self.linear(f"{name}.mlp.fc1", self.norm(f"{name}.norm2", x, layer), layer)
        hidden = hidden * 0.5 * (1 + np.vectorize(math.erf)(hidden / np.sqrt(2)))
        return x + self.linear(f"{name}.mlp.fc2", hidden, layer)

    def decode(self, tokens, visible, offsets, positions):
        """Encoder output at its places (day, token, features) and where it is visible, to (token, minutes)."""
        x = np.where(
            visible[..., None], self.linear("encoder_to_decoder", tokens), self.weights["mask_token"]
        )
        x = x + positions
        size = SMALL.window_minutes // SMALL.patch
        for layer in range(SMALL.decoder_depth // 2):
            x = np.stack([self.block("decoder_local", layer, x[day], None) for day in range(DAYS)])
            after = np.empty_like(x)
            for window in range(PATCHES // size):
                place = [
                    (day, channel * PATCHES + window * size + i)
                    for day in range(DAYS)
                    for channel in range(19)
                    for i in range(size)
                ]
                rows, columns = np.transpose(place)
                after[rows, columns] = self.block("decoder_cross", layer, x[rows, columns], offsets[rows])
            x = after
        order = [(d, c * PATCHES + t) for c in range(19) for d in range(DAYS) for t in range(PATCHES)]
        x = np.stack([x[place] for place in order])
        return self.linear("decoder_pred", self.norm("decoder_norm", x))


def encoded_daily(state, patches, masked, selection):
    """What a daily model with the same encoder says of every day."""
    graph, shapes = outline(DAILY)
    own = dict(nnx.to_flat_state(state))
    flat = [(path, own.get(path, leaf)) for path, leaf in nnx.to_flat_state(shapes)]
    encode = lambda state, *args: nnx.merge(graph, state).encode(*args[:2], selection=args[2])  # noqa: E731
    shared = nnx.from_flat_state([(path, leaf) for path, leaf in flat if path[0] != "decoder"])
    whole = nnx.merge_state(drawn(shapes), shared)
    rows = (x.reshape(-1, *x.shape[2:]) for x in (patches, masked))
    return np.asarray(jax.jit(encode, compiler_options=QUICKLY)(whole, *rows, selection), np.float64)


@pytest.mark.parametrize("removed", [False, True], ids=["dense", "tokens removed"])
def test_forward_pass_is_the_restated_one(state, run, windows, removed):
    patches, masked = windows
    selection = selection_of(masked) if removed else None
    found = np.asarray(run(patches, masked, jnp.asarray(OFFSETS), selection))
    assert found.shape == (2, 19 * DAYS * PATCHES, SMALL.patch)
    encoded = encoded_daily(state, patches, masked, selection)
    tokens, visible = encoded, ~masked.reshape(-1, TOKENS)
    if removed:
        tokens = np.zeros((2 * DAYS, TOKENS, encoded.shape[-1]))
        kept = np.asarray(selection.index)
        np.put_along_axis(tokens, kept[..., None], encoded, axis=1)
        visible = visible & np.asarray(selection.kept)
    positions = nnx.merge(outline(SMALL)[0], state).positions(SMALL.decoder_dim)
    for b in range(2):
        rows = slice(b * DAYS, (b + 1) * DAYS)
        wanted = Restated(state).decode(tokens[rows], visible[rows], OFFSETS[b], positions)
        np.testing.assert_allclose(found[b], wanted, rtol=1e-4, atol=1e-4)


def test_reconstruction_is_the_forward_pass_in_minutes(state, run):
    rng = np.random.default_rng(4)
    values = rng.normal(size=(2, 19, DAYS * 1440)).astype(np.float32)
    missing = np.zeros(values.shape, bool)
    missing[0, 2, 100:900] = missing[1, :, :1440] = True
    graph = outline(SMALL)[0]
    reconstruct = lambda state, v, m, o: nnx.merge(graph, state).reconstruct(v, m, day_offsets=o)  # noqa: E731
    given = np.where(missing, np.nan, values)
    found = jax.jit(reconstruct, compiler_options=QUICKLY)(state, given, missing, jnp.asarray(OFFSETS))
    day = lambda x: np.stack(np.split(x, DAYS, axis=2), axis=1)  # noqa: E731
    patches = day(np.where(missing, 0, values)).reshape(2, DAYS, TOKENS, 240)
    by_patch = day(missing).reshape(2, DAYS, 19, PATCHES, 240)
    masked = by_patch.any(axis=-1)
    masked[:, :, 5] = by_patch[:, :, 5].all(axis=-1)
    predicted = np.asarray(run(patches, masked.reshape(2, DAYS, TOKENS), jnp.asarray(OFFSETS), None))
    wanted = predicted.reshape(2, 19, DAYS * 1440)
    np.testing.assert_allclose(found[:, :7], wanted[:, :7], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[:, 7:], 1 / (1 + np.exp(-wanted[:, 7:])), rtol=1e-5, atol=1e-5)


# what may and what may not matter


def test_masked_and_padded_content_cannot_matter(run, windows):
    patches, masked = windows
    other = np.where(masked[..., None], np.random.default_rng(5).permutation(patches, axis=2) + 50, patches)
    for selection in (None, selection_of(masked)):
        found = [run(x, masked, jnp.asarray(OFFSETS), selection) for x in (patches, other)]
        np.testing.assert_array_equal(*found)
    changed = np.where(masked[..., None], patches, patches + 1)
    assert not np.allclose(run(changed, masked, jnp.asarray(OFFSETS), None), found[0], atol=1e-2)


def test_across_days_only_true_distances_matter(run, windows):
    patches, masked = windows
    given = lambda *offsets: np.asarray(run(patches[:1], masked[:1], jnp.asarray([offsets]), None))  # noqa: E731
    base = given(0, 1, 2)
    np.testing.assert_allclose(given(40, 41, 42), base, rtol=1e-4, atol=1e-4)
    assert not np.allclose(given(0, 1, 30), base, atol=1e-2)
    np.testing.assert_array_equal(given(-1, 1, 364), given(0, 1, 5000))  # clamped on either side


def test_layers_mix_days_apart_and_windows_of_all_days():
    graph, shapes = nnx.split(nnx.eval_shape(lambda: blocks.Block(8, 2, mlp_ratio=1, rngs=nnx.Rngs(0))))
    weights, angles = drawn(shapes, sharp=0.3), jnp.zeros((2, DAYS, 2))

    @partial(jax.jit, compiler_options=QUICKLY)
    def mix(x):
        block = nnx.merge(graph, weights)
        return lsm2_sparse.within_days(block, x), lsm2_sparse.across_days(block, x, angles, 3)

    x = np.random.default_rng(6).normal(size=(2, DAYS, TOKENS, 8)).astype(np.float32)
    other = x.copy()
    other[0, 1, 4 * PATCHES + 3] *= 2  # the second of three windows: places 2 and 3 of each channel
    changed = [(a != b).any(axis=-1) for a, b in zip(mix(x), mix(other), strict=True)]
    day = np.zeros((2, DAYS, TOKENS), bool)
    day[0, 1] = True
    window = np.zeros((2, DAYS, 19, PATCHES), bool)
    window[0, :, :, 2:4] = True
    for found, reach in zip(changed, (day, window.reshape(day.shape)), strict=True):
        assert not found[~reach].any()
        assert found[reach].mean() > 0.5  # a few differ by less than float32 tells


def test_offsets_default_to_consecutive_days(run, windows):
    found = run(*windows, None, None)
    wanted = run(*windows, jnp.tile(jnp.arange(DAYS), (2, 1)), None)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


# training


@pytest.fixture(scope="module")
def gradient(state, windows):
    """Output and gradient of a deeper decoder in each way of running, with dropout."""
    patches, masked = windows

    def of(**choices):
        config = dataclasses.replace(SMALL, decoder_depth=4, dropout=0.2, **choices)
        graph, shapes = outline(config)
        weights = drawn(shapes, 7)

        def loss(weights):
            model = nnx.merge(graph, weights)
            out = model(
                patches, masked, day_offsets=jnp.asarray(OFFSETS), selection=selection_of(masked),
                keys=jax.random.split(jax.random.key(3), 2),
            )  # fmt: skip
            return jnp.sin(out).mean(), out

        return jax.jit(jax.grad(loss, has_aux=True), compiler_options=QUICKLY)(weights)

    return of


def test_only_the_decoder_side_gets_a_gradient_in_every_way_of_running(gradient):
    plain, out = gradient()
    for path, leaf in nnx.to_flat_state(plain):
        assert np.isfinite(leaf[...]).all()
        assert bool(np.any(leaf[...])) != lsm2_sparse.frozen(path), path
    other, other_out = gradient(scan_layers=True, remat="attn_out")
    np.testing.assert_allclose(other_out, out, rtol=1e-4, atol=1e-5)
    for a, b in zip(jax.tree.leaves(other), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-6)


def test_dropout_reaches_the_frozen_encoder(windows):
    """Its parameters stay, its noise does not."""
    config = dataclasses.replace(SMALL, dropout=0.3)
    graph, shapes = outline(config)
    patches, masked = (x[0] for x in windows)

    @partial(jax.jit, compiler_options=QUICKLY)
    def encode(weights, keys):
        return nnx.merge(graph, weights).encode(patches, masked, keys=keys)

    weights = drawn(shapes)
    first, second = (encode(weights, jax.random.split(jax.random.key(seed), DAYS)) for seed in (0, 1))
    assert np.isfinite(first).all()
    assert not np.allclose(first, second, atol=1e-2)


# configuration


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_days": 0}, "model.n_days: must be at least 1, got 0"),
        ({"window_minutes": 0}, "model.window_minutes: 0 must divide"),
        ({"window_minutes": 500}, "model.window_minutes: 500 must divide model.minutes 1440"),
        ({"window_minutes": 360}, "be a multiple of model.patch 240"),
        ({"decoder_depth": 3}, "model.decoder_depth: must be even, got 3"),
        ({"decoder_dim": 12, "decoder_heads": 4}, "model.decoder_dim: 12 needs an even number"),
        ({"attention": "bad"}, "model.attention: expected one of auto, .*; got 'bad'"),
        ({"patch": 7}, "model.patch: 7 does not divide"),
    ],
)
def test_impossible_configurations_are_refused_in_one_line(changes, message):
    with pytest.raises(ConfigError, match=message) as caught:
        dataclasses.replace(SMALL, **changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention": "bad"}, "model.attention: expected one of auto, .*; got 'bad'"),
        ({"attention_block": 0}, "model.attention_block: must be at least 1, got 0"),
        ({"encoder_depth": 0}, "model.encoder_depth: must be at least 1, got 0"),
        ({"decoder_depth": 0}, "model.decoder_depth"),
        ({"mlp_ratio": 0}, "model.mlp_ratio"),
        ({"remat": "some"}, "model.remat: expected one of none, full, attn_out; got 'some'"),
    ],
)
def test_impossible_daily_configurations_are_refused_too(changes, message):
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(DAILY, **changes)


# memory


def test_no_layer_needs_more_memory_than_a_daily_one_on_as_many_days():
    """At the published size, compiled; layers within and across seven days against a daily one on seven."""
    config, daily = lsm2_sparse.LSM2SparseConfig(), lsm2.LSM2Config()
    wanted = lsm2_sparse.decoder_layer_memory(daily, n_days=7, layer="daily")
    assert wanted > 7 * config.n_tokens * config.decoder_dim * 4  # more than its input, at least
    for layer in ("local", "cross"):
        found = lsm2_sparse.decoder_layer_memory(config, n_days=7, layer=layer)
        assert abs(found / wanted - 1) < 0.1, (layer, found, wanted)
