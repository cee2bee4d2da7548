"""The .json beside one of microWakeWord's models: its word, its threshold and how many outputs the mean is of."""

import json
from pathlib import Path

from mica.errors import MicaError
from mica.format.names import clean
from mica.format.schema import LISTEN_MEAN, LISTEN_THRESHOLD

_MOST = 1000  # outputs of a mean


def beside(model: Path) -> dict[str, str]:
    """Metadata `listen_threshold`, `listen_mean` and `labels` that the file of the model's name says; none if it is no such file.

    Raises MicaError if its numbers are impossible.
    """
    path = model.with_suffix(".json")
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    micro = said.get("micro") if isinstance(said, dict) else None
    if not isinstance(micro, dict) or not {"probability_cutoff", "sliding_window_size"} <= set(micro):
        return {}
    threshold, mean = micro["probability_cutoff"], micro["sliding_window_size"]
    if type(threshold) not in (int, float) or not 0 < threshold <= 1:
        raise MicaError(f"{path}: probability_cutoff is {threshold!r}", todo="expected a number from 0 to 1")
    if type(mean) is not int or not 0 < mean <= _MOST:
        raise MicaError(f"{path}: sliding_window_size is {mean!r}", todo=f"expected a number from 1 to {_MOST}")
    # microWakeWord asks for more than the cutoff, mica for no less: a millionth is less than a step of any mean.
    found = {LISTEN_THRESHOLD: f"{min(threshold + 1e-6, 1):.7g}", LISTEN_MEAN: str(mean)}
    word = said.get("wake_word")
    return {**found, "labels": clean(word)} if isinstance(word, str) and word.strip() else found
