"""What is trained: one model, one horizon, at published or at small sizes, by track (VitalBench, section 6.1).

A baseline, which is scored beside the models and not trained, is a plan too.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from wearjax.errors import ConfigError
from wearjax.segments.vital_settings import ChannelOrder, VitalSettings
from wearjax.vitals import CONTEXT_MINUTES, HORIZON_MINUTES, Centre

Size = Literal["published", "small"]
# In the order of the published tables: those that mix channels first.
MODELS = ("mambats", "lightts", "itransformer", "fouriergnn", "patchtst", "micn", "dlinear", "s4")
FLEXIBLE = ("mambats", "itransformer", "fouriergnn", "patchtst", "dlinear", "s4")
UPPER_BOUND = "mambats"  # trained on the target centre, it bounds the cross-centre track
BASELINE = "persistence"
SMALL_RATE = 1e-3
# Sizes that train on two processor cores in minutes; learning rates do not follow the published ones.
_SMALL: dict[str, dict[str, Any]] = {
    "mambats": {"depth": 1, "d_model": 32, "d_state": 8, "dropout": 0.1},
    "lightts": {"d_model": 64},
    "itransformer": {"depth": 2, "d_model": 64, "n_heads": 4, "d_ff": 128, "dropout": 0.1},
    "fouriergnn": {"d_model": 64},
    "patchtst": {"depth": 1, "d_model": 32, "n_heads": 4, "d_ff": 64, "dropout": 0.1},
    "micn": {"d_model": 32, "dropout": 0.1},
    "dlinear": {},
    "s4": {"depth": 1, "d_model": 32, "d_state": 16, "dropout": 0.1},
}


Role = Literal["model", "upper_bound", "baseline"]


@dataclass(frozen=True)
class BaselineConfig:
    """Rows that a baseline looks at, and rows that it forecasts."""

    context: int
    horizon: int


@dataclass(frozen=True)
class Plan:
    """One model to train, or a baseline.

    Attributes:
        kind: of the model.
        minutes: forecast horizon.
        config: the model's sizes.
        learning_rate: of the first two epochs; None where nothing is trained.
        track: 1 complete variables, 2 incomplete ones, 3 across centres.
        role: `model`, `upper_bound` for the one that bounds track 3, or `baseline`: not trained, and in no ranking.
    """

    kind: str
    minutes: int
    config: Any
    learning_rate: float | None
    track: int
    role: Role = "model"

    @property
    def name(self) -> str:
        """Of its folder and of its column in tables."""
        return f"{self.kind}_upper_bound" if self.role == "upper_bound" else self.kind

    def test_order(self, settings: VitalSettings) -> ChannelOrder:
        """Of the channels when it is scored: that of the table across centres, as the released scripts do it there.

        Training, and with it the choice of the best epoch, keeps the order of the settings on every track.
        """
        return "identity" if self.track == 3 and self.role == "model" else settings.channel_order

    def facts(self) -> dict[str, Any]:
        """Plain values that say what the plan is."""
        return {
            "kind": self.kind,
            "minutes": self.minutes,
            "sizes": dataclasses.asdict(self.config),
            "learning_rate": self.learning_rate,
            "track": self.track,
            "role": self.role,
        }


def models_of(track: int, asked: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The models that a track can take, or those asked for.

    Raises:
        ConfigError: an unknown model, or one of fixed channels in the incomplete or the cross-centre track.
    """
    able = MODELS if track == 1 else FLEXIBLE
    for kind in asked:
        if kind not in MODELS:
            raise ConfigError(f"--models: no model {kind!r}; known: {', '.join(MODELS)}")
        if kind not in able:
            raise ConfigError(
                f"--models: {kind} takes a fixed number of channels; track {track} takes {', '.join(able)}"
            )
    return tuple(kind for kind in MODELS if kind in (asked or able))


def plan(
    kind: str,
    minutes: int,
    centre: Centre,
    *,
    track: int,
    size: Size = "published",
    learning_rate: float | None = None,
    role: Role = "model",
) -> Plan:
    """The plan of a model and horizon on a centre's rows.

    Raises:
        ConfigError: a horizon that is not one of the benchmark's, or another size.
    """
    from wearjax.models.vital import registry

    if minutes not in HORIZON_MINUTES:
        raise ConfigError(f"--horizons: expected some of {HORIZON_MINUTES} minutes, got {minutes}")
    if size not in ("published", "small"):
        raise ConfigError(f"--size: expected published or small, got {size!r}")
    published = registry.published(kind, centre.name, track)
    config = dataclasses.replace(
        published(centre.horizons[minutes]), n_channels=centre.n_variables, context=centre.context_steps
    )
    rate = published.learning_rate
    if size == "small":
        config, rate = dataclasses.replace(config, **_SMALL[kind]), SMALL_RATE
    return Plan(kind, minutes, config, learning_rate or rate, track, role)


def baseline(minutes: int, centre: Centre, *, track: int) -> Plan:
    """The plan of persistence on a centre's rows."""
    config = BaselineConfig(centre.context_steps, centre.horizons[minutes])
    return Plan(BASELINE, minutes, config, None, track, "baseline")


def of_facts(facts: dict[str, Any], centre: Centre) -> Plan:
    """The plan that `Plan.facts` describes, for surgeries of a centre.

    Raises:
        ConfigError: facts of another version, or a model of fixed channels and another number of variables.
    """
    from wearjax.models.vital import registry

    kind, sizes = facts["kind"], dict(facts["sizes"])
    if kind not in FLEXIBLE and sizes["n_channels"] != centre.n_variables:
        raise ConfigError(
            f"{kind}: was trained on {sizes['n_channels']} channels and takes no other number; {centre.title} has "
            f"{centre.n_variables}"
        )
    if centre.context_steps != sizes["context"]:
        raise ConfigError(
            f"{kind}: was trained on windows of {sizes['context']} rows, {centre.title} has {centre.context_steps} in "
            f"{CONTEXT_MINUTES} minutes"
        )
    sizes = {name: tuple(value) if isinstance(value, list) else value for name, value in sizes.items()}
    try:
        config = registry.get(kind).config(**sizes)
    except TypeError as error:
        raise ConfigError(f"{kind}: sizes of another version ({error})") from None
    return Plan(kind, facts["minutes"], config, facts["learning_rate"], facts["track"], facts["role"])
