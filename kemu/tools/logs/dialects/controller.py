"""Controllers: ``kafka.controller`` with ZooKeeper, the quorum controller of KRaft."""

import re

from kemu.tools.logs.wordings import values
from kemu.tools.logs.wordings.wordings import Dialect, Fields, table
from kemu.tools.logs.wrappers.wrappers import Opened


def _replicas(fields: Fields, _: Opened) -> None:
    """``[Topic=t,Partition=0,Replica=1]``: partition and replica."""
    text = str(fields.pop("topics", ""))
    found = re.findall(r"Topic=([^,]*),Partition=(\d+),Replica=(\d{1,10})", text)
    if found:
        fields["partitions"] = tuple(dict.fromkeys(f"{topic}-{number}" for topic, number, _ in found))
        if len({replica for _, _, replica in found}) == 1:
            fields["replica"] = int(found[0][2])
    else:
        fields["partitions"] = values.partitions(text)


DIALECT = Dialect(
    "controller-zk",
    "broker",
    prefixes=(
        re.compile(r"\[(?:Controller|Partition state machine on Controller) (?:id=)?(?P<broker>\d+)"),
        re.compile(r"\[PartitionStateMachine controllerId=(?P<broker>\d+)"),
    ),
    rows=table(
        r"""
topic-created | New topics: [Set(<topics:[^)]+>)]
topic-created | New topics: [HashSet(<topics:[^)]+>)]
topic-created | Replayed TopicRecord for {new |}topic <topics:[\w.-]+>
- | New partition creation callback for
partition-state 0.9..1.0 | Invoking state change to <to> for partitions <partitions>
partition-state 0.9..1.0 read=replicas | Invoking state change to <to> for replicas <topics:[^\n]*>
partition-state | Changed partition <partition> {state |}from <from_> to <to>
partition-state | Changed state of replica <replica> for partition <partition> from <from_> to <to>
leader-election-begins 0.9..2.3 | Starting preferred replica leader election for partitions <partitions>
leader-election-begins 2.4.. | Starting replica leader election (<reason:\w+>) for partitions <partitions:\S*>
leader-elected | Partition <partition> completed preferred replica leader election. New leader is <leader:\d+>
leader-election-failed | Partition <partition> failed to complete preferred replica leader election
leader-election-failed 1.1.. | Failed to elect leader for partition <partition> under strategy
leader-election-failed | Error completing {preferred replica|replica} leader election{ (<_:\w+>)} for partition
    <partition>
leader-elected | New leader and ISR for partition <partition> is
controller-elected | <broker:\d+> successfully elected as {the controller|leader}
controller-elected 3.0.. | Becoming {the |}active controller at {epoch |next epoch |}<epoch>
controller-elected | Broker <broker> starting become controller state transition
controller-resigned | Broker <broker> resigned as the controller
controller-resigned logger=KafkaController | Resigned
controller-resigned | Controller resigning, broker id <broker>
controller-resigned | ZK expired; shut down all controller components
leader-elected 3.0..3.4 | {UNCLEAN |}partition change for <partition:\S+> with topic ID <_:\S+>: <_:[^\n]*?>leader:
    <_:-?\d+> -> <leader:-?\d+>, leaderEpoch: <_:-?\d+> -> <epoch:-?\d+>
- | handleBrokerFenced: changing
controller-resigned 3.0.. | {Renouncing the leadership|Becoming inactive|Renouncing leadership}
controlled-shutdown 3.0.. | Unfenced broker <broker> has requested and been granted a controlled shutdown
controlled-shutdown 3.0.. | The request from broker <broker> to shut down {has been granted|can not yet be granted}
broker-stops | Broker failure callback for <_:\d+>
broker-stops 3.0.. | Fencing broker <broker> {at epoch <epoch> |}because its session has timed out
broker-started | New broker startup callback for <_:\d+>
broker-started 3.0.. | The request from broker <broker> to unfence has been granted
isr-updated | AlterPartition request from node <broker> for <partition> completed
""",
        replicas=_replicas,
    ),
)
