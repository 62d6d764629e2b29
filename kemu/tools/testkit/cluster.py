"""An emulated cluster inside a test: virtual time stops while the test acts, and advances while the test waits.

A test waits for a state with a virtual deadline (``await group.until(stable, within_ms=10_000)``), never for wall-clock
time. The test's actions (``do``, ``rule``) happen between two steps of machines, and become entries of the plan.
``EmulatedCluster.as_scenario`` returns the plan as a scenario, which runs without the test and can be shrunk. The
scenario does not contain listeners and applications of the test.
"""

import io
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs

from kemu.actors.consumer.application import ApplicationFactory
from kemu.actors.consumer.listener import Listener
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.engine.mail import open_mail
from kemu.emulator.engine.network import Packet
from kemu.emulator.engine.raised import outcome_of_test
from kemu.emulator.engine.rules import HoldRule, said_api
from kemu.emulator.engine.trio_loop import run_in_trio
from kemu.emulator.engine.world import MachineBroke
from kemu.emulator.facts import Seen
from kemu.emulator.findings import Violation
from kemu.emulator.plan.action import Action
from kemu.emulator.plan.entries import At
from kemu.emulator.runner import LONGER_US, Run, RunResult, result_of
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.expectations import split
from kemu.emulator.scenario.files import with_entries
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.text.tables import nearest
from kemu.emulator.text.units import duration_text
from kemu.emulator.watching.panel import Holding, WatchedGroup
from kemu.protocol.frozen import frozen
from kemu.protocol.names import host_of
from kemu.protocol.notes.groups import GroupLoaded, MemberAdded, MemberRemoved
from kemu.tools.report.story import Story, clock_text

READY = "the awaited state is reached"
MS = 1_000
LONGEST_MS = 600_000
"""Default deadline of ``until``, in virtual milliseconds."""
LAST_LINES = 12
LOOK_US = 1_000
"""Interval in us of further evaluations of a condition that can change without a fact."""


class NotInTime(AssertionError):
    """A condition did not hold by its virtual deadline."""


class NoEffect(AssertionError):
    """An action had no effect, such as the crash of a host that is down."""


class Violated(AssertionError):
    """A checker found a violation. ``outcome``: the result of the run, if the run has ended."""

    def __init__(self, text: str, outcome: RunResult | None = None) -> None:
        super().__init__(text)
        self.outcome = outcome


def stable(group: "EmulatedGroup") -> bool:
    """Return whether the group is Stable, and every running member owns its assignment of the current generation."""
    return group.state == "Stable" and group.taken_over


def empty(group: "EmulatedGroup") -> bool:
    """Return whether the group is in the state Empty, which means without members."""
    return group.state == "Empty"


def rebalancing(group: "EmulatedGroup") -> bool:
    """Return whether the group is in the state PreparingRebalance or CompletingRebalance."""
    return group.state in ("PreparingRebalance", "CompletingRebalance")


class EmulatedGroup:
    """A consumer group of a running cluster, as its coordinator and its members report it."""

    def __init__(self, cluster: "EmulatedCluster", name: str) -> None:
        self.name = name
        self._cluster = cluster

    @property
    def _watched(self) -> WatchedGroup:
        return self._cluster.inside.judging.panel.groups.get(self.name) or WatchedGroup()

    @property
    def state(self) -> str:
        """Kafka's name of the state: "Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"."""
        return self._watched.state

    @property
    def generation(self) -> int:
        """The last generation that the coordinator reported; -1 before the first report."""
        reported = self._cluster.notes("GroupBecame", group=self.name)
        return reported[-1].fact.generation if reported else -1

    @property
    def taken_over(self) -> bool:
        """Whether every running member owns its assignment of the current generation."""
        generation, taken = self.generation, {each.actor: each for each in self._holdings()}
        return all(
            member in taken
            and taken[member].generation == generation
            and frozenset(taken[member].owned) == taken[member].assignment
            for member in self._cluster.inside.judging.panel.running_members(self.name)
        )

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the group's members, as the coordinator knows them; includes crashed members with open sessions."""
        return tuple(sorted({*self._cluster.members_by_id.get(self.name, {}).values()}))

    @property
    def coordinator(self) -> str:
        """The broker that coordinates the group now; "" without a coordinator."""
        return self._cluster.inside.cluster.coordinator_of(self.name)

    @property
    def leader(self) -> str:
        """The host of the group's leader; "" before the first election."""
        return self._cluster.inside.cluster.resolve(f"leader of {self.name}")

    @property
    def owners(self) -> dict[str, str]:
        """Partition ("orders-0") -> owner; of several owners, the last owner by name."""
        pairs = [(f"{topic}-{number}", each.actor) for each in self._holdings() for topic, number in each.owned]
        return dict(sorted(pairs))

    def _holdings(self) -> list[Holding]:
        panel = self._cluster.inside.judging.panel
        return [each for each in panel.holdings.values() if each.group == self.name and not each.has_left]

    def until(self, wanted: Callable[["EmulatedGroup"], bool], *, within_ms: int = LONGEST_MS) -> Awaitable[None]:
        """Run the cluster until the condition holds for the group.

        Args:
            wanted: The condition: ``stable``, ``empty``, ``rebalancing`` or a function of the group.
            within_ms: The deadline in virtual milliseconds from now.

        Raises:
            NotInTime: The condition does not hold by the deadline.
            MachineBroke: An assertion of a machine failed.
        """
        what = f"{self.name} is {getattr(wanted, '__name__', 'in the awaited state')}"
        return self._cluster.until(lambda: wanted(self), within_ms=within_ms, what=what)

    def __repr__(self) -> str:
        members = ", ".join(self.members) or "no members"
        return f"<group {self.name}: {self.state}, generation {self.generation}, {members}>"


