"""A short form of the soak's part `fleet`."""

from __future__ import annotations

from pathlib import Path

from hostile import MOST_KEPT, kept, one_round


def test_hostile_messages(digits_file: Path) -> None:
    figures = one_round(digits_file.read_bytes(), seed=1, n=6000)
    assert figures["whole requests"] > 1000 and figures["signed or not"] > 500


# As a session of 100,000 messages has shown it.
FREE = (
    *(16567904, 16561440, 16548704, 16544480, 16539584, 16539584, 16550240, 16550240, 16544480, 16539584),
    *(16549344, 16546304, 16539584, 16550240, 16544480, 16548608, 16550240, 16550240, 16539584, 16541184),
)


def test_what_stays_of_messages_shows() -> None:
    assert kept(FREE) < MOST_KEPT
    assert kept([f - 1000 * k for k, f in enumerate(FREE)]) >= MOST_KEPT
