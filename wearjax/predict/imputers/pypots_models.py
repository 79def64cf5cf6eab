"""The four PyPOTS imputers of the benchmark: their settings, the published values, and how they are built."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wearjax.channels import MINUTES_PER_DAY, N_CHANNELS
from wearjax.errors import ConfigError
from wearjax.predict.imputers import pypots_library
from wearjax.segments.seven_days import N_DAYS

N_STEPS_MIN = 10  # validation hides patches of ten minutes


@dataclass(frozen=True)
class Settings:
    """What the four have in common.

    Attributes:
        kind: name in manifests and tables.
        class_name: of PyPOTS.
        hidden_share: probability that an observed cell is hidden in training.
        n_steps: minutes of a series: a day, seven days, or a divisor of a day, into which days are then cut.
    """

    kind: ClassVar[str]
    class_name: ClassVar[str]
    hidden_share: ClassVar[float]
    n_steps: int = MINUTES_PER_DAY

    def __post_init__(self):
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if isinstance(value, int) and not isinstance(value, bool) and value < 1:
                raise ConfigError(f"model.{item.name}: must be at least 1, got {value}")
        if self.n_steps < N_STEPS_MIN:
            raise ConfigError(f"model.n_steps: must be at least {N_STEPS_MIN}, got {self.n_steps}")
        if MINUTES_PER_DAY % self.n_steps and self.n_steps != N_DAYS * MINUTES_PER_DAY:
            raise ConfigError(
                f"model.n_steps: {self.n_steps} neither divides a day ({MINUTES_PER_DAY}) nor is {N_DAYS} days"
            )
        window = getattr(self, "moving_avg_window_size", 1)
        if window % 2 == 0:
            raise ConfigError(f"model.moving_avg_window_size: must be odd, got {window}")
        if not 0.0 <= getattr(self, "dropout", 0.0) < 1.0:
            raise ConfigError(f"model.dropout: must be in [0, 1), got {getattr(self, 'dropout', 0.0)}")


@dataclass(frozen=True)
class BRITSSettings(Settings):
    """BRITS (Cao et al. 2018); nothing is hidden in training."""

    kind: ClassVar[str] = "brits"
    class_name: ClassVar[str] = "BRITS"
    hidden_share: ClassVar[float] = 0.0
    rnn_hidden_size: int = 128


@dataclass(frozen=True)
class DLinearSettings(Settings):
    """DLinear (Zeng et al. 2023) with one map for all channels."""

    kind: ClassVar[str] = "dlinear"
    class_name: ClassVar[str] = "DLinear"
    hidden_share: ClassVar[float] = 0.2
    moving_avg_window_size: int = 51
    d_model: int = 256
    ORT_weight: float = 1.0
    MIT_weight: float = 1.0


@dataclass(frozen=True)
class FEDformerSettings(Settings):
    """FEDformer (Zhou et al. 2022), Fourier version.

    Its frequencies are drawn at random when it is built and are not in its state dict; they are kept beside it.
    """

    kind: ClassVar[str] = "fedformer"
    class_name: ClassVar[str] = "FEDformer"
    hidden_share: ClassVar[float] = 0.2
    n_layers: int = 2
    d_model: int = 512
    n_heads: int = 8
    d_ffn: int = 128
    moving_avg_window_size: int = 25
    dropout: float = 0.1
    version: str = "Fourier"
    modes: int = 32
    mode_select: str = "random"
    ORT_weight: float = 1.0
    MIT_weight: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        if self.version != "Fourier":
            raise ConfigError(f"model.version: expected Fourier, got {self.version!r}")
        if self.mode_select not in ("random", "low"):
            raise ConfigError(f"model.mode_select: expected random or low, got {self.mode_select!r}")
        if self.n_heads != 8:
            raise ConfigError(f"model.n_heads: PyPOTS's Fourier block has 8, got {self.n_heads}")
        if self.d_model % 8:
            raise ConfigError(f"model.d_model: {self.d_model} must divide by 8")

    @property
    def n_modes(self) -> int:
        """Frequencies in use: no more than half the steps."""
        return min(self.modes, self.n_steps // 2)


@dataclass(frozen=True)
class TimesNetSettings(Settings):
    """TimesNet (Wu et al. 2023); nothing is hidden in training.

    It finds its periods in the mean spectrum of the whole batch, so what it fills depends on which series are given
    together.
    """

    kind: ClassVar[str] = "timesnet"
    class_name: ClassVar[str] = "TimesNet"
    hidden_share: ClassVar[float] = 0.0
    n_layers: int = 2
    top_k: int = 5
    d_model: int = 128
    d_ffn: int = 512
    n_kernels: int = 6
    dropout: float = 0.4
    apply_nonstationary_norm: bool = False


MODELS: dict[str, type[Settings]] = {
    model.kind: model for model in (BRITSSettings, DLinearSettings, FEDformerSettings, TimesNetSettings)
}


@dataclass(frozen=True)
class TrainingSettings:
    """How an imputer is trained; the defaults are those common to the published ones.

    Attributes:
        epochs: at most so many passes over the train series.
        batch_size: series; the last batch of a pass may be smaller.
        patience: epochs without a better validation before training ends; None goes on to the end.
        clip_norm: largest global gradient norm; None does not clip.
        seed: of initial weights, order, masks and dropout.
        max_days: train on the first so many days of the train split.
    """

    epochs: int = 100
    batch_size: int = 32
    patience: int | None = 10
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    clip_norm: float | None = None
    seed: int = 42
    max_days: int | None = None

    def __post_init__(self):
        for name in ("epochs", "batch_size", "patience", "max_days"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"training.{name}: must be at least 1, got {value}")
        for name in ("learning_rate", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"training.{name}: must be positive, got {value}")
        if not self.weight_decay >= 0:
            raise ConfigError(f"training.weight_decay: must not be negative, got {self.weight_decay}")
        if not 0 <= self.seed < 2**32:
            raise ConfigError(f"training.seed: must be in [0, 2^32), got {self.seed}")


@dataclass(frozen=True)
class PyPOTSConfig:
    """What a training run of a PyPOTS imputer is."""

    model: Settings
    training: TrainingSettings


def published(kind: str, *, n_days: int = 1) -> tuple[Settings, TrainingSettings]:
    """Selected settings of a published OpenMHC imputer, and how it was trained as far as is known.

    Learning rate and batch size of BRITS and TimesNet and the batch size of DLinear are the common defaults; that of
    DLinear's learning rate is a hint of the paper ("an order of magnitude larger" than 1e-3).

    Args:
        n_days: 1, or 7 for series of seven days.
    """
    if n_days not in (1, N_DAYS):
        raise ConfigError(f"n_days: expected 1 or {N_DAYS}, got {n_days}")
    settings = settings_class(kind)(n_steps=n_days * MINUTES_PER_DAY)
    trained = {
        "brits": TrainingSettings(clip_norm=1.0),
        "dlinear": TrainingSettings(learning_rate=1e-2),
        "fedformer": TrainingSettings(epochs=50, batch_size=128, learning_rate=2e-3),
        "timesnet": TrainingSettings(),
    }
    return settings, trained[kind]


def settings_class(kind: str) -> type[Settings]:
    """The settings of a kind. Raises ConfigError."""
    if kind not in MODELS:
        raise ConfigError(f"kind: no PyPOTS imputer {kind!r}; known: {', '.join(MODELS)}")
    return MODELS[kind]


def build(
    settings: Settings,
    *,
    training: TrainingSettings | None = None,
    device: str = "cpu",
    fourier_modes: Sequence[int] | None = None,
) -> Any:
    """The PyPOTS model with initial weights, and an Adam optimizer; both depend on the seed alone.

    Args:
        device: `cpu`, `cuda` or `cuda:N`.
        fourier_modes: frequencies of FEDformer; None draws them from the seed.

    Raises:
        MethodError: PyPOTS is not installed, or the device is not there.
        ConfigError: frequencies that do not fit.
    """
    training = training or TrainingSettings()
    imputation, torch = pypots_library.load()
    pypots_library.check_device(torch, device)
    modes = fourier_modes_of(settings, training.seed) if fourier_modes is None else list(fourier_modes)
    with (
        pypots_library.seeded(training.seed, device=device),
        pypots_library.kept_numpy_state(),
        pypots_library.quiet(),
    ):
        optim = importlib.import_module("pypots.optim")
        loss = importlib.import_module("pypots.nn.modules.loss")
        model = getattr(imputation, settings.class_name)(
            n_features=N_CHANNELS, **dataclasses.asdict(settings), training_loss=loss.MAE,
            validation_metric=loss.MAE, batch_size=training.batch_size, epochs=training.epochs,
            optimizer=optim.Adam(lr=training.learning_rate, weight_decay=training.weight_decay),
            device=device, model_saving_strategy=None,
        )  # fmt: skip
    if isinstance(settings, FEDformerSettings):
        set_fourier_modes(model, settings, modes)
    return model


def fourier_modes_of(settings: Settings, seed: int) -> list[int]:
    """The input frequencies of a new FEDformer, ascending; empty for other models."""
    if not isinstance(settings, FEDformerSettings):
        return []
    if settings.mode_select != "random":
        return list(range(settings.n_modes))
    drawn = np.random.default_rng([seed, 0x666F75]).permutation(settings.n_steps // 2)[: settings.n_modes]
    return sorted(int(mode) for mode in drawn)


def set_fourier_modes(model: Any, settings: FEDformerSettings, modes: Sequence[int]) -> None:
    """Puts frequencies into every Fourier block. Raises ConfigError unless they are as many as the weights."""
    below = settings.n_steps // 2 + 1
    if len(modes) != settings.n_modes or any(
        isinstance(m, bool) or not isinstance(m, int | np.integer) or not 0 <= m < below for m in modes
    ):
        raise ConfigError(
            f"fourier_modes: expected {settings.n_modes} whole numbers in [0, {below}), got {list(modes)[:40]}"
        )
    for module in fourier_blocks(model).values():
        module.index = [int(mode) for mode in modes]


def fourier_blocks(model: Any) -> dict[str, Any]:
    """The Fourier blocks of a FEDformer by the path of the module; one that layers share is under each of its paths."""
    modules = model.model.named_modules(remove_duplicate=False)
    return {path: module for path, module in modules if type(module).__name__ == "FourierBlock"}
