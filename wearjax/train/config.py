"""What a training run is: frozen dataclasses, configuration files, overrides and their JSON form."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import importlib.util
import io
import os
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from wearjax.errors import ConfigError
from wearjax.models.lsm2 import LSM2Config
from wearjax.models.registry import ModelConfig
from wearjax.train import shipped

T = TypeVar("T")


@dataclass(frozen=True)
class DataConfig:
    """Which data, in which batches.

    Attributes:
        path: day store or OpenMHC data root; the command line's `--data` goes before it.
        batch_size: examples of the global batch, over all devices and processes.
        retained_only: leave out days that fail the wear-time or variance filter.
        max_train_days: train on the first so many days of the train split.
        workers: reading processes; 0 reads in a thread.
        read_ahead: batches kept ready.
    """

    path: str | None = None
    batch_size: int = 64
    retained_only: bool = True
    max_train_days: int | None = None
    workers: int = 0
    read_ahead: int = 2

    def __post_init__(self):
        _at_least("data", self, batch_size=1, max_train_days=1, workers=0, read_ahead=1)


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW on all parameters with linear warm-up and cosine decay (OpenMHC LSM-2 settings).

    Attributes:
        warmup_fraction: warm-up steps W = max(1, floor(fraction · steps)).
        warmup_start: first learning rate, as a share of `learning_rate`.
        final_learning_rate: where the cosine ends.
        clip_norm: largest global gradient norm; None does not clip.
    """

    learning_rate: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.05
    warmup_fraction: float = 0.05
    warmup_start: float = 1e-6
    final_learning_rate: float = 1e-6
    clip_norm: float | None = None

    def __post_init__(self):
        for name in ("learning_rate", "epsilon", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"optimizer.{name}: must be positive, got {value}")
        for name in ("beta1", "beta2", "warmup_fraction"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"optimizer.{name}: must be in [0, 1), got {getattr(self, name)}")
        _at_least("optimizer", self, weight_decay=0, warmup_start=0, final_learning_rate=0)


@dataclass(frozen=True)
class LoopConfig:
    """How long, how often, on what.

    Attributes:
        steps: optimizer steps.
        epochs: passes over the train examples, where `steps` is not set.
        log_every, validate_every, checkpoint_every: in steps; None leaves it to the end of the run.
        validate_epochs: passes over the train examples between validations, where `validate_every` is not set.
        validation_examples: size of the fixed validation subset.
        patience: validations in a row without a lower loss after which training ends. The bundle then holds the
            parameters of the best validation, also where training went on to the last step. None takes the last.
        keep_checkpoints: how many of the latest checkpoints stay on disk.
        accumulate: equal parts of a batch that are computed one after another, to save memory.
        devices: use the first so many devices; None uses all.
        model_devices: so many of them share the layers of one model (tensor parallelism); the others share the
            batch.
        strategy: how devices share the work: `jit`, one program over all; `pmap`, one program a device.
        sharding: `replicated` parameters and moments, one copy a device; or `sharded` over the devices.
        init_from: bundle whose parameters start the run.
        writers: metric writers beside metrics.jsonl: `tensorboard`, `wandb`.
    """

    steps: int | None = None
    epochs: float | None = None
    log_every: int = 50
    validate_every: int | None = None
    validate_epochs: float | None = None
    validation_examples: int = 512
    patience: int | None = None
    checkpoint_every: int | None = 1000
    keep_checkpoints: int = 2
    accumulate: int = 1
    devices: int | None = None
    model_devices: int = 1
    strategy: Literal["jit", "pmap"] = "jit"
    sharding: Literal["replicated", "sharded"] = "replicated"
    init_from: str | None = None
    writers: tuple[str, ...] = ()

    def __post_init__(self):
        if self.steps is None and self.epochs is None:
            raise ConfigError("loop.steps: set it, or loop.epochs")
        for name in ("epochs", "validate_epochs"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"loop.{name}: must be positive, got {value}")
        _at_least(
            "loop", self, steps=1, log_every=1, validate_every=1, validation_examples=0, patience=1,
            checkpoint_every=1, keep_checkpoints=1, accumulate=1, devices=1, model_devices=1,
        )  # fmt: skip
        if self.patience is not None and self.validate_every is None and self.validate_epochs is None:
            raise ConfigError("loop.patience: counts validations; set loop.validate_every or validate_epochs")
        if self.strategy == "pmap" and (self.model_devices > 1 or self.sharding == "sharded"):
            raise ConfigError("loop.strategy: pmap keeps a whole model a device; use jit to split it")

    def total_steps(self, *, train_examples: int, batch_size: int) -> int:
        """`steps`, or the steps that `epochs` passes over the train examples take (at least one)."""
        if self.steps is not None:
            return self.steps
        assert self.epochs is not None
        return max(1, int(self.epochs * train_examples) // batch_size)

    def validation_interval(self, *, train_examples: int, batch_size: int) -> int | None:
        """Steps between validations; None leaves one to the end of the run."""
        if self.validate_every is not None or self.validate_epochs is None:
            return self.validate_every
        return max(1, round(self.validate_epochs * train_examples / batch_size))


@dataclass(frozen=True)
class PretrainConfig:
    """A pretraining run."""

    name: str
    seed: int = 42
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=LSM2Config)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loop: LoopConfig = field(default_factory=lambda: LoopConfig(epochs=25))

    def __post_init__(self):
        if not 0 <= self.seed < 2**32:
            raise ConfigError(f"seed: must be in [0, 2^32), got {self.seed}")


