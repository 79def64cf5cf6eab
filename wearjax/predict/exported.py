"""Trained models as StableHLO programs: how a folder of them is laid out, and the model that runs it.

A folder holds `manifest.json` and one `<task>.stablehlo` a task: a portable StableHLO artifact whose parameters and
normalization are constants, so that it takes and gives raw units. Running it needs JAX and NumPy; neither the code
of the model nor Flax is imported.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jaxtyping import Float32, Shaped

from wearjax import channels, json_text
from wearjax.channels import N_CHANNELS
from wearjax.errors import CheckpointError, MethodError
from wearjax.predict import batched
from wearjax.predict.imputers import pieces

FORMAT = 1
MANIFEST = "manifest.json"
SUFFIX = ".stablehlo"
ANY = "any"
_FIELDS = ("format", "kind", "batch", "platforms", "channels", "sizes", "programs", "digest")
_PLATFORM_NAMES = {"gpu": "cuda"}


def specification(shapes: list[dict[str, Any]], batch: int | str) -> list[jax.ShapeDtypeStruct]:
    """Shapes and types of a program's inputs from their entries in the manifest."""
    first: Any = export.symbolic_shape("batch")[0] if batch == ANY else batch
    return [jax.ShapeDtypeStruct((first, *entry["shape"][1:]), entry["dtype"]) for entry in shapes]


