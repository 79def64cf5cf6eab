"""Options that several verbs share: their types with the line of help, and what belongs together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from wearjax.errors import ConfigError

Bootstrap = Annotated[int, tyro.conf.arg(help="resamples for the intervals.")]
Engine = Annotated[
    str | None,
    tyro.conf.arg(
        help="where participants are worked on: local (processes), dask (a Dask cluster on this machine) or the "
        "address of a Dask scheduler, tcp://HOST:PORT (default: this process)."
    ),
]
OwnMethods = Annotated[tuple[str, ...], tyro.conf.arg(help="methods of your own, as FILE.py:Class.")]
TotoCheckpoint = Annotated[Path | None, tyro.conf.arg(help="published weights of Toto, to score it.")]
TotoBase = Annotated[
    Path | None,
    tyro.conf.arg(help="where the config.json of a fine-tuned Toto lies: a folder, or hub:owner/name."),
]
TotoScale = Annotated[
    float | None,
    tyro.conf.arg(help="scale of the low-rank updates in a fine-tuned Toto (default: as they are)."),
]
Chronos2Checkpoint = Annotated[
    Path | None, tyro.conf.arg(help="published weights of Chronos-2, to score it.")
]
KeyVariable = Annotated[str | None, tyro.conf.arg(help="environment variable that holds the endpoint's key.")]


def of_toto(checkpoint: Path | None, *, base: Path | None, lora_alpha: float | None) -> dict[str, Any]:
    """Toto's own options. Raises ConfigError where they are given without it."""
    given = {"base": base, "lora_alpha": lora_alpha}
    found = {name: value for name, value in given.items() if value is not None}
    if found and checkpoint is None:
        raise ConfigError("--toto-base, --toto-lora-alpha: only with --toto-checkpoint")
    return found


def run_name(bundle: Path) -> str:
    """The name a trained model goes by: its run's, else its folder's."""
    return bundle.resolve().parent.name if bundle.name == "bundle" else bundle.name
