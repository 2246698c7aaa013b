"""No name in kbroker lives for its tests alone: each is used in kbroker, or says here what will use
it.

A name counts as used where code of kbroker reads it anywhere, on whatever object: what shares its
name with something in use passes. Methods that override those of a library's class are called by
the library, decorated functions by whoever decorates them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from tests.source_trees import (
    ROOT,
    classes_that_override,
    last_name,
    nodes_of_kbroker,
    trees_of_kbroker,
)

# By file and name: what will use it. An entry goes when it is used.
WILL_BE_USED = {
    # the embedded broker for users' tests
    ("config/kafka_config.py", "for_profile"): "its settings",
    ("server/start/local_cluster.py", "kill_broker"): "a broker that fails in a user's test",
    ("zk/embedded/embedded_tree.py", "suspend"): "a tree that is away in a user's test",
    # the pages of the console, which ask these
    ("console/consoled_cluster.py", "at_work"): "their limits, and the end of what was given up",
    # entrances of their own
    ("errors.py", "_missing_"): "Python, for a number without a member",
    ("zk/ensemble/kazoo_requests.py", "serialize"): "kazoo, which asks it of every request",
    ("zk/ensemble/kazoo_requests.py", "deserialize"): "the same",
}
PLAIN_DECORATORS = {
    "abstractmethod",
    "cached_property",
    "classmethod",
    "dataclass",
    "property",
    "staticmethod",
}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def test_every_name_is_used_in_kbroker_or_says_what_will_use_it() -> None:
    trees, nodes = trees_of_kbroker(), nodes_of_kbroker()
    used = {name for its in nodes.values() for name in names_read(its)}
    overriding = classes_that_override(chain.from_iterable(nodes.values()))
    unused = {
        (place(path), name)
        for path, tree in trees.items()
        for name in names_defined(tree.body, overriding)
        if name not in used
    }

    assert unused - WILL_BE_USED.keys() == set(), "delete it, or say what will use it"
    assert WILL_BE_USED.keys() - unused == set(), "used, or gone: no reason is needed any more"


def place(path: Path) -> str:
    return path.relative_to(ROOT / "kbroker").as_posix()


def names_read(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value  # a type in quotes, a name for getattr


def names_defined(body: list[ast.stmt], overriding: set[str]) -> Iterator[str]:
    """Functions, classes and constants of a module, methods of a class."""
    for node in body:
        if isinstance(node, Definition):
            if not node.name.startswith("__") and not is_called_by_its_decorator(node):
                yield node.name
            if isinstance(node, ast.ClassDef) and node.name not in overriding:
                yield from names_defined(list(filter(is_definition, node.body)), overriding)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            yield from names - {"__all__"}


def is_definition(node: ast.stmt) -> bool:
    return isinstance(node, Definition)


def is_called_by_its_decorator(node: Definition) -> bool:
    return any(last_name(decorator) not in PLAIN_DECORATORS for decorator in node.decorator_list)


def test_a_name_that_nothing_reads_is_found() -> None:
    tree = ast.parse(
        "USED = 1\nUNUSED = USED\n"
        "class Own:\n    def lonely(self): ...\n    def asked(self): ...\n"
        "class Heir(library.Base):\n    def called_by_the_library(self): ...\n"
        "class Grandchild(Heir):\n    def called_too(self): ...\n"
        "@command()\ndef registered(): ...\n"
        "Grandchild, Own().asked()\n"
    )
    nodes = list(ast.walk(tree))
    used = set(names_read(nodes))

    overriding = classes_that_override(nodes)

    assert overriding == {"Heir", "Grandchild"}
    assert [name for name in names_defined(tree.body, overriding) if name not in used] == [
        "UNUSED",
        "lonely",
    ]
