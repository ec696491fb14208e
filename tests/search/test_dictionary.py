"""Dictionaries of terms survive their serialized form."""

from __future__ import annotations

import random

import numpy as np
import pytest

from lance_spark.errors import CorruptFileError
from lance_spark.index.text.dictionary import Dictionary
from lance_spark.index.text.transducer import Transducer, encoded


def terms(seed: int, count: int, alphabet: str, longest: int) -> list[str]:
    choose = random.Random(seed)
    found = {"".join(choose.choices(alphabet, k=choose.randint(1, longest))) for _ in range(count)}
    return choose.sample(sorted(found), len(found))


CASES = [
    [],
    [""],
    ["", "a"],
    ["a", "ab", "abc", "b"],
    terms(1, 5000, "abcdefgh", 6),
    terms(2, 3000, "".join(map(chr, range(33, 0x250))), 4),
    terms(3, 300, "".join(map(chr, range(0x4E00, 0x9000))), 3),
    ["x" * 4000, "x" * 3999 + "y"],
]


def stored(data: bytes, size: int) -> Transducer:
    return Transducer.of(np.frombuffer(data, np.uint8), size)


def crc32c(data: bytes) -> int:
    """As RFC 3720 defines it, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def checked(data: bytes) -> bytes:
    """A transducer with the checksum of its bytes."""
    crc = crc32c(data[:-4])
    return data[:-4] + (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{len(case)}-{case[:1]}"[:20])
def test_transducer_holds_the_terms(case: list[str]) -> None:
    data = encoded(Dictionary.of_terms(case))
    assert data is not None
    assert data == checked(data)
    size = sum(len(term.encode()) for term in case)
    read = stored(data, size)
    decoded = read.decoded()
    assert decoded.terms().to_pylist() == case
    others = ["no such term", "\0", "ÿ", *(term + "a" for term in case), *(term[:-1] for term in case)]
    for found in (read, decoded):
        assert [found.find(term) for term in case] == list(range(len(case)))
        places = {term: number for number, term in enumerate(case)}
        assert [found.find(term) for term in others] == [places.get(term) for term in others]
    if size:
        for wrong in (size - 1, size + 1):
            with pytest.raises(CorruptFileError):
                stored(data, wrong).decoded()


def test_damaged_transducer_is_refused() -> None:
    few = terms(4, 300, "abcdefgh", 6)
    data = encoded(Dictionary.of_terms(few))
    assert data is not None
    size = sum(len(term) for term in few)
    choose = random.Random(9)
    for _ in range(300):
        damaged = bytearray(data)
        place = choose.randrange(len(data))
        damaged[place] ^= choose.randrange(1, 256)
        with pytest.raises(CorruptFileError):
            stored(bytes(damaged), size)
        try:
            # As if it had been written so.
            found = stored(checked(bytes(damaged)), size)
            assert all((number := found.find(term)) is None or number < len(found) for term in few[::50])
            assert len(found.decoded()) == len(found)
        except CorruptFileError:
            continue


@pytest.mark.parametrize("count", [5, 1 << 40, 1 << 62, (1 << 63) + 1, (1 << 64) - 1])
def test_claimed_number_of_terms_is_refused_before_room_is_made(count: int) -> None:
    data = encoded(Dictionary.of_terms(["", "a", "b", "c"]))
    assert data is not None
    assert len(stored(data, 3)) == 4
    with pytest.raises(CorruptFileError, match=f"claims {count} terms"):
        stored(checked(data[:-20] + count.to_bytes(8, "little") + data[-12:]), 3)


def test_terms_within_a_distance() -> None:
    words = ["apple", "aple", "apples", "maple", "ape", "日本語", "日本"]
    dictionary = Dictionary.of_terms(words)
    assert dictionary.within("apple", 1, 0) == ["aple", "apple", "apples"]
    assert dictionary.within("apple", 2, 0) == ["ape", "aple", "apple", "apples", "maple"]
    assert dictionary.within("apple", 2, 1) == ["ape", "aple", "apple", "apples"]
    assert dictionary.within("日本誤", 1, 2) == ["日本", "日本語"]


@pytest.mark.parametrize("numbers", [[0, 0, 2], [1, 2, 3], [-1, 0, 1], [0, 1, 1 << 40]])
def test_numbers_that_name_no_list_of_terms_are_refused(numbers: list[int]) -> None:
    """In a merge of indexes each posting list would get the term of another one."""
    words = Dictionary.of_terms(["a", "b", "c"])
    assert words.terms().to_pylist() == ["a", "b", "c"]
    with pytest.raises(CorruptFileError, match="numbers"):
        Dictionary(words.arena, words.ends, np.array(numbers, np.int64)).terms()
