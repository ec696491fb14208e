"""Random JSON texts."""

from __future__ import annotations

import json
import random
from typing import Any

NUMBERS = [0, 1, -1, 127, 128, 255, 256, -128, -129, 65535, 65536, -32769, 2**31, 2**32, -(2**31) - 1, 2**63, 2**64 - 1]
NUMBERS += [-(2**63), 2**64, 10**30, -(10**25)]


FLOATS = [0.0, -0.0, 1.5, 1e300, 1e-300, 2.0, -1e22, 0.1]


TEXTS = ["", "é", "\u0001", 'a"b\\', "😀", "x" * 300]


KEYS = ["a", "b", "é", "zz", "Z", "", "a.b", "😀"]


def random_item(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(8 if depth < 4 else 6)
    if kind < 2:
        return rng.choice([None, True, False])
    if kind < 6:
        return rng.choice([NUMBERS, FLOATS, TEXTS, [rng.random()]][kind - 2])
    if kind == 6:
        return [random_item(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(KEYS): random_item(rng, depth + 1) for _ in range(rng.randrange(5))}


def random_texts(count: int) -> list[str]:
    rng = random.Random(7)
    spaces = [None, 2]
    found = [
        json.dumps(random_item(rng), ensure_ascii=rng.random() < 0.5, indent=rng.choice(spaces)) for _ in range(count)
    ]
    return [*found, "-0", "1e2", "1E+2", "0e0", "  [ ]  ", "-1e-7", "123456789012345678901234567890"]
