"""PyTorch layouts: names and shapes as published, nothing lost either way, the same numbers out of both frameworks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch_side
from flax import nnx
from torch_side import CONFIGS, DAILY, SPARSE, WEEK, WEEKLY

from wearjax.convert import torch_layout, torch_sizes
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import CheckpointError
from wearjax.models import lsm2, lsm2_sparse, registry, wbm
from wearjax.objectives import contrastive, masked_reconstruction

CLOSE = dict(rtol=1e-4, atol=1e-4)
QUICKLY = {"xla_backend_optimization_level": 0}  # compiling takes longer than running here


def compiled(function, model):
    """`function(model)`."""
    graph, state = nnx.split(model)
    return jax.jit(lambda state: function(nnx.merge(graph, state)), compiler_options=QUICKLY)(state)


def loss_and_gradients(loss, model):
    graph, state = nnx.split(model)
    run = jax.value_and_grad(lambda state: loss(nnx.merge(graph, state)))
    return jax.jit(run, compiler_options=QUICKLY)(state)


def shapes_of(kind, config):
    """Their names and shapes for a configuration, at no cost."""
    build = registry.get(kind).build
    model = nnx.eval_shape(lambda: build(config, rngs=nnx.Rngs(0)))
    flat = nnx.to_flat_state(nnx.state(model, nnx.Param))
    params = {".".join(map(str, path)): np.broadcast_to(np.float32(0), leaf.shape) for path, leaf in flat}
    return {name: array.shape for name, array in torch_layout.to_torch(kind, params).items()}


# names and shapes


def block(dim):
    return {
        "norm1.weight": (dim,), "norm1.bias": (dim,), "norm2.weight": (dim,), "norm2.bias": (dim,),
        "attn.qkv.weight": (3 * dim, dim), "attn.qkv.bias": (3 * dim,),
        "attn.proj.weight": (dim, dim), "attn.proj.bias": (dim,),
        "mlp.0.weight": (4 * dim, dim), "mlp.0.bias": (4 * dim,),
        "mlp.3.weight": (dim, 4 * dim), "mlp.3.bias": (dim,),
    }  # fmt: skip


def stack(name, dim, depth):
    return {f"{name}.{i}.{part}": shape for i in range(depth) for part, shape in block(dim).items()}


def norm(name, dim):
    return {f"{name}.weight": (dim,), f"{name}.bias": (dim,)}


def edges(patch):
    return {
        "mask_token": (1, 1, 256),
        "patch_embed.proj.weight": (384, 1, patch), "patch_embed.proj.bias": (384,),
        **stack("encoder.blocks", 384, 12), **norm("encoder.norm", 384),
        "encoder_to_decoder.weight": (256, 384), "encoder_to_decoder.bias": (256,),
        "decoder_pred.weight": (patch, 256), "decoder_pred.bias": (patch,),
    }  # fmt: skip


PUBLISHED = {
    "daily": ("lsm2", lsm2.LSM2Config(), {
        **edges(10), **stack("decoder.blocks", 256, 4), **norm("decoder.norm", 256),
    }),
    "weekly": ("lsm2", lsm2.LSM2Config(minutes=10080, patch=60), {
        **edges(60), **stack("decoder.blocks", 256, 4), **norm("decoder.norm", 256),
    }),
    "sparse": ("lsm2_sparse", lsm2_sparse.LSM2SparseConfig(), {
        **edges(10), **stack("decoder_local_blocks", 256, 2), **stack("decoder_cross_blocks", 256, 2),
        **norm("decoder_norm", 256),
    }),
    "wbm": ("wbm", wbm.WBMConfig(), {
        "tokenizer.fc1.weight": (64, 38), "tokenizer.fc1.bias": (64,),
        "tokenizer.fc2.weight": (256, 64), "tokenizer.fc2.bias": (256,),
        **{
            f"backbone.{i}.{side}.{name}": shape for i in range(4) for side in ("fwd", "bwd")
            for name, shape in {
                "in_proj.weight": (1288, 256), "conv1d.weight": (768, 1, 4), "conv1d.bias": (768,),
                "dt_bias": (8,), "A_log": (8,), "D": (8,), "norm.weight": (512,),
                "out_proj.weight": (256, 512),
            }.items()
        },
        **{
            f"backbone.{i}.{name}": shape for i in range(4) for name, shape in {
                "proj.weight": (256, 512), "proj.bias": (256,), **norm("norm1", 256), **norm("norm2", 256),
                "ffn.0.weight": (1024, 256), "ffn.0.bias": (1024,),
                "ffn.3.weight": (256, 1024), "ffn.3.bias": (256,),
            }.items()
        },
        "proj_head.0.weight": (128, 256), "proj_head.0.bias": (128,),
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_names_and_shapes(name):
    kind, config, wanted = PUBLISHED[name]
    assert shapes_of(kind, config) == wanted


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_state_dict_tells_its_kind_and_sizes(name):
    kind, config, wanted = PUBLISHED[name]
    state_dict = {f"model.{key}": np.broadcast_to(np.float32(0), shape) for key, shape in wanted.items()}
    assert torch_layout.detect(state_dict) == kind
    assert torch_sizes.config_of(kind, state_dict, {}) == config
    torch_sizes.check(kind, config, state_dict)


@pytest.mark.parametrize("kind", CONFIGS)
def test_nothing_is_lost_either_way(kind):
    params = torch_side.parameters(torch_side.drawn(kind, CONFIGS[kind]))
    state_dict = torch_layout.to_torch(kind, params)
    assert sum(array.size for array in state_dict.values()) == sum(array.size for array in params.values())
    back = torch_layout.to_flax(kind, {f"model.{name}": array for name, array in state_dict.items()})
    assert back.keys() == params.keys()
    for name, array in params.items():
        np.testing.assert_array_equal(back[name], array)
    again = torch_layout.to_torch(kind, back)
    for name, array in state_dict.items():
        np.testing.assert_array_equal(again[name], array)


def test_layers_stay_in_order_beyond_nine():
    config = lsm2.LSM2Config(patch=720, encoder_dim=4, encoder_depth=11, encoder_heads=1, decoder_dim=4,
                             decoder_depth=1, decoder_heads=1, mlp_ratio=1)  # fmt: skip
    params = torch_side.parameters(torch_side.drawn("lsm2", config))
    state_dict = torch_layout.to_torch("lsm2", params)
    np.testing.assert_array_equal(
        state_dict["encoder.blocks.10.norm1.bias"], params["encoder.blocks.norm1.bias"][10]
    )
    shuffled = dict(sorted(state_dict.items()))  # .10 before .2
    np.testing.assert_array_equal(
        torch_layout.to_flax("lsm2", shuffled)["encoder.blocks.norm1.bias"],
        params["encoder.blocks.norm1.bias"],
    )


@pytest.mark.parametrize("prefix", ["", "model.", "encoder.", "model.encoder."])
def test_wbm_names_lose_every_wrapper(prefix):
    state_dict = torch_layout.to_torch("wbm", torch_side.parameters(torch_side.drawn("wbm", WEEK)))
    wrapped = {prefix + name: array for name, array in state_dict.items()}
    assert torch_layout.detect(wrapped) == "wbm"
    wrapped |= {"criterion.temperature": np.ones(1), "model.queue": np.ones((3, 3))}
    assert torch_layout.to_flax("wbm", wrapped).keys() == torch_layout.to_flax("wbm", state_dict).keys()


# what does not fit


def daily_state():
    return torch_layout.to_torch("lsm2", torch_side.parameters(torch_side.drawn("lsm2", DAILY)))


def one_line(call, *words):
    with pytest.raises(CheckpointError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s.pop("mask_token"), ("mask_token is missing", "(1, 1, 12)")),
        (lambda s: s.pop("encoder.blocks.0.attn.qkv.bias"), ("encoder.blocks.0.attn.qkv.bias", "(48,)")),
        (lambda s: s.update(cls_token=np.ones((1, 1, 16), "f")), ("cls_token (1, 1, 16) has no place",)),
        (
            lambda s: s.update({"encoder.blocks.1.mlp.3.weight": np.ones((16, 31), "f")}),
            ("encoder.blocks.1.mlp.3.weight is (16, 31), the model needs (16, 32)",),
        ),
        (
            lambda s: s.update(mask_token=np.ones(12, "f")),
            ("mask_token is (12,), the model needs (1, 1, 12)",),
        ),
        (
            lambda s: s.update({"decoder.norm.bias": np.ones(12, "i8")}),
            ("decoder.norm.bias", "floating-point"),
        ),
        (lambda s: s["decoder.norm.bias"].fill(np.nan), ("decoder.norm.bias", "finite")),
        (lambda s: s.update(day_embed=np.ones((1, 7, 1, 12))), ("day_embed (1, 7, 1, 12)", "rotary")),
    ],
)
def test_keys_and_shapes_that_do_not_fit(change, words):
    state_dict = {name: np.array(array) for name, array in daily_state().items()}
    change(state_dict)
    one_line(lambda: torch_sizes.check("lsm2", DAILY, state_dict), *words)


def test_the_map_alone_names_what_is_wrong():
    state_dict = daily_state()
    one_line(
        lambda: torch_layout.to_flax("lsm2", {**state_dict, "decoder_pred.weight": np.ones(3)}),
        "decoder_pred.weight is (3,), expected 2 axes",
    )
    one_line(lambda: torch_layout.to_flax("lsm2", {**state_dict, "x": np.ones(3)}), "x (3,) has no place")
    gap = {name: array for name, array in state_dict.items() if ".blocks.0.norm2" not in name}
    one_line(lambda: torch_layout.to_flax("lsm2", gap), "encoder.blocks.0.norm2.weight is missing")
    one_line(lambda: torch_layout.to_flax("brits", state_dict), "brits", "lsm2")
    one_line(lambda: torch_layout.to_torch("lsm2", {}), "parameter")
    one_line(lambda: torch_layout.detect(["a.weight"]), "tokenizer.fc1.weight (wbm)")


def test_the_three_layer_head_is_refused():
    state_dict = torch_layout.to_torch("wbm", torch_side.parameters(torch_side.drawn("wbm", WEEK)))
    state_dict |= {"proj_head.1.weight": np.ones(1024), "proj_head.4.weight": np.ones((256, 1024))}
    one_line(lambda: torch_layout.to_flax("wbm", state_dict), "proj_head.1.weight (1024,)", "linear head")


def test_two_names_that_become_one_are_refused():
    state_dict = {"model.tokenizer.fc1.bias": np.ones(2), "encoder.tokenizer.fc1.bias": np.ones(2)}
    one_line(lambda: torch_layout.stripped("wbm", state_dict), "tokenizer.fc1.bias")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, ("hyper_parameters.seq_length", "240")),
        ({"seq_length": 1440}, ("hyper_parameters.num_heads",)),
        ({"seq_length": 1440, "num_heads": "6"}, ("hyper_parameters.num_heads", "'6'")),
        ({"seq_length": float("inf"), "num_heads": 2, "decoder_num_heads": 3}, ("seq_length",)),
        ({"seq_length": 1500, "num_heads": 2, "decoder_num_heads": 3}, ("240 does not divide",)),
        ({"seq_length": 1440, "num_heads": 5, "decoder_num_heads": 3}, ("encoder_heads 5",)),
        ({"norm_pix_loss": True}, ("norm_pix_loss", "False")),
        ({"use_hybrid_loss": False}, ("use_hybrid_loss",)),
        ({"in_channels": 26}, ("in_channels", "19", "26")),
    ],
)
def test_settings_that_cannot_be_taken_over(settings, words):
    one_line(lambda: torch_sizes.config_of("lsm2", daily_state(), settings), *words)


@pytest.mark.parametrize("kind", ["lsm2", "lsm2_sparse"])
def test_constructor_arguments_come_back(kind):
    state_dict = torch_layout.to_torch(kind, torch_side.parameters(torch_side.drawn(kind, CONFIGS[kind])))
    settings = torch_sizes.hyper_parameters(kind, CONFIGS[kind])
    found = torch_sizes.config_of(kind, state_dict, settings)
    for name in ("minutes", "patch", *torch_side.SIZES, "mask_ratio", "removal_ratio"):
        assert getattr(found, name) == getattr(CONFIGS[kind], name), name


# the same numbers


def days(config, n_days: int = 1, batch: int = 3, seed: int = 1):
    """z-scores and flags with gaps: here and there, half a day, a whole example."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(batch, 19, n_days * config.minutes)).astype(np.float32)
    values[:, 7:] = rng.random(values[:, 7:].shape) < 0.3
    missing = np.zeros(values.shape, bool)
    missing[0, rng.integers(0, 19, 12), rng.integers(0, values.shape[2], 12)] = True
    missing[0, 5] = rng.random(values.shape[2]) < 0.9
    missing[1, :, 500:] = True
    missing[2] = True
    return np.where(missing, np.float32(np.nan), values), missing


