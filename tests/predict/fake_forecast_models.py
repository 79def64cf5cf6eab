"""Small stand-ins for the interfaces of toto-ts and chronos-forecasting, as far as the forecasters use them."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import fake_foundation
import numpy as np
import torch

DECILES = [i / 10 for i in range(1, 10)]


class Gaussian(torch.nn.Module):
    """A distribution of each hour; with `spread` 0 every sample is its mean."""

    def __init__(self, width: int):
        super().__init__()
        self.mean = torch.nn.Linear(width, 1)
        self.spread = torch.nn.Parameter(torch.ones(()))

    def forward(self, features):
        mean = self.mean(features)[..., 0]
        if self.spread == 0:
            return types.SimpleNamespace(sample=lambda shape: mean.expand(*shape, *mean.shape))
        return torch.distributions.Normal(mean, self.spread.expand_as(mean))


class TotoBackbone(fake_foundation.TotoBackbone):
    """With the head that forecasts."""

    def __init__(
        self, patch_size, embed_dim, output_distribution_classes, use_memory_efficient_attention=True
    ):
        super().__init__(patch_size, embed_dim, output_distribution_classes, use_memory_efficient_attention)
        self.unembed = torch.nn.Linear(embed_dim, embed_dim * patch_size)
        self.output_distribution = Gaussian(embed_dim)
        self.calls: list[tuple] = []

    def backbone(self, inputs, input_padding_mask, id_mask, scaling_prefix_length=None):
        self.calls.append((inputs, input_padding_mask, scaling_prefix_length))
        prefix = slice(0, scaling_prefix_length)
        ones = torch.ones_like(inputs)
        _, loc, scale = self.scaler(
            inputs[..., prefix], ones[..., prefix], input_padding_mask[..., prefix], None
        )
        tokens, ids = self.patch_embed((inputs - loc) / scale, id_mask)
        encoded = self.unembed(self.dropout(self.transformer(tokens, ids, None)))
        features = encoded.unflatten(-1, (self.patch_embed.patch_size, self.embed_dim)).flatten(2, 3)
        return features, loc.expand_as(inputs), scale.expand_as(inputs)


class Chronos2Pipeline(fake_foundation.Chronos2Pipeline):
    """Forecasts the last measured value of a channel, plus the level; `fit` adds one to the weights."""

    model_context_length = 48
    quantiles = (0.01, *DECILES, 0.99)

    def __init__(self, model):
        super().__init__(model)
        self.calls: list[dict] = []
        self.fits: list[dict] = []

    def predict_quantiles(self, inputs, prediction_length, quantile_levels, **options):
        self.calls.append({"inputs": inputs, "levels": quantile_levels, **options})
        quantiles, means = [], []
        for series in inputs:
            assert series.dtype == np.float32
            filled = np.where(np.isfinite(series), series, 0)
            rows = torch.from_numpy(filled[:, -1:]).expand(-1, prediction_length)
            quantiles.append((rows[..., None] + torch.tensor(quantile_levels)).to(torch.float32))
            means.append(rows + 0.5)
        return quantiles, means

    def fit(self, inputs, prediction_length, **options):
        self.fits.append({"inputs": inputs, "horizon": prediction_length, **options})
        (watch,) = options["callbacks"]
        for step in range(1, options["num_steps"] + 1):
            state = types.SimpleNamespace(global_step=step, max_steps=options["num_steps"])
            watch.on_step_end(None, state, None)
            watch.on_log(None, state, None, logs={"loss": 1 / step})
        watch.on_log(None, state, None, logs={"train_runtime": 1.0})
        tuned = type(self)(fake_foundation.Chronos2Model())
        with torch.no_grad():
            for own, new in zip(self.model.parameters(), tuned.model.parameters(), strict=True):
                new.copy_(own + 1)
        if options["finetune_mode"] == "lora":
            tuned.model = types.SimpleNamespace(merge_and_unload=lambda model=tuned.model: model)
        return tuned

    def save_pretrained(self, path):
        Path(path).mkdir(parents=True)
        (Path(path) / "config.json").write_text(json.dumps({"model": "chronos2"}))
        torch.save(self.model.state_dict(), Path(path) / "weights.pt")


def install(monkeypatch) -> None:
    """Puts the stand-ins where the packages would be."""
    fake_foundation.install(monkeypatch)
    fake_foundation.Chronos2Pipeline.loaded = []
    monkeypatch.setattr(sys.modules["toto.model.backbone"], "TotoBackbone", TotoBackbone)
    monkeypatch.setattr(sys.modules["chronos"], "Chronos2Pipeline", Chronos2Pipeline)
    transformers, peft = types.ModuleType("transformers"), types.ModuleType("peft")
    transformers.TrainerCallback = type("TrainerCallback", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    monkeypatch.setitem(sys.modules, "peft", peft)


def toto_folder(folder: Path, *, seed: int = 0, spread: float = 1.0) -> TotoBackbone:
    """A checkpoint of the stand-in, and the model itself in evaluation mode."""
    from safetensors.torch import save_file

    torch.manual_seed(seed)
    model = TotoBackbone(**fake_foundation.SIZES, use_memory_efficient_attention=False).eval()
    with torch.no_grad():
        model.output_distribution.spread.fill_(spread)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(fake_foundation.SIZES))
    save_file({f"model.{k}": v.clone() for k, v in model.state_dict().items()}, folder / "model.safetensors")
    return model


def chronos_folder(folder: Path) -> Path:
    (folder / "checkpoint").mkdir(parents=True)
    (folder / "checkpoint" / "config.json").write_text('{"model": "chronos2"}')
    return folder


def history(hours: int, *, seed: int = 0) -> np.ndarray:
    """Hours with a missing channel and a gap."""
    values = np.random.default_rng(seed).normal(50, 5, (19, hours)).astype(np.float32)
    values[3] = np.nan
    values[:, hours // 3 : hours // 2] = np.nan
    return values
