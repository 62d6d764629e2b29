"""The band in which a load counts as balanced (the page's stage 4), and how many leave when a group shrinks."""

from collections.abc import Mapping
from fractions import Fraction

from kemu.protocol.streams.tasks import ClientId


def bands(total: int, weights: Mapping[ClientId, int], imbalance: Fraction) -> dict[ClientId, tuple[int, int]]:
    """Least and most tasks of each client, both inclusive; ``imbalance``: a fraction, ``stream.imbalance.percentage``.

    Rounding never makes a band that holds no whole number: with a target below 1 it is (0, 1).
    """
    whole = sum(weights.values())
    found: dict[ClientId, tuple[int, int]] = {}
    for name, weight in weights.items():
        target = Fraction(total * weight, whole)
        least = min(target.__floor__(), (target * (1 - imbalance)).__ceil__())
        most = max(target.__ceil__(), (target * (1 + imbalance)).__floor__())
        found[name] = least, most
    return found


def is_stable(loads: Mapping[ClientId, int], limits: Mapping[ClientId, tuple[int, int]]) -> bool:
    """Whether every client is inside its band."""
    return all(least <= loads[name] <= most for name, (least, most) in limits.items())


def leaving_count(clients: int, percent: int) -> int:
    """How many leave when a group shrinks to this percentage of its size: 40 at 80 % means 8. One stays always."""
    return clients - max(1, -(-clients * percent // 100))
