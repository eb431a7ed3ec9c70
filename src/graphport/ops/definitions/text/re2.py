r"""Translation of RE2 regular expressions to Python's `re`.

Most syntax is common. Differences are translated or refused: constructs that RE2 rejects (back-references, look-around,
atomic groups, possessive quantifiers, `\Z`), and RE2's Unicode classes (`\pL`) and bytes (`\C`).

Source: RE2, syntax.txt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MOST_REPEATED = 1000
"""RE2 repeats nothing more often."""

_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~",
    "space": r"\t\n\v\f\r ", "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_CLASSES = {
    "d": "0-9", "D": r"\x00-/:-\U0010ffff", "w": "0-9A-Za-z_", "W": r"\x00-/:-@\[-^`{-\U0010ffff",
    "s": r"\t\n\f\r ", "S": r"\x00-\x08\x0b\x0e-\x1f!-\U0010ffff",
}  # fmt: skip
"""Those of Perl, which know ASCII only."""

_CONTROLS = frozenset("afnrtv")
_EDGES = {"A": r"\A", "z": r"\Z", "b": r"(?a:\b)", "B": r"(?a:\B)"}
_REPETITION = re.compile(r"\{(\d+)(?:,(\d*))?\}", re.ASCII)
_FLAGS = re.compile(r"\(\?([imsU]*)(-[imsU]+)?([:)])", re.ASCII)
_NAMED = re.compile(r"\(\?P?<(\w+)>", re.ASCII)
_HEXADECIMAL = re.compile(r"x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))", re.ASCII)
_OCTAL = re.compile("0[0-7]{0,2}|[1-7][0-7]{1,2}", re.ASCII)
_BRACKETED = re.compile(r"\[:(\^?)(\w+):\]", re.ASCII)


class PatternError(ValueError):
    """An expression that RE2 refuses."""


class UnsupportedPatternError(PatternError):
    """A valid RE2 expression without a translation."""


def compile_re2(pattern: str) -> re.Pattern[str]:
    """Compile an RE2 expression.

    Raises:
        PatternError: the expression is invalid.
        UnsupportedPatternError: the expression is valid but has no translation.
    """
    text = _Translation(pattern).translate()
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(str(error)) from error


@dataclass(slots=True)
class _Translation:
    pattern: str
    position: int = 0
    out: list[str] = field(default_factory=list[str])
    groups: list[tuple[frozenset[str], list[str]]] = field(default_factory=list[tuple[frozenset[str], list[str]]])
    """Flags of each open group and the scopes opened in it."""
    flags: frozenset[str] = frozenset()
    scopes: list[str] = field(default_factory=list[str])
    """Prefixes of groups that Python needs for flags that apply to the end of the enclosing group."""

    def translate(self) -> str:
        is_repeated = False
        while self.position < len(self.pattern):
            was, is_repeated = is_repeated, self._repetition()
            if is_repeated and was:
                raise PatternError("a repetition is repeated")
            if not is_repeated:
                self._translate_atom()
        if self.groups:
            raise PatternError("a parenthesis is not closed")
        return "".join(self.out) + ")" * len(self.scopes)

    def _translate_atom(self) -> None:
        letter = self.pattern[self.position]
        match letter:
            case "\\":
                self.out.append(self._escape(inside=False))
                return
            case "[":
                self.out.append(self._set())
                return
            case "(":
                self._open_group()
                return
            case ")":
                self._close()
            case "$":
                self.out.append("$" if "m" in self.flags else r"\Z")
            case "{":
                self.out.append(r"\{")
            case "|":
                # Flags apply to later alternatives too.
                self.out += [")" * len(self.scopes), "|", *self.scopes]
            case _:
                self.out.append(letter)
        self.position += 1

    def _repetition(self) -> bool:
        found = _REPETITION.match(self.pattern, self.position)
        if found is not None:
            low, high = int(found[1]), int(found[2] or found[1])
            if max(low, high) > MOST_REPEATED:
                raise PatternError(f"{found[0]} repeats more than {MOST_REPEATED} times")
        elif self.pattern[self.position] not in "*+?":
            return False
        text = self.pattern[self.position] if found is None else found[0]
        self.position += len(text)
        self.out.append(text)
        # Which of several matches is found first is nothing to a match of the whole.
        if self.pattern.startswith("?", self.position):
            self.position += 1
        return True

    def _open_group(self) -> None:
        rest, flags = self.pattern[self.position :], _FLAGS.match(self.pattern, self.position)
        named = _NAMED.match(self.pattern, self.position)
        if flags is not None:
            self._set_flags(flags)
        elif named is not None:
            self._enter("(?:", named.end())
        elif rest.startswith("(?"):
            raise PatternError(f"RE2 has no {rest[:4]!r}")
        else:
            self._enter("(?:", self.position + 1)

    def _enter(self, text: str, position: int) -> None:
        self.groups.append((self.flags, self.scopes))
        self.out.append(text)
        self.scopes, self.position = [], position

    def _set_flags(self, found: re.Match[str]) -> None:
        given, taken = set(found[1]), set((found[2] or "")[1:])
        # Which match is longer, U, is nothing to a match of the whole.
        on, off = "".join(sorted(given - {"U"})), "".join(sorted(taken - {"U"}))
        text = f"(?{on}{'-' if off else ''}{off}:"
        if found[3] == ":":
            self._enter(text, found.end())
        else:
            self.out.append(text)
            self.scopes.append(text)
            self.position = found.end()
        self.flags = (self.flags | given) - taken

    def _close(self) -> None:
        if not self.groups:
            raise PatternError("a parenthesis is closed that is not open")
        self.out.append(")" * (len(self.scopes) + 1))
        self.flags, self.scopes = self.groups.pop()

    def _escape(self, *, inside: bool) -> str:
        """Translate an escape sequence and advance the position."""
        rest = self.pattern[self.position + 1 :]
        self.position += 2
        if not rest:
            raise PatternError("it ends with a backslash")
        number, octal = _HEXADECIMAL.match(rest), _OCTAL.match(rest)
        if number is not None or octal is not None:
            length, code = (0, 0)
            if number is not None:
                length, code = number.end(), int(number[1] or number[2], 16)
            elif octal is not None:
                length, code = octal.end(), int(octal[0], 8)
            self.position += length - 1
            if code > 0x10FFFF:
                raise PatternError(f"{code:#x} is no character")
            return re.escape(chr(code))
        if rest[0] == "Q" and not inside:
            quoted = rest[1:].partition("\\E")[0]
            self.position += len(quoted) + 2 * (len(quoted) + 1 < len(rest))
            return "".join(re.escape(letter) for letter in quoted)
        return self._letter(rest[0], inside=inside)

    def _letter(self, letter: str, *, inside: bool) -> str:
        if not inside and letter in _EDGES:
            return _EDGES[letter]
        if letter in _CLASSES:
            return _CLASSES[letter] if inside else f"[{_CLASSES[letter]}]"
        if letter in _CONTROLS:
            return f"\\{letter}"
        if letter.isascii() and not letter.isalnum():
            return re.escape(letter)
        if letter in "pPC":
            raise UnsupportedPatternError(f"'\\{letter}' is not known here")
        raise PatternError(f"RE2 has no '\\{letter}'{' inside of brackets' * inside}")

    def _set(self) -> str:
        text, position = ["["], self.position + 1
        if self.pattern.startswith("^", position):
            text.append("^")
            position += 1
        self.position = first = position
        while self.position < len(self.pattern):
            letter = self.pattern[self.position]
            posix = _BRACKETED.match(self.pattern, self.position)
            if letter == "]" and self.position > first:
                self.position += 1
                return "".join((*text, "]"))
            if posix is not None:
                text.append(self._posix(posix))
            elif letter == "\\":
                text.append(self._escape(inside=True))
            else:
                text.append(f"\\{letter}" if letter in "[]&|~" else letter)
                self.position += 1
        raise PatternError("a bracket is not closed")

    def _posix(self, found: re.Match[str]) -> str:
        if found[2] not in _POSIX:
            raise PatternError(f"RE2 has no class {found[0]}")
        if found[1]:
            raise UnsupportedPatternError(f"the class {found[0]} is not known here")
        self.position = found.end()
        return _POSIX[found[2]]
