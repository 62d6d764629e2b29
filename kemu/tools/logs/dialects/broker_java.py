"""Classic groups of the Java group coordinator: ``org.apache.kafka.coordinator.group``, 3.7 (opt-in) and later."""

import re

from kemu.tools.logs.wordings.reasons import read_reason
from kemu.tools.logs.wordings.wordings import Dialect, table

DIALECT = Dialect(
    "broker-java-classic",
    "broker",
    marks=re.compile(r"org\.apache\.kafka\.coordinator\.group|\[GroupCoordinator id=\d+ topic="),
    prefixes=(
        re.compile(r"\[GroupCoordinator id=(?P<broker>\d+)"),
        re.compile(r"\[Group(?:Id)?[ =](?P<group>[^\]]*)\]"),
    ),
    rows=table(
        r"""
rebalance-begins 3.7.. read=read_reason | Preparing to rebalance group <group> in state <_> with old generation
    <old_generation>… (reason: <reason:[^\n]*>){.}
rebalance-completes 3.7.. | Stabilized group <group> generation <generation> with <members> members
member-leaves 3.7.. | {Static |Dynamic |Pending |}{M|m}ember <member>{ with instance id <instance>} has left group{
    <group>} through explicit `LeaveGroup` request;… client reason: <reason>
group-empty 3.7.. | Group <group> with generation <generation> is now empty.
group-loaded 3.7.. | Loaded classic group <group> with <members> members
group-unloaded 3.7.. | Unloading group metadata for generation <generation>
group-loaded 3.7.. | {Finished|Scheduling} loading of metadata from <offsets_partition> with epoch <epoch>{ in <ms>ms}
group-unloaded 3.7.. | {Finished unloading|Scheduling unloading of|Started unloading} metadata for <offsets_partition>
    with epoch <epoch>
client-internal 3.7.. | Failed to load metadata from <offsets_partition> with epoch <epoch> due to <error>
- logger=GroupCoordinatorService | {Starting up|Startup complete}.
coordinator-stops logger=GroupCoordinatorService | {Shutting down|Shutdown complete}.
""",
        read_reason=read_reason,
    ),
)
