"""Any trained imputer from the folder that holds it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from wearjax.predict.protocols import Imputer


def load(path: str | os.PathLike, *, batch_size: int = 16) -> Imputer:
    """The imputer of one of our bundles, or of a PyPOTS model (a folder with a release manifest).

    Args:
        batch_size: examples a call of one of our models.

    Raises:
        CheckpointError: neither of the two, or unreadable. MethodError: a model that cannot impute, or a library
            that is not installed.
    """
    from wearjax.convert import bundle as bundles
    from wearjax.convert import torch_checkpoint
    from wearjax.predict.imputers import lsm2

    path = Path(path)
    if (path / torch_checkpoint.MANIFEST).exists() and not (path / "bundle.json").exists():
        from wearjax.predict.imputers import pypots

        return pypots.PyPOTSImputer.load(path)
    imputer: Any = lsm2.imputer_of(bundles.load_bundle(path), batch_size=batch_size)
    return imputer
