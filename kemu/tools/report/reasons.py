"""Short forms of coordinators' reasons and of member ids, for tables and stories.

JSON, traces and ``--verbose`` contain the full reasons, which ``actors.coordinator.reasons`` defines.
"""

import re
from collections.abc import Collection

from kemu.protocol.names import MEMBER_ID_END

_MEMBER_ID = re.compile(rf"(?<![\w/-])([\w./]+(?:-[\w./]+)*?)-({MEMBER_ID_END})\b")
"""A member id: the client id, then its unique end."""
_LEAST_DIGITS = 4
_REASON = r"(?:; client reason: (?P<client>.*?))?\.?$"
_SHORT = (
    (r"Adding new member (?P<who>\S+) with group instance id .*", "{who} joined"),
    (r"Removing member (?P<who>\S+) on LeaveGroup" + _REASON, "{who} left{client}"),
    (r"explicit `LeaveGroup` request for \((?P<who>.*)\) members\.", "{who} left"),
    (r"removing member (?P<who>\S+) on heartbeat expiration\.?", "{who} expired"),
    (r"Leader (?P<who>\S+) re-joining group during \w+" + _REASON, "leader {who} rejoined{client}"),
    (r"Updating metadata for member (?P<who>\S+) during \w+" + _REASON, "{who} rejoined{client}"),
    (r"Updating metadata for static member (?P<who>\S+) with instance id .*", "static member {who} rejoined"),
    (
        r"Group's selectedProtocol will change because static member (?P<who>\S+) with instance id .*",
        "static member {who} rejoined with another assignor",
    ),
    (r"Removing (?:Set\(|\[)(?P<who>.*)[)\]] on pending sync request expiration", "{who} did not sync in time"),
    (r"(?P<who>.*) with member id [^\s:]+(?P<did>:? .*)", "{who}{did}"),
    (r"Error (?P<who>\w+) when storing group assignment during SyncGroup .*", "assignment not stored: {who}"),
    (r"Freshly-loaded group .*over capacity.*", "more members than group.max.size"),
)
"""Pattern of a reason -> short form; ``re`` compiles a pattern when a reason needs it."""
_CLIENT_REASONS = {
    "consumer poll timeout has expired": "poll timeout",
    "need to revoke partitions and re-join": "to revoke partitions",
    "cached metadata has changed": "metadata changed",
}
"""Reason of a client (KIP-800) -> text that the short form appends."""


def short_reason(reason: str) -> str:
    """The reason of a rebalance in a few words, such as "c1 joined"; an unknown reason is returned unchanged."""
    for pattern, short in _SHORT:
        found = re.fullmatch(pattern, reason)
        if found is not None:
            parts = {"who": "", "did": "", **found.groupdict()}
            client = _CLIENT_REASONS.get((parts.get("client") or "").rstrip("."), "")
            return short_members(short.format(**{**parts, "client": f" ({client})" if client else ""}))
    return reason


def short_members(text: str) -> str:
    """A text with short member ids: the client id if one member of the text has it, else with as many digits of the
    UUID as tell its members apart.
    """
    ends: dict[str, set[str]] = {}
    for found in _MEMBER_ID.finditer(text):
        ends.setdefault(found[1], set()).add(found[2])
    return _MEMBER_ID.sub(lambda found: _short_id(found[1], found[2], ends[found[1]]), text)


def _short_id(client: str, end: str, ends: Collection[str]) -> str:
    if len(ends) == 1:
        return client
    if end.startswith("b") and "." in end:
        return f"{client}-{end}"
    digits = next(n for n in range(_LEAST_DIGITS, len(end) + 1) if len({each[:n] for each in ends}) == len(ends))
    return f"{client}-{end[:digits]}"
