"""Parses YAML with bounds on nodes, nesting and numbers, before any value is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from imitbench.untrusted.limits import beyond, limits

_NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})

if TYPE_CHECKING or not yaml.__with_libyaml__:
    _Loader = yaml.SafeLoader
else:

    class _Loader(yaml.composer.Composer, yaml.CSafeLoader):
        """Parses in C, six times as fast; composes in Python, which supports any nesting."""

        def __init__(self, text: str) -> None:
            yaml.CSafeLoader.__init__(self, text)
            yaml.composer.Composer.__init__(self)


class BoundedLoader(_Loader):
    """Builds plain values, and refuses documents beyond `yaml_nodes` and `yaml_depth`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.limits = limits()
        self._count = self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Composes a node; counts it first."""
        self._count += 1
        self._depth += 1
        if self._count > self.limits.yaml_nodes:
            raise _too_much("yaml_nodes", f"more than {self.limits.yaml_nodes:,} values")
        if self._depth > self.limits.yaml_depth:
            raise _too_much("yaml_depth", "nested too deeply")
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def load_yaml(
    text: str, loader: type[BoundedLoader] = BoundedLoader
) -> tuple[yaml.Node | None, Any]:
    """Parses one document.

    Args:
        text: The document.
        loader: Class that builds the values.

    Returns:
        The root node, with the lines of the text, and the plain values; both `None` for an empty
        document.

    Raises:
        yaml.YAMLError: The text is not YAML, or beyond a limit. Aliases and merge keys count as
            often as they are used, so that a few lines cannot double again and again.
        Exception: As `imitbench.util.parse_errors.UNREADABLE_YAML`, for values that do not have
            the type of their form.
    """
    opened = loader(text)
    root = opened.get_single_node()
    if root is None:
        return None, None
    if _expanded(root, {}, opened.limits.number_digits) > opened.limits.yaml_nodes:
        raise _too_much("yaml_nodes", "more values after its aliases are expanded")
    return root, opened.construct_document(root)


def _expanded(node: yaml.Node, known: dict[int, int], most_digits: int) -> int:
    """Counts values as often as aliases and merge keys use them; checks numbers on the way."""
    if id(node) in known:
        if not known[id(node)]:
            raise yaml.YAMLError("an alias within the value that it stands for")
        return known[id(node)]
    known[id(node)] = 0  # while it is being counted
    total = 1
    if isinstance(node, yaml.ScalarNode):
        # A number with colons, in base 60, takes time that grows with the square of its length.
        if node.tag in _NUMBERS and len(node.value) > most_digits:
            raise _too_much("number_digits", f"a number of {len(node.value):,} digits")
    elif isinstance(node, yaml.MappingNode):
        total += sum(_expanded(part, known, most_digits) for pair in node.value for part in pair)
    elif isinstance(node, yaml.SequenceNode):
        total += sum(_expanded(part, known, most_digits) for part in node.value)
    known[id(node)] = total
    return total


def _too_much(limit: str, found: str) -> yaml.YAMLError:
    return yaml.YAMLError(beyond(limit, found))
