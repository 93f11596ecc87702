"""The pages for people: no link leads nowhere, no page is forgotten, the picture is of today."""

import html
import re
from pathlib import Path

import pytest

from cometmq.demo.stories import STORIES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), ROOT / "bench" / "RESULTS.md"]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    links = {link for link in LINK.findall(page.read_text()) if "://" not in link}
    assert not {link for link in links if not (page.parent / link).exists()}


def test_the_index_names_every_page():
    named = set(LINK.findall((DOCS / "README.md").read_text()))
    assert {page.name for page in DOCS.glob("*.md")} - {"README.md"} <= named


def test_the_picture_shows_the_demonstration_as_it_is():
    """If this fails: python scripts/demo_picture.py."""
    text = html.unescape(re.sub("<[^>]*>", "", (DOCS / "pictures" / "demo.svg").read_text()))
    shown = text.replace("\xa0", " ")
    assert not [title for title in STORIES if title not in shown]
    assert f"{len(STORIES)} of {len(STORIES)} stories ended as they should" in shown
    assert "http" not in text, "it fetches nothing"
