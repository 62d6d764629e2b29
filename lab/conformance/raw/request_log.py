"""``python -m lab.conformance.raw.request_log LOG...``: give the coordinator machine what a real coordinator received.

The source is Kafka's request log (``kafka.request.logger`` at DEBUG, JSON, since 2.8). The machine gets each request
about members and offsets of one group at the time at which the request arrived. The comparison stops at the first
response that differs. Requests without a response, such as those of killed clients, are not in a request log. Neither
are moves of a coordinator and the groups that a broker loads, so the comparison ends before the first response with
NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS.

Exit codes: 0 all responses are equal, 1 a response differs, 2 bad input.
"""

import base64
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import click

from kemu.protocol.config import BrokerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages import group as messages
from kemu.protocol.names import UNKNOWN_MEMBER
from kemu.protocol.profiles import PROFILES
from kemu.tools.logs.reading import open_log
from kemu.tools.logs.wrappers.wrappers import opened
from lab.conformance.raw.comparing import LATE_MS, Compared, compare, shown
from lab.conformance.raw.steps import Answer, Conversation, RawRequest, symbol, with_ids

Json = Mapping[str, Any]
_ENTRY = re.compile(r"Completed request:(\{.*\})")
TAIL_MS = 1_000
_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
EARLY_MS = 100
"""Tolerance for a response before the machine's: a busy broker writes an entry late, so that its begin is uncertain."""


@attrs.frozen
class LoggedRequest:
    """One entry: the request and the time at which the broker began to handle it, the response and the end of the
    request's wait for others. The machine needs no time to compute.
    """

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


def logged_requests(path: Path) -> Iterator[LoggedRequest]:
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
                client, version = f"{header['clientId']} {entry['connection']}", header["requestApiVersion"]
                yield LoggedRequest(arrived_us, arrived_us + waited_us, client, version, request, reply)


def conversation_of(path: Path, group: str = "") -> tuple[Conversation, int]:
    """The requests of one group ("": the group with the most requests) with the responses of the real coordinator.

    Returns:
        The conversation until the coordinator moved, and the number of requests of the group after the move.

    Raises:
        ValueError: the log has no request of this group.
    """
    found = list(logged_requests(path))
    counts = Counter(each.request.group for each in found)
    chosen = group or max(sorted(counts), key=lambda name: counts[name], default="")
    mine = sorted((each for each in found if each.request.group == chosen), key=lambda each: each.arrived_us)
    if not mine:
        raise ValueError(
            f"{path}: no JSON entry of a request log is about {f'the group {group}' if group else 'a group'}"
        )
    moved = next((number for number, each in enumerate(mine) if not _MOVED.isdisjoint(_errors(each.reply))), len(mine))
    if moved == 0:
        raise ValueError(f"{path}: the first response is of a coordinator that moves: there is nothing to compare")
    after, mine = len(mine) - moved, mine[:moved]
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
    return Conversation(0, end_ms, steps, answers, ids), after


def _errors(reply: Any) -> set[ErrorCode]:
    return {reply.error} if hasattr(reply, "error") else {outcome.error for outcome in reply.outcomes}


def compared(path: Path, config: BrokerConfig, group: str = "", late_ms: int = LATE_MS) -> tuple[Compared, int]:
    """The comparison of a request log with the machine, and the number of requests after the coordinator moved."""
    talk, after = conversation_of(path, group)
    return compare(talk, config, early_ms=EARLY_MS, late_ms=late_ms), after


@click.command()
@click.argument("logs", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--group", default="", help="The group (default: the group with the most requests).")
@click.option("--profile", type=click.Choice(list(PROFILES)), default="kafka-3.4", show_default=True)
@click.option(
    "--late-ms", default=LATE_MS, show_default=True,
    help="Tolerance for late responses: a broker that has just started, or a loaded machine, needs more.",
)  # fmt: skip
def main(logs: tuple[Path, ...], group: str, profile: str, late_ms: int) -> None:
    """Compare the machine's responses with those of request logs, up to the first difference."""
    worst = 0
    for path in logs:
        try:
            done, after = compared(path, PROFILES[profile].broker, group, late_ms)
        except (ValueError, KeyError, TypeError) as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(2)
        if done.equal:
            rest = f" until the coordinator moves; {after} requests come later" if after else ""
            click.echo(f"{path}: all {len(done.talk.answers)} responses are equal{rest}")
            continue
        worst = 1
        first = done.differences[0]
        click.echo(f"{path}: {first.step} of {len(done.talk.answers)} responses are equal, then {first.field} differs:")
        click.echo(f"  Kafka {first.kafka}, emulator {first.emulated}")
        for line in shown(done.talk, done.ours, first.step)[-6:]:
            click.echo(f"  {line[:300]}")
        if done.races:
            click.echo(f"  possible races: {'; '.join(done.races)}")
    sys.exit(worst)


if __name__ == "__main__":
    main()
