"""Reasons that group coordinators state for a rebalance: cause, member and static id."""

import re

from kemu.tools.logs.wordings.wordings import Fields, stated
from kemu.tools.logs.wrappers.wrappers import Opened

_REASONS = tuple(
    (re.compile(pattern), cause, releases)
    for pattern, cause, releases in (
        (r"Adding new member (?P<member>\S+)$", "join", "2.1..2.2"),
        (
            r"Adding new member (?P<member>.+?) with group instanceid (?P<instance>Some\([^)]*\)|\S+)",
            "join",
            "2.3..2.4",
        ),
        (
            r"Adding new member (?P<member>.+?) with group instance id (?P<instance>[^;]*)",
            "join",
            "2.5..",
        ),
        (r"Adding new member (?P<member>.+?)(?: w| wi| wit| with.*)?(?:;|$)", "join", ""),
        (r"Member (?P<member>\S+) joining group during", "join", "3.0.."),
        (r"leader (?P<member>\S+) re-joining group", "leader-rejoin", "2.6..2.8"),
        (r"Leader (?P<member>\S+) re-joining group", "leader-rejoin", "3.0.."),
        (r"Updating metadata for (?:static )?member (?P<member>\S+) during", "metadata-change", "2.6.."),
        (
            r"Updating metadata for static member (?P<member>\S+) with instance id (?P<instance>[^;\s]+)",
            "metadata-change",
            "3.0..",
        ),
        (r"Updating metadata for member (?P<member>\S+)", "metadata-change", ""),
        (
            r"Group's selectedProtocol will change because static member (?P<member>\S+)"
            r" with instance id (?P<instance>\S+)",
            "metadata-change",
            "2.8..",
        ),
        (r"removing member (?P<member>\S+) on [Ll]", "leave", "2.1..2.8"),
        (r"Removing member (?P<member>\S+) on [Ll]", "leave", "3.0.."),
        (r"[Rr]emoving (?:pending )?member (?P<member>\S+)(?: on h| due to)", "expire", ""),
        (r"[Rr]emoving .*? on pending sync", "expire", "2.8.."),
        (r"explicit `LeaveGroup` request for \((?P<member>[^,)\n]+)\)?(?:\s|$)", "leave", "3.7.."),
        (r"explicit `LeaveGroup`", "leave", "3.7.."),
        (
            r"error when storing group assignment during SyncGroup \(member: (?P<member>[^)\n]+)\)",
            "store-error",
            "2.1..2.8",
        ),
        (
            r"Error when storing group assignment during SyncGroup \(member: (?P<member>[^)\n]+)\)",
            "store-error",
            "3.0..3.3",
        ),
        (
            r"Error \S+ when storing group assignment during SyncGroup \(member: (?P<member>[^)\n]+)\)",
            "store-error",
            "3.4..",
        ),
        (r"[Ee]rror .*?storing group assignment", "store-error", ""),
    )
)


def read_reason(fields: Fields, _: Opened) -> None:
    """Add ``cause`` to the fields of a rebalance that begins, and the member that the reason names.

    A torn reason has no other cause than the cause that its text states. At its end, only a member is read: the begin
    of an id tells the member.
    """
    reason = str(fields.get("reason", "")).strip()
    torn = bool(fields.get("truncated"))
    if not torn:
        fields["cause"] = "other" if reason else "not stated"
    for pattern, cause, releases in _REASONS:
        match = pattern.match(reason)
        if match:
            fields["cause"] = cause
            fields["_releases"] = "3.2.." if "client reason:" in reason else releases
            fields.update(stated(match, len(reason) if torn else None, ("member",)))
            break


def several_members(fields: Fields, _: Opened) -> None:
    """``Set(a, b)``: one member is the member."""
    if "member" not in fields:
        return
    names = re.sub(r"^\w*\(|\)\.?$", "", str(fields.pop("member"))).split(", ")
    if len(names) == 1 and names[0]:
        fields["member"] = names[0]
    fields["n"] = len(names)
