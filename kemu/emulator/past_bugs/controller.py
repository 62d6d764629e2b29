"""Past bugs of controllers, and of what brokers and controllers owe each other when one of them comes back.

Source: the issues named, in Apache Kafka's history; KIP-380.
"""

from kemu.emulator.past_bugs.bug import Past, PastBug, Where

CONTROLLER = (
    PastBug(
        issue="KAFKA-7235",
        rule="no-broker-epoch",
        where=Where.CONTROLLER,
        fixed_in="2.2.0",
        summary="Requests meant for a broker's former life are carried out in its new one; a quick bounce is not"
        " noticed.",
        story=(
            "A broker that came back before the controller looked was, for the controller, never away: it was sent"
            " nothing, and hosted nothing. And what the controller had said to its former life, such as to stop"
            " replicas for a shutdown, its new life carried out."
        ),
        was="brokers are known by their ids; requests do not say which life they are for",
        today="each registration has an epoch; requests carry it, and a new one counts as having been away",
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
        summary="A broker is told to follow a leader of which it does not know yet that it lives, and does not follow"
        " it.",
        story=(
            "A new controller told brokers whom to follow before it told them who lives. A broker that was told to"
            " follow a leader it did not know to be alive did not follow it, and was not told again."
        ),
        was="LeaderAndIsr first, UpdateMetadata after",
        today="brokers learn who lives before they are told whom to follow",
        past=Past(controller={"metadata_before_leadership": False}),
        caught_by="duties",
        kind="order-not-obeyed",
    ),
    PastBug(
        issue="KAFKA-7165",
        rule="registration-conflict",
        where=Where.CONTROLLER,
        fixed_in="2.2.0",
        summary="After its session expired a broker finds its own old registration, gives up, and stays out for good.",
        story=(
            "The node by which a broker is registered goes with its session, but not always before the broker's next"
            " session begins. The broker then found a registration of its own id, took it for somebody else's and gave"
            " up; when the old node went it was registered nowhere, and ran on."
        ),
        was="a registration that exists is an error",
        today="one that the broker's own former session left behind is deleted, and the broker registers again",
        past=Past(controller={"registers_over_own_former_session": False}),
        caught_by="duties",
        kind="not-registered",
    ),
)
