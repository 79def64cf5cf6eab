"""Pre-norm transformer stack: parameters of all layers stacked, run as a loop or as a scan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, UInt32

from wearjax.errors import ConfigError
from wearjax.layers import attention, dropout, linear, rope
from wearjax.layers.linear import LayerNorm, Linear

Remat = Literal["none", "full", "attn_out"]


class SelfAttention(nnx.Module):
    """Multi-head self-attention with one fused projection (order q, k, v; heads major inside each)."""

    def __init__(self, dim: int, n_heads: int, *, dropout_rate=0.0, implementation="auto", block=None,
                 dtype=jnp.float32, rngs: nnx.Rngs):  # fmt: skip
        if dim % n_heads:
            raise ConfigError(f"attention: dim {dim} is not divisible by {n_heads} heads")
        self.qkv = Linear(dim, 3 * dim, dtype=dtype, rngs=rngs)
        self.proj = Linear(dim, dim, dtype=dtype, rngs=rngs)
        self.n_heads = n_heads
        self.dropout_rate = dropout_rate
        self.implementation = implementation
        self.block = block

    def __call__(
        self,
        x: Float[Array, "B T D"],
        *,
        key_mask: Bool[Array, "B T"] | None = None,
        angles: Float[Array, "B T half"] | None = None,
        stream: dropout.WordStream | None = None,
    ) -> Float[Array, "B T D"]:
        """Attend; `angles` turn queries and keys of every head (`wearjax.layers.rope`)."""
        batch, length, dim = x.shape
        # (B, T, 3 N H) -> 3 x (B, N, T, H); `split`, since its gradient is one concatenation
        parts = jax.lax.split(self.qkv(x), [dim] * 3, axis=2)
        q, k, v = (part.reshape(batch, length, self.n_heads, -1).transpose(0, 2, 1, 3) for part in parts)
        if angles is not None:
            q, k = (rope.rotate(part, angles[:, None]) for part in (q, k))
        out = attention.attend(
            q, k, v, key_mask=key_mask, dropout_rate=self.dropout_rate, stream=stream,
            implementation=self.implementation, block=self.block,
        )  # fmt: skip
        out = out.transpose(0, 2, 1, 3).reshape(batch, length, dim)
        return dropout.dropout(self.proj(out), rate=self.dropout_rate, stream=stream)


class Mlp(nnx.Module):
    """Linear - exact GELU - dropout - linear - dropout."""

    def __init__(self, dim: int, hidden: int, *, dropout_rate=0.0, dtype=jnp.float32, rngs: nnx.Rngs):
        self.fc1 = Linear(dim, hidden, dtype=dtype, rngs=rngs)
        self.fc2 = Linear(hidden, dim, dtype=dtype, rngs=rngs)
        self.dropout_rate = dropout_rate

    def __call__(
        self, x: Float[Array, "B T D"], *, stream: dropout.WordStream | None = None
    ) -> Float[Array, "B T D"]:
        hidden = self.fc1(x)
        words = stream.take_pair(hidden.shape) if stream is not None and self.dropout_rate > 0.0 else None

        # Of the widest arrays of a block only the input of the GELU is kept; the rest is cheap to repeat.
        @jax.checkpoint
        def contract(hidden, words, fc2):
            hidden = linear.gelu(hidden)
            if words is not None:
                hidden = dropout.drop(hidden, *words, self.dropout_rate)
            return nnx.merge(graph, fc2)(hidden)

        graph, fc2 = nnx.split(self.fc2)
        return dropout.dropout(contract(hidden, words, fc2), rate=self.dropout_rate, stream=stream)


def n_dropout_words(length: int, dim: int, n_heads: int, mlp_ratio: int) -> int:
    """Random words one block takes for its four dropouts: of attention, projection, MLP hidden and output."""
    return 2 * n_heads * length + 3 * length + dim * (2 + mlp_ratio)


def flops(tokens: int, dim: int, *, mlp_ratio: int = 4) -> int:
    """Forward FLOP of one block and example: projections 8 T D^2, attention 4 T^2 D, MLP 4 ratio T D^2."""
    return tokens * dim * dim * (8 + 4 * mlp_ratio) + 4 * tokens * tokens * dim


class Block(nnx.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)); the residual stream stays float32."""

    def __init__(self, dim: int, n_heads: int, *, mlp_ratio=4, dropout_rate=0.0, implementation="auto",
                 block=None, dtype=jnp.float32, rngs: nnx.Rngs):  # fmt: skip
        self.norm1 = LayerNorm(dim, dtype=dtype, rngs=rngs)
        self.attn = SelfAttention(
            dim, n_heads, dropout_rate=dropout_rate, implementation=implementation, block=block,
            dtype=dtype, rngs=rngs,
        )  # fmt: skip
        self.norm2 = LayerNorm(dim, dtype=dtype, rngs=rngs)
        self.mlp = Mlp(dim, mlp_ratio * dim, dropout_rate=dropout_rate, dtype=dtype, rngs=rngs)

    def __call__(
        self,
        x: Float[Array, "B T D"],
        *,
        key_mask: Bool[Array, "B T"] | None = None,
        angles: Float[Array, "B T half"] | None = None,
        stream: dropout.WordStream | None = None,
    ) -> Float[Array, "B T D"]:
        x = x + self.attn(self.norm1(x), key_mask=key_mask, angles=angles, stream=stream)
        return x + self.mlp(self.norm2(x), stream=stream)


