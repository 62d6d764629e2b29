"""Judge the facts of a run: verdict, violations, losses and figures.

``judge`` takes the facts of a live run, of a trace, or of real logs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kemu.actors.machine import Received
from kemu.emulator import metrics
from kemu.emulator.checkers import CHECKERS
from kemu.emulator.checkers.base import Checker, Clock
from kemu.emulator.checkers.liveness import Liveness, disturbs
from kemu.emulator.engine.raised import LIVELOCK, owner_among, owner_in, raised_text
from kemu.emulator.facts import (
    Handler,
    HostStarted,
    RealClientsUnchecked,
    Seen,
    WarmUpEnded,
    Watching,
    handlers_of,
    is_of_the_wire,
    received,
    take_many_of,
    takes_only_news,
)
from kemu.emulator.findings import MEMBER_FAILED, Loss, Unmended, Violation
from kemu.emulator.metrics.figures import Figures
from kemu.emulator.metrics.metrics import Metrics
from kemu.emulator.metrics.of_logs import StatedByLogs
from kemu.emulator.scenario.expectations import UNMET, Expected, expectations, split
from kemu.emulator.watching.panel import Panel
from kemu.emulator.watching.waiting_at_end import StillWaiting, WaitingAtEnd
from kemu.protocol.frozen import frozen
from kemu.protocol.messages.consumer_group import ConsumerGroupHeartbeat
from kemu.protocol.names import ActorName, GroupId, TopicPartition, host_of, is_real_client
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    CallbackReturned,
    ClientConnected,
    CommitAnswered,
    CoordinatorKnown,
    EpochRead,
    GroupBecame,
    GroupRecordWritten,
    GroupRequestAnswered,
    GroupRequestRead,
    JoinPhaseCompleted,
    MemberAdded,
    MemberBecame,
    MemberRemoved,
    OffsetCommitted,
    PartitionsAssigned,
    PartitionsRevoked,
    PositionSet,
    RequestRefused,
)

CALM = (CommitAnswered, GroupRequestAnswered, GroupRequestRead, OffsetCommitted, WarmUpEnded)
"""Types of facts that change nothing that observers judge of the next appended, acknowledged and processed records."""
OF_READERS = (
    *(CoordinatorKnown, GroupBecame, GroupRecordWritten, JoinPhaseCompleted, MemberAdded, MemberRemoved),
    *(PartitionsRevoked, RequestRefused),
)
"""Types of facts that change nothing that observers judge of the next appended and acknowledged records."""


def _of_partitions(panel: Panel, seen: Seen, group: GroupId, partitions: Iterable[TopicPartition]) -> None:
    """A fact of a member changes what observers judge of the next processed records on the partitions that it names, or
    that begin or cease to be served.
    """
    panel.progress.have_news(group, partitions)
    if panel.now is seen:
        for of, at in (*panel.ceased, *panel.served):
            panel.progress.have_news(of, (at,))


def _of_work(panel: Panel, seen: Seen, fact: CallbackReturned) -> None:
    """A callback of a member changes what observers judge of the next records that the member processes."""
    panel.progress.continuing.pop(seen.actor, None)


def _of_reading(panel: Panel, seen: Seen, fact: EpochRead) -> None:
    """The epoch of a record changes what observers judge of the next records that the member processes there."""
    panel.progress.continuing.get(seen.actor, {}).pop((fact.topic, fact.partition), None)


def _of_end(panel: Panel, seen: Seen, fact: MemberBecame) -> None:
    """The end of a member changes what observers judge of the next processed records; its other states do not."""
    if disturbs(fact):
        panel.progress.continuing.clear()


def _of_start(panel: Panel, seen: Seen, fact: HostStarted) -> None:
    """The start of a member changes what observers judge of processed records. The start of another host, or of a
    host that produced records, also changes what observers judge of appended and acknowledged records.
    """
    panel.progress.continuing.clear()
    is_of_member = any(fact.host in group.members for group in panel.groups.values())
    if not is_of_member or any(host_of(actor) == fact.host for actor in panel.progress.acknowledged_by):
        panel.logs.lines.clear()
        panel.progress.acknowledged_by.clear()


IN_PART: Mapping[type, Callable[[Panel, Seen, Any], None]] = {
    AssignmentReceived: lambda panel, seen, fact: _of_partitions(panel, seen, fact.group, fact.partitions),
    CallbackReturned: _of_work,
    EpochRead: _of_reading,
    HostStarted: _of_start,
    MemberBecame: _of_end,
    PartitionsAssigned: lambda panel, seen, fact: _of_partitions(panel, seen, fact.group, fact.added),
    PositionSet: lambda panel, seen, fact: _of_partitions(panel, seen, fact.group, ((fact.topic, fact.partition),)),
}
"""Types of facts that change what observers judge of the next records of some actors or partitions only."""


@frozen
class Judgement:
    """The judgement of a run.

    ``verdict`` is "holds", "violated", "liveness", "livelock", "broken" or "unjudged". Violated: a forbidden event
    happened. Liveness: a required event did not happen in time. Livelock: virtual time did not advance. Broken: a
    machine, a checker or the user's code raised. Unjudged: logs do not state the facts that a checker needs.
    ``violations``: all violations by time, including expected violations, and one violation for each unmet expectation.
    ``unmended``: conditions that Kafka itself never ends. ``reason``: the reason of the verdict in one line; "" if the
    run holds. ``did_not_work``: the reason why the run's figures are meaningless; "" for meaningful figures (see
    ``_did_not_work``).
    """

    verdict: str
    violations: tuple[Violation, ...]
    losses: tuple[Loss, ...]
    figures: Figures
    unmended: tuple[Unmended, ...] = ()
    reason: str = ""
    did_not_work: str = ""
    broke: str = ""
    """The error of a broken run, with the traceback from the second line on; "" without an error."""
    waiting: tuple[StillWaiting, ...] = ()
    """Groups, members and partitions that still wait at the end, with time and reason."""
    unchecked: tuple[RealClientsUnchecked, ...] = ()
    """Checkers that could not judge the run's real clients."""


