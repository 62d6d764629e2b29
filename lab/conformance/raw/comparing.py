"""Compare a real broker's conversation with the machine's conversation: every field and the time of every response.

If either of two events can occur first, the outcome is chance. Each such race has a name and an exact condition in
``RACES``. A sequence with a possible race is repeated.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs
from attrs import frozen

from kemu.emulator.facts import Seen
from kemu.protocol.config import BrokerConfig
from kemu.protocol.notes.consumer_groups import GroupConverted
from lab.conformance.raw.alone import replay
from lab.conformance.raw.steps import TOPIC_CHANGES, Answer, Conversation, RawRequest

EARLY_MS, LATE_MS = 10, 300
"""Tolerances for the time of a response, in ms, because clocks are read before sending."""
CALM_MS = 40
"""A response that is later by more ms shows that the computer is busy: the time between two requests is not longer."""
NEAR_MS = 60
"""A request within so many ms of a timer may precede or follow the timer."""


BY_PARTITION = ("outcomes", "offsets")
"""Fields with a row for each partition, compared by partition. The rows have the order of a map, which differs by
release (3.4.1: as requested, 3.9: by hash). No client reads this order."""


@frozen
class AnswerDiffers:
    """A response that differs from the machine's response."""

    seed: int
    step: int
    field: str
    kafka: str
    emulated: str


def _sent_near_a_timer(talk: Conversation, ours: Conversation, fired_ms: Sequence[int]) -> bool:
    sent = [*[step.at_ms for step in talk.steps], talk.end_ms]
    return any(abs(each - at_ms) < NEAR_MS for each in sent for at_ms in fired_ms)


def _broker_was_late(talk: Conversation, ours: Conversation, fired_ms: Sequence[int]) -> bool:
    late = [
        talk.answers[step].at_ms - ours.answers[step].at_ms
        for step in talk.answers
        if step in ours.answers and type(talk.steps[step].request) not in TOPIC_CHANGES
    ]
    return max(late, default=0) > CALM_MS


def _two_timers_at_once(talk: Conversation, ours: Conversation, fired_ms: Sequence[int]) -> bool:
    return any(0 < later - earlier < 5 for earlier, later in pairwise(fired_ms))


def _timer_in_a_change(talk: Conversation, ours: Conversation, fired_ms: Sequence[int]) -> bool:
    changes = [number for number, step in enumerate(talk.steps) if type(step.request) in TOPIC_CHANGES]
    spans = [(talk.steps[number].at_ms, talk.answers[number].at_ms) for number in changes if number in talk.answers]
    return any(sent - NEAR_MS < at_ms < seen + NEAR_MS for sent, seen in spans for at_ms in fired_ms)


RACES: Mapping[str, Callable[[Conversation, Conversation, Sequence[int]], bool]] = {
    "the broker answered more than 40 ms late: a request overtook another, or timers began late": _broker_was_late,
    "a request or the end within 60 ms of a timer": _sent_near_a_timer,
    "two timers within 5 ms, not at one instant": _two_timers_at_once,
    "a timer until the coordinator saw a changed topic": _timer_in_a_change,
}
"""Name of the race -> function of (broker's conversation, machine's conversation, times of timers) that tells whether
the race was possible."""


@frozen
class Compared:
    """A compared conversation. ``races`` and ``first_races``: the possible races in this round, and in the first round
    that differed.
    """

    talk: Conversation
    ours: Conversation
    differences: tuple[AnswerDiffers, ...]
    races: tuple[str, ...]
    rounds: int
    first_races: tuple[str, ...]
    conversions: tuple[str, ...]
    """The protocols to which the machine's group was converted, in order."""
    nameless: "Compared | None" = None
    """The first round that differed although no race was possible. Ids differ in each round, so that not only timing
    can make a later round equal.
    """

    @property
    def equal(self) -> bool:
        """Whether all responses are equal."""
        return not self.differences


