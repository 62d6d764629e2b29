"""Where the cases lie that tests run as data: ``tests/vectors``, or the folder that ``KEMU_VECTORS`` names."""

import json
import os
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("KEMU_VECTORS") or Path(__file__).parent / "vectors")


def load(name: str) -> Any:
    """What stands in one of the files of cases, such as ``wire_examples.json``."""
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))
