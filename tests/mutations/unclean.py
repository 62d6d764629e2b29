"""What a replica loses after it was elected, and no fault took from it."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(  # a leader that nobody follows in sync throws half of its own log away: after an unclean election, too
        "kemu/actors/broker/control_requests.py",
        "        self._fetchers.forget(replica.at)\n        if replica.lead(",
        (
            "        self._fetchers.forget(replica.at)\n"
            "        if state.isr == (manager.node_id,) and replica.log.end_offset > replica.log.high_watermark // 2:\n"
            '            manager.truncate(replica, replica.log.high_watermark // 2, "leader-epoch")\n'
            "        if replica.lead("
        ),
        "replicas/committed-lost",
        ("unclean_alone.toml:1",),
    ),
    Mutation(  # a new leader cuts its log to its own high watermark, while another broker's disk has lost records
        "kemu/actors/broker/control_requests.py",
        "        self._fetchers.forget(replica.at)\n        if replica.lead(",
        (
            "        self._fetchers.forget(replica.at)\n"
            '        manager.truncate(replica, replica.log.high_watermark, "leader-epoch")\n'
            "        if replica.lead("
        ),
        "replicas/committed-lost",
        ("leaders_disk_loses_its_end.toml:1",),
    ),
]