@pytest.mark.parametrize("config", [DAILY, WEEKLY], ids=["daily", "weekly"])
def test_lsm2_imputes_alike(config):
    restated = torch_side.torch_lsm2(config)
    model = torch_side.drawn("lsm2", config)
    torch_side.load(restated, torch_layout.to_torch("lsm2", torch_side.parameters(model)))
    import torch

    values, missing = days(config)
    with torch.no_grad():
        wanted = restated.reconstruct(torch.tensor(values), torch.tensor(missing)).numpy()
    assert np.isfinite(wanted).all()
    found = compiled(lambda m: m.reconstruct(jnp.asarray(values), jnp.asarray(missing)), model)
    np.testing.assert_allclose(found, wanted, **CLOSE)


def hidden(rng, rows, n_tokens):
    return rng.random((rows, n_tokens)) < 0.4, rng.random((rows, n_tokens)).astype(np.float32)


def given_masks(monkeypatch, artificial, order):
    """The objective with these masks instead of drawn ones."""
    drawn = lambda *_: (jnp.asarray(artificial), jnp.asarray(order))  # noqa: E731
    monkeypatch.setattr(masked_reconstruction, "draw_masks", drawn)


def gradients_match(kind, gradients, restated):
    wanted = {
        name: np.zeros(p.shape, "f") if p.grad is None else p.grad.numpy()
        for name, p in restated.named_parameters()
    }
    found = torch_layout.to_torch(kind, torch_side.parameters(gradients))
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert np.isfinite(gradient).all(), name
        np.testing.assert_allclose(found[name], gradient, rtol=1e-3, atol=1e-4, err_msg=name)


