"""``python -m lab.conformance.raw.request_log LOG...``: give the coordinator machine what a real coordinator received.

The source is Kafka's request log (``kafka.request.logger`` at DEBUG, JSON, since 2.8). The machine gets each request
about members and offsets of one group at the time at which the request arrived. The comparison stops at the first
response that differs. Requests without a response, such as those of killed clients, are not in a request log. Logs
about one group are those of the brokers of one cluster, and are compared together.

A response may be as late or early as the broker was busy. The bound is ``QUIET_MS``, and the sum of the queue and
handling times that the log states for the group's requests from a second before the request until its response. For an
OffsetCommit, the bound has the wait for replicas, too. The longest time of a single request limits the bound.

Responses with NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS show that the coordinator moves. They are counted and not
compared, because a request log does not state when a broker resigns and loads. The machine resigns at the first of
them. It loads the records that it wrote before the next other response, as the next coordinator does.

Exit codes: 0 all responses are equal, 1 a response differs, 2 bad input.
"""

import base64
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from kemu.protocol.config import BrokerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages import group as messages
from kemu.protocol.names import UNKNOWN_MEMBER
from kemu.protocol.profiles import PROFILES
from kemu.tools.logs.lines import open_log
from kemu.tools.logs.wrappers.wrappers import opened
from lab.conformance.raw.comparing import LATE_MS, Compared, compare, shown
from lab.conformance.raw.steps import Answer, Conversation, RawRequest, symbol, with_ids

Json = Mapping[str, Any]
_ENTRY = re.compile(r"Completed request:(\{.*\})")
TAIL_MS = 1_000
Unchecked = Mapping[str, int]
"""Error -> number of responses that are not compared."""
_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
QUIET_MS = 30
"""Tolerance for the time of a response of an idle broker: timers and the writing of an entry are as late."""
BEFORE_US = 1_000_000
"""A timer of the group began as late as the requests of the second before were handled."""


@attrs.frozen
class LoggedRequest:
    """One entry: the request and the time at which the broker began to handle it, the response and the end of the
    request's wait for others. The machine needs no time to compute.

    ``broker`` is the number of the log. ``busy_us`` is the time that the broker needed: its timers may be as late.
    """

    broker: int
    busy_us: float
    arrived_us: float
    answered_us: float
    client: str
    version: int
    request: Any
    reply: Any


def _join(request: Json, response: Json) -> tuple[Any, Any]:
    protocols = tuple(
        messages.JoinProtocol(name=row["name"], metadata=_bytes(row["metadata"])) for row in request["protocols"]
    )
    asked = messages.JoinGroup(
        group=request["groupId"], session_timeout_ms=request["sessionTimeoutMs"],
        rebalance_timeout_ms=request.get("rebalanceTimeoutMs", -1), member_id=request["memberId"],
        instance_id=request.get("groupInstanceId"), protocol_type=request["protocolType"], protocols=protocols,
        reason=request.get("reason"),
    )  # fmt: skip
    members = tuple(
        messages.JoinedMember(
            member_id=row["memberId"], instance_id=row.get("groupInstanceId"), metadata=_bytes(row["metadata"])
        )
        for row in response["members"]
    )
    return asked, messages.JoinGroupReply(
        error=ErrorCode(response["errorCode"]), generation=response["generationId"],
        protocol_type=response.get("protocolType"), protocol_name=response["protocolName"], leader=response["leader"],
        skip_assignment=response.get("skipAssignment", False), member_id=response["memberId"], members=members,
    )  # fmt: skip


def _sync(request: Json, response: Json) -> tuple[Any, Any]:
    given = tuple(
        messages.MemberAssignment(member_id=row["memberId"], assignment=_bytes(row["assignment"]))
        for row in request["assignments"]
    )
    asked = messages.SyncGroup(
        group=request["groupId"], generation=request["generationId"], member_id=request["memberId"],
        instance_id=request.get("groupInstanceId"), protocol_type=request.get("protocolType"),
        protocol_name=request.get("protocolName"), assignments=given,
    )  # fmt: skip
    return asked, messages.SyncGroupReply(
        error=ErrorCode(response["errorCode"]), protocol_type=response.get("protocolType"),
        protocol_name=response.get("protocolName"), assignment=_bytes(response["assignment"]),
    )  # fmt: skip


def _heartbeat(request: Json, response: Json) -> tuple[Any, Any]:
    asked = messages.Heartbeat(
        group=request["groupId"], generation=request["generationId"], member_id=request["memberId"],
        instance_id=request.get("groupInstanceId"),
    )  # fmt: skip
    return asked, messages.HeartbeatReply(error=ErrorCode(response["errorCode"]))


