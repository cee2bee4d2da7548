"""The Signal operators of TensorFlow Lite Micro: its own interpreter's bytes, refusals, and options read without trust.

The numbers below are what the interpreter of the package tflite-micro (0.dev20261023182759) gave for these files;
where it is installed it is asked again.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import MODELS
from tflite_speech import BANDS, FRAME, flexbuffer, speech, speech_to_reals

from mica.cli.main import main
from mica.compile import Compiled, compile_file
from mica.data.sounds import read
from mica.errors import MicaError, Unsupported
from mica.importer.tflite import as_onnx
from mica.importer.tflite.flatbuffer import Damaged
from mica.importer.tflite.flexbuffer import options
from mica.kernels.integers import requantise
from mica.run.host import HostRunner

FILES = MODELS / "tflite"
PREPROCESSOR = FILES / "audio_preprocessor_int8.tflite"
RECORDINGS = {
    "yes": 0xA83FAE7A,
    "no": 0xE4C6E456,
    "silence": 0x6AD42105,
    "noise": 0x3BBD8C92,
}  # CRC-32 of 49 x 40 features
SMALL = 0xCC9F1130  # of 200 x 3 features of the small file
REALS = [392.5, 990.0, 1404.0, 343.5, 1282.0, 0.0, 980.5, 0.0, 685.0, 1463.5, 463.5, 1295.0, 0.0, 1062.5, 0.0, 773.0]
needs_files = pytest.mark.skipif(not FILES.exists(), reason="the models of ../shared are not there")


def sounds(n: int = 200) -> list[np.ndarray]:
    """int16 [1, 40] each, quiet ones and loud ones."""
    state, out = 1, []
    for k in range(n):
        frame, loud = [], 2 ** (k * 7 % 16)
        for _ in range(FRAME):
            state = (state * 1103515245 + 12345) & 0x7FFFFFFF
            frame.append((state >> 8) % (2 * loud) - loud)
        out.append(np.array([frame], np.int16))
    return out


def packed(data: bytes, folder: Path, calibration: Mapping[str, np.ndarray] | None = None) -> Compiled:
    path = folder / "speech.tflite"
    path.write_bytes(data)
    return compile_file(path, calibration)


def answers(compiled: Compiled, xs: Sequence[np.ndarray]) -> np.ndarray:
    with HostRunner(compiled.data) as runner:
        found = []
        for x in xs:
            runner.loaded.set_input(0, x)
            runner.loaded.run()
            found.append(runner.loaded.output(0).copy().reshape(-1))
    return np.array(found)


def of_tflite_micro(path: Path, xs: Sequence[np.ndarray]) -> np.ndarray:
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="tflite-micro is not installed")
    interpreter: Any = runtime.Interpreter.from_file(str(path))
    found = []
    for x in xs:
        interpreter.set_input(x, 0)
        interpreter.invoke()
        found.append(interpreter.get_output(0).copy().reshape(-1))
    return np.array(found)


def frames(word: str) -> list[np.ndarray]:
    x = read(FILES / f"{word}_1000ms.wav", 16000)
    return [x[None, at : at + 480] for at in range(0, 49 * 320, 320)]


def test_bytes_of_tflite_micro(tmp_path: Path) -> None:
    """The noise goes on from run to run; reset, it begins again."""
    compiled = packed(speech(), tmp_path)
    assert [s.kernel for s in compiled.model.steps].count("pcan_s8") == 1 and compiled.model.state_bytes == 4 * 4
    found = answers(compiled, sounds())
    assert zlib.crc32(found.tobytes()) == SMALL
    assert len(np.unique(found)) > 50
    again = answers(compiled, sounds(20))
    np.testing.assert_array_equal(again, found[:20])
    assert not np.array_equal(answers(compiled, sounds(20)[9:]), found[9:20])


def test_the_interpreter_again(tmp_path: Path) -> None:
    packed(speech(), tmp_path)
    assert zlib.crc32(of_tflite_micro(tmp_path / "speech.tflite", sounds()).tobytes()) == SMALL


@needs_files
def test_the_preprocessor_of_micro_speech() -> None:
    compiled = compile_file(PREPROCESSOR)
    for word, crc in RECORDINGS.items():
        assert zlib.crc32(answers(compiled, frames(word)).tobytes()) == crc, word


@needs_files
def test_the_interpreter_again_with_recordings() -> None:
    for word, crc in RECORDINGS.items():
        assert zlib.crc32(of_tflite_micro(PREPROCESSOR, frames(word)).tobytes()) == crc, word


def test_rounded_in_another_way(tmp_path: Path) -> None:
    """A factor that cuts off where mica rounds: a warning, and features within a step."""
    warnings: list[str] = []
    path = tmp_path / "speech.tflite"
    path.write_bytes(speech(add=0))
    found = answers(compile_file(path, warn=warnings.append), sounds())
    assert "some differ from the file's by one step" in warnings[-1]
    exact = answers(packed(speech(), tmp_path), sounds())
    np.testing.assert_array_equal(found, exact)  # (v * 256 + 333) / 666; without 333 it is the same, or one less


def test_every_logarithm_is_rounded_as_in_the_file(tmp_path: Path) -> None:
    step = next(s for s in packed(speech(), tmp_path).model.steps if s.kernel == "pcan_s8")
    v = np.arange(65536)
    np.testing.assert_array_equal(requantise(v, step.params["mult"], step.params["shift"]), (v * 256 + 333) // 666)


def test_real_logarithms(tmp_path: Path) -> None:
    """A CAST to float32, and layers behind it, which calibration gives scales."""
    xs = sounds()
    compiled = packed(speech_to_reals(), tmp_path, {"audio": np.concatenate(xs).astype(np.float32)})
    t = compiled.model.tensors[compiled.model.outputs[0]]
    found = (answers(compiled, xs)[: len(REALS), 0] - float(t.zero_point)) * t.scale
    np.testing.assert_allclose(found, REALS, atol=1.5 * t.scale)


SUBTRACT, BANK, LOG = "SignalFilterBankSpectralSubtraction", "SignalFilterBank", "SignalFilterBankLog"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"SignalWindow": {"shift": 13}}, r"operator 0 \(SignalWindow\): shift is 13; mica takes 12"),
        ({"SignalRfft": {"fft_length": 48}}, "fft_length is 48; expected a power of two"),
        ({"SignalRfft": {"fft_length": 32}}, "at least the 40 samples of a frame"),
        ({"SignalRfft": {"fft_length": -1}}, "fft_length is -1; mica takes 32 to 2048"),
        ({"SignalEnergy": {"end_index": 20}}, "bins 2 to 30 are taken, and 2 to 20 computed"),
        ({BANK: {"num_channels": 5}}, "its tables are not those of 5 channels"),
        ({SUBTRACT: {"clamping": 1}}, r"operator 11 \(.*Subtraction\): clamping is 1; mica takes 0"),
        ({SUBTRACT: {"one_minus_smoothing": 7}}, "smoothing and one_minus_smoothing are not 16384 together"),
        ({SUBTRACT: {"spectral_subtraction_bits": 13}}, "spectral_subtraction_bits is 13; mica takes 14"),
        ({"SignalPCAN": {"snr_shift": 32}}, "snr_shift is 32; mica takes 0 to 31"),
        ({LOG: {"output_scale": 100}}, "output_scale is 100; expected a power of two"),
        ({LOG: {"input_correction_bits": 32}}, "input_correction_bits is 32"),
    ],
)
def test_refused_options(changes: dict[str, dict[str, int]], reason: str, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=reason):
        packed(speech(changes), tmp_path)


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        ({"factor": -256}, "a factor that is not above 0"),
        ({"factor": 2**30}, "its results leave int32"),
        ({"loss": 0}, "it divides by 0"),
        ({"offset": -300}, "is no factor with an addend: up to 172 steps beside one"),
        ({"mask": False}, r"operator 5 \(SignalFilterBank\): it takes bins beside 2 to 30"),
    ],
)
def test_refused_files(tail: dict[str, int], reason: str, tmp_path: Path) -> None:
    """Wrong operators after the logarithm are refused, and so are bins that no operator has computed."""
    with pytest.raises(Unsupported, match=reason):
        packed(speech(**tail), tmp_path)


def test_not_as_onnx(tmp_path: Path) -> None:
    packed(speech(), tmp_path)
    with pytest.raises(MicaError, match="ONNX has no operators for its features of sound"):
        as_onnx(tmp_path / "speech.tflite")


def test_one_front_end_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed(speech(), tmp_path)
    path = str(tmp_path / "speech.tflite")
    assert main(["pack", path, "--frontend", "pcan:micro-speech"]) == 1
    assert "the model has a front end of its own; leave --frontend out" in capsys.readouterr().err
    assert main(["pack", path, "--stream", "audio=20"]) == 1
    assert "the model's own front end takes all at once" in capsys.readouterr().err


def test_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--ops"]) == 0
    assert "\nSignalPCAN\n" in capsys.readouterr().out


def test_options_of_another_writer() -> None:
    """Numbers of all widths, as the package flatbuffers writes them."""
    flexbuffers = pytest.importorskip("flatbuffers.flexbuffers", reason="flatbuffers is not installed")
    for given in (
        {},
        {"shift": 12},
        {"a": -1, "b": 300, "c": -70000, "d": 2**40, "e": True},
        {f"n{k}": k for k in range(64)},
    ):
        assert options(bytes(flexbuffers.Dumps(given))) == given
    for other in ([1, 2], 7, {"a": 1.5}, {"a": "text"}, {"a": [1]}, {f"n{k}": k for k in range(65)}):
        with pytest.raises(Damaged):
            options(bytes(flexbuffers.Dumps(other)))


def test_damaged_options() -> None:
    """Cut at every length and each byte at its edges: numbers, or a line."""
    good = flexbuffer({"shift": 12, "num_channels": 40, "x": -5})
    assert options(good) == {"shift": 12, "num_channels": 40, "x": -5} and options(b"") == {}
    refused = 0
    for bad in (
        *(good[:n] for n in range(1, len(good))),
        *(good[:at] + bytes([v]) + good[at + 1 :] for at in range(len(good)) for v in (0, 1, 127, 128, 255)),
    ):
        try:
            found = options(bad)
        except Damaged as e:
            refused += 1
            assert "\n" not in str(e)
        else:
            assert len(found) <= 64 and all(isinstance(v, int) for v in found.values())
    assert refused > 200
    assert BANDS == 3
