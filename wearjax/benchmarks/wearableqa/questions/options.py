"""How a question's false options are chosen, so that the options alone say nothing about the right one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence

from wearjax.benchmarks.wearableqa.candidate import Key, Option
from wearjax.benchmarks.wearableqa.questions import wording

DISTRACTORS = 9  # at least
SPARE = 18  # where there are more, so that a balance over questions can choose


def numbered(texts: Iterable[str], *, start: int = 0) -> tuple[Option, ...]:
    """Options of a fixed list, each claiming its number."""
    return tuple(Option(text, (float(code),)) for code, text in enumerate(texts, start))


def others(options: Sequence[Option], gold: Option) -> tuple[Option, ...]:
    """All options of a fixed list but the gold."""
    return tuple(option for option in options if option is not gold)


def balanced(
    gold: Option,
    pool: Iterable[Option],
    *,
    first: Iterable[Option] = (),
    n: int = DISTRACTORS,
    attributes: Callable[[Key], tuple[Hashable, ...]] = tuple,
) -> tuple[Option, ...]:
    """False options among which no part of the gold stands out as the most frequent.

    Distractors that change one part of an answer at a time would point at the answer, as what they have in common.
    Each next one is therefore whichever leaves the gold's parts least conspicuous; of several, the first of the pool.
    What would make the texts differ too much in length is passed over.

    Args:
        pool: in order of preference.
        first: taken before all others, in this order.
        attributes: the parts of an answer.

    Returns:
        Up to `n` options.
    """
    parts = attributes(gold.key)
    counts = [Counter([part]) for part in parts]
    chosen = [gold]

    keys, texts = {gold.key}, {gold.text}
    shortest = longest = len(gold.text)

    def fits(option: Option) -> bool:
        if option.key in keys or option.text in texts:
            return False
        length = len(option.text)
        return max(longest, length) <= wording.LENGTH_RATIO * min(shortest, length)

    def take(option: Option) -> None:
        nonlocal shortest, longest
        chosen.append(option)
        keys.add(option.key)
        texts.add(option.text)
        shortest, longest = min(shortest, len(option.text)), max(longest, len(option.text))
        for count, part in zip(counts, attributes(option.key), strict=True):
            count[part] += 1

    for option in first:
        if len(chosen) <= n and fits(option):
            take(option)
    left = [(option, attributes(option.key)) for option in pool]
    while len(chosen) <= n:
        left = [each for each in left if fits(each[0])]
        if not left:
            break
        take(_least_conspicuous(left, counts, parts))
    return tuple(chosen[1:])


def _least_conspicuous(
    left: Sequence[tuple[Option, tuple[Hashable, ...]]], counts: Sequence[Counter], gold: Sequence[Hashable]
) -> Option:
    """The option after which the gold's parts lead the most frequent other ones by the least."""
    leaders = [
        (count[own], max((times for value, times in count.items() if value != own), default=0))
        for count, own in zip(counts, gold, strict=True)
    ]
    best, least = left[0][0], None
    for option, parts in left:
        ahead = 0
        for count, own, part, (times, most) in zip(counts, gold, parts, leaders, strict=True):
            if part == own:
                ahead += max(0, times + 1 - most)
            else:
                ahead += max(0, times - max(most, count[part] + 1))
        if least is None or ahead < least:
            best, least = option, ahead
        if not ahead:
            break
    return best