class _RealClients:
    """Notes whether real clients came, and which checkers could not judge the clients by the end of the run.

    Checkers learn the groups that real clients join with the consumer protocol, because no scenario names these groups.
    A fact is shown to this object before it is shown to the checkers.
    """

    def __init__(self, panel: Panel, checkers: Iterable[Checker]) -> None:
        self.came = False
        self.unchecked: list[RealClientsUnchecked] = []
        self._panel = panel
        self._groups = [each.consumer_protocol_groups for each in checkers if each.skips_real_clients]
        self._on: Mapping[type, Handler] = {
            ClientConnected: self._connected,
            RealClientsUnchecked: self._not_checked,
            received(ConsumerGroupHeartbeat): self._heard,
        }

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        """The handlers of facts of a kind (``facts.handlers_of``)."""
        return (self._on[kind],) if kind in self._on else ()

    def _connected(self, seen: Seen, fact: ClientConnected) -> None:
        self.came = True

    def _not_checked(self, seen: Seen, fact: RealClientsUnchecked) -> None:
        self.unchecked.append(fact)

    def _heard(self, seen: Seen, fact: Received) -> None:
        name = fact.message.group
        known = self._panel.memberships.groups.get(name)
        if is_real_client(fact.peer) and (known is None or not known.entries):
            for names in self._groups:
                names.add(name)


