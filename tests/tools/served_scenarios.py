"""Scenarios of served clusters, in which real clients are the producers and the members."""


def served_scenario(
    *, partitions: int, group: str = "", replicated: bool = False, topic: str = "", brokers: str = ""
) -> str:
    """Three brokers and the topic "orders".

    Args:
        group: a group that plans can name.
        topic: further lines of the topic.
        brokers: further lines of the brokers.
    """
    return f"""
duration = "10m"
[brokers]
count = 3
{brokers}
{"[brokers.replication]" if replicated else ""}
{"factor = 3" if replicated else ""}
[topics.orders]
partitions = {partitions}
rate = 0
{topic}
{f"[groups.{group}]" if group else ""}
{'topics = ["orders"]' if group else ""}
{"members = 0" if group else ""}
"""
