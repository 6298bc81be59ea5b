"""The start page: every wheel under every GPU it has an answer for, and nothing claimed beyond."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest
from publish.offers import candidate, write_offer

from kernforge.publish.listing import Claim
from kernforge.publish.page import start_page

VOID = {"meta", "br", "wbr", "link", "img", "hr", "input"}


class Reader(HTMLParser):
    """Collects tags, checks that they are nested, and the text of each section."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.sections, self.now = [], [], {}, None

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "section":
            self.now = dict(attrs)["id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.now = None if tag == "section" else self.now

    def handle_data(self, data):
        if self.now:
            self.sections[self.now] = self.sections.get(self.now, "") + data


def read(text) -> Reader:
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader


@pytest.fixture
def wheel(tmp_path):
    return candidate(write_offer(tmp_path)).listed


def claim(device, *answers):
    levels = ("code", "links", "imports", "loads", "runs")
    return Claim(device=device, levels=tuple(zip(levels, answers, strict=True)))


def test_a_wheel_stands_under_each_of_its_gpus_in_order(wheel):
    none = "not verified"
    claims = (claim("12.0", "reached", "reached", none, none, none),
              claim("9.0", "reached", none, none, none, none))  # fmt: skip
    reader = read(start_page((replace(wheel, claims=claims),), None))
    assert list(reader.sections) == ["gpu-9.0", "gpu-12.0", "levels"]
    assert "On 9.0 it reaches code" in reader.sections["gpu-9.0"]
    assert "On 12.0 it reaches links" in reader.sections["gpu-12.0"]


def test_what_is_expected_is_never_called_reached(wheel):
    none = "not verified"
    said = replace(claim("12.1", "reached", "reached", none, none, none), expected=True)
    text = read(start_page((replace(wheel, archs=("12.0",), claims=(said,)),), None)).sections
    assert "On 12.1 it is expected to reach links: its code is for 12.0" in text["gpu-12.1"]
    assert "it reaches" not in text["gpu-12.1"]


def test_it_needs_no_script_and_nothing_from_elsewhere(wheel):
    text = start_page((wheel,), "https://wheels.example")
    assert not {"script", "link", "img", "iframe"} & set(read(text).tags)
    assert "url(" not in text
    assert "@import" not in text
    assert 'name="viewport"' in text
    assert "prefers-color-scheme: dark" in text


def test_the_command_names_the_leaf(wheel):
    text = start_page((wheel,), "https://wheels.example/")
    wanted = "--extra-index-url https://wheels.example/cu130/sm120a/"
    assert wanted in read(text).sections["gpu-12.0"]
    assert "https:/<wbr>/<wbr>wheels.example/<wbr>cu130" in text


def test_nothing_of_a_wheel_becomes_markup(wheel):
    text = start_page((replace(wheel, summary="<script>x</script>"),), "https://a.example/?<b>")
    assert "<script>" not in text
    assert "<b>)" not in read(text).sections["gpu-12.0"]


def test_what_is_taken_back_is_named_and_not_offered(wheel):
    text = start_page((replace(wheel, yanked="it hangs"),), None)
    assert list(read(text).sections) == ["levels"]
    assert "it hangs" in text
    assert wheel.file in text


def test_an_empty_index_says_so():
    assert "No wheel is published yet" in start_page((), None)
