"""Messages, settings and decisions: values and pure functions without changeable state.

The package is internal: ``kemu.api`` has the public names.
"""
