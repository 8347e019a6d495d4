from __future__ import annotations

import pytest

from drkit.config.mm2.properties import MalformedEscape, parse


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("a=b", "a", "b"),
        ("a = b ", "a", "b"),
        ("a:b", "a", "b"),
        ("a b=c", "a", "b=c"),
        ("A->B.enabled = true", "A->B.enabled", "true"),
        (r"a\=b\:c\ d=e", "a=b:c d", "e"),
        (r"a=\t\n\u00e9\q", "a", "\t\néq"),
        ("a", "a", ""),
        (r"a=.*[\\-\\.]internal", "a", r".*[\-\.]internal"),
        ("a=b\\\n   c\\\n# d", "a", "bc# d"),
        ("a=b\\\\\n", "a", "b\\"),
        ("a=b=c", "a", "b=c"),
        ("a=b\\", "a", "b"),
    ],
)
def test_as_java_reads_it(text: str, key: str, value: str):
    assert parse(text)[0][:2] == (key, value)


def test_lines_are_counted_over_comments_and_continuations():
    found = parse("# one\r\n\r\n! two\ra=1,\\\n  2\n\nb=3\n")
    assert found == [("a", "1,2", 4), ("b", "3", 7)]


def test_a_broken_escape():
    with pytest.raises(MalformedEscape, match="line 2"):
        parse("a=b\nc=\\u12")
