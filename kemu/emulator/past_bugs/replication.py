"""Past bugs of brokers that replicate: what followers cut, who is in sync, which requests count.

Source: the issues named, in Apache Kafka's history; KIP-101, KIP-279, KIP-320, KIP-380, KIP-497.
"""

from kemu.actors.broker.rules import StopEpoch
from kemu.emulator.past_bugs.bug import Past, PastBug, Where
from kemu.protocol.replication import IsrPath, Truncation

_OLD_ISRS = {"isr_path": IsrPath.STORE}
_BY_QUESTION = {"truncation": Truncation.MULTI_ROUND}
"""Before 2.7 followers asked for the ends of epochs before they fetched."""

REPLICATION = (
    PastBug(
        issue="KAFKA-1211",
        rule="truncate-to-watermark",
        where=Where.REPLICATION,
        fixed_in="0.11.0",
        summary="A returning follower cuts its log to its late high watermark; elected then, it lacks acked records.",
        story=(
            "A follower learns of the high watermark one fetch late. When its process came back it cut its log to the"
            " watermark it knew, records among them that were committed and acknowledged, trusting the leader to give"
            " them back. If the leader died before it did, the follower was elected without them."
        ),
        was="a replica that becomes a follower cuts its log to its own high watermark",
        today="it asks the leader where its last leader epoch ended and cuts there (KIP-101)",
        past=Past(replica={"truncation": Truncation.HIGH_WATERMARK}),
        caught_by="replicas",
        kind="committed-lost",
    ),
    PastBug(
        issue="KAFKA-6361",
        rule="truncate-once",
        where=Where.REPLICATION,
        fixed_in="2.0.0",
        summary="The leader answers about an older epoch than asked; the follower cuts by offset, keeping a foreign"
        " tail.",
        story=(
            "After quick changes of leaders a follower may ask about a leader epoch that the leader never had. The"
            " leader answered with the end of an epoch it did have, the follower cut to that offset, and kept records"
            " of its own epoch below it: two logs that differ at the same offsets."
        ),
        was="a follower cuts to the offset that it is told, whatever epoch that is the end of",
        today="the answer says which epoch it is about, and the follower asks on until both know it (KIP-279)",
        past=Past(replica={"truncation": Truncation.SINGLE_ROUND}),
        caught_by="replicas",
        kind="logs-differ",
    ),
    PastBug(
        issue="KAFKA-7164",
        rule="skip-same-leader",
        where=Where.REPLICATION,
        fixed_in="2.0.1",
        summary="A follower that missed an epoch follows the same leader again without truncating.",
        story=(
            "A follower that did not hear of one leader epoch was told of the next, in which the leader was the one it"
            " followed before. It took that for no news and went on fetching, although the leader had cut its own log"
            " meanwhile."
        ),
        was="a new epoch of the same leader is no reason to truncate",
        today="every new epoch is",
        past=Past(replica={**_BY_QUESTION, "follows_same_leader_again": False}),
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
            "Leader epochs were noted with the first record that was appended in them. A leader that was elected and"
            " deposed without any left no trace of its epoch, and what it told followers about the end of theirs was"
            " about something else."
        ),
        was="an epoch begins with the first record appended in it",
        today="a leader notes its epoch and where it starts when it is elected",
        past=Past(replica={**_BY_QUESTION, "leader_writes_epoch": False}),
        caught_by="replicas",
        kind="logs-differ",
    ),
    PastBug(
        issue="KAFKA-7128",
        rule="join-by-watermark",
        where=Where.REPLICATION,
        fixed_in="2.0.1",
        summary="A replica joins the ISR of a new leader by its high watermark alone, without records that were"
        " committed.",
        story=(
            "A new leader knows a high watermark that lags behind what was committed. A replica outside of the ISR that"
            " had reached that watermark was let in, without the records that its predecessor had acknowledged above"
            " it; the next election could make it the leader."
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
        summary="An answer to an epoch question of an older epoch stops the fetching of a partition for good.",
        story=(
            "A follower asked where its epoch ended, and heard of a new epoch while the answer was on its way. The"
            " answer said that the epoch of the question was over; the follower took that for its present one and"
            " stopped fetching the partition. Nothing made it begin again."
        ),
        was="an answer counts whatever leader epoch it was asked in",
        today="answers to questions of an older epoch are ignored",
        past=Past(replica={**_BY_QUESTION, "checks_answer_epoch": False}),
        caught_by="duties",
        kind="fetch-stalled",
    ),
    PastBug(
        issue="KAFKA-13141",
        rule="count-diverging-fetches",
        where=Where.REPLICATION,
        fixed_in="2.7.2",
        summary="A follower with another log counts as one that has everything, and joins the ISR.",
        story=(
            "Since 2.7 a leader tells a follower in the answer to its fetch that their logs part ways, and where"
            " (KIP-595). The offset of that fetch is the end of a log that the follower is about to cut; the leader"
            " took it for what the follower has, let it into the ISR, and let records count as committed that it had"
            " not copied."
        ),
        was="the offset of any fetch that is answered moves what the leader knows of its follower",
        today="that of a fetch which is told to cut its log does not",
        past=Past(replica={"failed_fetches_count": True}),
        caught_by="replicas",
        kind="isr-without-committed",
    ),
    PastBug(
        issue="KAFKA-1188",
        rule="stale-leadership",
        where=Where.REPLICATION,
        fixed_in="0.8.2",
        summary="Late requests of a controller that is deposed are obeyed.",
        story=(
            "Requests of a controller may still be on their way when another one has been elected and has spoken."
            " Brokers carried them out in the order in which they came, and followed or led what they should not."
        ),
        was="a LeaderAndIsr is obeyed whatever its controller epoch and leader epoch",
        today="one of an older controller is refused, and one without a newer leader epoch changes nothing",
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
            "Leaders wrote ISRs to ZooKeeper on condition of the version they knew. A write that happened and whose"
            " answer was lost with the connection left the leader with an old version: each later write was refused"
            ' ("Cached zkVersion not equal to that in zookeeper"), until somebody restarted the broker.'
        ),
        was="a refused write is given up and the version stays as it is",
        today="it is compared with what is there: if that is what we wrote, it was ours",
        past=Past(replica={**_OLD_ISRS, "reads_back": False}),
        caught_by="duties",
        kind="out-of-isr",
    ),
    PastBug(
        issue="KAFKA-1367",
        rule="silent-isr-changes",
        where=Where.REPLICATION,
        fixed_in="0.9.0",
        summary="Leaders change ISRs in the store and nobody hears of it: brokers tell clients of ISRs that are long"
        " over.",
        story=(
            "A leader changed its ISR in ZooKeeper and told nobody. Controller and brokers went on with the ISR of the"
            " last election: metadata showed replicas in sync that were not, for as long as nothing else happened."
        ),
        was="an ISR change stays between the leader and the store",
        today="leaders tell the controller, which tells all brokers",
        past=Past(replica={**_OLD_ISRS, "announces_isr_changes": False}),
        caught_by="duties",
        kind="stale-metadata",
    ),
    PastBug(
        issue="KAFKA-7152",
        rule="shrink-idle",
        where=Where.REPLICATION,
        fixed_in="2.1.0",
        summary="A follower that has everything leaves the ISR because it asked too long ago.",
        story=(
            "Followers were measured by when they last asked, also where nothing was produced. A follower that had the"
            " whole log and was slow to ask again was taken out of the ISR, for nothing that it lacked, and let in"
            " again at its next fetch."
        ),
        was="a follower that did not catch up within replica.lag.time.max.ms goes, whatever it has",
        today="one whose log ends where the leader's does stays",
        past=Past(replica={"shrinks_idle": True}),
        caught_by="isr",
        kind="shrunk-in-sync",
    ),
    PastBug(
        issue="KAFKA-13972",
        rule="stop-by-higher-epoch",
        where=Where.REPLICATION,
        fixed_in="3.4.1",
        summary="A replica of a reassignment that was cancelled stays where it should not be.",
        story=(
            "StopReplica says in which leader epoch a replica is to stop, so that a late one does no harm. A"
            " reassignment that is cancelled has no new leader epoch for the replica that it was adding: the broker"
            " took the request for an old one, refused it, and kept a replica that nobody knew of."
        ),
        was="StopReplica needs a higher leader epoch than the replica has",
        today="an equal one will do",
        past=Past(replica={"stop_epoch": StopEpoch.HIGHER}),
        caught_by="duties",
        kind="replica-kept",
    ),
)
