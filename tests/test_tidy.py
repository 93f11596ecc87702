"""The house rules that a machine can check. If one is in the way, change it here, in the open."""

import ast
import graphlib
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
    "cli __init__",
    "__main__",
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names.split()}
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
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


def own_imports_of(name: str) -> set[str]:
    """Modules of ours that this module imports, as keys of FILES."""
    prefix = PACKAGE + "."
    ours = {full.removeprefix(prefix) for full in imports_of(name) if full.startswith(prefix)}
    return {m if m in FILES else m.rpartition(".")[0] for m in ours} & FILES.keys()


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
