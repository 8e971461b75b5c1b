"""Numbers that arrays and databases hold: integers of 64 bits, and floats that are numbers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Integer = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Size = Annotated[int, Field(ge=1, lt=2**63)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
