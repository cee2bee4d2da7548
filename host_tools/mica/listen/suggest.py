"""A threshold for each word, from what recordings give at several of them."""

from collections.abc import Mapping, Sequence
from typing import Any

MOST_AN_HOUR = 1.0  # false alarms that a proposal accepts
LEVELS = (*(round(0.05 * k, 2) for k in range(2, 20)), 0.97, 0.99)  # thresholds that are tried
AT_95 = 3.0  # false alarms of which none is seen in one recording of twenty


def thresholds(
    rows: Sequence[Mapping[str, Any]], words: Sequence[str], hours: float, most: float = MOST_AN_HOUR
) -> dict[str, float]:
    """{word: threshold}, of rows as `thresholds` of `mica eval --json` has them. hours: of all recordings.

    At most `most` false alarms of a word an hour, or the fewest that there are; then the most hits;
    and of equal thresholds the middle one.
    """
    found = {}
    for word in words:
        counts = []
        for row in rows:
            own = next((r for r in row["labels"] if r["label"] == word), {"hits": 0, "false_alarms": 0})
            counts.append((max(0.0, own["false_alarms"] - most * hours), -own["hits"]))
        best = [row["threshold"] for row, count in zip(rows, counts, strict=True) if count == min(counts)]
        found[word] = best[len(best) // 2]
    return found
