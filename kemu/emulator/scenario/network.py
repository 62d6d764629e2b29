"""The network of a scenario."""

from collections.abc import Iterable
from typing import cast

from attrs import field
from attrs.converters import optional

from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.text.units import LONGEST_US, microseconds
from kemu.protocol.frozen import frozen


def _latency(given: int | str | Iterable[int | str]) -> tuple[int, int]:
    """Return the least and the most latency in us, from one or two durations."""
    bounds = [given] if isinstance(given, int | str) else list(given)
    found = tuple(microseconds(bound) for bound in bounds)
    return (found[0], found[0]) if len(found) == 1 else cast(tuple[int, int], found)


@frozen(kw_only=True)
class LinkSpec:
    """Latency of the link between two hosts, in both directions, instead of the network's latency.

    Raises:
        ScenarioError: lists every mistake in the values.
    """

    a: str = field(metadata=key("a host"))
    b: str = field(metadata=key("another host"))
    latency_us: tuple[int, int] = field(converter=_latency, metadata=key("one-way latency, least and most"))

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))


@frozen(kw_only=True)
class NetworkSpec:
    """The network's one-way latency, drawn for each packet between these bounds; None means the draw
    ``network.latency``.

    Raises:
        ScenarioError: lists every mistake in the values.
    """

    latency_us: tuple[int, int] | None = field(
        default=None,
        converter=optional(_latency),
        metadata=key("one-way latency, least and most", at_most=LONGEST_US, shown="drawn: network.latency"),
    )
    links: tuple[LinkSpec, ...] = field(
        default=(),
        converter=tuple,
        metadata=key("links between two hosts with a latency of their own: tables with a, b and latency"),
    )

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))
