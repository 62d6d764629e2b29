"""The words of messages: a table row is a wording with its kind, fields and releases."""
