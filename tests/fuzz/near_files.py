"""Values, and damage, from which targets make files that nearly fit."""

import json
import struct
from pathlib import Path

from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]

NUMBERS = st.one_of(
    st.integers(-3, 70),
    st.sampled_from([2**31, 2**63, 2**64, 10**12, 10**18, 10**30, -(10**30), 67_108_864]),
    st.floats(width=64),
    st.booleans(),
)
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["=1+1", "\x1b[2J", "\x07", "\r\n", "inf", "nan", "../x", "a" * 5000, "\0"]),
)
VALUES = st.recursive(
    st.one_of(st.none(), NUMBERS, TEXTS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)


def changed(document, draw):
    """A document with one or two values replaced, removed or added, at any depth."""
    document = json.loads(json.dumps(document))
    for _ in range(draw(st.integers(1, 2))):
        place = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and place[key] and draw(st.booleans()):
                place = place[key]
                continue
            if draw(st.integers(0, 9)) == 0:
                del place[key]
            else:
                place[key] = draw(VALUES)
            break
    return document


def damaged(content, draw):
    """Bytes with a few places changed, cut off, or repeated."""
    data = bytearray(content)
    for _ in range(draw(st.integers(0, 4))):
        if not data:
            break
        at = draw(st.integers(0, len(data) - 1))
        kind = draw(st.integers(0, 4))
        if kind == 0:
            data[at] = draw(st.integers(0, 255))
        elif kind == 1:
            data[at : at + 4] = struct.pack("<I", draw(st.sampled_from([0, 1, 2**31, 2**32 - 1])))
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            data[at:at] = data[at : at + draw(st.integers(1, 40))]
        else:
            data[at : at + 8] = struct.pack("<q", draw(st.sampled_from([-1, 10**12, 2**62])))
    return bytes(data)
