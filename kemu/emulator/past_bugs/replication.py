"""Past bugs of replicated brokers: truncation, the ISR, and obsolete requests.

Source: the issues named, in Apache Kafka's history; KIP-101, KIP-279, KIP-320, KIP-380, KIP-497.
"""

from kemu.actors.broker.rules import StopEpoch
from kemu.emulator.past_bugs.bug import Past, PastBug, Where
from kemu.protocol.replication import IsrPath, Truncation

_OLD_ISRS = {"isr_path": IsrPath.STORE}
_BY_EPOCH_REQUEST = {"truncation": Truncation.MULTI_ROUND}
"""Before 2.7 followers asked for the ends of epochs before they fetched."""

REPLICATION = (
    PastBug(
        issue="KAFKA-1211",
        rule="truncate-to-watermark",
        where=Where.REPLICATION,
        fixed_in="0.11.0",
        summary="A restarted follower truncates to its old high watermark; elected, it lacks acknowledged records.",
        story=(
            "A follower learns of the high watermark one fetch late. When its process restarted it truncated its log"
            " to the watermark it knew, and so lost records that were committed and acknowledged, until the leader"
            " sent them again. If the leader died before that, the follower was elected without them."
        ),
        was="a replica that becomes a follower truncates its log to its own high watermark",
        today="it asks the leader for the end of its last leader epoch and truncates there (KIP-101)",
        past=Past(replica={"truncation": Truncation.HIGH_WATERMARK}),
        caught_by="replicas",
        kind="committed-lost",
    ),
    PastBug(
        issue="KAFKA-6361",
        rule="truncate-once",
        where=Where.REPLICATION,
        fixed_in="2.0.0",
        summary=(
            "The leader answers for an older epoch than requested; the follower truncates there and keeps different"
            " records."
        ),
        story=(
            "After quick leader changes a follower may ask for the end of a leader epoch that the leader never had."
            " The leader answered with the end of an epoch it did have. The follower truncated to that offset, and"
            " kept records of its own epoch below it: two logs that differ at the same offsets."
        ),
        was="a follower truncates to the offset in the answer, whatever epoch ends there",
        today="the answer names its epoch, and the follower asks again until both logs have the epoch (KIP-279)",
        past=Past(replica={"truncation": Truncation.SINGLE_ROUND}),
        caught_by="replicas",
        kind="logs-differ",
    ),
    PastBug(
        issue="KAFKA-7164",
        rule="skip-same-leader",
        where=Where.REPLICATION,
        fixed_in="2.0.1",
        summary="A follower that missed a leader epoch continues with the same leader without truncating.",
        story=(
            "A follower missed one leader epoch and learned of the next, in which it had the same leader as before."
            " The follower saw no change and continued to fetch, although the leader had truncated its log meanwhile."
        ),
        was="a new epoch of the same leader is no reason to truncate",
        today="every new epoch is a reason to truncate",
        past=Past(replica={**_BY_EPOCH_REQUEST, "follows_same_leader_again": False}),
        caught_by="replicas",
        kind="logs-differ",
    ),
    PastBug(
        issue="KAFKA-7415",
        rule="epoch-from-records",
        where=Where.REPLICATION,
        fixed_in="2.0.1",
        summary="A leader that appended nothing does not know its own epoch, and answers followers wrongly.",
        story=(
            "A leader noted its epoch with the first record that it appended. A leader that was elected and deposed"
            " without an append left no trace of its epoch. The answers of that leader about the end of a follower's"
            " epoch were then about another epoch."
        ),
        was="an epoch begins with the first record appended in it",
        today="a leader notes its epoch and start offset when it is elected",
        past=Past(replica={**_BY_EPOCH_REQUEST, "leader_writes_epoch": False}),
        caught_by="replicas",
        kind="logs-differ",
    ),
    PastBug(
        issue="KAFKA-7128",
        rule="join-by-watermark",
        where=Where.REPLICATION,
        fixed_in="2.0.1",
        summary="A replica joins the ISR of a new leader by its high watermark alone, without some committed records.",
        story=(
            "The high watermark of a new leader lags behind the committed records. A replica outside the ISR that had"
            " reached that watermark was added to the ISR, without the records above it that the former leader had"
            " acknowledged. The next election could make the replica the leader."
        ),
        was="a replica joins the ISR when it has reached the leader's high watermark",
        today="it must also have reached the start of the leader's epoch",
        past=Past(replica={"joins_at_epoch_start": False, "joins_after_fetch_in_epoch": False}),
        caught_by="replicas",
        kind="isr-without-committed",
    ),
    PastBug(
        issue="KAFKA-7786",
        rule="old-epoch-answers",
        where=Where.REPLICATION,
        fixed_in="2.1.1",
        summary="A late answer about an older epoch stops the fetching of a partition for good.",
        story=(
            "A follower asked for the end of its epoch, and learned of a new epoch before the answer came. The answer"
            " said that the requested epoch was over. The follower took that for its new epoch and stopped fetching"
            " the partition. Nothing made it start again."
        ),
        was="an answer counts whatever the leader epoch of its request",
        today="answers to requests of an older epoch are ignored",
        past=Past(replica={**_BY_EPOCH_REQUEST, "checks_answer_epoch": False}),
        caught_by="duties",
        kind="fetch-stalled",
    ),
    PastBug(
        issue="KAFKA-13141",
        rule="count-diverging-fetches",
        where=Where.REPLICATION,
        fixed_in="2.7.2",
        summary="A follower with a diverging log counts as caught up, and joins the ISR.",
        story=(
            "Since 2.7 a leader reports in its fetch answer that the follower's log diverges, and where (KIP-595)."
            " The offset of that fetch is the end of a log that the follower is about to truncate. The leader took the"
            " offset for the follower's progress, added the follower to its ISR, and committed records that the"
            " follower had not replicated."
        ),
        was="the offset of any answered fetch counts as the follower's progress",
        today="the offset of a fetch with a diverging log does not count",
        past=Past(replica={"failed_fetches_count": True}),
        caught_by="replicas",
        kind="isr-without-committed",
    ),
    PastBug(
        issue="KAFKA-1188",
        rule="stale-leadership",
        where=Where.REPLICATION,
        fixed_in="0.8.2",
        summary="Brokers obey late requests of a deposed controller.",
        story=(
            "Requests of a controller may still be under way when another controller has been elected and has sent"
            " requests. Brokers carried them out in the order of arrival, and followed or led the wrong partitions."
        ),
        was="a LeaderAndIsr is obeyed whatever its controller epoch and leader epoch",
        today="a request of an older controller is refused, and one without a newer leader epoch changes nothing",
        past=Past(replica={"checks_controller_epoch": False, "checks_leader_epoch": False}),
        caught_by="leadership",
        kind="old-epoch-obeyed",
    ),
    PastBug(
        issue="KAFKA-1382",
        rule="no-read-back",
        where=Where.REPLICATION,
        fixed_in="0.8.2",
        summary="A lost answer to an ISR write leaves the leader with an old version: its ISR never changes again.",
        story=(
            "Leaders wrote ISRs to ZooKeeper under the condition of the known version. If a write succeeded and its"
            " answer was lost with the connection, the leader kept the old version. Each later write was refused"
            ' ("Cached zkVersion not equal to that in zookeeper") until an operator restarted the broker.'
        ),
        was="a refused write is given up and the version stays",
        today="the leader reads the node: if it has the written ISR, the write succeeded",
        past=Past(replica={**_OLD_ISRS, "reads_back": False}),
        caught_by="duties",
        kind="out-of-isr",
    ),
    PastBug(
        issue="KAFKA-1367",
        rule="silent-isr-changes",
        where=Where.REPLICATION,
        fixed_in="0.9.0",
        summary="Leaders change ISRs in the store without telling anyone: brokers send clients outdated ISRs.",
        story=(
            "A leader changed its ISR in ZooKeeper and told no broker. The controller and the brokers kept the ISR of"
            " the last election: metadata showed replicas in sync that were not, until another event changed the"
            " partition."
        ),
        was="only the leader and the store know of an ISR change",
        today="leaders inform the controller, which informs all brokers",
        past=Past(replica={**_OLD_ISRS, "announces_isr_changes": False}),
        caught_by="duties",
        kind="stale-metadata",
    ),
    PastBug(
        issue="KAFKA-7152",
        rule="shrink-idle",
        where=Where.REPLICATION,
        fixed_in="2.1.0",
        summary="A follower that has every record leaves the ISR because its last fetch is too long ago.",
        story=(
            "The lag of a follower was the time since its last fetch, even without new records. A follower that had"
            " the whole log and fetched late was removed from the ISR although it lacked no record, and was added"
            " again at its next fetch."
        ),
        was="a follower that did not catch up within replica.lag.time.max.ms is removed, whatever it has",
        today="a follower whose log ends at the leader's end stays",
        past=Past(replica={"shrinks_idle": True}),
        caught_by="isr",
        kind="shrunk-in-sync",
    ),
    PastBug(
        issue="KAFKA-13972",
        rule="stop-by-higher-epoch",
        where=Where.REPLICATION,
        fixed_in="3.4.1",
        summary="A replica of a cancelled reassignment stays on its broker.",
        story=(
            "StopReplica carries a leader epoch, so that a late request does no harm. A cancelled reassignment has no"
            " new leader epoch for the replica that it was adding. The broker took the request for an old one, refused"
            " it, and kept a replica that the cluster did not know."
        ),
        was="StopReplica needs a higher leader epoch than the replica has",
        today="an equal epoch suffices",
        past=Past(replica={"stop_epoch": StopEpoch.HIGHER}),
        caught_by="duties",
        kind="replica-kept",
    ),
)
