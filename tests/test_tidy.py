"""The project's laws as tests over its source: sizes, layers, purity, one API key per file."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.schema import request_class
from tests.source_trees import MODULES, ROOT, nodes_of_kbroker, parsed, trees_of_kbroker

TEST_MODULES = sorted([*(ROOT / "tests").rglob("*.py"), *(ROOT / "compat_tests").rglob("*.py")])

MAX_FILE_LINES = 500
MAX_TEST_FILE_LINES = 800
MAX_FUNCTION_LINES = 60
# A listed function has its present size and may only shrink.
FUNCTION_RATCHET: dict[tuple[str, str], int] = {}

IMPURE = {
    "asyncio", "socket", "time", "datetime", "random", "threading", "os", "logging", "pathlib",
    "kazoo", "uvloop", "mmap", "subprocess",
}  # fmt: skip
FILE_ACCESS = {"mmap", "fcntl", "shutil", "tempfile", "pathlib"}
ONE_HOME = {
    "textual": "cli/top/row_list.py cli/top/screen.py",
    "uvloop": "server/start/event_loop.py",
    "h11": "http/connection.py http/exchange.py",
    "kazoo": "zk/ensemble/kazoo_connection.py zk/ensemble/kazoo_parts.py "
    "zk/ensemble/kazoo_requests.py",
    "mmap": "log/disk/file_system.py network/receive_buffers.py",
}


# Rooms whose tests still reach for private names of kbroker; the list may only shrink.
REACH_PRIVATE_NAMES = (
    "tests/fakes/trees/simulated_tree.py",
    "tests/faults/cluster_bugs.py",
    "tests/faults/cluster_checks.py",
    "tests/faults/cluster_model.py",
    "tests/faults/crash_load.py",
    "tests/faults/group_bugs.py",
    "tests/faults/login_bugs.py",
    "tests/faults/loop_holds.py",
    "tests/faults/planted_bugs.py",
    "tests/faults/protocol_change_bugs.py",
    "tests/faults/replication_bugs.py",
    "tests/faults/replication_faults.py",
    "tests/faults/replication_simulation.py",
    "tests/faults/rules_bugs.py",
    "tests/faults/short_way_bugs.py",
    "tests/faults/transaction_bugs.py",
    "tests/faults/test_planted_cleaning_bugs.py",
    "tests/integration/test_tree_on_an_ensemble.py",
    "tests/unit/pipeline/logdir/directory/test_lock_probe.py",
    "tests/unit/pipeline/spark_job/",
)


@pytest.fixture(scope="module")
def trees() -> Mapping[Path, ast.Module]:
    """The parsed modules; every rule looks at all of them."""
    return trees_of_kbroker()


@pytest.fixture(scope="module")
def nodes() -> Mapping[Path, list[ast.AST]]:
    """All that stands in each module."""
    return nodes_of_kbroker()


@pytest.fixture(scope="module")
def imports(nodes: Mapping[Path, list[ast.AST]]) -> dict[Path, set[str]]:
    """Top-level packages that each module imports, anywhere in it."""
    return {path: top_level_packages(its) for path, its in nodes.items()}


def imported_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def top_level_packages(nodes: Iterable[ast.AST]) -> set[str]:
    return {name.partition(".")[0] for name in imported_names(nodes)}


def inside(path: Path) -> str:
    return path.relative_to(ROOT / "kbroker").as_posix()


def is_pure(path: Path, trees: Mapping[Path, ast.Module]) -> bool:
    """Whether a module says "Pure." or "Pure:", or a package that it is in."""
    told = [path, *(parent / "__init__.py" for parent in path.parents)]
    docs = (ast.get_docstring(trees[each]) or "" for each in told if each in trees)
    return any(re.search(r"\bPure[.:]", doc) for doc in docs)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def importers(imports: dict[Path, set[str]], *packages: str) -> set[str]:
    """Modules that import one of the packages, by their place in kbroker."""
    return {inside(path) for path, found in imports.items() if found & {*packages}}


def longer_than(lines_max: int, paths: list[Path]) -> list[str]:
    lines = {path: len(path.read_text().splitlines()) for path in paths}
    return [f"{relative(path)} has {lines[path]}" for path in paths if lines[path] > lines_max]


def test_modules_that_say_pure_know_no_clock_socket_file_or_log(
    imports: dict[Path, set[str]],
) -> None:
    trees = trees_of_kbroker()
    pure = {inside(path) for path in MODULES if is_pure(path, trees)}
    assert len(pure) > 200
    assert pure & importers(imports, *IMPURE) == set()


def test_files_stay_small() -> None:
    assert longer_than(MAX_FILE_LINES, MODULES) == []


def test_test_files_stay_small() -> None:
    assert longer_than(MAX_TEST_FILE_LINES, TEST_MODULES) == []


def test_functions_stay_short(nodes: Mapping[Path, list[ast.AST]]) -> None:
    too_long = [
        f"{node.name} of {relative(path)} has {length} lines"
        for path, its in nodes.items()
        for node in its
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1)
        > FUNCTION_RATCHET.get((path.name, node.name), MAX_FUNCTION_LINES)
    ]
    assert not too_long


def test_every_module_with_code_says_what_lives_in_it(trees: Mapping[Path, ast.Module]) -> None:
    silent = [path for path, tree in trees.items() if tree.body and not ast.get_docstring(tree)]
    assert [relative(path) for path in silent] == []


@pytest.mark.parametrize("package", sorted(ONE_HOME))
def test_some_imports_have_one_home(imports: dict[Path, set[str]], package: str) -> None:
    assert importers(imports, package) <= set(ONE_HOME[package].split())


def test_all_file_access_of_the_log_goes_through_the_file_system(
    imports: dict[Path, set[str]],
) -> None:
    log = {inside(path): path for path in MODULES if path.is_relative_to(ROOT / "kbroker" / "log")}
    del log["log/disk/file_system.py"]

    assert log.keys() & importers(imports, *FILE_ACCESS) == set()
    assert [place for place, path in log.items() if opens_a_file(path.read_text())] == []


def opens_a_file(source: str) -> bool:
    return "open(" in re.sub(r"\w+\.open\(|_open\(", "", source)


APIS = {path.stem: path for path in (ROOT / "kbroker" / "apis").glob("*.py")}
DECLARED = {path.stem for path in (ROOT / "kbroker" / "protocol" / "messages").glob("*.py")}
KEYS = {key.module_name for key in ApiKey}


def test_a_file_registers_the_key_that_it_is_named_after_or_none() -> None:
    names = sorted(APIS.keys() - {"__init__"})
    registrations = {
        name: len(re.findall(r"^@api\(", APIS[name].read_text(), re.MULTILINE)) for name in names
    }
    assert registrations == {name: int(name in KEYS) for name in names}


def test_a_key_has_its_messages_and_its_handler_in_files_of_its_name() -> None:
    for name in sorted((DECLARED | APIS.keys()) & KEYS):
        request = request_class(ApiKey[name.upper()])
        assert request is not None, name
        assert request.__module__ == f"kbroker.protocol.messages.{name}"


def test_what_the_spark_extra_brings_is_imported_by_the_pipeline_alone(
    imports: dict[Path, set[str]],
) -> None:
    homes = importers(imports, "matplotlib", "numpy", "pandas", "pyarrow", "pyspark")
    assert [place for place in homes if "pipeline" not in Path(place).parts] == []


# What grows by itself and is no counter of the broker: of one connection (the registry has their
# sums), what is held now, versions that tell whether something has changed, a debugging aid's.
NUMBERS_THAT_COUNT_NOTHING = {
    "admin/own_quotas.py": {"changes"},
    "coordinator/consumer_group/consumer_group.py": {"joins"},
    "coordinator/group/cluster_topics.py": {"arrivals"},
    "apis/request_counters.py": {"time_ns", "waited_ns"},  # of a histogram
    "log/segments/file_records.py": {"cuts"},
    "log/segments/index_file.py": {"room"},
    "log/partition/leader_epoch_cache.py": {"changes"},
    "log/partition/log_offsets.py": {"cuts"},
    "memory_room.py": {"taken_bytes"},
    "network/channel.py": {"bytes_in", "requests"},
    "network/connection_quotas.py": {"total"},
    "network/response_writer.py": {"bytes_out"},
    "quotas/client_limits.py": {"changes"},
    "quotas/rate.py": {"total"},
    "record/piece_stream.py": {"at"},
    "replication/reads/fetch_session_cache.py": {"weight"},
    "replication/reads/fetches.py": {"waiting_partitions"},
    "server/background/watchdog.py": {"blocks"},
    "turns.py": {"given"},
}


def test_what_a_broker_counts_is_a_counter(nodes: Mapping[Path, list[ast.AST]]) -> None:
    found: dict[str, set[str]] = {}
    for path, its in nodes.items():
        place = inside(path)
        if not place.startswith(("cli/", "pipeline/", "inspection/", "client/", "console/")):
            for name in loose_numbers(its):
                found.setdefault(place, set()).add(name)

    assert found == NUMBERS_THAT_COUNT_NOTHING


def loose_numbers(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Public attributes that begin as 0 and are incremented."""
    begun, grown = set(), set()
    for node in nodes:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = {
            target.attr
            for target in targets
            if isinstance(target, ast.Attribute)
            and isinstance(target.value, ast.Name)
            and target.value.id == "self"
            and not target.attr.startswith("_")
        }
        if isinstance(node, ast.AugAssign):
            grown |= names
        elif names and repr(getattr(getattr(node, "value", None), "value", None)) == "0":
            begun |= names
    yield from begun & grown


