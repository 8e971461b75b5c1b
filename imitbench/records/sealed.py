"""Records with a digest over their content, which shows whether a file was edited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imitbench.records.runs import Record, canonical_digest

if TYPE_CHECKING:
    from typing_extensions import Self


class SealedRecord(Record):
    """A record with a digest over its other fields.

    Subclasses declare the field `digest: str = ""` themselves, as the order of fields is that of
    the lines in their files.
    """

    if TYPE_CHECKING:
        digest: str = ""

    @property
    def own_digest(self) -> str:
        """The correct value of `digest`."""
        return canonical_digest(self.model_dump(mode="json", exclude={"digest"}))

    def sealed(self) -> Self:
        """Returns the same record with its digest."""
        return self.model_copy(update={"digest": self.own_digest})

    def text(self) -> str:
        """Returns the content of its file."""
        return self.model_dump_json(indent=1) + "\n"
