"""The command line, reports, campaigns and the test kit.

Internal, apart from the command line: the public names are those of ``kemu.api``.
"""