def test_lsm2_learns_alike(monkeypatch):
    """Loss and all its gradients, with missing data, artificial masks and removed tokens."""
    config = DAILY
    statement = torch_side.statement("torch_lsm2")
    import torch

    restated = torch_side.torch_lsm2(config)
    model = torch_side.drawn("lsm2", config)
    torch_side.load(restated, torch_layout.to_torch("lsm2", torch_side.parameters(model)))
    values, missing = days(config)
    artificial, order = hidden(np.random.default_rng(2), len(values), config.n_tokens)
    given_masks(monkeypatch, artificial, order)
    objective = masked_reconstruction.MaskedReconstruction(NormalizationStats(np.zeros(19), np.ones(19), 0.0))

    def loss_of(model):
        return objective(model, {"values": jnp.asarray(values)}, key=jax.random.key(0), train=False)[0]

    loss, gradients = loss_and_gradients(loss_of, model)

    x = torch.tensor(np.nan_to_num(values))
    inherited = statement.inherited_mask(torch.tensor(missing), config.patch)
    masked = inherited | torch.tensor(artificial)
    ranks = (100 * masked + torch.tensor(order)).argsort(dim=1)
    predicted = restated(x, masked, ranks, config.n_kept)
    target = x.reshape(len(values), -1, config.patch)
    wanted = statement.hybrid_loss(predicted, target, torch.tensor(artificial), inherited)
    wanted.backward()
    np.testing.assert_allclose(loss, wanted.item(), **CLOSE)
    gradients_match("lsm2", gradients, restated)


