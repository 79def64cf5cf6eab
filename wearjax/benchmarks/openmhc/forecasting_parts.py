"""What a forecasting evaluation keeps: the sums of whole participants, method by method.

`scale/` and two folders a method (errors, example windows) hold Parquet files, each of the participants that were new
when it was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wearjax import json_text, writing
from wearjax.benchmarks import result_files
from wearjax.benchmarks.openmhc import parts
from wearjax.errors import ConfigError

SCALE, GALLERY = "\0scale", "\0gallery "  # no method is called so, or begins so
_NOTE = b"wearjax"


class ForecastingParts(parts.Parts):
    """The parts of one evaluation."""

    def write(self, name: str, table: pa.Table, note: Mapping[str, Any]) -> None:
        """Adds a part; it appears whole or not at all.

        Args:
            name: of a method, `SCALE`, or `GALLERY` and a method.
            note: plain values, kept beside the table.
        """
        start = self._begin()
        folder = self._folder(name)
        file = folder / f"part-{len(list(folder.glob('part-*.parquet'))):05d}.parquet"
        noted = table.replace_schema_metadata({_NOTE: json.dumps(result_files.plain(dict(note))).encode()})
        with writing.file(file) as partial:
            pq.write_table(noted, partial, compression="zstd")
        self._end(start)

    def read(self, name: str) -> Iterator[tuple[pa.Table, dict[str, Any]]]:
        """Tables and notes in the order written.

        Raises:
            ConfigError: a file that is not readable.
        """
        for file in sorted(self._folder(name).glob("part-*.parquet")):
            try:
                table = pq.read_table(file)
                note = json_text.loads((table.schema.metadata or {})[_NOTE])
            except (pa.ArrowException, OSError, ValueError, KeyError) as error:
                told = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise ConfigError(f"{file}: not readable ({told}); pass --force to start over") from None
            yield table, note

    def _folder(self, name: str) -> Path:
        return self.folder / ("scale" if name == SCALE else self._name(name))
