"""``kafka.request.logger`` at DEBUG: requests of group members with their answers. The best source of all logs.

A broker writes a request when it sends the answer: the time of the record is the time of the answer. ``ms`` is the time
since the request arrived. The record is one JSON object in 2.8 and later; the text of earlier releases states
the same numbers, but no partitions.
"""

import base64
import re
from collections.abc import Mapping

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.member import decode_assignment
from kemu.protocol.wire.codec import Malformed
from kemu.tools.kafka_files.input_files import LARGEST_ID
from kemu.tools.logs.wordings.wordings import Dialect, Fields, table
from kemu.tools.logs.wrappers.wrappers import Opened, json_object

_KINDS = {
    "JOIN_GROUP": ("join-answered", "join-failed"),
    "SYNC_GROUP": ("assignment-synced", "sync-failed"),
    "HEARTBEAT": ("heartbeat-ok", "heartbeat-refused"),
    "LEAVE_GROUP": ("member-leaves", "client-internal"),
    "OFFSET_COMMIT": ("commit-ok", "commit-failed"),
    "FIND_COORDINATOR": ("coordinator-found", "coordinator-lookup"),
    "CONSUMER_GROUP_HEARTBEAT": ("heartbeat-ok", "heartbeat-refused"),
}
"""API -> kind of a success and of an error."""

Json = Mapping[str, object]


def _request(fields: Fields, _: Opened) -> None:
    entry = json_object(str(fields.pop("reason")))
    fields.update(_entry(entry) if entry is not None else {"kind": None})


def _entry(entry: Json) -> Fields:
    header, request, response = (_object(entry.get(key)) for key in ("requestHeader", "request", "response"))
    kinds = _KINDS.get(str(header.get("requestApiKeyName")))
    if kinds is None:
        return {"kind": None}
    coordinators = _objects(response.get("coordinators"))
    answer = coordinators[0] if coordinators else response
    code = _error_code(answer)
    fields: Fields = {
        "kind": kinds[bool(code)],
        "client": header.get("clientId"),
        "group": request.get("groupId") or answer.get("key") or request.get("key"),
        "member": request.get("memberId") or response.get("memberId"),
        "instance": request.get("groupInstanceId") or request.get("instanceId"),
    }
    total = entry.get("totalTimeMs")
    if isinstance(total, int | float) and 0 <= total < LARGEST_ID:
        fields["ms"] = round(total)
    if code:
        fields["error"] = _error_name(code)
    generation = request.get("generationId", request.get("memberEpoch"))
    match header["requestApiKeyName"]:
        case "JOIN_GROUP":
            generation = response.get("generationId")
            names = tuple(str(row.get("name")) for row in _objects(request.get("protocols")))
            fields.update(reason=request.get("reason"), assignors=names or None)
            fields.update(session_ms=request.get("sessionTimeoutMs"), rebalance_ms=request.get("rebalanceTimeoutMs"))
            if not code:
                members = _objects(response.get("members"))
                fields.update(leader=response.get("leader"), assignor=response.get("protocolName"))
                if members:
                    fields["members"] = len(members)
            elif code == ErrorCode.MEMBER_ID_REQUIRED:
                fields["kind"] = "member-id-issued"
        case "SYNC_GROUP":
            fields["assignor"] = response.get("protocolName")
            if not code:
                fields["partitions"] = partitions_of_bytes(str(response.get("assignment") or ""))
            given = {
                str(row.get("memberId")): partitions_of_bytes(str(row.get("assignment") or ""))
                for row in _objects(request.get("assignments"))
            }
            if given:
                fields["assignment"] = {member: names for member, names in given.items() if names is not None}
        case "LEAVE_GROUP":
            leaving = _objects(request.get("members"))
            if leaving:
                fields.update(
                    member=leaving[0].get("memberId"),
                    instance=leaving[0].get("groupInstanceId"),
                    reason=leaving[0].get("reason"),
                )
        case "OFFSET_COMMIT":
            fields["partitions"] = tuple(
                f"{topic.get('name')}-{row.get('partitionIndex')}"
                for topic in _objects(request.get("topics"))
                for row in _objects(topic.get("partitions"))
            )
        case "FIND_COORDINATOR":
            if not code:
                fields["node"] = f"{answer.get('host')}:{answer.get('port')} (id: {answer.get('nodeId')})"
        case "CONSUMER_GROUP_HEARTBEAT":
            generation = response.get("memberEpoch") if not code else generation
            if request.get("memberEpoch") in (-1, -2) and not code:
                fields["kind"] = "member-leaves"
    if isinstance(generation, int) and generation >= 0:
        fields["generation"] = generation
    return {key: value for key, value in fields.items() if value not in (None, "") or key == "kind"}


