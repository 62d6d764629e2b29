"""kemu's code as one archive for executors, and a fingerprint with which executors and driver compare their code."""

import hashlib
import os
import zipfile
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

SUFFIXES = (".py", ".toml", ".typed")


def sources() -> list[tuple[str, bytes]]:
    """(path, content) of every file of kemu's package, sorted by path, from a folder or from an archive."""
    found: list[tuple[str, bytes]] = []
    _collect(files("kemu"), "kemu", found)
    return sorted(found)


def _collect(folder: Traversable, path: str, found: list[tuple[str, bytes]]) -> None:
    for item in folder.iterdir():
        if item.is_dir():
            if item.name != "__pycache__":
                _collect(item, f"{path}/{item.name}", found)
        elif item.name.endswith(SUFFIXES):
            found.append((f"{path}/{item.name}", item.read_bytes()))


@lru_cache(maxsize=1)
def fingerprint() -> str:
    """A digest of the code that decides the outcome of runs (protocol, actors, emulator), of 16 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=8)
    for path, content in sources():
        if not path.startswith("kemu/tools/"):
            digest.update(f"{path}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()


def build_archive(folder: Path) -> Path:
    """Write a zip archive of kemu's package into a folder, unless the archive exists; its name has a digest."""
    content = sources()
    digest = hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest()
    path = folder / f"kemu-{digest}.zip"
    if path.exists():
        return path
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content:
            archive.writestr(zipfile.ZipInfo(name), data)
    fresh.replace(path)
    return path
