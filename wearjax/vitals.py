"""The table of VitalBench's variables and centres: the only place that knows their order, units and roles.

Names, roles and the order "covariates, then targets, the designated target last" are those of VitalBench,
section 2. In the published layout a value of 0 means "not recorded", except where `zero_is_value` says otherwise.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

CONTEXT_MINUTES = 30
HORIZON_MINUTES = (1, 3, 10, 30)


@dataclass(frozen=True)
class Variable:
    """One column of a surgery.

    Attributes:
        name: column name in tables and files.
        meaning: in words.
        unit: unit of the values; empty where there is none.
        role: `covariate` (input only) or `target` (forecast and scored).
        aliases: other spellings in which files name the column.
        low, high: closed range of plausible values; a device that reports something else is in error.
        static: one value for the whole surgery.
        zero_is_value: 0 is a recorded value here and not the mark of a missing one.
    """

    name: str
    meaning: str
    unit: str
    role: Literal["covariate", "target"]
    aliases: tuple[str, ...] = ()
    low: float = 0.0
    high: float = float("inf")
    static: bool = False
    zero_is_value: bool = False


@dataclass(frozen=True)
class Centre:
    """One hospital's data set at one time step.

    Attributes:
        name: `vitaldb` or `mover`.
        title: the name in tables for people.
        step_seconds: seconds from one row to the next.
        variables: in the order in which a model sees them: covariates, then targets, designated target last.
    """

    name: str
    title: str
    step_seconds: int
    variables: tuple[Variable, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(variable.name for variable in self.variables)

    @property
    def n_variables(self) -> int:
        """K, the number of columns."""
        return len(self.variables)

    @property
    def n_targets(self) -> int:
        """K_d, the number of target columns; they are the last ones."""
        return sum(variable.role == "target" for variable in self.variables)

    @property
    def n_covariates(self) -> int:
        return self.n_variables - self.n_targets

    @property
    def target(self) -> str:
        """The designated target, the last column."""
        return self.variables[-1].name

    @property
    def targets(self) -> tuple[Variable, ...]:
        return self.variables[self.n_covariates :]

    @property
    def context_steps(self) -> int:
        """L, the rows of a model's input."""
        return CONTEXT_MINUTES * 60 // self.step_seconds

    @property
    def horizons(self) -> dict[int, int]:
        """Minutes of each horizon -> its rows T."""
        return {minutes: minutes * 60 // self.step_seconds for minutes in HORIZON_MINUTES}

    def index(self, name: str) -> int:
        """Column of the variable of exactly this name. Raises KeyError."""
        return self.names.index(name) if name in self.names else _unknown(self, name)

    def find(self, column: str) -> int | None:
        """Column of the variable that a file calls `column` (case, punctuation and known aliases aside)."""
        return self._spellings.get(_plain(column))

    @functools.cached_property
    def _spellings(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for position, variable in enumerate(self.variables):
            for spelling in (variable.name, *variable.aliases):
                if found.setdefault(_plain(spelling), position) != position:
                    raise ValueError(f"{self.name}: two variables are spelt {spelling!r}")
        return found

    def digest(self) -> str:
        """SHA-256 of the table's stored facts; a store made with another table is refused."""
        rows = "\n".join(f"{v.name}|{v.unit}|{v.role}" for v in self.variables)
        return hashlib.sha256(f"{self.name}\n{rows}".encode()).hexdigest()


def _plain(text: str) -> str:
    return "".join(c for c in text.replace("µ", "u").replace("μ", "u").casefold() if c.isalnum())


def _unknown(centre: Centre, name: str) -> int:
    raise KeyError(f"{centre.name} has no variable {name!r}")


def _static(name, meaning, unit, *aliases, low=0.0, high, zero=False):
    return Variable(name, meaning, unit, "covariate", aliases, low, high, static=True, zero_is_value=zero)


def _drug(name, meaning, unit, *aliases, high):
    return Variable(name, meaning, unit, "covariate", aliases, 0.0, high)


def _target(name, meaning, unit, *aliases, low, high):
    return Variable(name, meaning, unit, "target", aliases, low, high)


def _person(weight: str, height: str) -> tuple[Variable, ...]:
    return (
        _static("Age", "age", "y", "age_years", low=0, high=120),
        _static("Gender", "sex: 1 male, 0 female", "", "sex", low=0, high=1, zero=True),
        _static(weight, "body weight", "kg", "weight", "wt", "weight_kg", low=0.3, high=350),
        _static(height, "body height", "cm", "height", "ht", "height_cm", low=30, high=250),
    )


_SOLAR = "Solar8000/"
_VITALDB = (
    *_person("Weight", "Height"),
    _static("ASA", "physical status class of the American Society of Anesthesiologists", "", low=1, high=6),
    _drug("Orchestra/PPF20_VOL", "infused volume of propofol 20 mg/mL", "mL", "PPF20_VOL", high=1000),
    _drug("Orchestra/RFTN20_VOL", "infused volume of remifentanil 20 µg/mL", "mL", "RFTN20_VOL", high=1000),
    _drug("Orchestra/PPF20_CE", "effect-site concentration of propofol", "µg/mL", "PPF20_CE", high=20),
    _drug("Orchestra/RFTN20_CE", "effect-site concentration of remifentanil", "ng/mL", "RFTN20_CE", high=50),
    _target(_SOLAR + "HR", "heart rate", "bpm", "HR", low=10, high=300),
    _target(_SOLAR + "BT", "body temperature", "°C", "BT", "temp", low=20, high=45),
    _target(_SOLAR + "ART_DBP", "arterial diastolic pressure", "mmHg", "ART_DBP", low=5, high=250),
    _target(_SOLAR + "ART_SBP", "arterial systolic pressure", "mmHg", "ART_SBP", low=10, high=350),
    _target(_SOLAR + "ART_MBP", "arterial mean pressure", "mmHg", "ART_MBP", low=10, high=300),
    _target(_SOLAR + "ETCO2", "end-tidal carbon dioxide", "mmHg", "ETCO2", "ETC02", low=1, high=150),
    _target(_SOLAR + "PLETH_SPO2", "oxygen saturation", "%", "PLETH_SPO2", "SPO2", "SP02", low=20, high=100),
    _target("BIS/BIS", "bispectral index", "", "BIS", low=1, high=100),
)


def _dose(name, unit, *, high):
    return _drug(name, f"{name.lower()} given", unit, f"{name} {unit}", f"{name} {_ASCII[unit]}", high=high)


_ASCII = {"mg": "mg", "mL": "ml", "µg": "mcg"}
_MOVER = (
    *_person("Wt", "Ht"),
    *(
        _drug(f"Agent_{letter}", f"volatile agent: {agent}", "mL", high=1000)
        for letter, agent in {"D": "desflurane", "I": "isoflurane", "N": "none", "S": "sevoflurane"}.items()
    ),
    _drug("Agent_Fi", "inspired fraction of the volatile agent", "%", high=20),
    _drug("Agent_Et", "end-tidal fraction of the volatile agent", "%", high=20),
    _dose("Ephedrine", "mg", high=100),
    _dose("Fentanyl", "µg", high=5000),
    _dose("Hydromorphone", "mg", high=50),
    _dose("Lidocaine", "mg", high=1000),
    _dose("Midazolam", "mg", high=100),
    _dose("Ondansetron", "mg", high=50),
    _dose("Phenylephrine", "µg", high=50_000),
    _dose("Plasmalyte", "mL", high=20_000),
    _dose("Propofol", "mg", high=10_000),
    _dose("Vecuronium", "mg", high=200),
    _target("HRp", "heart rate from the pulse", "bpm", "HR", low=10, high=300),
    _target("SpO2", "oxygen saturation", "%", "SP02", low=20, high=100),
    _target("Temp", "body temperature", "°C", "temperature", low=20, high=45),
    _target("SBP_ART", "arterial systolic pressure", "mmHg", "ART_SBP", low=10, high=350),
    _target("DBP_ART", "arterial diastolic pressure", "mmHg", "ART_DBP", low=5, high=250),
    _target("TV", "tidal volume", "mL", low=1, high=3000),
    _target("RR", "respiratory rate", "1/min", low=1, high=80),
    _target("PEEP", "positive end-expiratory pressure", "cmH2O", low=0, high=50),
    _target("PIP", "peak inspiratory pressure", "cmH2O", low=1, high=100),
    _target("ETCO2", "end-tidal carbon dioxide", "mmHg", "ETC02", low=1, high=150),
    _target("FI02", "inspired oxygen", "%", "FIO2", low=15, high=100),
    _target("ET02", "end-tidal oxygen", "%", "ETO2", low=5, high=100),
    _target("MAP_ART", "arterial mean pressure", "mmHg", "ART_MAP", "ART_MBP", low=10, high=300),
)

CENTRES: dict[str, Centre] = {
    "vitaldb": Centre("vitaldb", "VitalDB", 5, _VITALDB),
    "mover": Centre("mover", "MOVER-SIS", 60, _MOVER),
}


def one_minute(centre: Centre) -> Centre:
    """The same centre at one row a minute, the step at which centres are compared (VitalBench, track 3)."""
    return dataclasses.replace(centre, step_seconds=60)


def missing(names: Sequence[str], centre: Centre) -> list[str]:
    """Variables of the centre that none of the column names stands for, in the centre's order."""
    present = {centre.find(name) for name in names}
    return [variable.name for i, variable in enumerate(centre.variables) if i not in present]
