"""The command line, reports, campaigns and the test kit.

The modules are internal; the public names are those of ``kemu.api``.
"""
