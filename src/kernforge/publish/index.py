"""The pages that installers read: PEP 503 HTML and PEP 691 JSON of each leaf and project. Pure.

Room `publish`. Addresses are relative, so that an index works under any address and in any folder.
"""

from __future__ import annotations

import json
from html import escape
from itertools import groupby
from urllib.parse import quote

from kernforge.publish.listing import Listed

_META = '<meta name="pypi:repository-version" content="1.1">'


def leaf_pages(wheels: tuple[Listed, ...]) -> dict[str, str]:
    """Path and text of every index page: one HTML and one JSON a leaf, and a project of it."""
    pages: dict[str, str] = {}
    for leaf, group in groupby(sorted(wheels, key=lambda w: w.place), lambda w: w.leaf):
        members = tuple(group)
        projects = sorted({wheel.project for wheel in members})
        pages[f"{leaf}/index.html"] = _root_html(leaf, projects)
        pages[f"{leaf}/index.json"] = _root_json(projects)
        for project in projects:
            own = tuple(wheel for wheel in members if wheel.project == project)
            pages[f"{leaf}/{project}/index.html"] = _project_html(project, own)
            pages[f"{leaf}/{project}/index.json"] = _project_json(project, own)
    return pages


def _html(title: str, lines: list[str]) -> str:
    head = f'<meta charset="utf-8">{_META}<title>{escape(title)}</title>'
    body = "\n".join(lines)
    return f"<!DOCTYPE html>\n<html><head>{head}</head><body>\n{body}\n</body></html>\n"


def _root_html(leaf: str, projects: list[str]) -> str:
    links = [f'<a href="{name}/">{name}</a><br>' for name in projects]
    return _html(f"Simple index of {leaf}", links)


def _root_json(projects: list[str]) -> str:
    names = [{"name": name} for name in projects]
    return _json({"meta": {"api-version": "1.1"}, "projects": names})


def _json(document: object) -> str:
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _project_html(project: str, wheels: tuple[Listed, ...]) -> str:
    return _html(f"Links for {project}", [_link(wheel) for wheel in wheels])


def _link(wheel: Listed) -> str:
    metadata = f"sha256={wheel.metadata_sha256}"
    said = {"data-core-metadata": metadata, "data-dist-info-metadata": metadata}
    if wheel.requires_python is not None:
        said["data-requires-python"] = wheel.requires_python
    if wheel.yanked is not None:
        said["data-yanked"] = wheel.yanked
    href = f"{quote(wheel.file)}#sha256={wheel.sha256}"
    words = "".join(f' {key}="{escape(value)}"' for key, value in sorted(said.items()))
    return f'<a href="{href}"{words}>{escape(wheel.file)}</a><br>'


def _project_json(project: str, wheels: tuple[Listed, ...]) -> str:
    return _json(
        {
            "meta": {"api-version": "1.1"},
            "name": project,
            "versions": sorted({wheel.version for wheel in wheels}),
            "files": [_file(wheel) for wheel in wheels],
        }
    )


def _file(wheel: Listed) -> dict[str, object]:
    metadata = {"sha256": wheel.metadata_sha256}
    known: dict[str, object] = {
        "filename": wheel.file,
        "url": quote(wheel.file),
        "hashes": {"sha256": wheel.sha256},
        "size": wheel.size,
        "upload-time": wheel.published,
        "core-metadata": metadata,
        "dist-info-metadata": metadata,
        "yanked": False if wheel.yanked is None else wheel.yanked or True,
    }
    if wheel.requires_python is not None:
        known["requires-python"] = wheel.requires_python
    return known
