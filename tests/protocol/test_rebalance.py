"""Members' decisions to revoke and adopt partitions, as pure functions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.protocol.assign.base import RebalanceProtocol, Subscriber
from kemu.protocol.assign.registry import ASSIGNORS
from kemu.protocol.rebalancing.rules import COOPERATIVE, EAGER, MEMBER_RULES, Changes, Given, common_protocol

partitions = st.lists(st.tuples(st.sampled_from("tu"), st.integers(0, 5)), unique=True).map(tuple)


@given(owned=partitions, assigned=partitions)
def test_after_a_sync_a_cooperative_member_owns_what_was_assigned_by_the_smallest_changes(owned, assigned):
    """onJoinComplete: revoked = owned - assigned, added = assigned - owned, rejoin exactly if something was revoked."""
    changes = COOPERATIVE.after_sync(owned, Given(assigned))
    assert (set(owned) - set(changes.revoked)) | set(changes.added) == set(assigned)
    assert set(changes.revoked).isdisjoint(assigned) and set(changes.added).isdisjoint(owned)
    assert changes.rejoin == bool(changes.revoked)


@given(owned=partitions, assigned=partitions)
def test_an_eager_member_gives_up_all_before_and_nothing_after(owned, assigned):
    """onJoinPrepare revokes everything, so everything assigned is added."""
    assert EAGER.give_up_before_join(owned, ("t",)) == owned
    assert EAGER.after_sync((), Given(assigned)) == Changes((), assigned, rejoin=False)
    assert EAGER.after_sync(assigned, Given(assigned)).added == (), "taken again after a callback raised"


def test_a_cooperative_member_gives_up_before_joining_only_what_it_does_not_subscribe_to():
    """onJoinPrepare, COOPERATIVE; None: the listener is not called at all."""
    owned = (("t", 0), ("u", 0))
    assert COOPERATIVE.give_up_before_join(owned, ("t", "u")) is None
    assert COOPERATIVE.give_up_before_join(owned, ("t",)) == (("u", 0),)


@given(owned=st.lists(partitions, min_size=2, max_size=2), given_=st.lists(partitions, min_size=2, max_size=2))
def test_what_moves_too_early_was_owned_by_one_and_is_given_to_another(owned, given_):
    """validateCooperativeAssignment: the union of the added and the union of the revoked must not meet."""
    members = {f"m{number}": Subscriber(("t", "u"), claims) for number, claims in enumerate(owned)}
    decision = {f"m{number}": list(rows) for number, rows in enumerate(given_)}
    early = set(COOPERATIVE.moved_too_early("mine", members, decision))
    for one in early:
        assert any(one in claims and one not in rows for claims, rows in zip(owned, given_, strict=True))
        assert any(one not in claims and one in rows for claims, rows in zip(owned, given_, strict=True))
    direct = {one for one in owned[0] if one in given_[1] and one not in given_[0] and one not in owned[1]}
    assert direct <= early


@pytest.mark.parametrize(
    ("names", "protocol"),
    [
        (("range",), RebalanceProtocol.EAGER),
        (("cooperative-sticky",), RebalanceProtocol.COOPERATIVE),
        (("cooperative-sticky", "range"), RebalanceProtocol.EAGER),
    ],
)
def test_the_protocol_is_the_highest_in_common(names, protocol):
    """ConsumerCoordinator's constructor: the intersection over all configured assignors."""
    assert common_protocol([ASSIGNORS[name] for name in names]) is protocol
    assert MEMBER_RULES[protocol].protocol is protocol
