"""Measurements of the emulator itself, for its developers. Not part of the installed package."""
