"""The figures that logs of brokers and clients state (a part of the metrics).

Logs state states of groups and owners of partitions. They state no record, position or commit, so a trace of
``kemu import-log`` has few figures. A figure that logs do not state is None, and never 0.

* The coordinator's log states the rebalances.
* The members' logs state moved partitions, if each member that a coordinator or a leader names has a log.
"""

from attrs import evolve

from kemu.emulator.facts import Handler, Seen
from kemu.emulator.metrics.figures import Figures
from kemu.protocol.notes.groups import AssignmentReceived, GroupBecame, JoinPhaseCompleted, MemberAdded


class StatedByLogs:
    """An observer of the facts of logs that tells which figures the facts state."""

    def __init__(self) -> None:
        self._has_states = False
        self._named: dict[str, None] = {}
        """Member ids that a coordinator or a leader named."""
        self._have_logs: dict[str, None] = {}
        """Member ids whose own log states an assignment."""
        self._completed = False
        self._on: dict[type, Handler] = {
            GroupBecame: self._became,
            MemberAdded: self._added,
            JoinPhaseCompleted: self._join_completed,
            AssignmentReceived: self._received,
        }

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        """The handlers of facts of a type (``facts.handlers_of``)."""
        handler = self._on.get(kind)
        return () if handler is None else (handler,)

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        for handler in self.handlers_of(type(seen.fact)):
            handler(seen, seen.fact)

    @property
    def judged(self) -> bool:
        """Whether the facts that the checkers of logs need are stated: generations and assignments."""
        return self._completed and bool(self._have_logs)

    @property
    def owners_known(self) -> bool:
        """Whether each named member has a log, so that a partition without an owner in the logs has none."""
        return bool(self._named) and self._named.keys() <= self._have_logs.keys()

    def only(self, figures: Figures) -> Figures:
        """The figures that the facts state; the others are None or empty."""
        known = {"rebalances_in_all": self._has_states, "moved": self._has_states and self.owners_known}
        values = {name: value if known.get(name) else None for name, value in figures.values.items()}
        return evolve(figures, values=values, downtime_us={}, downtime=(), service={})

    # --- facts -------------------------------------------------------------------------------------------------

    def _became(self, seen: Seen, fact: GroupBecame) -> None:
        self._has_states = True

    def _added(self, seen: Seen, fact: MemberAdded) -> None:
        self._named[fact.member_id] = None

    def _join_completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        self._completed = True
        self._named.update(dict.fromkeys(fact.members))

    def _received(self, seen: Seen, fact: AssignmentReceived) -> None:
        self._have_logs[fact.member_id] = None
