"""LSM-2: published size, inherited mask, and the same numbers as an independent statement in PyTorch."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from wearjax import channels
from wearjax.errors import ConfigError
from wearjax.layers import token_drop
from wearjax.models import lsm2, registry

SMALL = lsm2.LSM2Config(
    patch=240, encoder_dim=16, encoder_depth=2, encoder_heads=2,
    decoder_dim=8, decoder_depth=1, decoder_heads=2, mlp_ratio=2, dropout=0.0,
)  # fmt: skip

QUICKLY = {"xla_backend_optimization_level": 0}  # compiling takes longer than running here


def outline(config):
    return nnx.split(nnx.eval_shape(lambda: lsm2.LSM2(config, rngs=nnx.Rngs(0))))


def drawn(config, seed: int = 0):
    """A model whose every parameter, biases and norms included, is far from its start."""
    graph, state = outline(config)
    rng = np.random.default_rng(seed)
    return nnx.merge(
        graph, jax.tree.map(lambda p: jnp.asarray(rng.normal(0.1, 0.3, p.shape), jnp.float32), state)
    )


def size(tree) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


@pytest.fixture(scope="module")
def model():
    return drawn(SMALL)


@pytest.fixture(scope="module")
def run(model):
    """The forward pass, compiled once: with selection and without."""
    return nnx.jit(lambda model, *args: model(*args[:2], selection=args[2] if args[2:] else None))


@pytest.fixture(scope="module")
def days():
    """Three days: gaps here and there, a quiet half, nothing at all."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=(3, 19, 1440)).astype(np.float32)
    missing = np.zeros(values.shape, bool)
    missing[0, rng.integers(0, 19, 12), rng.integers(0, 1440, 12)] = True
    missing[0, 5] = rng.random(1440) < 0.9
    missing[1, :, 500:] = True
    missing[2] = True
    return values, missing


def patches_of(values, missing):
    return np.where(missing, 0, values).reshape(len(values), -1, SMALL.patch)


# size


def test_the_published_model_has_the_published_size():
    config = lsm2.LSM2Config()
    assert (config.patches_per_channel, config.n_tokens, config.n_kept) == (144, 2736, 1368)
    shapes = nnx.eval_shape(lambda: lsm2.LSM2(config, rngs=nnx.Rngs(0)))
    assert size(nnx.state(shapes, nnx.Param)) == size(nnx.state(shapes)) == 24_559_498
    assert size(nnx.state(shapes.encoder.blocks)) == 12 * 1_774_464
    assert size(nnx.state(shapes.decoder.blocks)) == 4 * 789_760


# masks


def test_inherited_mask_of_the_published_patches():
    missing = np.zeros((2, 19, 1440), bool)
    missing[0, 0, 0] = True  # one minute hides a patch
    missing[0, 3, 1439] = True
    missing[0, channels.HEART_RATE, 10:20] = True  # of heart rate, only ten of ten do
    missing[0, channels.HEART_RATE, 20:29] = True
    missing[0, 18, 15] = True
    found = np.asarray(lsm2.inherited_mask(jnp.asarray(missing), 10)).reshape(2, 19, 144)
    assert set(zip(*(i.tolist() for i in found[0].nonzero()), strict=True)) == {
        (0, 0), (3, 143), (channels.HEART_RATE, 1), (18, 1),
    }  # fmt: skip
    assert not found[1].any()


# the forward pass, stated once more