def create_stacked(depth: int, dim: int, n_heads: int, *, rngs: nnx.Rngs, **choices) -> Block:
    """`depth` blocks as one whose parameters have a leading layer axis; `choices` as for `Block`."""

    @nnx.split_rngs(splits=depth)
    @nnx.vmap
    def create(rngs: nnx.Rngs) -> Block:
        return Block(dim, n_heads, rngs=rngs, **choices)

    return create(rngs)


def unstack(stacked, depth: int) -> Iterator:
    """The parameters of one layer after the other, from stacked ones."""
    # `split` and not indexing: its gradient is one concatenation, not a chain of padded sums.
    parts = jax.tree.map(lambda p: jax.lax.split(p, [1] * depth), stacked)
    for index in range(depth):
        yield jax.tree.map(lambda _, part, i=index: part[i][0], stacked, parts)


def layer_words(
    keys: jax.Array, depth: int, length: int, dim: int, *, n_heads: int, mlp_ratio: int
) -> UInt32[Array, "depth B n"]:
    """The random words of all dropouts of `depth` blocks, from one key an example."""
    n = n_dropout_words(length, dim, n_heads, mlp_ratio)
    return dropout.draw_words(keys, depth * n).reshape(len(keys), depth, n).swapaxes(0, 1)


def checkpointed(function, remat: Remat, *, in_scan: bool):
    """`function` with nothing, everything, or all but the attention output recomputed in the backward pass."""
    if remat == "none":
        return function
    policy = jax.checkpoint_policies.save_only_these_names("attn_out") if remat == "attn_out" else None
    return jax.checkpoint(function, policy=policy, prevent_cse=not in_scan)


class TransformerStack(nnx.Module):
    """`depth` blocks and a final layer norm.

    The parameters of the blocks are stacked on a leading axis whether the stack runs as a loop (fastest on
    CPUs) or as a scan (compiles once a layer, and remat saves memory), so both read the same checkpoint.

    Args:
        remat: what the backward pass recomputes: `none`, `full` (whole blocks), or `attn_out` (all but the
            attention outputs, which are what is dear to recompute).
    """

    def __init__(self, dim: int, depth: int, n_heads: int, *, mlp_ratio=4, dropout_rate=0.0,
                 scan_layers=False, remat: Remat = "none", implementation="auto", block=None,
                 dtype=jnp.float32, rngs: nnx.Rngs):  # fmt: skip
        if remat not in ("none", "full", "attn_out"):
            raise ConfigError(f"remat: expected none, full or attn_out, got {remat!r}")
        self.blocks = create_stacked(
            depth, dim, n_heads, mlp_ratio=mlp_ratio, dropout_rate=dropout_rate,
            implementation=implementation, block=block, dtype=dtype, rngs=rngs,
        )  # fmt: skip
        self.norm = LayerNorm(dim, dtype=dtype, rngs=rngs)
        self.depth = depth
        self.n_heads = n_heads
        self.mlp_ratio = mlp_ratio
        self.dropout_rate = dropout_rate
        self.scan_layers = scan_layers
        self.remat = remat

    def __call__(
        self,
        x: Float[Array, "B T D"],
        *,
        key_mask: Bool[Array, "B T"] | None = None,
        keys: jax.Array | None = None,
    ) -> Float[Array, "B T D"]:
        """Run the stack.

        Args:
            key_mask: tokens that may be attended to.
            keys: one dropout key an example; None is evaluation.
        """
        graph, stacked = nnx.split(self.blocks)

        def run(x, layer, words):
            stream = None if words is None else dropout.WordStream(words)
            return nnx.merge(graph, layer)(x, key_mask=key_mask, stream=stream)

        x = x.astype(jnp.float32)
        words = self._words(keys, x.shape)
        run = checkpointed(run, self.remat, in_scan=self.scan_layers)
        if self.scan_layers:
            x, _ = jax.lax.scan(lambda x, xs: (run(x, *xs), None), x, (stacked, words))
        else:
            for index, layer in enumerate(unstack(stacked, self.depth)):
                x = run(x, layer, None if words is None else words[index])
        return self.norm(x)

    def _words(self, keys, shape) -> UInt32[Array, "depth B n"] | None:
        if keys is None or self.dropout_rate == 0.0:
            return None
        return layer_words(keys, self.depth, *shape[1:], n_heads=self.n_heads, mlp_ratio=self.mlp_ratio)
