"""The documentation: its reference is generated, its output blocks are run, its links are checked."""
