"""The pages that installers read, read with an installer's library."""

import json

import pytest
from publish.offers import candidate, write_offer
from pypi_simple import ProjectPage

from kernforge.publish.index import leaf_pages
from kernforge.publish.listing import Listed


@pytest.fixture
def wheels(tmp_path) -> tuple[Listed, ...]:
    from dataclasses import replace

    made = candidate(write_offer(tmp_path, requires_python=">=3.10,<3.14")).listed
    first = replace(made, published="2026-11-30T00:00:00Z")
    other = candidate(write_offer(tmp_path, archs=["9.0"], version="1.2.3+cu130.sm90")).listed
    old = replace(first, file=first.file.replace("1.2.3", "1.2.2"), version="1.2.2+cu130.sm120a",
                  yanked='broken "badly" & <b>')  # fmt: skip
    return first, other, old


PLACE = "cu130/sm120a/tiny/"


def check(package, wheel: Listed):
    assert package.filename == wheel.file
    assert package.url == f"http://host/{PLACE}{wheel.file}".replace("+", "%2B")
    assert package.digests == {"sha256": wheel.sha256}
    assert package.requires_python == wheel.requires_python
    assert package.metadata_digests == {"sha256": wheel.metadata_sha256}
    assert package.has_metadata is True
    assert package.is_yanked is (wheel.yanked is not None)
    assert (package.yanked_reason or None) == wheel.yanked


def test_html_and_json_say_the_same(wheels):
    first, _, old = wheels
    pages = leaf_pages(wheels)
    base = f"http://host/{PLACE}"
    html = ProjectPage.from_html("tiny", pages[f"{PLACE}index.html"], base_url=base)
    data = json.loads(pages[f"{PLACE}index.json"])
    by_json = ProjectPage.from_json_data(data, base_url=base)
    for page in (html, by_json):
        assert page.project == "tiny"
        assert len(page.packages) == 2
        check(page.packages[0], old)
        check(page.packages[1], first)
    assert by_json.packages[1].size == first.size
    assert by_json.versions == ["1.2.2+cu130.sm120a", "1.2.3+cu130.sm120a"]


def test_a_leaf_names_its_own_projects_only(wheels):
    pages = leaf_pages(wheels)
    assert set(pages) == {
        f"cu130/{sm}/{page}"
        for sm in ("sm120a", "sm90")
        for page in ("index.html", "index.json", "tiny/index.html", "tiny/index.json")
    }
    assert json.loads(pages["cu130/sm90/index.json"])["projects"] == [{"name": "tiny"}]
    assert "sm120a" not in pages["cu130/sm90/tiny/index.html"]


def test_nothing_of_a_record_becomes_markup(wheels):
    text = leaf_pages(wheels)[f"{PLACE}index.html"]
    assert "<b>" not in text
    assert 'data-yanked="broken &quot;badly&quot; &amp; &lt;b&gt;"' in text


def test_pages_do_not_depend_on_the_order(wheels):
    assert leaf_pages(wheels) == leaf_pages(tuple(reversed(wheels)))
