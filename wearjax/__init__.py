"""wearjax: pretrain, evaluate and compare foundation models of wearable sensor data in JAX.

The public names are loaded when first used, so that scoring never starts the accelerator stack.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_PUBLIC = {
    "open_days": "wearjax.days.open",
    "evaluate_forecasting": "wearjax.benchmarks.openmhc.forecasting",
    "evaluate_imputation": "wearjax.benchmarks.openmhc.imputation",
    "evaluate_prediction": "wearjax.benchmarks.openmhc.prediction",
    "load_exported": "wearjax.predict.exported",
    "load_pretrained": "wearjax.predict.pretrained",
}

if TYPE_CHECKING:
    from wearjax.benchmarks.openmhc.forecasting import evaluate_forecasting
    from wearjax.benchmarks.openmhc.imputation import evaluate_imputation
    from wearjax.benchmarks.openmhc.prediction import evaluate_prediction
    from wearjax.days.open import open_days
    from wearjax.predict.exported import load_exported
    from wearjax.predict.pretrained import load_pretrained

__all__ = [
    "__version__",
    "evaluate_forecasting",
    "evaluate_imputation",
    "evaluate_prediction",
    "load_exported",
    "load_pretrained",
    "open_days",
]


def __getattr__(name: str):
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'wearjax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
