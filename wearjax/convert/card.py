"""The model card of a bundle: what it is, where it comes from and what it is not for, in Markdown.

Made of the facts of `bundle.json` alone, so the same bundle has the same card. `origin` of a trained model holds
`how: trained`, `run` (its name), `data` (store, digest, days, participants, provenance), `training` (configuration of
data, optimizer and loop), `steps` and `metrics`; that of a converted one `how: converted`, `file` and `sha256`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wearjax import checksum, plural
from wearjax.channels import CHANNELS

_DAYS = "days or windows of minutes `(n, 19, minutes)`"
_IMPUTE = f"fills {_DAYS}: `model.impute(data, observed_mask, target_mask)`"
_HOURS = "continues hours `(19, hours)`: `model.forecast(history, horizon)`"
_KINDS = {
    "lsm2": (
        "LSM-2, a masked autoencoder with adaptive and inherited masking (Xu et al. 2025)",
        [_IMPUTE, f"gives one vector for each of the {_DAYS}: `model.embed(values)`"],
    ),
    "lsm2_sparse": ("LSM-2 with a frozen daily encoder and a decoder within and across days", [_IMPUTE]),
    "wbm": (
        "WBM, bidirectional Mamba-2 over the hours of a week, trained by contrast",
        ["gives one vector a week of hours `(n, 168, 19)`: `model.embed(values)`"],
    ),
    "dlinear": ("DLinear, linear maps of trend and remainder, as an imputer", [_IMPUTE]),
    "brits": ("BRITS, recurrent imputation in both directions (Cao et al. 2018)", [_IMPUTE]),
    "dlinear_forecast": ("DLinear, linear maps of trend and remainder, as a forecaster", [_HOURS]),
    "segrnn": ("SegRNN, a recurrent network over segments, as a forecaster", [_HOURS]),
    "mixlinear": ("MixLinear, linear maps in time and frequency, as a forecaster", [_HOURS]),
}
_LIMITS = (
    "Research on phone and watch recordings in the 19 channels of OpenMHC. Not a medical device: its output is no "
    "measurement, no diagnosis and no advice.",
    "Filled or forecast values are estimates of what would have been recorded, and carry no statement of their error.",
    "It has learned from the people it was trained on. On other devices, ages, conditions or habits measure its "
    "errors before use (`wearjax evaluate`).",
    "Minutes that a device did not record are not missing at random; what the model learned of them is the habit of "
    "wearing, too.",
)
_SYNTHETIC = (
    "It was trained on an invented cohort: good for trying things out, and for no statement about people."
)


def render(facts: Mapping[str, Any]) -> str:
    """The card of a bundle with these facts (`wearjax.convert.bundle.describe`)."""
    return "\n".join(_lines(facts)) + "\n"


def of_file(file: str | os.PathLike) -> dict[str, str]:
    """The `origin` of a bundle that was converted from a checkpoint file."""
    return {"how": "converted", "file": Path(file).name, "sha256": checksum.sha256(file)}


def _lines(facts: Mapping[str, Any]) -> Iterator[str]:
    kind, origin = facts["kind"], facts.get("origin") or {}
    what, uses = _KINDS.get(kind, (f"A model of kind {kind}", []))
    yield f"# Model card: {origin.get('run') or kind}"
    yield from ("", f"{what}. {facts['parameters']:,} parameters. Kind `{kind}`.")
    yield from ("", "## Trained on", "")
    yield from _trained_on(origin)
    if metrics := origin.get("metrics"):
        yield from (
            "",
            "## Metrics at the end of training",
            "",
            "| split | metric | value |",
            "|---|---|---|",
        )
        for split, values in metrics.items():
            yield from (f"| {split} | {name} | {value:.6g} |" for name, value in values.items())
    yield from ("", "## Intended use", "")
    yield from (f"- It {use}" for use in uses)
    yield from ("", "## Limits", "")
    yield from (f"- {limit}" for limit in _LIMITS)
    if (origin.get("data") or {}).get("synthetic"):
        yield f"- {_SYNTHETIC}"
    yield from (
        "",
        "## Licence",
        "",
        facts.get("licence") or "Not stated. `wearjax card BUNDLE --licence NAME` sets it.",
    )
    yield from ("", "## Load", "", "```python", "import wearjax", "")
    yield from ('model = wearjax.load_pretrained("PATH/TO/THIS/FOLDER")', "```")
    yield from ("", "## Configuration", "", "Of the model:", "", *_json(facts["config"]))
    if training := origin.get("training"):
        yield from ("", "Of its training:", "", *_json(training))
    yield from ("", "## Normalization", "", *_normalization(facts["normalization"]))
    yield from ("", "## Versions", "")
    yield ", ".join(f"{name} {version}" for name, version in facts.get("versions", {}).items())


def _trained_on(origin: Mapping[str, Any]) -> Iterator[str]:
    data = origin.get("data") or {}
    if origin.get("how") == "converted":
        yield f"Converted from `{origin['file']}` (SHA-256 `{origin['sha256']}`); see the card of that release."
    elif not data:
        yield "Not recorded."
    else:
        invented = "invented, not people" if data["synthetic"] else "recordings"
        yield f"- Store `{data['store']}`: {invented}"
        for split, purpose in (("train", "train"), ("validation", "validate")):
            people, days = data[f"{split}_participants"], data[f"{split}_days"]
            shown = f"{people:,} {plural.noun(people, 'participant')}, {days:,} {plural.noun(days, 'day')}"
            yield f"- {shown} to {purpose}"
        steps = origin["steps"]
        yield f"- {data['train_examples']:,} {data['examples']} in {steps:,} {plural.noun(steps, 'step')}"
        yield f"- Digest of the days `{data['days_digest']}`, of the channel table `{data['channels_digest'][:16]}`"
        yield f"- Provenance: `{json.dumps(data['provenance'], sort_keys=True)}`"


def _json(values: Any) -> list[str]:
    return ["```json", *json.dumps(values, indent=1, sort_keys=True).splitlines(), "```"]


def _normalization(stats: Mapping[str, Any]) -> Iterator[str]:
    yield from ("| channel | unit | mean | spread |", "|---|---|---|---|")
    for channel, mean, std in zip(CHANNELS, stats["means"], stats["stds"], strict=True):
        yield f"| {channel.name} | {channel.unit} | {mean:.6g} | {std:.6g} |"
