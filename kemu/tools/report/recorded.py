"""The report of a recorded run. The trace is read once, as a stream."""

from collections.abc import Iterator

from attrs import evolve

from kemu.emulator import facts
from kemu.emulator.checkers import checkers_for
from kemu.emulator.findings import Violation
from kemu.emulator.judging import Judging
from kemu.emulator.plan.action import kind_of
from kemu.emulator.plan.words import describe_entry
from kemu.emulator.replay import scenario_of
from kemu.emulator.runner import FaultFired, RunResult
from kemu.emulator.trace.recorder import Recorder
from kemu.emulator.trace.traces import (
    Broken,
    Footer,
    PacketRecord,
    Record,
    Step,
    Torn,
    Trace,
    WorldFact,
    facts_of_records,
)
from kemu.tools.report.collecting import Collector, RunReport


def report_of(trace: Trace, command: str, messages: str = "all") -> RunReport:
    """The report of a recorded run. Today's checkers judge it; a complete trace keeps its own verdict and violations.

    Raises:
        TraceError: the file is damaged, or its scenario cannot be read.
        CodecError: a message in the file cannot be read.
    """
    scenario, header = scenario_of(trace.header), trace.header
    judging = Judging(
        checkers_for(scenario, header.profile, header.source), expect=scenario.expect, source=header.source
    )
    collector = Collector(pictures=True, messages=messages)
    watching = facts.Watching((judging, *collector.readers(judging)))
    ending = _Ending()
    for seen in facts_of_records(ending.watched(trace, collector.recorder), watching.wants):
        watching.see(seen)
    end = ending.footer
    at_us = ending.at_us if end is None else end.virtual_us
    found = [each for checker in judging.checkers for each in checker.violations]
    judged = judging.finish(at_us, ending.broke)
    if end is None:
        # The rest of the run may hold what is missing at its end so far, such as an expected violation.
        so_far = tuple(each for each in judged.violations if each in found)
        verdict = judged.verdict if judged.verdict != "liveness" or any(each.liveness for each in so_far) else "holds"
        judged = evolve(judged, violations=so_far, verdict=verdict, did_not_work="")
    fired = (end.fired if end is not None else None) or (0,) * len(scenario.plan)
    result = RunResult(
        scenario=scenario.name,
        seed=header.seed,
        profile=header.profile,
        loop=header.loop,
        digest="" if end is None else end.digest,
        steps=ending.steps if end is None else end.steps,
        messages=ending.messages if end is None else end.messages,
        virtual_us=at_us,
        wall_s=0.0,
        verdict=judged.verdict if end is None else end.verdict,
        violations=judged.violations if end is None else tuple(ending.violations),
        faults=tuple(
            FaultFired(index, kind_of(entry.action), describe_entry(entry), fired[index] if index < len(fired) else 0)
            for index, entry in enumerate(scenario.plan)
        ),
        figures=judged.figures,
        losses=judged.losses,
        unmended=judged.unmended,
        broke=judged.broke,
        reason=judged.reason,
        did_not_work=judged.did_not_work,
        core=ending.core,
        waiting=judged.waiting,
        unchecked=judged.unchecked,
        labels=scenario.labels(),
    )
    return collector.finish(result, scenario, command, trace.path, ending.torn)


class _Ending:
    """Counts the records of a trace, passes packets and steps on, and keeps the end of the run."""

    def __init__(self) -> None:
        self.steps = self.messages = self.at_us = 0
        self.broke = self.torn = ""
        self.footer: Footer | None = None
        self.core: facts.CoreHealed | None = None
        self.violations: list[Violation] = []

    def watched(self, trace: Trace, recorder: Recorder | None) -> Iterator[Record]:
        """The records of a trace."""
        for record in trace.records():
            match record:
                case Step():
                    self.steps += 1
                    self.at_us = record.at_us
                    if recorder is not None:
                        recorder.step(record)
                case PacketRecord():
                    self.messages = max(self.messages, record.packet_id)
                    if recorder is not None:
                        recorder.packet(record)
                case WorldFact(fact=facts.CoreHealed() as fact):
                    self.core = fact
                case Violation():
                    self.violations.append(record)
                case Broken():
                    self.broke = record.text
                case Footer():
                    self.footer = record
                case Torn():
                    self.torn = record.words
            yield record
