"""Controllers that do not see to dead brokers: nothing is wrong once every broker is back, so it is seen before."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(  # a dead broker's partitions are offline, and no leader is elected for them
        "kemu/actors/controller/brokers.py",
        "PartitionPhase.OFFLINE)\n        yield from self._machine.partitions.trigger_online()\n",
        "PartitionPhase.OFFLINE)\n",
        "duties/no-leader",
        ("broker-crash-and-return:1",),
    ),
    Mutation(  # no broker ever dies for the controller
        "kemu/actors/controller/brokers.py",
        "        dead = [broker for broker in known if broker not in now]\n",
        "        dead: list[int] = []\n",
        "duties/no-leader",
        ("unclean-election:1",),
    ),
    Mutation(  # a broker does not ask to be the controller when nobody is
        "kemu/actors/controller/controller.py",
        "self._reelect, True), WatchEventKind.NODE_DELETED)",
        "self._reelect, True), WatchEventKind.NODE_CREATED)",
        "duties/no-controller",
        ("controller-crash:1",),
    ),
    Mutation(  # the store never ends the session of a client that is silent
        "kemu/actors/store/store.py",
        "                self._end(self.sessions[int(number)], EXPIRED)\n",
        "                pass\n",
        "duties/session-kept",
        ("broker-crash-and-return:1",),
    ),
]
