"""An emulated cluster inside a test: it stands still while the test acts, and goes on while the test waits.

A test waits for a state with a virtual deadline (``await group.until(stable, within_ms=10_000)``), never for wall-clock
time; what it does (``do``, ``rule``) happens between two turns and counts as a line of the plan. So everything a test
did is a scenario in the end (``EmulatedCluster.as_scenario``), which runs again without the test's code and can be
shrunk; only code of the test's own (listeners, applications) is not in it.
"""

import io
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
from attrs import frozen

from kemu.actors.consumer.application import ApplicationFactory
from kemu.actors.consumer.listener import Listener
from kemu.emulator.engine.loop import run_in_trio, run_plain
from kemu.emulator.engine.mail import open_mail
from kemu.emulator.engine.network import Packet
from kemu.emulator.engine.raised import outcome_of_test
from kemu.emulator.engine.rules import HoldRule, said_api
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
from kemu.protocol.names import host_of
from kemu.protocol.notes.groups import GroupLoaded, MemberAdded, MemberRemoved
from kemu.tools.report.story import Story, clock_text

READY = "what was waited for is there"
MS = 1_000
LONGEST_MS = 600_000
"""How long ``until`` waits when the test does not say."""
LAST_LINES = 12
LOOK_US = 1_000
"""How often a count is looked at that no fact tells of."""


class NotInTime(AssertionError):
    """What was waited for did not come about by its virtual deadline."""


class NoEffect(AssertionError):
    """Something that was done to the cluster had no effect, such as a crash of a host that is down."""


class Violated(AssertionError):
    """A rule was broken. ``outcome``: the whole run, if it is over."""

    def __init__(self, text: str, outcome: RunResult | None = None) -> None:
        super().__init__(text)
        self.outcome = outcome


def stable(group: "EmulatedGroup") -> bool:
    """Kafka's Stable, and each member that runs has taken over what it was assigned in this generation."""
    return group.state == "Stable" and group.taken_over


def empty(group: "EmulatedGroup") -> bool:
    """Kafka's Empty: no members."""
    return group.state == "Empty"


def rebalancing(group: "EmulatedGroup") -> bool:
    """Kafka's PreparingRebalance or CompletingRebalance."""
    return group.state in ("PreparingRebalance", "CompletingRebalance")


class EmulatedGroup:
    """A consumer group of a running cluster, as its coordinator and its members tell of it."""

    def __init__(self, cluster: "EmulatedCluster", name: str) -> None:
        self.name = name
        self._cluster = cluster

    @property
    def _watched(self) -> WatchedGroup:
        return self._cluster.inside.judging.panel.groups.get(self.name) or WatchedGroup()

    @property
    def state(self) -> str:
        """As Kafka names it: "Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"."""
        return self._watched.state

    @property
    def generation(self) -> int:
        """The one that its coordinator told last; -1: none yet."""
        told = self._cluster.notes("GroupBecame", group=self.name)
        return told[-1].fact.generation if told else -1

    @property
    def taken_over(self) -> bool:
        """Whether every member that runs owns what it was assigned in the present generation."""
        generation, taken = self.generation, {each.actor: each for each in self._holdings()}
        return all(
            member in taken
            and taken[member].generation == generation
            and frozenset(taken[member].owned) == taken[member].assignment
            for member in self._cluster.inside.judging.panel.running_members(self.name)
        )

    @property
    def members(self) -> tuple[str, ...]:
        """The members that its coordinator counts, by name; a member that crashed is one until its session expires."""
        return tuple(sorted({*self._cluster.members_by_id.get(self.name, {}).values()}))

    @property
    def coordinator(self) -> str:
        """The broker that coordinates it now, "" if none does."""
        return self._cluster.inside.cluster.coordinator_of(self.name)

    @property
    def leader(self) -> str:
        """The host of the member that assigns, "" before there is one."""
        return self._cluster.inside.cluster.resolve(f"leader of {self.name}")

    @property
    def owners(self) -> dict[str, str]:
        """Partition ("orders-0") -> the member that owns it; of several the one named last."""
        pairs = [(f"{topic}-{number}", each.actor) for each in self._holdings() for topic, number in each.owned]
        return dict(sorted(pairs))

    def _holdings(self) -> list[Holding]:
        panel = self._cluster.inside.judging.panel
        return [each for each in panel.holdings.values() if each.group == self.name and not each.gone]

    def until(self, wanted: Callable[["EmulatedGroup"], bool], *, within_ms: int = LONGEST_MS) -> Awaitable[None]:
        """Let the cluster go on until this is true of the group.

        Args:
            wanted: ``stable``, ``empty``, ``rebalancing`` or a function of the group of your own.
            within_ms: virtual time.

        Raises:
            NotInTime: it is not true by then.
            MachineBroke: a machine failed an assertion of its own.
        """
        what = f"{self.name} is {getattr(wanted, '__name__', 'as was waited for')}"
        return self._cluster.until(lambda: wanted(self), within_ms=within_ms, what=what)

    def __repr__(self) -> str:
        return f"<group {self.name}: {self.state}, generation {self.generation}, {', '.join(self.members) or 'nobody'}>"