def test_no_module_carries_a_name_that_says_nothing() -> None:
    names = {path.stem for path in MODULES}
    assert not names & {"utils", "helpers", "common", "misc"}


def test_nothing_in_the_project_is_a_link_to_something_of_one_machine() -> None:
    found = [path.name for path in ROOT.iterdir() if path.is_symlink()]

    assert [name for name in found if not name.startswith(".")] == []


def test_nothing_is_left_for_later_in_the_code() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    assert not [relative(path) for path in MODULES if marks.search(path.read_text())]


def imported_modules(nodes: Iterable[ast.AST], names: set[str]) -> set[str]:
    """Modules of kbroker that one imports anywhere in it: in functions and for types too."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (parts & names) or {node.module or ""}
    return found & names


def import_circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """Groups of modules of which each reaches each other one."""
    reached: dict[str, set[str]] = {}
    for start in imports:
        seen, waiting = set(), [start]
        while waiting:
            new = imports[waiting.pop()] - seen
            seen |= new
            waiting.extend(new)
        reached[start] = seen
    circles: list[set[str]] = []
    for name, seen in reached.items():
        if name in seen and not any(name in circle for circle in circles):
            circles.append({other for other in seen if name in reached[other]})
    return circles


def test_no_modules_import_each_other_in_a_circle(nodes: Mapping[Path, list[ast.AST]]) -> None:
    """Not even lazily or for types alone: who reads one of a circle has to read them all."""
    named = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): its
        for path, its in nodes.items()
    }
    names = {*named}
    imported = {name: imported_modules(its, names) - {name} for name, its in named.items()}

    assert import_circles(imported) == []


def test_circles_are_found() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}}

    assert import_circles(imports) == [{"b", "c"}]


def late_attributes(tree: ast.AST) -> Iterator[str]:
    """Attributes that a class gets after its constructor."""
    for kind in ast.walk(tree):
        if not isinstance(kind, ast.ClassDef):
            continue
        made: set[str] = set()
        later: set[str] = set()
        for method in kind.body:
            is_constructor = isinstance(method, ast.FunctionDef) and method.name == "__init__"
            (made if is_constructor else later).update(
                node.attr
                for node in ast.walk(method)
                if isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
            )
        declared = {
            node.target.id
            for node in kind.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        }
        yield from (f"{kind.name}.{name}" for name in sorted(later - made - declared))


def test_what_puts_a_broker_together_has_all_its_attributes_from_the_start(
    trees: Mapping[Path, ast.Module],
) -> None:
    server = [tree for path, tree in trees.items() if inside(path).startswith("server/")]
    assert [name for tree in server for name in late_attributes(tree)] == []


def test_a_late_attribute_is_found() -> None:
    source = """
