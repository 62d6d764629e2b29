"""The results that an interrupted command keeps: the table in docs/reference, which a test proves row by row."""

from collections.abc import Mapping
from enum import Enum


class KeptResult(Enum):
    """The results that remain when a signal ends a command."""

    NOTHING = "nothing was made; the line on standard error names the command to repeat"
    FILE = "a file of --out is whole or as it was; the line on standard error names the command to repeat"
    PART = "the trace so far, in NAME.kemu.part; NAME.kemu and a file of --report stay as they were"
    SERVED = "the trace in NAME.kemu is complete, and the verdict is printed; before READY as for kemu run"
    RUNS = "the results of the finished runs are printed, with the command that continues or repeats"
    SMALLEST = "the smallest scenario so far is written, once the given run has failed"
    CHUNKS = "the finished chunks in --out; --resume does the other chunks"
    TABLES = "the tables of earlier analyses; the command to repeat adds the other runs"


KEPT: Mapping[str, KeptResult] = {
    "run": KeptResult.PART,
    "run --seeds": KeptResult.RUNS,
    "run --live": KeptResult.PART,
    "compare": KeptResult.RUNS,
    "scale": KeptResult.PART,
    "serve": KeptResult.SERVED,
    "console": KeptResult.NOTHING,
    "advise": KeptResult.RUNS,
    "import": KeptResult.FILE,
    "import-log": KeptResult.FILE,
    "scenarios": KeptResult.NOTHING,
    "swarm": KeptResult.RUNS,
    "swarm --seed": KeptResult.FILE,
    "explore": KeptResult.RUNS,
    "shrink": KeptResult.SMALLEST,
    "bugs": KeptResult.NOTHING,
    "bugs ID": KeptResult.PART,
    "bugs --find": KeptResult.RUNS,
    "report": KeptResult.FILE,
    "explain": KeptResult.NOTHING,
    "replay": KeptResult.NOTHING,
    "diagnose": KeptResult.NOTHING,
    "reproduce": KeptResult.FILE,
    "scriptify": KeptResult.FILE,
    "history": KeptResult.NOTHING,
    "coverage": KeptResult.RUNS,
    "assign": KeptResult.NOTHING,
    "compare-assignors": KeptResult.NOTHING,
    "assign-tasks": KeptResult.NOTHING,
    "plan-reassignment": KeptResult.FILE,
    "campaign": KeptResult.CHUNKS,
    "analyze": KeptResult.TABLES,
    "query": KeptResult.NOTHING,
    "help": KeptResult.NOTHING,
    "describe": KeptResult.NOTHING,
    "schema": KeptResult.FILE,
}
"""Command, with the option that makes a difference -> what the command keeps."""

ABOUT = """\
The moment of the signal makes no difference: at the start, in the middle, or during the output. The exit code is 128
and the number of the signal. A command whose work is done ends with the exit code of its result.

A reader that closes the pipe ends a sweep early, and the results so far decide the exit code. A full disk is one line
of error: exit code 2 for a file, 74 for standard output.
"""
