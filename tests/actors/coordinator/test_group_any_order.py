"""The coordinator under any order of requests, stale ids, timers, failing appends and failovers.

In the random phase, the group's state must agree with itself and with the log, and no parked request may get lost.
Afterwards the test runs one of two endings: all members fall silent and expire, or all behave and the group becomes
Stable.
"""

from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from kemu.actors.coordinator.group import Group
from kemu.actors.coordinator.join_phase import NOBODY
from kemu.actors.coordinator.members import Member
from kemu.actors.coordinator.replay import replay
from kemu.actors.coordinator.state import COMPLETING, DEAD, EMPTY, MAY_FOLLOW, PREPARING, STABLE, GroupState
from kemu.actors.machine import Caller
from kemu.actors.parking import Parking
from kemu.protocol.errors import ErrorCode as E
from kemu.protocol.messages.group import DeleteGroups, LeavingMember, OffsetDelete, TopicPartitions
from kemu.protocol.notes.groups import GroupBecame
from tests.actors.coordinator.coordinator_harness import GROUP, Ask, Bench, metadata
from tests.examples import examples

SESSION_MS = 6_000
REBALANCE_MS = 10_000
DYNAMIC = ("c0", "c1", "c2")
STATIC = ("s0", "s1")
CLIENTS = DYNAMIC + STATIC
NAMES = (("range",), ("range", "roundrobin"), ("roundrobin", "range"), ("roundrobin",))
ERRORS = (E.NOT_ENOUGH_REPLICAS, E.REQUEST_TIMED_OUT, E.NOT_LEADER_OR_FOLLOWER, E.MESSAGE_TOO_LARGE)
clients = st.sampled_from(CLIENTS)
rarely = st.sampled_from([False, False, True])