class Restated:
    """LSM-2 from its description, in PyTorch, with the weights of a wearjax model."""

    def __init__(self, model):
        self.torch = pytest.importorskip("torch", reason="the independent statement of LSM-2 is in PyTorch")
        self.weights = {
            ".".join(map(str, path)): self.torch.tensor(np.asarray(leaf[...]), dtype=self.torch.float64)
            for path, leaf in nnx.to_flat_state(nnx.state(model, nnx.Param))
        }

    def linear(self, name, x, layer=...):
        return x @ self.weights[f"{name}.kernel"][layer] + self.weights[f"{name}.bias"][layer]

    def norm(self, name, x, layer=...):
        scale, bias = (self.weights[f"{name}.{part}"][layer] for part in ("scale", "bias"))
        return self.torch.nn.functional.layer_norm(x, x.shape[-1:], scale, bias, 1e-5)

    def attend(self, name, x, layer, n_heads, keys):
        out = self.torch.zeros_like(x)
        width = x.shape[-1] // n_heads
        q, k, v = self.linear(f"{name}.qkv", x, layer).chunk(3, dim=-1)
        for head in range(n_heads):
            part = slice(head * width, (head + 1) * width)
            scores = q[..., part] @ k[..., part].transpose(1, 2) / width**0.5
            if keys is not None:
                scores = scores.masked_fill(~keys[:, None, :], float("-inf"))
            out[..., part] = self.torch.softmax(scores, dim=-1).nan_to_num(0.0) @ v[..., part]
        return self.linear(f"{name}.proj", out, layer)

    def stack(self, name, x, depth, n_heads, keys=None):
        for layer in range(depth):
            inner = f"{name}.blocks"
            x = x + self.attend(f"{inner}.attn", self.norm(f"{inner}.norm1", x, layer), layer, n_heads, keys)
            hidden = self.linear(f"{inner}.mlp.fc1", self.norm(f"{inner}.norm2", x, layer), layer)
            x = x + self.linear(f"{inner}.mlp.fc2", self.torch.nn.functional.gelu(hidden), layer)
        return self.norm(f"{name}.norm", x)

    def positions(self, dim):
        def along(n):
            angles = self.torch.arange(n).double()[:, None] * 10000.0 ** (
                -self.torch.arange(dim // 4).double() / (dim // 4)
            )
            return self.torch.cat([angles.sin(), angles.cos()], dim=1)

        row, column = along(19), along(SMALL.patches_per_channel)
        return self.torch.cat([row.repeat_interleave(len(column), dim=0), column.repeat(len(row), 1)], dim=1)

    def encode(self, patches, masked, kept):
        x = self.linear("patch_embed.proj", self.torch.tensor(np.asarray(patches)).double())
        x = x + self.positions(SMALL.encoder_dim)
        kept = self.torch.tensor(np.asarray(kept)).long()
        x = x.gather(1, kept[..., None].expand(-1, -1, x.shape[-1]))
        keys = ~self.torch.tensor(np.asarray(masked)).gather(1, kept)
        return self.stack("encoder", x, SMALL.encoder_depth, SMALL.encoder_heads, keys)

    def __call__(self, patches, masked, kept):
        kept_tokens = self.linear("encoder_to_decoder", self.encode(patches, masked, kept))
        masked, kept = self.torch.tensor(np.asarray(masked)), np.asarray(kept)
        token = self.weights["mask_token"]
        removed = np.stack([np.setdiff1d(np.arange(masked.shape[1]), row) for row in kept])
        place = self.torch.tensor(np.argsort(np.concatenate([kept, removed], axis=1), axis=1))  # un-shuffle
        x = self.torch.cat([kept_tokens, token.expand(*removed.shape, -1)], dim=1)
        x = x.gather(1, place[..., None].expand(-1, -1, x.shape[-1]))
        x = self.torch.where(masked[..., None], token, x) + self.positions(SMALL.decoder_dim)
        return self.linear(
            "decoder_pred", self.stack("decoder", x, SMALL.decoder_depth, SMALL.decoder_heads)
        ).numpy()


def test_dense_forward_pass_is_the_restated_one(model, run, days):
    values, missing = days
    masked = lsm2.inherited_mask(jnp.asarray(missing), SMALL.patch)
    everything = np.tile(np.arange(SMALL.n_tokens), (len(values), 1))
    patches = patches_of(values, missing)
    wanted = Restated(model)(patches, masked, everything)
    np.testing.assert_allclose(run(model, patches, masked), wanted, rtol=1e-5, atol=1e-5)
    filled = np.asarray(nnx.jit(lsm2.LSM2.reconstruct)(model, np.where(missing, np.nan, values), missing))
    wanted = wanted.reshape(filled.shape)
    np.testing.assert_allclose(filled[:, :7], wanted[:, :7], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(filled[:, 7:], 1 / (1 + np.exp(-wanted[:, 7:])), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("share", [0.2, 0.8], ids=["few masked", "masked tokens among the kept"])
def test_forward_pass_with_removed_tokens_is_the_restated_one(model, run, days, share):
    values, missing = days
    rng = np.random.default_rng(2)
    masked = np.asarray(lsm2.inherited_mask(jnp.asarray(missing), SMALL.patch))
    masked = masked | (rng.random(masked.shape) < share)
    order = rng.random(masked.shape).astype(np.float32)
    selection = token_drop.keep_lowest(jnp.asarray(100 * masked + order), SMALL.n_kept)
    kept = np.sort(np.argsort(100 * masked + order, axis=1)[:, : SMALL.n_kept], axis=1)
    patches = patches_of(values, missing)
    np.testing.assert_allclose(
        run(model, patches, jnp.asarray(masked), selection),
        Restated(model)(patches, masked, kept), rtol=1e-5, atol=1e-5,
    )  # fmt: skip


def test_embedding_is_the_mean_over_measured_tokens(model, days):
    values, missing = days
    masked = np.asarray(lsm2.inherited_mask(jnp.asarray(missing), SMALL.patch))
    everything = np.tile(np.arange(SMALL.n_tokens), (len(values), 1))
    encoded = Restated(model).encode(patches_of(values, missing), masked, everything).numpy()
    found = np.asarray(nnx.jit(lsm2.LSM2.embed)(model, np.where(missing, np.nan, values), missing))
    assert found.shape == (3, SMALL.encoder_dim)
    for day in (0, 1):
        np.testing.assert_allclose(found[day], encoded[day][~masked[day]].mean(axis=0), rtol=1e-5, atol=1e-5)
    assert not found[2].any()


def test_masked_values_cannot_matter(model, run, days):
    values, missing = days
    masked = np.random.default_rng(3).random((3, SMALL.n_tokens)) < 0.5
    patches = patches_of(values, missing)
    other = np.where(masked[..., None], np.float32(50), patches)
    everything = np.tile(np.arange(SMALL.n_tokens), (3, 1))
    assert everything.shape == masked.shape
    np.testing.assert_array_equal(run(model, other, masked), run(model, patches, masked))
    changed = np.where(~masked[..., None], patches + 1, patches)
    assert not np.allclose(run(model, changed, masked)[0], run(model, patches, masked)[0], atol=1e-3)


# configuration


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patch": 7}, "model.patch: 7 does not divide model.minutes 1440"),
        ({"patch": 0}, "model.patch"),
        ({"encoder_dim": 18, "encoder_heads": 2}, "model.encoder_dim: 18 must be divisible by 4"),
        ({"decoder_dim": 16, "decoder_heads": 3}, "by decoder_heads 3"),
        ({"dtype": "float16"}, "model.dtype: expected one of .* got 'float16'"),
        ({"start": "warm"}, "model.start: expected published or local, got 'warm'"),
        ({"position_period": 1.0}, "model.position_period"),
        ({"binary_weight": 0.0}, "model.binary_weight"),
        ({"dropout": 1.0}, r"model.dropout: must be in \[0, 1\), got 1.0"),
        ({"removal_ratio": 1.0}, "model.removal_ratio"),
        ({"mask_ratio": 1.5}, "model.mask_ratio"),
    ],
)
def test_impossible_configurations_are_refused_in_one_line(changes, message):
    with pytest.raises(ConfigError, match=message) as caught:
        dataclasses.replace(SMALL, **changes)
    assert "\n" not in str(caught.value)


def test_something_is_always_kept():
    assert dataclasses.replace(SMALL, removal_ratio=0.999).n_kept == 1
    assert dataclasses.replace(SMALL, removal_ratio=0.0).n_kept == SMALL.n_tokens


def test_registry():
    assert registry.of(SMALL) is registry.get("lsm2")
    assert registry.get("lsm2").build is lsm2.LSM2
    with pytest.raises(ConfigError, match="no architecture 'lsm3'; known: lsm2"):
        registry.get("lsm3")
    with pytest.raises(ConfigError, match="no architecture takes a dict"):
        registry.of({})


# initial weights


def test_local_start_changes_weights_and_not_the_structure():
    def start(name):
        config = dataclasses.replace(SMALL, start=name)
        state = jax.jit(lambda: nnx.state(lsm2.LSM2(config, rngs=nnx.Rngs(0))), compiler_options=QUICKLY)()
        return {".".join(map(str, path)): np.asarray(leaf[...]) for path, leaf in nnx.to_flat_state(state)}

    published, local = start("published"), start("local")
    assert {n: p.shape for n, p in published.items()} == {n: p.shape for n, p in local.items()}
    changed = {name for name in local if not np.array_equal(local[name], published[name])}
    assert changed == {name for name in local if name.endswith("kernel") or name == "mask_token"}
    assert all(np.isfinite(array).all() for array in local.values())
    for name, array in published.items():
        if name.endswith("bias"):
            assert not array.any()
        elif name.endswith("scale"):
            assert (array == 1).all()
        else:
            assert abs(array.std() - 0.02) < 0.01
