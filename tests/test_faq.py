"""The FAQ quotes error messages as the source has them, with a gap for each value."""

import re
from pathlib import Path

import pytest
from support.messages import GAP, is_said

FAQ = (Path(__file__).resolve().parents[1] / "docs" / "faq.md").read_text()
QUOTED = [
    line
    for block in re.findall(r"^```text\n(.*?)^```$", FAQ, re.M | re.S)
    for line in block.splitlines()
]


@pytest.mark.parametrize("message", QUOTED)
def test_quoted_messages_occur_in_the_source(message):
    assert is_said(message)


def test_a_message_that_is_not_in_the_source_is_detected():
    assert is_said(f"suite {GAP}: no such suite; {GAP}")
    assert not is_said(f"suite {GAP}: no such sweet; {GAP}")


def test_quoted_messages_have_enough_words_to_identify_them():
    """Gaps match anything, so the words between them must identify the message."""
    assert all(len(message.replace(GAP, "").split()) >= 3 for message in QUOTED)


def test_every_symptom_has_a_fix():
    symptoms = re.split(r"^### ", FAQ, flags=re.M)[1:]
    assert symptoms
    for symptom in symptoms:
        assert "*Fix*" in symptom, symptom.splitlines()[0]
