"""iTransformer: a transformer whose tokens are the channels, each with its whole window (Liu et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

from wearjax.layers import dense, dropout, postnorm, window_norm
from wearjax.models.vital import sizes


@dataclass(frozen=True)
class ITransformerConfig:
    """Sizes; the defaults are those of VitalBench at 5-second steps.

    Attributes:
        n_channels: channels of the centre; the model takes any number.
        context, horizon: steps of the window and of the forecast.
        depth: encoder layers.
        d_ff: hidden units between the two linear maps of a layer.
        dropout: of tokens, attention and both parts of a layer.
        normalise: by mean and deviation of each window.
    """

    n_channels: int
    context: int
    horizon: int
    d_model: int = 512
    depth: int = 2
    n_heads: int = 16
    d_ff: int = 512
    dropout: float = 0.2
    normalise: bool = False

    def __post_init__(self):
        sizes.check(self, at_least_1=("d_model", "depth", "n_heads", "d_ff"), rates=("dropout",))
        sizes.check_heads(self)


class ITransformer(nnx.Module):
    """Forecasts every channel from all of them, in any number."""

    def __init__(self, config: ITransformerConfig, *, rngs: nnx.Rngs):
        self.config = config
        self.embed = dense.Dense(config.context, config.d_model, rngs=rngs)
        self.encoder = postnorm.PostNormEncoder(
            config.d_model, config.depth, config.n_heads, config.d_ff, dropout_rate=config.dropout, rngs=rngs
        )
        self.head = dense.Dense(config.d_model, config.horizon, rngs=rngs)

    def __call__(
        self,
        x: Float[Array, "B L K"],
        *,
        kept: Int[Array, ""] | None = None,
        keys: jax.Array | None = None,
    ) -> Float[Array, "B T K"]:
        """Forecasts.

        Args:
            kept: the first so many channels are there, and nothing attends to the others; None is all.
            keys: one key an example for its dropouts; None is evaluation.
        """
        config = self.config
        sizes.check_input(config, x, any_channels=True)
        if config.normalise:
            x, scale = window_norm.normalise(x)
        n_channels = x.shape[2]
        # The marks of time are zeros: one more token, whose embedding is the bias.
        series = jnp.pad(x.swapaxes(1, 2), ((0, 0), (0, 1), (0, 0)))
        stream = self._stream(keys, n_channels + 1)
        tokens = dropout.dropout(self.embed(series), rate=config.dropout, stream=stream)
        place = np.arange(n_channels + 1)
        seen = None if kept is None else (place < kept) | (place == n_channels)
        y = self.head(self.encoder(tokens, seen=seen, stream=stream)[:, :n_channels]).swapaxes(1, 2)
        return window_norm.restore(y, scale) if config.normalise else y

    def _stream(self, keys: jax.Array | None, tokens: int) -> dropout.WordStream | None:
        if keys is None or self.config.dropout == 0.0:
            return None
        width = self.config.d_model
        n_words = tokens + width + self.encoder.n_words(tokens, width)
        return dropout.WordStream(dropout.draw_words(keys, n_words))


def training_flops(config: ITransformerConfig) -> int:
    """FLOP of one example's training step: products forward, and twice as many backward."""
    tokens = config.n_channels + 1
    layers = config.depth * postnorm.flops(tokens, tokens, config.d_model, config.d_ff)
    ends = 2 * tokens * config.d_model * (config.context + config.horizon)
    return 3 * (layers + ends)
