"""Checks and measurements of the emulator for its developers. The installed package lacks this room."""