class RuleInForce:
    """Something that lasts while its ``with`` does; ``count``: how often it took effect."""

    def __init__(self, cluster: "EmulatedCluster", index: int, words: str) -> None:
        self._cluster = cluster
        self.index = index
        """Which entry of the plan it is."""
        self.words = words

    @property
    def count(self) -> int:
        """How often it took effect until now."""
        return self._cluster.inside.injector.counts()[self.index]

    def hits(self, count: int = 1, *, within_ms: int = LONGEST_MS) -> Awaitable[None]:
        """Let the cluster go on until it took effect so often.

        Raises:
            NotInTime: it did not by then.
        """
        what = f"{self.words} took effect {count} times"
        return self._cluster.until(lambda: self.count >= count, within_ms=within_ms, what=what, look_us=LOOK_US)


@frozen
class HeldMessage:
    """A message that a rule of the network holds, as it will be handed over."""

    api: str
    """"SyncGroup", or "SyncGroupReply" of its answer."""
    sender: str
    receiver: str
    sent_ms: int
    """When it was sent, or held again, in virtual milliseconds."""
    message: Any
    """Its fields, by Kafka's names: ``held.messages[0].message.generation``."""


class HeldMessages(RuleInForce):
    """What ``hold`` or ``barrier`` holds: it is there to be looked at, delivered, or lost with its connection."""

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
        """Those that it is about (what merely waits behind them is not among them), in the order they were sent."""
        return tuple(
            HeldMessage(said_api(each), each.sender, each.receiver, each.held_us // MS, open_mail(each.data))
            for each in self._packets
        )

    @property
    def over(self) -> bool:
        """Whether it holds no more: a barrier that came about, or everything was healed."""
        return self._rule not in self._cluster.inside.world.network.rules

    def arrives(self, count: int = 1, *, within_ms: int = LONGEST_MS) -> Awaitable[None]:
        """Let the cluster go on until so many messages are held.

        Raises:
            NotInTime: there are not so many by then.
        """
        what = f"{self.words}: {count} are held"
        wanted = lambda: len(self._packets) >= count  # noqa: E731
        return self._cluster.until(wanted, within_ms=within_ms, what=what, look_us=LOOK_US)

    def opens(self, *, within_ms: int = LONGEST_MS) -> Awaitable[None]:
        """Let the cluster go on until a barrier has come about.

        Raises:
            NotInTime: it has not by then.
        """
        return self._cluster.until(lambda: self.over, within_ms=within_ms, what=self.words, look_us=LOOK_US)

    def deliver(self, count: int = 0) -> None:
        """The first ``count`` messages go on (0: all), each connection in its order; what comes now is held as before.

        Raises:
            NoEffect: there are none.
        """
        self._cluster.do("deliver", **self._keys, count=count)

    def lose(self) -> None:
        """The first message is lost as TCP loses: its connection breaks, and all that waits on it is gone.

        Raises:
            NoEffect: there is none.
        """
        if not self._packets:
            raise NoEffect(f"{self.words}: nothing is held that could be lost")
        first = self._packets[0]
        self._cluster.do("disconnect", a=host_of(first.sender), b=host_of(first.receiver))


class EmulatedCluster:
    """See the module. Made by the fixture ``kemu``; ``group`` or ``start`` begins it.

    Args:
        seed: decides all that the test leaves open.
        scenario: what ``start`` begins; None: what ``group`` says.
        profile: which release everybody is; None: the scenario's.
        allow_unfired: entries of the scenario's plan may never take effect.
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
        """Every fact so far, in order, by the name of its type."""
        self.members_by_id: dict[str, dict[str, str]] = {}
        """Group -> id of a member -> its name, as the group's coordinator tells them."""
        self.outcome: RunResult | None = None
        """What the run came to, once it is over."""
        self.trace = io.BytesIO()
        self.own_code = False
        """Whether the test's own code runs in it, which no scenario can say."""
        self._run: Run | None = None
        self._began_s = time.perf_counter()
        self._wanted: Callable[[], bool] | None = None
        self._waits = 0
        """How often the test waited: a stop that is on its way is for the wait it was meant for."""
        self._plan: list[At] = []
        """What the test did, as lines of a plan."""
        self._healed_us: int | None = None
        self._broke = ""

    # --- beginning -----------------------------------------------------------------------------------------------

    @property
    def inside(self) -> Run:
        """The run itself, once it has begun.

        Raises:
            RuntimeError: it has not.
        """
        if self._run is None:
            raise RuntimeError("the cluster does not run yet: await kemu.group(...) or kemu.start(...) first")
        return self._run

    @property
    def began(self) -> bool:
        """Whether it runs."""
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
        """A group by its name; if nothing runs yet and there is no scenario, a cluster with this one group begins.

        Args:
            name: of the group.
            topics: topic -> how many partitions (default: "orders" with 6).
            members: how many, c1, c2, ... (default 3).
            assignors: names of Kafka's, or classes of your own (``kemu.Assignor``), best first; none: its release's.
            static: whether members have a ``group.instance.id``.
            config: consumer settings by Kafka's keys.
            brokers: how many; ``records_per_s``: into each topic.
            listeners: your own rebalance listeners, by member ("c1").
            applications: your own loops around a consumer, by member.

        Raises:
            ScenarioError: everything that is wrong with it.
            ValueError: the cluster runs already, or has a scenario: what a group is was said there.
        """
        said = [topics, members, assignors, static, config, listeners, applications]
        if self.began or self.scenario is not None:
            if self.began and any(each is not None for each in said):
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
        """Begin a cluster of this scenario, or of the one that the test is marked with.

        Raises:
            ScenarioError: an unknown profile, or settings that a machine refuses.
            ValueError: it runs already, or there is no scenario.
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

    # --- going on ------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """Virtual milliseconds since the start."""
        return self.inside.world.now_us // MS

    def see(self, seen: Seen) -> None:
        """Take one fact: an observer's part."""
        self.seen.setdefault(type(seen.fact).__name__, []).append(seen)
        if isinstance(seen.fact, GroupLoaded | MemberAdded | MemberRemoved):
            self._count_members(seen, seen.fact)
        if self._wanted is not None and self._wanted():
            self._stop(READY)

    def _count_members(self, seen: Seen, fact: GroupLoaded | MemberAdded | MemberRemoved) -> None:
        """Follow the members of a group as its present coordinator reports them; ignore a deposed one."""
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
        """Stop with the next microsecond, before anything else happens then: what the test does next is done there."""
        self._wanted = None
        world, waits = self.inside.world, self._waits

        def stop() -> None:
            if self._waits == waits:
                world.stopped = why

        world.at(world.now_us + 1, stop)

    async def until(
        self, wanted: Callable[[], bool], *, within_ms: int = LONGEST_MS, what: str = "it", look_us: int = 0
    ) -> None:
        """Let the cluster go on until this is true; looked at after every fact, and every ``look_us`` if that is given.

        Raises:
            NotInTime: it is not true by then.
            MachineBroke: a machine failed an assertion of its own.
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
            raise NotInTime("\n".join([head, *(f"  {self._groups()}".splitlines()), "what happened last:", *last]))

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
        """Let so much virtual time pass."""
        try:
            await run_in_trio(self.inside.world, self.inside.world.now_us + ms * MS)
        except MachineBroke as broke:
            self._broke = str(broke)
            raise outcome_of_test(broke) or broke from broke.__cause__

    # --- acting --------------------------------------------------------------------------------------------------

    def do(self, action: Action | str, **keys: Any) -> None:
        """Do something to the cluster now: an action, or its kind and keys as a plan has them ("crash", host="c2").

        Raises:
            ScenarioError: it names what is not there.
            NoEffect: it could not be done.
        """
        self._order(action, keys)

    @contextmanager
    def hold(self, **keys: Any) -> Iterator[HeldMessages]:
        """Hold messages back to look at them: ``with kemu.hold(api="SyncGroup", sender="c1") as held``.

        ``api`` ("" = any; with "Reply" at its end, answers), ``sender`` and ``receiver`` as of the action "hold". What
        is sent behind a held message waits behind it. When the ``with`` ends, all that is held goes on.

        Raises:
            ScenarioError, NoEffect: as ``do``.
        """
        with self._held("hold", keys) as held:
            yield held

    @contextmanager
    def barrier(self, **keys: Any) -> Iterator[HeldMessages]:
        """Hold messages until those of ``count`` senders are there: ``with kemu.barrier(api="JoinGroup", count=3)``.

        Then all go on at once. ``await barrier.opens()`` waits for that.

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
        """As ``do``, but it ends with the ``with``: ``with kemu.rule("hold", sender="c1", api="SyncGroup") as r``.

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
        """Do it; which entry of the plan it is."""
        world, injector = self.inside.world, self.inside.injector
        row: dict[str, Any] = {"at": duration_text(world.now_us)}
        scenario = self.inside.scenario
        scenario = attrs.evolve(scenario, plan=(), duration_us=max(scenario.duration_us, world.now_us))
        if isinstance(action, str):
            row |= {"do": action, **{"from" if key == "from_" else key: item for key, item in keys.items()}}
            checked = with_entries(scenario, [row], "kemu.do")
        else:
            checked = attrs.evolve(scenario, plan=(At(world.now_us, action),))
        (entry,) = checked.plan
        assert isinstance(entry, At)
        outcome = injector.order(entry.action)
        if outcome is not None:
            raise NoEffect(f"{entry.action.words()}: no effect, {outcome}")
        self._plan.append(At(world.now_us, entry.action))
        return len(injector.plan) - 1

    # --- asking --------------------------------------------------------------------------------------------------

    def notes(self, name: str, **fields: Any) -> list[Seen]:
        """What machines and the world told so far, by the name of the note: ``notes("MemberRemoved", group="g")``."""
        return [
            seen
            for seen in self.seen.get(name, ())
            if all(getattr(seen.fact, key) == wanted for key, wanted in fields.items())
        ]

    def check(self, *checkers: str) -> None:
        """Nothing bad has happened until now, by these checkers (none named: by all).

        Raises:
            Violated: something has.
            ValueError: no such checker.
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
        """For a test that only wants the whole of a run: begin it, if nothing has, and see it to its end.

        Raises:
            Violated: it does not hold.
        """
        __tracebackhide__ = True
        if not self.began:
            self.start(scenario)
        return self.finish()

    def finish(self) -> RunResult:
        """Heal everything, let all get well, and judge the whole run; again, it is the same result.

        Raises:
            Violated: it does not hold.
            NoEffect: it holds, but an entry of the scenario's plan never took effect.
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
            said = violations_text(unexpected) if not self.outcome.broke else self.outcome.broke
            raise Violated(f"{self.outcome.verdict}: {said}", self.outcome)
        planned = self.outcome.faults[: len(one.scenario.plan)]
        unfired = [fault.text for fault in planned if not fault.fired]
        if unfired and not self.allow_unfired:
            raise NoEffect(f"the run holds, but these never fired: {'; '.join(unfired)} (or allow_unfired=True)")
        return self.outcome

    def as_scenario(self) -> Scenario:
        """What ran, as a scenario without the test: everything it did is a line of the plan."""
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
    """The first few, a line each."""
    found = list(violations)
    lines = [f"{each.checker} ({each.kind}) at {clock_text(each.at_us)}: {each.text}" for each in found[:5]]
    return "\n".join([*lines, *([f"and {len(found) - 5} more"] if len(found) > 5 else ())])


def _names_of(assignors: str | type | Iterable[str | type]) -> tuple[str, ...]:
    """As scenarios name them; a class of one's own is ``module:Class``."""
    given = [assignors] if isinstance(assignors, str | type) else list(assignors)
    return tuple(each if isinstance(each, str) else f"{each.__module__}:{each.__qualname__}" for each in given)
