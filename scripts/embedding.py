"""Train the network whose embedding suits spoken words: host_tools/mica/training/spoken.npz.

It learns to tell made-up words apart, so no list of words is in it. Programs say them: espeak-ng in 20 languages with
all variants, festival with Debian's free voices (apt install espeak-ng festival festvox-kdlpc16k
festvox-czech-{dita,krb,machac,ph} festvox-ital{p,c}16k festvox-suopuhe-{lj,mv} festvox-ca-ona-hts), never flite, which
judges. The weights have mica's licence, MIT. What ships learnt from clips by espeak-ng's library, not the same samples.
"""

import contextlib
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from mica.data import sounds
from mica.errors import MicaError
from mica.training import augment, say
from mica.training.examples import Examples
from mica.training.families import FACTOR, FILE, SCALE, SIZES, STRIDES, Plan
from mica.training.optimise import Settings, Training

# Language: voices of espeak-ng; words, clips of each by these; voices of festival, clips of each word by each.
ENGLISH = "gmw/en-US gmw/en gmw/en-GB-scotland gmw/en-GB-x-rp gmw/en-029 gmw/en-US-nyc"
LATIN = (
    "gmw/de roa/fr roa/es roa/pt-BR gmw/nl zlw/pl gmq/sv trk/tr urj/hu roa/ro poz/id bnt/sw aav/vi zls/hr "
    "sit/cmn-Latn-pinyin"
)
SPOKEN = [
    (ENGLISH, 480, 9, "ked_diphone", 2),
    ("zlw/cs", 110, 6, "czech_dita czech_krb czech_machac czech_ph", 1),
    ("roa/it", 110, 6, "lp_diphone pc_diphone", 2),
    ("urj/fi", 110, 6, "suo_fi_lj_diphone hy_fi_mv_diphone", 2),
    ("roa/ca", 80, 6, "upc_ca_ona_hts", 3),
    *((voice, 50, 7, "", 0) for voice in LATIN.split()),
]
PAIRS = "br ch cr dr fl gr kl pl sh sk sp st tr"
STARTS = [*"bcdfghjklmnprstvwyzbdgklmnprst", *PAIRS.split()]
VOWELS, ENDS = [*"aeiouaeiou", "ai", "ee", "oa", "ou"], ["", "", "", "", *"lmnrstkp", "nd", "st"]
SYLLABLES = (0.15, 0.6, 0.25)  # the share of words with one to three
ECHOES, DECAY = 0.4, (0.15, 0.6)  # share of the clips; seconds until an echo has fallen by 60 dB
CYCLE, CYCLES, BATCH, RATE = 1000, 6, 64, 0.006
CHANGED = 0.7  # of a batch in the end
BANK = 256  # words


