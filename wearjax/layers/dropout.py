"""Dropout whose mask is hashed on the fly and never stored.

A mask over T x S attention probabilities needs millions of random numbers a layer; threefry makes them at a
cost comparable to the attention itself. Here threefry draws one 32-bit word a row and one a column, and the
number of a cell is an integer hash (two multiplications) of their exclusive or. XLA fuses that into the
arithmetic around it, and the backward pass hashes again instead of reading a saved mask.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, UInt32


def mix(x: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """Bijective mixing whose high bits depend on all bits of x.

    The inner steps of `lowbias32` (Wellons 2018, hash prospector). Its outer shifts are left out: they would mix
    words that are random already, and low bits that a threshold does not look at.
    """
    x = x * np.uint32(0x7FEB352D)
    return (x ^ (x >> 15)) * np.uint32(0x846CA68B)


def threshold(rate: float) -> np.uint32:
    """Uniform 32-bit words fall below it with probability `rate`, exact to 2^-32."""
    return np.uint32(min(round(rate * 2.0**32), 2**32 - 1))


def draw_words(keys: jax.Array, n: int) -> UInt32[Array, "B n"]:
    """`n` random words for each example from its own key, so that a draw does not depend on the batch."""
    return jax.vmap(lambda key: jax.random.bits(key, (n,), jnp.uint32))(keys)


class WordStream:
    """Hands out an example's random words in order, each once; the position is known when tracing.

    One threefry call a stack of layers feeds all its dropouts: drawing at every dropout from its own folded key
    makes thousands of operations and dominates compilation.
    """

    def __init__(self, words: UInt32[Array, "B n"]):
        self._words = words
        self._used = 0

    def take(self, *shape: int) -> UInt32[Array, "B ..."]:
        """The next words of every example, laid out as `shape`."""
        first, self._used = self._used, self._used + math.prod(shape)
        if self._used > self._words.shape[1]:
            raise ValueError(f"dropout: {self._used} random words needed, {self._words.shape[1]} drawn")
        return self._words[:, first : self._used].reshape(-1, *shape)

    def take_pair(self, shape: tuple[int, ...]) -> tuple[UInt32[Array, "B T 1"], UInt32[Array, "B 1 D"]]:
        """Row and column words for an array of examples x tokens x features."""
        return self.take(shape[1], 1), self.take(1, shape[2])


def keep_mask(rows: UInt32[Array, "..."], columns: UInt32[Array, "..."], rate: float) -> Bool[Array, "..."]:
    """True with probability 1 - rate at every cell of the broadcast of `rows` and `columns`."""
    return mix(rows ^ columns) >= threshold(rate)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def drop(x: Float[Array, "..."], rows: UInt32[Array, "..."], columns: UInt32[Array, "..."], rate: float):
    """Zero each cell of x with probability `rate` and scale the rest by 1 / (1 - rate)."""
    return jnp.where(keep_mask(rows, columns, rate), x * (1.0 / (1.0 - rate)), 0).astype(x.dtype)


def _drop_forward(x, rows, columns, rate):
    return drop(x, rows, columns, rate), (rows, columns)


def _drop_backward(rate, saved, cotangent):
    return drop(cotangent, *saved, rate), None, None


drop.defvjp(_drop_forward, _drop_backward)


def dropout(x: Float[Array, "B T D"], *, rate: float, stream: WordStream | None) -> Float[Array, "B T D"]:
    """Dropout of tokens x features; without a stream, or at rate 0, x itself at no cost."""
    if stream is None or rate == 0.0:
        return x
    return drop(x, *stream.take_pair(x.shape), rate)
