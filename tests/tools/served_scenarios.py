"""Scenarios of served clusters, in which real clients are the producers and the members."""


def served_scenario(*, partitions: int, group: str = "", replicated: bool = False, more: str = "") -> str:
    """Three brokers and the topic "orders". ``group``: a group that plans can name; ``more``: further tables."""
    return f"""
duration = "10m"
[brokers]
count = 3
{"[brokers.replication]" if replicated else ""}
{"factor = 3" if replicated else ""}
[topics.orders]
partitions = {partitions}
rate = 0
{f"[groups.{group}]" if group else ""}
{'topics = ["orders"]' if group else ""}
{"members = 0" if group else ""}
{more}
"""
