"""SegRNN: a recurrent network over segments of a series, decoded for all segments ahead at once (Lin et al. 2023).

The form that PyPOTS gives it for gappy series: values and flags of observation are mixed into as many series first.
Each of those is centred on its last step and cut into segments, a GRU runs over them, and its last state answers one
query a segment of the forecast, made of the segment's place and of the channel.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from wearjax import channels
from wearjax.errors import ConfigError
from wearjax.layers import dropout
from wearjax.models import dlinear, sizes

GATES = 3  # reset, update, candidate


@dataclass(frozen=True)
class SegRNNConfig:
    """Sizes; the defaults are the published forecaster.

    Attributes:
        steps: hours of the history, whole segments.
        horizon: hours of the forecast, whole segments.
        segment: hours of a segment.
        d_model: units of the recurrent state, even.
        dropout: of the decoded states.
        unroll: segments in one iteration of the compiled loop.
        dtype: compute type of the products, `float32` or `bfloat16`; parameters, states and loss stay float32.
    """

    steps: int = 336
    horizon: int = 24
    segment: int = 12
    d_model: int = 64
    dropout: float = 0.1
    unroll: int = 1
    dtype: str = "float32"

    def __post_init__(self):
        sizes.at_least_1(self, "steps", "horizon", "segment", "d_model", "unroll")
        for name in ("steps", "horizon"):
            if getattr(self, name) % self.segment:
                raise ConfigError(
                    f"model.{name}: must be whole segments of {self.segment}, got {getattr(self, name)}"
                )
        if self.d_model % 2:
            raise ConfigError(f"model.d_model: must be even, got {self.d_model}")
        sizes.rates(self, "dropout")
        sizes.dtype(self)


class GRU(nnx.Module):
    """Gated recurrent unit (Cho et al. 2014) in the order and with the two biases of PyTorch.

    h' = (1 − z) n + z h,  n = tanh(W_n x + b_n + r (U_n h + c_n)),  r and z sigmoids of like sums.
    """

    def __init__(self, size: int, *, dtype=jnp.float32, rngs: nnx.Rngs):
        def param(*shape: int) -> nnx.Param:
            return nnx.Param(dlinear.uniform(rngs, shape, size))

        self.input_kernel, self.input_bias = param(size, GATES * size), param(GATES * size)
        self.state_kernel, self.state_bias = param(size, GATES * size), param(GATES * size)
        self.dtype = dtype

    def of_inputs(self, x: Float[Array, "*any D"]) -> Float[Array, "*any 3*D"]:
        """What inputs add to the gates; needs no state, so all steps at once."""
        return _product(x, self.input_kernel[...], self.dtype) + self.input_bias[...]

    def of_state(self, state: Float[Array, "*any D"]) -> Float[Array, "*any 3*D"]:
        """What a state adds to the gates."""
        return _product(state, self.state_kernel[...], self.dtype) + self.state_bias[...]


def next_state(
    from_input: Float[Array, "*any 3*D"], from_state: Float[Array, "*any 3*D"], state: Float[Array, "*any D"]
) -> Float[Array, "*any D"]:
    """The state after one step of a GRU; the arguments broadcast."""
    reset_x, update_x, candidate_x = jnp.split(from_input, GATES, axis=-1)
    reset_h, update_h, candidate_h = jnp.split(from_state, GATES, axis=-1)
    update = jax.nn.sigmoid(update_x + update_h)
    candidate = jnp.tanh(candidate_x + jax.nn.sigmoid(reset_x + reset_h) * candidate_h)
    return candidate + update * (state - candidate)


def _product(x: Array, kernel: Array, dtype) -> Array:
    return (x.astype(dtype) @ kernel.astype(dtype)).astype(jnp.float32)


class SegRNN(nnx.Module):
    """Forecasts all channels from the observed part of their history."""

    def __init__(self, config: SegRNNConfig, *, rngs: nnx.Rngs):
        self.config = config
        self.dtype = sizes.DTYPES[config.dtype]
        n, half = channels.N_CHANNELS, config.d_model // 2
        self.embed = dlinear.Affine(2 * n, n, rngs=rngs)
        self.segment = dlinear.Affine(config.segment, config.d_model, rngs=rngs)
        self.gru = GRU(config.d_model, dtype=self.dtype, rngs=rngs)
        n_ahead = config.horizon // config.segment
        self.place = nnx.Param(jax.random.normal(rngs.params(), (n_ahead, half), jnp.float32))
        self.channel = nnx.Param(jax.random.normal(rngs.params(), (n, half), jnp.float32))
        self.predict = dlinear.Affine(config.d_model, config.segment, rngs=rngs)

    def forecast(
        self, x: Float[Array, "B T C"], observed: Float[Array, "B T C"], *, keys: jax.Array | None = None
    ) -> Float[Array, "B H C"]:
        """The next `horizon` hours, float32.

        Args:
            x: z-scores of the history, 0 where not observed.
            observed: 1 where the value is known, else 0.
            keys: one an example, in training: the source of dropout. None drops nothing.
        """
        config, (batch, _, n) = self.config, x.shape
        both = jnp.concatenate([x, observed], axis=-1)
        series = _product(both, self.embed.kernel[...], self.dtype) + self.embed.bias[...]
        last = jax.lax.stop_gradient(series[:, -1:])
        # (B, T, C) -> (segment, B, C, hours): the loop runs over the leading axis
        cut = (series - last).reshape(batch, -1, config.segment, n).transpose(1, 0, 3, 2)
        tokens = jax.nn.relu(_product(cut, self.segment.kernel[...], self.dtype) + self.segment.bias[...])

        def step(state, gates):
            return next_state(gates, self.gru.of_state(state), state), None

        start = jnp.zeros((batch, n, config.d_model), jnp.float32)
        state, _ = jax.lax.scan(step, start, self.gru.of_inputs(tokens), unroll=config.unroll)
        decoded = self._dropped(self._decode(state), keys)
        ahead = _product(decoded, self.predict.kernel[...], self.dtype) + self.predict.bias[...]
        return ahead.reshape(batch, n, config.horizon).swapaxes(1, 2) + last

    def _decode(self, state: Float[Array, "B C D"]) -> Float[Array, "B C A D"]:
        """The states after one step from the last, for each of the A segments ahead."""
        n, n_ahead = self.channel.shape[0], self.place.shape[0]
        place = jnp.broadcast_to(self.place[...], (n, *self.place.shape))
        channel = jnp.broadcast_to(self.channel[...][:, None], (n, n_ahead, self.channel.shape[1]))
        queries = self.gru.of_inputs(jnp.concatenate([place, channel], axis=-1))
        return next_state(queries, self.gru.of_state(state)[:, :, None], state[:, :, None])

    def _dropped(self, decoded: Float[Array, "B C A D"], keys: jax.Array | None) -> Float[Array, "B C A D"]:
        rate = self.config.dropout
        if keys is None or rate == 0.0:
            return decoded
        batch, n, n_ahead, units = decoded.shape
        stream = dropout.WordStream(dropout.draw_words(keys, n * n_ahead + units))
        tokens = decoded.reshape(batch, n * n_ahead, units)
        return dropout.dropout(tokens, rate=rate, stream=stream).reshape(decoded.shape)


def training_flops(config: SegRNNConfig) -> int:
    """FLOP of one example's training step: products forward, and twice as many backward."""
    n, d = channels.N_CHANNELS, config.d_model
    n_segments, n_ahead = config.steps // config.segment, config.horizon // config.segment
    embedding = 2 * n * n * config.steps
    encoding = n * n_segments * (config.segment * d + 2 * GATES * d * d)
    decoding = n * (GATES * d * d + n_ahead * d * config.segment)
    return 2 * 3 * (embedding + encoding + decoding)
