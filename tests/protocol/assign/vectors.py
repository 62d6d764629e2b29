"""Kafka's own assignor tests as data: how a vector's step becomes the input of an assignor.

Source: tests/vectors/assignor_*.json, taken from the tests of Kafka's assignor classes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kemu.protocol.assign.base import Assignment, Subscriber, Topics
from kemu.protocol.assign.user_data import encode_cooperative, encode_sticky
from kemu.protocol.names import NO_GENERATION, TopicPartition
from tests import case_files

NO_VARIANT = "AS_GIVEN"


def load(name: str) -> Any:
    return case_files.load(f"{name}.json")


def cases(name: str) -> list[Any]:
    """Each vector under each of its rack variants, as pytest parameters."""
    return [
        pytest.param(vector, variant, id=f"{number}:{vector['assignor']}:{vector['name'][:60]}:{variant}")
        for number, vector in enumerate(load(name))
        for variant in vector.get("rack_variants") or [NO_VARIANT]
    ]


def pairs(raw: list[list[Any]]) -> tuple[TopicPartition, ...]:
    return tuple((topic, number) for topic, number in raw)


def as_sets(assignment: Mapping[str, Any]) -> dict[str, frozenset[TopicPartition]]:
    return {member: frozenset(pairs(partitions)) for member, partitions in assignment.items()}


def topics_of(vector: dict[str, Any], step: dict[str, Any], variant: str) -> Topics:
    counts: dict[str, int] = step["partitions_per_topic"]
    racks = "abcdefghijklmnopqrstuvwxyz"[: vector.get("consumer_rack_count") or 3]
    if "replica_racks" in step:
        given = {topic: tuple(tuple(one) for one in all_) for topic, all_ in step["replica_racks"].items()}
        return Topics(counts, given)
    if variant in ("NO_CONSUMER_RACK", "BROKER_AND_CONSUMER_RACK"):
        return Topics(counts, {topic: (tuple(racks),) * count for topic, count in counts.items()})
    return Topics(counts)


def rack_of(vector: dict[str, Any], raw: dict[str, Any], variant: str) -> str | None:
    if "rack" in raw:
        return raw["rack"]
    if variant == "NO_BROKER_RACK":
        return "abcdef"[raw["rack_index"] % 6]
    if variant == "BROKER_AND_CONSUMER_RACK":
        return "abcdefghijklmnopqrstuvwxyz"[raw["rack_index"] % (vector.get("consumer_rack_count") or 3)]
    return None


def subscriber_of(
    vector: dict[str, Any], member: str, raw: dict[str, Any], variant: str, settled: list[Assignment]
) -> Subscriber:
    """A member's subscription as its carrier says it travels."""
    owned = raw["owned"]
    partitions = tuple(settled[owned["from_step"]].get(member, ())) if isinstance(owned, dict) else pairs(owned)
    generation = NO_GENERATION if raw["generation"] is None else raw["generation"]
    carrier = raw["carrier"]
    sticky = vector["assignor"] == "sticky"
    user_data = None
    if carrier in ("v0", "v1", "v2"):
        user_data = encode_sticky(partitions, generation) if sticky else encode_cooperative(generation)
    elif carrier == "userdata_v0":
        user_data = encode_sticky(partitions, None)
    in_subscription = carrier in ("v1", "v2", "subscription_only")
    return Subscriber(
        topics=tuple(raw["topics"]),
        owned=partitions if in_subscription else (),
        generation=generation if carrier in ("v2", "subscription_only") else NO_GENERATION,
        rack=rack_of(vector, raw, variant),
        instance_id=raw.get("instance_id"),
        user_data=user_data,
    )


def steps_of(
    vector: dict[str, Any], variant: str, settled: list[Assignment]
) -> Iterator[tuple[dict[str, Any], Topics, dict[str, Subscriber]]]:
    """Each step's expectations and input; the caller appends each settled result to ``settled`` as it goes."""
    for step in vector["steps"]:
        members = {
            member: subscriber_of(vector, member, raw, variant, settled) for member, raw in step["members"].items()
        }
        yield step, topics_of(vector, step, variant), members
