"""The switches of VitalBench: where the paper, the released code and this library do different things.

A result is comparable with another only where these agree, so every result carries them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_type_hints

from wearjax.errors import ConfigError

ChannelOrder = Literal["solved", "identity"]
SEED = 3047  # of weights, order, dropout and channel draws in the published runs


@dataclass(frozen=True)
class VitalSettings:
    """Switches of a run; the defaults give numbers that stand beside the published tables.

    Attributes:
        scaling: `per_case` scales each surgery by its own extremes, its future included; `train_global` by those of
            the observed training values, with missing entries apart from the lowest value.
        split: how the cases were divided: by start of surgery, the released code's draw, or a list.
        reduction: of the training loss; `by_model` is `all` for MambaTS and `observed` for the others.
        faithful_track1: score, as the released code does, only the last k targets, k drawn once for training and
            once a case for validation and test.
        faithful_vpt: credit the costs of permutation training to the transitions the released code credits.
        channel_order: of MambaTS in evaluation: the solved order, or the table's. Across centres models are scored in
            that of the table whatever is asked, as released; their best epoch is still chosen in this one.
        imputation: filling of gaps before scaling, or none and a masked loss.
        impute_targets: imputed targets count as observed, as released; else only inputs are filled.
        correlation: what the column CC holds. Both are always reported under their own names.
        r2_axis: what the column R2 holds: variance between the variables of a step, or of a variable over time.
        downsampling: what stands for a minute of faster samples: the last observed value, or the mean.
        s4: state matrix of S4: normal plus low rank, or diagonal.
        report_units: of errors: scaled to [0, 1], or those of the variables.
        seed: of everything that is drawn.
    """

    scaling: Literal["per_case", "train_global"] = "per_case"
    split: Literal["time", "random42", "list"] = "time"
    reduction: Literal["by_model", "observed", "all"] = "by_model"
    faithful_track1: bool = False
    faithful_vpt: bool = False
    channel_order: ChannelOrder = "solved"
    imputation: Literal["none", "mean", "linear", "ffill", "knn"] = "none"
    impute_targets: bool = True
    correlation: Literal["spearman", "pearson"] = "spearman"
    r2_axis: Literal["variables", "temporal"] = "variables"
    downsampling: Literal["last", "mean"] = "last"
    s4: Literal["nplr", "diagonal"] = "nplr"
    report_units: Literal["scaled", "original"] = "scaled"
    seed: int = SEED

    def __post_init__(self):
        for name, hint in get_type_hints(type(self)).items():
            value, allowed = getattr(self, name), get_args(hint)
            if allowed and value not in allowed:
                raise ConfigError(f"{name}: expected one of {', '.join(allowed)}, got {value!r}")
            if hint is bool and not isinstance(value, bool):
                raise ConfigError(f"{name}: expected true or false, got {value!r}")
        if not isinstance(self.seed, int) or not 0 <= self.seed < 2**32:
            raise ConfigError(f"seed: expected an integer from 0 to 2^32 - 1, got {self.seed!r}")

    def to_dict(self) -> dict[str, Any]:
        """All switches by name, for the result file."""
        return dataclasses.asdict(self)
