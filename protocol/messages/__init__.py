"""Every message, by who speaks; importing this package registers all of them."""

from protocol.messages import data, group

__all__ = ["data", "group"]
