"""Consumer and share groups of the Java group coordinator (KIP-848, KIP-932)."""

import re

from kemu.tools.logs.wordings.wordings import Dialect, Fields, table
from kemu.tools.logs.wrappers.wrappers import Opened


def _kind_of_group(fields: Fields, opened: Opened) -> None:
    """The first release with the group: share groups 3.9 (KIP-932), streams groups 4.1 (KIP-1071).

    Source: ``GroupMetadataManager`` of 3.9.1, 4.0.1 and 4.1.1.
    """
    if "share group" in opened.text:
        fields["_releases"] = "3.9.."
    elif "streams group" in opened.text or "Streams member" in opened.text:
        fields["_releases"] = "4.1.."


DIALECT = Dialect(
    "broker-java-kip848",
    "broker",
    marks=re.compile(r"org\.apache\.kafka\.coordinator\.group|\[GroupCoordinator id=\d+ topic="),
    prefixes=(
        re.compile(r"\[GroupCoordinator id=(?P<broker>\d+)"),
        re.compile(r"\[Group(?:Id)?[ =](?P<group>[^\]]*)\]"),
        re.compile(r"\]\[MemberId (?P<member>[^\]]*)\]"),
    ),
    rows=table(
        r"""
target-computed 3.6.. | Computed a new target assignment for epoch <generation> with '<assignor>' assignor in <ms>ms:
    <assignment>
target-computed 4.0.. | Computed a new target assignment for epoch <generation> with '<assignor>' assignor in <ms>ms
member-reconciled 4.3.. | Member <member> new assignment state: epoch=<generation>, previousEpoch=<previous>,
    state=<state>, assignedPartitions=\[<partitions:[^\]]*@\d+>\]{ and revokedPartitions=\[<revoked>\]}
member-reconciled 3.8.. | Member <member> new assignment state: epoch=<generation>, previousEpoch=<previous>,
    state=<state>, assignedPartitions=\[<partitions>\]{ and revokedPartitions=\[<revoked>\]}
member-reconciled 3.6..3.7 logger=GroupMetadataManager | Member <member> transitioned from <_> to <_>
member-reconciled 4.1.. | Member's new assignment state: epoch=<generation>, previousEpoch=<previous>, state=<state>,
    assignedTasks=
group-epoch-bumped 4.1.. | Bumped {group|streams group} epoch to <generation> with metadata hash <_:-?\d+>
group-epoch-bumped 3.6..4.0 | Bumped group epoch to <generation>
static-replaced 3.9.. | Static member with instance id <instance> re-joins the {consumer|share|streams} group{ using
    the <protocol> protocol}. Created a new member <member> to replace the existing member <previous:[^\n]*?>{.}
member-joins 3.9.. | Static member <member> with instance id <instance> joins the {consumer|share|streams} group{ using
    the <protocol> protocol}
member-id-issued 3.9.. | Dynamic member with unknown member id joins the {consumer|share|streams} group. Created a new
    member id <member> and requesting the member to rejoin with this id
member-joins 3.9.. | Member <member> joins the {consumer|share|streams} group using the <protocol> protocol
member-joins 3.6..3.8 | Member <member> joins the consumer group
member-joins 3.9.. | Member <member> joins the {share|streams} group
member-joins 4.1.. | Member joins the streams group
member-leaves 3.8.. | Static {M|m}ember <member> with instance id <instance> {temporarily |}left the
    {consumer|share|streams} group
member-leaves 3.6.. | Member <member> left the {consumer|share|streams} group
member-expires 3.6.. | {Streams m|M}ember <member> fenced from the group because <reason:(?:its|the member) session
    e[^\n]*?>{.}
member-expires 3.7.. | {Streams m|M}ember <member> fenced from the group because <reason:it failed(?: [^\n]*[^\n.])?>{.}
member-expires 3.8.. | Member <member> fenced from the group because <reason:the member failed
    to [^\n]*[^\n.]>{.}
member-fenced 3.8.. | Member <member> fenced from the group because <reason:[^\n]*[^.\n]>.
member-fenced 3.8.. | Static member <member> with instance id <instance> is fenced by existing member <_:\S+>
member-fenced 3.8.. error=UNRELEASED_INSTANCE_ID | Static member <member> with instance id <instance> cannot join the
    group because the instance id is {is |}owned by member <_:\S+>
protocol-converted 4.0.. | Converted the {empty |}{classic|consumer} group to a {consumer|classic} group
protocol-converted 4.2.. | Converted the empty {classic|streams} group to a {streams|classic} group
client-internal | Cannot {upgrade|downgrade} {the |}{classic|consumer} group <group>{ to {consumer|classic} group}{
    because|:} <reason>
client-internal | Member <member> updated its subscribed topics to: <topics>
client-internal | Member <member> updated its subscribed regex to: <_>
client-internal | Computed new subscription metadata: <topics>
client-internal | Updated the subscription metadata
client-internal 4.0.. | Scanned <_:\d+> topics to refresh regular expressions
client-internal 4.0.. | Creating a simple consumer group via manual offset commit
client-internal 4.1.. | Computed new metadata hash: <_:-?\d+>
client-internal 4.1.. | Member{ <_>|} updated its member met{a|}data to
client-internal 4.1.. | Member {initialized the|joined with {stale|currently initialized}} topology
client-internal 4.1.. | Configuring the topology
client-internal 4.1.. | {Valid topic configuration found|Topic configuration failed for topology epoch}
client-internal 4.1.. | {Shutdown requested|Clearing shutdown requested} for the streams application
client-internal 4.2.. | Assignment configurations changed to
client-internal 4.2.. | {Skipping|Cannot compute} delayed target assignment: <reason>
client-internal 4.2.. | Group not found during initial rebalance
client-internal | Could{ not|n't} {fence|parse regular expression|update regular expression}
client-internal | Ignoring rebalance timeout for <member> because
client-internal | Loaded member <member> in {consumer|share|streams|classic} group <group:\S+?>.
client-internal 4.1.. | {Initializing topic <_> for|Existing deleting entries found in} share group <group>
client-internal 4.1.. | {Error|Received error while} deleting share group <group>
group-loaded 3.6.. | Loaded {consumer|share|streams} group <group> with <members> members
group-unloaded 3.6.. | Unloaded group metadata for group epoch <generation>
group-dead | Removed {consumer|share|streams|classic} group <group>
""",
        read=_kind_of_group,
    ),
)
