"""Feature flags: what is unknown is refused, in reading and in writing."""

from __future__ import annotations

import pytest

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.table.manifests.features import check_readable, check_writable

READ = {1, 2, 4, 8, 16, 32, 128, 256, 1024, 2048}
WRITTEN = {1, 2, 4, 8, 16, 32, 256, 2048, 32768}
PAIRED = {256, 1024, 16384}


@pytest.mark.parametrize("shift", range(64))
def test_every_bit_alone(shift: int) -> None:
    bit = 1 << shift
    if bit in READ:
        check_readable(bit, bit if bit in PAIRED else 0, "t")
    else:
        with pytest.raises(UnsupportedFeatureError, match=str(bit)):
            check_readable(bit, bit, "t")
    if bit in WRITTEN:
        check_writable(bit, "t")
    else:
        with pytest.raises(UnsupportedFeatureError, match=str(bit)):
            check_writable(bit, "t")


def test_all_known_bits_together_with_an_unknown_one() -> None:
    check_readable(sum(READ), sum(READ), "t")
    check_writable(sum(WRITTEN), "t")
    with pytest.raises(UnsupportedFeatureError) as caught:
        check_readable(sum(READ) + (1 << 40), sum(READ), "t")
    assert caught.value.feature == "unknown (1099511627776)"
    with pytest.raises(UnsupportedFeatureError):
        check_writable(sum(WRITTEN) + (1 << 17), "t")


@pytest.mark.parametrize("bit", sorted(PAIRED))
def test_half_of_a_pair_is_corrupt(bit: int) -> None:
    with pytest.raises(CorruptFileError):
        check_readable(0, bit, "t")
    if bit in READ:
        with pytest.raises(CorruptFileError):
            check_readable(bit, 0, "t")
