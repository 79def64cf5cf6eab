"""The words around a participant's week, as the probes of the prediction track send them."""

from __future__ import annotations

from wearjax.language import agent, messages, statistics_text, week_image
from wearjax.language.messages import Message
from wearjax.language.task_prompts import TaskDescription

VERSION = 1  # raised with every change of the words
FILE = "week.csv"
_SYSTEM = "You estimate facts about participants of a research study from their wearable recordings."
_DATA = (
    "The recording covers one week (168 hours, seven days from midnight to midnight) of one adult participant, "
    "from a phone and a watch, in hours. Hours may be missing, and a device may not have been worn."
)
_ESTIMATE = "The recording does not show the answer directly: give your best estimate, and always give one."


def question(
    described: TaskDescription,
    *,
    label_range: tuple[float, float] | None = None,
    as_probability: bool = False,
) -> str:
    """The task, what its answers mean, and the form of the last line."""
    lines = [f"Question: {described.question}"]
    if as_probability:
        lines += [f'Give the probability, from 0 to 1, that the answer is "{described.labels[1]}".']
        form = "<probability>"
    elif described.labels:
        lines += ["Possible answers:", *(f"{i}: {name}" for i, name in enumerate(described.labels))]
        form = "<index>"
    else:
        unit = f" in {described.unit}" if described.unit else ""
        lines += [f"Give one number{unit}."]
        if label_range is not None:
            low, high = map(week_image.shorten, label_range)
            lines += [f"In the study the values lie between {low} and {high}."]
        form = "<number>"
    lines += [_ESTIMATE, "The last line of your reply must be exactly of this form:", f"Answer: {form}"]
    return "\n".join(lines)


def with_statistics(table: str, asked: str) -> list[Message]:
    explained = (
        "Statistics of the measured hours of each channel; the mean of a 0/1 channel is the share of hours in "
        "which it occurred, and coverage the share of the week's hours that were measured."
    )
    return _conversation([_DATA, "Channels:\n" + statistics_text.legend(), f"{explained}\n{table}", asked])


def with_figure(png: bytes, asked: str) -> list[Message]:
    explained = (
        "The figure shows the week from left to right, a panel a channel, with gray lines at midnight: lines for "
        "continuous channels, filled strips where a 0/1 channel occurred (those that never occurred are left "
        "out). Each title gives the channel, its unit and [minimum - maximum]; gaps are missing hours."
    )
    text = [_DATA, explained, "Channels:\n" + statistics_text.legend(), asked]
    return _conversation(text, images=[png])


def with_python(asked: str, runs: int) -> list[Message]:
    explained = (
        f"The file {FILE} has a row an hour: day (1 to 7), hour (0 to 23) and a column a channel, empty where "
        "not measured."
    )
    text = [_DATA, "Channels:\n" + statistics_text.legend(), explained, agent.INSTRUCTION.format(runs=runs)]
    return _conversation([*text, asked])


def _conversation(paragraphs: list[str], images: list[bytes] | None = None) -> list[Message]:
    return [messages.system(_SYSTEM), messages.user("\n\n".join(paragraphs), images)]