class RuleInForce:
    """An action whose effect lasts until the end of its ``with`` block."""

    def __init__(self, cluster: "EmulatedCluster", index: int, words: str) -> None:
        self._cluster = cluster
        self.index = index
        """Index of the action in the plan."""
        self.words = words

    @property
    def count(self) -> int:
        """Number of times that the action took effect until now."""
        return self._cluster.inside.injector.counts()[self.index]

    def hits(self, count: int = 1, *, within_ms: int = LONGEST_MS) -> Awaitable[None]:
        """Run the cluster until the action has taken effect ``count`` times.

        Raises:
            NotInTime: The action took effect fewer times by the deadline.
        """
        what = f"{self.words} took effect {count} times"
        return self._cluster.until(lambda: self.count >= count, within_ms=within_ms, what=what, look_us=LOOK_US)


@frozen
class HeldMessage:
    """A decoded message that a rule of the network holds."""

    api: str
    """The API: "SyncGroup" for a request, "SyncGroupReply" for a response."""
    sender: str
    receiver: str
    sent_ms: int
    """Virtual milliseconds at which the rule began to hold the message."""
    message: Any
    """The decoded message, with its fields: ``held.messages[0].message.generation``."""


class HeldMessages(RuleInForce):
    """The messages that ``hold`` or ``barrier`` holds. A test can read, deliver or lose the messages."""

    def __init__(self, cluster: "EmulatedCluster", index: int, words: str, keys: Mapping[str, Any]) -> None:
        super().__init__(cluster, index, words)
        self._keys = {key: keys[key] for key in ("api", "sender", "receiver") if key in keys}
        rule = cluster.inside.injector.rule_of(index)
        assert isinstance(rule, HoldRule)
        self._rule = rule

    @property
    def _packets(self) -> list[Packet]:
        return [packet for packet in self._rule.waiting if self._rule.holds(packet)]

    @property
    def messages(self) -> tuple[HeldMessage, ...]:
        """The held messages in the order of sending, without later messages that queue on the same connection."""
        return tuple(
            HeldMessage(said_api(each), each.sender, each.receiver, each.held_us // MS, open_mail(each.data))
            for each in self._packets
        )

    @property
    def over(self) -> bool:
        """Whether the rule has ended, because the barrier has opened or all faults were healed."""
        return self._rule not in self._cluster.inside.world.network.rules

    def arrives(self, count: int = 1, *, within_ms: int = LONGEST_MS) -> Awaitable[None]:
        """Run the cluster until the rule holds ``count`` messages.

        Raises:
            NotInTime: The rule holds fewer messages at the deadline.
        """
        what = f"{self.words}: {count} are held"
        wanted = lambda: len(self._packets) >= count  # noqa: E731
        return self._cluster.until(wanted, within_ms=within_ms, what=what, look_us=LOOK_US)

    def opens(self, *, within_ms: int = LONGEST_MS) -> Awaitable[None]:
        """Run the cluster until the barrier has opened.

        Raises:
            NotInTime: The barrier is closed at the deadline.
        """
        return self._cluster.until(lambda: self.over, within_ms=within_ms, what=self.words, look_us=LOOK_US)

    def deliver(self, count: int = 0) -> None:
        """Deliver the first ``count`` messages (0: all), in the order of each connection; the rule holds new messages.

        Raises:
            NoEffect: The rule holds no message.
        """
        self._cluster.do("deliver", **self._keys, count=count)

    def lose(self) -> None:
        """Break the connection of the first message, so that all messages on the connection are lost.

        Raises:
            NoEffect: The rule holds no message.
        """
        if not self._packets:
            raise NoEffect(f"{self.words}: no message is held")
        first = self._packets[0]
        self._cluster.do("disconnect", a=host_of(first.sender), b=host_of(first.receiver))


class EmulatedCluster:
    """An emulated cluster for one test, made by the fixture ``kemu``. ``group`` or ``start`` begins the run.

    Args:
        seed: The seed of all draws.
        scenario: The scenario that ``start`` runs; None: ``group`` makes a scenario.
        profile: The release of brokers and clients; None: the scenario's profile.
        allow_unfired: Whether entries of the scenario's plan may have no effect.
    """

    def __init__(
        self,
        *,
        seed: int = 1,
        scenario: Scenario | None = None,
        profile: str | None = None,
        allow_unfired: bool = False,
    ) -> None:
        self.allow_unfired = allow_unfired
        self.seed = seed
        self.scenario = scenario
        self.profile = profile
        self.story = Story()
        self.seen: dict[str, list[Seen]] = {}
        """Name of a type of fact -> all facts of this type so far, in order."""
        self.members_by_id: dict[str, dict[str, str]] = {}
        """Group -> member id -> name of the member, from the coordinator's reports."""
        self.outcome: RunResult | None = None
        """The result of the run after its end, before that None."""
        self.trace = io.BytesIO()
        self.own_code = False
        """Whether the cluster runs listeners or applications of the test, which a scenario cannot contain."""
        self._run: Run | None = None
        self._began_s = time.perf_counter()
        self._wanted: Callable[[], bool] | None = None
        self._waits = 0
        """Number of waits so far; a request to stop has the number of the wait to end."""
        self._plan: list[At] = []
        """The actions of the test, as entries of a plan."""
        self._healed_us: int | None = None
        self._broke = ""

    # --- start -----------------------------------------------------------------------------------------------

    @property
    def inside(self) -> Run:
        """The objects of the run, such as its world and its injector.

        Raises:
            RuntimeError: The run has not begun.
        """
        if self._run is None:
            raise RuntimeError("the cluster does not run yet: await kemu.group(...) or kemu.start(...) first")
        return self._run

    @property
    def began(self) -> bool:
        """Whether the run has begun."""
        return self._run is not None

    async def group(
        self,
        name: str = "g",
        *,
        topics: Mapping[str, int] | None = None,
        members: int | None = None,
        assignors: str | type | Iterable[str | type] | None = None,
        static: bool | None = None,
        config: Mapping[str, Any] | None = None,
        brokers: int = 3,
        records_per_s: int = 10,
        listeners: Mapping[str, Listener] | None = None,
        applications: Mapping[str, ApplicationFactory] | None = None,
    ) -> EmulatedGroup:
        """Return a group by name; without a scenario, first start a cluster with only this group.

        Args:
            name: The ``group.id`` of the group.
            topics: Topic -> number of partitions (default: "orders" with 6).
            members: Number of members, named c1, c2, ... (default 3).
            assignors: Kafka's names, or your classes (``kemu.Assignor``), in order of preference; None: the default.
            static: Whether members have a ``group.instance.id``.
            config: Consumer settings by Kafka's keys.
            brokers: Number of brokers.
            records_per_s: Rate of records into each topic.
            listeners: Member ("c1") -> your rebalance listener.
            applications: Member -> your poll loop.

        Raises:
            ScenarioError: An argument is invalid; the error lists all mistakes.
            ValueError: The cluster runs already, or has a scenario that defines the groups.
        """
        given = [topics, members, assignors, static, config, listeners, applications]
        if self.began or self.scenario is not None:
            if self.began and any(each is not None for each in given):
                raise ValueError(f"the cluster runs already: write kemu.group({name!r}) for one of its groups")
            if not self.began:
                self.start(listeners=listeners, applications=applications)
        else:
            spec = GroupSpec(
                topics=tuple(topics or {"orders": 6}),
                members=3 if members is None else members,
                assignors=() if assignors is None else _names_of(assignors),
                static=bool(static),
                config=dict(config or {}),
            )
            self.scenario = Scenario(
                name=f"test-of-{name}",
                duration_us="1s",
                brokers=BrokersSpec(count=brokers),
                topics={
                    topic: TopicSpec(partitions=count, records_per_s=records_per_s)
                    for topic, count in (topics or {"orders": 6}).items()
                },
                groups={name: spec},
            )
            self.start(listeners=listeners, applications=applications)
        known = self.inside.scenario.groups
        if name not in known:
            raise ValueError(f'"{name}" is no group here{nearest(name, known)}')
        return EmulatedGroup(self, name)

    def start(
        self,
        scenario: Scenario | None = None,
        *,
        listeners: Mapping[str, Listener] | None = None,
        applications: Mapping[str, ApplicationFactory] | None = None,
    ) -> None:
        """Start a cluster with this scenario, or with the scenario in the test's mark.

        Raises:
            ScenarioError: The profile is unknown, or a machine refuses the settings.
            ValueError: The cluster runs already, or the test gives no scenario.
        """
        if self.began:
            raise ValueError("the cluster runs already")
        self.scenario = scenario or self.scenario
        if self.scenario is None:
            raise ValueError("there is no scenario: give one, or mark the test with it")
        self.own_code = bool(listeners or applications)
        self._run = Run(
            self.scenario,
            seed=self.seed,
            profile=self.profile,
            sink=self.trace,
            driven=True,
            observers=(self.story, self),
            listeners=listeners,
            applications=applications,
        )
        self._run.begin()

    # --- waiting ------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """Virtual time since the start, in milliseconds."""
        return self.inside.world.now_us // MS

    def see(self, seen: Seen) -> None:
        """Receive one fact, as every observer does."""
        self.seen.setdefault(type(seen.fact).__name__, []).append(seen)
        if isinstance(seen.fact, GroupLoaded | MemberAdded | MemberRemoved):
            self._count_members(seen, seen.fact)
        if self._wanted is not None and self._wanted():
            self._stop(READY)

    def _count_members(self, seen: Seen, fact: GroupLoaded | MemberAdded | MemberRemoved) -> None:
        """Update the members of a group from a report of its coordinator; ignore reports of a former coordinator."""
        if not self.inside.judging.panel.is_current(seen):
            return
        members = self.members_by_id.setdefault(fact.group, {})
        match fact:
            case GroupLoaded():
                names = {
                    each.fact.member_id: each.fact.client_id for each in self.notes("MemberAdded", group=fact.group)
                }
                self.members_by_id[fact.group] = {each: names.get(each, each) for each in fact.members}
            case MemberAdded():
                members[fact.member_id] = fact.client_id
            case MemberRemoved():
                members.pop(fact.member_id, None)

    def _stop(self, why: str) -> None:
        """Stop the run at the start of the next microsecond, which is the time of the test's next action."""
        self._wanted = None
        world, waits = self.inside.world, self._waits

        def stop() -> None:
            if self._waits == waits:
                world.stopped = why

        world.at(world.now_us + 1, stop)

    async def until(
        self, wanted: Callable[[], bool], *, within_ms: int = LONGEST_MS, what: str = "it", look_us: int = 0
    ) -> None:
        """Run the cluster until the condition holds.

        Args:
            wanted: The condition, which the cluster evaluates after every fact.
            within_ms: The deadline in virtual milliseconds from now.
            what: A description of the condition, for the error.
            look_us: Interval of further evaluations in us; 0: no further evaluations.

        Raises:
            NotInTime: The condition does not hold by the deadline.
            MachineBroke: An assertion of a machine failed.
        """
        if wanted():
            return
        world = self.inside.world
        until_us = world.now_us + within_ms * MS
        self._wanted = wanted
        self._waits += 1
        if look_us:
            self._look(wanted, look_us, until_us)
        try:
            await run_in_trio(world, until_us)
        except MachineBroke as broke:
            self._broke = str(broke)
            raise outcome_of_test(broke) or broke from broke.__cause__
        finally:
            self._wanted = None
            self._waits += 1
            world.stopped = ""
        if not wanted():
            last = [f"  {clock_text(line.at_us)}  {line.text()}" for line in self.story.lines[-LAST_LINES:]]
            head = f"not within {duration_text(within_ms * MS)} of virtual time, at {clock_text(world.now_us)}: {what}"
            raise NotInTime("\n".join([head, *(f"  {self._groups()}".splitlines()), "last events:", *last]))

    def _look(self, wanted: Callable[[], bool], look_us: int, until_us: int) -> None:
        world = self.inside.world

        def look() -> None:
            if self._wanted is not wanted:
                return
            if wanted():
                self._wanted = None
                world.stopped = READY
            elif world.now_us + look_us <= until_us:
                world.at(world.now_us + look_us, look)

        world.at(world.now_us + look_us, look)

    def _groups(self) -> str:
        return "; ".join(repr(EmulatedGroup(self, name)) for name in self.inside.scenario.groups)

    async def sleep_ms(self, ms: int) -> None:
        """Run the cluster for ``ms`` milliseconds of virtual time."""
        try:
            await run_in_trio(self.inside.world, self.inside.world.now_us + ms * MS)
        except MachineBroke as broke:
            self._broke = str(broke)
            raise outcome_of_test(broke) or broke from broke.__cause__

    # --- acting --------------------------------------------------------------------------------------------------

    def do(self, action: Action | str, **keys: Any) -> None:
        """Perform an action now: an object, or kind and keys as in a plan (``do("crash", host="c2")``).

        Raises:
            ScenarioError: The action, key, host, group or topic is unknown.
            NoEffect: The action had no effect.
        """
        self._order(action, keys)

    @contextmanager
    def hold(self, **keys: Any) -> Iterator[HeldMessages]:
        """Hold messages, so that the test can read them: ``with kemu.hold(api="SyncGroup", sender="c1") as held``.

        ``api`` ("": any; "SyncGroupReply": responses), ``sender`` and ``receiver`` are keys of the action "hold".
        Later messages on the connection of a held message wait, too. The end of the ``with`` block delivers all
        messages.

        Raises:
            ScenarioError, NoEffect: as ``do``.
        """
        with self._held("hold", keys) as held:
            yield held

    @contextmanager
    def barrier(self, **keys: Any) -> Iterator[HeldMessages]:
        """Hold messages until ``count`` senders have sent a message: ``with kemu.barrier(api="JoinGroup", count=3)``.

        The open barrier delivers all held messages at once. ``await barrier.opens()`` waits for the opening.

        Raises:
            ScenarioError, NoEffect: as ``do``.
        """
        with self._held("barrier", keys) as held:
            yield held

    @contextmanager
    def _held(self, kind: str, keys: Mapping[str, Any]) -> Iterator[HeldMessages]:
        with self.rule(kind, **keys) as rule:
            yield HeldMessages(self, rule.index, rule.words, keys)

    @contextmanager
    def rule(self, action: Action | str, **keys: Any) -> Iterator[RuleInForce]:
        """Perform an action until the block ends: ``with kemu.rule("hold", sender="c1", api="SyncGroup") as r``.

        Raises:
            ScenarioError, NoEffect: as ``do``.
        """
        index = self._order(action, keys)
        began_us = self.inside.world.now_us
        at = len(self._plan) - 1
        try:
            yield RuleInForce(self, index, self._plan[at].action.words())
        finally:
            if not self._broke:
                done = self._plan[at].action
                if hasattr(done, "for_us"):
                    for_us = max(1, self.inside.world.now_us - began_us)
                    self._plan[at] = attrs.evolve(self._plan[at], action=attrs.evolve(done, for_us=for_us))  # type: ignore[misc]
                self.inside.injector.end(index)

    def _order(self, action: Action | str, keys: Mapping[str, Any]) -> int:
        """Perform an action; return the index of its entry in the plan."""
        world, injector = self.inside.world, self.inside.injector
        row: dict[str, Any] = {"at": duration_text(world.now_us)}
        scenario = self.inside.scenario
        scenario = attrs.evolve(scenario, plan=(), duration_us=max(scenario.duration_us, world.now_us))
        if isinstance(action, str):
            row |= {"do": action, **{"from" if key == "from_" else key: item for key, item in keys.items()}}
            checked = with_entries(scenario, [row], "kemu.do")
        else:
            checked = attrs.evolve(scenario, plan=(At(at_us=world.now_us, action=action),))
        (entry,) = checked.plan
        assert isinstance(entry, At)
        outcome = injector.order(entry.action)
        if outcome is not None:
            raise NoEffect(f"{entry.action.words()}: no effect, {outcome}")
        self._plan.append(At(at_us=world.now_us, action=entry.action))
        return len(injector.plan) - 1

    # --- reading --------------------------------------------------------------------------------------------------

    def notes(self, name: str, **fields: Any) -> list[Seen]:
        """Return the notes of a type so far, filtered by fields: ``notes("MemberRemoved", group="g")``."""
        return [
            seen
            for seen in self.seen.get(name, ())
            if all(getattr(seen.fact, key) == wanted for key, wanted in fields.items())
        ]

    def check(self, *checkers: str) -> None:
        """Raise an error if the named checkers (without names: all checkers) have found a violation so far.

        Raises:
            Violated: A checker found a violation.
            ValueError: A name is no checker.
        """
        judging = self.inside.judging
        known = [checker.name for checker in judging.checkers]
        for name in checkers:
            if name not in known:
                raise ValueError(f'"{name}" is no checker{nearest(name, known)}')
        found = [
            each
            for checker in judging.checkers
            if not checkers or checker.name in checkers
            for each in checker.violations
        ]
        unexpected, _ = split(found, self.inside.scenario.expect)
        if unexpected:
            raise Violated(violations_text(unexpected))

    # --- ending --------------------------------------------------------------------------------------------------

    def run(self, scenario: Scenario | None = None) -> RunResult:
        """Start the run, unless the run has started, and finish the run.

        Raises:
            Violated: A checker found a violation.
        """
        __tracebackhide__ = True
        if not self.began:
            self.start(scenario)
        return self.finish()

    def finish(self) -> RunResult:
        """End all faults, let the cluster recover, and judge the run. A second call returns the same result.

        Raises:
            Violated: A checker found a violation.
            NoEffect: No checker found a violation, but an entry of the scenario's plan had no effect.
        """
        __tracebackhide__ = True
        one = self.inside
        if self.outcome is None:
            broke = self._broke
            if not broke:
                world = one.world
                self._healed_us = heal_us = max(world.now_us + 1, one.scenario.heal_at_us)
                one.settle(heal_us)
                broke = one.run_until(run_plain, heal_us + one.scenario.stable_within_us + LONGER_US)
            self.outcome = result_of(one, self.seed, one.profile, "bare", broke, self._began_s)
        if self.outcome.verdict != "holds":
            unexpected, _ = split(self.outcome.violations, one.scenario.expect)
            problem = violations_text(unexpected) if not self.outcome.broke else self.outcome.broke
            raise Violated(f"{self.outcome.verdict}: {problem}", self.outcome)
        planned = self.outcome.faults[: len(one.scenario.plan)]
        unfired = [fault.text for fault in planned if not fault.fired]
        if unfired and not self.allow_unfired:
            raise NoEffect(f"the run holds, but these never fired: {'; '.join(unfired)} (or allow_unfired=True)")
        return self.outcome

    def as_scenario(self) -> Scenario:
        """Return the run as a scenario whose plan contains the actions of the test."""
        scenario, world = self.inside.scenario, self.inside.world
        ends_us = world.now_us + 1 if self._healed_us is None else self._healed_us
        whole_ms = -(-max(ends_us, scenario.duration_us) // MS)
        return attrs.evolve(
            scenario,
            duration_us=whole_ms * MS,
            seed=self.seed,
            profile=self.profile or scenario.profile,
            checks=ChecksSpec(stable_within_us=scenario.checks.stable_within_us),
            plan=(*scenario.plan, *self._plan),
        )


def violations_text(violations: Iterable[Violation]) -> str:
    """Return the first violations, with a line for each violation."""
    found = list(violations)
    lines = [f"{each.checker} ({each.kind}) at {clock_text(each.at_us)}: {each.text}" for each in found[:5]]
    return "\n".join([*lines, *([f"and {len(found) - 5} more"] if len(found) > 5 else ())])


def _names_of(assignors: str | type | Iterable[str | type]) -> tuple[str, ...]:
    """Return the names of assignors in a scenario; the name of a class is ``module:Class``."""
    given = [assignors] if isinstance(assignors, str | type) else list(assignors)
    return tuple(each if isinstance(each, str) else f"{each.__module__}:{each.__qualname__}" for each in given)
