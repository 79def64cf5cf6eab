"""Small stand-ins for the interfaces of toto-ts and chronos-forecasting, as far as the predictors use them."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import ClassVar

import torch

SIZES = {"patch_size": 8, "embed_dim": 6, "output_distribution_classes": ["any"]}
CHRONOS_SIZES = {"d_model": 5, "context_length": 48, "output_patch_size": 16}


class _Scaler(torch.nn.Module):
    def forward(self, inputs, weights, padding_mask, prefix_length):
        assert weights.shape == inputs.shape == padding_mask.shape
        assert padding_mask.dtype == torch.bool
        assert prefix_length is None
        count = padding_mask.sum(-1, keepdim=True).clamp(min=1)
        loc = (inputs * padding_mask).sum(-1, keepdim=True) / count
        scale = ((inputs - loc) ** 2 * padding_mask).sum(-1, keepdim=True).div(count).sqrt() + 0.1
        return (inputs - loc) / scale, loc, scale


class _PatchEmbedding(torch.nn.Module):
    def __init__(self, patch_size, embed_dim):
        super().__init__()
        self.patch_size = patch_size
        self.projection = torch.nn.Linear(patch_size, embed_dim)

    def forward(self, x, id_mask):
        return self.projection(x.unfold(-1, self.patch_size, self.patch_size)), id_mask[
            ..., :: self.patch_size
        ]


class _Transformer(torch.nn.Module):
    def __init__(self, embed_dim):
        super().__init__()
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(embed_dim, embed_dim), torch.nn.Tanh(), torch.nn.Linear(embed_dim, embed_dim)
        )
        self.layers = torch.nn.ModuleList([torch.nn.ModuleDict({"mlp": torch.nn.ModuleList([self.mlp])})])
        self.rotary = torch.nn.Parameter(torch.ones(2))

    def forward(self, tokens, id_mask, cache):
        assert cache is None
        assert (id_mask == 0).all()
        mixed = tokens + tokens.mean(dim=1, keepdim=True)  # over variates
        return self.mlp(mixed.cumsum(dim=2))


class TotoBackbone(torch.nn.Module):
    def __init__(
        self, patch_size, embed_dim, output_distribution_classes, use_memory_efficient_attention=True
    ):
        super().__init__()
        assert use_memory_efficient_attention is False
        self.embed_dim = embed_dim
        self.scaler = _Scaler()
        self.patch_embed = _PatchEmbedding(patch_size, embed_dim)
        self.transformer = _Transformer(embed_dim)
        self.dropout = torch.nn.Dropout(0.9)  # would show if the model were left in training mode


class Chronos2Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.config = types.SimpleNamespace(d_model=CHRONOS_SIZES["d_model"])
        self.chronos_config = types.SimpleNamespace(
            context_length=CHRONOS_SIZES["context_length"],
            output_patch_size=CHRONOS_SIZES["output_patch_size"],
        )
        self.embed = torch.nn.Linear(3, CHRONOS_SIZES["d_model"])
        self.calls: list[dict] = []

    def encode(self, context, group_ids, num_output_patches):
        self.calls.append({"context": context, "groups": group_ids, "future": num_output_patches})
        seen = ~torch.isnan(context)
        filled = torch.where(seen, context, 0.0)
        about = torch.stack([filled.sum(-1), seen.sum(-1).float(), group_ids.float() * 0], dim=-1)
        token = self.embed(about)
        tokens = torch.stack([token * k for k in range(3 + num_output_patches)], dim=1)
        return (tokens,), None, None, 3


class Chronos2Pipeline:
    loaded: ClassVar[list[tuple]] = []

    def __init__(self, model):
        self.model = model

    @classmethod
    def from_pretrained(cls, path, **options):
        cls.loaded.append((path, options))
        config = json.loads((Path(path) / "config.json").read_text())
        if config.get("model") != "chronos2":
            raise ValueError("Not a Chronos config file\nand more")
        return cls(Chronos2Model().to(options["dtype"]))


def install(monkeypatch) -> None:
    """Puts the stand-ins where the packages would be."""
    toto, model, backbone, chronos = (
        types.ModuleType(name) for name in ("toto", "toto.model", "toto.model.backbone", "chronos")
    )
    backbone.TotoBackbone = TotoBackbone  # type: ignore[attr-defined]
    chronos.Chronos2Pipeline = Chronos2Pipeline  # type: ignore[attr-defined]
    for module in (toto, model, backbone, chronos):
        monkeypatch.setitem(sys.modules, module.__name__, module)
