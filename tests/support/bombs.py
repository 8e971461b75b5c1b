"""Objects and files that create a marker file when they are unpickled."""

import base64
import io
import json
import pickle
import zipfile

import torch as th


class Bomb:
    """Creates the file `mark` when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


def tensor_file(state, **kwargs):
    """Returns the bytes that torch saves."""
    stream = io.BytesIO()
    th.save(state, stream, **kwargs)
    return stream.getvalue()


def read_zip(path):
    """Returns the files of a zip by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_zip(path, files, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def with_bombs_in_data(data, mark):
    """Returns the `data` of a zip with every pickle replaced by a bomb."""
    document = json.loads(data)
    pickled = base64.b64encode(pickle.dumps(Bomb(mark))).decode()
    for value in document.values():
        if isinstance(value, dict) and ":serialized:" in value:
            value[":serialized:"] = pickled
    return json.dumps(document)