def load_config(path_or_name: str | os.PathLike) -> PretrainConfig:
    """Runs `get_config()` of a Python file, given by path or by the name of a shipped configuration."""
    file = _find(Path(path_or_name))
    spec = importlib.util.spec_from_file_location(f"wearjax_config_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        if not hasattr(module, "get_config"):
            raise ConfigError("has no function get_config()")
        config = module.get_config()
    except Exception as error:  # whatever the user's file raises is the user's to read, in one line
        raise ConfigError(f"{file}: {_explain(error)}") from error
    if not isinstance(config, PretrainConfig):
        raise ConfigError(f"{file}: get_config() returned {type(config).__name__}, expected PretrainConfig")
    return config


def fields(config: Any) -> list[tuple[str, str, str]]:
    """Dotted name, value and type of every field that `override` sets, as people read them."""
    values = [
        (name, kind, functools.reduce(getattr, name.split("."), config)) for name, kind in _leaves(config)
    ]
    return [(name, _shown(value), _type_name(kind)) for name, kind, value in values]


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _find(asked: Path) -> Path:
    if asked.is_file():
        return asked
    if len(asked.parts) == 1:
        for folder in shipped.folders():
            file = folder / f"{asked.name.removesuffix('.py')}.py"
            if file.is_file():
                return file
    known = list(shipped.descriptions())
    raise ConfigError(
        f"no configuration {str(asked)!r}{_hint(asked.stem, known)}; shipped: {', '.join(known)}"
    )


def _explain(error: Exception) -> str:
    unknown = re.search(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'", str(error))
    if isinstance(error, TypeError) and unknown:
        classes = {c.__name__: c for c in _config_classes(PretrainConfig)}
        owner, name = unknown.groups()
        names = [f.name for f in dataclasses.fields(classes[owner])] if owner in classes else []
        return f"{owner} has no field {name!r}{_hint(name, names)}"
    text = str(error).splitlines()[0] if str(error) else ""
    return text if isinstance(error, ConfigError) else f"{type(error).__name__}: {text}"


def override(config: T, arguments: Sequence[str]) -> T:
    """The configuration with fields replaced, e.g. `["--loop.steps", "100", "--model.patch=20"]`.

    Values are parsed by tyro after the field's type. Raises ConfigError for an unknown name or a bad value.
    """
    options = options_of(arguments)
    known = dict(_leaves(config))
    for name, _ in options:
        if name not in known:
            raise ConfigError(f"--{name}: no such field{_hint(name, list(known), prefix='--')}")
    try:
        return _parse(config, options)
    except SystemExit:
        pass
    for name, tokens in options:  # once more, to see which one it was
        try:
            _parse(config, [(name, tokens)])
        except SystemExit:
            given = " ".join(tokens) or "nothing"
            raise ConfigError(f"--{name}: expected {_type_name(known[name])}, got {given}") from None
    raise ConfigError(f"overrides cannot be parsed: {' '.join(arguments)}")


def _parse(config: T, options: Sequence[tuple[str, list[str]]]) -> T:
    import tyro

    # tyro prints a framed report of bad values even without console outputs; ours is one line.
    with contextlib.redirect_stderr(io.StringIO()):
        return tyro.cli(
            tyro.conf.FlagConversionOff[tyro.conf.AvoidSubcommands[type(config)]],  # type: ignore[misc]
            args=[token for name, tokens in options for token in (f"--{name}", *tokens)],
            default=config,
            console_outputs=False,
            use_underscores=True,
        )


def options_of(arguments: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Groups `--name value…` and `--name=value` into (dotted name, values). Raises ConfigError."""
    grouped: list[tuple[str, list[str]]] = []
    for argument in arguments:
        if argument.startswith("--"):
            name, equals, value = argument[2:].partition("=")
            grouped.append((name.replace("-", "_"), [value] if equals else []))
        elif grouped:
            grouped[-1][1].append(argument)
        else:
            raise ConfigError(f"{argument!r}: overrides are written --section.field value")
    return grouped


def to_dict(config: Any) -> dict[str, Any]:
    """Nested dictionary of JSON values."""
    return {
        f.name: _to_json(getattr(config, f.name)) for f in dataclasses.fields(config)
    }  # not asdict: tuples become lists


def _to_json(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    return list(value) if isinstance(value, tuple) else value


def from_dict(values: Mapping[str, Any], kind: type[T] = PretrainConfig, *, where: str = "") -> T:  # type: ignore[assignment]
    """The dataclass `kind` from its JSON form. Raises ConfigError naming the first field at fault."""
    hints = typing.get_type_hints(kind)
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where or 'configuration'}: expected an object, got {type(values).__name__}")
    arguments = {}
    for name, value in values.items():
        dotted = f"{where}.{name}" if where else name
        if name not in hints:
            raise ConfigError(f"{dotted}: no such field{_hint(name, list(hints))}")
        arguments[name] = _convert(value, hints[name], dotted)
    missing = [f.name for f in dataclasses.fields(kind) if _required(f) and f.name not in arguments]  # type: ignore[arg-type]
    if missing:
        raise ConfigError(f"{where + '.' if where else ''}{missing[0]}: missing")
    return kind(**arguments)


def _required(item: dataclasses.Field) -> bool:
    return item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING


def _convert(value: Any, kind: Any, where: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return from_dict(value, typing.cast(type, kind), where=where)
    origin, options = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in options:
            return None
        return _convert(value, _choose(value, options), where)
    if origin is Literal and value in options:
        return value
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_convert(v, options[0], where) for v in value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(kind, type) and isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    raise ConfigError(f"{where}: expected {_type_name(kind)}, got {value!r}")


def _choose(value: Any, options: Sequence[Any]) -> Any:
    """Of several dataclasses the first that has all the given fields; else the first option that is not None."""
    classes = [o for o in options if dataclasses.is_dataclass(o)]
    for option in classes if isinstance(value, Mapping) else ():
        if set(value) <= {f.name for f in dataclasses.fields(option)}:
            return option
    return classes[0] if classes else next(o for o in options if o is not type(None))


def _type_name(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, typing.get_args(kind)))
    if isinstance(kind, type) and not typing.get_args(kind):
        return kind.__name__
    return str(kind).replace("typing.", "").replace(" | ", " or ")


def _leaves(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted name and type of every field that is not itself a dataclass."""
    hints = typing.get_type_hints(type(config))
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value):
            yield from _leaves(value, f"{prefix}{item.name}.")
        else:
            yield f"{prefix}{item.name}", hints[item.name]


def _config_classes(kind: type) -> Iterator[type]:
    yield kind
    for hint in typing.get_type_hints(kind).values():
        for option in typing.get_args(hint) or (hint,):
            if dataclasses.is_dataclass(option):
                yield from _config_classes(typing.cast(type, option))


def _hint(name: str, known: Sequence[str], *, prefix: str = "") -> str:
    # A field without its section is told by how it begins: `batch` is data.batch_size.
    near = [
        one for one in known if name and one.rpartition(".")[2].startswith(name)
    ] or difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f" (did you mean {prefix}{near[0]}?)" if near else ""


def _at_least(section: str, config: Any, **bounds: int) -> None:
    for name, bound in bounds.items():
        value = getattr(config, name)
        if value is not None and value < bound:
            raise ConfigError(f"{section}.{name}: must be at least {bound}, got {value}")
