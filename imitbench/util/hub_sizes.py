"""Limits on downloads: on the sizes that a hub states, and on the bytes that it sends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from imitbench.errors import InputError
from imitbench.untrusted.limits import beyond, limits
from imitbench.util.text_line import one_line


def stated_sizes(name: str, entries: Iterable[Any]) -> dict[str, int]:
    """Returns the size of each file in the hub's list of a repository.

    Args:
        name: Name of the repository, for messages.
        entries: Files and folders, of which a hub may send any number.

    Raises:
        InputError: There are too many, or a size is not a whole number from 0.
    """
    most = limits().entries
    listed = list(islice(entries, most + 1))
    if len(listed) > most:
        raise InputError(f"{name}: {beyond('entries', f'the hub lists more than {most:,} files')}")
    sizes = {}
    for entry in listed:
        size = getattr(entry, "size", None)
        if not hasattr(entry, "blob_id"):  # a folder
            continue
        if type(size) is not int or size < 0:
            raise InputError(
                f"{name}: the hub states the size {one_line(repr(size), 40)} of "
                f"{one_line(entry.path, 100)}; check HF_ENDPOINT"
            )
        sizes[entry.path] = size
    return sizes


def check_sizes(name: str, sizes: Mapping[str, int]) -> None:
    """Checks the sizes of files before the first of them is fetched.

    Args:
        name: Name of the repository, for messages.
        sizes: Stated size in bytes of each file.

    Raises:
        InputError: A file, or all together, are larger than the limit.
    """
    largest = max(sizes, key=lambda file: sizes[file], default=None)
    if largest is None:
        return
    if sizes[largest] > limits().hub_file_bytes:
        found = f"{one_line(largest, 100)} has {sizes[largest]:,} bytes"
        raise InputError(f"{name}: {beyond('hub_file_bytes', found)}")
    total = sum(sizes.values())
    if total > limits().hub_pull_bytes:
        found = f"{len(sizes)} files have {total:,} bytes together"
        raise InputError(f"{name}: {beyond('hub_pull_bytes', found)}")


def counting_bar(name: str, file: str, size: int) -> type:
    """Returns a class of progress bars that ends a download with more bytes than stated.

    The client tells its bar of each piece before it writes the piece.

    Args:
        name: Name of the repository, for messages.
        file: Name of the file.
        size: Its stated size in bytes.
    """
    from huggingface_hub.utils.tqdm import tqdm

    class CountingBar(tqdm):
        arrived: float = 0

        def update(self, n: float | None = 1) -> Any:
            self.arrived += n or 0  # negative where the client begins anew
            if self.arrived > size:
                raise InputError(
                    f"{name}: the hub sends more of {one_line(file, 100)} than the {size:,} bytes "
                    "that it states; try again later, or check HF_ENDPOINT"
                )
            return super().update(n)

    return CountingBar
