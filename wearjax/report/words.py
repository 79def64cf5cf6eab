"""The names a reader sees, and the colours that stay with a method through the whole page."""

from __future__ import annotations

from collections.abc import Iterable

from wearjax.channels import CATEGORIES, CHANNELS

BASELINE = "locf"
_FORECAST_BASELINE = "seasonal_naive"
RUN_MARK = " · "  # between a method and the run it belongs to
# Methods that learn no weights; any other name counts as a learned method.
STATISTICAL = frozenset(
    ("mean", "mode", "linear", BASELINE, "temporal_mean", "temporal_mode",
     "personalized_mean", "personalized_mode", "personalized_temporal_mean", "personalized_temporal_mode",
     _FORECAST_BASELINE, "autoarima", "autoets")
)  # fmt: skip
SCENARIOS = {
    "random_noise": "patches of 30 minutes hidden at random in each channel",
    "temporal_slice": "all channels hidden together in blocks of 30 to 60 minutes",
    "signal_slice": "whole channels, or one device, hidden all day",
    "sleep_gap": "everything but sleep hidden while asleep or in bed",
    "workout_gap": "heart rate and energy hidden during workouts",
    "intensity_failure": "heart rate and energy hidden at sustained high intensity",
}
# Okabe and Ito's colours in an order that keeps neighbours apart; black is left for what was observed.
WHEEL = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#7F6A00", "#6A3D9A", "#8C510A")
_BASELINE_COLOUR = "#767676"
_FIXED = {
    BASELINE: _BASELINE_COLOUR, _FORECAST_BASELINE: _BASELINE_COLOUR,
    "lsm2": "#0072B2", "linear": "#E69F00", "mean": "#CC79A7", "mode": "#8C510A",
    "temporal_mean": "#009E73", "temporal_mode": "#7F6A00",
}  # fmt: skip
OBSERVED_COLOUR = "#222222"
SHADE_COLOUR = "#E9E4D4"  # cells that were hidden or filled
_WORDS = {
    "hr": "heart rate", "iphone": "phone", "watch": "Watch", "lsm2": "LSM-2", "locf": "LOCF",
    "hiit": "HIIT", "sleep_asleep": "asleep", "sleep_inbed": "in bed",
}  # fmt: skip


def readable(name: str) -> str:
    """`watch_hr` → `Watch heart rate`; a name with nothing to translate keeps its spelling."""
    name = plain(name)
    words = _WORDS.get(name) or " ".join(_WORDS.get(word, word) for word in name.split("_"))
    return words[:1].upper() + words[1:]


def plain(text: object, limit: int = 200) -> str:
    """One line of printable text: what comes from files may hold line breaks, control characters or pages."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def short(text: object, limit: int) -> str:
    """A plain line cut in the middle: ids differ at their end."""
    line = plain(text)
    tail = (limit - 1) * 2 // 3
    return line if len(line) <= limit else f"{line[: limit - 1 - tail]}…{line[-tail:]}"


def channel(name: str) -> str:
    """Readable channel of a score: accepts `ch_5`, a channel name or a collapsed category."""
    if name.startswith("ch_") and name[3:].isdecimal() and int(name[3:]) < len(CHANNELS):
        name = CHANNELS[int(name[3:])].name
    return f"{readable(name)} (all)" if name in CATEGORIES else readable(name)


def scope(name: str) -> str:
    """Readable scope of a score: `cat:sleep` → `Sleep`, `random_noise` → `Random noise`."""
    return readable(name.removeprefix("cat:"))


def is_learned(method: str) -> bool:
    return method not in STATISTICAL


def colours(methods: Iterable[str]) -> dict[str, str]:
    """One colour a method: fixed for known names, else the first free one in order of appearance.

    Of labels that name the same method of several runs (`lsm2 · run`), the first keeps the method's colour.
    """
    chosen: dict[str, str] = {}
    names = list(dict.fromkeys(methods))
    for name in names:
        colour = _FIXED.get(name.partition(RUN_MARK)[0])
        if colour is not None and colour not in chosen.values():
            chosen[name] = colour
    free = [colour for colour in WHEEL if colour not in chosen.values()] or list(WHEEL)
    for turn, name in enumerate(n for n in names if n not in chosen):
        chosen[name] = free[turn % len(free)]
    return chosen