def test_lsm2_sparse_imputes_alike():
    """Windows with true day offsets, one of them with padded days."""
    statement = torch_side.statement("torch_lsm2")
    import torch

    restated = torch_side.torch_lsm2(SPARSE, sparse=True)
    model = torch_side.drawn("lsm2_sparse", SPARSE)
    torch_side.load(restated, torch_layout.to_torch("lsm2_sparse", torch_side.parameters(model)))
    values, missing = days(SPARSE, n_days=7, batch=3)
    offsets = np.array([[0, 1, 2, 3, 4, 5, 6], [-1, -1, 0, 3, 4, 90, 500], [0, 2, 4, 6, 8, 10, 12]])
    missing[1, :, : 2 * SPARSE.minutes] = True
    given = (jnp.asarray(values), jnp.asarray(missing))
    found = compiled(lambda m: m.reconstruct(*given, day_offsets=jnp.asarray(offsets)), model)
    by_day = lambda x: torch.tensor(x).unflatten(-1, (7, -1)).transpose(1, 2).flatten(0, 1)  # noqa: E731
    masked = statement.inherited_mask(by_day(missing), SPARSE.patch)
    x = torch.tensor(np.where(missing, 0, np.nan_to_num(values)).astype(np.float32))
    with torch.no_grad():
        wanted = restated(x, masked, torch.tensor(offsets)).reshape(values.shape).numpy()
    wanted[:, 7:] = 1 / (1 + np.exp(-wanted[:, 7:]))
    np.testing.assert_allclose(found, wanted, **CLOSE)


