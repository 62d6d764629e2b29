"""The assignors there are, by the name members vote for."""

from collections.abc import Mapping

from kemu.protocol.assign.base import Assignor
from kemu.protocol.assign.cooperative import COOPERATIVE_STICKY
from kemu.protocol.assign.optimal import OPTIMAL, OPTIMAL_COOPERATIVE
from kemu.protocol.assign.range import RangeAssignor
from kemu.protocol.assign.round_robin import RoundRobinAssignor
from kemu.protocol.assign.sticky import FAIR, STICKY, STICKY_FIRST

ASSIGNORS: Mapping[str, Assignor] = {
    "range": RangeAssignor(),
    "roundrobin": RoundRobinAssignor(),
    "sticky": STICKY,
    "sticky-first": STICKY_FIRST,
    "fair": FAIR,
    "cooperative-sticky": COOPERATIVE_STICKY,
    "optimal": OPTIMAL,
    "optimal-cooperative": OPTIMAL_COOPERATIVE,
}