def digest(manifest: dict[str, Any]) -> str:
    """SHA-256 of a manifest without its own digest."""
    content = {name: value for name, value in manifest.items() if name != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class ExportedModel:
    """The tasks of an exported model, with the contracts of `wearjax.load_pretrained`.

    Args:
        path: folder written by `wearjax convert stablehlo`.
        batch_size: examples a call, where the export leaves it open; the last call is padded, so that a program
            compiles once, and once more for calls with a single example.

    Attributes:
        manifest: what the folder says of itself.
        tasks: those of `impute`, `embed` and `forecast` that it can do.

    Raises:
        CheckpointError: no export there, or a damaged one, or one of another format or channel table.
        MethodError: it was exported for other devices than those of this process.
    """

    def __init__(self, path: str | os.PathLike, *, batch_size: int = 16):
        if batch_size < 1:
            raise MethodError(f"batch_size: must be at least 1, got {batch_size}")
        self._path = Path(path)
        self.manifest = _read_manifest(self._path)
        self.name: str = self.manifest["kind"]
        self.tasks = tuple(self.manifest["programs"])
        fixed = self.manifest["batch"]
        self._open = fixed == ANY
        self.batch_size: int = batch_size if self._open else fixed
        self._sizes = self.manifest["sizes"]
        self._calls: dict[str, Callable[..., jax.Array]] = {}
        _check_platform(self._path, self.manifest["platforms"])
        for task in self.tasks:
            self._calls[task] = jax.jit(_program(self._path, self.manifest, task).call)

    def impute(
        self,
        data: Float32[np.ndarray, "batch channel=19 time"],
        observed_mask: Shaped[np.ndarray, "batch channel=19 time"],
        target_mask: Shaped[np.ndarray, "batch channel=19 time"],
        *,
        day_offsets: np.ndarray | None = None,
        out: np.ndarray | None = None,
    ) -> Float32[np.ndarray, "batch channel=19 time"]:
        """`data` with the target cells filled, as `Pretrained.impute` does it.

        Raises:
            MethodError: a model that cannot impute, or another shape or type.
        """
        call = self._call("impute")
        _check_type("impute", data)
        minutes, n_days = self._sizes["minutes"], self._sizes.get("n_days")
        alone = pieces.single(data, minutes * (n_days or 1))
        options: dict[str, Any] = {"minutes": minutes, "batch_size": self._batch(alone), "out": out}
        if n_days is None:
            return pieces.impute_pieces(self.name, call, data, observed_mask, target_mask, **options)
        options |= {"n_days": n_days, "day_offsets": day_offsets}
        return pieces.impute_windows(self.name, call, data, observed_mask, target_mask, **options)

    def embed(self, values: Float32[np.ndarray, "example ..."]) -> Float32[np.ndarray, "example feature"]:
        """One vector an example; NaN = not measured. Shapes as for `Pretrained.embed`.

        Raises:
            MethodError: a model that gives no representation, or another shape or type.
        """
        call, program = self._call("embed"), self.manifest["programs"]["embed"]
        _check_type("embed", values)
        return batched.vectors(
            call, values, wanted=tuple(program["inputs"][0]["shape"][1:]),
            size=program["outputs"][0]["shape"][-1], batch_size=self._batch(len(values) == 1),
        )  # fmt: skip

    def forecast(
        self, history: Float32[np.ndarray, "channel=19 hour"], horizon: int
    ) -> Float32[np.ndarray, "channel=19 horizon"]:
        """The hours that follow a history of hours, in the units of the channel table; NaN = missing.

        Raises:
            MethodError: a model that cannot forecast, another horizon than the model's, or another shape or type.
        """
        call, steps = self._call("forecast"), self._sizes.get("steps", 0)
        _check_type("forecast", history)
        if horizon != self._sizes["horizon"]:
            raise MethodError(
                f"{self.name}: forecasts {self._sizes['horizon']} hours, {horizon} are asked for"
            )
        if history.ndim != 2 or history.shape[0] != N_CHANNELS:
            raise MethodError(
                f"{self.name}: expected a history of shape ({N_CHANNELS}, hours), got {history.shape}"
            )
        batch = np.full((self._batch(True), steps, N_CHANNELS), np.nan, np.float32)
        known = history[:, -steps:].T
        batch[0, steps - len(known) :] = known
        return np.asarray(call(batch))[0]

    def as_forecaster(self, days: Any) -> ExportedForecaster:
        """The method of the forecasting track, see `Pretrained.as_forecaster`; it reads no store.

        Raises:
            MethodError: a model that cannot forecast.
        """
        self._call("forecast")
        return ExportedForecaster(self)

    def _call(self, task: str) -> Callable[..., jax.Array]:
        if task not in self._calls:
            raise MethodError(f"{self._path}: exported for {', '.join(self.tasks)}; it cannot {task}")
        return self._calls[task]

    def _batch(self, alone: bool) -> int:
        return 1 if self._open and alone else self.batch_size


class ExportedForecaster:
    """The forecasts of an exported model under the contract of `wearjax.predict.forecaster.Forecaster`."""

    on_accelerator = True

    def __init__(self, model: ExportedModel):
        self.name, self.settings = model.name, {"exported": model.manifest["digest"]}
        self.predict = model.forecast


def load_exported(path: str | os.PathLike, *, batch_size: int = 16) -> ExportedModel:
    """Loads what `wearjax convert stablehlo` wrote; see `ExportedModel`.

    Raises:
        CheckpointError, MethodError: as `ExportedModel`.
    """
    return ExportedModel(path, batch_size=batch_size)


def _read_manifest(folder: Path) -> dict[str, Any]:
    file = folder / MANIFEST
    try:
        manifest = json_text.loads(file.read_text())
        missing = [name for name in _FIELDS if name not in manifest]
    except FileNotFoundError:
        raise CheckpointError(f"{folder}: not an exported model (no {MANIFEST})") from None
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{file}: not readable as a manifest ({error})") from None
    if not isinstance(manifest, dict) or missing:
        raise CheckpointError(f"{file}: not readable as a manifest (no {', '.join(missing) or 'object'})")
    if manifest["format"] != FORMAT:
        raise CheckpointError(f"{file}: export format {manifest['format']}, this version reads {FORMAT}")
    if manifest["digest"] != digest(manifest):
        raise CheckpointError(f"{file}: damaged or edited (its digest does not match)")
    if manifest["channels"]["digest"] != channels.digest():
        raise CheckpointError(f"{file}: exported with another channel table")
    return manifest


def _check_platform(folder: Path, platforms: list[str]) -> None:
    backend = jax.default_backend()
    name = _PLATFORM_NAMES.get(backend, backend)
    if name not in platforms:
        raise MethodError(f"{folder}: exported for {', '.join(platforms)}; this process runs on {name}")


def _program(folder: Path, manifest: dict[str, Any], task: str) -> export.Exported:
    """A program in the frame of an empty function of the same signature, exported here."""
    facts = manifest["programs"][task]
    file = folder / facts["file"]
    try:
        content = file.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{file}: not readable ({error.strerror})") from None
    if hashlib.sha256(content).hexdigest() != facts["sha256"]:
        raise CheckpointError(f"{file}: damaged (its digest does not match {MANIFEST})")
    shape = tuple(facts["outputs"][0]["shape"][1:])
    inputs = specification(facts["inputs"], manifest["batch"])
    frame = export.export(jax.jit(partial(_nothing, shape)), platforms=manifest["platforms"])(*inputs)
    if not (
        export.minimum_supported_calling_convention_version
        <= facts["calling_convention"]
        <= export.maximum_supported_calling_convention_version
    ):
        raise CheckpointError(
            f"{file}: calling convention {facts['calling_convention']}; this JAX reads "
            f"{export.minimum_supported_calling_convention_version} to "
            f"{export.maximum_supported_calling_convention_version}"
        )
    return dataclasses.replace(
        frame, mlir_module_serialized=content, calling_convention_version=facts["calling_convention"]
    )


def _nothing(shape: tuple[int, ...], *inputs: jax.Array) -> jax.Array:
    """Uses every input, so that none is dropped from the signature."""
    total = sum(jnp.sum(x).astype(jnp.float32) for x in inputs)
    return jnp.broadcast_to(jnp.asarray(total, jnp.float32), (inputs[0].shape[0], *shape))


def _check_type(task: str, values: Any) -> None:
    kind = getattr(values, "dtype", None)
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
        raise MethodError(f"{task}: expected an array of float32, got {kind or type(values).__name__}")