def _leave(request: Json, response: Json) -> tuple[Any, Any]:
    leaving = tuple(
        messages.LeavingMember(
            member_id=row["memberId"], instance_id=row.get("groupInstanceId"), reason=row.get("reason")
        )
        for row in request.get("members", ())
    )
    left = tuple(
        messages.LeftMember(
            member_id=row["memberId"], instance_id=row.get("groupInstanceId"), error=ErrorCode(row["errorCode"])
        )
        for row in response.get("members", ())
    )
    asked = messages.LeaveGroup(
        group=request["groupId"], member_id=request.get("memberId", UNKNOWN_MEMBER), members=leaving
    )
    return asked, messages.LeaveGroupReply(error=ErrorCode(response["errorCode"]), members=left)


def _commit(request: Json, response: Json) -> tuple[Any, Any]:
    offsets = tuple(
        messages.OffsetToCommit(
            topic=topic["name"], partition=row["partitionIndex"], offset=row["committedOffset"],
            leader_epoch=row.get("committedLeaderEpoch", -1), metadata=row["committedMetadata"],
        )
        for topic in request["topics"] for row in topic["partitions"]
    )  # fmt: skip
    outcomes = tuple(
        messages.OffsetOutcome(topic=topic["name"], partition=row["partitionIndex"], error=ErrorCode(row["errorCode"]))
        for topic in response["topics"]
        for row in topic["partitions"]
    )
    asked = messages.OffsetCommit(
        group=request["groupId"], generation=request["generationId"], member_id=request["memberId"],
        instance_id=request.get("groupInstanceId"), offsets=offsets,
    )  # fmt: skip
    return asked, messages.OffsetCommitReply(outcomes=outcomes)


_READS: Mapping[str, Callable[[Json, Json], tuple[Any, Any]]] = {
    "JOIN_GROUP": _join,
    "SYNC_GROUP": _sync,
    "HEARTBEAT": _heartbeat,
    "LEAVE_GROUP": _leave,
    "OFFSET_COMMIT": _commit,
}


def _bytes(text: str) -> bytes:
    return base64.b64decode(text or "")


def logged_requests(path: Path, broker: int = 0) -> Iterator[LoggedRequest]:
    """The requests of group members in a request log, in the order of the log."""
    with open_log(path) as lines:
        for line in lines:
            found = _ENTRY.search(line)
            time = opened(line.rstrip("\n")).time if found else None
            if found is None or time is None:
                continue
            entry = json.loads(found[1])
            header = entry["requestHeader"]
            reads = _READS.get(header["requestApiKeyName"])
            if reads is not None:
                request, reply = reads(entry["request"], entry["response"])
                arrived_us = time.at_us - 1000 * (entry["totalTimeMs"] - entry["requestQueueTimeMs"])
                waited_us = 1000 * entry["remoteTimeMs"]
                busy_us = 1000 * (entry["requestQueueTimeMs"] + entry["localTimeMs"])
                client, version = f"{header['clientId']} {entry['connection']}", header["requestApiVersion"]
                answered_us = arrived_us + waited_us
                yield LoggedRequest(broker, busy_us, arrived_us, answered_us, client, version, request, reply)


def group_of(path: Path) -> str:
    """The group with the most requests in a log; "" without one."""
    counts = Counter(each.request.group for each in logged_requests(path))
    return max(sorted(counts), key=lambda name: counts[name], default="")


@attrs.frozen
class LoggedConversation:
    """The requests of a group with the responses of its coordinators.

    ``within_ms``: for each response, the tolerance of its time. ``unchecked``: responses of brokers that were not, or
    not yet, the coordinator.
    """

    talk: Conversation
    within_ms: tuple[int, ...]
    unchecked: Unchecked


def conversation_of(paths: Sequence[Path], group: str) -> LoggedConversation:
    """The requests of one group in the logs of the brokers of one cluster.

    Raises:
        ValueError: the logs have no request of this group, or no response of a coordinator.
    """
    found = [each for broker, path in enumerate(paths) for each in logged_requests(path, broker)]
    mine = sorted((each for each in found if each.request.group == group), key=lambda each: each.arrived_us)
    if not mine:
        about = f"the group {group}" if group else "a group"
        raise ValueError(f"{paths[0]}: no JSON entry of a request log is about {about}")
    unchecked: Counter[str] = Counter()
    resigned_us: dict[int, float] = {}
    answered: list[LoggedRequest] = []
    last: tuple[int, float | None] = (mine[0].broker, None)
    """The broker of the last response, and the time of the first refusal after it."""
    for each in mine:
        refused = _MOVED & _errors(each.reply)
        if refused:
            unchecked.update(error.name for error in refused)
            if answered and each.broker == last[0]:
                last = (last[0], each.answered_us if last[1] is None else last[1])
            continue
        if answered and (each.broker != last[0] or last[1] is not None):
            resigned_us[len(answered)] = each.arrived_us if last[1] is None else last[1]
        last = (each.broker, None)
        answered.append(each)
    if not answered:
        raise ValueError(f"{paths[0]}: each response is of a broker that is not the coordinator of {group}")
    return LoggedConversation(_talk(answered, resigned_us), _tolerances(answered), unchecked)


