"""Reads the JSON files of campaigns and analyses. They may come from others, so everything in them is checked."""

import json
from pathlib import Path
from typing import Any

from kemu.tools.pipeline.errors import CampaignError

MOST_BYTES = 256 << 20
"""The largest JSON file that is read: a campaign of a million runs has smaller ones."""


class Damaged(ValueError):
    """A file does not have the shape that kemu writes; the message names the place in the file."""


def read_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        CampaignError: it cannot be read, is too large, or is no JSON; the message names the file and the place.
    """
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise CampaignError(f"{path} is damaged: it has {size:,} bytes, more than {MOST_BYTES:,}")
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CampaignError(f"{path} cannot be read: {error.strerror}") from None
    except RecursionError:
        raise CampaignError(f"{path} is damaged: its values are nested too deeply") from None
    except ValueError as error:  # also text that is not UTF-8, and numbers of too many digits
        raise CampaignError(f"{path} is damaged: {error}") from None
