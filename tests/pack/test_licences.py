"""Licences are recognised by whole phrases; other files are told without a name."""

import hashlib

import pytest

from kernforge.pack.licences import find_licences, installed_licences, recognise

MIT = ("Permission is hereby granted, free of charge, to any person ...\n"
       'THE SOFTWARE IS PROVIDED "AS IS" ...\n')  # fmt: skip
BSD = "Redistribution and use in source and binary\n forms, with or without modification ...\n"


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        (MIT, "MIT"),
        (BSD, "BSD-2-Clause"),
        (BSD + "Neither the name of the copyright holder ...", "BSD-3-Clause"),
        ("Apache License\n   Version 2.0, January 2004", "Apache-2.0"),
        ("Apache License Version 2.0\n---- LLVM Exceptions ----", "Apache-2.0 WITH LLVM-exception"),
        ("GNU LESSER GENERAL PUBLIC LICENSE\nVersion 3", "LGPL-3.0-only"),
        ("GNU GENERAL PUBLIC LICENSE Version 2, June 1991", "GPL-2.0-only"),
        ("All rights reserved.", None),
        ("", None),
    ],
)
def test_recognise(text, licence):
    assert recognise(text) == licence


def test_licence_files_of_a_tree(tmp_path):
    for name, text in {
        "a/LICENSE": MIT, "a/third/COPYING.txt": BSD, "a/third/LICENSES.md": MIT,
        "a/licence.md": "odd", "b/license.py": MIT, "b/NOTICE": MIT,
    }.items():  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "b/LICENSE").symlink_to("/etc/passwd")
    found = [(v.path, v.folder, v.licence) for v in find_licences(tmp_path)]
    assert found == [
        ("a/LICENSE", "a", "MIT"),
        ("a/licence.md", "a", None),
        ("a/third/COPYING.txt", "a/third", "BSD-2-Clause"),
    ]
    assert find_licences(tmp_path)[0].sha256 == hashlib.sha256(MIT.encode()).hexdigest()


def test_installed_licences_take_expressions_and_short_words(tmp_path):
    for name, lines in {
        "a_x": "Name: A_x\nLicense-Expression: MIT\nLicense: other",
        "b": f"Name: b\nLicense: {'long ' * 40}",
        "c": "Name: c\nLicense: BSD",
        "d": "Name: d",
    }.items():
        folder = tmp_path / f"lib/python3.11/site-packages/{name}-1.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(lines + "\n\n")
    assert installed_licences(tmp_path) == (("a-x", "MIT"), ("c", "BSD"))