def compare(
    talk: Conversation,
    config: BrokerConfig,
    *,
    rounds: int = 1,
    before: "Compared | None" = None,
    early_ms: int = EARLY_MS,
    late_ms: int = LATE_MS,
    within_ms: Sequence[int] = (),
) -> Compared:
    """Send the requests to the machine at the recorded times, and compare all responses.

    ``within_ms``: the tolerance of the time of each response, early and late, instead of ``early_ms`` and ``late_ms``.
    """
    notes: list[Seen] = []
    ours, fired_ms = replay(talk, config, notes)
    races = tuple([name for name, possible in RACES.items() if possible(talk, ours, fired_ms)])
    first = races if before is None else before.first_races
    found = tuple(differences(talk, ours, early_ms, late_ms, within_ms))
    conversions = tuple([each.fact.protocol for each in notes if isinstance(each.fact, GroupConverted)])
    compared = Compared(talk, ours, found, races, rounds, first, conversions)
    nameless = compared if found and not races else None
    if before is not None and before.nameless is not None:
        nameless = before.nameless
    return attrs.evolve(compared, nameless=nameless)


def differences(
    talk: Conversation,
    ours: Conversation,
    early_ms: int = EARLY_MS,
    late_ms: int = LATE_MS,
    within_ms: Sequence[int] = (),
) -> list[AnswerDiffers]:
    """The differences between the responses, in order; empty if the conversations are equal."""
    found: list[AnswerDiffers] = []
    for number, _ in enumerate(talk.steps):
        kafka, emulated = talk.answers.get(number), ours.answers.get(number)
        early, late = (within_ms[number], within_ms[number]) if within_ms else (early_ms, late_ms)
        if type(talk.steps[number].request) in TOPIC_CHANGES:
            late = talk.end_ms
        found += [AnswerDiffers(talk.seed, number, *row) for row in _differing(kafka, emulated, early, late)]
    return found


def _differing(
    kafka: Answer | None, emulated: Answer | None, early_ms: int, late_ms: int
) -> list[tuple[str, str, str]]:
    if kafka is None or emulated is None:
        if kafka is emulated:
            return []
        return [("answered", _said(kafka), _said(emulated))]
    rows = [
        (each.name, repr(theirs), repr(own))
        for each in attrs.fields(type(kafka.reply))
        if (theirs := _in_order(each.name, kafka.reply)) != (own := _in_order(each.name, emulated.reply))
    ]
    if not -early_ms <= kafka.at_ms - emulated.at_ms <= late_ms:
        rows.append(("answered at", f"{kafka.at_ms} ms", f"{emulated.at_ms} ms"))
    return rows


def _in_order(name: str, reply: Any) -> Any:
    value = getattr(reply, name)
    return (
        tuple(sorted(value, key=lambda row: (row.topic, row.topic_id, row.partition)))
        if name in BY_PARTITION
        else value
    )


def _said(answer: Answer | None) -> str:
    return "parked" if answer is None else f"{answer.reply} at {answer.at_ms} ms"


def shown(talk: Conversation, ours: Conversation, upto: int) -> list[str]:
    """The requests and responses of a sequence up to a step, as lines."""
    lines = []
    for number, step in enumerate(talk.steps[: upto + 1]):
        lines.append(f"{number:3} {step.at_ms:6} ms  {step.client} {_asked(step)}")
        kafka, emulated = talk.answers.get(number), ours.answers.get(number)
        if _differing(kafka, emulated, EARLY_MS, LATE_MS):
            lines += [f"      Kafka     {_answered(kafka)}", f"      emulator  {_answered(emulated)}"]
        else:
            lines.append(f"      both      {_answered(kafka)}")
    return lines


def _asked(step: RawRequest) -> str:
    return f"{step.api} v{step.version} {_fields(step.request)}"


def _answered(answer: Answer | None) -> str:
    return "parked" if answer is None else f"{answer.at_ms} ms {_fields(answer.reply)}"


def _fields(message: Any) -> str:
    parts = [
        f"{each.name}={getattr(message, each.name)!r}"
        for each in attrs.fields(type(message))
        if getattr(message, each.name) != each.default
    ]
    return " ".join(parts)
