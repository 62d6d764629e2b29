"""The partitioner of keyed records."""

import pytest

from kemu.protocol.partitioner import murmur2, partition_of_key


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        ("21", -973932308),
        ("abc", 479470107),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    ],
)
def test_keys_have_the_hashes_of_kafkas_utils_test(key: str, hashed: int) -> None:
    """UtilsTest.testMurmur2 (4.0.2): all lengths of the rest of a key, hashes as signed numbers."""
    assert murmur2(key.encode()) == hashed % (1 << 32)


def test_the_sign_is_dropped_before_the_remainder() -> None:
    """Utils.toPositive takes no absolute value: -973932308 counts as 1173551340."""
    assert partition_of_key(b"21", 1_000) == 340
