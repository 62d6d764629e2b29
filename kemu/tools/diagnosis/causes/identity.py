"""``static-id-used-twice``, ``assignor-mismatch``, ``group-full``, ``not-authorized``: the group refuses a member."""

from collections import Counter
from typing import ClassVar

from kemu.tools.diagnosis.causes.base import Finding, KnownCause, Remedy
from kemu.tools.incident.incident import Incident
from kemu.tools.incident.words import FENCED, FULL, NO_COMMON_PROTOCOL, NOT_ALLOWED, plural


class StaticIdUsedTwice(KnownCause):
    """Two processes have the same group.instance.id."""

    id: ClassVar[str] = "static-id-used-twice"
    means: ClassVar[str] = "Two living processes use one group.instance.id, and the coordinator fences the older one."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("setting", "another group.instance.id for each process", "KIP-345"),
    )

    def find(self, incident: Incident) -> Finding | None:
        """Fenced members, or an instance that is replaced several times."""
        fenced = [*incident.of("member-fenced"), *incident.with_error(FENCED)]
        replaced = incident.of("static-replaced")
        often = [
            name for name, count in Counter(event.instance for event in replaced if event.instance).items() if count > 2
        ]
        if not fenced and not often:
            return None
        return Finding(
            says=f"{plural(len(fenced), 'request')} of fenced members, "
            f"{plural(len(often), 'instance')} replaced several times",
            confidence=0.9 if fenced else 0.5,
            evidence=tuple(dict.fromkeys((*fenced, *replaced))),
            against=() if fenced else ("a process that restarts is replaced, too",),
        )


class _Refused(KnownCause):
    """A JoinGroup is refused with one code."""

    code: ClassVar[str] = ""

    def find(self, incident: Incident) -> Finding | None:
        """Events with the code."""
        told = incident.with_error(self.code)
        if not told:
            return None
        return Finding(says=f"{plural(len(told), 'answer')} {self.code}", confidence=0.95, evidence=tuple(told))


class AssignorMismatch(_Refused):
    """No assignor is common to all members."""

    code: ClassVar[str] = NO_COMMON_PROTOCOL
    id: ClassVar[str] = "assignor-mismatch"
    means: ClassVar[str] = "A member has no assignor in common with the members of its group."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy(
            "setting", "partition.assignment.strategy: list the old and the new assignor during an upgrade", "KIP-429"
        ),
    )


class GroupFull(_Refused):
    """The group has as many members as the broker allows."""

    code: ClassVar[str] = FULL
    id: ClassVar[str] = "group-full"
    means: ClassVar[str] = (
        "The group has group.max.size members (consumer protocol: group.consumer.max.size), so the coordinator refuses "
        "another one."
    )
    addressed_by: ClassVar[tuple[Remedy, ...]] = (Remedy("setting", "group.max.size of the brokers", "KIP-389"),)


class NotAuthorized(_Refused):
    """The principal may not use the group."""

    code: ClassVar[str] = NOT_ALLOWED
    id: ClassVar[str] = "not-authorized"
    means: ClassVar[str] = "The client's principal has no right to read the group."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("action", "an ACL READ on the group for the principal", "GroupAuthorizationException (3.9)"),
    )
