"""The vitals of an invented surgery: their levels, what each follows and how late, and how monitors record them.

Levels and spreads are those of adults under general anaesthesia; delays are longer than a body's, so that there is
something to be seen ahead of time at every horizon up to ten minutes.
"""

from __future__ import annotations

from dataclasses import dataclass

from wearjax.sources.synthetic_drivers import Response


@dataclass(frozen=True)
class Vital:
    """One target: level, spread, what it follows, and how it is recorded.

    Attributes:
        mean, between, within: level of the cohort, its spread between patients, and within a surgery.
        follows: responses to drivers.
        digits: decimals that the monitor shows.
        missing: mean share of rows without a value.
    """

    mean: float
    between: float
    within: float
    follows: tuple[Response, ...]
    digits: int = 0
    missing: float = 0.3


def _pressure(mean: float, between: float, within: float) -> Vital:
    follows = (
        Response("depth", -1.2, 2.5, 1.5), Response("hypnotic", -0.6, 8.0, 2.0),
        Response("opioid", -0.4, 11.0, 2.0), Response("stimulus", 0.6, 9.0), Response("pressor", 0.6, 2.0),
    )  # fmt: skip
    return Vital(mean, between, within, follows, missing=0.35)


_HEART_RATE = Vital(
    72, 10, 9, (Response("depth", -0.8, 2.0, 1.5), Response("opioid", -0.5, 6.0), Response("stimulus", 0.8, 0.5, 0.5)),
    missing=0.22,
)  # fmt: skip
_TEMPERATURE = Vital(
    36.1, 0.3, 0.25, (Response("hypnotic", -0.7, 15.0, 6.0), Response("stimulus", 0.5, 20.0, 4.0)),
    digits=1, missing=0.6,
)  # fmt: skip
_SATURATION = Vital(
    97.0, 0.7, 0.9, (Response("oxygen", 0.7, 10.0, 2.0), Response("ventilation", 0.5, 14.0, 2.0)),
    digits=0, missing=0.25,
)  # fmt: skip
_CO2 = Vital(
    35, 2, 3, (Response("ventilation", -0.8, 12.0, 2.0), Response("hypnotic", -0.4, 9.0, 2.0)), missing=0.4
)
TARGETS: dict[str, dict[str, Vital]] = {
    "vitaldb": {
        "Solar8000/HR": _HEART_RATE,
        "Solar8000/BT": _TEMPERATURE,
        "Solar8000/ART_DBP": _pressure(65, 7, 9),
        "Solar8000/ART_SBP": _pressure(118, 12, 16),
        "Solar8000/ART_MBP": _pressure(84, 8, 11),
        # No setting of a ventilator is among VitalDB's columns: both follow what the columns show.
        "Solar8000/ETCO2": Vital(
            35, 2, 3, (Response("stimulus", 0.7, 12.0, 2.0), Response("hypnotic", -0.6, 9.0, 2.0)), missing=0.4
        ),
        "Solar8000/PLETH_SPO2": Vital(
            97.0, 0.7, 0.9, (Response("stimulus", 0.6, 14.0, 2.0), Response("opioid", -0.6, 10.0, 2.0)), missing=0.25
        ),
        "BIS/BIS": Vital(
            46, 4, 8, (Response("depth", -5.0, 1.5), Response("hypnotic", -0.8, 6.0), Response("stimulus", 0.4, 8.0)),
            digits=1, missing=0.45,
        ),
    },
    "mover": {
        "HRp": _HEART_RATE,
        "SpO2": _SATURATION,
        "Temp": _TEMPERATURE,
        "SBP_ART": _pressure(118, 12, 16),
        "DBP_ART": _pressure(65, 7, 9),
        "TV": Vital(480, 50, 40, (Response("ventilation", 0.9, 0.0, 0.0),), missing=0.3),
        "RR": Vital(12, 1.0, 1.5, (Response("ventilation", 0.9, 1.0, 0.0),), missing=0.3),
        "PEEP": Vital(5, 0.8, 0.8, (Response("oxygen", 0.9, 1.0, 0.0),), digits=1, missing=0.4),
        "PIP": Vital(19, 2.5, 2.5, (Response("ventilation", 0.7, 6.0), Response("oxygen", 0.6, 8.0)), missing=0.35),
        "ETCO2": _CO2,
        "FI02": Vital(55, 6, 8, (Response("oxygen", 0.9, 0.0, 0.0),), missing=0.3),
        "ET02": Vital(50, 6, 8, (Response("oxygen", 0.9, 7.0, 2.0),), missing=0.35),
        "MAP_ART": _pressure(84, 8, 11),
    },
}  # fmt: skip