class Client:
    """The beliefs of one client, and its last requests."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.instance = f"i-{name}" if name in STATIC else None
        self.member_id = ""
        self.generation = -1
        self.leader = ""
        self.synced = False
        self.listed: tuple[str, ...] = ()
        self.join: Ask | None = None
        self.sync: Ask | None = None
        self.old_ids: list[str] = [""]

    def reset(self) -> None:
        """Forget id and generation."""
        self.member_id, self.generation, self.synced = "", -1, False

    def look(self) -> None:
        """Take in the answers that came."""
        join = self.join
        if join is not None and join.reply is not None:
            self.join = None
            reply = join.reply
            if reply.error is E.NONE:
                self.member_id, self.generation, self.leader = reply.member_id, reply.generation, reply.leader
                self.listed = tuple(row.member_id for row in reply.members)
                self.synced = False
                self.old_ids.append(reply.member_id)
            elif reply.error is E.MEMBER_ID_REQUIRED:
                self.member_id = reply.member_id
                self.old_ids.append(reply.member_id)
            elif reply.error in (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID, E.INCONSISTENT_GROUP_PROTOCOL):
                self.reset()
        sync = self.sync
        if sync is not None and sync.reply is not None:
            self.sync = None
            if sync.error is E.NONE:
                self.synced = True
            elif sync.error in (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID):
                self.reset()
            else:
                self.generation = -1


class AnyOrder(RuleBasedStateMachine):
    """Random users, random faults."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.people: dict[str, Client] = {}
        self.parked: dict[Caller, tuple[str, Member]] = {}
        self.failed_write = False
        self.seen_notes = 0

    @initialize(
        kind=st.sampled_from(["java", "scala"]),
        append_us=st.sampled_from([0, 500, 3_000_000]),
        linger_ms=st.sampled_from([0, 5, 5, 900]),
        rounds=st.sampled_from([0, 20, 40]),
    )
    def begin(self, kind: str, append_us: int, linger_ms: int, rounds: int) -> None:
        """A broker of one kind with a log of one speed, and a group that is perhaps Stable already."""
        self.bench = Bench(
            coordinator_kind=kind,
            linger_ms=linger_ms,
            offsets_retention_minutes=10,
            offsets_retention_check_interval_ms=60_000,
        )
        self.bench.append_us = append_us
        self.bench.after_step = self.check_step
        self.people = {name: Client(name) for name in CLIENTS}
        self.all_behave(rounds)

    @rule(rounds=st.integers(1, 12))
    def all_behave(self, rounds: int) -> None:
        """For some seconds all clients follow the protocol, so that later events find a working group."""
        for _ in range(rounds):
            for client in self.people.values():
                self.behave_once(client)
            self.bench.advance(1_000)

    # --- what may happen ---------------------------------------------------------------------------------------

    @rule(name=clients, names=st.sampled_from(NAMES), topic=st.sampled_from("tu"), version=st.sampled_from([5, 9]))
    def joins(self, name: str, names: tuple[str, ...], topic: str, version: int) -> None:
        """A client (re)joins with the id it has."""
        self.do_join(self.people[name], self.people[name].member_id, names, topic, version)

    @rule(name=clients, pick=st.integers(0, 9), version=st.sampled_from([3, 5, 9]))
    def joins_with_an_old_id(self, name: str, pick: int, version: int) -> None:
        """A retry of a past life: any id it ever had, or none."""
        client = self.people[name]
        if version < 5 and client.instance is not None:
            return
        self.do_join(client, client.old_ids[pick % len(client.old_ids)], ("range",), "t", version)

    def do_join(self, client: Client, member_id: str, names: tuple[str, ...], topic: str, version: int) -> None:
        """Send a JoinGroup and look at what is answered at once."""
        client.join = self.bench.join(
            client.name,
            member_id,
            names=names,
            data=metadata(topic),
            instance=client.instance,
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
            version=version,
        )
        client.look()

    @rule(name=clients, generation_off=st.sampled_from([0, 0, 0, -1, 1]), pick=st.integers(0, 9), stale=st.booleans())
    def syncs(self, name: str, generation_off: int, pick: int, stale: bool) -> None:
        """A client syncs; the leader assigns."""
        client = self.people[name]
        if client.generation < 0 and not stale:
            return
        member_id = client.old_ids[pick % len(client.old_ids)] if stale else client.member_id
        self.do_sync(client, member_id, client.generation + generation_off)

    def do_sync(self, client: Client, member_id: str, generation: int) -> None:
        """Send a SyncGroup and look at what is answered at once."""
        plan = {member: member.encode() for member in client.listed} if client.leader == member_id else None
        client.sync = self.bench.sync(
            client.name, member_id, generation, plan, instance=client.instance, protocol=None, version=4
        )
        client.look()

    @rule(name=clients)
    def heartbeats(self, name: str) -> None:
        """A sign of life."""
        client = self.people[name]
        self.bench.beat(client.name, client.member_id, client.generation, instance=client.instance)

    @rule(name=clients, by_admin=st.booleans())
    def leaves(self, name: str, by_admin: bool) -> None:
        """A client goes, or is removed by its instance id."""
        client = self.people[name]
        if by_admin and client.instance is not None:
            self.bench.leave("admin", LeavingMember(instance_id=client.instance))
        else:
            self.bench.leave(client.name, LeavingMember(member_id=client.member_id, instance_id=client.instance))
            client.reset()

    @rule(name=clients, partition=st.integers(0, 2), offset=st.integers(0, 99), member=st.booleans())
    def commits(self, name: str, partition: int, offset: int, member: bool) -> None:
        """A commit, as a member or from outside."""
        client = self.people[name]
        ids: dict[str, Any] = (
            {"member_id": client.member_id, "generation": client.generation, "instance": client.instance}
            if member
            else {}
        )
        self.bench.commit(client.name, offset, partition=partition, **ids)

    @rule(partition=st.integers(0, 2), whole_group=st.booleans())
    def deletes(self, partition: int, whole_group: bool) -> None:
        """A tool deletes an offset or the group."""
        topics = (TopicPartitions(topic="t", partitions=(partition,)),)
        request = DeleteGroups(groups=(GROUP,)) if whole_group else OffsetDelete(group=GROUP, topics=topics)
        self.bench.ask("admin", request)

    @rule(ms=st.sampled_from([1, 100, 1_000, 1_000, 3_000, 5_999, 6_000, 10_000]))
    def time_passes(self, ms: int) -> None:
        """Timers fire in the order they are due."""
        self.bench.advance(ms)

    @rule(error=st.sampled_from(ERRORS))
    def an_append_will_fail(self, error: E) -> None:
        """The next append does not get into the log."""
        self.bench.append_errors.append(error)
        self.failed_write = True

    @rule(rarely=rarely)
    def the_log_hangs(self, rarely: bool) -> None:
        """Appends wait."""
        self.bench.hold_appends = rarely

    @rule(error=st.sampled_from((E.NONE, E.NONE, *ERRORS)))
    def the_log_goes_on(self, error: E) -> None:
        """Waiting appends succeed or fail."""
        if error is not E.NONE and self.bench.held:
            self.failed_write = True
        self.bench.hold_appends = False
        self.bench.release(error)

    @rule(load_us=st.sampled_from([0, 50_000]), rarely=rarely)
    def the_broker_restarts(self, load_us: int, rarely: bool) -> None:
        """Everything that is not in the log is lost, parked requests with it."""
        if not rarely:
            return
        for client in self.people.values():
            client.join = client.sync = None  # their connections broke
        self.parked.clear()
        self.bench.crash_and_restart(load_us=load_us)

    @rule(rarely=rarely)
    def the_partition_moves_away_and_back(self, rarely: bool) -> None:
        """Unload and load; the machine lives on."""
        if not rarely:
            return
        self.bench.resign()
        self.bench.lead(GROUP)

    # --- what must hold ----------------------------------------------------------------------------------------

    def check_step(self) -> None:
        """After each step of the machine."""
        self.check_transitions()
        group = self.bench.coordinator.groups.get(GROUP)
        self.check_parked(group)
        if group is not None:
            self.check_counts(group)
            self.check_timers(group)

    def check_transitions(self) -> None:
        """Only what the table allows; the machine asserts it too, this asks the notes."""
        for note in self.bench.notes[self.seen_notes :]:
            if isinstance(note, GroupBecame):
                assert GroupState(note.old) in MAY_FOLLOW[GroupState(note.new)]
                if note.new == "Stable":
                    self.failed_write = bool(self.bench.append_errors)  # held appends leave them to later ones
        self.seen_notes = len(self.bench.notes)

    def check_parked(self, group: Group | None) -> None:
        """A request that is no longer parked was answered, superseded, or (a sync) removed with its member."""
        now: dict[Caller, tuple[str, Member]] = {}
        for kind in ("join", "sync") if group is not None else ():
            parked = self.parked_in(group, kind)
            for member_id in parked:
                if parked[member_id] is not NOBODY:
                    now[parked[member_id]] = (kind, group.members.by_id[member_id])
        for caller, (kind, member) in self.parked.items():
            if caller in now or self.is_answered(caller):
                continue
            still_there = group is not None and group.members.by_id.get(member.member_id) is member
            assert still_there or kind == "sync", f"the parked {kind} of {member.member_id} is lost"
            if still_there:
                assert member.member_id in self.parked_in(group, kind), (
                    f"the parked {kind} of {member.member_id} is lost"
                )
        self.parked = now

    def parked_in(self, group: Group, kind: str) -> Parking[str, Caller]:
        """The joins or the syncs that a group holds."""
        return group.phase.parked if kind == "join" else group.syncing.parked

    def is_answered(self, caller: Caller) -> bool:
        """Whether the request of this caller has its reply."""
        return (caller.actor, caller.request_id) not in self.bench.unanswered

    def check_counts(self, group: Group) -> None:
        """Counts and maps agree with the members."""
        members = group.members
        assert set(group.phase.parked) <= set(members.by_id)
        assert set(group.syncing.parked) <= set(members.by_id)
        assert {name: n for name, n in members.support.items() if n} == {
            name: sum(name in [own.name for own in member.protocols] for member in members)
            for name in {own.name for member in members for own in member.protocols}
        }
        assert members.static == {m.instance_id: m.member_id for m in members if m.instance_id is not None}
        assert all(member_id == member.member_id for member_id, member in members.by_id.items())
        assert not set(members.pending) & set(members.by_id)
        assert (members.leader in members.by_id) if members else members.leader is None
        if group.state in (COMPLETING, STABLE):
            assert members and group.shared.protocol is not None
            assert all(member.metadata(group.shared.protocol) is not None for member in members)
        if group.state is EMPTY:
            assert not members and group.shared.protocol is None
        if group.state is not COMPLETING:
            assert not group.syncing.parked

    def check_timers(self, group: Group) -> None:
        """Every wait has a timer that ends it."""
        timers = self.bench.timers
        if group.state is DEAD:
            return
        for member in group.members:
            parked = member.member_id in group.phase.parked or member.member_id in group.syncing.parked
            assert member.timer in timers or parked
        for member_id in group.members.pending:
            assert ("session", GROUP, member_id) in timers
        assert (("join", GROUP) in timers) == (group.state is PREPARING)
        if group.state is COMPLETING and group.syncing.late():
            assert ("sync", GROUP) in timers

    @invariant()
    def the_log_says_what_the_coordinator_says(self) -> None:
        """A replay of the log equals the persisted state, while no write is in progress."""
        bench, group = self.bench, self.bench.coordinator.groups.get(GROUP)
        if bench.writing or any(key[0] == "load" for key in bench.timers):
            return
        found = replay(bench.log())
        offsets = found.offsets_of(GROUP)
        kept = {} if group is None else group.offsets.committed
        assert {tp: (k.value, k.position) for tp, k in kept.items()} == {
            tp: (k.value, k.position) for tp, k in offsets.committed.items()
        }
        if group is None or self.failed_write or group.state not in (STABLE, EMPTY):
            return
        stored, known = found.metadata.get(GROUP), group.shared.metadata()
        if group.state is STABLE:  # written while the assignment was awaited, hence the older time
            assert stored is not None
            assert evolve(stored, state_timestamp_ms=0) == evolve(known, state_timestamp_ms=0)
        else:
            assert stored == known if stored is not None else known.generation == 0

    def teardown(self) -> None:
        """Finish with silence or with good behaviour; both must come to their end."""
        if not self.people:
            return
        bench = self.bench
        bench.hold_appends = False
        bench.append_errors.clear()
        bench.release()
        bench.advance(100)
        if len(bench.notes) % 2:
            self.fall_silent()
        else:
            self.behave()

    def fall_silent(self) -> None:
        """All timers of sessions, new members and pending ids run out; no request stays parked."""
        self.bench.advance(3 * 3_600_000)
        assert not self.parked
        assert GROUP not in self.bench.coordinator.groups
        waiting = [ask for ask in self.bench.asks if ask.client == "admin" and ask.reply is None]
        assert not [ask for ask in waiting if ask.request_id > self.bench.life_began]

    def behave(self) -> None:
        """Clients that follow the protocol reach a Stable group of exactly themselves."""
        people = list(self.people.values())
        for client in people:
            client.join = client.sync = None
            client.generation = -1
        for _ in range(900):
            for client in people:
                self.behave_once(client)
            if self.is_settled(people):
                break
            self.bench.advance(1_000)
        assert self.is_settled(people), f"{self.bench.group.state}: {list(self.bench.group.members.by_id)}"

    def behave_once(self, client: Client) -> None:
        """Look at the answers once, and send the next requests."""
        client.look()
        if client.join is not None or client.sync is not None:
            return
        if client.generation < 0:
            self.do_join(client, client.member_id, ("range",), "t", 9)
            if client.join is None and client.member_id and client.generation < 0:
                self.do_join(client, client.member_id, ("range",), "t", 9)
        elif not client.synced:
            self.do_sync(client, client.member_id, client.generation)
        else:
            error = self.bench.beat(client.name, client.member_id, client.generation, instance=client.instance).error
            if error in (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID):
                client.reset()
            elif error not in (None, E.NONE):  # None: it waits for a write in progress, so it reports no change
                client.generation = -1

    def is_settled(self, people: list[Client]) -> bool:
        """Stable, and made of these clients only."""
        group = self.bench.coordinator.groups.get(GROUP)
        ids = sorted(client.member_id for client in people)
        return (
            group is not None
            and group.state is STABLE
            and sorted(group.members.by_id) == ids
            and all(client.synced and client.generation == group.shared.generation for client in people)
        )


HOW = settings(stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))

TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(HOW, max_examples=examples(80))


@pytest.mark.soak
def test_any_order_for_long() -> None:
    """The same, far more often and for longer."""
    run_state_machine_as_test(AnyOrder, settings=settings(HOW, max_examples=1_000, stateful_step_count=80))
