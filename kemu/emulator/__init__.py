"""The emulator: time, network, hosts, faults, scenarios, traces, checkers and metrics.

This package is internal; ``kemu.api`` has the public names.
"""
