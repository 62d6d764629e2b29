"""The world: time, network, hosts, faults, scenarios, traces, and who watches.

Internal: the public names are those of ``kemu.api``.
"""
