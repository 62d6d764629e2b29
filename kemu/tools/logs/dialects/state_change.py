"""``state.change.logger``: what a controller sends and what a broker does with it."""

import re

from kemu.tools.logs.wordings.wordings import Dialect, table

DIALECT = Dialect(
    "state-change",
    "broker",
    prefixes=(re.compile(r"\[(?:Broker|Controller) (?:id=)?(?P<broker>\d+)"),),
    rows=table(
        r"""
leader-and-isr-sent 2.6.. | Sending LeaderAndIsr request to broker <node:\d+> with <leaders> become-leader and
    <followers> become-follower partitions
leader-and-isr-sent 0.11.. | Sending become-{leader|follower} LeaderAndIsr request <_> to broker <node:\d+> for
    partition <partition>
update-metadata-sent | Sending UpdateMetadata request to broker{s|}
update-metadata-sent | Sending UpdateMetadata request <_> to broker{s|}
leader-and-isr-received 2.6.. | Handling LeaderAndIsr request correlationId <_:\d+> from controller <_:\d+>
leader-and-isr-received | Received LeaderAndIsr request <_> for partition <partition>
leader-and-isr-received | Received LeaderAndIsr request
leader-starts 2.4.. | Leader <partition:\S+> {with topic id <_:\S+> |}starts at leader epoch <epoch> from offset
    <_:\d+> with <_:[^\n]*?>ISR [<isr>]<_:[^\n]*?>{p|P}revious leader {epoch|Some(<_:-?\d+>) and previous leader epoch}
    was <previous>
leader-starts 2.4..2.6 | Leader <partition:\S+> {with topic id <_:\S+> |}starts at leader epoch <epoch> from offset
    <_:\d+> with high watermark <_:\d+> ISR <isr:[\d,]+> <_:[^\n]*?>{p|P}revious leader epoch was <previous>
leader-starts 2.4.. | Leader <partition:\S+> {with topic id <_:\S+> |}starts at leader epoch <epoch> from offset
follower-starts 2.6.. | Follower <partition:\S+> starts at leader epoch <epoch> from offset
follower-starts | Follower <partition:\S+> <_:[^\n]*?>starts at leader epoch <epoch>
partition-state | Changed partition <partition> {state |}from <from_> to <to>
leader-elected | Elected leader <leader:\d+> for {Offline|Online|New} partition <partition>
- | Stopped fetchers as part of
- | Finished LeaderAndIsr request in <ms>ms
- | Transitioning <n> partition(s) to local {leaders|followers}
- | {Started|Stopped} fetchers as part of become-follower
"""
    ),
)
