"""The results that an interrupted command keeps: the table in docs/reference, which a test proves row by row."""

from collections.abc import Mapping
from enum import Enum


class Kept(Enum):
    """The results that remain when a signal ends a command."""

    NOTHING = "nothing was made; the line on standard error names the command to repeat"
    FILE = "a file of --out is whole or as it was; the line on standard error names the command to repeat"
    PART = "the trace so far, in NAME.kemu.part; NAME.kemu and a file of --report stay as they were"
    RUNS = "the results of the finished runs are printed, with the command that continues or repeats"
    SMALLEST = "the smallest scenario so far is written, once the given run has failed"
    CHUNKS = "the finished chunks in --out; --resume does the other chunks"
    TABLES = "the tables of earlier analyses; the command to repeat adds the other runs"


KEPT: Mapping[str, Kept] = {
    "run": Kept.PART,
    "run --seeds": Kept.RUNS,
    "run --live": Kept.PART,
    "compare": Kept.RUNS,
    "scale": Kept.PART,
    "import": Kept.FILE,
    "scenarios": Kept.NOTHING,
    "swarm": Kept.RUNS,
    "swarm --seed": Kept.FILE,
    "explore": Kept.RUNS,
    "shrink": Kept.SMALLEST,
    "bugs": Kept.NOTHING,
    "bugs ID": Kept.PART,
    "bugs --find": Kept.RUNS,
    "report": Kept.FILE,
    "explain": Kept.NOTHING,
    "replay": Kept.NOTHING,
    "history": Kept.NOTHING,
    "coverage": Kept.RUNS,
    "assign": Kept.NOTHING,
    "compare-assignors": Kept.NOTHING,
    "assign-tasks": Kept.NOTHING,
    "plan-reassignment": Kept.FILE,
    "campaign": Kept.CHUNKS,
    "analyze": Kept.TABLES,
    "query": Kept.NOTHING,
    "help": Kept.NOTHING,
    "describe": Kept.NOTHING,
    "schema": Kept.FILE,
}
"""Command, with the option that makes a difference -> what the command keeps."""

ABOUT = """\
The moment of the signal makes no difference: at the start, in the middle, or during the output. The exit code is 128
and the number of the signal. A command whose work is done ends with the exit code of its result.

A reader that closes the pipe ends a sweep early, and the results so far decide the exit code. A full disk is one line
of error: exit code 2 for a file, 74 for standard output.
"""
