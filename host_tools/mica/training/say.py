"""Words without recordings: clips by the voices of espeak-ng, where it is installed,
in the folders that `mica train` reads.

FOLDER/hey_board/say-en-US+f3/0001.wav; what is there stays as it is. Other words and running speech are made, too, for
the label `other`: made-up words, and parts of those to say among them.
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
VOICES, ALONE = 24, 40  # for each of several words, for one
OTHER_VOICES = 3  # for each of the other words
MINUTES, JUDGED = 45.0, 90.0  # of running speech: to learn from; to choose thresholds on, and count
_TEXT, _SECONDS = 60, 27.0  # words of a file of it, about so long
_SYLLABLE = ("b ch d f g h k l m n p r s sh t v w y th br gl pl sp st tr", "a e i o u ai ar ee er oo ow", "n r s l t k")
_SPEED, _PITCH = (125, 195), (25, 75)  # words a minute; of 0 to 99
VARIANTS = (
    "m1 f1 m2 f2 m3 f3 m4 f4 m5 f5 m6 m7 m8 Alex Andrea Annie Denis Henrique Hugo Jacky Lee Mario Michael Mike Nguyen "
    "aunty belinda benjamin david edward grandma grandpa iven john linda marcelo max pablo paul quincy robert steph "
    "travis"
)
_OTHERS = (
    "about again airport alone always answer apple around autumn basket battery before behind better between bicycle "
    "blanket bottle breakfast brother building butter candle careful carpet castle chicken children city coffee "
    "colour corner country cousin daughter december dinner doctor dollar double early eleven engine evening "
    "everything family father finger finish flower forest forty friend garden glasses green guitar happy harbour "
    "holiday horse hospital hundred kitchen ladder language later lemon letter library listen little machine market "
    "matter maybe message middle minute monday money monkey morning mother mountain music never nothing number ocean "
    "office often orange other paper parent pencil people picture pocket power present question quiet rabbit rather "
    "river school season second seven shoulder sister sleep something station story street student summer sunday "
    "table teacher thirty thousand ticket together tomorrow traffic travel twenty under until upstairs village water "
    "weather welcome window winter without wonder world yesterday the|weather|is|fine how|are|you what|time|is|it "
    "thank|you|very|much see|you|later I|do|not|know"
)
_COMMON = (
    "the and of to in a that it for on with as was but be this have from they by or one had not we when there an were "
    "which do their if will each how them then she many some so these would into has more her two him see than first "
    "been its who now made over did down only way find use may long very after where most know here just could good"
)


def make(
    words: Sequence[str],
    folder: Path,
    count: int | None = None,
    language: str = "en",
    progress: Callable[[int, int], None] = lambda done, of: None,
    judging: bool = False,
) -> list[Path]:
    """Return the clips of each word, by `count` voices of a language, that were written, and of one word alone running
    speech: beside several, lone other words teach more. judging: only that, by the voices that are left. Raises
    MicaError."""
    labels = {word: "_".join(re.findall(r"\w+", word.lower())) for word in words}
    for word, label in labels.items():
        if not label or file_fault(label):
            raise MicaError(f"--say '{word}'", todo="expected words to say")
    every, alone = _voices(language), len(words) == 1
    count = count or (ALONE if alone else VOICES)
    rng = np.random.default_rng(0)
    every = [every[k] for k in rng.permutation(len(every))]
    voices = every[count:] or every if judging else every[:count]
    wished = [(word, label, voice) for word, label in labels.items() for voice in voices]
    # By the same voices, so that a voice says nothing about the label.
    texts = [text.replace("|", " ") for text in _OTHERS.split() if not {text, *text.split("|")} & {*labels.values()}]
    others = [p.name for p in sorted(folder.glob("*")) if p.is_dir() and p.name.strip("_").lower() in BACKGROUND]
    other = [*others, "other"][0]
    wished += [(text, other, voices[k % len(voices)]) for k, text in enumerate(texts * OTHER_VOICES)]
    wished = [] if judging else wished
    talk = _talk(words, judging) if alone or judging else []
    wished += [(text, other, voices[k % len(voices)]) for k, text in enumerate(talk)]
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


def _talk(words: Sequence[str], judging: bool) -> list[str]:
    """Return texts in which none of these words is said: other ones, made-up ones, and parts of these."""
    rng = np.random.default_rng(judging)
    said = [re.findall(r"\w+", word.lower()) for word in words]
    known = [word for word in _OTHERS.replace("|", " ").split() if [word] not in said]
    common = [word for word in _COMMON.split() if [word] not in said]

    def some(of: Sequence[str]) -> str:
        return of[int(rng.integers(len(of)))]

    def made() -> str:
        return "".join(some(part.split()) for part in _SYLLABLE * int(rng.integers(1, 4)))

    texts = []
    for _ in range(round(60 * (JUDGED if judging else MINUTES) / _SECONDS)):
        text: list[str] = []
        while len(text) < _TEXT:
            whole = some(said[rng.integers(len(said))])
            cut = int(rng.integers(1, max(2, len(whole))))
            begin, end = whole[:cut], whole[cut:]
            near = some([whole, begin + made(), made() + end])
            text.append(some([some(known), some(common), some(common), made(), near]))
            if any(text[-len(word) :] == word for word in said):
                text.pop()
        texts.append(". ".join(" ".join(text[k : k + 9]) for k in range(0, _TEXT, 9)))
    return texts


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
