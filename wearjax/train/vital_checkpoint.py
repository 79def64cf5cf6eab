"""State of a VitalBench training run on disk, one file that is replaced after every epoch."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from wearjax import json_text, npz, writing
from wearjax.errors import StoreError
from wearjax.objectives.vital_forecast import OrderCosts, no_costs
from wearjax.train.vital_steps import TrainState

if TYPE_CHECKING:
    from wearjax.train.vitals import VitalModel, VitalTraining


@dataclass(frozen=True, eq=False)
class Run:
    """Between two epochs: the state, the best weights so far with their costs, and what was measured."""

    state: TrainState
    best_params: Any
    best_costs: OrderCosts | None
    history: list[dict[str, float]]

    @property
    def best_epoch(self) -> int:
        """The last of the epochs with the lowest validation loss; 0 before the first."""
        losses = [measured["validation"] for measured in self.history]
        return len(losses) - int(np.argmin(losses[::-1])) if losses else 0

    def finished(self, training: VitalTraining) -> bool:
        """Whether all epochs are done, or too many in a row were worse than the best."""
        done = len(self.history)
        return done >= training.epochs or (done > 0 and done - self.best_epoch >= training.patience)

    def after(self, state: TrainState, measured: dict[str, float]) -> Run:
        """After one more epoch; an equal validation loss counts as better."""
        run = Run(state, self.best_params, self.best_costs, [*self.history, measured])
        if run.best_epoch < len(run.history):
            return run
        # The state is given away to the next step: what is kept needs arrays of its own.
        params, costs = jax.tree.map(jnp.copy, (state.params, state.costs))
        return dataclasses.replace(run, best_params=params, best_costs=costs)


def write(file: Path, run: Run, fingerprint: str) -> None:
    """Replaces the file, whole or not at all. Raises StoreError."""
    leaves = jax.device_get(jax.tree.leaves((run.state, run.best_params, run.best_costs)))
    note = json.dumps({"fingerprint": fingerprint, "history": run.history})
    _save(file, {f"leaf{i}": leaf for i, leaf in enumerate(leaves)} | {"note": np.array(note)})


def read(file: Path, like: Run, fingerprint: str) -> Run:
    """The run in the file; `like` is one of the same model before its first epoch.

    Raises StoreError for an unreadable file and for one of another run.
    """
    arrays = _load(file)
    try:
        note = json_text.loads(str(arrays["note"]))
        if note["fingerprint"] != fingerprint:
            raise StoreError(
                f"{file}: holds a run with other settings, model or cases; remove it or use another folder"
            )
        leaves, structure = jax.tree.flatten((like.state, like.best_params, like.best_costs))
        found = [jnp.asarray(arrays[f"leaf{i}"]) for i in range(len(leaves))]
    except (KeyError, ValueError) as error:
        raise StoreError(f"{file}: not readable as a training state ({error}); remove it") from None
    state, best_params, best_costs = jax.tree.unflatten(structure, found)
    return Run(state, best_params, best_costs, note["history"])


def write_weights(file: Path, model: VitalModel) -> None:
    """Writes the weights of a trained model and what is recorded of it. Raises StoreError."""
    leaves = jax.device_get(jax.tree.leaves((model.params, model.costs)))
    note = json.dumps(
        {
            "kind": model.network.kind,
            "history": model.history,
            "record": model.record,
            "costs": model.costs is not None,
        }
    )
    _save(file, {f"leaf{i}": leaf for i, leaf in enumerate(leaves)} | {"note": np.array(note)})


def read_weights(file: Path, model: VitalModel) -> None:
    """Gives a model the weights in the file. Raises StoreError where they are another model's."""
    arrays = _load(file)
    try:
        note = json_text.loads(str(arrays["note"]))
        costs = None
        if note["costs"]:
            n = len(arrays[f"leaf{len(arrays) - 2}"])
            costs = no_costs(n)
        leaves, structure = jax.tree.flatten((model.params, costs))
        found = [jnp.asarray(arrays[f"leaf{i}"]) for i in range(len(leaves))]
    except (KeyError, ValueError, TypeError) as error:
        raise StoreError(f"{file}: not readable as weights ({error}); remove it") from None
    if note["kind"] != model.network.kind or [x.shape for x in found] != [x.shape for x in leaves]:
        raise StoreError(f"{file}: holds a {note['kind']} of other sizes, expected a {model.network.kind}")
    model.params, model.costs = jax.tree.unflatten(structure, found)
    model.history, model.record = note["history"], note["record"]


def _save(file: Path, arrays: dict[str, np.ndarray]) -> None:
    with writing.file(file) as partial:
        np.savez(partial, **arrays)  # type: ignore[arg-type]


def _load(file: Path) -> dict[str, np.ndarray]:
    try:
        return npz.load(file)
    except (OSError, ValueError) as error:
        raise StoreError(f"{file}: not readable as a training state ({error}); remove it") from None
