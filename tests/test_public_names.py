"""What `import cometmq` gives."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import cometmq


@pytest.mark.parametrize("name", cometmq.__all__)
def test_every_name_is_there(name):
    assert getattr(cometmq, name) is not None


def test_type_checkers_are_told_of_the_same_homes():
    """The imports that only they read, and the table that is used."""
    tree = ast.parse(Path(inspect.getfile(cometmq)).read_text())
    told = {
        alias.name: node.module.removeprefix("cometmq.")
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told.pop("errors") == "cometmq"
    assert told == cometmq._HOME_OF
    assert {*told, "errors", "__version__"} == set(cometmq.__all__)


def test_a_name_that_is_not_there_is_told():
    with pytest.raises(AttributeError, match="public names: Ack"):
        _ = cometmq.Consumer


def test_importing_the_package_loads_little():
    code = "import sys, cometmq; print([m for m in sys.modules if m.startswith('cometmq.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
