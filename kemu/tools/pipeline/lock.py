"""The lock of a folder that a command writes, so that a second command is refused.

The kernel holds the lock, and frees it when the process ends, however it ends.
"""

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from kemu.protocol.frozen import frozen
from kemu.tools.pipeline.errors import CampaignError
from kemu.tools.pipeline.files import read_file

LOCK = ".lock"


@frozen
class Holder:
    """The content of a lock file: who wrote it last."""

    command: str
    process: int
    host: str
    since: str


@contextmanager
def locked(folder: Path, command: str) -> Iterator[None]:
    """Make the folder if it is absent, and lock it inside the block.

    Args:
        folder: The folder that the block writes.
        command: The name of the command, for the message of a second one.

    Raises:
        CampaignError: another process holds the lock (names it), or the folder cannot be written.
    """
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = path.open("ab", buffering=0)
    except OSError as error:
        raise CampaignError(f"{folder} cannot be written: {error.strerror}") from None
    with file:
        if not _lock(file.fileno()):
            raise CampaignError(f"{folder} is being written by {_holder(path)}: wait for it, or stop it")
        now = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
        holder = {"command": command, "process": os.getpid(), "host": platform.node(), "since": now}
        with suppress(OSError):  # a full disk: the lock holds without a name
            file.truncate(0)
            file.write(json.dumps(holder).encode())
        yield


def _lock(descriptor: int) -> bool:
    """Lock a file for this process, if no other process has locked it."""
    try:
        import fcntl
    except ImportError:  # Windows: campaigns run without a lock
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _holder(path: Path) -> str:
    try:
        holder = read_file(path, Holder)
    except CampaignError:
        return "another process"
    return f"{holder.command} (process {holder.process} on {holder.host}, since {holder.since})"
