"""Pictures in a terminal: every style drawn to the letter on pictures small enough to check by eye."""

from __future__ import annotations

import io

import numpy as np
import pytest

from mica.demo.pictures import Style, caption, gallery, pick_style, picture

# Three rows, so that the last line has only an upper half.
TINY = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.5]])


class Terminal(io.StringIO):
    """A stream with a given encoding, which is a terminal or not."""

    def __init__(self, encoding: str | None, tty: bool = True) -> None:
        super().__init__()
        self._encoding = encoding
        self._tty = tty

    @property
    def encoding(self) -> str | None:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._tty


def test_blocks() -> None:
    assert picture(TINY, "blocks", zoom=1) == ["█▄", " ▀"]


def test_blocks_enlarged() -> None:
    assert picture(TINY, "blocks", zoom=2) == ["██  ", "████", "  ██"]


def test_ascii() -> None:
    # 0.5 * 9 levels = 4.5, rounded to even: 4
    assert picture(TINY, "ascii", zoom=1) == ["@@  ", "@@@@", "  =="]
    assert picture(TINY, "ascii", zoom=2) == ["@@  ", "@@@@", "  =="]
    assert picture([[1.0]], "ascii", zoom=4) == ["@@@@", "@@@@"]


def test_colour() -> None:
    # 232 is no ink, 255 full ink; 0.5 * 23 = 11.5, rounded to even: 12, so 244
    assert picture(TINY, "colour", zoom=1) == [
        "\x1b[38;5;255;48;5;255m▀\x1b[38;5;232;48;5;255m▀\x1b[0m",
        "\x1b[38;5;232;48;5;232m▀\x1b[38;5;244;48;5;232m▀\x1b[0m",
    ]


def test_colour_code_is_written_once_for_equal_neighbours() -> None:
    assert picture([[1.0, 1.0, 1.0]], "colour", zoom=1) == ["\x1b[38;5;255;48;5;232m▀▀▀\x1b[0m"]


def test_gallery_side_by_side() -> None:
    text = gallery([TINY, TINY[::-1]], ["7 (98%) ok", "1 (45%) not 8"], style="blocks", zoom=2, columns=80)
    assert text.split("\n") == [
        "    ██               ██",
        "    ████           ████",
        "      ██           ██",
        "  7 (98%) ok   1 (45%) not 8",
    ]


def test_gallery_wraps_and_takes_pictures_of_different_height() -> None:
    full = np.ones((2, 2))
    text = gallery([full, np.ones((4, 2)), full], ["a", "b", "c"], style="blocks", zoom=1, columns=6)
    assert text == "██  ██\n    ██\na   b\n\n██\nc"


def test_gallery_in_a_very_narrow_terminal_still_draws() -> None:
    assert gallery([[[1.0]], [[0.0]]], ["x", "y"], style="ascii", columns=0) == "@@\nx\n\n\ny"


def test_gallery_of_nothing() -> None:
    assert gallery([], [], style="ascii", columns=80) == ""


def test_gallery_ascii_is_ascii() -> None:
    rng = np.random.default_rng(1)
    text = gallery(list(rng.random((5, 1, 8, 8))), ["?"] * 5, style="ascii", columns=80)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 80


def test_captions() -> None:
    assert caption("7", 0.984, "7") == "7 (98%) ok"
    assert caption("1", 0.45, "8") == "1 (45%) not 8"
    assert caption("7", 1.0) == "7 (100%)"


@pytest.mark.parametrize("shape", [(3, 2), (1, 3, 2), (3, 2, 1)])
def test_one_channel_may_be_first_or_last(shape: tuple[int, ...]) -> None:
    assert picture(TINY.reshape(shape), "blocks", zoom=1) == ["█▄", " ▀"]


def test_values_outside_are_clipped_and_nan_is_blank() -> None:
    assert picture([[-1.0, 2.0, np.nan, np.inf]], "ascii") == ["  @@  @@"]


@pytest.mark.parametrize("image", [np.zeros(4), np.zeros((2, 3, 4)), np.zeros((0, 3)), np.zeros((1, 1, 1, 1))])
def test_wrong_shape_is_refused(image: np.ndarray) -> None:
    with pytest.raises(ValueError, match="shape"):
        picture(image, "blocks")


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(ValueError, match="zoom is 0"):
        picture(TINY, "blocks", zoom=0)
    with pytest.raises(ValueError, match="1 images but 2 captions"):
        gallery([TINY], ["a", "b"])


@pytest.mark.parametrize(
    ("encoding", "tty", "environ", "style"),
    [
        ("utf-8", True, {}, "colour"),
        ("utf-8", True, {"NO_COLOR": ""}, "colour"),  # no-color.org: only when not empty
        ("utf-8", True, {"NO_COLOR": "1"}, "blocks"),
        ("utf-8", True, {"TERM": "dumb"}, "blocks"),
        ("utf-8", False, {}, "blocks"),
        ("cp437", True, {}, "colour"),  # the old DOS code page has the half blocks
        ("ascii", True, {}, "ascii"),
        ("latin-1", True, {}, "ascii"),
        ("no-such-encoding", True, {}, "ascii"),
        (None, True, {}, "ascii"),
    ],
)
def test_style_follows_stream_and_environment(
    encoding: str | None, tty: bool, environ: dict[str, str], style: Style
) -> None:
    assert pick_style(Terminal(encoding, tty), environ) == style
