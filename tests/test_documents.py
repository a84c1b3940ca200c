"""Links of the documents lead to files and headings that there are; so do paths that they name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
ROOMS = "api|sessions|agent|store|core|telemetry"
CODE = re.compile(rf"`((?:{ROOMS})/[\w/]+\.py|(?:tests|migrations|bench|docs)/[\w/.-]+)`")


def anchors(text: str) -> set[str]:
    """The headings, as GitHub links them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.M)
    plain = (re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_paths_lead_somewhere(document: Path) -> None:
    text = document.read_text()
    for link in LINK.findall(FENCED.sub("", text)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text()), link
    for path in CODE.findall(text):
        assert (ROOT / path).exists() or (ROOT / "src/turnback" / path).exists(), path
