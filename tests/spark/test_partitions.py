"""Packing and splitting lose and double no row."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lance_spark.spark.partitions import LanceInputPartition, SizedFragment, plan_partitions


def rows_of(partitions: list[LanceInputPartition]) -> list[tuple[bytes, int]]:
    return [
        (piece.fragment, row)
        for partition in partitions
        for piece in partition.slices
        for row in range(piece.start, piece.stop)
    ]


sizes = st.tuples(st.integers(0, 200), st.one_of(st.none(), st.integers(1, 5000)))


@given(st.lists(sizes, max_size=20), st.integers(1, 3000))
def test_every_row_is_in_one_partition_in_order(fragments: list[tuple[int, int | None]], target: int) -> None:
    sized = [SizedFragment(str(index).encode(), rows, size) for index, (rows, size) in enumerate(fragments)]
    expected = [(fragment.fragment, row) for fragment in sized for row in range(fragment.physical_rows)]
    assert rows_of(plan_partitions(sized, target)) == expected


def test_small_fragments_share_a_partition() -> None:
    sized = [SizedFragment(b"f", 10, 100) for _ in range(10)]
    assert [len(partition.slices) for partition in plan_partitions(sized, 300)] == [3, 3, 3, 1]


def test_a_large_fragment_is_split() -> None:
    partitions = plan_partitions([SizedFragment(b"f", 1000, 1000)], 250)
    assert [(p.slices[0].start, p.slices[0].stop) for p in partitions] == [
        (0, 250),
        (250, 500),
        (500, 750),
        (750, 1000),
    ]