def test_lsm2_sparse_learns_alike(monkeypatch):
    statement = torch_side.statement("torch_lsm2")
    import torch

    restated = torch_side.torch_lsm2(SPARSE, sparse=True)
    model = torch_side.drawn("lsm2_sparse", SPARSE)
    torch_side.load(restated, torch_layout.to_torch("lsm2_sparse", torch_side.parameters(model)))
    values, missing = days(SPARSE, n_days=7, batch=3)
    offsets = np.array([[0, 1, 2, 3, 4, 5, 6], [-1, 0, 3, 4, 9, 90, 500], [0, 2, 4, 6, 8, 10, 12]])
    missing[1, :, : SPARSE.minutes] = True
    values = np.where(missing, np.float32(np.nan), values)
    artificial, order = hidden(np.random.default_rng(2), 3 * 7, SPARSE.n_tokens)
    given_masks(monkeypatch, artificial, order)
    objective = masked_reconstruction.SparseReconstruction(NormalizationStats(np.zeros(19), np.ones(19), 0.0))
    batch = {"values": jnp.asarray(values), "day_offsets": jnp.asarray(offsets, jnp.int32)}

    def loss_of(model):
        return objective(model, batch, key=jax.random.key(0), train=False)[0]

    loss, gradients = loss_and_gradients(loss_of, model)

    by_day = lambda x: x.unflatten(-1, (7, -1)).transpose(1, 2).flatten(0, 1)  # noqa: E731
    inherited = statement.inherited_mask(by_day(torch.tensor(missing)), SPARSE.patch)
    masked = inherited | torch.tensor(artificial)
    ranks = (100 * masked + torch.tensor(order)).argsort(dim=1)
    x = torch.tensor(np.nan_to_num(values))
    predicted = restated(x, masked, torch.tensor(offsets), ranks, SPARSE.n_kept)

    def by_week(flags):  # (B days, C times) -> (B, C days times)
        return flags.reshape(3, 7, 19, -1).transpose(1, 2).flatten(1)

    target = x.reshape(3, -1, SPARSE.patch)
    wanted = statement.hybrid_loss(predicted, target, by_week(torch.tensor(artificial)), by_week(inherited))
    wanted.backward()
    np.testing.assert_allclose(loss, wanted.item(), **CLOSE)
    gradients_match("lsm2_sparse", gradients, restated)


