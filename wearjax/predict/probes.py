"""Shallow heads on fixed features: what the benchmark fits to judge a representation.

Settings are those of OpenMHC's prediction track. scikit-learn is an extra and is imported when a head is fitted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Float64, Int64

from wearjax.errors import ConfigError, MethodError

KINDS = ("binary", "multiclass", "ordinal", "regression")
_MAX_ITER = 4000


class Head:
    """A linear model of one label, as the track prescribes it for each kind of task.

    Binary: logistic regression (liblinear, C = 1, balanced classes, intercept penalized too). Multiclass: the
    same by lbfgs. Ordinal: one binary model for each level but the last of those seen, of `label > level`.
    Regression: ordinary least squares.

    Raises:
        ConfigError: an unknown kind, or scikit-learn is not installed (when fitted).
    """

    def __init__(self, kind: str, *, seed: int = 42):
        if kind not in KINDS:
            raise ConfigError(f"kind {kind!r}; expected one of {', '.join(KINDS)}")
        self.kind, self.seed = kind, seed
        self._models: list[Any] = []
        self.levels: np.ndarray = np.empty(0)

    def fit(self, features: Float[np.ndarray, "n d"], labels: Float[np.ndarray, "n"]) -> Head:
        """Fits the head. Raises MethodError where a class or level stands alone."""
        linear_model = import_sklearn("linear_model")
        labels = np.asarray(labels, np.float64)
        self.levels = np.unique(labels)
        if self.kind == "regression":
            self._models = [linear_model.LinearRegression().fit(features, labels)]
            return self
        if len(self.levels) < 2:
            raise MethodError(f"{self.kind} head: all {len(labels)} labels are equal, two classes are needed")
        solver = "lbfgs" if self.kind == "multiclass" else "liblinear"
        if self.kind == "ordinal":
            targets = [(labels > level).astype(np.int64) for level in self.levels[:-1]]
        else:
            targets = [np.searchsorted(self.levels, labels)]
        if self.kind == "binary" and len(self.levels) > 2:
            raise MethodError(f"binary head: {len(self.levels)} different labels, two classes are expected")
        self._models = [
            linear_model.LogisticRegression(
                C=1.0, class_weight="balanced", solver=solver, max_iter=_MAX_ITER, random_state=self.seed
            ).fit(features, target)
            for target in targets
        ]
        return self

    def predict(self, features: Float[np.ndarray, "n d"]) -> Float64[np.ndarray, "n"]:
        """Binary: the probability of the larger label. Multiclass: the label. Ordinal: see `ordinal_levels`.

        Raises MethodError before `fit`.
        """
        if not self._models:
            raise MethodError("head: predict before fit")
        if self.kind == "regression":
            return np.asarray(self._models[0].predict(features), np.float64)
        chances = [np.asarray(model.predict_proba(features), np.float64) for model in self._models]
        if self.kind == "binary":
            return chances[0][:, 1]
        if self.kind == "multiclass":
            return self.levels[np.argmax(chances[0], axis=1)]
        return ordinal_levels(np.stack([chance[:, 1] for chance in chances], axis=1)).astype(np.float64)


def ordinal_levels(exceeds: Float[np.ndarray, "n K-1"]) -> Int64[np.ndarray, "n"]:
    """Most probable of K levels from the chances of being above each but the last.

    The answer counts the levels that were seen in training, from 0: it is the level itself only where they are
    0 to K - 1 (as the benchmark has it).
    """
    n = len(exceeds)
    above = np.concatenate([np.ones((n, 1)), exceeds, np.zeros((n, 1))], axis=1)
    return np.argmax(above[:, :-1] - above[:, 1:], axis=1).astype(np.int64)


class LinearProbe:
    """Principal components of raw features, then a linear head; nothing is tuned.

    Features that are not finite count as 0, and nothing is scaled. There are min(n_components, n, d)
    components, from scikit-learn's own choice of solver with a fixed seed.

    Args:
        kind: `binary`, `multiclass`, `ordinal` or `regression`.
        n_components: most components.
    """

    def __init__(self, kind: str, *, n_components: int = 50, seed: int = 42):
        if n_components < 1:
            raise ConfigError(f"n_components must be at least 1, got {n_components}")
        self.kind, self.n_components, self.seed = kind, n_components, seed
        self._head = Head(kind, seed=seed)
        self._pca: Any = None

    def fit(self, features: Float[np.ndarray, "n d"], labels: Float[np.ndarray, "n"]) -> LinearProbe:
        """Fits the components and the head.

        Raises:
            MethodError: not one label a row, or a head that cannot be fitted. ConfigError: scikit-learn is not
            installed.
        """
        features = _clean(features)
        if len(labels) != len(features):
            raise MethodError(f"LinearProbe: {len(labels)} labels for {len(features)} rows of features")
        decomposition = import_sklearn("decomposition")
        n = min(self.n_components, *features.shape)
        if n < 1:
            raise MethodError(f"LinearProbe: nothing to fit in features {features.shape}")
        self._pca = decomposition.PCA(n_components=n, random_state=self.seed)
        self._head.fit(self._pca.fit_transform(features), labels)
        return self

    def predict(self, features: Float[np.ndarray, "n d"]) -> Float64[np.ndarray, "n"]:
        """One number a row, as `Head.predict` gives it. Raises MethodError before `fit`."""
        if self._pca is None:
            raise MethodError("LinearProbe: predict before fit")
        features = _clean(features)
        if not len(features):
            return np.empty(0)
        return self._head.predict(self._pca.transform(features))


def _clean(features: Float[np.ndarray, "n d"]) -> Float32[np.ndarray, "n d"]:
    # A float64 feature beyond float32 becomes infinite, and counts as 0 like any other that is not finite.
    with np.errstate(over="ignore"):
        features = np.asarray(features, np.float32)
    if features.ndim != 2:
        raise MethodError(f"LinearProbe: expected (n, d) features, got {features.shape}")
    return np.where(np.isfinite(features), features, np.float32(0))


def import_sklearn(module: str) -> Any:
    """A module of scikit-learn. Raises ConfigError naming the extra where it is not installed."""
    import importlib

    try:
        return importlib.import_module(f"sklearn.{module}")
    except ImportError:
        raise ConfigError(
            "probes need scikit-learn; install it with: pip install 'wearjax[probes]'"
        ) from None
