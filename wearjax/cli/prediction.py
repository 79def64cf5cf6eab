"""The verb that measures what can be read of a participant from their days."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.progress import Progress

from wearjax.cli import options
from wearjax.cli.output import Force, Lines, PathArgument, going_on, show
from wearjax.errors import ConfigError
from wearjax.tasks import BASELINE, TASKS

_LLM = "llm_"

if TYPE_CHECKING:
    from wearjax.language.endpoint import Endpoint
    from wearjax.language.llm_probe import LLMProbe
    from wearjax.language.probe_run import ProbeRun


def prediction_track(
    data: PathArgument,
    *,
    out: Path,
    methods: tuple[str, ...] = (BASELINE,),
    bundle: tuple[Path, ...] = (),
    toto_checkpoint: options.TotoCheckpoint = None,
    toto_base: options.TotoBase = None,
    toto_lora_alpha: options.TotoScale = None,
    chronos2_checkpoint: options.Chronos2Checkpoint = None,
    llm_url: str | None = None,
    llm_model: str | None = None,
    llm_key_env: options.KeyVariable = None,
    llm_concurrency: int = 4,
    llm_max_tokens: int = 2048,
    method: options.OwnMethods = (),
    tasks: tuple[str, ...] = (),
    split: Literal["validation", "test"] = "test",
    label_window: Literal["full_history", "forward"] = "full_history",
    cache: Path | None = None,
    engine: str | None = None,
    jobs: int | None = None,
    bootstrap: options.Bootstrap = 1000,
    seed: int = 42,
    force: Force = False,
) -> None:
    """Score predictors on the OpenMHC outcomes: demographics, conditions, measurements, well-being, habits.

    Interrupted, the same command goes on where it stopped; finished, it shows the scores again.

    Args:
        data: day store with splits and task labels, or OpenMHC data root.
        out: run folder for predictions, scores and the report.
        methods: linear (always there), xgboost, multirocket, grud, wbm, lsm2, toto, chronos2, llm_statistics,
            llm_vision, llm_agentic.
        bundle: trained models; each of kind wbm or lsm2 is scored under that name.
        llm_url: endpoint of the llm methods, up to and without /chat/completions; one week of hours of each
            participant is sent there, without id and dates.
        llm_model: name of the model there.
        llm_concurrency: calls at once.
        llm_max_tokens: longest answer.
        tasks: outcomes by their code (default: all 32).
        label_window: forward ends some weeks after the label (an ablation).
        cache: folder for features and answers of language models, which later runs then find ready (default:
            answers are kept in the run folder).
        engine: where the features of xgboost are extracted: local (processes of this machine), dask (a Dask cluster on
            this machine) or the address of a Dask scheduler, tcp://HOST:PORT (default: this machine).
        jobs: processes of the engine (default: one a core).
    """
    from wearjax.benchmarks.openmhc import prediction
    from wearjax.days.open import open_days
    from wearjax.report import page

    checkpoints = {"toto": toto_checkpoint, "chronos2": chronos2_checkpoint}
    weights = {**_bundles(bundle), **{name: path for name, path in checkpoints.items() if path is not None}}
    toto = options.of_toto(toto_checkpoint, base=toto_base, lora_alpha=toto_lora_alpha)
    endpoint = _endpoint(
        methods,
        llm_url,
        llm_model,
        key_env=llm_key_env,
        concurrency=llm_concurrency,
        max_tokens=llm_max_tokens,
    )
    with (
        going_on(out),
        _Bars() as bars,
        _probes(methods, endpoint, out=out, cache=cache, force=force, bars=bars) as probes,
        _extraction(methods, engine, jobs) as extraction,
    ):
        chosen = _predictors(
            open_days(data),
            methods,
            weights,
            given={"toto": toto, "xgboost": extraction},
            probes={} if probes is None else probes.probes,
            own=method,
            cache=cache,
            bars=bars,
        )
        results = prediction.evaluate_prediction(
            chosen,
            data_dir=data,
            tasks=tasks or prediction.ALL,
            split=split,
            output_dir=out,
            bootstrap=bootstrap,
            seed=seed,
            label_window=label_window,
            force=force,
            progress=bars.pairs,
        )
    counted = () if probes is None else probes.lines()
    show("\n".join([results.summary(), *counted]), lambda: page.write_report([out]))


@contextmanager
def _extraction(methods: tuple[str, ...], engine: str | None, jobs: int | None) -> Iterator[dict[str, Any]]:
    """What xgboost is told about where to extract features."""
    if engine is None and jobs is None:
        yield {}
        return
    if "xgboost" not in methods:
        raise ConfigError("--engine, --jobs: only with --methods xgboost, whose features they extract")
    from wearjax.engine import Engine

    with Engine(engine, jobs=jobs) as opened:
        yield {"engine": opened}


def _endpoint(
    methods: tuple[str, ...],
    url: str | None,
    model: str | None,
    *,
    key_env: str | None,
    concurrency: int,
    max_tokens: int,
) -> Endpoint | None:
    """Where language models answer; None where no method asks one."""
    asking = [name for name in methods if name.startswith(_LLM)]
    if not asking:
        if url is not None or model is not None:
            raise ConfigError("--llm-url, --llm-model: no method asks a language model; add one to --methods")
        return None
    if not url or not model:
        raise ConfigError(f"{asking[0]}: needs --llm-url (http://HOST:PORT/v1) and --llm-model")
    from wearjax.language.endpoint import Endpoint

    return Endpoint(url, model, api_key_env=key_env, concurrency=concurrency, max_tokens=max_tokens)


def _probes(
    methods: tuple[str, ...],
    endpoint: Endpoint | None,
    *,
    out: Path,
    cache: Path | None,
    force: bool,
    bars: _Bars,
) -> AbstractContextManager[ProbeRun | None]:
    """The language-model methods; their counts are written when the evaluation ends, in whatever way."""
    if endpoint is None:
        return nullcontext()
    from wearjax.language import probe_run

    asking = [name for name in methods if name.startswith(_LLM)]
    return probe_run.ProbeRun(asking, endpoint, out=out, answers=cache, fresh=force, progress=bars.answers)


def _bundles(paths: tuple[Path, ...]) -> dict[str, Any]:
    """Loaded models by kind."""
    from wearjax.convert import bundle as bundles

    found: dict[str, Any] = {}
    for path in paths:
        loaded = bundles.load_bundle(path)
        if loaded.kind not in ("wbm", "lsm2"):
            raise ConfigError(f"{path}: a model of kind {loaded.kind!r} predicts no outcome; wbm and lsm2 do")
        if loaded.kind in found:
            raise ConfigError(
                f"{path}: a second bundle of kind {loaded.kind!r}; score it in a run of its own"
            )
        found[loaded.kind] = loaded
    return found


def _predictors(
    days: Any,
    methods: tuple[str, ...],
    weights: dict[str, Any],
    *,
    given: dict[str, dict[str, Any]],
    probes: dict[str, LLMProbe],
    own: tuple[str, ...],
    cache: Path | None,
    bars: _Bars,
) -> dict[str, Any]:
    """Every method that was asked for; the baseline stands for itself where nothing else was."""
    from wearjax.predict import from_file, protocols
    from wearjax.predict.predictors import registry

    kinds = {code: task.kind for code, task in TASKS.items()}
    chosen: dict[str, Any] = {}
    for name in dict.fromkeys((*methods, *weights)):
        if name in probes:
            chosen[name] = probes[name]
        elif name != BASELINE:
            chosen[name] = registry.build(
                name,
                days,
                weights=weights.get(name),
                options=given.get(name),
                tasks=kinds,
                cache_dir=cache,
                progress=bars.features,
            )
    for text in own:
        loaded = from_file.load(text)
        name = protocols.method_name(loaded)
        if name in chosen:
            raise ConfigError(
                f"{text}: there is already a method named {name!r}; give the class another name"
            )
        chosen[name] = loaded
    return chosen


class _Bars:
    """Pairs of task and method, and what a method does meanwhile: features computed, participants asked about."""

    def __init__(self) -> None:
        self._progress = Progress(console=Console(stderr=True), transient=True)
        self._pairs = self._progress.add_task("Evaluating", total=None)
        self._lines = Lines("Pairs of task and method")
        self._features = self._progress.add_task("Features", total=None, visible=False)
        self._answers = self._progress.add_task("Answers", total=None, visible=False)

    def __enter__(self) -> _Bars:
        self._progress.start()
        return self

    def __exit__(self, *_) -> None:
        self._progress.stop()

    def pairs(self, done: int, total: int, task: str, method: str) -> None:
        self._progress.update(self._pairs, completed=done, total=total, description=f"{task}: {method}")
        self._lines(done, total, f"({task}: {method})")

    def features(self, done: int, total: int) -> None:
        self._progress.update(self._features, completed=done, total=total, visible=done < total)

    def answers(self, done: int, total: int) -> None:
        self._progress.update(self._answers, completed=done, total=total, visible=done < total)
