"""Runs told by hand: the facts of a small group, in order, in few words."""

from collections.abc import Iterable

from kemu.emulator.checkers import CHECKERS
from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.catch_up import CatchUpChecker
from kemu.emulator.checkers.liveness import Liveness
from kemu.emulator.checkers.tasks import Tasks
from kemu.emulator.facts import DiskFound, Healed, HostDown, HostStarted, RunStarted, Seen, TopicReplicated
from kemu.emulator.judging import Judging, judge
from kemu.emulator.watching.copies import Copies
from kemu.protocol.names import OFFSETS_TOPIC
from kemu.protocol.nodes import PartitionState, ReplicaAssignment, state_data, state_path, topic_data, topic_path
from kemu.protocol.notes import groups as notes
from kemu.protocol.notes import ranges as range_notes
from kemu.protocol.notes import replication as control_notes

GROUP, TOPIC, COORDINATOR, BROKER, PRODUCER = "g", "t", "b0/coordinator", "b0", "p1"
SECOND = 1_000_000


def partitions(names: str) -> tuple[tuple[str, int], ...]:
    """The topic's partitions of these numbers ("0 2")."""
    return tuple((TOPIC, int(name)) for name in names.split())


class Story:
    """Facts as a list of ``Seen``; every call is a step of its own, a millisecond after the one before."""

    def __init__(self, *members: str, count: int = 2) -> None:
        self.facts: list[Seen] = []
        self.copies = Copies()
        """What is told so far: whose records are whose."""
        self.at_us = 0
        self.seq = 0
        self.lives: dict[str, int] = {}
        self.ids: dict[str, str] = {}
        self.owned: dict[str, set[tuple[str, int]]] = {}
        self.state = "Empty"
        self.generation = 0
        self.coordinator = COORDINATOR
        self.world(
            RunStarted(
                groups=(GROUP,),
                members=tuple((member, GROUP) for member in members),
                brokers=("b0", "b1"),
                topics=((TOPIC, count),),
            )
        )
        for host in ("b0", "b1", PRODUCER, *members):
            self.start(host)
        for number in range(count):
            self.by(BROKER, notes.PartitionHosted(topic=TOPIC, partition=number, end_offset=0))

    # --- steps -------------------------------------------------------------------------------------------------

    def world(self, *facts: object) -> None:
        self.at_us += 1_000
        for fact in facts:
            self._tell("", 0, fact)

    def _tell(self, actor: str, life: int, fact: object) -> None:
        seen = Seen(self.seq, self.at_us, actor, life, fact)
        self.facts.append(seen)
        if type(fact) in self.copies.on:
            self.copies.on[type(fact)](seen, fact)

    def by(self, actor: str, *facts: object, life: int | None = None) -> None:
        self.at_us += 1_000
        self.seq += 1
        life = self.lives[actor.partition("/")[0]] if life is None else life
        for fact in facts:
            self._tell(actor, life, fact)
            if isinstance(fact, notes.PositionSet):  # what it reads is what the broker appended in its first life
                read = notes.EpochRead(
                    topic=fact.topic, partition=fact.partition, offset=fact.offset, leader_epoch=0, life=1
                )
                self.facts.append(Seen(self.seq, self.at_us, actor, life, read))
            elif isinstance(fact, range_notes.RangePositionSet):
                also = range_notes.RangeEpochRead(
                    topic=fact.topic, partition=fact.partition, offset=fact.offset, leader_epoch=0, life=1
                )
                self.facts.append(Seen(self.seq, self.at_us, actor, life, also))

    def wait(self, seconds: float) -> None:
        self.at_us += int(seconds * SECOND)

    def start(self, host: str, *, kept_disk: bool = True) -> None:
        self.lives[host] = self.lives.get(host, 0) + 1
        self.owned[host] = set()
        self.world(HostStarted(host=host, life=self.lives[host], kept_disk=kept_disk))
        self.ids[host] = f"{host}-{self.lives[host]}"

    def down(self, host: str, how: str = "power") -> None:
        self.world(HostDown(host=host, life=self.lives[host], how=how))

    def heal(self) -> None:
        self.world(Healed())

    # --- the coordinator ---------------------------------------------------------------------------------------

    def become(self, new: str, generation: int | None = None) -> None:
        generation = self.generation if generation is None else generation
        fact = notes.GroupBecame(group=GROUP, old=self.state, new=new, generation=generation, why="told")
        self.by(self.coordinator, fact)
        self.state, self.generation = new, generation

    def add(self, *members: str, instance: str | None = None) -> None:
        for member in members:
            fact = notes.MemberAdded(group=GROUP, member_id=self.ids[member], client_id=member, instance_id=instance)
            self.by(self.coordinator, fact)

    def remove(self, member_id: str) -> None:
        self.by(self.coordinator, notes.MemberRemoved(group=GROUP, member_id=member_id, client_id="c", why="told"))

    def complete(self, generation: int, *members: str, leader: str | None = None) -> None:
        """The join phase ends: the group becomes CompletingRebalance (Empty without members)."""
        ids = tuple(self.ids.get(member, member) for member in members)
        new = "CompletingRebalance" if members else "Empty"
        self.by(
            self.coordinator,
            notes.GroupBecame(group=GROUP, old=self.state, new=new, generation=generation, why="told"),
            notes.JoinPhaseCompleted(
                group=GROUP,
                generation=generation,
                protocol="range" if members else None,
                leader=(ids[0] if ids else "") if leader is None else leader,
                members=ids,
            ),
        )
        self.state, self.generation = new, generation

    def load(self, coordinator: str, generation: int, *members: str, state: str | None = None) -> None:
        ids = tuple(self.ids.get(member, member) for member in members)
        state = ("Stable" if members else "Empty") if state is None else state
        self.coordinator, self.state, self.generation = coordinator, state, generation
        self.by(coordinator, notes.GroupLoaded(group=GROUP, state=state, generation=generation, members=ids))

    def committed(
        self, member: str, partition: int, offset: int, generation: int | None = None, *, position: int = -1
    ) -> None:
        generation = self.generation if generation is None else generation
        fact = notes.OffsetCommitted(
            group=GROUP,
            topic=TOPIC,
            partition=partition,
            offset=offset,
            generation=generation,
            member_id=self.ids.get(member, member),
            position=position,
        )
        self.by(self.coordinator, fact)

    def groups_log(self, broker: str, epoch: int, *epochs: tuple[int, int], end: int) -> None:
        """This broker leads the only partition of the groups' log, of which it has so much."""
        if not epoch:
            self.world(TopicReplicated(topic=OFFSETS_TOPIC, replicas=((0, 1),), min_isr=1, unclean=True))
        at = topic_path(OFFSETS_TOPIC)
        data = topic_data({0: ReplicaAssignment((0, 1))})
        self.by(
            "zk",
            control_notes.NodeWritten(what="set", path=at, data=data, version=epoch, zxid=epoch, client=""),
            life=1,
        )
        leader = int(broker.removeprefix("b"))
        state = state_data(PartitionState(leader, epoch, (leader,), 1))
        where = state_path(OFFSETS_TOPIC, 0)
        self.by(
            "zk",
            control_notes.NodeWritten(what="set", path=where, data=state, version=epoch, zxid=epoch, client=""),
            life=1,
        )
        self.replicate(broker, end)
        fact = control_notes.BecameLeader(
            topic=OFFSETS_TOPIC,
            partition=0,
            leader_epoch=epoch,
            isr=(),
            end_offset=end,
            high_watermark=0,
            epochs=epochs,
        )
        self.by(broker, fact)

    def replicate(self, broker: str, end: int) -> None:
        """A broker has the groups' log up to here: it copied what it lacks, or its disk has no more."""
        at = (OFFSETS_TOPIC, 0)
        log = self.copies.on_host(broker, at).log
        source = self.copies.on_host("b0" if broker == "b1" else "b1", at).log
        pieces = [(first, min(last, end), term) for first, last, term in source.runs_from(log.end) if first < end]
        known = max([last for _, last, _ in pieces], default=log.end)
        for first, last, term in [*pieces, (known, end, (0, 0))]:
            if first < last:
                copied = control_notes.RecordsReplicated(
                    topic=OFFSETS_TOPIC,
                    partition=0,
                    base_offset=first,
                    count=last - first,
                    leader_epoch=term[0],
                    life=term[1],
                )
                self.by(broker, copied)
        if end < log.end:
            runs = tuple((first, *term) for first, _, term in log.runs_from(0) if first < end)
            self.world(DiskFound(host=broker, logs=((f"replica/{OFFSETS_TOPIC}-0", min(log.start, end), end, runs),)))

    # --- members -----------------------------------------------------------------------------------------------

    def receive(self, member: str, generation: int, names: str) -> None:
        fact = notes.AssignmentReceived(
            group=GROUP, member_id=self.ids[member], generation=generation, partitions=partitions(names)
        )
        self.by(member, fact)

    def assigned(self, member: str, generation: int, names: str) -> None:
        added = partitions(names)
        self.owned[member] |= set(added)
        fact = notes.PartitionsAssigned(
            group=GROUP,
            member_id=self.ids[member],
            generation=generation,
            added=added,
            owned=tuple(sorted(self.owned[member])),
        )
        self.by(member, fact)

    def take(self, member: str, generation: int, names: str, *, starts: Iterable[int] | None = None) -> None:
        """The assignment arrives, is taken over eagerly, and positions are read (``starts``: what was committed)."""
        self.receive(member, generation, names)
        self.assigned(member, generation, names)
        numbers = [number for _, number in partitions(names)]
        for number, offset in zip(numbers, starts or [0] * len(numbers), strict=True):
            self.position(member, number, offset)

    def revoke(self, member: str, names: str) -> None:
        self.owned[member] -= set(partitions(names))
        fact = notes.PartitionsRevoked(
            group=GROUP,
            member_id=self.ids[member],
            generation=self.generation,
            revoked=partitions(names),
            owned=tuple(sorted(self.owned[member])),
        )
        self.by(member, fact)

    def lose(self, member: str) -> None:
        lost, self.owned[member] = tuple(sorted(self.owned[member])), set()
        self.by(member, notes.PartitionsLost(group=GROUP, member_id=self.ids[member], lost=lost))

    def position(self, member: str, partition: int, offset: int, why: str = "committed") -> None:
        fact = notes.PositionSet(
            group=GROUP, member_id=self.ids[member], topic=TOPIC, partition=partition, offset=offset, why=why
        )
        self.by(member, fact)

    def process(self, member: str, partition: int, first: int, last: int) -> None:
        fact = notes.Processed(
            group=GROUP,
            member_id=self.ids[member],
            generation=self.generation,
            topic=TOPIC,
            partition=partition,
            first=first,
            last=last,
            started_us=self.at_us,
        )
        self.by(member, fact)

    def became(self, member: str, new: str) -> None:
        fact = notes.MemberBecame(
            group=GROUP, member_id=self.ids[member], old="STABLE", new=new, generation=self.generation, why="told"
        )
        self.by(member, fact)

    # --- the log -----------------------------------------------------------------------------------------------

    def append(self, partition: int, base: int, count: int) -> None:
        fact = notes.RecordsAppended(topic=TOPIC, partition=partition, base_offset=base, count=count)
        self.by(BROKER, fact)

    def acknowledge(self, partition: int, base: int, count: int) -> None:
        fact = notes.RecordsAcknowledged(topic=TOPIC, partition=partition, base_offset=base, count=count)
        self.by(PRODUCER, fact)

    # --- a usual beginning -------------------------------------------------------------------------------------

    def form(self, **assignments: str) -> None:
        """The group's first generation: these members with these partitions, and ten records in each partition."""
        self.add(next(iter(assignments)))
        self.become("PreparingRebalance")
        self.add(*list(assignments)[1:])
        self.generation_of(1, **assignments)
        for names in assignments.values():
            for _, number in partitions(names):
                self.append(number, 0, 10)
                self.acknowledge(number, 0, 10)

    def generation_of(self, generation: int, **assignments: str) -> None:
        """From PreparingRebalance to everybody having taken its part; nothing is committed yet."""
        self.complete(generation, *assignments)
        self.become("Stable")
        for member, names in assignments.items():
            self.take(member, generation, names)

    # --- judging -----------------------------------------------------------------------------------------------

    def judged(self, *, bound_us: int = 30 * SECOND) -> dict[str, list[str]]:
        """What each checker says of the story: name -> texts; checkers that say nothing are left out."""
        bounded = (CatchUpChecker, Liveness, Tasks)
        checkers = [make(bound_us) if make in bounded else make() for make in CHECKERS.values()]
        judgement = judge(self.facts, ended_us=self.at_us, checkers=checkers)
        said: dict[str, list[str]] = {}
        for violation in judgement.violations:
            said.setdefault(violation.checker, []).append(violation.text)
        return said

    def kinds(self, checker: Checker) -> list[str]:
        """What kinds of violations one checker finds in the story as far as it is told."""
        judging = Judging([checker])
        for seen in self.facts:
            judging.see(seen)
        return [violation.kind for violation in checker.violations]
