"""segmentio/kafka-go: ``reader.go`` and ``consumergroup.go``. Member ids hold spaces and brackets."""

import re

from kemu.tools.logs.wordings.wordings import Dialect, Fields, table
from kemu.tools.logs.wrappers.wrappers import Opened

_MEMBER = "<member:\\S+(?: \\([^)]*\\)\\S*)?>"


def _assigned(fields: Fields, _: Opened) -> None:
    """``member/topic/[0 1]``."""
    topic, _slash, numbers = str(fields.pop("topics")).rpartition("/")
    topic = topic.rpartition("/")[2]
    fields["partitions"] = tuple(f"{topic}-{number}" for number in re.findall(r"\d+", numbers))
    fields["_topic"] = topic


def _claims(fields: Fields, _: Opened) -> None:
    """``map[{t 0}:12 {t 1}:3]``; up to 0.3 ``map[0:12]``, without the topic."""
    text = str(fields.pop("topics"))
    pairs = re.findall(r"\{(\S+) (\d+)\}:", text)
    if pairs:
        fields["partitions"] = tuple(f"{topic}-{number}" for topic, number in pairs)
    elif text.startswith("map["):
        fields["_numbers"] = tuple(int(number) for number in re.findall(r"\b(\d{1,9}):", text))


def _fetched(fields: Fields, _: Opened) -> None:
    fields["_topic"] = fields.pop("topics")
    fields["partitions"] = (f"{fields['_topic']}-{fields.pop('replica')}",)


DIALECT = Dialect(
    "kafka-go",
    "kafka-go",
    rows=table(
        r"""
join-failed | Problem getting partitions during startup, <error>, Returning and setting up nextGeneration
client-internal | Problem getting partitions while checking for changes, <error>
client-internal | Failed to fetch offsets for group <group:[^:]+>: <error>
join-sent | entering loop for consumer group, <group>
join-answered | {J|j}oined group <group:\S+> as member <member:\S+(?: \([^)]*\)\S*)?> in generation <generation>
leader-of-group | selected as leader for group, <group>
assignment-computing | using '<assignor>' balancer to assign group, <group>
client-internal | found member: <_>
client-internal | found topic/partition: <_>
assignment-computed inferred=group read=assigned | assigned member/topic/partitions <topics>
join-answered | joinGroup succeeded for response, <group:\S+?>. generationID=<generation>, memberID=<member:\S+(?:
    \([^)]*\)\S*)?>
sync-sent inferred=group | Syncing <n> assignments for generation <generation> as member <member:\S+(?: \([^)]*\)\S*)?>
assignment-synced | sync{ group|Group} finished for group, <group>
assignment-synced 'partitions=()' | received empty assignments for group, <group:\S+> as member <member:\S+(?:
    \([^)]*\)\S*)?> for generation <generation>
partitions-assigned inferred=group read=claims | subscribed to {topics and |}partitions: <topics:map\[.*>
fetch-begins read=fetched | initializing kafka reader for partition <replica> of <topics:\S+> starting at offset
session-begins | started heartbeat for group, <group:\S+>{ [<_>]}
session-ends | stopped heartbeat for group{,} <group>
client-internal | {started|stopped} commit for group{,} <group>
client-internal | {started|stopped} partition watcher for group, <group:[^,\s]+>
commit-ok | committed offsets for group <group:\S+?>:{⏎topic: <_:[^\n]*(?:\n\s+(?:topic|partition)[^\n]*)*>}
rejoin-requested | <reason:Partition changes found>, rebalancing group: <group:\S+?>.
member-leaves | Leaving group <group:\S+>, member <member:\S+(?: \([^)]*\)\S*)?>
join-failed | Failed to join group <group:\S+?>: <error>
sync-failed | Failed to sync group <group:\S+?>: <error>
coordinator-lost | Unable to establish connection to consumer group coordinator for group <group:\S+?>: <reason>
client-internal | leave group failed for group, <group:\S+>, and member
rebalance-seen | rebalancing consumer group, <group>
coordinator-found | found coordinator at <node:\S+> for group{,} <group>
heartbeat-refused | heartbeat failed {for group, <group:\S+?>|}: <error>
join-failed | joinGroup failed: <error>
""",
        assigned=_assigned,
        claims=_claims,
        fetched=_fetched,
    ),
)
