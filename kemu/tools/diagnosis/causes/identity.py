"""The group refuses a member: ``static-id-used-twice``, ``static-id-not-released``, ``assignor-mismatch``,
``group-full``, ``not-authorized``, ``upgrade-refused``.
"""

from collections import Counter
from typing import ClassVar

from kemu.tools.diagnosis.causes.base import Finding, KnownCause, Remedy
from kemu.tools.incident.incident import Incident
from kemu.tools.incident.words import FENCED, FULL, NO_COMMON_PROTOCOL, NOT_ALLOWED, UNRELEASED, error_of, plural
from kemu.tools.logs.events import Event


class StaticIdUsedTwice(KnownCause):
    """Two processes have the same group.instance.id."""

    id: ClassVar[str] = "static-id-used-twice"
    means: ClassVar[str] = "Two living processes use one group.instance.id, and the coordinator fences the older one."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("setting", "another group.instance.id for each process", "KIP-345"),
    )

    def find(self, incident: Incident) -> Finding | None:
        """Fenced members, or an instance that is replaced several times."""
        refused = [*incident.of("member-fenced"), *incident.with_error(FENCED)]
        fenced = [event for event in refused if error_of(event) != UNRELEASED]
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


class StaticIdNotReleased(_Refused):
    """A static member of the consumer protocol joins before its former process is no member any more."""

    code: ClassVar[str] = UNRELEASED
    id: ClassVar[str] = "static-id-not-released"
    means: ClassVar[str] = (
        "A process of the consumer protocol joined with the group.instance.id of a member that has neither left nor "
        "reached the end of its session. The error is fatal for the process."
    )
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("action", "close the former process before the next one starts, and let close() end", "KIP-848"),
        Remedy(
            "action",
            "after a crash, restart after group.consumer.session.timeout.ms, or until the join works",
            "KIP-848",
        ),
        Remedy("setting", "another group.instance.id for each process", "KIP-345"),
    )


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


class UpgradeRefused(KnownCause):
    """The coordinator may not convert a classic group to a group of the consumer protocol."""

    id: ClassVar[str] = "upgrade-refused"
    means: ClassVar[str] = (
        "A member with group.protocol=consumer joined a classic group that the coordinator may not convert. The error "
        "GROUP_ID_NOT_FOUND is fatal for the member."
    )
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy(
            "setting",
            "group.consumer.migration.policy=bidirectional (the default) or upgrade on all brokers",
            "GroupMetadataManager.validateOnlineUpgrade (4.0)",
        ),
        Remedy(
            "setting",
            "group.consumer.max.size of the brokers not below the number of members",
            "GroupMetadataManager.validateOnlineUpgrade (4.0)",
        ),
        Remedy(
            "setting",
            "an assignor without user data in partition.assignment.strategy, before the upgrade",
            "GroupMetadataManager.convertToConsumerGroup (4.0)",
        ),
        Remedy("action", "or stop all members first: an empty group takes the protocol of the next member", "KIP-848"),
    )
    _WORDS: ClassVar[tuple[str, ...]] = (
        *("online upgrade is disabled", "does not use the consumer embedded protocol"),
        *("exceeds the consumer group maximum size", "embedded consumer protocol is malformed"),
        *("unsupported custom assignor is in use", "userdata from a custom assignor would be lost"),
    )
    """Parts of the messages of the coordinator and of the member (``GroupMetadataManager`` 4.0 to 4.3)."""

    def find(self, incident: Incident) -> Finding | None:
        """Lines of the coordinator, or of the member's error, with one of the coordinator's reasons."""
        told = [(event, words) for event in incident.events if (words := self._reason(event))]
        if not told:
            return None
        groups = ", ".join(dict.fromkeys(event.group for event, _ in told if event.group)) or "a group"
        reasons = "; ".join(dict.fromkeys(words for _, words in told))
        return Finding(
            says=f"{groups} stays a classic group: {reasons}",
            confidence=0.95,
            evidence=tuple(event for event, _ in told),
        )

    def _reason(self, event: Event) -> str:
        said = f"{event.error or ''} {event.reason or ''}".lower()
        return next((words for words in self._WORDS if words in said), "")
