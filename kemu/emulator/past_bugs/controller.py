"""Past bugs of controllers, of their requests, and of registrations after a restart.

Source: the issues named, in Apache Kafka's history; KIP-380.
"""

from kemu.emulator.past_bugs.bug import Past, PastBug, Where

CONTROLLER = (
    PastBug(
        issue="KAFKA-7235",
        rule="no-broker-epoch",
        where=Where.CONTROLLER,
        fixed_in="2.2.0",
        summary="A broker carries out requests sent to its former process, and the controller misses a quick restart.",
        story=(
            "A broker restarted before the controller looked at the registrations. The controller believed that the"
            " broker had never stopped, sent no requests, and so the broker hosted no partition. The new process also"
            " executed requests for the former process, such as stopping replicas for a shutdown."
        ),
        was="the controller knows a broker by its id; requests do not name the broker's process",
        today="each registration has an epoch, which requests carry; a new epoch means a restart",
        past=Past(
            replica={"checks_broker_epoch": False},
            controller={
                "notices_bounces": False,
                "checks_shutdown_epoch": False,
                "leader_and_isr_version": 1,
                "stop_replica_version": 0,
                "update_metadata_version": 4,
            },
        ),
        caught_by="duties",
        kind="order-not-obeyed",
    ),
    PastBug(
        issue="KAFKA-4443",
        rule="leadership-before-metadata",
        where=Where.CONTROLLER,
        fixed_in="0.10.2",
        summary=(
            "A broker gets the request to follow a leader that the broker does not know to be alive, and does not"
            " follow."
        ),
        story=(
            "A new controller sent LeaderAndIsr before it sent the live brokers. A broker that did not know its"
            " leader to be alive did not follow the leader, and got no second request."
        ),
        was="a new controller sends LeaderAndIsr first and UpdateMetadata second",
        today="a new controller sends the live brokers before LeaderAndIsr",
        past=Past(controller={"metadata_before_leadership": False}),
        caught_by="duties",
        kind="order-not-obeyed",
    ),
    PastBug(
        issue="KAFKA-7165",
        rule="registration-conflict",
        where=Where.CONTROLLER,
        fixed_in="2.2.0",
        summary="After an expired session, a broker finds its own old registration, gives up, and stays unregistered.",
        story=(
            "A broker's registration ends with its session, but not always before the broker's next session begins."
            " The broker found a registration with its own id, mistook the registration for another broker's, and gave"
            " up. When the store deleted the old node, the broker was not registered, and continued to run."
        ),
        was="an existing registration is an error",
        today="a registration of the broker's own former session is deleted, and the broker registers again",
        past=Past(controller={"registers_over_own_former_session": False}),
        caught_by="duties",
        kind="not-registered",
    ),
)
