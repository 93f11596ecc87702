"""The house rules that a machine can check. If one is in the way, change it here, in the open."""

import ast
import graphlib
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

PACKAGE = "cometmq"
SOURCE = Path(__file__).parent.parent / "src" / PACKAGE
LAYERS = [
    "errors log_event",
    "protocol",
    "region descriptors",
    "seams disk local_address collector printable",
    "background refusal_log",
    "settings",
    "store remoting",
    "namesrv broker client",
    "admin standalone blocking",
    "compat",
    "console spark testing self_check demo",
    "logs running",
    "process",
    "__init__",
    "cli",
    "__main__",
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names.split()}
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
# Ratchets: lower a figure when the code allows it, and never raise one.
FOLDER_FILES_MAX = 20
SHARED_NAMES_MAX = 0  # classes with the name of another
FAN_OUT = 12  # modules of ours that one module imports
WIDE_FAN_OUT_MAX = 46  # modules that import more
COLLABORATORS = 8  # parameters of a constructor
WIDE_CONSTRUCTORS_MAX = 2
SHORT_DOCSTRINGS_MAX = 58  # of three words or fewer
# They mirror the names of the clients.
MIRRORS = {"blocking", "compat"}
IMPURE = {"asyncio", "socket", "selectors", "threading", "time", "random", "os", "io"}
IMPURE |= {"logging", "mmap", "pathlib", "subprocess"}
# Nothing that a peer sends may ever reach one of these.
DANGEROUS = {"subprocess", "pickle", "marshal", "shelve", "ctypes", "code", "pty"}
ALLOWED = {"spark.setup.doctor": {"subprocess"}}  # runs pip, when the user says --fix

FILES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in SOURCE.rglob("*.py")
}


@cache  # and not on import: each of the processes that run the tests imports this file
def tree_of(name: str) -> ast.Module:
    """What a module says."""
    return ast.parse(FILES[name].read_text())


@cache
def imports_of(name: str) -> set[str]:
    """Dotted names this module imports, whether `import a.b` or `from a import b`."""
    found = set()
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def module_of(full: str) -> str:
    """The key of FILES that a dotted name is in: a module, a package, or what either defines."""
    name = full.removeprefix(PACKAGE).removeprefix(".")
    while name not in FILES:
        package = f"{name}.__init__" if name else "__init__"
        if package in FILES:
            return package
        name = name.rpartition(".")[0]
    return name


@cache
def own_imports_of(name: str) -> set[str]:
    """Modules of ours that this module imports, as keys of FILES."""
    ours = {full for full in imports_of(name) if full.split(".")[0] == PACKAGE}
    return {module_of(full) for full in ours} - {name}


@pytest.mark.parametrize("name", FILES)
def test_imports_go_down_never_up_or_across(name):
    layer = name.split(".")[0]
    for target in own_imports_of(name):
        other = target.split(".")[0]
        assert other == layer or LEVEL[other] < LEVEL[layer], f"{name} imports {target}"


def test_no_import_cycle():
    tuple(graphlib.TopologicalSorter({name: own_imports_of(name) for name in FILES}).static_order())


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("protocol.")])
def test_protocol_touches_no_world(name):
    assert not {full.split(".")[0] for full in imports_of(name)} & IMPURE


@pytest.mark.parametrize("name", FILES)
def test_sizes_and_docstring(name):
    assert len(FILES[name].read_text().splitlines()) <= FILE_LINES_MAX
    assert ast.get_docstring(tree_of(name)), f"{name} does not say what it holds"
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            length = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert length <= FUNCTION_LINES_MAX, f"{name}.{node.name} is {length} lines"


@pytest.mark.parametrize("name", FILES)
def test_nothing_dangerous_is_in_reach(name):
    found = {full.split(".")[0] for full in imports_of(name)} & DANGEROUS
    assert found <= ALLOWED.get(name, set())
    called = {
        node.func.id
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"eval", "exec", "compile", "__import__"}


def classes():
    """Every class of the package with its module."""
    for name in FILES:
        for node in ast.walk(tree_of(name)):
            if isinstance(node, ast.ClassDef):
                yield name, node


def test_folders_are_small():
    folders = Counter(path.parent for path in FILES.values() if path.name != "__init__.py")
    folder, count = folders.most_common(1)[0]
    assert count <= FOLDER_FILES_MAX, folder


def test_class_names_are_unique():
    homes = defaultdict(set)
    for name, node in classes():
        if node in tree_of(name).body and not MIRRORS & set(name.split(".")):
            homes[node.name].add(name)
    twice = {known: found for known, found in homes.items() if len(found) > 1 and known[0] != "_"}
    assert len(twice) <= SHARED_NAMES_MAX, twice


def test_few_modules_import_many():
    wide = [name for name in FILES if len(own_imports_of(name)) > FAN_OUT]
    assert len(wide) <= WIDE_FAN_OUT_MAX, sorted(wide)


def width_of(node: ast.ClassDef) -> int:
    """How many values a constructor takes. Values without behavior may have many fields."""
    bases = " ".join(map(ast.unparse, node.bases))
    if "Struct" in bases or node.name.endswith(("Config", "Options", "Limits", "Context")):
        return 0
    if any("dataclass" in ast.unparse(each) for each in node.decorator_list):
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
        return sum(each.value is None or "init=False" not in ast.unparse(each) for each in fields)
    inits = [each for each in node.body if getattr(each, "name", "") == "__init__"]
    return max((len(each.args.args) + len(each.args.kwonlyargs) - 1 for each in inits), default=0)


def test_constructors_are_narrow():
    widths = {f"{name}.{node.name}": width_of(node) for name, node in classes()}
    wide = {known: width for known, width in widths.items() if width > COLLABORATORS}
    assert len(wide) <= WIDE_CONSTRUCTORS_MAX, wide


def test_docstrings_say_something():
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    short = [
        f"{name}.{node.name}"
        for name in FILES
        for node in ast.walk(tree_of(name))
        if isinstance(node, kinds) and 0 < len((ast.get_docstring(node) or "").split()) <= 3
    ]
    assert len(short) <= SHORT_DOCSTRINGS_MAX, short
