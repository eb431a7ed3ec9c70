"""Expressions of RE2 mean to us what they mean to ONNX Runtime, and what RE2 refuses is refused."""

from __future__ import annotations

import numpy as np
import pytest

from graphport.ops.definitions.text.re2 import PatternError, UnsupportedPatternError, compile_re2
from tests.every import every
from tests.ops.oracle import run_ort

TEXTS = [
    "", "a", "b", "ab", "AB", "aB", "aab", "aaaa", "abc", "a b", "a\n", "a\nb", "\n", "\v", " ", "\t", "1", "12", "a1_",
    "{,3}", "a{,3}", "[", "]", "a]", "-", "&&", "é", "É", "ß", "ſ", "日本", "x.y", "x+y", "foo@example.com", "0x1F", "\x07",
    "a.b", "S", "\\", "^", "$", "_", "~", "|",
]  # fmt: skip
SAME = [
    "", "a", "a*", "a+b?", "(a|b)+", "a|b|", "(?:ab)*", "(?P<n>a)b", "(?<n>a)b", "a{2}", "a{2,}", "a{1,3}", "a{,3}", "{,3}",
    "a*?b", "a??b", "a{1,2}?b", "[ab]+", "[^ab]+", "[]a]+", "[a\\]]+", "[[]", "[a-c]+", "[a&&b]+", "[a~]", "[-a]", "[\\d_]+",
    "[[:alpha:]]+", "[[:digit:][:space:]]+", "[^[:upper:]]+", "[[:punct:]]+", "\\d+", "\\D+", "\\w+", "\\W+", "\\s", "\\S+",
    "[\\s]", "a$", "a$\\n", "^a$", "a\\z", "\\Aa", "\\bab\\b", "a\\B.", ".", ".*", "(?s).*", "(?s:.)+", "(?i)ab", "a(?i)b",
    "(?i)É", "(?i)[é]", "a(?i)b|AB", "(?i:a)b", "(?i-s:a)b", "(?U)a+b", "(?m)a$\\n^b", "(?m:^)a", "x\\.y", "x\\+y",
    "\\Qa.b\\E", "\\Qx+y", "\\x61", "\\x{65e5}本", "\\a", "\\007", "\\061\\62", "\\0", "[\\x61-\\x{63}]+", ".{2}", "\\\\",
    "\\^", "\\$", "\\_|_", "(a)(b)(c)?", "((a)|(b(?i)c))+", "[a-z]+@[a-z]+\\.com", "0[xX][0-9a-fA-F]+", "(|a)+", "()",
    "(?i)s", "[[:word:]]+", "(?P<1>a)", "(?)a", "(?-i)a",
    "[\\S]+", "[\\D\\s]", "[^\\W]+", "(?i)[a-z]+", "(?i)k", "(?i)ß", "\\w\\b.",
]  # fmt: skip
REFUSED = [
    "(", ")", "a)", "[a", "*", "+a", "a**", "a+*", "a++", "a*+", "a{2}{3}", "a{1001}", "a{3,2}", "(a)\\1", "\\9", "(?=a)a",
    "(?!a)b", "(?<=a)b", "(?<!a)b", "(?>a)", "(?#x)a", "(?P<n>a)(?P=n)", "(?(1)a|b)", "(?x) a", "(?a)a", "\\Z", "a\\Z", "\\u0061",
    "\\N{DIGIT ONE}", "[b-a]", "[[:nothing:]]", "\\", "\\x{110000}", "\\xZZ", "\\e",
]  # fmt: skip
UNSAID = ["\\pL+", "\\p{Greek}", "\\PN", "\\C", "[[:^alpha:]]"]


def by_ort(pattern: str) -> list[bool]:
    return run_ort("RegexFullMatch", [np.array(TEXTS, object)], {"pattern": pattern}, opset=20)[0].tolist()


@every("pattern", SAME, ids=ascii)
def test_compiled_pattern_matches_like_onnx_runtime(pattern):
    match = compile_re2(pattern).fullmatch
    assert [match(text) is not None for text in TEXTS] == by_ort(pattern)


@every("pattern", REFUSED, ids=ascii)
def test_patterns_that_re2_rejects_are_rejected(pattern):
    with pytest.raises(Exception, match=r"(?i)regex|pattern"):
        by_ort(pattern)
    with pytest.raises(PatternError) as caught:
        compile_re2(pattern)
    assert not isinstance(caught.value, UnsupportedPatternError)


@pytest.mark.parametrize("pattern", UNSAID, ids=ascii)
def test_valid_unsupported_pattern_raises_unsupportedpatternerror(pattern):
    by_ort(pattern)
    with pytest.raises(UnsupportedPatternError):
        compile_re2(pattern)
