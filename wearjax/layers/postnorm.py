"""Post-norm transformer encoder over short sequences, many of them to an example (Vaswani et al. 2017)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float

from wearjax.errors import ConfigError
from wearjax.layers import dropout, linear
from wearjax.layers.dense import Dense, Norm
from wearjax.layers.dropout import WordStream


class ShortAttention(nnx.Module):
    """Multi-head self-attention in its textbook form, the fastest one on CPUs for a dozen tokens a sequence.

    Tokens of an example are `groups` sequences one after another; each attends to its own tokens only.
    """

    def __init__(self, dim: int, n_heads: int, *, dropout_rate: float, rngs: nnx.Rngs):
        if dim % n_heads:
            raise ConfigError(f"model.n_heads: {n_heads} heads do not divide {dim} features")
        self.query, self.key, self.value, self.out = (Dense(dim, dim, rngs=rngs) for _ in range(4))
        self.n_heads = n_heads
        self.dropout_rate = dropout_rate

    def __call__(
        self,
        x: Float[Array, "B GT D"],
        *,
        groups: int,
        seen: Bool[Array, "T"] | None,
        stream: WordStream | None,
    ) -> Float[Array, "B GT D"]:
        batch, tokens, _ = x.shape
        length, wide = tokens // groups, jnp.promote_types(x.dtype, jnp.float32)
        # (B, G T, N H) -> (B G, T, N, H)
        split = lambda y: y.reshape(batch * groups, length, self.n_heads, -1)  # noqa: E731
        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = jnp.einsum("btnh,bsnh->bnts", q, k, preferred_element_type=wide)
        weights = jax.nn.softmax(scores * np.asarray(q.shape[-1] ** -0.5, wide), axis=-1, where=seen)
        if stream is not None and self.dropout_rate > 0.0:
            rows, columns = (stream.take(groups, self.n_heads, length) for _ in range(2))
            rows, columns = (w.reshape(batch * groups, self.n_heads, length) for w in (rows, columns))
            weights = dropout.drop(weights, rows[..., :, None], columns[..., None, :], self.dropout_rate)
        out = jnp.einsum("bnts,bsnh->btnh", weights.astype(x.dtype), v)
        return self.out(out.reshape(x.shape))


class PostNormLayer(nnx.Module):
    """x = norm(x + attention(x)), then x = norm(x + mlp(x)), dropout behind both."""

    def __init__(self, dim: int, n_heads: int, hidden: int, *, dropout_rate: float, rngs: nnx.Rngs):
        self.attention = ShortAttention(dim, n_heads, dropout_rate=dropout_rate, rngs=rngs)
        self.norm1, self.norm2 = Norm(dim), Norm(dim)
        self.expand, self.contract = Dense(dim, hidden, rngs=rngs), Dense(hidden, dim, rngs=rngs)
        self.dropout_rate = dropout_rate

    def __call__(
        self,
        x: Float[Array, "B GT D"],
        *,
        groups: int,
        seen: Bool[Array, "T"] | None,
        stream: WordStream | None,
    ) -> Float[Array, "B GT D"]:
        drop = lambda y: dropout.dropout(y, rate=self.dropout_rate, stream=stream)  # noqa: E731
        x = self.norm1(x + drop(self.attention(x, groups=groups, seen=seen, stream=stream)))
        hidden = drop(linear.gelu(self.expand(x)))
        return self.norm2(x + drop(self.contract(hidden)))


class PostNormEncoder(nnx.Module):
    """`depth` layers and a final norm.

    Args:
        hidden: width inside the two linear maps of a layer.
    """

    def __init__(
        self, dim: int, depth: int, n_heads: int, hidden: int, *, dropout_rate: float, rngs: nnx.Rngs
    ):
        self.layers = nnx.List(
            PostNormLayer(dim, n_heads, hidden, dropout_rate=dropout_rate, rngs=rngs) for _ in range(depth)
        )
        self.norm = Norm(dim)
        self.n_heads, self.hidden, self.dropout_rate = n_heads, hidden, dropout_rate

    def n_words(self, tokens: int, dim: int) -> int:
        """Random words that the dropouts of the encoder take for an example of so many tokens."""
        return len(self.layers) * (2 * self.n_heads * tokens + 3 * tokens + 2 * dim + self.hidden)

    def __call__(
        self,
        x: Float[Array, "B GT D"],
        *,
        groups: int = 1,
        seen: Bool[Array, "T"] | None = None,
        stream: WordStream | None = None,
    ) -> Float[Array, "B GT D"]:
        """Features of all tokens.

        Args:
            groups: sequences an example, one after another, that do not see each other.
            seen: tokens of a sequence that are attended to, at least one; None is all.
            stream: random words of the dropouts, `n_words` of them; None is evaluation.
        """
        for layer in self.layers:
            x = layer(x, groups=groups, seen=seen, stream=stream)
        return self.norm(x)


def flops(tokens: int, length: int, dim: int, hidden: int) -> int:
    """Forward FLOP of a layer and example: projections 8 T D^2, attention 4 T length D, linear maps 4 T D hidden."""
    return tokens * (8 * dim * dim + 4 * length * dim + 4 * dim * hidden)
