"""Colors and shapes belong to the names of methods."""

from imitbench.cards.catalog import algorithm_names, load_algorithm
from imitbench.report.model import KNOWN, PALETTE, SHAPES, method_colors, shape_of
from imitbench.report.plots import algorithm_styles


def test_methods_that_ship_are_told_apart_and_look_the_same_in_any_company():
    names = [name for name in algorithm_names() if load_algorithm(name).role == "method"]
    together = method_colors(names)
    assert len(names) >= 24
    assert len(set(together.values())) == len(names)
    for name in names:
        assert method_colors([name, "mine"])[name] == together[name]


def test_other_names_keep_clear_of_known_ones_and_depend_on_their_name():
    alone = method_colors(["mine"])["mine"]
    assert alone >= len(KNOWN)
    assert method_colors([*KNOWN, "mine"])["mine"] == alone
    many = [f"method_{number}" for number in range(len(PALETTE) * len(SHAPES))]
    assert len(set(method_colors(many).values())) == len(many)
    assert method_colors(many[::-1]) == method_colors(many)
    assert len(method_colors([*many, "one_more"])) == len(many) + 1


def test_figures_show_a_method_as_the_pages_do(report):
    looks = algorithm_styles(report)
    numbers = method_colors(looks)
    assert set(looks) == {"bc", "gail"}
    for name, look in looks.items():
        assert look.color == PALETTE[numbers[name] % len(PALETTE)]
        assert look.shape == shape_of(numbers[name])
    assert looks["bc"] != looks["gail"]
