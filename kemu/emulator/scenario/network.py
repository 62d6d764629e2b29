"""The network of a scenario."""

from collections.abc import Iterable
from typing import cast

from attrs import field, frozen
from attrs.converters import optional

from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.text.units import LONGEST_US, microseconds


def _latency(given: int | str | Iterable[int | str]) -> tuple[int, int]:
    """A latency as a field takes it: one duration, or the least and the most."""
    bounds = [given] if isinstance(given, int | str) else list(given)
    found = tuple(microseconds(bound) for bound in bounds)
    return (found[0], found[0]) if len(found) == 1 else cast(tuple[int, int], found)


@frozen(kw_only=True)
class LinkSpec:
    """Latency between two hosts, both ways, where it differs from the network's.

    Raises:
        ScenarioError: everything that is wrong with it.
    """

    a: str = field(metadata=key("a host"))
    b: str = field(metadata=key("another host"))
    latency_us: tuple[int, int] = field(converter=_latency, metadata=key("one way, the least and the most"))

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))


@frozen(kw_only=True)
class NetworkSpec:
    """How long a packet takes one way: drawn for each between these bounds; None = as ``network.latency`` is drawn.

    Raises:
        ScenarioError: everything that is wrong with it.
    """

    latency_us: tuple[int, int] | None = field(
        default=None,
        converter=optional(_latency),
        metadata=key("one way, the least and the most", at_most=LONGEST_US, shown="drawn: network.latency"),
    )
    links: tuple[LinkSpec, ...] = field(
        default=(),
        converter=tuple,
        metadata=key("a list of tables with a, b, latency: two hosts for which it differs"),
    )

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))
