"""The assignors there are, by the name members vote for."""

from collections.abc import Mapping

from protocol.assign.base import Assignor
from protocol.assign.cooperative import COOPERATIVE_STICKY
from protocol.assign.optimal import OPTIMAL, OPTIMAL_COOPERATIVE
from protocol.assign.range import RangeAssignor
from protocol.assign.round_robin import RoundRobinAssignor
from protocol.assign.sticky import FAIR, STICKY, STICKY_FIRST

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
