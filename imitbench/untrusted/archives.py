"""Checks zip archives by their declared sizes, before anything is unpacked."""

from __future__ import annotations

import struct
import zipfile
import zlib
from lzma import LZMAError
from typing import IO

from imitbench.untrusted.limits import beyond, limits
from imitbench.untrusted.messages import error_line

DAMAGED_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    LZMAError,
    struct.error,
    NotImplementedError,
    EOFError,
    ValueError,  # among them names that are not UTF-8
    LookupError,
    OverflowError,
    RuntimeError,  # an encrypted member
    MemoryError,
)
"""Exceptions of the standard library for damaged archives, besides `OSError`."""

_ALWAYS_FINE = 64 * 2**20
_LOCAL = struct.Struct("<4s5H3L2H")
_MARK = b"PK\x03\x04"
_FIELD = struct.Struct("<2H")
_WIDE = 1  # extra field with sizes of eight bytes
_STREAMED = 8  # flag: sizes stand behind the content
_NOT_HERE = 0xFFFFFFFF  # sizes of large files stand in an extra field
_BEST_DEFLATE = 1100  # no more bytes than this can come out of one packed byte


def check_archive(archive: zipfile.ZipFile, size: int) -> None:
    """Refuses archives that would unpack to more than they can hold, and those that lie.

    Args:
        archive: An open archive.
        size: Bytes of its file.

    Raises:
        ValueError: There are too many members; they unpack to too much, share bytes, lie outside
            of the file, or their sizes differ between the directory and their own headers.
    """
    members, bounds = archive.infolist(), limits()
    if len(members) > bounds.members:
        raise ValueError(beyond("members", f"{len(members):,} members"))
    unpacked = sum(member.file_size for member in members)
    if unpacked > bounds.unpacked_bytes:
        raise ValueError(beyond("unpacked_bytes", f"unpacks to {unpacked:,} bytes"))
    end = 0
    for member in sorted(members, key=lambda member: member.header_offset):
        if member.header_offset < end:
            raise ValueError(f"{_name(member)} shares bytes with another member")
        assert archive.fp is not None
        end = _end(archive.fp, member, size)
        if member.file_size > max(bounds.ratio * member.compress_size, _ALWAYS_FINE):
            raise ValueError(
                f"{_name(member)} "
                + beyond(
                    "ratio", f"declares {member.file_size:,} bytes in {member.compress_size:,}"
                )
                + ", as zip bombs do"
            )


def _end(stream: IO[bytes], member: zipfile.ZipInfo, size: int) -> int:
    """Returns where a member ends, after checking its own header against the directory."""
    stream.seek(member.header_offset)
    header = stream.read(_LOCAL.size)
    if len(header) < _LOCAL.size:
        raise ValueError(f"{_name(member)} lies outside of the file")
    mark, _, flags, method, _, _, crc, packed, unpacked, name, extra = _LOCAL.unpack(header)
    end = member.header_offset + _LOCAL.size + int(name) + int(extra) + member.compress_size
    if end > size:
        raise ValueError(f"{_name(member)} is longer than the file")
    if mark != _MARK:
        raise ValueError(f"{_name(member)} does not begin where the directory says")
    if method != member.compress_type:
        raise ValueError(f"{_name(member)} has two packings, {member.compress_type} and {method}")
    stream.seek(int(name), 1)
    unpacked, packed = _wide_sizes(stream.read(int(extra)), int(unpacked), int(packed))
    for declared, here in ((member.compress_size, packed), (member.file_size, unpacked)):
        if here != declared and not (flags & _STREAMED and here in (0, _NOT_HERE)):
            raise ValueError(f"{_name(member)} has two sizes, {declared:,} and {here:,}")
    if not flags & _STREAMED and crc != member.CRC:
        raise ValueError(f"{_name(member)} has two checksums")
    if method == zipfile.ZIP_STORED and member.file_size != member.compress_size:
        raise ValueError(f"{_name(member)} is not packed, but has two sizes")
    if method == zipfile.ZIP_DEFLATED and (
        member.file_size > _BEST_DEFLATE * (member.compress_size + 1)
    ):
        raise ValueError(f"{_name(member)} declares more bytes than it can unpack to")
    return end


def _wide_sizes(extra: bytes, unpacked: int, packed: int) -> tuple[int, int]:
    """Returns the sizes of a member, which stand in an extra field if they are large."""
    while len(extra) >= _FIELD.size:
        kind, length = _FIELD.unpack_from(extra)
        content, extra = extra[_FIELD.size : _FIELD.size + length], extra[_FIELD.size + length :]
        if kind == _WIDE:
            if unpacked == _NOT_HERE:
                unpacked, content = _number(content), content[8:]
            if packed == _NOT_HERE:
                packed = _number(content)
    return unpacked, packed


def _number(content: bytes) -> int:
    return int.from_bytes(content[:8], "little") if len(content) >= 8 else _NOT_HERE


def _name(member: zipfile.ZipInfo) -> str:
    return error_line(member.filename, 60)
