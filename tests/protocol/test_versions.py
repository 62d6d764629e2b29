"""The table of versions a client speaks."""

from typing import Any, get_args

import pytest

from kemu.protocol.messages.data import REPLICA_FETCH_VERSION, TOPIC_IDS_SINCE
from kemu.protocol.messages.versions import KAFKA_4_2, LATEST
from kemu.protocol.wire.codec import UnsupportedVersion, seal, unseal
from kemu.protocol.wire.schema import MESSAGES, SPECS, STRUCTS, Field, Kind, message, since


def test_clients_send_the_newest_declared_version_of_every_request() -> None:
    """A field of a new version would otherwise be declared and never sent."""
    for api, version in LATEST.requests.items():
        newest = next(spec.versions[-1] for spec in MESSAGES.values() if spec.name == api)
        others = {"Fetch": REPLICA_FETCH_VERSION, "Metadata": TOPIC_IDS_SINCE}
        others |= {api: KAFKA_4_2[api] for api in ("OffsetCommit", "OffsetFetch")}
        sent = others.get(api, version)
        assert sent == newest, f"{api} v{newest} is declared, but the newest version that is sent is v{sent}"


def test_a_field_of_a_new_version_adds_that_version_to_its_api() -> None:
    """One edit: the request, the reply and the codec follow."""

    @message(api_key=7_777, kind=Kind.REQUEST, versions=range(0, 2))
    class Poke:
        name: str = ""

    @message(api_key=7_777, kind=Kind.REPLY, versions=range(0, 2))
    class PokeReply:
        times: int = 0
        why: str = since(2, default="")

    try:
        assert [SPECS[each].versions for each in (Poke, PokeReply)] == [range(0, 3)] * 2
        assert unseal(seal(PokeReply(why="x"), 2)) == (PokeReply(why="x"), 2)
    finally:
        for each in (Poke, PokeReply):
            del MESSAGES[7_777, SPECS.pop(each).kind]


def test_every_field_of_a_part_is_carried_by_some_version_of_its_messages() -> None:
    """A part has no versions of its own."""
    carrying: dict[type, int] = {}

    def reach(fields: tuple[Field, ...], newest: int) -> None:
        for each in fields:
            for part in parts_of(each.annotation):
                if carrying.get(part, -1) < newest:
                    carrying[part] = newest
                    reach(STRUCTS[part], newest)

    for spec in MESSAGES.values():
        reach(spec.fields, spec.versions[-1])
    for part, newest in carrying.items():
        for each in STRUCTS[part]:
            needed = (
                f"{part.__name__}.{each.name} is of v{each.since}, but its messages end at v{newest}: raise `versions`"
            )
            assert each.since <= newest, needed


def parts_of(annotation: Any) -> list[type]:
    """The structs that a field's type names."""
    if isinstance(annotation, type) and annotation in STRUCTS:
        return [annotation]
    return [part for argument in get_args(annotation) for part in parts_of(argument)]


def test_a_profile_picks_older_versions_and_leaves_the_others() -> None:
    """A release is a table; the table it is made from stays as it is."""
    old = LATEST.but(JoinGroup=3, subscription=1)
    assert (old["JoinGroup"], old["SyncGroup"], old.subscription) == (3, LATEST["SyncGroup"], 1)
    assert (LATEST["JoinGroup"], LATEST.subscription) == (9, 3)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"JoinGroup": 99}, "JoinGroup v99: supported are v0 to v9"),
        ({"JoinUs": 1}, "no API is called 'JoinUs'"),
        ({"subscription": 4}, "subscription v4: supported are v0 to v3"),
    ],
)
def test_a_version_that_does_not_exist_is_refused(wrong: dict[str, int], text: str) -> None:
    """One clear error."""
    with pytest.raises(UnsupportedVersion, match=text):
        LATEST.but(**wrong)
