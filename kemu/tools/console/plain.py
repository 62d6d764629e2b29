"""The console without a full screen: events and answers as lines, orders from standard input."""

import os
import select
from collections.abc import Callable

import click

from kemu.tools.console.exchange import Address, Exchange
from kemu.tools.console.session import Session
from kemu.tools.console.words import plain_text
from kemu.tools.output import is_read

STDIN = 0
_CHUNK_BYTES = 65_536


def run_plain(address: Address, said: Callable[[str], object] = click.echo, orders: int = STDIN) -> Session:
    """Print the state and the story; carry out the lines of ``orders`` one after the other, until their end.

    The end of the input, of the run, or of the reader of standard output ends the console.

    Args:
        said: prints a line.
        orders: descriptor of a file.

    Raises:
        BadInput: nobody takes orders at the address.
    """
    waiting: list[Exchange] = []
    session = Session(address, lambda line: said(plain_text(line)), waiting)
    unread, is_open = b"", _is_open(orders)
    try:
        session.order("state")
        while not session.is_over and is_read():
            if not session.is_busy:
                line, *rest = unread.split(b"\n", 1)
                if rest or (not is_open and line):
                    unread = rest[0] if rest else b""
                    session.order(line.decode(errors="replace").strip())
                    continue
                if not is_open:
                    break
            inputs: list[Exchange | int] = [*waiting, *([orders] if is_open and not session.is_busy else [])]
            for each in select.select(inputs, [], [])[0]:
                if isinstance(each, int):
                    data = os.read(orders, _CHUNK_BYTES)
                    unread, is_open = unread + data, bool(data)
                elif each in waiting:
                    session.take(each)
    finally:
        session.close()
    return session


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
