"""The emulator: time, network, hosts, faults, scenarios, traces, checkers and metrics.

Internal: the public names are those of ``kemu.api``.
"""
