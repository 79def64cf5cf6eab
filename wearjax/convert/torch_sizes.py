"""The configuration that a PyTorch state dict stands for, and the constructor arguments that stand for one of ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flax import nnx

from wearjax import channels
from wearjax.convert import torch_layout
from wearjax.errors import CheckpointError, ConfigError
from wearjax.models import lsm2, lsm2_sparse, registry, wbm

HEAD_DIM = 64  # of the published models; a state dict does not tell the number of heads


def check(kind: str, config: Any, state_dict: torch_layout.Weights) -> None:
    """That a state dict has exactly the keys and shapes which a configuration asks for.

    Raises:
        CheckpointError: naming the first key that does not, and both shapes.
    """
    architecture = registry.get(kind)
    model = nnx.eval_shape(lambda: architecture.build(config, rngs=nnx.Rngs(0)))
    shapes = {
        ".".join(map(str, path)): np.broadcast_to(np.float32(0), leaf.shape)
        for path, leaf in nnx.to_flat_state(nnx.state(model, nnx.Param))
    }
    found = torch_layout.stripped(kind, state_dict)
    wanted = torch_layout.to_torch(kind, shapes)
    for name, array in wanted.items():
        if name not in found:
            raise CheckpointError(f"{name} is missing; the model needs {array.shape}")
        if found[name].shape != array.shape:
            raise CheckpointError(f"{name} is {found[name].shape}, the model needs {array.shape}")
        if found[name].dtype != np.float32 or not np.isfinite(found[name]).all():
            raise CheckpointError(f"{name} {array.shape} must hold finite floating-point numbers")
    if extra := sorted(found.keys() - wanted.keys()):
        raise CheckpointError(f"{extra[0]} {found[extra[0]].shape} has no place in the model")


# Settings of the published class that the models here share with the published checkpoints and cannot vary.
_FIXED: dict[str, Any] = {
    "in_channels": channels.N_CHANNELS,
    "qkv_bias": True,
    "norm_pix_loss": False,
    "use_hybrid_loss": True,
    "continuous_channels": list(channels.CONTINUOUS),
    "use_rope_day_embed": True,
}
_MINUTES = {10: channels.MINUTES_PER_DAY, 60: 7 * channels.MINUTES_PER_DAY}  # by published patch size


@dataclass(frozen=True)
class _Facts:
    """What a file says of its model: shapes, and the constructor arguments it was saved with, as far as any."""

    found: dict[str, np.ndarray]
    settings: Mapping[str, Any]

    def size(self, name: str, axis: int, ndim: int) -> int:
        if name not in self.found:
            raise CheckpointError(f"{name} is missing")
        if self.found[name].ndim != ndim:
            raise CheckpointError(f"{name} is {self.found[name].shape}, expected {ndim} axes")
        return self.found[name].shape[axis]

    def setting(self, name: str, default: Any) -> Any:
        value = self.settings.get(name)
        if value is None:
            value = default
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise CheckpointError(f"hyper_parameters.{name}: expected a number, got {value!r}")
        return int(value) if isinstance(default, int) and value == int(value) else value

    def heads(self, name: str, dim: int) -> int:
        """As saved; without, as many as the published head width gives."""
        if self.settings.get(name) is None and dim % HEAD_DIM:
            raise CheckpointError(f"hyper_parameters.{name} is missing, and shapes do not tell it")
        return self.setting(name, max(dim // HEAD_DIM, 1))

    def depth(self, blocks: str) -> int:
        rule = torch_layout.Rule("", blocks + ".{i}.norm1.weight", torch_layout.VECTOR)
        return torch_layout.depth(rule, self.found)


def _lsm2(facts: _Facts, *, decoder: str) -> dict[str, Any]:
    for name, value in _FIXED.items():
        saved = facts.settings.get(name, value)
        if (list(saved) if isinstance(saved, tuple) else saved) != value:
            raise CheckpointError(f"hyper_parameters.{name}: only {value} is supported, got {saved!r}")
    patch = facts.size("patch_embed.proj.weight", 2, 3)
    encoder_dim = facts.size("encoder.norm.weight", 0, 1)
    decoder_dim = facts.size("decoder_pred.weight", 1, 2)
    if facts.settings.get("seq_length") is None and patch not in _MINUTES:
        raise CheckpointError(
            f"hyper_parameters.seq_length is missing, and a patch of {patch} does not tell it"
        )
    return {
        "patch": patch,
        "minutes": facts.setting("seq_length", _MINUTES.get(patch, 0)),
        "encoder_dim": encoder_dim,
        "encoder_depth": facts.depth("encoder.blocks"),
        "encoder_heads": facts.heads("num_heads", encoder_dim),
        "decoder_dim": decoder_dim,
        "decoder_depth": facts.depth(decoder),
        "decoder_heads": facts.heads("decoder_num_heads", decoder_dim),
        "mlp_ratio": facts.size("encoder.blocks.0.mlp.0.weight", 0, 2) // max(encoder_dim, 1),
        "mask_ratio": facts.setting("mask_ratio", 0.5),
        "removal_ratio": facts.setting("dropout_removal_ratio", 0.5),
    }


def _lsm2_config(facts: _Facts) -> lsm2.LSM2Config:
    return lsm2.LSM2Config(**_lsm2(facts, decoder="decoder.blocks"))


def _sparse_config(facts: _Facts) -> lsm2_sparse.LSM2SparseConfig:
    sizes = _lsm2(facts, decoder="decoder_local_blocks")
    sizes["decoder_depth"] *= 2  # as many across days
    days = {"n_days": facts.setting("num_days", 7), "window_minutes": facts.setting("window_minutes", 120)}
    return lsm2_sparse.LSM2SparseConfig(**sizes, **days)


def _wbm_config(facts: _Facts) -> wbm.WBMConfig:
    dim, inner = (facts.size("backbone.0.fwd.out_proj.weight", axis, 2) for axis in (0, 1))
    if min(dim, inner, heads := facts.size("backbone.0.fwd.D", 0, 1)) < 1:
        raise CheckpointError("backbone.0.fwd.D, out_proj.weight: an axis without entries")
    return wbm.WBMConfig(
        dim=dim,
        tokenizer_hidden=facts.size("tokenizer.fc1.weight", 0, 2),
        depth=facts.depth("backbone"),
        d_state=(facts.size("backbone.0.fwd.conv1d.weight", 0, 3) - inner) // 2,
        d_conv=facts.size("backbone.0.fwd.conv1d.weight", 2, 3),
        expand=inner // dim,
        headdim=inner // heads,
        ffn_ratio=facts.size("backbone.0.ffn.0.weight", 0, 2) // dim,
        projection_dim=facts.size("proj_head.0.weight", 0, 2),
    )


_CONFIGS: dict[str, Callable[[_Facts], Any]] = {
    "lsm2": _lsm2_config,
    "lsm2_sparse": _sparse_config,
    "wbm": _wbm_config,
}


def config_of(kind: str, state_dict: torch_layout.Weights, hyper_parameters: Mapping[str, Any]) -> Any:
    """The configuration of a state dict: sizes from its shapes, the rest from what was saved beside it.

    Without saved numbers of heads a head is 64 wide, without a length patches of 10 mean a day and of 60 a week,
    as published. Dropout is the published 0.1, which the published class does not let vary.

    Raises:
        CheckpointError: a key that tells a size is missing, or a setting is one that wearjax's models lack.
    """
    torch_layout.rules_of(kind)
    try:
        return _CONFIGS[kind](_Facts(torch_layout.stripped(kind, state_dict), hyper_parameters))
    except ConfigError as error:
        raise CheckpointError(f"sizes of the checkpoint: {error}") from None


def hyper_parameters(kind: str, config: Any) -> dict[str, Any]:
    """Constructor arguments that make the published class build a model of this configuration.

    Raises:
        CheckpointError: the configuration computes what the published class cannot.
    """
    if kind == "wbm":
        return {}
    if config.position_period != lsm2.LSM2Config.position_period:
        raise CheckpointError(
            f"model.position_period {config.position_period}: the PyTorch model has "
            f"{lsm2.LSM2Config.position_period} built in"
        )
    settings = {
        "seq_length": config.minutes,
        "patch_size": config.patch,
        "in_channels": channels.N_CHANNELS,
        "embed_dim": config.encoder_dim,
        "depth": config.encoder_depth,
        "num_heads": config.encoder_heads,
        "decoder_embed_dim": config.decoder_dim,
        "decoder_depth": config.decoder_depth,
        "decoder_num_heads": config.decoder_heads,
        "mlp_ratio": float(config.mlp_ratio),
        "norm_pix_loss": False,
        "dropout_removal_ratio": config.removal_ratio,
        "mask_ratio": config.mask_ratio,
        "use_hybrid_loss": True,
    }
    if kind == "lsm2_sparse":
        settings |= {
            "num_days": config.n_days,
            "window_minutes": config.window_minutes,
            "use_rope_day_embed": True,
        }
    return settings
