"""A small model of sound: a front end with a DCT and one without, of one int16 input."""

from __future__ import annotations

import numpy as np

from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.kernels import audio
from mica.kernels.scratch import scratch_min


def _constants(fft: int, frame: int, bands: int, columns: int, dct: bool) -> dict[str, np.ndarray]:
    angle = 2 * np.pi * np.arange(fft // 2 + 1) / fft
    first = np.arange(bands) * 4
    return {
        "window": np.rint(32767 * np.sin(np.pi * (np.arange(frame) + 0.5) / frame)).astype(np.int16),
        "twiddles": np.rint(np.stack([np.cos(angle), np.sin(angle)], 1) * 2**14).astype(np.int16),
        "filters": np.stack([first, np.full(bands, 3)], 1).astype(np.uint16),
        "gains": np.tile(np.array([20000, 65535, 30000], np.uint16), bands),
        "dct": (
            np.cos(np.arange(columns)[:, None] * (np.arange(bands) + 0.5)) * 9000 if dct else np.zeros(0)
        ).astype(np.int16),
        "bias": (-300000 * np.ones(columns)).astype(np.int32),
    }  # fmt: skip


def _speech(name: str, inputs: tuple[int, ...], y: int) -> StepRecord:
    angle = np.concatenate([-2 * np.pi / 16 * np.arange(16), -np.pi * ((np.arange(8) + 1) / 16 + 0.5)])
    blobs = {
        "window": np.full(30, 4000, np.int16),
        "twiddles": np.floor(0.5 + 32767 * np.stack([np.cos(angle), np.sin(angle)], 1)).astype(np.int16),
        "filters": np.array([[1, 3], [4, 4], [8, 5]], np.uint16),
        "gains": np.stack([np.arange(12) * 300, 4000 - np.arange(12) * 300], 1).astype(np.uint16),
        "lut": (32000 - np.arange(125) * 200).astype(np.int16),
        "logs": (np.arange(129) * 40 % 5600).astype(np.uint16),
    }
    p = {
        "frame": 30,
        "hop": 20,
        "fft": 32,
        "bands": 2,
        "gains": 12,
        "even": 409,
        "odd": 983,
        "places": 10,
        "least": 819,
    }
    p |= {"snr_shift": 6, "correction": 3, "log_places": 6, "mult": 2**30, "shift": 1, "act_min": -128, "act_max": 127}
    return StepRecord(name, "pcan_s8", inputs, (y,), p, blobs)


def _normalised(name: str, inputs: tuple[int, ...], y: int) -> StepRecord:
    constants = _constants(32, 30, 2, 2, False)
    blobs = {k: constants[k] for k in ("window", "twiddles", "filters", "gains")}
    blobs["curve"] = (np.arange(40) * 1500 - 30000).astype(np.int16)
    p = {
        "frame": 30,
        "hop": 20,
        "fft": 32,
        "bands": 2,
        "gains": 6,
        "flags": audio.POWER,
        "preemphasis": 1000,
        "smooth": 2**14,
        "alpha": 2**16 - 2**10,
        "eps": 2**30,
        "eps_exponent": -20,
        "start": 0,
        "start_exponent": 0,
        "origin": -(2**17),
        "points": 40,
        "places": 3,
    }
    return StepRecord(name, "pcen_s8", inputs, (y,), p, blobs)


def audio_model(seed: int = 1) -> ModelFile:
    """80 samples in; 3 frames of 3 coefficients, and 1 of 4 band powers, 5 of these from mirrored edges on,
    and 3 of 2 bands of speech, out; and, with a noise in, these again with the noise that they leave;
    the same of 2 bands that are divided by what they were."""
    tensors = [
        TensorRecord("x", "int16", (1, 80), offset=0),
        TensorRecord("coefficients", "int8", (1, 3, 3), scale=0.25, zero_point=-5, offset=160),
        TensorRecord("bands", "int8", (1, 4), scale=0.1, zero_point=3, offset=176),
        TensorRecord("edges", "int8", (1, 5, 4), scale=0.1, zero_point=3, offset=192),
        TensorRecord("speech", "int8", (1, 3, 2), scale=0.1, zero_point=-128, offset=224),
        TensorRecord("noise", "int8", (1, 4, 2), scale=0.1, zero_point=-3, offset=240),
        TensorRecord("goes on", "int8", (1, 7, 2), scale=0.1, zero_point=-128, offset=256),
        TensorRecord("normalised", "int8", (1, 3, 2), scale=0.1, zero_point=-128, offset=272),
        TensorRecord("and on", "int8", (1, 7, 2), scale=0.1, zero_point=-128, offset=288),
    ]
    common = {"gains": 12, "bands": 4, "mult": 2**30, "act_min": -128}
    steps = [
        StepRecord(
            "mfcc", "log_mel_s8", (0,), (1,),
            {"frame": 40, "hop": 20, "fft": 64, "flags": audio.DCT | audio.PEAK, "preemphasis": 0, "floor": 2**30,
             "floor_exponent": -45, "shift": 15, "act_max": 120, **common},
            _constants(64, 40, 4, 3, True),
        ),
        StepRecord(
            "powers", "log_mel_s8", (0,), (2,),
            {"frame": 32, "hop": 100, "fft": 32, "flags": audio.POWER | audio.LIMIT, "preemphasis": 31000,
             "floor": 1000,
             "floor_exponent": 3, "shift": 12, "act_max": 127, **common},
            _constants(32, 32, 4, 4, False),
        ),
        StepRecord(
            "centred", "log_mel_s8", (0,), (3,),
            {"frame": 32, "hop": 20, "fft": 32, "flags": audio.POWER | audio.PAD | audio.MIRROR, "floor": 1000,
             "floor_exponent": 3, "shift": 12, "act_max": 127, "pad": 16, **common},
            _constants(32, 32, 4, 4, False),
        ),
    ]  # fmt: skip
    steps += [_speech("speech", (0,), 4), _speech("further", (0, 5), 6)]
    steps += [_normalised("normalised", (0,), 7), _normalised("and on", (0, 5), 8)]
    for s in steps:
        s.scratch_min = s.scratch_want = scratch_min(s.kernel, tensors[s.outputs[0]].dims[-1], s.params)
    return ModelFile(tensors, steps, [0, 5], [1, 2, 3, 4, 6, 7, 8], {"name": "audio"}, arena_bytes=304)
