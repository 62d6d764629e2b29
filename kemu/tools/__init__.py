"""People's way in: the command line, reports, campaigns, benches, checks.

Internal: the public names are those of ``kemu.api``; what is stable here is the command line.
"""
