"""Tables of preferences of people are read as they were written, and damaged ones are refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from imitbench.data.preference_table import (
    PreferenceRow,
    RecordedAnswer,
    read_preferences,
    write_preferences,
)
from imitbench.data.trajectories import TrajectoryWithRew
from imitbench.errors import InputError

FRAGMENT = TrajectoryWithRew(np.zeros((3, 1)), np.zeros((2, 1)), None, False, np.zeros(2))
ANSWERS = [
    RecordedAnswer("annotator 1", 0.5, "tie", False, "new", 1.0, 3),
    RecordedAnswer("annotator 2", None, "skip", True, "repeat", 1.0, None),
]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "train-00000-of-00001.parquet"
    write_preferences(path, [PreferenceRow("pair", FRAGMENT, FRAGMENT, 0.5, 1.0, ANSWERS)])
    return path


def test_answers_are_read_as_they_were_written(file):
    [row] = read_preferences(file)
    assert row == PreferenceRow("pair", FRAGMENT, FRAGMENT, 0.5, 1.0, ANSWERS)


@pytest.mark.parametrize("name", [None, "annotator", "choice", "swapped", "purpose", "weight"])
def test_an_answer_that_lacks_a_part_is_refused(file, name):
    table = pq.read_table(file)
    at = table.column_names.index("answers")
    complete = table["answers"].to_pylist()[0][0]
    answer = None if name is None else complete | {name: None}
    answers = pa.array([[complete, answer]], table.schema.field(at).type)
    pq.write_table(table.set_column(at, "answers", answers), file)
    message = rf"row 0: an answer lacks {name or 'annotator'}; export it again"
    with pytest.raises(InputError, match=message):
        read_preferences(file)
