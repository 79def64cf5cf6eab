"""Early stopping: the parameters of the best validation so far, and how many validations have passed since."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx


class Best:
    """The best parameters so far.

    Attributes:
        step, loss: of the best validation; None and infinity before the first.
        misses: validations since then.
        params: a copy on the devices; None before the first validation.
    """

    def __init__(self, patience: int | None):
        self.patience = patience
        self.step: int | None = None
        self.loss = math.inf
        self.misses = 0
        self.params: nnx.State | None = None

    @property
    def exhausted(self) -> bool:
        """Whether training should end."""
        return self.patience is not None and self.misses >= self.patience

    def see(self, step: int, loss: float, params: nnx.State) -> None:
        """Takes a validation; a loss that is not finite is no improvement. Does nothing without patience."""
        if self.patience is None:
            return
        if loss < self.loss:
            # A copy: the next step uses the given arrays up.
            self.step, self.loss, self.misses = step, loss, 0
            self.params = jax.tree.map(jnp.copy, params)
        else:
            self.misses += 1

    def progress(self) -> dict[str, Any]:
        """What a checkpoint keeps beside the parameters."""
        loss = None if self.step is None else self.loss
        return {"step": self.step, "loss": loss, "misses": self.misses}

    def resume(self, progress: Mapping[str, Any], params: nnx.State | None) -> None:
        """Goes on from what `progress` gave."""
        self.step, self.misses = progress["step"], progress["misses"]
        self.loss = math.inf if progress["loss"] is None else progress["loss"]
        self.params = params
