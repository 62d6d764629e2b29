"""A partition without service waits for something, and each such wait has one rule that bounds it.

``emulator.watching.interruptions`` gives each moment without service its cause. This checker judges the causes that no
other rule bounds. Its clock runs while the partition's owner, the coordinator and the ISR are up and undisturbed; an
answer that a fault took times out first.

========================================  ===========================================================================
cause                                     bounded by
========================================  ===========================================================================
a leader's session, an election           ``duties: no-leader``, ``duties: session-kept``
a member's session                        ``group-progress: member-kept``
a member to join, the join phase          ``group-progress: join-unfinished``
the assignment of the group's leader      ``group-progress: sync-unfinished``
members to find the coordinator           ``group-progress: not-rejoined``
an owner to take its assignment           here: ``max.poll.interval.ms``
a position                                here: ``request.timeout.ms``
the first records                         ``group-progress: records-unread``
a task to restore                         ``tasks: not-restored``
min ISR                                   ``duties: out-of-isr``
========================================  ===========================================================================

``SLACK_US`` is added to each.
"""

from attrs import frozen

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import (
    FaultApplied,
    FaultEnded,
    Healed,
    HostDown,
    HostPaused,
    HostResumed,
    HostStarted,
    RunStarted,
    Seen,
)
from kemu.emulator.watching.interruptions import Cause, Service
from kemu.protocol.names import TopicPartition, broker_host, host_of
from kemu.protocol.notes.groups import CommitAnswered, GroupBecame, MemberBecame, RecordsAppended

SLACK_US = 15_000_000
"""For everything that no setting bounds: connections, backoffs, messages."""
LOOKS_US = 2_000_000


@frozen
class Timeouts:
    """The longest of each setting in force, in microseconds."""

    poll_us: int = 300_000_000
    request_us: int = 30_000_000


class BoundedWaits(Checker):
    """See the module."""

    name = "interruptions"

    def __init__(self, timeouts: Timeouts | None = None) -> None:
        super().__init__()
        self._timeouts = Timeouts() if timeouts is None else timeouts
        self._next_us = 0
        self._started_us: dict[str, int] = {}
        self._told: dict[tuple[object, ...], None] = {}
        self.on = {
            **dict.fromkeys((RunStarted, GroupBecame, MemberBecame, CommitAnswered, RecordsAppended), self._look),
            **dict.fromkeys((FaultApplied, FaultEnded, Healed, HostDown, HostPaused, HostResumed), self._look),
            HostStarted: self._started,
        }

    def finish(self, at_us: int) -> None:
        """The last look."""
        if self.panel.now is not None:
            self._look_at_all(self.panel.now._replace(at_us=at_us))

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        self._started_us[fact.host] = seen.at_us
        self._look(seen, fact)

    def _look(self, seen: Seen, fact: object) -> None:
        if seen.at_us >= self._next_us:
            self._look_at_all(seen)
            self._next_us = seen.at_us + LOOKS_US

    def _look_at_all(self, seen: Seen) -> None:
        for key in self.panel.interruptions.services:
            watched = self.panel.groups.get(key[0])
            if watched is not None and watched.state == "Stable" and watched.coordinator:
                self._look_at_service(seen, key, host_of(watched.coordinator))

    def _look_at_service(self, seen: Seen, key: Service, coordinator: str) -> None:
        """Report a wait that lasts longer than it may, once."""
        (name, at), (cause, actor) = key, self.panel.interruptions.now(key)
        needs: list[str] = [host_of(actor)]
        match cause:
            case Cause.TAKE_OVER:
                bound_us = self._timeouts.poll_us + SLACK_US
            case Cause.POSITION:
                bound_us = self._timeouts.request_us + SLACK_US
                needs += [coordinator, *self._isr(at)]
            case _:
                return
        hosts = tuple(dict.fromkeys(needs))
        undisturbed_us = self.panel.disturbances.undisturbed_since_us(hosts)
        if undisturbed_us is None:
            return
        if undisturbed_us not in [self._started_us.get(host) for host in hosts]:
            undisturbed_us += self._timeouts.request_us  # what a fault took times out
        since_us = self.panel.interruptions.since_us(key)
        told = (key, cause, actor, since_us)
        if seen.at_us <= max(since_us, undisturbed_us) + bound_us or told in self._told:
            return
        self._told[told] = None
        what = f"{at[0]}-{at[1]} in {name}"
        lasted = f"since {since_us / 1e6:g} s, for more than {bound_us / 1e6:g} s without a fault"
        self.violation(seen, "unexplained", (what,), f"{what} waits for {cause} ({actor}) {lasted}", liveness=True)

    def _isr(self, at: TopicPartition) -> list[str]:
        state = self.panel.states.get(at)
        if state is not None:
            return [broker_host(broker) for broker in state.isr]
        leader = self.panel.interruptions.leaders.get(at)
        return [leader.last[1]] if leader is not None and leader.last is not None and leader.last[1] else []
