"""Words without recordings: clips by the voices of espeak-ng, where it is installed,
in the folders that `mica train` reads.

FOLDER/hey_board/say-en-US+f3/0001.wav; what is there stays as it is. Other words are made, too, for the label `other`.
Voices that a program makes are like each other: own recordings beside them are worth more (docs/own-words.md).
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mica.data import sounds
from mica.errors import MicaError
from mica.format.names import file_fault
from mica.listen import recorder
from mica.listen.detection import BACKGROUND
from mica.training.examples import SAID

PROGRAM = "espeak-ng"
RATE = 16000
VOICES = 24
OTHER_VOICES = 3  # for each of the other words
_SPEED, _PITCH = (125, 195), (25, 75)  # words a minute; of 0 to 99
VARIANTS = (
    "m1 f1 m2 f2 m3 f3 m4 f4 m5 f5 m6 m7 m8 Alex Andrea Annie Denis Henrique Hugo Jacky Lee Mario Michael Mike Nguyen "
    "aunty belinda benjamin david edward grandma grandpa iven john linda marcelo max pablo paul quincy "
    "robert steph travis"
)
_OTHERS = (
    "about again airport alone always answer apple around autumn basket battery before behind better between "
    "bicycle blanket "
    "bottle breakfast brother building butter candle careful carpet castle chicken children city coffee colour corner "
    "country cousin daughter december dinner doctor dollar double early eleven engine evening everything family father "
    "finger finish flower forest forty friend garden glasses green guitar happy harbour holiday horse hospital hundred "
    "kitchen ladder language later lemon letter library listen little machine market matter maybe message "
    "middle minute "
    "monday money monkey morning mother mountain music never nothing number ocean office often orange "
    "other paper parent "
    "pencil people picture pocket power present question quiet rabbit rather river school season second seven shoulder "
    "sister sleep something station story street student summer sunday table teacher thirty thousand ticket together "
    "tomorrow traffic travel twenty under until upstairs village water weather welcome window winter "
    "without wonder world "
    "yesterday the|weather|is|fine how|are|you what|time|is|it thank|you|very|much see|you|later I|do|not|know"
)


def make(
    words: Sequence[str],
    folder: Path,
    count: int = VOICES,
    language: str = "en",
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Path]:
    """Return the clips of each word, by `count` voices of a language, that were written. Raises MicaError."""
    labels = {word: "_".join(re.findall(r"\w+", word.lower())) for word in words}
    for word, label in labels.items():
        if not label or file_fault(label):
            raise MicaError(f"--say '{word}'", todo="expected words to say")
    every = _voices(language)
    rng = np.random.default_rng(0)
    voices = [every[k] for k in rng.permutation(len(every))[:count]]
    wished = [(word, label, voice) for word, label in labels.items() for voice in voices]
    # By the same voices, so that a voice says nothing about the label.
    texts = [text.replace("|", " ") for text in _OTHERS.split() if not {text, *text.split("|")} & {*labels.values()}]
    others = [p.name for p in sorted(folder.glob("*")) if p.is_dir() and p.name.strip("_").lower() in BACKGROUND]
    other = [*others, "other"][0]
    wished += [(text, other, voices[k % len(voices)]) for k, text in enumerate(texts * OTHER_VOICES)]
    written: list[Path] = []
    counts: dict[Path, int] = {}
    for k, (text, label, voice) in enumerate(wished):
        place = folder / label / f"{SAID}{voice.rpartition('/')[2]}"
        counts[place] = counts.get(place, 0) + 1
        speed, pitch = int(rng.integers(*_SPEED)), int(rng.integers(*_PITCH))
        if not (place / f"{counts[place]:04d}.wav").exists():
            written.append(recorder.save(place, counts[place], spoken(text, voice, speed, pitch), RATE))
        progress(k + 1, len(wished))
    return written


def spoken(text: str, voice: str, speed: int, pitch: int) -> np.ndarray:
    """Return int16 [n] at 16 kHz without the silence around it. Raises MicaError."""
    with tempfile.TemporaryDirectory(prefix="mica-") as folder:
        path = Path(folder) / "said.wav"
        _run("-v", voice, "-s", str(speed), "-p", str(pitch), "-w", str(path), "--", text)
        x = trimmed(sounds.read(path, RATE))
    if not len(x):
        raise MicaError(f"{PROGRAM}: says nothing for '{text}'", todo="write it as it is spoken")
    return x


def trimmed(x: np.ndarray) -> np.ndarray:
    """Return int16 [n] without the silence around it, half as loud as can be."""
    x = x.astype(np.float32)
    loud = np.flatnonzero(np.abs(x) > 0.03 * np.abs(x).max())
    if not len(loud):
        return np.zeros(0, np.int16)
    x = x[max(0, loud[0] - RATE // 100) : loud[-1] + RATE // 50]
    return np.asarray(np.rint(x * (16000 / np.abs(x).max())), np.int16)


def _voices(language: str) -> list[str]:
    """Return voices of a language, by their files: by name some variants are silently left out. Raises MicaError."""
    lines = [line.split() for line in _run(f"--voices={language}").splitlines()[1:]]
    files = [words[4] for words in lines if len(words) > 4 and not words[4].startswith(("mb/", "!v/"))]
    if not files:
        raise MicaError(f"{PROGRAM}: has no voice for '{language}'", todo=f"{PROGRAM} --voices lists them")
    return [f"{file}+{variant}" for file in files for variant in VARIANTS.split()]


def _run(*words: str) -> str:
    """Return what it printed. Raises MicaError."""
    program = shutil.which(PROGRAM)
    if program is None:
        todo = f"install it (Debian, Ubuntu: apt install {PROGRAM}; macOS: brew install {PROGRAM}), or record the words"
        raise MicaError(f"--say needs the program {PROGRAM}, which is not installed", todo=todo)
    done = subprocess.run([program, *words], capture_output=True, text=True, errors="replace", timeout=60, check=False)
    if done.returncode:
        raise MicaError(f"{PROGRAM}: {([*done.stderr.splitlines(), 'failed'])[0]}", todo="try another text or language")
    return done.stdout
