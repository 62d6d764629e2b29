"""The type of options that are durations or times."""

import click

from kemu.emulator.text.units import LONGEST_US, duration_text, duration_us


class Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """A text such as "12.5s", which a command gets in microseconds.

    Args:
        least_us, most_us: the bounds in microseconds.
    """

    name = "duration"

    def __init__(self, least_us: int = 0, most_us: int = LONGEST_US) -> None:
        self.least_us = least_us
        self.most_us = most_us

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Convert a text to microseconds."""
        if isinstance(value, int):
            return value
        try:
            found = duration_us(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not self.least_us <= found <= self.most_us:
            least = "more than 0" if self.least_us else "at least 0"
            self.fail(f'"{value}" must be {least} and at most {duration_text(self.most_us)}', param, ctx)
        return found


DURATION = Duration()
POSITIVE_DURATION = Duration(least_us=1)
TRACE_TIME = Duration(most_us=2**63 - 1)
"""A time in a trace; the logs of "kemu import-log" may last longer than a scenario."""
