"""Files of real exporters: each small model packs and gives its framework's answers.

The truth is the framework's own output (PyTorch, Keras, scikit-learn), stored beside each file by the scripts in
`tests/models`. SQNR: signal power over error power of an output, over the 16 test inputs of a file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from exports import FILES, answers, compiled
from targets import ALL

# The same network by PyTorch's other exporter has the recipes; this one too with scripts/test --all.
TWINS = {p.stem for p in FILES if p.with_name(p.name.replace("torchscript_", "dynamo_")) in FILES and p.stem[0] == "t"}
# dB. Most outputs reach 30 or more.
FLOOR = 20.0
LOWER_FLOOR = {
    # The raw features of the wine and cancer data span 0.1 to 1,700 in one int8 input; give mica the scaled features.
    "sklearn_classifier": 0.0,
    "sklearn_classifier_binary": 0.0,
    "sklearn_classifier_zipmap": 0.0,
    # A mean of embeddings that nearly cancels.
    "dynamo_embedding": 15.0,
    "dynamo_embedding_bag": 15.0,
    "torchscript_embedding": 15.0,
    "torchscript_embedding_bag": 15.0,
}
HIGHER_FLOOR = {
    "dynamo_gru": 40, "dynamo_gru_both": 30, "dynamo_lstm": 40, "dynamo_lstm_2layer": 38, "dynamo_unet": 33,
    "keras_lstm": 38, "keras_upsampling": 33, "torchscript_gru": 40, "torchscript_gru_both": 30, "torchscript_lstm": 38,
    "torchscript_lstm_2layer": 38, "torchscript_rnn": 33, "torchscript_rnn_relu": 28, "torchscript_segmentation": 24,
    "torchscript_unet": 33,
}  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_export(path: Path) -> None:
    for answer in answers(path, compiled(path, path.stem in TWINS and not ALL)):
        if answer.expected.dtype.kind in "iu" and path.stem not in LOWER_FLOOR:
            assert np.mean(answer.expected == answer.found) >= 0.95, answer.name
        else:
            floor = (LOWER_FLOOR | HIGHER_FLOOR).get(path.stem, FLOOR)
            assert answer.sqnr >= floor, (answer.name, answer.sqnr)


def test_all_are_here() -> None:
    """The fixtures travel with the project, so nothing here is skipped."""
    assert len(FILES) >= 80
    assert all(path.with_suffix(".npz").exists() for path in FILES)
