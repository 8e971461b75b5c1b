"""Validated number types: 64-bit integers, and finite floats."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

INTEGERS = range(-(2**63), 2**63)

Integer = Annotated[int, Field(ge=INTEGERS.start, lt=INTEGERS.stop)]
Count = Annotated[int, Field(ge=0, lt=INTEGERS.stop)]
Size = Annotated[int, Field(ge=1, lt=INTEGERS.stop)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
