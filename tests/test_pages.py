"""The documentation: links, the index, cited sections, the picture of the demonstration."""

import html
import re
from pathlib import Path

import pytest

from cometmq.demo.stories import STORIES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), ROOT / "bench" / "RESULTS.md"]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FILE = re.compile(r"\b(?:tests|src|bench|scripts|examples)/[\w/]+\.\w+")
TESTS = sorted((ROOT / "tests").rglob("*.py"))
CITED = re.compile(r"docs/disk\.md, sections? (\d(?:(?:, | and )\d)*)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_are_not_broken(page):
    links = {link for link in LINK.findall(page.read_text()) if "://" not in link}
    assert not {link for link in links if not (page.parent / link).exists()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_named_in_a_page_exist(page):
    assert not [name for name in FILE.findall(page.read_text()) if not (ROOT / name).exists()]


def sections_of_the_disk():
    """The text of each section, by number."""
    _, *parts = re.split(r"^## (\d)\. ", (DOCS / "disk.md").read_text(), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def cited_by(path):
    """The sections that a test claims to check."""
    return {
        number for found in CITED.findall(path.read_text()) for number in re.findall(r"\d", found)
    }


def test_sections_of_disk_md_and_their_tests_name_each_other():
    for number, text in sections_of_the_disk().items():
        code = set(re.findall(r"`(\w+\.py)`", text))
        assert not [name for name in code if not list((ROOT / "src/cometmq/store").rglob(name))]
        tests = [name for name in FILE.findall(text) if name.startswith("tests/")]
        assert tests, f"no test checks section {number}"
        assert not [name for name in tests if number not in cited_by(ROOT / name)], number


def test_sections_named_in_tests_exist():
    assert set().union(*map(cited_by, TESTS)) == sections_of_the_disk().keys()


def test_the_index_lists_every_page():
    named = set(LINK.findall((DOCS / "README.md").read_text()))
    assert {page.name for page in DOCS.glob("*.md")} - {"README.md"} <= named


def test_the_picture_of_the_demonstration_is_up_to_date():
    """If this fails: python scripts/demo_picture.py."""
    text = html.unescape(re.sub("<[^>]*>", "", (DOCS / "pictures" / "demo.svg").read_text()))
    shown = text.replace("\xa0", " ")
    assert not [title for title in STORIES if title not in shown]
    assert f"{len(STORIES)} of {len(STORIES)} stories succeeded" in shown
    assert "http" not in text, "no external resources"
