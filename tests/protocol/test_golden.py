"""No declaration changes by accident: every message at every version keeps the bytes it had."""

import json

from kemu.protocol.wire.codec import unseal
from kemu.protocol.wire.schema import SPECS
from tests.protocol.golden import FILE, golden, name_of

REWRITE = "if this is meant: python -m tests.protocol.golden --rewrite"


def test_every_message_has_the_bytes_it_had():
    """The layouts are ours (msgpack rows); traces of old runs and recorded mail depend on them."""
    kept, now = json.loads(FILE.read_text()), golden()
    changed = [name for name in kept if now.get(name, "") != kept[name]]
    assert not changed, f"changed or gone: {', '.join(changed)}; {REWRITE}"
    added = [name for name in now if name not in kept]
    assert not added, f"not in {FILE.name}: {', '.join(added)}; {REWRITE}"


def test_golden_bytes_are_read_as_what_their_names_say():
    """The file is a check on the decoder, too."""
    for name, data in json.loads(FILE.read_text()).items():
        message, version = unseal(bytes.fromhex(data))
        assert name_of(SPECS[type(message)], version) == name
