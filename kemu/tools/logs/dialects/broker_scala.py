"""The Scala group coordinator: ``kafka.coordinator.GroupCoordinator`` (0.9, 0.10), then ``kafka.coordinator.group``."""

import re

from kemu.tools.logs.wordings.reasons import read_reason, several_members
from kemu.tools.logs.wordings.wordings import Dialect, table

DIALECT = Dialect(
    "broker-scala",
    "broker",
    marks=re.compile(r"(?<!apache\.)kafka\.coordinator\.|\[GroupCoordinator \d+\]|\[GroupMetadataManager brokerId="),
    prefixes=(
        re.compile(r"\[GroupCoordinator (?P<broker>\d+)\]"),
        re.compile(r"\[Group ?Metadata ?Manager (?:on Broker |brokerId=)(?P<broker>\d+)\]"),
    ),
    rows=table(
        r"""
rebalance-begins 2.1..3.9 read=read_reason | Preparing to rebalance group <group> in state <_> with old generation
    <old_generation>… (<offsets_partition>)… (reason: <reason:[^\n]*>)
rebalance-begins 0.11..2.0 'cause=not stated' | Preparing to rebalance group <group> with old generation
    <old_generation> (<offsets_partition>)
rebalance-begins 0.9..0.10.2 'cause=not stated' | Preparing to {restabilize|rebalance} group <group> with old
    generation <old_generation>
rebalance-completes 2.8..3.9 | Stabilized group <group> generation <generation>… (<offsets_partition>)… with <members>
    members
rebalance-completes 0.11..2.7 | Stabilized group <group> generation <generation>… (<offsets_partition>)
rebalance-completes 0.9..0.10.2 | Stabilized group <group> generation <generation>
assignment-received 3.0..3.9 | Assignment received from leader <leader:\S+> for group <group> for generation
    <generation>.… The group has <members> members,… <static> of which are static
assignment-received 2.8..2.8 | Assignment received from leader for group <group> for generation <generation>.… The
    group has <members> members,… <static> of which are static
assignment-received 0.9..2.7 | Assignment received from leader for group <group> for generation <generation>
member-id-issued 3.0..3.9 | {Dynamic |Static |}{M|m}ember with unknown member id joins group <group> in <state> state.
    Created a new member id <member> and request{|ing} the member to rejoin with this id
member-id-issued 3.0..3.9 | {Dynamic |}{M|m}ember with unknown member id joins group <group> in {state |}<state>{
    state|}. Created a new member id <member> {for this member and add|and added the member} to the group
member-joins 3.0..3.9 | Static member with groupInstanceId=<instance> and unknown member id joins group <group> in
    <state> state. Created a new member id <member> for this member and add{ed|} to the group
member-joins 3.0..3.9 | Pending dynamic member with id <member> joins group <group> in <state> state.… Adding to the
    group now
static-replaced 3.0..3.9 | Static member with groupInstanceId=<instance> and unknown member id joins group <group> in
    <state> state. Replacing previously mapped member <previous:[^\n]*?> with this groupInstanceId
static-replaced 2.3..2.8 | Static member <instance>{ of group <group>|} with unknown member id rejoins, assigning new
    member id <member>, while old member{ id|} <previous:[^\n]*?> will be removed
- 2.3.. | Static member {which |}joins during <_> stage <_>will not trigger <_>rebalance
member-fenced 3.0..3.9 | Request memberId=<member> for static member with groupInstanceId=<instance> is fenced by
    current memberId=<_> during operation <_:\S+>
member-fenced 2.3..2.8 | given member.id <member> is identified as a known static member <instance>,{ }but not matching
    the expected member.id <_:\S+>
member-leaves 3.0..3.9 | Member MemberMetadata(memberId=<member>, groupInstanceId=<instance>, clientId=<client>,
    clientHost=<_>{, sessionTimeoutMs=<session_ms>, rebalanceTimeoutMs=<rebalance_ms>,
    supportedProtocols=List(<assignors:[\w, -]*>)}) has left group <group> through explicit `LeaveGroup`{ request}{;
    client reason: <reason>}
member-leaves 2.4..2.8 | Member[group.instance.id <instance>, member.id <member>] in group <group> has left, removing
    it from the group
member-joins 2.4..2.8 | Adding new static member <instance> to group <group> with member id <member:\S+?>.
member-leaves 2.2..2.8 state=pending | Pending member <member> is leaving group <group:\S+?>.
member-leaves 2.2..3.9 | Pending member with memberId=<member> has left group <group> through explicit `LeaveGroup`
member-leaves 0.11..2.3 | Member <member> in group{ }<group> has left, removing it from the group
member-expires 2.3..3.9 state=pending | Pending member <member> in group{ }<group> has been removed after session
    timeout expiration
member-expires 0.11..3.9 | Member <member> in group{ }<group> has failed, removing it from the group
member-expires 2.3..3.9 'reason=rebalance timeout' read=several_members | Group <group> remove{d|} dynamic members who
    haven't joined: <member>
member-expires 2.8..3.9 'reason=sync timeout' read=several_members | Group <group> removed members who haven't sent
    their sync request{s|}: <member>
group-empty 0.10.1..3.9 | Group <group> with generation <generation> is now empty… (<offsets_partition>)
group-dead 0.10.1..3.9 | Group <group> transitioned to Dead in generation <generation>
group-dead 0.9..0.10.0 | Group <group> generation <generation> is dead and removed
group-loaded 0.9..3.9 | Loading group metadata for <group> with generation <generation>
group-unloaded 0.9..3.9 | Unloading group metadata for <group> with generation <generation>
group-loaded 0.9..3.9 | {Finished loading|Scheduling loading of|Loading|Started loading} offsets and group metadata
    from <offsets_partition>{ in <ms> milliseconds}{ for epoch <epoch>}
group-unloaded 0.9..3.9 | {Scheduling unloading of|Unloading|Finished unloading|Started unloading} {offsets and group
    metadata {from|for} |}<offsets_partition>
group-loaded 2.8..3.9 | Elected as the group coordinator for partition <_:\d+> in epoch {Some(|}<epoch>
group-unloaded 2.8..3.9 | Resigned as the group coordinator for partition <_:\d+> in epoch {Some(|}<epoch>
coordinator-stops logger=GroupCoordinator | Shutting down
coordinator-stops logger=GroupCoordinator | Shutdown complete
- logger=GroupCoordinator | Starting up
- logger=GroupCoordinator | Startup complete
- | Removed <n> expired offsets in <ms> milliseconds
- | Removed <n> offsets associated with deleted partitions
- | Member id <member> was not found in <group> during heartbeat {completion check|expiration}
- | Member <member> has already been removed from the group
client-internal | Received notification of heartbeat expiration for member <member> after group <group> had already
    been unloaded or deleted
- | Loaded member MemberMetadata(
client-internal 2.3.. | Static member <_>groupInstanceId of group <group:\S+> loaded with member id <member> at
    generation <generation>
client-internal | Loaded group metadata GroupMetadata(groupId=<group>, generation=<_:\d+>
client-internal | Loaded member <member> in group <group> with generation <generation>
client-internal | Group leader [member.id: <member>, group.instance.id: <instance>] failed to join before rebalance
    timeout
client-internal | BrokerId <broker> is no longer a coordinator for the group <group:\S+?>.
client-internal | Received unexpected notification of sync expiration
client-internal | The following offsets of the group <group> were deleted
client-internal | {Not loading|Not removing|Already loading} offsets and group metadata {from|for} <offsets_partition>
client-internal | Attempted to load offsets and group metadata from <offsets_partition>
client-internal | Loaded offsets and group metadata from <offsets_partition> with buffer larger
client-internal | Error loading offsets from <offsets_partition>
client-internal | Unknown message key with version <_> while loading offsets and group metadata from <offsets_partition>
client-internal | Failed to invoke {join|sync} callback for <member> due to <error>
client-internal | group: <group> with leader: <_> has received offset commits from consumers as well as
client-internal | Attempt to add rejoining member <member> of group <group> in unexpected group state <state>
client-internal | Setting empty assignments for members <_> of <group> for generation <generation>
client-internal | Sending empty assignment to member <member> of <group> for generation <generation>
client-internal | Failed to {persist|write empty} metadata for group <group>: <error>
client-internal | Group <group> is dead, skipping rebalance stage
client-internal | Group <group> could not complete rebalance because no members rejoined
client-internal | The following groups were deleted: <_>
client-internal | Appending metadata message for group <group> generation <generation> failed due to <error>
client-internal | Group <group> has moved away from <_:\d+>
""",
        several_members=several_members,
        read_reason=read_reason,
    ),
)