class Judging(Watching):
    """The panel, the checkers and the metrics of one run. Call ``see`` with every fact in order, and ``finish`` at the
    end.

    Args:
        checkers: new checkers, which read the panel.
        expect: expected violations; an unmet expectation is a violation (``scenario.expectations``).
        panel: a panel with other readers; None for a new panel.
        source: "log" for facts of logs, which state only some figures (``metrics.of_logs``).
    """

    def __init__(
        self,
        checkers: Iterable[Checker],
        *,
        expect: str | Iterable[Expected] = (),
        panel: Panel | None = None,
        source: str = "run",
    ) -> None:
        self.panel = Panel() if panel is None else panel
        self.checkers = tuple(checkers)
        for checker in self.checkers:
            checker.attach(self.panel)
        self._clock = Clock(self.checkers, self.panel)
        self.metrics = Metrics(self.panel)
        self._waiting = WaitingAtEnd(self.panel)
        self._expect = expectations(expect)
        self._real_clients = _RealClients(self.panel, self.checkers)
        self._stated = StatedByLogs() if source == "log" else None
        stated = () if self._stated is None else (self._stated,)
        self._observers = (
            *(self._real_clients, self._clock, self.panel),
            *(*self.checkers, self.metrics, self._waiting, *stated),
        )
        super().__init__((self,))

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        """The handlers of facts of a kind, in the order in which the observers see a fact (``facts.handlers_of``).

        Most facts of runs with a high load only continue an account of the panel. The panel counts such a fact, and
        handlers that are marked with ``only_news`` do not take the fact.
        """
        handlers = handlers_of(self._observers, kind)
        continues = self.panel.continues.get(kind)
        if continues is None:
            if is_of_the_wire(kind) or kind in CALM:
                return _together(handlers) if kind is OffsetCommitted else handlers
            if kind in IN_PART:
                return (*handlers, partial(IN_PART[kind], self.panel))
            return (self._has_news_of_readers if kind in OF_READERS else self._has_news, *handlers)
        clock, others = self._clock, tuple([handler for handler in handlers if not takes_only_news(handler)])

        def take(seen: Seen, fact: Any) -> None:
            is_news = seen.at_us >= clock.looks_us or continues(seen.at_us, seen.actor, (fact,))
            for handler in handlers if is_news else others:
                handler(seen, fact)

        def take_all(seq: int, at_us: int, actor: ActorName, life: int, facts: Sequence[Any]) -> None:
            while news := continues(at_us, actor, facts) if at_us < clock.looks_us else facts:
                seen = Seen(seq, at_us, actor, life, news[0])
                for handler in handlers:
                    handler(seen, news[0])
                facts = news[1:]

        if not others:
            take.__dict__["take_all"] = take_all
        return (take,)

    def _has_news(self, seen: Seen, fact: Any) -> None:
        self.panel.logs.lines.clear()
        self.panel.progress.acknowledged_by.clear()
        self.panel.progress.continuing.clear()

    def _has_news_of_readers(self, seen: Seen, fact: Any) -> None:
        self.panel.progress.continuing.clear()

    def unchecked(self) -> list[RealClientsUnchecked]:
        """The checkers that cannot judge the real clients that came, for a report at the end of the run."""
        skipping = [each for each in self.checkers if each.skips_real_clients and each.unknown_of_real_clients]
        facts = [RealClientsUnchecked(checker=each.name, unknown=each.unknown_of_real_clients) for each in skipping]
        return facts if self._real_clients.came else []

    @property
    def recovered(self) -> bool:
        """Whether no checker waits for recovery; always False for a core that cannot recover."""
        return not self.panel.unrecoverable and all(checker.satisfied for checker in self.checkers)

    def _is_demanded(self, violation: Violation) -> bool:
        """Whether a violation is reported. If the core cannot recover, violations of liveness are not reported."""
        healed_us = self.panel.core_healed_us
        hopeless = self.panel.unrecoverable and healed_us is not None and violation.at_us >= healed_us
        return not (hopeless and violation.liveness)

    @property
    def judges_at_us(self) -> int:
        """Latest time at which a checker judges required events, in us; 0 without such a time."""
        return max([checker.judges_at_us or 0 for checker in self.checkers], default=0)

    def raised(self, error: BaseException, at_us: int) -> str:
        """The text of the error of a checker or a metric, for ``finish``. An error of other code is raised again."""
        theirs = (each for each in self.checkers if owner_among(error, (each, *each.parts)) is not None)
        if (checker := next(theirs, None)) is not None:
            return raised_text(f"the checker {checker.name}", error, at_us)
        if metric := owner_in(error, metrics.__name__):
            return raised_text(f"the metric {metric}", error, at_us)
        if isinstance(error, Exception):
            raise error
        return raised_text("code of the run's caller", error, at_us)

    def finish(self, at_us: int, broke: str = "") -> Judgement:
        """End the run at this time of the world, and return the judgement. ``broke``: the error that broke the run, or
        "".
        """
        violations: list[Violation] = []
        for checker in self.checkers:
            try:
                checker.finish(at_us)
            except (Exception, SystemExit) as error:
                broke = broke or self.raised(error, at_us)
            violations += filter(self._is_demanded, checker.violations)
        violations.sort(key=lambda violation: (violation.at_us, violation.seq, violation.checker, violation.text))
        unexpected, unmet = split(violations, self._expect)
        seq = self.panel.now.seq if self.panel.now is not None else 0
        missed = tuple(
            Violation(UNMET, at_us, seq, (), f"expected {each.words}, which did not happen", True, "unmet")
            for each in unmet
        )
        losses = tuple(loss for checker in self.checkers for loss in checker.losses)
        expected_losses = sum(loss.records for loss in losses)
        try:
            self.metrics.finish(at_us)
            figures = self.metrics.figures(expected_losses=expected_losses)
        except Exception as error:
            broke = broke or self.raised(error, at_us)
            figures = Metrics(Panel()).figures(expected_losses=expected_losses)
        verdict, reason = _verdict((*unexpected, *missed), broke)
        if self._stated is not None:
            figures = self._stated.only(figures)
            verdict = verdict if self._stated.judged or verdict != "holds" else "unjudged"
        return Judgement(
            verdict=verdict,
            violations=(*violations, *missed),
            losses=losses,
            figures=figures,
            unmended=tuple(each for checker in self.checkers for each in checker.unmended),
            reason=reason,
            did_not_work=_did_not_work(violations, self.checkers),
            broke=broke,
            waiting=self._waiting.found(),
            unchecked=tuple(self._real_clients.unchecked),
        )


