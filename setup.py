"""Where the packages lie: the source folders stand at the top level and are imported as ``kemu.<folder>``.

All else is in ``pyproject.toml``. (The links in ``kemu/`` say the same to type checkers and to a plain checkout.)
"""

from setuptools import find_packages, setup

FOLDERS = ("protocol", "actors", "emulator", "tools")

setup(
    package_dir={"kemu": "kemu", **{f"kemu.{folder}": folder for folder in FOLDERS}},
    packages=["kemu", *(f"kemu.{found}" for found in find_packages(include=[f"{each}*" for each in FOLDERS]))],
)
