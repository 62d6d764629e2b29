"""A served cluster: real clients join an emulated cluster over TCP. Sockets are in ``emulator.engine.gateway``."""
