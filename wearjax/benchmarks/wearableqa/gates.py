"""The gates that a candidate passes: effect G1, robustness G2, authenticity G3, uniqueness G4, leakage G5.

What the gates ask is WearableQA's; widths and counts that it does not publish are this project's. Cheap gates come
first, so a candidate leaves with the first of G1, G2d, G4, G5, G2a, G2b, G2c, G3 that turns it away. The authenticity
of a claimed coupling can only be judged among all candidates of its type: `yields.settle` does that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float64

from wearjax.benchmarks.wearableqa import graph as graphs
from wearjax.benchmarks.wearableqa import leakage, primitives, reads, variants, windows
from wearjax.benchmarks.wearableqa.candidate import Candidate, Coupling, Key, Person, QuestionType
from wearjax.benchmarks.wearableqa.panel import OTHERS, SEARCH_SHARE, Panel
from wearjax.benchmarks.wearableqa.yields import Judged, Survivor
from wearjax.daily_metrics import INDEX
from wearjax.errors import ConfigError

LEAST_RHO = 0.5
LEAST_LEAD = 0.15
AGREEING = 24  # of 30 resamples
GUESSED_AT_MOST = 0.2  # share of other people's windows that may give the gold answer
DISTRACTORS = 9
UNDEFINED = "undefined"  # the answer itself
AT_ONCE = 32  # candidates whose variants are evaluated together
ROUNDING = 1e-9


def judge_person(question_type: QuestionType, person: Person, ends: Iterable[int], panel: Panel) -> Judged:
    """Proposes and judges a type's questions about a person at all end dates.

    Raises:
        ConfigError: a type whose gold is not what its graph gives.
    """
    every = []
    for end in ends:
        proposed = list(question_type.propose(person, end))
        looked = 0 if question_type.looked is None else question_type.looked(person, end)
        every.append(judge(question_type, proposed, person, panel, looked=looked))
    return Judged.joined(question_type.name, every)


def judge(
    question_type: QuestionType,
    candidates: Sequence[Candidate],
    person: Person,
    panel: Panel,
    *,
    looked: int = 0,
) -> Judged:
    """All gates for the candidates of a type about a person.

    Args:
        looked: relations the type looked at, where those are more than its candidates.

    Raises:
        ConfigError: a gold that is not what its graph gives.
    """
    left = list(range(len(candidates)))
    gone: dict[int, str] = {}
    bases = _bases(candidates, person)

    def keep(found: dict[int, str]) -> None:
        gone.update(found)
        left[:] = [i for i in left if i not in gone]

    keys: dict[int, Key] = {}
    for i, (candidate, nodes) in enumerate(zip(candidates, bases, strict=True)):
        row = nodes[candidate.graph.output]
        keys[i] = tuple(row[0].tolist())
        if np.isnan(row).any():
            keep({i: UNDEFINED})
        elif not reads.same(row, candidate.gold.key).all():
            raise ConfigError(f"{candidate.type}: gold {candidate.gold.key}, but its graph gives {keys[i]}")
    keep(_effect([(i, candidates[i], bases[i]) for i in left], person))
    keep({i: "G2d" for i in left if _near(candidates[i], bases[i])})
    keep({i: "G4" for i in left if not unique(question_type, candidates[i], keys[i])})
    keep({i: "G5" for i in left if leakage.found(candidates[i], person, numeric=question_type.numeric)})
    for start in range(0, len(candidates), AT_ONCE):
        some = [i for i in range(start, min(start + AT_ONCE, len(candidates))) if i not in gone]
        keep(_fragile(question_type, [(i, candidates[i]) for i in some], person))
    chances, compared = _chances(question_type, candidates, left, person, panel)
    for i in list(left):
        if candidates[i].coupling is None and candidates[i].relation is None:
            share, compared[i] = guessed(question_type, candidates[i], panel)
            if share > GUESSED_AT_MOST:
                keep({i: "G3"})
    return Judged(
        type=question_type.name,
        survivors=tuple(
            Survivor(candidates[i], chances[i] if _claims(candidates[i]) else None, compared[i]) for i in left
        ),
        chances=tuple(chances.tolist()) if question_type.coupling else (),
        proposed=len(candidates),
        looked=max(looked, len(candidates)),
        rejected=Counter(gone.values()),
    )


def unique(question_type: QuestionType, candidate: Candidate, key: Key) -> bool:
    """G4: nine or more distractors, no text twice, and of all options only the gold holds."""
    options = (candidate.gold, *candidate.distractors)
    if len(options) <= DISTRACTORS or len({option.text for option in options}) < len(options):
        return False
    if not question_type.holds(candidate.gold, candidate, key):
        return False
    return not any(question_type.holds(option, candidate, key) for option in candidate.distractors)


def guessed(question_type: QuestionType, candidate: Candidate, panel: Panel) -> tuple[float, int]:
    """G3 by label permutation: how often other people's windows give the gold, and how many were asked.

    Up to 200 others with anything to read are asked, all where there are fewer. A window that has no answer gives no
    gold.
    """
    answers, readable = panel.answers(candidate.graph, candidate.end)
    order = panel.order(candidate.user, candidate.type, candidate.end)
    asked = order[readable[order]][:OTHERS]
    if not len(asked):
        return 0.0, 0
    return float(chosen(question_type, candidate, answers[asked]).mean()), len(asked)


def chosen(
    question_type: QuestionType, candidate: Candidate, keys: Float64[np.ndarray, "variant key"]
) -> np.ndarray:
    """Which answers choose the gold option: by being it, or for amounts by lying nearest to it."""
    if not question_type.numeric:
        return reads.same(keys, candidate.gold.key)
    options = np.array([candidate.gold.key, *(option.key for option in candidate.distractors)], np.float64)
    distance = np.abs(keys[:, None] - options).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        return (distance[:, :1] < distance[:, 1:]).all(axis=1)  # no answer is NaN away from every option


def _claims(candidate: Candidate) -> bool:
    return candidate.coupling is not None and candidate.relation is None


def _bases(candidates: Sequence[Candidate], person: Person) -> list[dict[str, np.ndarray]]:
    """Of each candidate the answer and the quantities that gates measure, on the record as it is."""
    values = [reads.read(each.graph, person, each.end) for each in candidates]
    wanted = [
        {each.graph.output, *(margin.node for margin in each.margins), *([each.lead] if each.lead else [])}
        for each in candidates
    ]
    return graphs.gather([each.graph for each in candidates], values, wanted)


def _effect(some: Sequence[tuple[int, Candidate, dict[str, np.ndarray]]], person: Person) -> dict[int, str]:
    """G1: couplings of |ρ| 0.5 or more with one sign in both halves, winners 0.15 ahead; relations are exempt."""
    tested = [(i, each, nodes) for i, each, nodes in some if each.relation is None]
    gone = {
        i: "G1"
        for i, each, nodes in tested
        if each.lead and not np.all(nodes[each.lead] >= LEAST_LEAD - ROUNDING)
    }
    coupled = [(i, each) for i, each, _ in tested if each.coupling is not None and i not in gone]
    if not coupled:
        return gone
    pairs = [_pair(person, each.end, each.coupling) for _, each in coupled if each.coupling is not None]
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    early = np.arange(windows.WINDOW) < windows.HALF
    parts = np.stack([np.ones_like(early), early, ~early])[:, None]
    whole, first, second = primitives.correlation(np.where(parts, a, np.nan), b, min_pairs=windows.HALF_DAYS)
    with np.errstate(invalid="ignore"):
        strong = np.abs(whole) >= LEAST_RHO - ROUNDING
        steady = (np.sign(first) == np.sign(whole)) & (np.sign(second) == np.sign(whole))
    return gone | {i: "G1" for (i, _), good in zip(coupled, strong & steady, strict=True) if not good}


def _pair(person: Person, end: int, coupling: Coupling) -> tuple[np.ndarray, np.ndarray]:
    """The window of the first metric, and of the second so many days later."""
    first, second, lag = coupling
    start, stop = windows.WINDOW_RANGE
    later = np.full(windows.WINDOW, np.nan)
    window = person.record.between(end + start, end + stop)
    kept = np.arange(max(0, -lag), windows.WINDOW - max(0, lag))
    later[kept] = window[kept + lag, INDEX[second]]
    return window[:, INDEX[first]], later


def _near(candidate: Candidate, nodes: dict[str, np.ndarray]) -> bool:
    """G2d: whether a quantity comes closer to a threshold than its margin allows."""
    for margin in candidate.margins:
        values = nodes[margin.node]
        distance = np.abs(values[..., None] - np.asarray(margin.boundaries, np.float64))
        if np.any(distance < margin.width - ROUNDING):  # NaN is no value
            return True
    return False


def _fragile(
    question_type: QuestionType, some: Sequence[tuple[int, Candidate]], person: Person
) -> dict[int, str]:
    """G2a to G2c: the first kind of perturbation that changes the answer."""
    disturbed = [variants.of(each) for _, each in some]
    values = [
        variants.read(each.graph, person, each.end, how)
        for (_, each), how in zip(some, disturbed, strict=True)
    ]
    found = graphs.evaluate_many([each.graph for _, each in some], values)
    gone = {}
    for (i, each), how, answers in zip(some, disturbed, found, strict=True):
        rows = np.broadcast_to(answers, (len(how.kind), answers.shape[1]))
        resampled = rows[how.of_kind("resample")]
        equal = reads.same(rows, each.gold.key)
        close = reads.same(rows, each.gold.key, within=each.tolerance)
        if len(resampled) and chosen(question_type, each, resampled).sum() < AGREEING:
            gone[i] = "G2a"
        elif not close[how.of_kind("deletion")].all():
            gone[i] = "G2b"
        elif not equal[how.of_kind("baseline") | how.of_kind("as_is")].all():
            gone[i] = "G2c"
    return gone


def _chances(
    question_type: QuestionType,
    candidates: Sequence[Candidate],
    left: Sequence[int],
    person: Person,
    panel: Panel,
) -> tuple[Float64[np.ndarray, " candidate"], dict[int, int]]:
    """How often chance alone does as well as each candidate's coupling, and with how many others that was compared.

    p = (1 + others who reach it) / (1 + others). A coupling that won a search is compared with the best of the same
    search in each other person's metrics. A candidate of a type of couplings that claims none counts with its first two
    metrics, for the correction; one that needs no comparison counts as 1.
    """
    p, compared = np.ones(len(candidates)), dict.fromkeys(left, 0)
    if question_type.coupling:
        claims = {i: _searched(each) for i, each in enumerate(candidates) if each.relation is None}
    else:
        claims = {i: _searched(candidates[i]) for i in left if _claims(candidates[i])}
    by_end: dict[int, list[int]] = {}
    for i, searched in claims.items():
        if searched:
            by_end.setdefault(candidates[i].end, []).append(i)
    for end, members in by_end.items():
        every = list(dict.fromkeys(coupling for i in members for coupling in claims[i]))
        place = {coupling: row for row, coupling in enumerate(every)}
        window = person.record.between(end + windows.WINDOW_RANGE[0], end)
        own, null = panel.correlations(window, end, every)
        order = panel.order(person.record.user, question_type.name, end)
        for i in members:
            rows = [place[coupling] for coupling in claims[i]]
            p[i], n = _chance(own[rows], null[rows][:, order])
            compared[i] = n
    return p, compared


def _searched(candidate: Candidate) -> tuple[Coupling, ...]:
    if candidate.searched:
        return candidate.searched
    if candidate.coupling is not None:
        return (candidate.coupling,)
    return ((candidate.metrics[0], candidate.metrics[1], 0),) if len(candidate.metrics) == 2 else ()


def _chance(
    own: Float64[np.ndarray, "coupling"], null: Float64[np.ndarray, "coupling other"]
) -> tuple[float, int]:
    """p of the largest of a person's correlations, and the number of others it was compared with."""
    comparable = np.isfinite(null).sum(axis=0) >= max(1.0, SEARCH_SHARE * np.isfinite(own).sum())
    best = np.where(np.isfinite(null), null, -1.0)[:, comparable][:, :OTHERS].max(axis=0, initial=-1.0)
    reached = np.where(np.isfinite(own), own, -1.0).max()
    n = len(best)
    return (1.0 + float((best >= reached - ROUNDING).sum())) / (1.0 + n), n
