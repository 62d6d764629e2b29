"""brod 2 to 4, also below kaffe and Broadway: ``brod_group_coordinator.erl``, whose records have two lines or more."""

import re

from kemu.tools.logs.wordings.wordings import Dialect, Fields, table
from kemu.tools.logs.wrappers.wrappers import Opened

_PARTITIONS = re.compile(r"^\s*([\w.-]+):\s*$|partition=(\d+)", re.MULTILINE)


def _assigned(fields: Fields, opened: Opened) -> None:
    """Lines ``  topic:`` and ``    partition=0 begin_offset=..``."""
    topic, names = "", []
    for named, number in _PARTITIONS.findall(str(fields.pop("topics", ""))):
        if named:
            topic = named
        elif topic:
            names.append(f"{topic}-{number}")
    fields["partitions"] = tuple(names)
    _no_generation(fields, opened)


def _no_generation(fields: Fields, _: Opened) -> None:
    if not str(fields.get("generation", "")).lstrip("-").isdecimal():
        fields.pop("generation", None)


DIALECT = Dialect(
    "brod",
    "brod",
    rows=table(
        r"""
partitions-assigned read=assigned | Group member (<group:[^,\s]+>,coor=<_>,cb=<_>,generation=<generation:\w+>):
    ⏎assignments received:<topics:(?:[^\n]*\n?)*>
leader-of-group | Group member (<group:[^,\s]+>,coor=<_>,cb=<_>,generation=<generation:\w+>):⏎elected=true
join-answered | Group member (<group:[^,\s]+>,coor=<_>,cb=<_>,generation=<generation:\w+>):⏎elected=false
rejoin-requested | Group member (<group:[^,\s]+>,coor=<_>,cb=<_>,generation=<generation:\w+>):⏎re-joining
    group, reason:<reason>
join-failed | Group member (<group:[^,\s]+>,coor=<_>,cb=<_>,generation=<generation:\w+>):⏎failed to join
    group⏎reason: <error>
member-leaves | Group member (<group:[^,\s]+>,coor=<_>,cb=<_>,generation=<generation:\w+>):⏎Leaving
    group, reason: <reason>
member-leaves | Group member (<group:[^,\s]+>,coor=<_>,cb=<_>,generation=<generation:\w+>):⏎leaving
    group, reason<reason>
member-fenced | Group member (<group:[^,\s]+>,coor=<_>,cb=<_>,generation=<generation:\w+>):⏎Static member was fenced
client-internal | Group member (<group:[^,\s]+>,coor=<_>,cb=<_>,generation=<generation:\w+>):
""",
        read=_no_generation,
        assigned=_assigned,
    ),
)
