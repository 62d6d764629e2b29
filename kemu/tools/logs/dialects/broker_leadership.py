"""Leaders and ISRs as brokers state them: ``kafka.cluster.Partition``, fetchers, start and stop of a broker."""

import re

from kemu.tools.logs.wordings import values
from kemu.tools.logs.wordings.wordings import Dialect, Fields, table
from kemu.tools.logs.wrappers.wrappers import Opened


def _isr_change(fields: Fields, _: Opened) -> None:
    """ISRs are lists of broker ids; ``[t,1]`` is ``t-1``."""
    for name in ("from_", "to"):
        fields[name] = values.numbers(str(fields.get(name, "")))
    _partition(fields, _)


def _partition(fields: Fields, _: Opened) -> None:
    names = values.partitions(str(fields.get("partition", "")))
    if names:
        fields["partition"] = names[0]


def _fetch_error(fields: Fields, _: Opened) -> None:
    if "error" in fields:
        fields["error"] = str(fields["error"]).rpartition(".")[2].removesuffix("Exception")


def _append_error(fields: Fields, _: Opened) -> None:
    if "error" in fields:
        fields["error"] = str(fields["error"]).rpartition(".")[2]


_IDS = "[\\d, \\[\\]]*\\d\\]?"

DIALECT = Dialect(
    "broker-leadership",
    "broker",
    prefixes=(
        re.compile(r"\[Partition (?P<partition>\S+) broker=(?P<broker>\d+)\]"),
        re.compile(r"\[(?:Kafka Server |KafkaServer id=|BrokerServer id=)(?P<broker>\d+)\]"),
        re.compile(
            r"\[(?:ReplicaManager broker=|Replica Manager on Broker |ReplicaFetcherManager on broker )(?P<broker>\d+)\]"
        ),
        re.compile(r"\[ReplicaFetcher replicaId=(?P<broker>\d+)"),
    ),
    rows=table(
        r"""
isr-shrunk 0.9..0.10.2 read=isr_change | Partition <partition> on broker <broker>: Shrinking ISR for partition <_> from
    <from_:[\d, \[\]]*\d\]?> to <to:[\d, \[\]]*\d\]?>
isr-expanded 0.9..0.10.2 read=isr_change | Partition <partition> on broker <broker>: Expanding ISR for partition <_>
    from <from_:[\d, \[\]]*\d\]?> to <to:[\d, \[\]]*\d\]?>
isr-shrunk 2.2.. read=isr_change | Shrinking ISR from <from_:[\d, \[\]]*\d\]?> to <to:[\d, \[\]]*\d\]?>. Leader: (
isr-shrunk 0.11..2.1 read=isr_change | Shrinking ISR from <from_:[\d, \[\]]*\d\]?> to <to:[\d, \[\]]*\d\]?>
isr-expanded 0.11..2.7 read=isr_change | Expanding ISR from <from_:[\d, \[\]]*\d\]?> to <to:[\d, \[\]]*\d\]?>
isr-updated ..2.7 | ISR updated to [<isr>] and zkVersion updated to [<epoch>]
isr-updated 2.8.. | ISR updated to <isr>{ (under-min-isr)} and version updated to {\[|}<epoch>
- | Cached zkVersion
leader-starts 0.11..2.3 | <partition> starts at Leader Epoch <epoch> from offset <_:\d+>. Previous Leader Epoch was:
    <previous>
fetcher-removed | Removed fetcher for partitions {Set(|List(|HashSet(|ArrayBuffer(|}<partitions:[^\s()]+(?:,
    \S+)*?>{)|}
follower-starts ..2.3 read=partition | Added fetcher for partitions {List|ArrayBuffer}({\[|}<partition:\S+>, initOffset
    <_:-?\d+> to broker BrokerEndPoint({id=|}<leader:\d+>
follower-starts 2.4.. read=partition | Added fetcher to broker {BrokerEndPoint({id=|}|}<leader:\d+><_:[^\n]*?> for
    partitions Map(<partition:\S+> -> {\(|}<_>
fetch-refused 0.11.. read=fetch_error | Error for partition <partition> at offset
    <_:-?\d+>{⏎<error:[\w.]+(?:Exception|Error)>}
fetch-refused 0.9..0.10.2 read=fetch_error | Error for partition [<partition:[^\]]+>] to broker
    <_:\d+>:<error:[\w.]+(?:Exception|Error)>
fetch-refused 2.1.. | Received <error:[A-Z_]+> from the leader for partition <partition>
append-refused read=append_error | Error processing append operation on partition
    <partition>{⏎<error:[\w.]+(?:Exception|Error)>}
controlled-shutdown | Starting controlled shutdown
controlled-shutdown | Controlled shutdown {succeeded|request returned successfully}
controlled-shutdown | Shutting down broker <broker>
controlled-shutdown | Retrying controlled shutdown
controlled-shutdown | Proceeding to do an unclean shutdown
controlled-shutdown | Beginning controlled shutdown
broker-stops | Terminating process due to signal <_:\w+>
broker-stops | ] shutting down
broker-stops | {, |] |}shut down completed
broker-started 'logger=(?:KafkaServer|KafkaRaftServer|BrokerServer)' | {, |] |}started
broker-started | {Transitioning from STARTING to|Transition from STARTING to} STARTED
controlled-shutdown | Transition from STARTED to SHUTTING_DOWN
- | Added fetcher for partitions
""",
        isr_change=_isr_change,
        partition=_partition,
        fetch_error=_fetch_error,
        append_error=_append_error,
    ),
)
