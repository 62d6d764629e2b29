"""Blocking calls of async functions, in the event loop of the caller: asyncio or Trio."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")


async def in_thread(call: Callable[[], T], give_up: Callable[[], object]) -> T:
    """Make a blocking call in a thread, and wait for its result without blocking the event loop.

    ``give_up``: ends the call early; called if the caller is cancelled.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        try:
            return await trio.to_thread.run_sync(call, abandon_on_cancel=True)
        except trio.Cancelled:
            give_up()
            raise
    try:
        return await asyncio.to_thread(call)
    except asyncio.CancelledError:
        give_up()
        raise
