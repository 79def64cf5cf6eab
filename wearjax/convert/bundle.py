"""A trained model as a folder: `bundle.json` and `model_card.md` say what it is, `weights.npz` holds its parameters."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flax
import jax
import numpy as np
from flax import nnx

import wearjax
from wearjax import errors, json_text, npz, writing
from wearjax.convert import card
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import CheckpointError, ConfigError, StoreError
from wearjax.models import registry
from wearjax.train import config as configs

FORMAT = 1
CARD = "model_card.md"
_SEPARATOR = "."


@dataclass(frozen=True, eq=False)
class Bundle:
    """A model with what is needed to run it.

    Attributes:
        kind: name of the architecture in `wearjax.models.registry`.
        config: its configuration.
        stats: normalization of its inputs.
        origin: where its weights come from: the facts of its training, or the file that it was converted from;
            JSON values, see `wearjax.convert.card`.
        licence: under which it is passed on; None is not stated.
    """

    kind: str
    config: Any
    model: nnx.Module
    stats: NormalizationStats
    origin: Mapping[str, Any] | None = None
    licence: str | None = None


def describe(bundle: Bundle) -> dict[str, Any]:
    """The JSON facts of a bundle: kind, configuration, parameter count, normalization, and what is told beside them."""
    told = {"origin": bundle.origin, "licence": bundle.licence}
    return {
        "format": FORMAT,
        "kind": bundle.kind,
        "config": configs.to_dict(bundle.config),
        "parameters": sum(array.size for array in parameters(bundle.model).values()),
        "normalization": json.loads(bundle.stats.to_json()),
        "versions": {"wearjax": wearjax.__version__, "jax": jax.__version__, "flax": flax.__version__},
        **{name: value for name, value in told.items() if value is not None},
    }


def save_bundle(
    path: str | os.PathLike,
    *,
    kind: str,
    config: Any,
    model: nnx.Module,
    stats: NormalizationStats,
    origin: Mapping[str, Any] | None = None,
    licence: str | None = None,
) -> Path:
    """Writes a bundle beside `path` and renames it into place; the bytes depend on what is given alone.

    Args:
        origin: as in `Bundle`, for the model card.
        licence: as in `Bundle`, for the model card.

    Raises:
        CheckpointError: something is already there.
    """
    path = Path(path)
    if path.exists():
        raise CheckpointError(f"{path} exists; a bundle is never overwritten")
    facts = describe(Bundle(kind, config, model, stats, origin, licence))
    with writing.folder(path, error=CheckpointError) as partial, writing.told(path, error=CheckpointError):
        np.savez(partial / "weights.npz", **parameters(model))  # type: ignore[arg-type]
        (partial / "bundle.json").write_text(json.dumps(facts, indent=1) + "\n")
        (partial / CARD).write_text(_card(facts, path))
    return path


def load_bundle(path: str | os.PathLike) -> Bundle:
    """Reads a bundle; never unpickles.

    Raises:
        CheckpointError: no bundle there, an unreadable one, or weights that do not fit its configuration.
    """
    path = Path(path)
    facts = _read_facts(path)
    try:
        architecture = registry.get(facts["kind"])
        config: Any = configs.from_dict(facts["config"], architecture.config, where="config")
        stats = NormalizationStats.from_json(json.dumps(facts["normalization"]))
    except (KeyError, TypeError, ConfigError, StoreError) as error:
        raise CheckpointError(f"{path / 'bundle.json'}: {error}") from None
    try:
        shapes = _shapes(architecture, config)
    except (TypeError, ValueError, ArithmeticError, MemoryError, ConfigError) as error:
        raise CheckpointError(
            f"{path / 'bundle.json'}: no model can be made of its config ({errors.one_line(error)})"
        ) from None
    model = _with_weights(path / "weights.npz", *shapes)
    return Bundle(facts["kind"], config, model, stats, facts.get("origin"), facts.get("licence"))


def read_card(path: str | os.PathLike) -> str:
    """The model card of a bundle, also of one written before there were cards. Raises CheckpointError."""
    return _card(_read_facts(Path(path)), Path(path))


def set_licence(path: str | os.PathLike, licence: str) -> None:
    """Writes a licence into a bundle and its card. Raises CheckpointError; ConfigError for an empty one."""
    if not licence.strip():
        raise ConfigError("licence: give its name")
    path = Path(path)
    facts = {**_read_facts(path), "licence": " ".join(licence.split())}
    for name, text in ((CARD, _card(facts, path)), ("bundle.json", json.dumps(facts, indent=1) + "\n")):
        with writing.file(path / name, error=CheckpointError) as partial:
            partial.write_text(text)


def _card(facts: Mapping[str, Any], path: Path) -> str:
    try:
        return card.render(facts)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path}: its facts cannot be told on a card ({error!r})") from None


def _read_facts(path: Path) -> dict[str, Any]:
    file = path / "bundle.json"
    try:
        facts = json_text.loads(file.read_text())
        version = facts["format"]
    except FileNotFoundError:
        hint = f"; did you mean {path / 'bundle'}?" if (path / "bundle" / "bundle.json").exists() else ""
        raise CheckpointError(f"{path}: not a bundle (no bundle.json){hint}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{file}: not readable as a bundle description ({error})") from None
    if version != FORMAT:
        raise CheckpointError(f"{file}: bundle format {version}, this version reads {FORMAT}")
    return facts


def _with_weights(file: Path, graph: nnx.GraphDef, abstract: nnx.State) -> nnx.Module:
    wanted = dict(_flat(abstract))
    try:
        found = npz.load(file)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file}: not readable as weights ({error})") from None
    for name, leaf in wanted.items():
        if name not in found:
            raise CheckpointError(f"{file}: parameter {name} is missing; the model needs {tuple(leaf.shape)}")
        if found[name].dtype.kind != "f" or not np.isfinite(found[name]).all():
            raise CheckpointError(f"{file}: parameter {name} must hold finite floating-point numbers")
        if found[name].shape != tuple(leaf.shape):
            raise CheckpointError(
                f"{file}: parameter {name} is {found[name].shape}, the model needs {tuple(leaf.shape)}"
            )
    if extra := sorted(found.keys() - wanted.keys()):
        raise CheckpointError(f"{file}: parameter {extra[0]} has no place in the model")
    return _filled(graph, abstract, found)


def build(architecture: registry.Architecture, config: Any, arrays: Mapping[str, np.ndarray]) -> nnx.Module:
    """The model with its arrays taken by dotted name; their shapes are the caller's to check."""
    return _filled(*_shapes(architecture, config), arrays)


def _shapes(architecture: registry.Architecture, config: Any) -> tuple[nnx.GraphDef, nnx.State]:
    return nnx.split(nnx.eval_shape(lambda: architecture.build(config, rngs=nnx.Rngs(0))))


def _filled(graph: nnx.GraphDef, abstract: nnx.State, arrays: Mapping[str, np.ndarray]) -> nnx.Module:
    filled = [
        (path, leaf.replace(jax.numpy.asarray(arrays[_name(path)])))
        for path, leaf in nnx.to_flat_state(abstract)
    ]
    return nnx.merge(graph, nnx.from_flat_state(filled))


def parameters(model: nnx.Module) -> dict[str, np.ndarray]:
    """Arrays of a model by dotted name."""
    return {name: np.asarray(leaf[...]) for name, leaf in _flat(nnx.state(model, nnx.Param))}


def _flat(state: nnx.State) -> list[tuple[str, nnx.Variable]]:
    return [(_name(path), leaf) for path, leaf in nnx.to_flat_state(state)]


def _name(path: tuple) -> str:
    return _SEPARATOR.join(map(str, path))
