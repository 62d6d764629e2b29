"""Classic groups of the Java group coordinator: ``org.apache.kafka.coordinator.group``, 3.7 (opt-in) and later."""

import re

from kemu.tools.logs.wordings.reasons import read_reason, several_members
from kemu.tools.logs.wordings.wordings import Dialect, table

DIALECT = Dialect(
    "broker-java-classic",
    "broker",
    marks=re.compile(r"org\.apache\.kafka\.coordinator\.group|\[GroupCoordinator id=\d+ topic="),
    prefixes=(
        re.compile(r"\[GroupCoordinator id=(?P<broker>\d+)"),
        re.compile(r"\[Group(?:Id)?[ =](?P<group>[^\]]*)\]"),
    ),
    rows=table(
        r"""
rebalance-begins 3.7.. read=read_reason | Preparing to rebalance group <group> in state <_> with old generation
    <old_generation>… (reason: <reason:[^\n]*>){.}
rebalance-completes 3.7.. | Stabilized group <group> generation <generation>… with <members> members
member-leaves 3.7.. | {Static |Dynamic |Pending |}{M|m}ember <member>{ with instance id <instance>} has left group{
    <group>} through explicit `LeaveGroup` request;… client reason: <reason>
assignment-received 3.7.. | Assignment received from leader <leader:\S+> for group <group> for generation <generation>.…
    The group has <members> members,… <static> of which are static
member-id-issued 3.7.. | Dynamic {M|m}ember with unknown member id joins group <group> in <state> state.… Created a new
    member id <member> and requesting the member to rejoin with this id
member-id-issued 3.7.. | Dynamic {M|m}ember with unknown member id joins group <group> in {state |}<state>{ state|}.…
    Created a new member id <member> and added the member to the group
member-joins 3.7.. | Static member with groupInstanceId=<instance> and unknown member id joins group <group> in <state>
    state.… Created a new member id <member> for this member and added to the group
member-joins 3.7.. | Pending dynamic member with id <member> joins group <group> in <state> state.… Adding to the group
    now
static-replaced 3.7.. | Static member with groupInstanceId=<instance> and unknown member id joins group <group> in
    <state> state. Replacing previously mapped member <previous:[^\n]*?> with this groupInstanceId
member-fenced 3.7.. | Request memberId=<member> for static member with groupInstanceId=<instance> is fenced by
    {current|existing} memberId=<_> during operation <_:\S+>
member-expires 3.7.. state=pending | Pending member <member> in group{ }<group> has been removed after session timeout
    expiration
member-expires 3.7.. | Member <member> in group{ }<group> has failed, removing it from the group
member-expires 3.7.. "reason=rebalance timeout" read=several_members | Group <group> removed dynamic members who
    haven't joined: <member>
member-expires 3.7.. "reason=sync timeout" read=several_members | Group <group> removed members who haven't sent their
    sync request{s|}: <member>
client-internal 3.9.. | Group leader [memberId: <member>, groupInstanceId: <instance>] failed to join before the
    rebalance
    timeout{. Member <leader> was elected as the new leader}
client-internal | Cannot complete join phase of group <group>
- 3.7.. | Static member which joins during <_> stage and doesn't affect the selected protocol will not trigger a
    rebalance
- | Replaying offset commit with key
- | Committing offsets <_> for partition
group-empty 3.7.. | Group <group> with generation <generation> is now empty{.}
group-loaded 3.7.. | Loaded classic group <group> with <members> members
group-unloaded 3.7.. | Unloading group metadata for generation <generation>
group-loaded 3.7.. | {Finished|Scheduling} loading of metadata from <offsets_partition> with epoch <epoch>{ in <ms>ms}
group-unloaded 3.7.. | {Finished unloading|Scheduling unloading of|Started unloading} metadata for <offsets_partition>
    with epoch <epoch>
client-internal 3.7.. | Failed to load metadata from <offsets_partition> with epoch <epoch> due to <error>
client-internal 3.7.. | Ignored {loading|unloading} metadata {from|for} <offsets_partition> {since|in epoch}
client-internal 3.7.. | Failed to unload {metadata|coordinator} for <_> due to <error>
client-internal 3.7.. logger=CoordinatorRuntime | The coordinator <_> is {already|out of sync}
client-internal 3.7.. logger=CoordinatorRuntime | {Execution of|Writing records to|Replaying record} <_> failed due
    to{:|}
    <error>
client-internal 3.7.. | Received unexpected notification of sync expiration
client-internal 3.7.. | Failed to persist metadata for group <group> static member <member> with group instance id
    <instance> due to <error>. Reverting to old member id
client-internal 3.7.. | {Loaded|Removed|onUnloaded} group <_>with an unknown group type
client-internal 3.7.. | Group <group> is dead, skipping rebalance stage.
client-internal 3.7.. | Group <group> could not complete rebalance because no members rejoined.
client-internal 3.7.. | The following groups were deleted: <_>. A total of
client-internal 3.7.. | Setting empty assignments for members <_> of <group> for generation <generation>.
client-internal 3.7.. | Sending empty assignment to member <member> of <group> for generation <generation> with no
    errors
client-internal | Failed to parse Consumer Protocol <_>of group <group>. Consumer group coordinator is not aware
- 3.7.. logger=GroupCoordinatorShard | Generated <_:\d+> {tombstone |}records
- logger=GroupCoordinatorService | {Starting up|Startup complete}.
coordinator-stops logger=GroupCoordinatorService | {Shutting down|Shutdown complete}.
""",
        read_reason=read_reason,
        several_members=several_members,
    ),
)
