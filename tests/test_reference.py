"""The pages that are made from the code are as it would make them now."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "reference.py"
_spec = importlib.util.spec_from_file_location("reference", SCRIPT)
assert _spec is not None
assert _spec.loader is not None
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_made_page_is_not_stale(name):
    written = (reference.DOCS / name).read_text()
    assert written == reference.PAGES[name](), f"run python {SCRIPT.name} in scripts/"
