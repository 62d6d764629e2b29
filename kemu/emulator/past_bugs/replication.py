"""Past bugs of replicated brokers: truncation, the ISR, and obsolete requests.

Source: the issues named, in Apache Kafka's history; KIP-101, KIP-279, KIP-320, KIP-380, KIP-497.
"""

from kemu.actors.broker.rules import StopEpoch
from kemu.emulator.past_bugs.bug import Past, PastBug, Where
from kemu.protocol.replication import IsrPath, Truncation

_OLD_ISRS = {"isr_path": IsrPath.STORE}
_BY_EPOCH_REQUEST = {"truncation": Truncation.MULTI_ROUND}
"""The truncation rule before Kafka 2.7: followers asked for the ends of epochs before the first fetch."""

REPLICATION = (
    PastBug(
        issue="KAFKA-1211",
        rule="truncate-to-watermark",
        where=Where.REPLICATION,
        fixed_in="0.11.0",
        summary=(
            "A restarted follower truncates to its old high watermark, and may be elected without acknowledged records."
        ),
        story=(
            "A follower learns of the high watermark one fetch late. A restarted follower truncated its log to the"
            " high watermark that it knew. So the follower lost acknowledged records until the leader sent them again."
            " If the leader failed first, the follower was elected without these records."
        ),
        was="a replica that becomes a follower truncates its log to its own high watermark",
        today=(
            "a new follower asks the leader for the end of its last leader epoch and truncates to this offset (KIP-101)"
        ),
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
            "The leader answers for an older epoch than requested; the follower truncates to this end and keeps"
            " different records."
        ),
        story=(
            "After quick leader changes a follower may ask for the end of a leader epoch that the leader never had."
            " The leader answered with the end of an older epoch. The follower truncated to this offset, and kept"
            " records of its own epoch below the offset. So two logs differed at the same offsets."
        ),
        was="a follower truncates to the offset in the answer without comparing the epochs",
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
            "A follower missed one leader epoch and learned of the next epoch, in which the leader was the same"
            " broker as before. The follower saw no change and continued to fetch, although the leader had truncated"
            " its log in the missed epoch."
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
            "A leader recorded its epoch with the first record that it appended. A leader that was elected and"
            " deposed without an append did not record its epoch. So the leader's later answers about the end of a"
            " follower's epoch described another epoch."
        ),
        was="a leader records its epoch with the first record appended in the epoch",
        today="a leader records its epoch and start offset when it is elected",
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
            " reached the high watermark joined the ISR, without later records that the former leader had"
            " acknowledged. The next election could make this replica the leader."
        ),
        was="a replica joins the ISR when it has reached the leader's high watermark",
        today="the replica must also have reached the start of the leader's epoch",
        past=Past(replica={"joins_at_epoch_start": False, "joins_after_fetch_in_epoch": False}),
        caught_by="replicas",
        kind="isr-without-committed",
    ),
    PastBug(
        issue="KAFKA-7786",
        rule="old-epoch-answers",
        where=Where.REPLICATION,
        fixed_in="2.1.1",
        summary="A late answer about an older epoch stops the fetching of a partition permanently.",
        story=(
            "A follower asked for the end of its epoch, and learned of a new epoch before the answer arrived. The"
            " answer said that the requested epoch was over. The follower applied the answer to its new epoch, and"
            " stopped fetching the partition. Nothing restarted the fetching."
        ),
        was="a follower accepts an answer to a request of any leader epoch",
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
        summary="A leader treats a follower with a diverging log as caught up, and adds it to the ISR.",
        story=(
            "Since 2.7 a leader's fetch answer reports the offset at which the follower's log diverges (KIP-595). The"
            " offset of such a fetch is the end of a log that the follower is about to truncate. The leader mistook"
            " this offset for the follower's progress, and added the follower to the ISR. So the leader committed"
            " records that the follower had not replicated."
        ),
        was="the offset of any answered fetch is the follower's progress",
        today="the offset of a fetch with a diverging log is ignored",
        past=Past(replica={"failed_fetches_count": True}),
        caught_by="replicas",
        kind="isr-without-committed",
    ),
    PastBug(
        issue="KAFKA-1188",
        rule="stale-leadership",
        where=Where.REPLICATION,
        fixed_in="0.8.2",
        summary="Brokers execute late requests of a deposed controller.",
        story=(
            "Requests of a controller may still be in flight after another controller was elected and sent requests."
            " Brokers executed all requests in the order of arrival, and followed or led the wrong partitions."
        ),
        was="a broker executes a LeaderAndIsr with any controller epoch and leader epoch",
        today="a broker refuses a request of an older controller, and ignores a request without a newer leader epoch",
        past=Past(replica={"checks_controller_epoch": False, "checks_leader_epoch": False}),
        caught_by="leadership",
        kind="old-epoch-obeyed",
    ),
    PastBug(
        issue="KAFKA-1382",
        rule="no-read-back",
        where=Where.REPLICATION,
        fixed_in="0.8.2",
        summary=(
            "After a lost answer to an ISR write, the leader keeps an old version and can never change its ISR again."
        ),
        story=(
            "Leaders wrote ISRs to ZooKeeper under the condition of the known version. If a write succeeded and its"
            " answer was lost with the connection, the leader kept the old version. Each later write was refused"
            ' ("Cached zkVersion not equal to that in zookeeper") until an operator restarted the broker.'
        ),
        was="after a refused write, the leader gives up and keeps its version",
        today="after a refused write, the leader reads the node; a node with the written ISR means success",
        past=Past(replica={**_OLD_ISRS, "reads_back": False}),
        caught_by="duties",
        kind="out-of-isr",
    ),
    PastBug(
        issue="KAFKA-1367",
        rule="silent-isr-changes",
        where=Where.REPLICATION,
        fixed_in="0.9.0",
        summary=(
            "Leaders change ISRs in the store without informing the controller, so brokers send clients outdated ISRs."
        ),
        story=(
            "A leader changed its ISR in ZooKeeper and informed no broker. The controller and the brokers kept the"
            " ISR of the last election. So metadata listed replicas as in sync that were not, until another event"
            " changed the partition."
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
        summary=(
            "A leader removes a follower with every record from the ISR because the follower's last fetch is too long"
            " ago."
        ),
        story=(
            "The lag of a follower was the time since its last fetch, even without new records. So the leader removed"
            " a follower that had the whole log and fetched late, and added the follower again at its next fetch."
        ),
        was="a follower that did not catch up within replica.lag.time.max.ms is removed, even with all records",
        today="a follower whose log ends at the leader's end stays in the ISR",
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
            "StopReplica carries a leader epoch, so that brokers can ignore a late request. The cancellation of a"
            " reassignment gives the adding replica no new leader epoch. The broker mistook the StopReplica for an old"
            " request, refused it, and kept a replica that the cluster did not know."
        ),
        was="StopReplica needs a higher leader epoch than the replica has",
        today="an equal leader epoch suffices",
        past=Past(replica={"stop_epoch": StopEpoch.HIGHER}),
        caught_by="duties",
        kind="replica-kept",
    ),
)
