"""The assignors there are, by the name members vote for."""

from collections.abc import Mapping

from protocol.assign.base import Assignor
from protocol.assign.range import RangeAssignor
from protocol.assign.round_robin import RoundRobinAssignor

ASSIGNORS: Mapping[str, Assignor] = {
    "range": RangeAssignor(),
    "roundrobin": RoundRobinAssignor(),
}
