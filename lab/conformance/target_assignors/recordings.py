"""Recorded targets of a release, so that comparisons need no Java, and the emulator's targets."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import frozen

from kemu.actors.coordinator.consumer_group.heartbeats import ConsumerGroupConfig, HeartbeatAnswers, removed
from kemu.actors.coordinator.consumer_group.state import ConsumerGroup, ConsumerMember, GroupEpochRecord, MemberRecord
from kemu.protocol.consumer_group.shares import Share, replayed
from kemu.protocol.consumer_group.states import Topic
from kemu.protocol.messages.consumer_group import ConsumerGroupHeartbeat
from lab.conformance.oracles import Json, OtherAnswer, recording_text
from lab.conformance.target_assignors.cases import share_of, stored_targets

ROWS = "groups"
KEPT = Path(__file__).resolve().parents[3] / "tests" / "data" / "target-assignors"
_NO_MEMBERS = ConsumerGroupConfig()


@frozen
class TargetAnswers:
    """Groups (id, assignor, first members, steps); each step has the release's answer."""

    release: str
    made_by: str
    groups: tuple[Json, ...]

    def to_json(self) -> str:
        """The text of a recording of these answers."""
        return recording_text(self.release, self.made_by, ROWS, self.groups)

    def differences(self) -> Iterator[OtherAnswer]:
        """The first step of each group at which the emulator's targets differ, in content or in order."""
        for group in self.groups:
            stored: dict[str, str] = {}
            for step, ours in zip(group["steps"], emulated(group), strict=True):
                stored = stored_targets(stored, step["answer"])
                theirs = {name: replayed(share_of(text)) for name, text in stored.items()}
                if any(list(ours.get(name, {}).items()) != list(share.items()) for name, share in theirs.items()):
                    yield OtherAnswer(group["id"], step, {name: as_text(share) for name, share in sorted(ours.items())})
                    break

    def said(self, wrong: Sequence[OtherAnswer]) -> Iterator[str]:
        """Lines for a report: the numbers of compared and different answers, and the kinds of groups."""
        steps = [step for group in self.groups for step in group["steps"]]
        yield f"{len(self.groups)} groups, {len(steps)} targets, {len(wrong)} groups differ"
        equal = sum(len({tuple(each["topics"]) for each in step["members"].values()}) == 1 for step in steps)
        yield f"{equal} targets for equal subscriptions, {len(steps) - equal} for different subscriptions"


def emulated(group: Json) -> Iterator[dict[str, Share]]:
    """The emulator's targets after each step of a group."""
    state = ConsumerGroup("g")
    for name, member in group["first"].items():
        state.apply(MemberRecord(name, _member(name, member, group["assignor"])))
    if group["first"]:
        state.apply(GroupEpochRecord(1))
    for step in group["steps"]:
        topics = {name: Topic(name, topic_id, count) for name, (topic_id, count) in step["topics"].items()}
        answers = HeartbeatAnswers(topics, _NO_MEMBERS)
        if step["left"]:
            removed(state, None, answers.rules, step["left"])
        name, member = step["updated"], step["members"][step["updated"]]
        joins = step["change"] == "join"
        request = ConsumerGroupHeartbeat(
            group="g",
            member_id=name,
            member_epoch=state.current_of(name).epoch,
            instance_id=(member["instance"] or None) if joins else None,
            rebalance_timeout_ms=60_000 if joins else -1,
            topics=tuple(member["topics"]) if joins or step["change"] == "subscribe" else None,
            assignor=group["assignor"] if joins else None,
            owned=() if joins else None,
        )
        answers.heartbeat(state, request, is_stale=True)
        yield dict(state.targets)


def _member(name: str, member: Json, assignor: str) -> ConsumerMember:
    return ConsumerMember(name, member["instance"] or None, topics=tuple(sorted(member["topics"])), assignor=assignor)


def as_text(share: Share) -> str:
    """A target in the format of the Java program."""
    return ",".join(f"{topic}:{'.'.join(map(str, numbers))}" for topic, numbers in share.items())