def _tolerances(answered: Sequence[LoggedRequest]) -> tuple[int, ...]:
    """The tolerance of the time of each response, in ms."""
    longest_ms = max(LATE_MS, round(max(each.busy_us for each in answered) / 1000))
    found = []
    for each in answered:
        begin_us, end_us = each.arrived_us - BEFORE_US, each.answered_us
        busy_us = sum(
            other.busy_us
            for other in answered
            if other.arrived_us <= end_us and other.arrived_us + other.busy_us >= begin_us
        )
        stored_us = each.answered_us - each.arrived_us if isinstance(each.request, messages.OffsetCommit) else 0
        found.append(min(longest_ms, QUIET_MS + round((busy_us + stored_us) / 1000)))
    return tuple(found)


def _talk(mine: Sequence[LoggedRequest], resigned_us: Mapping[int, float]) -> Conversation:
    first_us = mine[0].arrived_us
    ids = {
        number: each.reply.member_id
        for number, each in enumerate(mine)
        if isinstance(each.request, messages.JoinGroup)
        and each.reply.member_id not in (UNKNOWN_MEMBER, each.request.member_id)
    }
    names = {member_id: symbol(number) for number, member_id in reversed(ids.items())}

    def named(message: Any) -> Any:
        return with_ids(message, lambda member_id: names.get(member_id, member_id))

    steps = tuple(
        RawRequest(int((each.arrived_us - first_us) / 1000), each.client, each.version, named(each.request))
        for each in mine
    )
    answers = {
        number: Answer(int((each.answered_us - first_us) / 1000), named(each.reply)) for number, each in enumerate(mine)
    }
    end_ms = max(answer.at_ms for answer in answers.values()) + TAIL_MS
    moves = {number: int((us - first_us) / 1000) for number, us in resigned_us.items()}
    return Conversation(0, end_ms, steps, answers, ids, moves)


def _errors(reply: Any) -> set[ErrorCode]:
    return {reply.error} if hasattr(reply, "error") else {outcome.error for outcome in reply.outcomes}


def compared(
    paths: Sequence[Path], config: BrokerConfig, group: str = "", late_ms: int | None = None
) -> tuple[Compared, Unchecked]:
    """The comparison of request logs with the machine, and the responses that are not compared."""
    logged = conversation_of(paths, group or next(filter(None, map(group_of, paths)), ""))
    within_ms = logged.within_ms if late_ms is None else (late_ms,) * len(logged.within_ms)
    return compare(logged.talk, config, within_ms=within_ms), logged.unchecked


@click.command()
@click.argument("logs", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--group", default="", help="The group (default: the group with the most requests).")
@click.option("--profile", type=click.Choice(list(PROFILES)), default="kafka-3.4", show_default=True)
@click.option(
    "--late-ms", type=int,
    help=f"Tolerance for the times of responses (default: {QUIET_MS} and the stated busy times around each response).",
)  # fmt: skip
def main(logs: tuple[Path, ...], group: str, profile: str, late_ms: int | None) -> None:
    """Compare the machine's responses with those of request logs, up to the first difference."""
    worst = 0
    clusters: dict[str, list[Path]] = {}
    for path in logs:
        clusters.setdefault(group or group_of(path), []).append(path)
    if len(clusters) > 1:
        clusters.pop("", None)  # a broker that never was asked
    for name, paths in clusters.items():
        told = ", ".join(map(str, paths))
        try:
            done, unchecked = compared(paths, PROFILES[profile].broker, name, late_ms)
        except (ValueError, KeyError, TypeError) as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(2)
        if unchecked:
            counts = ", ".join(f"{count} {error}" for error, count in sorted(unchecked.items()))
            click.echo(f"{told}: not compared, because the coordinator moves or loads: {counts}")
        if done.equal:
            moved = f"; {len(done.talk.moves)} times a coordinator loads the group" if done.talk.moves else ""
            click.echo(f"{told}: all {len(done.talk.answers)} responses are equal{moved}")
            continue
        worst = 1
        first = done.differences[0]
        click.echo(f"{told}: {first.step} of {len(done.talk.answers)} responses are equal, then {first.field} differs:")
        click.echo(f"  Kafka {first.kafka}, emulator {first.emulated}")
        for line in shown(done.talk, done.ours, first.step)[-6:]:
            click.echo(f"  {line[:300]}")
        if done.races:
            click.echo(f"  possible races: {'; '.join(done.races)}")
    sys.exit(worst)


if __name__ == "__main__":
    main()
