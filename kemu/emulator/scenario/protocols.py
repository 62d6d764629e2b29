"""The switch of all groups of a scenario to the other ``group.protocol`` (KIP-848).

A switch leaves out the settings that only the former protocol has. Uses that the new protocol cannot have, such as a
``subscription_pattern`` or Kafka Streams, remain: the check of the scenario refuses them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kemu.emulator.scenario.groups import SETTINGS_OF_CLASSIC
from kemu.protocol.config import GROUP_PROTOCOLS

KEY = "group.protocol"
CLASSIC, CONSUMER = GROUP_PROTOCOLS
_SETTINGS_OF: Mapping[str, Mapping[str, str]] = {
    CLASSIC: SETTINGS_OF_CLASSIC,
    CONSUMER: {"group.remote.assignor": "the members assign the partitions (assignors)"},
}
"""Protocol -> its settings that the other protocol lacks, and the reason."""
_ASSIGNORS = "the coordinator assigns the partitions (group.remote.assignor)"


def switched(groups: Mapping[str, dict[str, Any]], protocol: str) -> list[str]:
    """Switch all groups, in their plain form, to a protocol; return a sentence for each setting that is left out."""
    said = []
    for name, group in groups.items():
        if group.get("config", {}).get(KEY, CLASSIC) == protocol:
            continue
        former = CONSUMER if protocol == CLASSIC else CLASSIC
        for place, table in _tables(name, group):
            said += [f"{place}: {each}" for each in _left_out(table, former)]
        config = group.setdefault("config", {})
        if protocol == CLASSIC:
            del config[KEY]  # Kafka's default
        else:
            config[KEY] = protocol
    return said


def _tables(name: str, group: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tables of settings of a group and of its single members, each with its place."""
    yield f"groups.{name}", group
    for host, table in group.get("overrides", {}).items():
        yield f"groups.{name}.overrides.{host}", table


def _left_out(table: dict[str, Any], protocol: str) -> Iterator[str]:
    """Remove the settings of a protocol from a table; yield a sentence for each of them."""
    if protocol == CLASSIC and (names := table.pop("assignors", [])):
        yield f"assignors = {names if isinstance(names, str) else ', '.join(names)} is left out: {_ASSIGNORS}"
    for key, why in _SETTINGS_OF[protocol].items():
        if key in table.get("config", {}):
            yield f"{key} = {table['config'].pop(key)} is left out: {why}"
