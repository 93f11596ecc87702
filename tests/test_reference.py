"""The generated pages are up to date."""

import importlib.util
from dataclasses import fields
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


reference, client_reference = loaded("reference"), loaded("client_reference")
PAGES = [(each, name) for each in (reference, client_reference) for name in each.PAGES]


@pytest.mark.parametrize(("script", "name"), PAGES)
def test_generated_pages_are_up_to_date(script, name):
    written = (script.DOCS / name).read_text()
    assert written == script.PAGES[name](), f"run python scripts/{script.__name__}.py"


@pytest.mark.parametrize("config", client_reference._CONFIGS)
def test_every_setting_of_a_client_is_documented(config):
    inherited = {each.name for base in config.__bases__ for each in client_reference._fields(base)}
    own = [each.name for each in fields(config) if each.name not in inherited]
    assert list(client_reference.meanings_of(config)) == own
