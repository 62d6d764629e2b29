"""Stories with the requests that a coordinator reads and the answers that it sends."""

from kemu.emulator.checkers.membership import MembershipRules
from kemu.emulator.checkers.useless_work import UselessWork
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.watching.settings import Settings
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.member import Assignment, Subscription, encode_assignment, encode_subscription
from kemu.protocol.notes import groups as notes
from tests.emulator.checkers.story import GROUP, SECOND, TOPIC, Story, partitions
from tests.emulator.checkers.wired import SCENARIO

NONE = ErrorCode.NONE
SESSION_S, REBALANCE_S, INTERVAL_S = 10, 60, 3
Rows = tuple[tuple[str, bytes], ...]


def subscribed(owned: str = "", assignor: str = "range") -> Rows:
    """The protocols of a JoinGroup to the topic."""
    return ((assignor, encode_subscription(Subscription((TOPIC,), owned=partitions(owned)))),)


class WireStory(Story):
    """Steps of the coordinator: one request a step, with what it does then; ``asked`` requests are answered later."""

    def __init__(self, *members: str, count: int = 2) -> None:
        super().__init__(*members, count=count)
        self.requests = 0
        self.connection = 1

    def read(
        self,
        api: str,
        member: str,
        *,
        member_id: str | None = None,
        generation: int = -1,
        rows: Rows = (),
        **more: object,
    ) -> notes.GroupRequestRead:
        self.requests += 1
        joins = api == "JoinGroup"
        return notes.GroupRequestRead(
            group=GROUP,
            api=api,
            client=member,
            connection=self.connection,
            request_id=self.requests,
            ids=((self.ids[member] if member_id is None else member_id, more.get("instance")),),
            generation=generation,
            session_timeout_ms=SESSION_S * 1_000 if joins else -1,
            rebalance_timeout_ms=REBALANCE_S * 1_000 if joins else -1,
            rows=rows,
        )

    def answer(
        self, request: notes.GroupRequestRead, error: ErrorCode = NONE, **told: object
    ) -> notes.GroupRequestAnswered:
        return notes.GroupRequestAnswered(
            client=request.client, connection=request.connection, request_id=request.request_id, error=error, **told
        )

    def ask(self, api: str, member: str, *facts: object, error: ErrorCode = NONE, **asked: object) -> None:
        """A request that is answered in the step that reads it, behind these facts."""
        request = self.read(api, member, **asked)
        told = {"generation": self.generation, "member_id": request.ids[0][0]} if api == "JoinGroup" else {}
        self.by(self.coordinator, request, *facts, self.answer(request, error, **told))

    def beat(self, member: str, error: ErrorCode = NONE, generation: int | None = None) -> None:
        self.ask("Heartbeat", member, error=error, generation=self.generation if generation is None else generation)

    def beats(self, seconds: float, *members: str) -> None:
        """Time passes with heartbeats of these members."""
        ends_us = self.at_us + int(seconds * SECOND)
        while self.at_us < ends_us:
            self.wait(INTERVAL_S)
            for member in members:
                self.beat(member)

    def enter(self, member: str, *facts: object, instance: str | None = None, rows: Rows | None = None) -> object:
        """A new member joins; its request, which waits."""
        request = self.read(
            "JoinGroup", member, member_id="", rows=subscribed() if rows is None else rows, instance=instance
        )
        added = notes.MemberAdded(group=GROUP, member_id=self.ids[member], client_id=member, instance_id=instance)
        self.by(self.coordinator, request, added, *facts)
        return request

    def state_of(self, new: str, generation: int | None = None) -> notes.GroupBecame:
        """The note of a new state, to be told with others."""
        generation = self.generation if generation is None else generation
        fact = notes.GroupBecame(group=GROUP, old=self.state, new=new, generation=generation, why="told")
        self.state, self.generation = new, generation
        return fact

    def removal(self, member: str) -> notes.MemberRemoved:
        return notes.MemberRemoved(group=GROUP, member_id=self.ids[member], client_id=member, why="told")

    def complete_phase(
        self, generation: int, requests: dict[str, object], leader: str, protocol: str = "range"
    ) -> None:
        """All are told the generation, the leader is told everybody."""
        ids = tuple(self.ids[member] for member in requests)
        began = self.state_of("CompletingRebalance", generation)
        completed = notes.JoinPhaseCompleted(
            group=GROUP, generation=generation, protocol=protocol, leader=self.ids[leader], members=ids
        )
        answers = [
            self.answer(
                request,
                generation=generation,
                protocol=protocol,
                leader=self.ids[leader],
                member_id=self.ids[member],
                members=ids if member == leader else (),
            )
            for member, request in requests.items()
        ]
        self.by(self.coordinator, began, completed, *answers)

    def share(self, leader: str, **given: str) -> None:
        """The leader's assignment is read, stored and handed out."""
        data = {self.ids[m]: encode_assignment(Assignment(partitions(names))) for m, names in given.items()}
        asked = {m: self.read("SyncGroup", m, generation=self.generation) for m in given if m != leader}
        for request in asked.values():
            self.by(self.coordinator, request)
        asked[leader] = self.read("SyncGroup", leader, generation=self.generation, rows=tuple(data.items()))
        self.by(self.coordinator, asked[leader])
        written = notes.GroupRecordWritten(
            group=GROUP, generation=self.generation, size=100, most=1_000, error=ErrorCode.NONE
        )
        answers = [self.answer(request, assignment=data[self.ids[m]]) for m, request in asked.items()]
        self.by(self.coordinator, written, *answers, self.state_of("Stable"))

    def stable(self, first: str = "0", second: str = "1", assignor: str = "range", owned: str = "") -> None:
        """c1 (which leads, and joined with these partitions) and c2 in generation 1."""
        rows = subscribed(assignor=assignor)
        elected = notes.LeaderElected(group=GROUP, member_id=self.ids["c1"])
        c1 = self.enter("c1", elected, self.state_of("PreparingRebalance"), rows=subscribed(owned, assignor))
        c2 = self.enter("c2", rows=rows)
        self.complete_phase(1, {"c1": c1, "c2": c2}, "c1", assignor)
        self.share("c1", c1=first, c2=second)

    def found(self, initial_s: float = 0, profile: str = "") -> list[str]:
        """Kinds that ``membership`` finds in the story; ``initial_s``: group.initial.rebalance.delay in seconds."""
        settings = Settings(scenario_from_toml(SCENARIO), profile) if profile else None
        checker = MembershipRules(int(initial_s * SECOND), settings)
        self.kinds(checker)
        checker.finish(self.at_us)
        return [each.kind for each in checker.violations]

    def useless(self, *, racks: bool = False) -> list[str]:
        """Kinds that ``useless-work`` finds in the story."""
        return self.kinds(UselessWork([GROUP], racks=racks))
