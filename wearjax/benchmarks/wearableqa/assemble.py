"""From admitted candidates to questions: how many of each type, about whom, with which options under which letters."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wearjax.benchmarks.wearableqa import option_balance, registry, relations, safety, windows
from wearjax.benchmarks.wearableqa.candidate import Candidate, QuestionType
from wearjax.benchmarks.wearableqa.item import LETTERS, Item
from wearjax.benchmarks.wearableqa.option_balance import Draft
from wearjax.benchmarks.wearableqa.seeds import seed_of

ITEMS = 4084  # of the published benchmark
PER_USER = 2  # items of a type
APART = windows.WINDOW  # days between them


@dataclass
class Assembled:
    """The questions, and of each type how many candidates there were at each step."""

    items: list[Item] = field(default_factory=list)
    counts: dict[str, dict[str, Any]] = field(default_factory=dict)


def assemble(
    admitted: Mapping[str, Sequence[Candidate]],
    types: Sequence[QuestionType],
    *,
    source: str,
    items: int = ITEMS,
    seed: int = 0,
    balanced: bool = True,
) -> Assembled:
    """Chooses and finishes questions; the order of the candidates does not matter.

    Args:
        admitted: by type.
        source: first word of the ids.
        items: wanted in all, were there enough of each type.
        balanced: drop questions until no option is right too often or too seldom.
    """
    out = Assembled()
    drafts: list[tuple[QuestionType, Draft]] = []
    for each in types:
        target = max(1, round(registry.TARGETS.get(each.name, 170) * items / ITEMS))
        counts: dict[str, Any] = {"target": target, "admitted": len(admitted.get(each.name, ()))}
        chosen = _of_type(each, admitted.get(each.name, ()), target, seed, balanced, counts)
        out.counts[each.name] = counts
        drafts += [(each, draft) for draft in chosen]
    out.items = _finished(drafts, source, seed)
    kept = Counter(item.category for item in out.items)
    for name, counts in out.counts.items():
        counts["items"] = kept[name]
    return out


def _of_type(
    question_type: QuestionType,
    candidates: Sequence[Candidate],
    target: int,
    seed: int,
    balanced: bool,
    counts: dict[str, Any],
) -> list[Draft]:
    ordered = sorted(candidates, key=lambda c: (c.user, c.end, c.metrics, c.gold.text, c.stem))
    rng = np.random.default_rng(seed_of("assembly", question_type.name, seed))
    shuffled = [ordered[i] for i in rng.permutation(len(ordered))]
    drafts, lost = [], Counter({"length": 0, "wording": 0})
    for each in shuffled:
        texts = (each.gold.text, *(option.text for option in each.distractors))
        if safety.problems(question_type.group, safety.marked(question_type.group, each.stem), texts):
            lost["wording"] += 1
            continue
        draft = option_balance.drafted(each)
        if draft is None:
            lost["length"] += 1
        else:
            drafts.append(draft)
    amounts = bool(drafts) and option_balance.is_amount(drafts[0].candidate, numeric=question_type.numeric)
    picked = pick(drafts, target, by_metric=amounts)
    counts |= {**lost, "picked": len(picked)}
    if amounts:
        left = option_balance.rank(picked, rng)
    elif balanced:
        left = option_balance.even(picked)
    else:
        option_balance.choose(picked)
        left = picked
    counts["unbalanced"] = len(picked) - len(left)
    golds = Counter(draft.gold for draft in picked)
    counts["answers"] = len(golds)
    counts["rarest"] = (
        dict(sorted(golds.items(), key=lambda pair: (pair[1], pair[0]))[:3]) if not amounts else {}
    )
    seldom = {text for draft in picked for text in draft.shown if draft.chosen} - set(golds)
    counts["never_right"] = 0 if amounts else len(seldom)
    return left


def pick(drafts: Sequence[Draft], target: int, *, by_metric: bool) -> list[Draft]:
    """Up to `target` of them: each answer as often as any other as far as they go, at most two about a person.

    Those of a person are four weeks apart. Of several with one answer, those come first whose options are right
    somewhere else, then those about metrics that the answer has not had yet.

    Args:
        by_metric: spread over metrics and sizes of amounts instead of answers, so that a usual amount is no likelier.
    """
    rate = option_balance.likeliest(drafts)
    groups: dict[Any, list[int]] = defaultdict(list)
    for i, draft in enumerate(drafts):
        groups[_amount(draft.candidate) if by_metric else draft.gold].append(i)
    hopeless = [
        0
        if by_metric
        else sum(rate[option.text] < option_balance.LEAST_RATE / 2 for option in draft.possible)
        for draft in drafts
    ]
    taken: dict[str, list[int]] = defaultdict(list)
    counts: Counter[Any] = Counter()
    metrics: Counter[Any] = Counter()
    sizes = {key: len(members) for key, members in groups.items()}
    picked: list[int] = []
    while groups and len(picked) < target:
        key = min(groups, key=lambda k: (counts[k], sizes[k], k))
        open_ = [i for i in groups[key] if _room(drafts[i].candidate, taken)]
        if not open_:
            del groups[key]
            continue
        best = min(open_, key=lambda i: (hopeless[i], metrics[key, drafts[i].candidate.metrics], i))
        candidate = drafts[best].candidate
        taken[candidate.user].append(candidate.end)
        counts[key] += 1
        metrics[key, candidate.metrics] += 1
        picked.append(best)
        groups[key] = [i for i in open_ if i != best]
    return [drafts[i] for i in picked]


def _amount(candidate: Candidate) -> tuple[tuple[str, ...], int]:
    """Metrics and size of an amount, in steps of an eighth."""
    value = abs(candidate.gold.key[0])
    return candidate.metrics, round(math.log(value) / math.log(1.125)) if value > 0 else 0


def _room(candidate: Candidate, taken: Mapping[str, Sequence[int]]) -> bool:
    ends = taken.get(candidate.user, ())
    return len(ends) < PER_USER and all(abs(candidate.end - end) >= APART for end in ends)


def _finished(drafts: Sequence[tuple[QuestionType, Draft]], source: str, seed: int) -> list[Item]:
    """Letters from shuffled decks of each reasoning group, ids, and no two alike."""
    order = {name: i for i, name in enumerate(registry.NAMES)}
    ordered = sorted(
        drafts,
        key=lambda pair: (
            order.get(pair[0].name, len(order)), pair[0].name, pair[1].candidate.user, pair[1].candidate.end
        ),
    )  # fmt: skip
    decks = {group: _Deck(group, seed) for group in ("data", "health")}
    ids: Counter[str] = Counter()
    seen: set[tuple[str, ...]] = set()
    out = []
    for question_type, draft in ordered:
        candidate = draft.candidate
        date = windows.EPOCH + dt.timedelta(days=candidate.end)
        name = f"{source}_{candidate.user}_{date.isoformat()}"
        ids[name] += 1
        out.append(
            _item(
                question_type,
                draft,
                name if ids[name] == 1 else f"{name}-{ids[name]}",
                date,
                decks[question_type.group].next(),
                seed,
                seen,
            )
        )
    return out


class _Deck:
    """Letters A to J from one shuffled deck after the other."""

    def __init__(self, group: str, seed: int):
        self._rng = np.random.default_rng(seed_of("letters", group, seed))
        self._left: list[int] = []

    def next(self) -> int:
        if not self._left:
            self._left = self._rng.permutation(len(LETTERS)).tolist()
        return self._left.pop()


def _item(
    question_type: QuestionType,
    draft: Draft,
    name: str,
    date: dt.date,
    place: int,
    seed: int,
    seen: set[tuple[str, ...]],
) -> Item:
    candidate = draft.candidate
    stem = safety.marked(question_type.group, candidate.stem)
    attempt = 0
    while True:  # another order, should the same words have come before
        drawn = seed_of(candidate.user, question_type.name, candidate.end, f"options {seed} {attempt}")
        options = [draft.chosen[i] for i in np.random.default_rng(drawn).permutation(len(draft.chosen))]
        options.insert(place, candidate.gold)
        words = (stem, *(option.text for option in options))
        if words not in seen:
            break
        attempt += 1
    seen.add(words)
    literature = candidate.relation is not None or question_type.grounding == "literature"
    return Item(
        id=name,
        stem=stem,
        choices=tuple(option.text for option in options),
        keys=tuple(option.key for option in options),
        answer=LETTERS[place],
        category=question_type.name,
        reasoning_group=question_type.group,
        signal=question_type.signal,
        grounding="literature" if literature else "population",
        scope=question_type.scope,
        user_id=candidate.user,
        end_date=date,
        metrics=candidate.metrics,
        hidden=candidate.hidden,
        graph=candidate.graph,
        coupling=candidate.coupling,
        tag=candidate.tag,
        rho=candidate.rho,
        relation=candidate.relation,
        relation_verified=_verified(candidate.relation),
        tolerance=candidate.tolerance,
        seed=drawn,
    )


def _verified(relation: str | None) -> bool | None:
    return (
        None
        if relation is None
        else relation in relations.RELATIONS and relations.RELATIONS[relation].verified
    )
