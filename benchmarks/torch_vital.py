"""DLinear, PatchTST and iTransformer of VitalBench in plain PyTorch: what the JAX implementation is timed against.

The published models at their published sizes, restated from their description: every layer a stock module, attention
by two `einsum`, dropout 0.2. Written to be read; nothing is tuned. `make_step` gives one training step.

    python benchmarks/torch_vital.py [MODEL] [BATCH_SIZE]
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

CHANNELS, TARGETS, CONTEXT, HORIZON = 17, 8, 360, 12  # VitalDB at 5 seconds, one minute ahead
WIDTH, HIDDEN, HEADS, DEPTH, DROPOUT = 512, 512, 16, 2, 0.2
PATCH, STRIDE, WINDOW = 60, 30, 25


class DLinear(nn.Module):
    """Moving average and rest, one linear map over time each, the same for all channels."""

    learning_rate = 1e-4

    def __init__(self, horizon: int = HORIZON):
        super().__init__()
        self.seasonal, self.trend = nn.Linear(CONTEXT, horizon), nn.Linear(CONTEXT, horizon)
        for part in (self.seasonal, self.trend):
            nn.init.constant_(part.weight, 1 / CONTEXT)

    def forward(self, x):  # (B, L, K)
        half = WINDOW // 2
        padded = torch.cat([x[:, :1].expand(-1, half, -1), x, x[:, -1:].expand(-1, half, -1)], dim=1)
        trend = F.avg_pool1d(padded.transpose(1, 2), WINDOW, stride=1)
        return (self.seasonal(x.transpose(1, 2) - trend) + self.trend(trend)).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (f(x).view(batch, length, HEADS, -1) for f in (self.query, self.key, self.value))
        scores = torch.einsum("blhe,bshe->bhls", q, k) / math.sqrt(WIDTH / HEADS)
        weights = self.drop(scores.softmax(dim=-1))
        return self.out(torch.einsum("bhls,bshd->blhd", weights, v).reshape(x.shape))


class Layer(nn.Module):
    """Norms behind attention and behind the two linear maps."""

    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.expand, self.contract = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, x):
        x = self.norm1(x + self.drop(self.attention(x)))
        hidden = self.drop(F.gelu(self.expand(x)))
        return self.norm2(x + self.drop(self.contract(hidden)))


class Encoder(nn.Sequential):
    def __init__(self):
        super().__init__(*(Layer() for _ in range(DEPTH)), nn.LayerNorm(WIDTH))


class ITransformer(nn.Module):
    """Tokens are channels, and one more for the marks of time, which are zeros."""

    learning_rate = 5e-4

    def __init__(self, horizon: int = HORIZON):
        super().__init__()
        self.embed, self.encoder, self.head = nn.Linear(CONTEXT, WIDTH), Encoder(), nn.Linear(WIDTH, horizon)
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, x):
        tokens = F.pad(x.transpose(1, 2), (0, 0, 0, 1))
        return self.head(self.encoder(self.drop(self.embed(tokens))))[:, : x.shape[2]].transpose(1, 2)


class PatchTST(nn.Module):
    """Tokens are patches of one channel."""

    learning_rate = 5e-4

    def __init__(self, horizon: int = HORIZON):
        super().__init__()
        count = (CONTEXT - PATCH) // STRIDE + 2
        self.embed, self.encoder = nn.Linear(PATCH, WIDTH, bias=False), Encoder()
        self.head = nn.Linear(WIDTH * count, horizon)
        self.drop = nn.Dropout(DROPOUT)
        angles = torch.arange(count)[:, None] * torch.exp(
            torch.arange(0, WIDTH, 2) * (-math.log(1e4) / WIDTH)
        )
        self.register_buffer("places", torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))

    def forward(self, x):
        mean, deviation = (
            x.mean(1, keepdim=True).detach(),
            (x.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt(),
        )
        series = ((x - mean) / deviation).transpose(1, 2)  # (B, K, L)
        patches = F.pad(series, (0, STRIDE), mode="replicate").unfold(2, PATCH, STRIDE).flatten(0, 1)
        tokens = self.encoder(self.drop(self.embed(patches) + self.places))  # (B K, P, D)
        y = self.drop(self.head(tokens.transpose(1, 2).flatten(1)))
        return y.view(*series.shape[:2], -1).transpose(1, 2) * deviation + mean


MODELS = {"dlinear": DLinear, "patchtst": PatchTST, "itransformer": ITransformer}


def masked_mse(found, wanted):
    """Mean over the observed entries of the targets, the last channels."""
    observed = (wanted != 0).float()
    return (observed * (found[:, :, -TARGETS:] - wanted) ** 2).sum() / observed.sum().clamp(min=1)


def made_windows(batch_size: int, horizon: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise, a quarter of it missing."""
    values = torch.rand(batch_size, CONTEXT + horizon, CHANNELS)
    values[torch.rand(values.shape) < 0.25] = 0.0
    return values[:, :CONTEXT].contiguous(), values[:, CONTEXT:, -TARGETS:].contiguous()


def make_step(
    batch_size: int,
    *,
    model: str = "patchtst",
    horizon: int = HORIZON,
    seed: int = 0,
    threads: int | None = None,
) -> Callable[[], float]:
    """One Adam training step (forward, masked loss, backward, update) on a fixed batch; returns its loss.

    `threads` are all cores of the process unless given.
    """
    torch.set_num_threads(threads or len(os.sched_getaffinity(0)))
    torch.manual_seed(seed)
    module = MODELS[model](horizon).train()
    optimizer = torch.optim.Adam(module.parameters(), lr=module.learning_rate)
    x, y = made_windows(batch_size, horizon)

    def step() -> float:
        loss = masked_mse(module(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else "patchtst"
    batch_size = int(sys.argv[2]) if len(sys.argv) > 2 else 512
    step = make_step(batch_size, model=model)
    step()
    begin = time.perf_counter()
    loss = step()
    seconds = time.perf_counter() - begin
    print(
        f"{model}, batch {batch_size}: {seconds:.3f} s/step, {torch.get_num_threads()} threads, loss {loss:.4f}"
    )


if __name__ == "__main__":
    main()