def weeks(rng, batch, hours):
    values = rng.normal(size=(batch, hours, 19)).astype(np.float32)
    values[:, :, 7:] = values[:, :, 7:] > 0
    values[rng.random(values.shape) < 0.3] = np.nan
    values[-1] = np.nan
    return values


def test_wbm_learns_alike(monkeypatch):
    """Week vectors, and the contrastive loss of two views with all its gradients."""
    statement = torch_side.statement("torch_wbm")
    import torch

    restated = torch_side.torch_wbm(WEEK)
    model = torch_side.drawn("wbm", WEEK)
    torch_side.load(restated, torch_layout.to_torch("wbm", torch_side.parameters(model)))
    rng = np.random.default_rng(3)
    values, participant = weeks(rng, 5, WEEK.hours), np.array([1, 2, 1, 3, 4])
    missing = np.isnan(values)
    tokens = torch.tensor(np.concatenate([np.nan_to_num(values), missing], axis=2).astype(np.float32))
    stats = NormalizationStats(np.zeros(19), np.ones(19), 0.0)
    found = compiled(lambda m: m.embed(jnp.asarray(values), stats), model)
    with torch.no_grad():
        np.testing.assert_allclose(found, restated.encode(tokens).numpy(), **CLOSE)

    words = rng.integers(0, 2**32, (5, 2 * WEEK.hours), dtype=np.uint32)
    monkeypatch.setattr(contrastive.dropout, "draw_words", lambda keys, n: jnp.asarray(words))
    batch = {"values": jnp.asarray(values), "participant": jnp.asarray(participant)}
    objective = contrastive.WeekContrast(stats)

    def loss_of(model):
        return objective(model, batch, key=jax.random.key(0), train=True)[0]

    loss, gradients = loss_and_gradients(loss_of, model)
    keep = torch.tensor(words.reshape(5, 2, -1) >= contrastive.dropout.threshold(WEEK.token_drop))
    views = [restated.project(restated.encode(tokens, keep[:, i])) for i in (0, 1)]
    wanted = statement.contrastive_loss(*views, torch.tensor(participant))
    wanted.backward()
    np.testing.assert_allclose(loss, wanted.item(), **CLOSE)
    gradients_match("wbm", gradients, restated)


@pytest.mark.parametrize("chunk", [5, 8, 24, 64])
def test_the_restated_scan_is_the_recurrence(chunk):
    statement = torch_side.statement("torch_wbm")
    import torch

    rng = np.random.default_rng(4)
    x, decay, b, c = (rng.normal(size=(2, 24, *shape)) for shape in ((3, 4), (3,), (5,), (5,)))
    decay = -np.abs(decay)
    state, wanted = np.zeros((2, 3, 4, 5)), []
    for t in range(24):
        state = state * np.exp(decay[:, t])[..., None, None] + np.einsum("bnp,bs->bnps", x[:, t], b[:, t])
        wanted.append(np.einsum("bnps,bs->bnp", state, c[:, t]))
    found = statement.ssd(*map(torch.tensor, (x, decay, b, c)), chunk)
    np.testing.assert_allclose(found.numpy(), np.stack(wanted, axis=1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["torch_lsm2", "torch_wbm"])
def test_a_benchmark_step_learns(name):
    statement = torch_side.statement(name)
    sizes = (
        dict(patch=240, **torch_side.SIZES)
        if name == "torch_lsm2"
        else dict(dim=16, tokenizer_hidden=8, depth=1, d_state=4, head_dim=8, projection_dim=4)
    )
    step = statement.make_step(2, threads=1, **sizes)
    losses = [step() for _ in range(3)]
    assert np.isfinite(losses).all()
    assert len(set(losses)) == 3
    step = statement.make_step(2, threads=1, **sizes)
    assert [step() for _ in range(3)] == losses
