"""The .json beside one of microWakeWord's models: its word, its threshold and how many outputs the mean is of."""

import json
from collections.abc import Sequence
from pathlib import Path

from mica.errors import MicaError
from mica.format.names import clean
from mica.format.schema import LISTEN_MEAN, LISTEN_THRESHOLD, MEAN, THRESHOLD

_MOST = 1000  # outputs of a mean


def beside(model: Path) -> dict[str, str]:
    """Metadata `listen_threshold`, `listen_mean` and `labels` that the file of the model's name says;
    none if it is no such file.

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


def all_beside(models: Sequence[Path], widths: Sequence[int]) -> dict[str, str]:
    """The same metadata of networks side by side: a label, a threshold and a mean for each of their answers, in a row.

    widths: answers of each network. An answer is called after its file where no .json names it. Raises MicaError.
    """
    found: dict[str, list[str]] = {"labels": [], LISTEN_THRESHOLD: [], LISTEN_MEAN: []}
    for model, width in zip(models, widths, strict=True):
        usual = {LISTEN_THRESHOLD: f"{THRESHOLD:g}", LISTEN_MEAN: str(MEAN)} | beside(model)
        name = usual.pop("labels", clean(model.stem))
        found["labels"] += [name] if width == 1 else [f"{name} {k}" for k in range(width)]
        for key, value in usual.items():
            found[key] += [value] * width
    return {key: ("\n" if key == "labels" else " ").join(values) for key, values in found.items()}
