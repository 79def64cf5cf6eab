"""The data of a run: its days, the examples cut from them, and how their values are normalised."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Int64

from wearjax import plural
from wearjax.batches import forecast_windows, weeks
from wearjax.batches.examples import DayExamples, SevenDayExamples
from wearjax.batches.source import Examples
from wearjax.channels import HOURS_PER_DAY
from wearjax.days import hourly_scaler, normalization, splits
from wearjax.days.open import open_days
from wearjax.days.store import Days
from wearjax.errors import ConfigError
from wearjax.segments import seven_days, trajectories
from wearjax.train.config import DataConfig

Fit = Callable[[], normalization.NormalizationStats]


@dataclass(frozen=True)
class TrainingDays:
    """Store indices of the days that a run uses."""

    days: Days
    train: Int64[np.ndarray, "train"]
    validation: Int64[np.ndarray, "validation"]

    def digest(self) -> str:
        """Changes when a run would see other days, or in another order."""
        digest = hashlib.sha256()
        for indices in (self.train, self.validation):
            for index in indices:
                digest.update(f"{self.days.participants[index]} {self.days.dates[index]}\n".encode())
            digest.update(b"\n")
        return digest.hexdigest()[:16]


def open_training_days(data_dir: str | os.PathLike | None, config: DataConfig) -> TrainingDays:
    """Opens a store, takes its train and validation days. Raises ConfigError if none can be trained on."""
    if data_dir is None:
        raise ConfigError("no data: give the store with --data, or set data.path in the configuration")
    days, split = open_days(data_dir), splits.read_splits(data_dir)
    train = split.indices(days, "train", retained_only=config.retained_only)[: config.max_train_days]
    validation = split.indices(days, "validation", retained_only=config.retained_only)
    if not len(train):
        kept = " that passes the wear-time and variance filters" if config.retained_only else ""
        raise ConfigError(f"{data_dir}: no day in the train split{kept}")
    return TrainingDays(days, train, validation)


@dataclass(frozen=True)
class TrainingExamples:
    """What a run trains and validates on.

    Attributes:
        name: what one example is, for messages, e.g. `days`.
        days_each: days in one example.
        fit: statistics of the train examples, or those that came with the data; called for a new run only.
        shipped: file of the latter; None where they are fitted.
        groups: of each train example; those of a group stay together in an epoch. None mixes all.
    """

    name: str
    days_each: int
    train: Examples
    validation: Examples
    fit: Fit
    shipped: Path | None = None
    groups: Int64[np.ndarray, "example"] | None = None

    def fit_and_say(self, say: Callable[[str], None], *, train_days: int) -> normalization.NormalizationStats:
        """The statistics, after a line on where they come from."""
        if self.shipped is None:
            say(f"fitting normalization on {train_days:,} {plural.noun(train_days, 'day')}")
        else:
            say(f"normalization as it came with the data: {self.shipped}")
        return self.fit()


def day_examples(found: TrainingDays, *, seed: int) -> TrainingExamples:
    """Single days."""
    del seed
    return TrainingExamples(
        "days",
        1,
        DayExamples(found.days, found.train),
        DayExamples(found.days, found.validation),
        *_of_minutes(found),
    )


def window_examples(found: TrainingDays, *, seed: int) -> TrainingExamples:
    """Windows of seven days of a participant."""
    del seed
    return TrainingExamples(
        "windows",
        seven_days.N_DAYS,
        SevenDayExamples(found.days, found.train),
        SevenDayExamples(found.days, found.validation),
        *_of_minutes(found),
    )


def _of_minutes(found: TrainingDays) -> tuple[Fit, Path | None]:
    return _statistics(found, "minute", lambda: normalization.fit(found.days, found.train))


def _statistics(
    found: TrainingDays, unit: Literal["minute", "hour"], fit: Fit, *, epsilon: float = normalization.EPSILON
) -> tuple[Fit, Path | None]:
    """How to get statistics: from the file that came with the data, which is the second, else by fitting."""
    shipped = normalization.shipped(found.days, unit)
    if shipped is None:
        return fit, None
    return lambda: dataclasses.replace(
        normalization.NormalizationStats.load(shipped), epsilon=epsilon
    ), shipped


def week_examples(found: TrainingDays, *, seed: int) -> TrainingExamples:
    """One random week of hours of each participant; the hours are kept in memory."""
    hours = weeks.hours_of(found.days, found.train)
    validation = weeks.hours_of(found.days, found.validation)
    return TrainingExamples(
        "participant weeks",
        seven_days.N_DAYS,
        weeks.ParticipantWeeks(*weeks.weeks_of(found.days, found.train, hours), seed=seed),
        weeks.ParticipantWeeks(*weeks.weeks_of(found.days, found.validation, validation), seed=seed),
        # Nothing is added to the spread of hours; the shipped file names the epsilon of minutes.
        *_statistics(found, "hour", lambda: weeks.fit_hourly(hours), epsilon=0.0),
    )


def forecast_examples(found: TrainingDays, *, seed: int, steps: int, horizon: int) -> TrainingExamples:
    """The hours around every midnight worth forecasting; the hours of all participants are kept in memory.

    Participants are those of the run's days; their records are whole, with the days that no filter retains. Windows
    of a participant stay together in an epoch, as in OpenMHC's training.

    Args:
        steps, horizon: hours before and after.
    """
    del seed

    def windows(indices: np.ndarray) -> forecast_windows.ForecastWindows:
        participants = sorted({str(found.days.participants[i]) for i in indices})
        records = trajectories.open_trajectories(found.days, participants=participants)
        return forecast_windows.ForecastWindows(records, steps=steps, horizon=horizon)

    train = windows(found.train)
    return TrainingExamples(
        "windows",
        -(-(steps + horizon) // HOURS_PER_DAY),
        train,
        windows(found.validation),
        lambda: hourly_scaler.fit(train.trajectories()),
        groups=train.owner,
    )
