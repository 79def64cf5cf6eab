"""The weekly encoder: published sizes, its blocks from their description, missing hours, and how it runs."""

from __future__ import annotations

import dataclasses
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from wearjax.days.normalization import NormalizationStats
from wearjax.errors import ConfigError
from wearjax.models import wbm

TINY = wbm.WBMConfig(
    hours=10, dim=8, tokenizer_hidden=4, depth=2, d_state=4, headdim=4, ffn_ratio=2, projection_dim=6
)
STATS = NormalizationStats(
    np.where(np.arange(19) < 7, np.linspace(1, 3, 19), 0.0), np.where(np.arange(19) < 7, 2.0, 1.0), 0.0
)
PUBLISHED = 6_405_120


def outline(config=TINY):
    return nnx.split(nnx.eval_shape(lambda: wbm.WBM(config, rngs=nnx.Rngs(0))))


def named(state):
    return {".".join(map(str, path)): leaf for path, leaf in nnx.to_flat_state(state)}


@pytest.fixture(scope="module")
def weights():
    """Weights large enough that every part of a block shows in the output."""
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda p: jnp.asarray(rng.normal(0.1, 0.4, p.shape), p.dtype), outline()[1])


def weeks(seed: int = 0, batch: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.normal(2, 2, (batch, TINY.hours, 19)).astype(np.float32)
    values[..., 7:] = rng.random((batch, TINY.hours, 12)) < 0.3
    values[rng.random(values.shape) < 0.3] = np.nan
    values[0, 4:7] = np.nan
    return values


# Little optimization: here compiling takes longer than running.
@partial(jax.jit, static_argnums=0, compiler_options={"xla_backend_optimization_level": 0})
def run(graph, state, tokens, keys):
    def loss(state):
        z = nnx.merge(graph, state).contextual(tokens, keys=keys)
        return jnp.sin(z).sum(), z

    gradients, z = jax.grad(loss, has_aux=True)(state)
    return z, gradients


def test_published_size():
    shapes = {name: leaf.shape for name, leaf in named(outline(wbm.WBMConfig())[1]).items()}
    assert sum(math.prod(shape) for shape in shapes.values()) == PUBLISHED
    mixer = {
        "in_proj.kernel": (4, 256, 1288), "conv1d.kernel": (4, 768, 4), "conv1d.bias": (4, 768),
        "dt_bias": (4, 8), "A_log": (4, 8), "D": (4, 8), "norm.weight": (4, 512), "out_proj.kernel": (4, 512, 256),
    }  # fmt: skip
    assert shapes == {
        "tokenizer.fc1.kernel": (38, 64), "tokenizer.fc1.bias": (64,),
        "tokenizer.fc2.kernel": (64, 256), "tokenizer.fc2.bias": (256,),
        **{f"backbone.{side}.{name}": shape for side in ("fwd", "bwd") for name, shape in mixer.items()},
        "backbone.proj.kernel": (4, 512, 256), "backbone.proj.bias": (4, 256),
        **{f"backbone.norm{i}.{name}": (4, 256) for i in (1, 2) for name in ("scale", "bias")},
        "backbone.ffn.fc1.kernel": (4, 256, 1024), "backbone.ffn.fc1.bias": (4, 1024),
        "backbone.ffn.fc2.kernel": (4, 1024, 256), "backbone.ffn.fc2.bias": (4, 256),
        "proj_head.kernel": (256, 128), "proj_head.bias": (128,),
    }  # fmt: skip


def test_layers_start_differently():
    model = nnx.jit(lambda: wbm.WBM(TINY, rngs=nnx.Rngs(0)))()
    kernel = model.backbone.fwd.in_proj.kernel[...]
    assert np.abs(kernel[0] - kernel[1]).max() > 1e-3


def test_contextual_is_its_description(weights):
    """Everything but the mixers, restated in float64; the mixers have tests of their own."""
    graph, _ = outline()
    tokens = wbm.tokens_of(weeks(), STATS)
    model = nnx.merge(graph, weights)
    p = {name: np.asarray(leaf[...], np.float64) for name, leaf in named(weights).items()}
    gelu = lambda v: v * 0.5 * (1 + np.vectorize(math.erf)(v / math.sqrt(2)))  # noqa: E731
    mixer_of = nnx.jit(lambda m, u: m(u))

    def norm(v, name, i):
        v = (v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + 1e-5)
        return v * p[f"{name}.scale"][i] + p[f"{name}.bias"][i]

    x = gelu(np.asarray(tokens, np.float64) @ p["tokenizer.fc1.kernel"] + p["tokenizer.fc1.bias"])
    x = x @ p["tokenizer.fc2.kernel"] + p["tokenizer.fc2.bias"]
    for i in range(TINY.depth):
        block = nnx.merge(
            *[nnx.split(model.backbone)[0], jax.tree.map(lambda v, i=i: v[i], nnx.state(model.backbone))]
        )
        u = x.astype(np.float32)
        ahead = np.asarray(mixer_of(block.fwd, u))
        back = np.asarray(mixer_of(block.bwd, u[:, ::-1]))[:, ::-1]
        y = np.concatenate([ahead, back], -1) @ p["backbone.proj.kernel"][i] + p["backbone.proj.bias"][i]
        x = norm(x + y, "backbone.norm1", i)
        hidden = gelu(x @ p["backbone.ffn.fc1.kernel"][i] + p["backbone.ffn.fc1.bias"][i])
        y = hidden @ p["backbone.ffn.fc2.kernel"][i] + p["backbone.ffn.fc2.bias"][i]
        x = norm(x + y, "backbone.norm2", i)
    np.testing.assert_allclose(run(graph, weights, tokens, None)[0], x, rtol=1e-3, atol=1e-3)


def test_scan_and_loop_agree_with_dropout(weights):
    tokens, keys = wbm.tokens_of(weeks(), STATS), jax.random.split(jax.random.key(0), 3)
    loop = run(outline()[0], weights, tokens, keys)
    scan = run(outline(dataclasses.replace(TINY, scan_layers=True))[0], weights, tokens, keys)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3), scan, loop)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(loop))
    without = run(outline()[0], weights, tokens, None)[0]
    assert np.abs(without - loop[0]).max() > 0.1
    repeated = run(outline()[0], weights, tokens[:2], keys[:2])[0]  # a draw does not depend on the batch
    np.testing.assert_allclose(repeated, loop[0][:2], rtol=1e-5, atol=1e-5)


