"""Rules for the names of tensors, layers, keys of the metadata and models on a board.

A name is one line: no control characters, no white space but single blanks between words, at most `MAX_NAME` bytes of
UTF-8. The rule for files stands in SPEC.md; `usermod_c/runtime/load.c` has the same.
"""

import re

from mica.format.schema import MAX_NAME
from mica.printable import printable

# In UTF-8, so that what is no UTF-8 gets the same verdict as in C.
_CONTROL = rb"[\x00-\x1f\x7f]|\xc2[\x80-\x9f]"  # U+0000 to U+001F, U+007F to U+009F
# U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F, U+3000; blanks that are not single, or at an end.
_SPACE = rb"\xc2\xa0|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80|  |\A | \Z"
_NOT_IN_NAMES = re.compile(_CONTROL + b"|" + _SPACE)
_NOT_IN_TEXTS = re.compile(rb"[\x01-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")


def clean(text: str, most: int = MAX_NAME) -> str:
    """A name made of any text: printable, white space is single blanks, cut to `most` bytes of UTF-8."""
    name = printable(" ".join(text.split()))
    if len(name.encode()) > most:
        name = name.encode()[: most - 3].decode(errors="ignore").rstrip() + "..."
    return name


def clean_lines(text: str) -> str:
    """Lines, each printable and with single blanks: a value of the metadata made of any text."""
    return "\n".join(printable(" ".join(line.split())) for line in text.split("\n"))


def file_fault(name: str, most: int = MAX_NAME) -> str:
    """Reason why a file's name cannot name a model on a board, where it may have `most` bytes; "" if it can."""
    try:
        data = name.encode()
    except UnicodeEncodeError:
        return "is no UTF-8"
    if not data or "/" in name:
        return "is no plain name"
    return f"has {len(data)} bytes; at most {most} are allowed" if len(data) > most else fault(data)


def fault(name: bytes) -> str:
    """Reason why UTF-8 bytes are no name of the format; "" if they are one."""
    if len(name) > MAX_NAME:
        return f"has {len(name)} bytes; at most {MAX_NAME} are allowed"
    if _NOT_IN_NAMES.search(name):
        return "has control characters, or white space other than single blanks between words"
    return ""


def texts_fault(strings: bytes) -> int:
    """Position of the first control character in zero-terminated strings, line feeds aside; -1 if there is none."""
    found = _NOT_IN_TEXTS.search(strings)
    return found.start() if found else -1
