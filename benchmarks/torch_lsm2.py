"""LSM-2 in plain PyTorch: what the JAX implementation is timed and checked against.

The published OpenMHC models restated from their description, with the parameter names of their checkpoints: every
layer a stock module, attention by `F.scaled_dot_product_attention` with an additive key mask, dropout 0.1, token
removal by argsort and gather. Written to be read; nothing is tuned. `make_step` gives one training step.

    python benchmarks/torch_lsm2.py [BATCH_SIZE]
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

N_CHANNELS = 19
CONTINUOUS = 7  # the first so many channels; the others are 0/1
HEART_RATE = 5
PERIOD = 10000.0


def sincos(positions: torch.Tensor, dim: int) -> torch.Tensor:
    """Sines, then cosines, of each position: (n,) -> (n, dim), float32."""
    frequencies = PERIOD ** (-torch.arange(dim // 2, dtype=torch.float32) / (dim // 2))
    angles = positions.float()[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def grid_positions(n_rows: int, n_columns: int, dim: int) -> torch.Tensor:
    """Half of the features tells the row, half the column: (rows * columns, dim)."""
    rows = sincos(torch.arange(n_rows), dim // 2).repeat_interleave(n_columns, dim=0)
    columns = sincos(torch.arange(n_columns), dim // 2).repeat(n_rows, 1)
    return torch.cat([rows, columns], dim=1)


def rotate(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Rotary embedding, features i and i + half as pairs: x (B, N, T, H), angles (B, 1, T, H / 2)."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class PatchEmbed(nn.Module):
    """(B, channels, minutes) -> (B, channels * patches, dim); one map for all channels."""

    def __init__(self, patch: int, dim: int):
        super().__init__()
        self.proj = nn.Conv1d(1, dim, kernel_size=patch, stride=patch)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, minutes = x.shape
        tokens = self.proj(x.reshape(batch * rows, 1, minutes))  # (B C, D, T)
        return tokens.transpose(1, 2).reshape(batch, -1, tokens.shape[1])


class Attention(nn.Module):
    def __init__(self, dim: int, n_heads: int, dropout: float):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.n_heads, self.dropout = n_heads, dropout

    def forward(self, x, key_bias=None, angles=None):
        batch, length, dim = x.shape
        qkv = self.qkv(x).reshape(batch, length, 3, self.n_heads, dim // self.n_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # 3 x (B, N, T, H)
        if angles is not None:
            q, k = rotate(q, angles), rotate(k, angles)
        rate = self.dropout if self.training else 0.0
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=key_bias, dropout_p=rate)
        out = self.proj(out.transpose(1, 2).reshape(batch, length, dim))
        return F.dropout(out, self.dropout, self.training)


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, dim: int, n_heads: int, *, mlp_ratio: int, dropout: float):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, n_heads, dropout)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, mlp_ratio * dim), nn.GELU(), nn.Dropout(dropout),
            nn.Linear(mlp_ratio * dim, dim), nn.Dropout(dropout),
        )  # fmt: skip

    def forward(self, x, key_bias=None, angles=None):
        x = x + self.attn(self.norm1(x), key_bias, angles)
        return x + self.mlp(self.norm2(x))


class Stack(nn.Module):
    """Blocks and a final norm."""

    def __init__(self, dim: int, depth: int, n_heads: int, **options):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim, n_heads, **options) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, key_bias=None):
        for block in self.blocks:
            x = block(x, key_bias)
        return self.norm(x)


def start(module: nn.Module) -> None:
    """Published initial weights."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv1d):
            nn.init.trunc_normal_(part.weight, std=0.02)
            nn.init.zeros_(part.bias)
    nn.init.trunc_normal_(module.mask_token, std=0.02)