class Server:
    name: str

    def __init__(self):
        self.early = 1

    def start(self):
        self.early, self.late, self.name = 2, 3, ""
"""
    assert list(late_attributes(parsed(source))) == ["Server.late"]


def is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def names_made(node: ast.AST) -> Iterator[str]:
    """Yield the names a statement defines: functions, classes, variables, attributes of `self`."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield from [node.attr] if is_self(node.value) else []


def private_names(nodes: Mapping[Path, list[ast.AST]]) -> set[str]:
    """Return the names that kbroker defines for itself alone."""
    made = {
        name
        for its in nodes.values()
        for node in its
        for name in names_made(node)
        if re.fullmatch(r"_(?!_).+", name)
    }
    return made - {"_asdict", "_fields", "_make", "_replace"}  # of a named tuple: Python's, public


def names_reached(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names of other objects, imported, or with something in their place."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and not is_self(node.value):
            yield node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kbroker"):
            yield from (alias.name for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {"setattr", "object"}
        ):
            yield from (str(a.value) for a in node.args[1:2] if isinstance(a, ast.Constant))


def test_tests_reach_no_private_names(nodes: Mapping[Path, list[ast.AST]]) -> None:
    """And the list of those who do is true."""
    private = private_names(nodes)
    reaching: set[str] = set()
    for path in TEST_MODULES:
        source = path.read_text()
        if private.isdisjoint(re.findall(r"\w+", source)):
            continue  # two of three name none, and need not be parsed
        its = list(ast.walk(parsed(source)))
        reached = {*names_reached(its)} & private
        if reached and reached - {name for node in its for name in names_made(node)}:
            reaching.add(relative(path))

    assert [path for path in reaching if not path.startswith(REACH_PRIVATE_NAMES)] == []
    for room in REACH_PRIVATE_NAMES:
        assert any(path.startswith(room) for path in reaching), f"{room} reaches none any more"


def test_builders_take_more_than_three_arguments_by_keyword() -> None:
    builders = [
        node
        for path in (ROOT / "tests" / "fakes").glob("*.py")
        for node in parsed(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
    ]
    assert not [node.name for node in builders if len(node.args.args) > 3]


def test_a_source_is_parsed_whole_though_garbage_has_a_source_parsed() -> None:
    class Lost:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            ast.parse("((((((((1))))))))")

    source = max((path.read_text() for path in MODULES), key=len)
    thresholds = gc.get_threshold()
    gc.set_threshold(1)
    try:
        Lost()
        tree = parsed(source)
    finally:
        gc.set_threshold(*thresholds)

    assert ast.unparse(tree)
