"""A trace of logs: the facts of ``tools.logs.facts`` in the file format of a run."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from kemu.emulator.checkers import CHECKERS, OF_LOGS
from kemu.emulator.facts import HostStarted, RunStarted, Seen
from kemu.emulator.judging import Judgement, judge
from kemu.emulator.plan.known import MOST_BROKERS
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.emulator.trace.files import written_beside
from kemu.emulator.trace.rows import NOTE, TOLD
from kemu.emulator.trace.traces import Header, TraceWriter
from kemu.protocol.names import broker_of
from kemu.protocol.profiles import DEFAULT_PROFILE, PROFILES
from kemu.protocol.wire.values import to_row
from kemu.tools.logs.facts import LogFacts
from kemu.tools.logs.reading import LogSummary

_LONGEST_US = 168 * 3_600_000_000
"""The longest duration of a scenario; a log may be longer."""


@attrs.frozen
class RecordedLogs:
    """The result of ``write_log_trace``: names of judged and of other rules, and the judgement."""

    judged: tuple[str, ...]
    unjudged: tuple[str, ...]
    judgement: Judgement


def write_log_trace(path: Path, facts: LogFacts, summaries: Sequence[LogSummary], package: str) -> RecordedLogs:
    """Write the facts of logs as a trace."""
    checkers = [CHECKERS[name]() for name in OF_LOGS]
    judgement = judge(seen_of(facts), ended_us=facts.ended_us, checkers=checkers, source="log")
    judged = () if judgement.verdict == "unjudged" else OF_LOGS
    with written_beside(path) as sink:
        writer = TraceWriter(sink, _header(path.stem, facts, summaries, package))
        for seq, fact in enumerate(_world(facts)):
            writer.fact(seq, 0, fact)
        violations = list(judgement.violations)
        for seq, step in enumerate(facts.steps, len(_world(facts))):
            while violations and violations[0].seq < seq:
                writer.violation(violations.pop(0))
            effects = tuple((NOTE, to_row(note)) for note in step.notes)
            writer.step((seq, step.at_us, step.actor, 1, step.at_us, (TOLD, to_row(step.record)), effects))
        for violation in violations:
            writer.violation(violation)
        writer.finish(judgement.verdict, facts.ended_us)
    return RecordedLogs(judged, tuple(sorted(set(CHECKERS) - set(judged))), judgement)


def seen_of(facts: LogFacts) -> Iterator[Seen]:
    """The facts as checkers and metrics see them."""
    world = _world(facts)
    for seq, fact in enumerate(world):
        yield Seen(seq, 0, "", 0, fact)
    for seq, step in enumerate(facts.steps, len(world)):
        for note in step.notes:
            yield Seen(seq, step.at_us, step.actor, 1, note)


def _world(facts: LogFacts) -> list[Any]:
    members = tuple((host, group) for group, hosts in facts.groups.items() for host in hosts)
    brokers = tuple(facts.brokers) or ("b0",)
    topics = tuple(facts.topics.items())
    hosts = (*brokers, *(host for host, _ in members))
    return [
        RunStarted(groups=tuple(facts.groups), members=members, brokers=brokers, topics=topics),
        *(HostStarted(host=host, life=1, kept_disk=True) for host in hosts),
    ]


def _header(name: str, facts: LogFacts, summaries: Sequence[LogSummary], package: str) -> Header:
    topics = facts.topics or {"unknown": 1}
    scenario = {
        "name": name,
        "summary": "Facts of the logs " + ", ".join(summary.file for summary in summaries),
        "duration": f"{min(max(facts.ended_us, 1), _LONGEST_US)}us",
        "brokers": {"count": min(max((broker_of(host) + 1 for host in facts.brokers), default=1), MOST_BROKERS)},
        "topics": {topic: {"partitions": partitions} for topic, partitions in topics.items()},
        "groups": {
            group: {"topics": list(topics), "members": len(hosts)} for group, hosts in facts.groups.items() if hosts
        }
        or {"unknown": {"topics": list(topics), "members": 0}},
    }
    return Header(
        scenario=scenario_from_dict(scenario).to_dict(),
        plan=[],
        seed=0,
        profile=_profile(summaries),
        loop="none",
        package=package,
        live=True,
        driven=True,
        source="log",
    )


def _profile(summaries: Sequence[LogSummary]) -> str:
    """The release that the logs state, if kemu has it; else the default."""
    for summary in summaries:
        for version in summary.versions:
            name = f"kafka-{'.'.join(version.split('.')[:2])}"
            if name in PROFILES:
                return name
    return DEFAULT_PROFILE
