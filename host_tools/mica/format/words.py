"""Characters of a text: the method WORDPIECE, GPT-2's words, and plain text.

`usermod_c/runtime/words.c` is the same, with these tables.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping

CONTINUED = b"##"  # stands before the bytes of a piece that does not begin a word
LONGEST_WORD = 100  # characters; a longer one is unknown
LOWER, ACCENTS, MARKS, BARE = 16, 32, 64, 128  # of schema.TOKEN_FLAGS

# Classes of characters, as `re` has them. REMOVED, MARKS: Hugging Face's BERT leaves them out, and takes them for
# words. BETWEEN: no letters, digits and white space. NUMBERS: \p{N}, also of BETWEEN. OTHERS: neither of these, nor
# \p{L} and white space.
CHARACTERS = {
    "BLANK": r"\x09-\x0d\x20\x85\xa0\u1680\u2000-\u200a\u2028-\u2029\u202f\u205f\u3000",
    "REMOVED": r"\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    r"\ue000-\uf8ff\ufeff\ufffd",
    "MARKS": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e\xa1\xa7\xab\xb6-\xb7\xbb\xbf"
    r"\u2010-\u2027\u2030-\u2043\u2045-\u2051\u2053-\u205e"
    r"\u3001-\u3003\u3008-\u3011\u3014-\u301f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0002a6df\U0002a700-\U0002b81f\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f",
    "BETWEEN": r"\x00-\x08\x0e-\x1f\x21-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x84\x86-\x9f\xa1-\xa9\xab-\xb4"
    r"\xb6-\xb9\xbb-\xbf\xd7\xf7"
    r"\u2010-\u2027\u202a-\u202e\u2030-\u203e\u2041-\u2053\u2055-\u205e\u20a0-\u20cf\u2190-\u2bff"
    r"\u3001-\u3004\u3008-\u3020\U0001f000-\U0001faff",
    "NUMBERS": r"\x30-\x39\xb2-\xb3\xb9\xbc-\xbe\u0660-\u0669\u06f0-\u06f9\u2070\u2074-\u2079"
    r"\u2080-\u2089\u2150-\u2182\u2185-\u2189"
    r"\u2460-\u249b\u24ea-\u24ff\u2776-\u2793\uff10-\uff19\U0001f100-\U0001f10c",
    "OTHERS": r"\x5f\u02c2-\u02c5\u02d2-\u02df\u02e5-\u02eb\u02ed\u02ef-\u036f\u0375\u037e\u0384-\u0385"
    r"\u0387\u03f6\u0482-\u0489\u055a-\u055f"
    r"\u0589-\u05cf\u05f3-\u061f\u064b-\u065f\u066a-\u066d\u0670\u06d4\u200b-\u200f\u203f-\u2040"
    r"\u2054\u2060-\u206f\u207a-\u207e"
    r"\u208a-\u208e\u20d0-\u20f0\u2116-\u2118\u2120-\u2123\u30fb\ufe00-\ufe19\ufe20-\ufe52"
    r"\ufeff-\uff0f\uff1a-\uff20\uff3b-\uff40"
    r"\uff5b-\uff65\uffe0-\ufffd\U000e0001-\U000e01ef",
}
_BASES = [unicodedata.normalize("NFD", chr(c).lower())[0] for c in range(0xC0, 0x180)]
BASES = "".join(
    c if c.isascii() else " " for c in _BASES
)  # U+00C0 to U+017F small and without accents; a blank: it has none
# U+0400 to U+045F small and without accents, and from where on capitals have their small letter behind them.
CYRILLIC = "".join(unicodedata.normalize("NFD", chr(c).lower())[0] for c in range(0x400, 0x460))
CYRILLIC_PAIRS = range(0x48A, 0x4C0)
_ACCENTS = r"\u0300-\u036f"
_LEFT_OUT = {MARKS: CHARACTERS["REMOVED"], BARE: r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e"}
_WORD = {
    0: "[^{BLANK}]+",
    MARKS: "[{MARKS}]|[^{MARKS}{BLANK}]+",
    BARE: r"[^\x09-\x0d\x20]+",  # Keras' TextVectorization
    MARKS | BARE: "[{BETWEEN}]+|[^{BETWEEN}{BLANK}]+",
}
_GPT_2 = (
    "'(?:s|t|re|ve|m|ll|d)| ?[^{BLANK}{NUMBERS}{OTHERS}]+| ?[{NUMBERS}]+| ?(?:(?![{NUMBERS}])[{OTHERS}])+"
    "|[{BLANK}]+(?![^{BLANK}])|[{BLANK}]+"
)
_ASCII = {"BLANK": r"\x09-\x0d\x20", "NUMBERS": "0-9", "OTHERS": r"\x00-\x08\x0e-\x1f!-/:-@\x5b-`{-\x7f"}
_UNICODE = CHARACTERS | {"OTHERS": CHARACTERS["BETWEEN"] + CHARACTERS["OTHERS"]}
GPT_2 = {flags: re.compile(_GPT_2.format(**tables)) for flags, tables in ((0, _ASCII), (MARKS, _UNICODE))}
_LETTER, _NUMBER = (re.compile(text.format(**_UNICODE)) for text in ("[^{BLANK}{NUMBERS}{OTHERS}]", "[{NUMBERS}]"))


def folded(char: str, flags: int) -> str:
    """Return the character as pieces have it. Beyond Latin and Cyrillic, and for Keras beyond ASCII, it stays."""
    c = ord(char)
    if not flags & LOWER or (c >= 0x80 and flags & (MARKS | BARE) == BARE):
        return char
    if 0x400 <= c < 0x460:
        return CYRILLIC[c - 0x400] if flags & ACCENTS else char.lower()
    if c >= 0x180:
        return char.lower() if c in CYRILLIC_PAIRS else char
    base = BASES[c - 0xC0] if c >= 0xC0 and flags & ACCENTS else " "
    return char.lower()[0] if base == " " else base


def plain(text: str, ids: Mapping[bytes, int]) -> str:
    """Return a text whose characters are pieces, or become pieces: small letters, also without accents.

    Other characters become nothing, other marks a blank.
    """
    made = ""
    for char in text.replace("\u2019", "'"):
        ways = (folded(char, flags) for flags in (0, LOWER, LOWER | ACCENTS))
        piece = next((c for c in ways if (c > " " or c == "\n") and c.encode() in ids), "")
        made += piece or ("" if _LETTER.match(char) or "\u0300" <= char <= "\u036f" else " ")
    return "\n".join(" ".join(filter(None, line.split(" "))) for line in made.split("\n"))


def odd(text: str) -> str:
    """Return the first character whose kind in GPT-2's words is not that of these tables, or ""."""
    kinds = ((c, unicodedata.category(c)[0], _LETTER.match(c), _NUMBER.match(c)) for c in text)
    return next((c for c, k, letter, number in kinds if (k == "L", k == "N") != (bool(letter), bool(number))), "")


def split(text: str, flags: int) -> Iterator[str]:
    """The words of a text, their characters as pieces have them."""
    rule = flags & (MARKS | BARE)
    left_out = _LEFT_OUT.get(rule, "") + (_ACCENTS if flags & ACCENTS else "")
    text = re.sub(f"[{left_out}]", "", text) if left_out else text
    for word in re.findall(_WORD[rule].format(**CHARACTERS), text):
        yield "".join(folded(char, flags) for char in word)


def word_tokens(word: str, ids: Mapping[bytes, int], longest: int) -> list[int]:
    """The pieces of a word: the longest from the left each; none where it is unknown. longest: bytes of a piece."""
    data, found, at = word.encode(), list[int](), 0
    while at < len(data) and len(word) <= LONGEST_WORD:
        before = CONTINUED if at else b""
        ends = range(min(len(data), at + longest), at, -1)
        end = next((end for end in ends if before + data[at:end] in ids), 0)
        if not end:
            return []
        found.append(ids[before + data[at:end]])
        at = end
    return found
