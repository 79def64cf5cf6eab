"""WBM, the bidirectional Mamba-2 encoder of weeks, in plain PyTorch: what the JAX implementation is timed and
checked against.

The published OpenMHC model restated from its description, with the parameter names of its checkpoint. The scan is
the chunked form of the Mamba-2 paper (Dao & Gu 2024, section 6: within chunks by matrix products, between chunks by
their states), the one people use where the fused kernels do not run. `make_step` gives one training step.

    python benchmarks/torch_wbm.py [BATCH_SIZE]
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

N_CHANNELS = 19
HOURS = 168
# Two chunks a week. On CPUs 56 is as fast; 64 pads the week, and it, 42 and 168 are slower.
CHUNK = 84


def segment_sums(x: torch.Tensor) -> torch.Tensor:
    """(..., T) -> (..., T, T): at (t, s) the sum of x over (s, t], -inf where s > t."""
    total = x.cumsum(dim=-1)
    length = x.shape[-1]
    causal = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
    return (total[..., :, None] - total[..., None, :]).masked_fill(~causal, float("-inf"))


def ssd(x, log_decay, b, c, chunk: int = CHUNK) -> torch.Tensor:
    """y_t = C_t H_t with H_t = exp(log_decay_t) H_{t-1} + x_t B_t^T, chunk by chunk.

    x (B, T, N, P), log_decay (B, T, N), b and c (B, T, S), shared by the heads. Returns (B, T, N, P).
    """
    batch, length, heads, width = x.shape
    short = -length % chunk
    if short:
        x, log_decay = F.pad(x, (0, 0, 0, 0, 0, short)), F.pad(log_decay, (0, 0, 0, short))
        b, c = F.pad(b, (0, 0, 0, short)), F.pad(c, (0, 0, 0, short))
    x = x.reshape(batch, -1, chunk, heads, width).permute(0, 3, 1, 2, 4)  # (B, N, chunks, L, P)
    b, c = (part.reshape(batch, 1, -1, chunk, part.shape[-1]) for part in (b, c))  # (B, 1, chunks, L, S)
    log_decay = log_decay.reshape(batch, -1, chunk, heads).permute(0, 3, 1, 2)  # (B, N, chunks, L)
    total = log_decay.cumsum(dim=-1)

    # within a chunk
    inside = (c @ b.transpose(-1, -2) * segment_sums(log_decay).exp()) @ x

    # the state (P, S) that each chunk leaves, and what the chunks before hand on
    to_end = (total[..., -1:] - total).exp()
    states = (x * to_end[..., None]).transpose(-1, -2) @ b
    states = torch.cat([torch.zeros_like(states[:, :, :1]), states], dim=2)
    between = segment_sums(F.pad(total[..., -1], (1, 0))).exp()  # (B, N, chunks + 1, chunks + 1)
    states = torch.einsum("bnij,bnjps->bnips", between, states)[:, :, :-1]
    outside = c @ states.transpose(-1, -2) * total.exp()[..., None]

    return (inside + outside).permute(0, 2, 3, 1, 4).reshape(batch, -1, heads, width)[:, :length]


class GatedNorm(nn.Module):
    """RMS norm of y * silu(z)."""

    def __init__(self, dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, y, z):
        y = y * F.silu(z)
        return y * torch.rsqrt(y.square().mean(dim=-1, keepdim=True) + 1e-5) * self.weight


class Mamba2(nn.Module):
    """One direction; library defaults of Mamba-2."""

    def __init__(self, dim: int, *, d_state: int, d_conv: int, expand: int, head_dim: int):
        super().__init__()
        self.inner, self.d_state, self.head_dim = expand * dim, d_state, head_dim
        n_heads = self.inner // head_dim
        mixed = self.inner + 2 * d_state
        self.in_proj = nn.Linear(dim, self.inner + mixed + n_heads, bias=False)
        self.conv1d = nn.Conv1d(mixed, mixed, d_conv, groups=mixed, padding=d_conv - 1)
        step = torch.exp(torch.empty(n_heads).uniform_(math.log(1e-3), math.log(0.1))).clamp(min=1e-4)
        self.dt_bias = nn.Parameter(step + torch.log(-torch.expm1(-step)))
        self.A_log = nn.Parameter(torch.empty(n_heads).uniform_(1, 16).log())
        self.D = nn.Parameter(torch.ones(n_heads))
        self.norm = GatedNorm(self.inner)
        self.out_proj = nn.Linear(self.inner, dim, bias=False)

    def forward(self, u):
        length = u.shape[1]
        z, xbc, dt = self.in_proj(u).split([self.inner, self.inner + 2 * self.d_state, len(self.D)], dim=-1)
        xbc = F.silu(self.conv1d(xbc.transpose(1, 2))[..., :length].transpose(1, 2))
        x, b, c = xbc.split([self.inner, self.d_state, self.d_state], dim=-1)
        dt = F.softplus(dt + self.dt_bias)  # (B, T, N)
        x = x.unflatten(-1, (-1, self.head_dim))
        y = ssd(x * dt[..., None], -self.A_log.exp() * dt, b, c) + self.D[:, None] * x
        return self.out_proj(self.norm(y.flatten(2), z))


class BiMamba(nn.Module):
    """Both directions, then a feed-forward part; norms after the sums."""

    def __init__(self, dim: int, *, ffn_ratio: int, dropout: float, **options):
        super().__init__()
        self.fwd = Mamba2(dim, **options)
        self.bwd = Mamba2(dim, **options)
        self.proj = nn.Linear(2 * dim, dim)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.ffn = nn.Sequential(
            nn.Linear(dim, ffn_ratio * dim), nn.GELU(), nn.Dropout(dropout), nn.Linear(ffn_ratio * dim, dim)
        )
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        y = self.proj(torch.cat([self.fwd(x), self.bwd(x.flip(1)).flip(1)], dim=-1))
        x = self.norm1(x + self.drop(y))
        return self.norm2(x + self.drop(self.ffn(x)))


class Tokenizer(nn.Module):
    def __init__(self, n_in: int, hidden: int, dim: int):
        super().__init__()
        self.fc1 = nn.Linear(n_in, hidden)
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class WBM(nn.Module):
    """Week vectors from hourly values and missing flags; the defaults are the published sizes."""

    def __init__(
        self, *, dim=256, tokenizer_hidden=64, depth=4, ffn_ratio=4, dropout=0.223, projection_dim=128,
        d_state=128, d_conv=4, expand=2, head_dim=64,
    ):  # fmt: skip
        super().__init__()
        self.tokenizer = Tokenizer(2 * N_CHANNELS, tokenizer_hidden, dim)
        mixer = dict(d_state=d_state, d_conv=d_conv, expand=expand, head_dim=head_dim)
        self.backbone = nn.ModuleList(
            BiMamba(dim, ffn_ratio=ffn_ratio, dropout=dropout, **mixer) for _ in range(depth)
        )
        self.proj_head = nn.Sequential(nn.Linear(dim, projection_dim))

    def steps(self, tokens):
        """(B, T, 38) -> (B, T, dim)."""
        x = self.tokenizer(tokens)
        for block in self.backbone:
            x = block(x)
        return x

    def encode(self, tokens, keep=None):
        """Mean over the kept steps, all without a mask: (B, T, 38), (B, T) -> (B, dim)."""
        steps = self.steps(tokens)
        if keep is None:
            return steps.mean(dim=1)
        keep = keep.float()[..., None]
        return (steps * keep).sum(dim=1) / keep.sum(dim=1).clamp(min=1)

    def project(self, r):
        return F.normalize(self.proj_head(r), dim=-1)


def info_nce(first, second, participant, temperature: float = 0.2):
    """Symmetric contrast of two views; weeks of the same participant are no negatives."""
    scores = first @ second.T / temperature
    same = participant[:, None] == participant[None, :]
    same.fill_diagonal_(False)
    positive = scores.diagonal()
    rows = scores.masked_fill(same, float("-inf")).logsumexp(dim=1)
    columns = scores.masked_fill(same, float("-inf")).logsumexp(dim=0)
    return -(2 * positive - rows - columns).mean() / 2


def koleo(h, epsilon: float = 1e-8):
    """Minus the mean logarithm of the squared distance to the nearest other vector."""
    distances = (h[:, None] - h[None, :]).square().sum(dim=-1)
    distances = distances + torch.diag(torch.full((len(h),), float("inf"), device=h.device))
    return -(distances.amin(dim=1) + epsilon).log().mean()


def contrastive_loss(first, second, participant, koleo_weight: float = 0.689):
    """InfoNCE and KoLeo of the normalised vectors of two views."""
    return info_nce(first, second, participant) + koleo_weight * (koleo(first) + koleo(second)) / 2


def made_weeks(batch_size: int) -> torch.Tensor:
    """Weeks of noise with missing hours: (B, 168, 38), values (zero where missing) and missing flags."""
    values = torch.randn(batch_size, HOURS, N_CHANNELS)
    missing = torch.rand(batch_size, HOURS, N_CHANNELS) < 0.2
    return torch.cat([values.masked_fill(missing, 0.0), missing.float()], dim=-1)


def make_step(batch_size: int, *, token_drop=0.223, seed=0, threads=None, **sizes) -> Callable[[], float]:
    """One AdamW training step (two views, forward, loss, backward, update) on fixed weeks; returns its loss.

    Sizes are the published ones unless given. `threads` are all cores of the process unless given.
    """
    torch.set_num_threads(threads or len(os.sched_getaffinity(0)))
    torch.manual_seed(seed)
    model = WBM(**sizes).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.05)
    weeks = made_weeks(batch_size)
    participant = torch.arange(batch_size)

    def step() -> float:
        both = weeks.repeat(2, 1, 1)
        keep = torch.rand(both.shape[:2]) >= token_drop
        first, second = model.project(model.encode(both, keep)).chunk(2)
        loss = contrastive_loss(first, second, participant)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def main() -> None:
    batch_size = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    step = make_step(batch_size)
    step()
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        loss = step()
        times.append(time.perf_counter() - begin)
    median = sorted(times)[len(times) // 2]
    print(f"batch {batch_size}: {median:.3f} s/step, {torch.get_num_threads()} threads, loss {loss:.4f}")


if __name__ == "__main__":
    main()