def gather(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Rows `index` (B, K) of tokens (B, T, D)."""
    return x.gather(1, index[..., None].expand(-1, -1, x.shape[-1]))


class _Masked(nn.Module):
    """What the daily and the sparse model share: the encoder, and the way into the decoder."""

    def __init__(
        self, *, minutes, patch, encoder_dim, encoder_depth, encoder_heads, decoder_dim, mlp_ratio, dropout
    ):
        super().__init__()
        self.patch, self.n_times = patch, minutes // patch
        self.patch_embed = PatchEmbed(patch, encoder_dim)
        self.encoder = Stack(encoder_dim, encoder_depth, encoder_heads, mlp_ratio=mlp_ratio, dropout=dropout)
        self.encoder_to_decoder = nn.Linear(encoder_dim, decoder_dim)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, decoder_dim))
        self.decoder_pred = nn.Linear(decoder_dim, patch)
        self.encoder_positions = grid_positions(N_CHANNELS, self.n_times, encoder_dim)
        self.decoder_positions = grid_positions(N_CHANNELS, self.n_times, decoder_dim)

    def encode(self, x, masked, keep):
        """Encoder output of the kept tokens; masked ones are never attended to."""
        tokens = gather(self.patch_embed(x) + self.encoder_positions, keep)
        hidden = masked.gather(1, keep)
        bias = torch.zeros(hidden.shape).masked_fill(hidden, float("-inf"))
        return self.encoder(tokens, bias[:, None, None, :])

    def decoder_input(self, encoded, masked, order):
        """Kept tokens at their places, the mask token at the removed and the masked ones, and positions."""
        tokens = self.encoder_to_decoder(encoded)
        batch, n_kept, dim = tokens.shape
        removed = self.mask_token.expand(batch, order.shape[1] - n_kept, dim)
        tokens = gather(torch.cat([tokens, removed], dim=1), order.argsort(dim=1))
        return torch.where(masked[..., None], self.mask_token, tokens) + self.decoder_positions

    def whole(self, masked):
        return torch.arange(masked.shape[1]).expand(masked.shape)


class LSM2(_Masked):
    """Daily model, or dense weekly model with minutes=10080 and patch=60."""

    def __init__(
        self, *, minutes=1440, patch=10, encoder_dim=384, encoder_depth=12, encoder_heads=6,
        decoder_dim=256, decoder_depth=4, decoder_heads=4, mlp_ratio=4, dropout=0.1,
    ):  # fmt: skip
        super().__init__(
            minutes=minutes, patch=patch, encoder_dim=encoder_dim, encoder_depth=encoder_depth,
            encoder_heads=encoder_heads, decoder_dim=decoder_dim, mlp_ratio=mlp_ratio, dropout=dropout,
        )  # fmt: skip
        self.decoder = Stack(decoder_dim, decoder_depth, decoder_heads, mlp_ratio=mlp_ratio, dropout=dropout)
        start(self)

    def forward(self, x, masked, order=None, n_kept=None):
        """Predicted patches (B, tokens, patch) from values (B, 19, minutes), zero where missing.

        `order` ranks the tokens and the first `n_kept` are encoded; without it all are.
        """
        order = self.whole(masked) if order is None else order
        encoded = self.encode(x, masked, order[:, :n_kept])
        return self.decoder_pred(self.decoder(self.decoder_input(encoded, masked, order)))

    def reconstruct(self, x, missing):
        """Imputation: z-scores of continuous channels, probabilities of the others, for every minute."""
        values = torch.where(missing, 0.0, x)
        predicted = self(values, inherited_mask(missing, self.patch)).reshape(x.shape)
        return torch.cat([predicted[:, :CONTINUOUS], predicted[:, CONTINUOUS:].sigmoid()], dim=1)


class LSM2Sparse(_Masked):
    """Seven-day model: daily encoder, decoder layers within a day and across days in turns."""

    def __init__(
        self, *, minutes=1440, patch=10, encoder_dim=384, encoder_depth=12, encoder_heads=6,
        decoder_dim=256, decoder_depth=4, decoder_heads=4, mlp_ratio=4, dropout=0.1, n_days=7, window_minutes=120,
    ):  # fmt: skip
        super().__init__(
            minutes=minutes, patch=patch, encoder_dim=encoder_dim, encoder_depth=encoder_depth,
            encoder_heads=encoder_heads, decoder_dim=decoder_dim, mlp_ratio=mlp_ratio, dropout=dropout,
        )  # fmt: skip
        self.n_days, self.window = n_days, window_minutes // patch

        def blocks(n):
            made = (Block(decoder_dim, decoder_heads, mlp_ratio=mlp_ratio, dropout=dropout) for _ in range(n))
            return nn.ModuleList(made)

        self.decoder_local_blocks = blocks((decoder_depth + 1) // 2)
        self.decoder_cross_blocks = blocks(decoder_depth // 2)
        self.decoder_norm = nn.LayerNorm(decoder_dim)
        self.head_dim = decoder_dim // decoder_heads
        start(self)

    def forward(self, x, masked, day_offsets=None, order=None, n_kept=None):
        """Weekly patches (B, 19 * days * times, patch) from values (B, 19, days * minutes), zero where missing.

        `masked` and `order` are those of single days, (B * days, 19 * times); day_offsets (B, days).
        """
        batch = x.shape[0]
        days = x.reshape(batch, N_CHANNELS, self.n_days, -1).transpose(1, 2).flatten(0, 1)
        order = self.whole(masked) if order is None else order
        encoded = self.encode(days, masked, order[:, :n_kept]).detach()  # the encoder is frozen
        tokens = self.decoder_input(encoded, masked, order)
        if day_offsets is None:
            day_offsets = torch.arange(self.n_days).expand(batch, -1)
        angles = self.angles(day_offsets)
        for layer in range(len(self.decoder_local_blocks) + len(self.decoder_cross_blocks)):
            if layer % 2 == 0:
                tokens = self.decoder_local_blocks[layer // 2](tokens)
            else:
                tokens = self.ungroup(
                    self.decoder_cross_blocks[layer // 2](self.group(tokens), angles=angles)
                )
        tokens = (
            tokens.reshape(batch, self.n_days, N_CHANNELS, self.n_times, -1).transpose(1, 2).flatten(1, 3)
        )
        return self.decoder_pred(self.decoder_norm(tokens))

    def group(self, tokens):
        """(B days, C times, D) -> (B windows, days C patches-in-window, D)."""
        parts = tokens.reshape(
            -1, self.n_days, N_CHANNELS, self.n_times // self.window, self.window, tokens.shape[-1]
        )
        return parts.permute(0, 3, 1, 2, 4, 5).flatten(2, 4).flatten(0, 1)

    def ungroup(self, tokens):
        parts = tokens.reshape(
            -1, self.n_times // self.window, self.n_days, N_CHANNELS, self.window, tokens.shape[-1]
        )
        return parts.permute(0, 2, 3, 1, 4, 5).flatten(2, 4).flatten(0, 1)

    def angles(self, day_offsets):
        """Rotation of each token of a window by the day it is from: (B windows, 1, T, H / 2)."""
        half = self.head_dim // 2
        frequencies = PERIOD ** (-torch.arange(half, dtype=torch.float32) / half)
        by_day = day_offsets.clamp(0, 364).float()[..., None] * frequencies
        by_token = by_day.repeat_interleave(N_CHANNELS * self.window, dim=1)
        return by_token.repeat_interleave(self.n_times // self.window, dim=0)[:, None]


def inherited_mask(missing: torch.Tensor, patch: int) -> torch.Tensor:
    """Patches with a missing minute; of heart rate, those with nothing but. (B, C, M) -> (B, C * M / patch)."""
    by_patch = missing.reshape(*missing.shape[:2], -1, patch)
    masked = by_patch.any(dim=-1)
    masked[:, HEART_RATE] = by_patch[:, HEART_RATE].all(dim=-1)
    return masked.flatten(1)


def artificial_mask(batch: int, n_times: int, ratio: float) -> torch.Tensor:
    """One strategy an example: random tokens, time slices, or channels. (B, C * times)."""
    cells = torch.rand(batch, N_CHANNELS, n_times) < ratio
    times = (torch.rand(batch, 1, n_times) < 0.5).expand_as(cells)
    rows = (torch.rand(batch, N_CHANNELS, 1) < 0.5).expand_as(cells)
    strategy = torch.randint(3, (batch, 1, 1))
    return torch.where(strategy == 0, cells, torch.where(strategy == 1, times, rows)).flatten(1)


def hybrid_loss(predicted, target, artificial, inherited):
    """Mean over the patches hidden on purpose of squared error (continuous) or cross-entropy (0/1)."""
    shape = (target.shape[0], N_CHANNELS, -1, target.shape[-1])
    predicted, target = predicted.reshape(shape), target.reshape(shape)
    squared = (predicted[:, :CONTINUOUS] - target[:, :CONTINUOUS]) ** 2
    counted = torch.ones_like(squared)
    counted[:, HEART_RATE] = (target[:, HEART_RATE] != 0).float()
    squared = (squared * counted).sum(dim=-1) / counted.sum(dim=-1).clamp(min=1)
    entropy = F.binary_cross_entropy_with_logits(
        predicted[:, CONTINUOUS:], target[:, CONTINUOUS:].clamp(0, 1), reduction="none"
    ).mean(dim=-1)
    losses = torch.cat([squared, entropy], dim=1).flatten(1)
    scored = (artificial & ~inherited).float()
    return losses.mean() if scored.sum() == 0 else (losses * scored).sum() / scored.sum()


def made_days(batch_size: int, minutes: int) -> torch.Tensor:
    """Days of noise, NaN where missing: the watch is off for the first quarter."""
    values = torch.rand(batch_size, N_CHANNELS, minutes)
    values[:, [0, 5, 6, *range(7, N_CHANNELS)], : minutes // 4] = float("nan")
    return values


def make_step(
    batch_size: int, *, mask_ratio=0.5, removal_ratio=0.5, seed=0, threads=None, **sizes
) -> Callable[[], float]:
    """One AdamW training step (masks, forward, loss, backward, update) on a fixed batch; returns its loss.

    Sizes are the published ones unless given. `threads` are all cores of the process unless given.
    """
    torch.set_num_threads(threads or len(os.sched_getaffinity(0)))
    torch.manual_seed(seed)
    model = LSM2(**sizes).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.05)
    days = made_days(batch_size, sizes.get("minutes", 1440))

    def step() -> float:
        missing = days.isnan()
        values = torch.where(missing, 0.0, days)
        inherited = inherited_mask(missing, model.patch)
        artificial = artificial_mask(batch_size, model.n_times, mask_ratio)
        masked = inherited | artificial
        order = (100.0 * masked + torch.rand(masked.shape)).argsort(dim=1)
        n_kept = int(masked.shape[1] * (1 - removal_ratio))
        predicted = model(values, masked, order, n_kept)
        target = values.reshape(batch_size, -1, model.patch)
        loss = hybrid_loss(predicted, target, artificial, inherited)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def main() -> None:
    batch_size = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    step = make_step(batch_size)
    step()
    begin = time.perf_counter()
    loss = step()
    seconds = time.perf_counter() - begin
    print(f"batch {batch_size}: {seconds:.2f} s/step, {torch.get_num_threads()} threads, loss {loss:.4f}")


if __name__ == "__main__":
    main()
