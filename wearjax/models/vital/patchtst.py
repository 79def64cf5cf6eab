"""PatchTST: a transformer over the patches of one channel, the same for all channels (Nie et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass

from flax import nnx

from wearjax.layers import postnorm
from wearjax.models.vital import patches, sizes


@dataclass(frozen=True)
class PatchTSTConfig:
    """Sizes; the defaults are those of VitalBench at 5-second steps.

    Attributes:
        n_channels: channels of the centre; the model takes any number.
        context, horizon: steps of the window and of the forecast.
        patch, stride: steps of a patch, and from one to the next.
        depth: encoder layers.
        d_ff: hidden units between the two linear maps of a layer.
        dropout: of tokens, attention, both parts of a layer, and the forecast.
        normalise: by mean and deviation of each window.
    """

    n_channels: int
    context: int
    horizon: int
    patch: int = 60
    stride: int = 30
    d_model: int = 512
    depth: int = 2
    n_heads: int = 16
    d_ff: int = 512
    dropout: float = 0.2
    normalise: bool = True

    def __post_init__(self):
        wanted = ("patch", "stride", "d_model", "depth", "n_heads", "d_ff")
        sizes.check(self, at_least_1=wanted, rates=("dropout",))
        sizes.check_heads(self)
        patches.check(self)


class PatchTST(patches.PatchForecaster):
    """Forecasts each channel from its own past."""

    def __init__(self, config: PatchTSTConfig, *, rngs: nnx.Rngs):
        self.config = config
        self.embed = patches.PatchEmbedding(config.patch, config.stride, config.d_model, rngs=rngs)
        self.encoder = postnorm.PostNormEncoder(
            config.d_model, config.depth, config.n_heads, config.d_ff, dropout_rate=config.dropout, rngs=rngs
        )
        n_patches = patches.count(config.context, config.patch, config.stride)
        self.head = patches.PatchHead(n_patches, config.d_model, config.horizon, rngs=rngs)

    def encoded(self, tokens, *, groups, stream):
        return self.encoder(tokens, groups=groups, stream=stream)

    def n_words(self, tokens: int) -> int:
        return self.encoder.n_words(tokens, self.config.d_model)


def training_flops(config: PatchTSTConfig) -> int:
    """FLOP of one example's training step: products forward, and twice as many backward."""
    length = patches.count(config.context, config.patch, config.stride)
    tokens = config.n_channels * length
    layers = config.depth * postnorm.flops(tokens, length, config.d_model, config.d_ff)
    return 3 * (layers + 2 * tokens * config.d_model * (config.patch + config.horizon))
