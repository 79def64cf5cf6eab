"""What the gates left of one person, as a file: builds keep one beside their target, and go on from there.

A file names each computation graph once. What only the gates needed (margins, searches) is not kept.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wearjax import json_text, writing
from wearjax.benchmarks.wearableqa.candidate import Candidate, Key, Option
from wearjax.benchmarks.wearableqa.graph import Graph
from wearjax.benchmarks.wearableqa.item import coupling_from_json, hidden_from_json, hidden_to_json
from wearjax.benchmarks.wearableqa.yields import Judged, Survivor
from wearjax.errors import ConfigError, StoreError


def write(file: Path, user: str, judged: Sequence[Judged]) -> None:
    """Writes beside the target and renames, so that what carries the name is whole. Raises StoreError.

    `writing.file` would look through the folder for each of many thousand people.
    """
    graphs: dict[str, Any] = {}
    content = {"user": user, "types": [_judged_to_json(each, graphs) for each in judged], "graphs": graphs}
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    packed = gzip.compress(json.dumps(content, separators=(",", ":")).encode(), compresslevel=3, mtime=0)
    with writing.told(file):
        try:
            temporary.write_bytes(packed)
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)


class Reader:
    """Reads files of one build; equal graphs become one object."""

    def __init__(self) -> None:
        self._graphs: dict[str, Graph] = {}

    def read(self, file: Path) -> list[Judged]:
        """What the gates left of a person, by type. Raises StoreError where it is not readable."""
        try:
            content = json_text.loads(gzip.decompress(file.read_bytes()))
            for digest, stored in content["graphs"].items():
                if digest not in self._graphs:
                    self._graphs[digest] = Graph.from_json(stored)
            return [self._judged(content["user"], each) for each in content["types"]]
        except (OSError, EOFError, ValueError, KeyError, TypeError, ConfigError) as error:
            raise StoreError(f"{file}: not readable as a part of a build ({error!r}); delete it") from None

    def _judged(self, user: str, stored: Mapping[str, Any]) -> Judged:
        return Judged(
            type=stored["type"],
            survivors=tuple(
                Survivor(self._candidate(stored["type"], user, each), each["chance"], each["compared"])
                for each in stored["survivors"]
            ),
            chances=tuple(stored["chances"]),
            proposed=stored["proposed"],
            looked=stored["looked"],
            rejected=stored["rejected"],
        )

    def _candidate(self, type_name: str, user: str, stored: Mapping[str, Any]) -> Candidate:
        options = tuple(Option(sys.intern(text), _key(key)) for text, key in stored["options"])
        return Candidate(
            type=type_name,
            user=user,
            end=stored["end"],
            metrics=tuple(map(sys.intern, stored["metrics"])),
            stem=stored["stem"],
            graph=self._graphs[stored["graph"]],
            gold=options[0],
            distractors=options[1:],
            coupling=coupling_from_json(stored["coupling"]),
            tolerance=stored["tolerance"],
            hidden=hidden_from_json(stored["hidden"]),
            relation=stored["relation"],
            tag=stored["tag"],
            rho=stored["rho"],
        )


def _judged_to_json(judged: Judged, graphs: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": judged.type,
        "survivors": [_survivor_to_json(each, graphs) for each in judged.survivors],
        "chances": [float(p) for p in judged.chances],
        "proposed": int(judged.proposed),
        "looked": int(judged.looked),
        "rejected": {gate: int(n) for gate, n in sorted(judged.rejected.items())},
    }


def _survivor_to_json(survivor: Survivor, graphs: dict[str, Any]) -> dict[str, Any]:
    candidate = survivor.candidate
    digest = candidate.graph.digest()
    graphs.setdefault(digest, candidate.graph.to_json())
    return {
        "chance": None if survivor.chance is None else float(survivor.chance),
        "compared": int(survivor.compared),
        "end": int(candidate.end),
        "metrics": list(candidate.metrics),
        "stem": candidate.stem,
        "graph": digest,
        "options": [[o.text, [float(v) for v in o.key]] for o in (candidate.gold, *candidate.distractors)],
        "coupling": None if candidate.coupling is None else list(candidate.coupling),
        "tolerance": float(candidate.tolerance),
        "hidden": hidden_to_json(candidate.hidden),
        "relation": candidate.relation,
        "tag": candidate.tag,
        "rho": None if candidate.rho is None else float(candidate.rho),
    }


def _key(stored: Sequence[float]) -> Key:
    return tuple(float(number) for number in stored)
