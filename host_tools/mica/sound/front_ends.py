"""Front ends by name: `mfcc:mlperf-kws`, `logmel:rate=16000,frame=480,hop=320,mels=40`, and how they become tables.

`features:`, for windows of several axes, is in axis_features.py. A description is a kind, a colon, and words with
commas between them: the name of a preset first, then KEY=VALUE. What the keys mean is in KEYS;
host_tools/docs/sound.md has a table of the presets and examples for other programs' features.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mica.errors import MicaError
from mica.ir.axes import Front
from mica.ir.front_end import FrontEnd, Pcen, rows_of, speech_front_end
from mica.kernels.audio import LEAST_POINTS, MOST_POINTS
from mica.reference.front_end import turns
from mica.reference.functions import exp, log
from mica.reference.speech import tables
from mica.sound import axis_words as axis_features
from mica.sound.words import WINDOWS, Word, defaults, one_of, read_size, real, said, share, size, whole, window

Array = np.ndarray


def _start(text: str) -> str | float:
    return text if text == "first" else read_size(text)


KEYS: Mapping[str, Word] = {
    "rate": whole(16000),  # samples a second
    "samples": whole(),  # of a whole input; by default those of the frames that the network takes
    "frame": whole(480),  # samples
    "hop": whole(320),  # samples
    "fft": whole(),  # points
    "window": one_of(*WINDOWS, default="hann"),
    "mels": whole(40),
    "fmin": size(20.0),  # Hz
    "fmax": size(),  # Hz
    "scale": one_of("htk", "slaney", "tf", default="htk"),  # of the mel filters; tf: triangles in mel, not in Hz
    "norm": one_of("none", "slaney", default="none"),  # of each filter: its largest weight 1, or its area
    "power": one_of("1", "2", default="2"),  # sizes or their squares
    "coefs": whole(10),  # of an MFCC
    "dct": one_of("ortho", "tf", default="ortho"),  # tf: the first row as long as the others
    "log": one_of("ln", "log10", "db", "log2", default="ln"),  # db: 10 log10
    "floor": size(0.0),  # is added before the logarithm
    "least": size(),  # below it the logarithm is that of it
    "peak": one_of("yes", "no", default="no"),  # samples are divided by the largest of them
    "preemphasis": size(0.0),
    "before": one_of("yes", "no", default="no"),  # one sample more, before the first frame, for its pre-emphasis
    "unit": size(1 / 32768),  # what a step of the samples is worth
    "times": size(1.0),  # what the logarithms are multiplied with
    "plus": real(0.0),  # and what is added to them afterwards
    "low": real(),  # the features are cut off there
    "high": real(),
    "s": share(),  # how much of the energy comes into the noise of a frame
    "time": size(),  # of the noise, in seconds: another way to say s
    "alpha": share(0.98),  # the power of the noise that energies are divided by
    "delta": size(2.0),
    "r": share(0.5),
    "eps": size(1e-6),  # is added to the noise
    "start": Word(
        _start, "first, or a number of 0 or more", "first"
    ),  # noise before the first frame; first: its energy
    "tables": one_of("preprocessor", "library", default="preprocessor"),  # which of tflite-micro's
}

OF_ALL = ("rate", "samples", "frame", "hop", "fft", "mels", "fmin", "fmax")
OF_SPEECH = (*OF_ALL, "tables")  # those that `pcan` has
NOISE = ("s", "time", "alpha", "delta", "r", "eps", "start")  # those that `pcen` alone has, beside the following
OF_ENERGIES = (*OF_ALL, "window", "scale", "norm", "power", "preemphasis", "before", "unit", "low", "high", *NOISE)

# Why some kinds take whole windows, and others not rows of those that --window keeps.
OF_WINDOWS: Mapping[str, str] = {axis_features.KIND: "makes statistics of a whole window"}
OF_FRAMES: Mapping[str, str] = dict.fromkeys(("pcan", "pcen"), "its noise goes on from frame to frame")

TIME = 0.4  # seconds, where neither s nor time is said

PRESETS: Mapping[str, str] = {
    # MLPerf Tiny's keyword spotting: get_dataset.py of its reference
    "mfcc:mlperf-kws": "samples=16000,frame=480,hop=320,fft=512,mels=40,fmin=20,fmax=4000,scale=tf,power=1,coefs=10,"
    "dct=tf,floor=1e-6,peak=yes",
    # tflite-micro's micro_speech: its audio_preprocessor
    "pcan:micro-speech": "rate=16000,frame=480,hop=320,fft=512,mels=40,fmin=125,fmax=7500",
    # microWakeWord's features: those of tflite-micro's C library
    "pcan:micro-wakeword": "rate=16000,frame=480,hop=160,fft=512,mels=40,fmin=125,fmax=7500,tables=library",
    # librosa.pcen of 2**31 times a mel spectrogram with power=1 and center=False, as its own page has it
    "pcen:librosa": "frame=2048,hop=512,fft=2048,rate=22050,mels=128,fmin=0,scale=slaney,norm=slaney,"
    "power=1,unit=65536,time=0.4,alpha=0.98,delta=2,r=0.5,eps=1e-6,start=1",
    # openWakeWord's melspectrogram.onnx, and the tenth and 2 that its program adds; a window of 400 amid 512 points
    "logmel:openwakeword": "rate=16000,frame=400,hop=160,fft=512,mels=32,fmin=60,fmax=3800,scale=slaney,norm=slaney,"
    "power=2,unit=1,least=1e-10,log=db,times=1/10,plus=2",
    # MLPerf Tiny's streaming wake word
    "logmel:mlperf-wakeword": "frame=1024,hop=512,fft=1024,window=hamming-symmetric,mels=40,fmin=0,fmax=8000,scale=tf,"
    "power=2,least=1e-30,preemphasis=0.96875,log=db,times=1/64,plus=0.342142189525,low=0,high=1",
}


@dataclass(frozen=True)
class Description:
    """A front end as it was asked for. text: as for --frontend, for the file."""

    text: str
    kind: str
    values: Mapping[str, Any]

    @property
    def columns(self) -> int:
        """Features of a row."""
        columns: int = self.values["coefs" if self.kind == "mfcc" else "mels"]
        return columns

    def front_end(self, rows: int) -> FrontEnd:
        """The tables, for a network that takes so many rows. Raises MicaError if the description contradicts itself."""
        v = self.values
        frame, hop, rate, mels, columns = v["frame"], v["hop"], v["rate"], v["mels"], self.columns
        fft = v.get("fft", max(LEAST_POINTS, 1 << (frame - 1).bit_length()))
        fmin, fmax = v["fmin"], v.get("fmax", rate / 2)
        before = v["before"] == "yes"
        samples = v.get("samples", before + frame + (rows - 1) * hop)
        for wrong, todo in (
            (
                not LEAST_POINTS <= fft <= MOST_POINTS or fft & (fft - 1),
                f"fft={fft}: expected 32, 64 and so on to 2048",
            ),
            (frame > fft, f"frame={frame} is longer than fft={fft}"),
            (fmin >= fmax or fmax > rate / 2, f"fmin={fmin:g}, fmax={fmax:g}: expected fmin < fmax <= {rate / 2:g} Hz"),
            (columns > mels, f"coefs={columns} of mels={mels}"),
            (samples < before + frame or samples > 65535, f"{samples} samples: expected {before + frame} to 65535"),
            (v["preemphasis"] > 1, "preemphasis: expected 0 to 1"),
            ("low" in v and "high" in v and v["low"] >= v["high"], "low is not below high"),
            (v["unit"] == 0 or v["times"] == 0, "unit and times have to be more than 0"),
            (v.get("s") == 0 or v.get("time") == 0, "s and time have to be more than 0"),
            (v["r"] == 0, "r has to be more than 0"),
            (v["eps"] == 0, "eps has to be more than 0"),
        ):
            if wrong:
                raise MicaError(f"--frontend {self.text}: {todo}")
        if self.kind == "pcan":
            return self._speech(rate, samples, frame, hop, fft, mels, fmin, fmax)
        filters = mel_filters(rate, fft, mels, fmin, fmax, str(v["scale"]), str(v["norm"]))
        dead = [b for b in range(mels) if not filters[b].any()]
        if len(dead) == mels:
            raise MicaError(f"--frontend {self.text}: no filter holds a bin", todo="take a larger fft or fewer mels")
        logarithm = {"ln": 1.0, "log2": 1 / _ln(2), "log10": 1 / _ln(10), "db": 10 / _ln(10)}[str(v["log"])]
        floor, power = v["floor"], v["power"] == "2"
        return FrontEnd(
            rate=rate,
            samples=samples,
            frame=frame,
            hop=hop,
            fft=fft,
            window=window(str(v["window"]), frame),
            filters=filters,
            dct=dct(str(v["dct"]), columns, mels) if self.kind == "mfcc" else None,
            power=power,
            peak=v["peak"] == "yes",
            preemphasis=v["preemphasis"],
            before=before,
            floor=v.get("least", floor),
            limit="least" in v,
            factor=logarithm * v["times"],
            shift=v["plus"],
            unit=v["unit"],
            least=v.get("low"),
            most=v.get("high"),
            pcen=self._pcen(rate, hop) if self.kind == "pcen" else None,
        )

    def _pcen(self, rate: int, hop: int) -> Pcen:
        v = self.values
        if "s" in v:
            s = v["s"]
        else:  # of a filter whose answer to a step has this time constant, as librosa has it
            frames = v.get("time", TIME) * rate / hop
            s = (math.sqrt(1 + 4 * frames**2) - 1) / (2 * frames**2)
        return Pcen(
            s=s,
            alpha=v["alpha"],
            delta=v["delta"],
            r=v["r"],
            eps=v["eps"],
            start=v["start"] if isinstance(v["start"], float) else None,
        )

    def _speech(
        self, rate: int, samples: int, frame: int, hop: int, fft: int, mels: int, fmin: float, fmax: float
    ) -> FrontEnd:
        """Features of speech. Raises MicaError."""
        try:
            found = tables(rate, frame, hop, fft, mels, fmin, fmax, self.values["tables"] == "library")
        except ValueError as e:
            raise MicaError(f"--frontend {self.text}: {e}", todo="take a larger fft or fewer mels") from None
        return speech_front_end(found, rate, samples)


def find_front(text: str, shape: tuple[int, ...], what: str, step: bool = False) -> tuple[Front, str]:
    """The front end of a network whose input has a shape, and as what it was asked for. step: for a row at a time:
    pre-emphasis then needs the sample before it. what: the input, for errors. Raises MicaError."""
    if text.startswith(f"{axis_features.KIND}:"):
        return axis_features.parse(text, shape, what), text
    described = parse(text)
    if step and described.values["preemphasis"] and described.values["before"] == "no":
        text += ",before=yes"
        described = parse(text)
    return described.front_end(rows_of(shape, described.columns, what)), text


def shape_alone(text: str) -> tuple[int, ...]:
    """The shape of the features of a front end that no network follows: [1, features], or of sound [1, rows, columns].
    Raises MicaError."""
    if text.startswith(f"{axis_features.KIND}:"):
        made = axis_features.parse(text, None, "the embedding")
        return (1, made.axes * made.each)
    described = parse(text)
    v = described.values
    frame, hop, samples = (v.get(key) for key in ("frame", "hop", "samples"))
    if not isinstance(samples, int):
        raise MicaError(f"--frontend {text}: samples= is missing", todo="expected how many samples a recording has")
    return (1, max(1, (samples - (v["before"] == "yes") - frame) // hop + 1), described.columns)


def parse(text: str) -> Description:
    """Read the value of --frontend. Raises MicaError."""
    kind, colon, rest = text.partition(":")
    if kind not in ("mfcc", "logmel", "pcan", "pcen") or not colon or not rest:
        raise MicaError(
            f"--frontend {text}: no front end of that name",
            todo=f"expected {' or '.join(PRESETS)}, or mfcc:, logmel:, pcan:, pcen: or features: and KEY=VALUE,...",
        )
    words = rest.split(",")
    if "=" not in words[0]:
        preset = PRESETS.get(f"{kind}:{words[0]}")
        if preset is None:
            names = [name.removeprefix(f"{kind}:") for name in PRESETS if name.startswith(f"{kind}:")]
            raise MicaError(f"--frontend {kind}: has no preset '{words[0]}'", todo=f"expected {' or '.join(names)}")
        words[:1] = preset.split(",")
    known = {"pcan": OF_SPEECH, "pcen": OF_ENERGIES}.get(kind, [k for k in KEYS if k not in (*NOISE, "tables")])
    own = said("--frontend", words, {key: KEYS[key] for key in known})
    for key in [key for key in own if key in ("s", "time")][:-1]:  # the one that was said last
        del own[key]
    values = defaults(KEYS) | own
    if "least" in values and values["floor"]:
        raise MicaError("--frontend: floor= is added, least= is a limit", todo="give one of them")
    return Description(text, kind, values)


def _ln(x: float) -> float:
    return float(log(np.array(x)))


def dct(name: str, rows: int, n: int) -> Array:
    """The first rows of a type II cosine transform of n numbers, float64 [rows, n]."""
    place = np.arange(rows)[:, None] * (2 * np.arange(n) + 1) % (4 * n)
    out: Array = turns(4 * n)[0][place] * math.sqrt(2 / n)
    if name == "ortho":
        out[0] *= math.sqrt(0.5)
    return out


_SLANEY_STEP = 200 / 3  # Hz, below 1000 Hz; above, 27 filters to a factor of 6.4


def _to_mel(hz: Array, scale: str) -> Array:
    hz = np.asarray(hz, np.float64)
    if scale != "slaney":
        return 1127.0 * log(1 + hz / 700)
    return np.where(hz < 1000, hz / _SLANEY_STEP, 15 + 27 / _ln(6.4) * log(np.maximum(hz, 1000) / 1000))


def _to_hz(mel: Array, scale: str) -> Array:
    if scale != "slaney":
        return 700 * (exp(mel / 1127.0) - 1)
    return np.where(mel < 15, mel * _SLANEY_STEP, 1000 * exp((np.maximum(mel, 15) - 15) * _ln(6.4) / 27))


def mel_filters(rate: int, fft: int, n: int, fmin: float, fmax: float, scale: str, norm: str) -> Array:
    """Triangles that overlap by half, float64 [n, fft / 2 + 1], in Hz; `tf`: in mel, and bin 0 is in none of them."""
    hz = np.arange(fft // 2 + 1) * (rate / fft)
    low, high = _to_mel(np.array([fmin, fmax]), scale).tolist()
    edges = low + (high - low) / (n + 1) * np.arange(n + 2)
    corners = _to_hz(edges, scale)
    places, ends = (_to_mel(hz, scale), edges) if scale == "tf" else (hz, corners)
    left, middle, right = (ends[k : k + n, None] for k in range(3))
    filters: Array = np.maximum(0.0, np.minimum((places - left) / (middle - left), (right - places) / (right - middle)))
    if scale == "tf":
        filters[:, 0] = 0.0
    if norm == "slaney":
        filters *= (2 / (corners[2:] - corners[:-2]))[:, None]
    return filters
