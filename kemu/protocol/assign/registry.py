"""The table of all assignors, by the name that members vote for."""

from collections.abc import Mapping

from kemu.protocol.assign.base import Assignor
from kemu.protocol.assign.cooperative import COOPERATIVE_STICKY, COOPERATIVE_STICKY_BALANCED
from kemu.protocol.assign.optimal import OPTIMAL, OPTIMAL_COOPERATIVE
from kemu.protocol.assign.range import RangeAssignor
from kemu.protocol.assign.round_robin import RoundRobinAssignor
from kemu.protocol.assign.sticky import FAIR, STICKY, STICKY_BALANCED, STICKY_FIRST

ASSIGNORS: Mapping[str, Assignor] = {
    "range": RangeAssignor(),
    "roundrobin": RoundRobinAssignor(),
    "sticky": STICKY,
    "sticky-balanced": STICKY_BALANCED,
    "sticky-first": STICKY_FIRST,
    "fair": FAIR,
    "cooperative-sticky": COOPERATIVE_STICKY,
    "cooperative-sticky-balanced": COOPERATIVE_STICKY_BALANCED,
    "optimal": OPTIMAL,
    "optimal-cooperative": OPTIMAL_COOPERATIVE,
}
