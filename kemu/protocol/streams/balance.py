"""The range of balanced loads (stage 4 on KIP-429's page), and the number of leaving instances when a group shrinks."""

from collections.abc import Mapping
from fractions import Fraction

from kemu.protocol.streams.tasks import ClientId


def bands(total: int, weights: Mapping[ClientId, int], imbalance: Fraction) -> dict[ClientId, tuple[int, int]]:
    """The least and the most tasks of each client, inclusive. ``imbalance``: ``stream.imbalance.percentage`` as a
    fraction.

    Every range contains a whole number: with a target below 1 it is (0, 1).
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
    """Whether every client is inside its range."""
    return all(least <= loads[name] <= most for name, (least, most) in limits.items())


def evens_out(most: int, its_weight: int, least: int, other_weight: int) -> bool:
    """Whether moving a task from the client with ``most`` to the client with ``least`` evens out their loads by weight.

    The learner assignor of KIP-429's page uses only this rule if no imbalance is tolerated; tasks without state always
    use this rule. With unequal weights the result may differ from a fair share rounded up or down. Example: 14 weights
    share 4 tasks. A client of weight 5 with 3 tasks and a client of weight 1 without tasks exchange no task.
    """
    return most > 0 and (most - 1) * other_weight >= (least + 1) * its_weight


def is_even(loads: Mapping[ClientId, int], weights: Mapping[ClientId, int]) -> bool:
    """Whether no move of a task to another client would even out the loads."""
    return not any(
        evens_out(loads[full], weights[full], loads[empty], weights[empty])
        for full in loads
        for empty in loads
        if full != empty
    )


def leaving_count(clients: int, percent: int) -> int:
    """The number of instances that leave when a group shrinks to this percentage: of 40 instances at 80 %, 8 leave.

    One instance always remains.
    """
    return clients - max(1, -(-clients * percent // 100))
