"""What is known of the participants: birth year and sex, for subgroup scores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from wearjax import json_text
from wearjax.errors import SourceError, StoreError
from wearjax.sources import openmhc

FILE = "participants.json"
_MALE, _FEMALE = ("male", "true", "yes", "1"), ("female", "false", "no", "0")


def read_demographics(data_dir: str | os.PathLike) -> dict[str, dict[str, Any]]:
    """Birth year and sex by participant; empty where nothing is known.

    A store keeps them in `participants.json`. An OpenMHC root has `labels/enrollment_info.json`
    (`birth_year`) and `labels/last_labels.json` (`BiologicalSex`, male = 1; the latest answer counts, and an
    answer without a time is unusable, as in the benchmark).

    Returns:
        `{participant: {"birth_year": int or None, "sex": "male", "female" or None}}`.

    Raises StoreError or SourceError when a file is there and not as described.
    """
    data_dir = Path(data_dir)
    if (data_dir / openmhc.MARKER).exists():
        return _of_root(data_dir / "labels")
    file = data_dir / FILE
    if not file.exists():
        return {}
    try:
        content = json_text.loads(file.read_text(encoding="utf-8"))
        return {
            str(p): {"birth_year": _year(known), "sex": _sex(known.get("sex"))}
            for p, known in content.items()
        }
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise StoreError(f"{file}: expected {{participant: {{'birth_year', 'sex'}}}} ({error})") from None


def _of_root(folder: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    enrolment = _optional(folder / "enrollment_info.json")
    for user, known in enrolment.items():
        try:
            year = _year(known)
        except (AttributeError, TypeError, ValueError):
            file = folder / "enrollment_info.json"
            raise SourceError(
                f"{file}: user {user}: expected {{'birth_year': year}}, found {known!r}"
            ) from None
        found.setdefault(str(user), {"birth_year": None, "sex": None})["birth_year"] = year
    file = folder / "last_labels.json"
    answers = _optional(file).get("BiologicalSex", {})
    if not isinstance(answers, dict):
        raise SourceError(f"{file}: BiologicalSex: expected answers by user, found {answers!r:.40}")
    for user, answer in answers.items():
        try:
            times = answer["timestamps"]
            answered = sorted(zip(times, answer["values"], strict=True), key=lambda p: p[0]) if times else []
            sex = _sex(answered[-1][1]) if answered else None
        except (AttributeError, KeyError, TypeError, ValueError):
            raise SourceError(
                f"{file}: BiologicalSex of user {user}: expected timestamps and as many values, "
                f"male or female; found {answer!r}"
            ) from None
        found.setdefault(str(user), {"birth_year": None, "sex": None})["sex"] = sex
    return found


def _optional(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    content = openmhc.read_json(file)
    if not isinstance(content, dict):
        raise SourceError(f"{file}: expected a JSON object")
    return content


def _year(known: dict[str, Any]) -> int | None:
    year = known.get("birth_year")
    return None if year is None or year != year else int(year)


def _sex(value: Any) -> str | None:
    """Male is 1, True or a word for it. Raises ValueError on anything that is neither sex nor missing."""
    if value is None or value != value:
        return None
    word = str(int(value)) if isinstance(value, bool | float) else str(value).strip().lower()
    if word in _MALE:
        return "male"
    if word in _FEMALE:
        return "female"
    if word in ("", "nan", "none"):
        return None
    raise ValueError(word)
