"""Figures and pages of learned rewards."""

import functools
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.image import imread

from imitbench.errors import InputError
from imitbench.report import reward_figure
from imitbench.report.inline_svg import inline_svg
from imitbench.report.reward_figure import render_figure, render_page, write_picture
from imitbench.rewards.distances import Steps
from imitbench.rewards.pictures import (
    RewardMap,
    RewardPicture,
    Scale,
    Sensitivity,
    agreement,
    behavior,
)

HOSTILE = "<script>alert(1)</script> $x_1$ & co"


def picture(true=True, names=("expert", "policy", "random actions"), shares=(0.5, 0.25, None)):
    rng = np.random.default_rng(0)
    x, y = np.linspace(-1, 1, 7), np.linspace(0, 2, 5)
    learned = rng.normal(size=(5, 7))
    steps = Steps(*rng.normal(size=(2, 20, 2)), rng.normal(size=(20, 2)), np.zeros(20, bool))
    behaviors = tuple(
        behavior(lambda obs, *_: obs[:, 0], name, [(steps, steps.obs[:, 1])]) for name in names
    )
    return RewardPicture(
        reward=HOSTILE,
        environment="Pendulum-v1",
        map=RewardMap(
            ("first (m)", "second"), x, y, learned, 2 * learned if true else None,
            rng.normal(size=(3, 40)), agreement(learned, 2 * learned) if true else None,
            "zero", "the next observation is the same one",
        ),
        behaviors=behaviors,
        learned_scale=Scale(1.5, 2.0),
        true_scale=Scale(-0.5, 0.0),
        sensitivities=tuple(
            Sensitivity(f"dim{number}", "action" if number == 2 else "observation", share)
            for number, share in enumerate(shares)
        ),
        steps=60,
        seed=4,
    )  # fmt: skip


@functools.cache
def drawn(kind):
    """The figure of `picture()`, or its page as `html`, which take a second each."""
    return render_page(picture()) if kind == "html" else render_figure(picture(), kind)


def texts(content):
    return [
        "".join(each.itertext())
        for each in ET.fromstring(content).iter()
        if each.tag.endswith("}text")
    ]


def test_the_figure_states_what_it_shows():
    shown = " ".join(texts(drawn("svg")))
    for words in (
        "learned reward", "true reward", "first (m)", "second", "expert: rank correlation",
        "random actions: rank correlation", "learned reward: (r - 1.5) / 2",
        "true reward: always -0.5", "the action is zero", "Breiman 2001", "Seed: 4", "dim0",
        "hatched: action", HOSTILE,
    ):  # fmt: skip
        assert words in shown
    assert "visited states" not in shown.partition("Maps")[0]


def test_a_scatter_says_that_it_is_one():
    shown = " ".join(texts(render_figure(picture(true=False), "svg")))
    assert "true reward of visited states" in shown
    assert "cannot be put into these states" in shown


def test_a_constant_map_states_its_value():
    known = picture()
    flat = replace(known.map, true=np.full((5, 7), -1.0), agreement=agreement(*np.zeros((2, 9))))
    shown = " ".join(texts(render_figure(replace(known, map=flat), "svg")))
    assert "true reward: always -1" in shown
    assert "Rank correlation over the map: n/a" in shown


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_equal_numbers_give_equal_files(kind):
    assert render_figure(picture(), kind) == drawn(kind)


def test_all_else_is_drawn_where_the_reward_is_constant():
    shown = " ".join(texts(render_figure(picture(shares=(None, None)), "svg")))
    assert "the learned reward is constant" in shown


def test_of_many_dimensions_the_largest_are_drawn():
    shares = tuple(float(number) for number in range(1, 50))
    shown = texts(render_figure(picture(shares=shares), "svg"))
    names = [name for name in shown if name.startswith("dim")]
    assert len(names) == reward_figure.MOST_BARS
    assert names[-1] == "dim48"
    assert any("19 smallest" in line for line in shown)
    assert render_page(picture(shares=shares)).count(">dim") > 49  # the table has all


def test_without_expert_and_policy_random_actions_fill_the_row():
    assert "expert:" not in " ".join(texts(render_figure(picture(names=["random actions"]), "svg")))


def test_the_page_contains_figure_and_numbers_and_loads_nothing():
    page = drawn("html")
    assert "default-src &#x27;none&#x27;" in page
    assert "<script>alert" not in page
    drawing = page[page.index("<svg") : page.rindex("</svg>") + 6]
    assert " style=" not in drawing  # the policy would ignore it
    assert "<style" not in drawing
    links = re.findall(r'href="([^"]*)"', drawing)
    assert links
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    assert "http" not in drawing.replace("http://www.w3.org", "")
    assert ">dim1<" in page[page.rindex("</svg>") :]
    assert "0.25" in page
    ET.fromstring(f'<svg xmlns="http://www.w3.org/2000/svg">{drawing}</svg>')


def test_a_browser_accepts_all_of_the_page(chromium, tmp_path):
    path = tmp_path / "page.html"
    write_picture(picture(), path)
    page = chromium.new_page()
    heard = []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.goto(path.as_uri())
    assert page.locator("figure svg").bounding_box()["width"] > 300
    page.get_by_role("button", name="Share").click()  # the table is sorted
    page.close()
    assert heard == []


def test_styles_become_attributes():
    svg = (
        b'<svg xmlns="http://www.w3.org/2000/svg" width="1pt" viewBox="0 0 1 1"><style>a</style>'
        b'<text style="font: bold 9px \'A\', b; text-anchor: middle" x="1">a &lt; b</text></svg>'
    )
    shown = inline_svg(svg, "what")
    assert "width" not in shown
    assert 'viewBox="0 0 1 1"' in shown
    assert 'aria-label="what"' in shown
    for part in ('font-weight="bold"', 'font-size="9px"', 'text-anchor="middle"', ">a &lt; b<"):
        assert part in shown


def test_files_are_written_whole_by_their_suffix(tmp_path):
    for name in ("a.png", "b.SVG", "c.html"):
        write_picture(picture(), tmp_path / "new" / name)
    assert imread(tmp_path / "new/a.png").shape[1] > 1000
    assert (tmp_path / "new/b.SVG").read_bytes() == drawn("svg")
    assert (tmp_path / "new/c.html").read_text() == drawn("html")
    assert sorted(each.name for each in (tmp_path / "new").iterdir()) == [
        "a.png",
        "b.SVG",
        "c.html",
    ]


def test_existing_files_are_replaced_only_on_request(tmp_path):
    path = tmp_path / "a.svg"
    path.write_text("mine")
    with pytest.raises(InputError, match="already exists; name another file, or pass --force"):
        write_picture(picture(), path)
    assert path.read_text() == "mine"
    write_picture(picture(), path, replace=True)
    assert path.read_text() != "mine"


def test_a_folder_is_no_target(tmp_path):
    (tmp_path / "a.png").mkdir()
    with pytest.raises(InputError, match="is not a file"):
        write_picture(picture(), tmp_path / "a.png", replace=True)


def test_a_file_that_cannot_be_written_is_one_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"a\.png: cannot be written"):
        write_picture(picture(), tmp_path / "file" / "a.png")