def partitions_of_bytes(encoded: str) -> tuple[str, ...] | None:
    """Partitions of an assignment of the consumer protocol in base64; empty for no bytes, None for other bytes."""
    try:
        data = base64.b64decode(encoded, validate=True)
        return tuple(f"{topic}-{number}" for topic, number in decode_assignment(data).partitions) if data else ()
    except (ValueError, Malformed):
        return None


def _error_code(answer: Json) -> int:
    codes = [answer.get("errorCode")]
    for name in ("members", "topics", "partitions"):
        for row in _objects(answer.get(name)):
            codes += [row.get("errorCode"), *(inner.get("errorCode") for inner in _objects(row.get("partitions")))]
    return next((code for code in codes if isinstance(code, int) and code), 0)


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[Json]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


_APIS = {
    11: "JOIN_GROUP",
    14: "SYNC_GROUP",
    12: "HEARTBEAT",
    13: "LEAVE_GROUP",
    8: "OFFSET_COMMIT",
    10: "FIND_COORDINATOR",
}
_TEXT_FIELDS = (
    ("group", r"\bgroup(?:_id|Id)='?([^,'}]+)'?"),
    ("member", r"\bmember(?:_id|Id)='?([^,'}]+)'?"),
    ("instance", r"\bgroup(?:_instance_id|InstanceId)='?([^,'}]+)'?"),
    ("generation", r"\bgeneration(?:_id|Id)='?(\d{1,10})\b"),
)


def _text_request(fields: Fields, _: Opened) -> None:
    """``RequestHeader(apiKey=JOIN_GROUP, ..) -- {group_id=..},response:{error_code=0,..} from connection ..``."""
    text = str(fields.pop("reason"))
    api = re.search(r"apiKey=(\w+)|api_key=(\d{1,5})", text)
    name = (api[1] or _APIS.get(int(api[2])) if api else None) or ""
    kinds = _KINDS.get(name)
    body, _mark, answer = text.partition(",response:")
    code = re.search(r"error_?[cC]ode=(-?\d{1,5})", answer)
    failed = int(code[1]) if code else 0
    fields["kind"] = kinds[bool(failed)] if kinds else None
    if kinds is None:
        return
    client = re.search(r"(?:clientId|client_id)=([^,)]+)", body)
    if client:
        fields["client"] = client[1]
    for key, pattern in _TEXT_FIELDS:
        found = re.search(pattern, answer if name == "JOIN_GROUP" and key in ("member", "generation") else body)
        if found and found[1] != "null":
            fields[key] = int(found[1]) if key == "generation" else found[1]
    if failed:
        fields["error"] = _error_name(failed)
        if failed == ErrorCode.MEMBER_ID_REQUIRED:
            fields["kind"] = "member-id-issued"
    total = re.search(r"totalTime:(\d{1,9}(?:\.\d{1,9})?)", answer)
    if total:
        fields["ms"] = round(float(total[1]))


DIALECT = Dialect(
    "request-log",
    "broker",
    rows=table(
        r"""
heartbeat-ok 2.8.. read=request | Completed request:<reason:\{\s*".*\}>
heartbeat-ok 0.9..2.7 read=text_request | Completed request:<reason:\S.*>
""",
        request=_request,
        text_request=_text_request,
    ),
)
