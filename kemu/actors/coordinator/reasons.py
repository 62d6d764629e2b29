"""Reasons of rebalances, in the words that Kafka's coordinators log after "Preparing to rebalance group".

The two coordinators differ in their wording. Since 3.2 the reason includes the client's own reason (KIP-800).

Source: ``GroupCoordinator.scala`` 2.4.1, 2.8.2, 3.4.1; ``GroupMetadataManager`` 3.9.
"""

from collections.abc import Sequence

from kemu.actors.coordinator.rules import GroupRules
from kemu.actors.coordinator.state import GroupState
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import MemberId

_NO_REASON = "not provided"


class Reasons:
    """The reasons in the words of one coordinator."""

    def __init__(self, rules: GroupRules) -> None:
        self._rules = rules

    def new_member(self, member_id: MemberId, instance_id: str | None, client_reason: str | None) -> str:
        """The reason after a member entered."""
        named = f"{member_id} with group instance id {self._optional(instance_id)}"
        return f"Adding new member {named}{self._client_reason(client_reason)}"

    def leader_rejoins(self, member_id: MemberId, state: GroupState, client_reason: str | None) -> str:
        """The reason after the leader asked for a new assignment."""
        return f"Leader {member_id} re-joining group during {state.value}{self._client_reason(client_reason)}"

    def new_metadata(self, member_id: MemberId, state: GroupState, client_reason: str | None) -> str:
        """The reason after a member changed its subscription, owned partitions or protocols."""
        return f"Updating metadata for member {member_id} during {state.value}{self._client_reason(client_reason)}"

    def replaced_while_completing(self, member_id: MemberId, instance_id: str, client_reason: str | None) -> str:
        """The reason after a static member returned under another id while the leader computes the assignment."""
        named = f"static member {member_id} with instance id {instance_id}"
        return f"Updating metadata for {named}{self._client_reason(client_reason)}"

    def replacement_changes_vote(self, member_id: MemberId, instance_id: str, client_reason: str | None) -> str:
        """The reason after a static member returned and changed the vote for a protocol."""
        return (
            f"Group's selectedProtocol will change because static member {member_id} with instance id {instance_id} "
            f"joined with change of protocol{self._client_reason(client_reason)}"
        )

    def session_over(self, member_id: MemberId) -> str:
        """The reason after a member's session expired."""
        return f"removing member {member_id} on heartbeat expiration{self._stop}"

    def left(self, member_ids: Sequence[MemberId], client_reason: str | None) -> str:
        """The reason after members left. The Scala coordinator names each member, the Java coordinator the whole
        request.
        """
        if self._rules.leave_acts_per_member:
            return f"Removing member {member_ids[0]} on LeaveGroup{self._client_reason(client_reason)}"
        return f"explicit `LeaveGroup` request for ({', '.join(member_ids)}) members."

    def did_not_sync(self, member_ids: Sequence[MemberId]) -> str:
        """The reason after members did not sync in time (KAFKA-12890). Kafka lists the members in hash set order."""
        named = ", ".join(member_ids)
        listed = f"Set({named})" if self._rules.scala_words else f"[{named}]"
        return f"Removing {listed} on pending sync request expiration"

    def not_stored(self, error: ErrorCode, leader: MemberId) -> str:
        """The reason after the assignment could not be written."""
        return f"Error {error.name} when storing group assignment during SyncGroup (member: {leader}){self._stop}"

    def downgraded(self, group: str, *, left: bool) -> str:
        """The reason after the last member of the consumer protocol left the group (KIP-848), or was replaced.

        Source: ``GroupMetadataManager.convertToClassicGroup`` 4.0.2, 4.1.1, 4.2.1; ``classicGroupJoinToConsumerGroup``
        4.3.0.
        """
        why = "with stale assignment"
        if left:
            why = "for member leaving"
        elif not self._rules.consumer_groups.stale_target_rebalances_downgraded:
            why = "for static member replacement with different subscription"
        return f"Downgrade group {group} from consumer to classic {why}."

    def over_capacity(self, group: str, members: int, most: int) -> str:
        """The reason after ``group.max.size`` was lowered while another coordinator led (KIP-389)."""
        why = "Rebalancing in order to give a chance for consumers to commit offsets"
        if self._rules.scala_words:
            return f"Freshly-loaded group is over capacity ({most}). {why}"
        return f"Freshly-loaded group {group} (size {members}) is over capacity {most}. {why}"

    @property
    def _stop(self) -> str:
        return "" if self._rules.scala_words else "."

    def _optional(self, instance_id: str | None) -> str:
        if not self._rules.scala_words:
            return "null" if instance_id is None else instance_id
        return "None" if instance_id is None else f"Some({instance_id})"

    def _client_reason(self, client_reason: str | None) -> str:
        if not self._rules.tells_client_reasons:
            return ""
        missing = client_reason is None or (not client_reason and not self._rules.scala_words)
        return f"; client reason: {_NO_REASON if missing else client_reason}"