def test_bfloat16_is_near(weights):
    tokens = wbm.tokens_of(weeks(), STATS)
    found, gradients = run(outline(dataclasses.replace(TINY, dtype="bfloat16"))[0], weights, tokens, None)
    assert found.dtype == jnp.float32
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(gradients))
    assert 0 < np.abs(found - run(outline()[0], weights, tokens, None)[0]).max() < 0.3


def test_tokens_are_z_scores_and_flags():
    values = weeks()
    tokens = np.asarray(wbm.tokens_of(values, STATS))
    assert tokens.shape == (3, TINY.hours, 38)
    missing = np.isnan(values)
    np.testing.assert_array_equal(tokens[..., 19:], missing)
    assert (tokens[..., :19][missing] == 0).all()
    scaled = np.where(np.arange(19) < 7, (values - STATS.means) / STATS.stds, values)
    np.testing.assert_allclose(tokens[..., :19][~missing], scaled[~missing], rtol=1e-5, atol=1e-6)


def test_pooling():
    z = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
    keep = np.array([[True, False, True, False, False], [False] * 5])
    pooled = wbm.pool(z, jnp.asarray(keep))
    np.testing.assert_allclose(pooled[0], z[0, [0, 2]].mean(axis=0), rtol=1e-5)
    assert (np.asarray(pooled[1]) == 0).all()
    np.testing.assert_allclose(wbm.pool(z), z.mean(axis=1), rtol=1e-5)


def test_unit_vectors_and_the_zero_vector():
    x = jnp.asarray([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(wbm.unit(x), [[0.6, 0.8], [0, 0]], rtol=1e-6)
    assert (np.asarray(jax.grad(lambda x: wbm.unit(x)[1].sum())(x)) == 0).all()


def test_embedding_pools_all_hours_and_missing_weeks_are_finite(weights):
    model = nnx.merge(outline()[0], weights)
    values = weeks()
    values[1] = np.nan
    r = nnx.jit(lambda m, v: m.embed(v, STATS))(model, values)
    z = run(outline()[0], weights, wbm.tokens_of(values, STATS), None)[0]
    np.testing.assert_allclose(r, z.mean(axis=1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(model.project(r), axis=1), 1, rtol=1e-5)


def test_flops_follow_the_matrix_products():
    """The compiler counts the elementwise work too, so a little more."""
    config = dataclasses.replace(TINY, hours=64, dim=32, d_state=16, headdim=8)
    graph, state = outline(config)
    tokens = jax.ShapeDtypeStruct((2, config.hours, 38), jnp.float32)
    lowered = jax.jit(lambda s, t: nnx.merge(graph, s).encode(t)).lower(state, tokens)
    counted = lowered.cost_analysis()["flops"] / 2
    assert 0.7 < wbm.forward_flops(config) / counted <= 1.02
    assert wbm.training_flops(dataclasses.replace(config, dropout=0.0)) == 3 * wbm.forward_flops(config)
    once, twice = (wbm.forward_flops(config, views=n) for n in (1, 2))
    tokens = jax.ShapeDtypeStruct((1, config.hours, 38), jnp.float32)
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 2))
    encode = lambda s, t, k: nnx.merge(graph, s).contextual(t, keys=k)  # noqa: E731
    both = jax.jit(encode).lower(state, tokens, keys).cost_analysis()["flops"]
    assert 1.3 * once < twice < 1.9 * once
    assert 0.6 < twice / both <= 1.02
    assert wbm.training_flops(wbm.WBMConfig()) == pytest.approx(1.2e10, rel=0.05)


def test_views_share_what_comes_before_the_first_dropout(weights):
    """Encoding two views of the same tokens at once gives what two encodings give."""
    graph = outline()[0]
    tokens = wbm.tokens_of(weeks(), STATS)
    keys = jax.random.split(jax.random.key(3), 2 * len(tokens))
    encode = jax.jit(lambda s, t, k: nnx.merge(graph, s).contextual(t, keys=k))
    together = encode(weights, tokens, keys)
    apart = encode(weights, jnp.concatenate([tokens, tokens]), keys)
    np.testing.assert_allclose(together, apart, rtol=1e-5, atol=1e-5)
    assert np.abs(np.asarray(together[: len(tokens)] - together[len(tokens) :])).max() > 1e-2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hours", 0), ("channels", 20), ("headdim", 5), ("dropout", 1.0), ("token_drop", -0.1),
        ("temperature", 0.0), ("koleo_weight", -1.0), ("dtype", "float16"), ("ssd", "scan"), ("depth", 0),
    ],
)  # fmt: skip
def test_impossible_values_name_their_field(field, value):
    with pytest.raises(ConfigError, match=rf"^model\.{field}: "):
        dataclasses.replace(TINY, **{field: value})
