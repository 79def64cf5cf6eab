"""What `--help` adds for verbs that take a configuration: the names of those that there are, or the fields of one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table

from wearjax.train import shipped


def asked(args: Sequence[str]) -> bool:
    """Whether help is asked for."""
    return "--help" in args or "-h" in args


def explained(verb: str, args: Sequence[str]) -> list[str | Table]:
    """The fields of the configuration that is named in front, or else the names of the shipped ones, to print.

    Args:
        verb: `pretrain`, `search` or `pypots`.
        args: what follows it.

    Raises:
        ConfigError: no such configuration.
    """
    if not args[0].startswith("-"):
        rows = [(f"--{field}", value, kind) for field, value, kind in _fields(verb, args[0])]
        return [f"Fields of {args[0]}, their values and types; --FIELD VALUE sets one:", _table(rows)]
    if verb == "pypots":
        return ["wearjax pypots KIND --help lists the fields of one, with their values."]
    hint = f"wearjax {verb} NAME --help lists the fields of one, with their values."
    return ["Configurations:", _table(shipped.descriptions().items()), hint]


def _table(rows: Iterable[tuple[str, ...]]) -> Table:
    table = Table(box=None, show_header=False)
    for row in rows:
        table.add_row(*row)
    return table


def _fields(verb: str, name: str) -> list[tuple[str, str, str]]:
    from wearjax.train import config as configs

    if verb == "pypots":
        from wearjax.predict.imputers import pypots_models

        return configs.fields(pypots_models.PyPOTSConfig(*pypots_models.published(name)))
    return configs.fields(configs.load_config(name))
