"""Consumer and share groups of the Java group coordinator (KIP-848, KIP-932)."""

import re

from kemu.tools.logs.wordings.wordings import Dialect, Fields, table
from kemu.tools.logs.wrappers.wrappers import Opened


def _kind_of_group(fields: Fields, opened: Opened) -> None:
    """Share groups are in the coordinator since 3.9 (KIP-932), streams groups since 4.0 (KIP-1071)."""
    if "share group" in opened.text:
        fields["_releases"] = "3.9.."
    elif "streams group" in opened.text:
        fields["_releases"] = "4.0.."


DIALECT = Dialect(
    "broker-java-kip848",
    "broker",
    marks=re.compile(r"org\.apache\.kafka\.coordinator\.group|\[GroupCoordinator id=\d+ topic="),
    prefixes=(
        re.compile(r"\[GroupCoordinator id=(?P<broker>\d+)"),
        re.compile(r"\[Group(?:Id)?[ =](?P<group>[^\]]*)\]"),
    ),
    rows=table(
        r"""
target-computed 3.6.. | Computed a new target assignment for epoch <generation> with '<assignor>' assignor in <ms>ms:
    <assignment>
target-computed 4.0.. | Computed a new target assignment for epoch <generation> with '<assignor>' assignor in <ms>ms
member-reconciled 3.8.. | Member <member> new assignment state: epoch=<generation>, previousEpoch=<previous>,
    state=<state>, assignedPartitions=\[<partitions>\]{ and revokedPartitions=\[<revoked>\]}
member-reconciled 3.6..3.7 logger=GroupMetadataManager | Member <member> transitioned from <_> to <_>
group-epoch-bumped 3.6.. | Bumped {group|streams group} epoch to <generation>{ with metadata hash <_:-?\d+>}
static-replaced 3.9.. | Static member with instance id <instance> re-joins the {consumer|share|streams} group{ using
    the <protocol> protocol}. Created a new member <member> to replace the existing member <previous:[^\n]*?>{.}
member-joins 3.9.. | Static member <member> with instance id <instance> joins the {consumer|share|streams} group{ using
    the <protocol> protocol}
member-id-issued 3.9.. | Dynamic member with unknown member id joins the {consumer|share|streams} group. Created a new
    member id <member> and requesting the member to rejoin with this id
member-joins 3.9.. | Member <member> joins the {consumer|share|streams} group using the <protocol> protocol
member-joins 3.6..3.8 | Member <member> joins the consumer group
member-joins 3.9.. | Member <member> joins the {share|streams} group
member-leaves 3.8.. | Static {M|m}ember <member> with instance id <instance> {temporarily |}left the
    {consumer|share|streams} group
member-leaves 3.6.. | Member <member> left the {consumer|share|streams} group
member-expires 3.6.. | Member <member> fenced from the group because <reason:(?:its|the member) session
    expired[^\n]*?>{.}
member-expires 3.7.. | Member <member> fenced from the group because <reason:it failed to transition[^\n]*>
member-expires 3.8.. | Member <member> fenced from the group because <reason:the member failed to transition[^\n]*>
member-fenced 3.8.. | Member <member> fenced from the group because <reason>
member-fenced 3.8.. | Static member <member> with instance id <instance> {is fenced by existing member|cannot join the
    group because the instance id is {is |}owned by member} <_:\S+>
protocol-converted 4.0.. | Converted the {classic group to a consumer group|consumer group to a classic group}
client-internal | Cannot {upgrade|downgrade} {classic|consumer} group <group> to {consumer|classic} group because
    <reason>
client-internal | Member <member> updated its subscribed {topics|regex} to: <_>
client-internal | Computed new subscription metadata: <_>
client-internal | Updated the subscription metadata
group-loaded 3.6.. | Loaded {consumer|share|streams} group <group> with <members> members
group-unloaded 3.6.. | Unloaded group metadata for group epoch <generation>
group-dead | Removed {consumer|share|streams|classic} group <group>
""",
        read=_kind_of_group,
    ),
)