def smaller(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return arrays for the file: matrices as int8 with a factor for each column, all others in half precision."""
    found: dict[str, np.ndarray] = {}
    for name, a in arrays.items():
        found[name] = a.astype(np.float16)
        if a.ndim > 1:
            factor = np.maximum(np.abs(a).max(axis=tuple(range(a.ndim - 1))), 1e-9) / 127
            found |= {name: np.rint(a / factor).astype(np.int8), name + FACTOR: factor}
    return found


def word(rng: np.random.Generator) -> str:
    count = 1 + rng.choice(3, p=SYLLABLES)
    return "".join(rng.choice(STARTS) + rng.choice(VOWELS) + rng.choice(ENDS) for _ in range(count))


def by_festival(voice: str, texts: list[str], rng: np.random.Generator) -> list[np.ndarray | None]:
    """Return int16 [n] at 16 kHz of each text, None of what the voice cannot say."""
    with tempfile.TemporaryDirectory(prefix="mica-") as folder:
        lines = [f"(voice_{voice})"]
        for k, text in enumerate(texts):
            lines.append(f"(Parameter.set 'Duration_Stretch {rng.uniform(0.8, 1.3):.2f})")
            lines.append(f'(unwind-protect (utt.save.wave (utt.synth (Utterance Text "{text}")) "{folder}/{k}.wav"))')
        subprocess.run(["festival", "--pipe"], input="\n".join(lines), text=True, capture_output=True, check=True)
        paths = [Path(folder) / f"{k}.wav" for k in range(len(texts))]
        return [say.trimmed(sounds.read(p, say.RATE)) if p.is_file() else None for p in paths]


def echoed(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return float [n] as a room of chance would give it to a microphone some way off."""
    t = np.arange(int(DECAY[1] * say.RATE)) / say.RATE
    tail = rng.standard_normal(len(t)) * np.exp(-6.9 * t / rng.uniform(*DECAY)) * (t > rng.uniform(0.002, 0.02))
    tail *= rng.uniform(0.2, 1.0) / np.sqrt((tail**2).sum())
    tail[0] = 1
    n = 1 << (len(x) + len(tail)).bit_length()
    y = np.fft.irfft(np.fft.rfft(x, n) * np.fft.rfft(tail, n), n)[: len(x) + len(tail) // 2]
    return np.asarray(y / np.abs(y).max() / 2)


def clips() -> tuple[np.ndarray, np.ndarray]:
    """Return float32 [n, a second of samples], and int64 [n]: the number of the word."""
    rng = np.random.default_rng(0)
    found: list[tuple[np.ndarray, int]] = []
    first = 0
    for voices, count, each, people, by_each in SPOKEN:
        texts = list(dict.fromkeys(word(rng) for _ in range(count)))
        for k, text in enumerate(texts):
            for variant in rng.choice(say.VARIANTS.split(), each, replace=False):
                voice = f"{rng.choice(voices.split())}+{variant}"
                with contextlib.suppress(MicaError):  # not every language has every variant
                    x = say.spoken(text, voice, int(rng.integers(115, 205)), int(rng.integers(20, 80)))
                    found.append((x, first + k))
        for voice in people.split() * by_each:
            said = by_festival(voice, texts, rng)
            found += [(x, first + k) for k, x in enumerate(said) if x is not None]
        first += len(texts)
    out = np.zeros((len(found), say.RATE), np.float16)
    for row, (x, _) in zip(out, found, strict=True):
        y = x / 32768 if rng.random() > ECHOES else echoed(rng, x / 32768)
        y = y[: say.RATE]
        row[(len(row) - len(y)) // 2 :][: len(y)] = y
    return out.astype(np.float32), np.array([k for _, k in found])


def main() -> None:
    x, y = clips()
    labels, n = int(y.max()) + 1, len(y)
    rng = np.random.default_rng(0)
    y = rng.permutation(labels)[y]
    examples = Examples("sound", x, y, tuple(map(str, range(labels))), np.arange(n), ("",) * n, say.RATE, ())
    recipe = augment.recipe_of(examples, front_end=SCALE)
    talk = [sum(x[rng.integers(n, size=10)].reshape(-1) for _ in range(4)) for _ in range(3)]
    recipe = replace(recipe, _noises=(*recipe._noises, *(t / t.std() for t in talk)))
    plan = Plan("depthwise", SIZES, STRIDES)
    network = plan.build(rng, recipe.shape, labels, recipe.mean, recipe.spread)
    training = Training(network, Settings(CYCLE * CYCLES, CYCLE, RATE, batch=BATCH))

    def batch(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return few words as they are at first, later all of them, most of them changed: else nothing is learnt."""
        known = min(1.0, training.done / CYCLE)
        changed, some = int(known * CHANGED * size), np.flatnonzero(y < labels * max(0.1, known))
        rows = rng.choice(some, size)
        speaks = recipe._heard(rng, x[rows[:changed]], np.zeros(changed, bool))
        heard = [augment._hidden(rng, recipe.plain(speaks))] if changed else []
        return np.concatenate([*heard, recipe.plain(x[rows[changed:]])]), y[rows]

    training.run(batch, CYCLE * CYCLES, lambda t: bool(print(t.done, t.losses[-1:], end="\r")) or True)
    network.layers.pop()
    bank = np.stack([network.forward(recipe.plain(x[y == k])).mean(axis=0) for k in range(BANK)])
    np.savez_compressed(FILE, **smaller({**network.arrays(), "bank": bank}))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
