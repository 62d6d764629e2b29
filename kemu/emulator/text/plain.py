"""Values for JSON."""

from typing import Any

import attrs

from kemu.protocol.errors import ErrorCode


def plain(item: Any) -> Any:
    """A value for JSON; an object of a class has the class name under "type", and bytes become hexadecimal text."""
    if isinstance(item, ErrorCode):
        return item.name
    if isinstance(item, bytes):
        return item.hex()
    if isinstance(item, tuple | list):
        return [plain(part) for part in item]
    if attrs.has(type(item)):
        fields = {field.name: plain(getattr(item, field.name)) for field in attrs.fields(type(item))}
        return {"type": type(item).__name__, **fields}
    return item
