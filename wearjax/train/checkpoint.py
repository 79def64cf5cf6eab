"""Checkpoints: state, position in the data and progress of the log, written asynchronously by Orbax."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp
from flax import nnx

from wearjax import errors
from wearjax.errors import CheckpointError
from wearjax.train import checkpoint_noise
from wearjax.train import state as states
from wearjax.train.state import TrainState


class Checkpoints:
    """The checkpoints of a run. Close it (or use `with`): the last write is finished then.

    Arrays are stored by their dotted names, so a checkpoint can be read, and compared with a model, without
    the classes that wrote it.

    Args:
        folder: made when missing.
        keep: how many of the latest stay.
    """

    def __init__(self, folder: Path, *, keep: int = 2):
        checkpoint_noise.keep_out()
        self.folder = Path(folder).absolute()
        options = ocp.CheckpointManagerOptions(
            preservation_policy=ocp.checkpoint_managers.LatestN(keep),
            enable_async_checkpointing=True,
            cleanup_tmp_directories=True,
        )
        handlers = {
            "state": ocp.StandardCheckpointHandler(),
            "best": ocp.StandardCheckpointHandler(),
            "config": ocp.JsonCheckpointHandler(),
            "progress": ocp.JsonCheckpointHandler(),
        }
        self._manager = ocp.CheckpointManager(self.folder, options=options, item_handlers=handlers)

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_) -> None:
        try:
            self._manager.close()
        except Exception as error:
            if kind is None:
                raise self._unwritten(error) from error  # else what ended the block is told

    def latest_step(self) -> int | None:
        """Step of the last complete checkpoint."""
        return self._manager.latest_step()

    def save(
        self,
        state: TrainState,
        *,
        step: int,
        config: dict[str, Any],
        progress: dict[str, Any],
        best: nnx.State | None = None,
    ) -> None:
        """Copies the state to the host and writes it in the background; a step already saved stays.

        Args:
            best: parameters to keep beside those of the state.
        """
        if self.latest_step() == step:
            return
        items = {
            "state": ocp.args.StandardSave(states.named_leaves(state)),
            "config": ocp.args.JsonSave(config),
            "progress": ocp.args.JsonSave(progress),
        }
        if best is not None:
            items["best"] = ocp.args.StandardSave(states.named_leaves(best))
        try:
            self._manager.save(step, args=ocp.args.Composite(**items), force=True)
        except Exception as error:
            raise self._unwritten(error) from error

    def progress(self) -> dict[str, Any]:
        """Progress of the latest checkpoint; empty without one. Raises CheckpointError when it is damaged."""
        step = self.latest_step()
        if step is None:
            return {}
        return self._read(step, progress=ocp.args.JsonRestore())["progress"]

    def restore_best(self, like: nnx.State) -> nnx.State:
        """The parameters that the latest checkpoint holds beside its state, placed like those given.

        Raises:
            CheckpointError: it is damaged, or holds none.
        """
        step = self.latest_step()
        if step is None:
            raise CheckpointError(f"{self.folder}: no checkpoint")
        target = states.named_leaves(like)
        return states.unflatten(self._read(step, best=ocp.args.StandardRestore(target))["best"], like)

    def _read(self, step: int, **items: Any) -> Any:
        try:
            return self._manager.restore(step, args=ocp.args.Composite(**items))
        except Exception as error:  # Orbax raises whatever its storage layers raise
            where = f"checkpoint {self.folder / str(step)}"
            raise CheckpointError(f"{where}: not readable ({_first_line(error)})") from error

    def restore(self, like: TrainState, *, step: int | None = None) -> tuple[TrainState, dict[str, Any]]:
        """State and progress of a checkpoint, placed like the (abstract) state given.

        Raises:
            CheckpointError: there is none, it is damaged, or it belongs to another model.
        """
        step = self.latest_step() if step is None else step
        if step is None:
            raise CheckpointError(f"{self.folder}: no checkpoint")
        where = f"checkpoint {self.folder / str(step)}"
        target = states.named_leaves(like)
        self._check_params(step, target, where)
        got = self._read(step, state=ocp.args.StandardRestore(target), progress=ocp.args.JsonRestore())
        return states.unflatten(got["state"], like), got["progress"]

    def _check_params(self, step: int, target: dict[str, jax.ShapeDtypeStruct], where: str) -> None:
        try:
            saved = dict(self._manager.item_metadata(step)["state"])
        except Exception as error:
            raise CheckpointError(f"{where}: not readable ({_first_line(error)})") from error
        states.check_same_shapes(_params(saved), _params(target), where=where)

    def wait(self) -> None:
        """Returns when everything is on disk. Raises CheckpointError where it could not be written."""
        try:
            self._manager.wait_until_finished()
        except Exception as error:
            raise self._unwritten(error) from error

    def _unwritten(self, error: Exception) -> CheckpointError:
        """Of a full disk above all; what was saved before stays."""
        return CheckpointError(
            f"{self.folder}: a checkpoint could not be written ({_reason(error)}); the same command resumes "
            "from the last one that could"
        )


def _params(leaves: dict[str, Any]) -> dict[str, Any]:
    return {n.removeprefix("params."): leaf for n, leaf in leaves.items() if n.startswith("params.")}


def _reason(error: Exception) -> str:
    """What the system said, which the storage below Orbax wraps in paths; else all that was said."""
    said = errors.one_line(error)
    found = re.search(r": ([^:]+) \[os_error_code='\d+'\]", said)
    return found[1] if found else said


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