def _together(handlers: tuple[Handler, ...]) -> tuple[Handler, ...]:
    """One handler of committed offsets, which shows the offsets of one member's commit to these handlers together; the
    handlers, if not all of them take several facts.

    The handlers take one offset after the other if a step has several commits: then the order of offsets matters.
    """
    takers = [take_many for handler in handlers if (take_many := take_many_of(handler)) is not None]
    if len(takers) < len(handlers):
        return handlers

    def take(seen: Seen, fact: Any) -> None:
        for handler in handlers:
            handler(seen, fact)

    def take_all(seq: int, at_us: int, actor: ActorName, life: int, facts: Sequence[OffsetCommitted]) -> None:
        partitions = {(fact.topic, fact.partition) for fact in facts}
        if len(partitions) < len(facts) or len({(fact.group, fact.member_id) for fact in facts}) > 1:
            for fact in facts:
                take(Seen(seq, at_us, actor, life, fact), fact)
            return
        first = Seen(seq, at_us, actor, life, facts[0])
        for take_many in takers:
            take_many(first, facts)

    take.__dict__["take_all"] = take_all
    return (take,)


def _verdict(unexpected: tuple[Violation, ...], broke: str) -> tuple[str, str]:
    """(verdict, reason of the verdict in one line)."""
    if broke:
        return "livelock" if broke.startswith(LIVELOCK) else "broken", broke.splitlines()[0]
    worst = next((each for each in unexpected if not each.liveness), unexpected[0] if unexpected else None)
    if worst is None:
        return "holds", ""
    return "liveness" if worst.liveness else "violated", f"{worst.checker}: {worst.text}"


def _did_not_work(violations: Iterable[Violation], checkers: Iterable[Checker]) -> str:
    """The reason why the figures of a run are meaningless: a member failed, or a group processed no record; "" for
    meaningful figures.

    A group without work has no rebalances, no reprocessing and no downtime. Comparisons must omit such a run, even if
    its violations were expected.
    """
    dead = [each for each in violations if each.kind == MEMBER_FAILED]
    if dead:
        more = len({each.entities for each in dead}) - 1
        return dead[0].text + (f"; {more} more {'member' if more == 1 else 'members'} failed" if more else "")
    liveness = [checker for checker in checkers if isinstance(checker, Liveness)]
    killed = [text for checker in liveness for _, text in checker.killed()]
    if killed:
        return killed[0]
    idle = [each for checker in liveness for each in checker.idle()]
    return f"group {idle[0][0]} processed none of {idle[0][1]:,} records" if idle else ""


def judge(
    facts: Iterable[Seen],
    *,
    ended_us: int,
    checkers: Iterable[Checker] | None = None,
    expect: str | Iterable[Expected] = (),
    broke: str = "",
    source: str = "run",
) -> Judgement:
    """Judge facts from any source.

    Args:
        facts: facts by time, with rising ``Seen.seq``. ``Seen.life`` is the number of starts of the actor's host. The
        first fact is ``RunStarted``, followed by a ``HostStarted`` for each running host.
        ended_us: end of the run.
        checkers: new checkers (``checkers_for`` creates a scenario's checkers); None for all checkers with default
        settings.
        expect: expected violations (``scenario.expectations``).
        broke: the error that broke the run; "" without an error.
        source: "log" for facts of logs.
    """
    checking = [make() for make in CHECKERS.values()] if checkers is None else checkers
    judging = Judging(checking, expect=expect, source=source)
    for seen in facts:
        judging.see(seen)
    return judging.finish(ended_us, broke)
