#!/usr/bin/env python3
"""Train a model of the kind of host_tools/mica/demo/command.onnx: a sentence becomes a call ("its too dark in the
office" -> light office on).

Neither mica, nor its demo, nor its tests need this script or PyTorch. To run it:

    python3 -m venv /tmp/train
    /tmp/train/bin/pip install torch==2.13.0 numpy onnx
    /tmp/train/bin/python tests/models/train_command.py --out /tmp/command     # some minutes on one core
    /tmp/train/bin/python tests/models/train_command.py --out /tmp/c --steps 50   # to see that it runs
    cd /tmp/command && mica pack command.onnx --calib command_calib.npz --tokens command_vocab.json,begin=0,end=0

All data come out of the grammar below. Calls of LEFT_OUT are in no training sentence;
sentences with them, and a twentieth of all others, say how well the model does, once, at the end.
The vocabulary is the committed one, of 256 pieces. `--from command.onnx` goes on from weights that are there,
and keeps what they know. So the committed ones were made: `--steps 3000`, from weights of another grammar of the same
calls, which had no sentences that ask for nothing. Other grammars: change `sentence`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional

DEMO = Path(__file__).resolve().parents[2] / "host_tools" / "mica" / "demo"
SEED = 17
LAYERS, WIDTH, HEADS, INNER = 3, 48, 4, 96
ROWS, POSITIONS = 64, 128  # of the caches; of the tables of angles
EPSILON = 1e-5
SENTENCES, STEPS, BATCH = 70_000, 4_000, 64
CALIBRATION = 220  # runs
END = 0  # stands before a sentence, and ends the call

Pair = tuple[str, str]  # sentence, call

# --- grammar ----------------------------------------------------------------------------------------------------------

ROOMS = {
    "kitchen": "kitchen", "bedroom": "bedroom", "bathroom": "bathroom", "garage": "garage", "garden": "garden",
    "hall": "hall",
    "office": "office", "living room": "living", "attic": "attic", "cellar": "cellar",
}  # fmt: skip
THINGS = {
    "light": ("light", "lights", "lamp"),
    "fan": ("fan", "ventilator"),
    "heater": ("heater", "radiator", "heating"),
    "pump": ("pump", "sprinkler"),
}
MOVED = {"blind": ("blind", "blinds", "shutter"), "door": ("door",)}
LEFT_OUT = ("fan garage", "light attic", "door office", "heater hall", "light 37", "heat 23")
ONES = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen",
    "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
ASKED = ("", "", "", "please ", "could you ", "can you ", "hey pico ", "i want you to ")
ENDINGS = ("", "", "", " please", " now")
# What asks for nothing that a call does. Their words make thousands of sentences,
# so that the model learns the kind and not the sentences.
TALK = (
    "tell me a joke", "what is your name", "how are you", "good morning", "who are you", "sing a song",
    "play some music",
    "call my mother", "never mind", "thank you", "good night", "is it going to rain", "hello", "bye", "sorry", "yes",
    "no", "stop it",
    "i like you", "the cat is in the garden", "well done", "see you tomorrow", "i do not know", "wait",
    "that was not what i said",
)  # fmt: skip
WHO = (
    "i", "you", "we", "they", "my sister", "my father", "the dog", "our neighbour", "a friend", "anna", "the teacher",
    "the children",
    "nobody", "someone", "the baby", "the postman", "your boss", "people", "a spider", "the old man",
)  # fmt: skip
DID = (
    "like", "lost", "saw", "found", "painted", "forgot", "cleaned", "want", "need", "hate", "bought", "is", "was",
    "has", "ate", "sold",
    "loves", "talked about", "sleeps with", "will fetch", "can see", "should wash", "heard", "remember", "plays with",
    "fell over",
)  # fmt: skip
WHAT = (
    "the book", "a new car", "some bread", "the newspaper", "football", "her keys", "a letter", "the moon", "my shoes",
    "the bus", "dinner",
    "a table", "coffee", "the piano", "good music", "a bicycle", "the news", "money", "flowers", "his phone",
    "the river", "a red bird",
    "chess", "the weather", "a holiday", "soup", "the picture", "a small box", "nothing", "the train", "my birthday",
    "a horse", "ice cream",
)  # fmt: skip
ASKS = (
    "who", "why", "when", "where", "how often", "how far", "tell me why", "do you know when", "is it true that",
    "i think", "maybe",
)  # fmt: skip
ELSEWHERE = (
    "radio", "oven", "television", "washing machine", "car", "computer", "fridge", "gate", "phone", "bath", "tap",
    "alarm", "camera", "tent",
    "coffee machine", "drawer", "umbrella", "book", "shop", "music", "volume", "bottle", "letter", "robot", "bicycle",
    "kettle",
)  # fmt: skip
FORBIDDEN = (
    "don't",
    "dont",
    "do not",
    "never",
    "you must not",
    "please don't",
    "there is no need to",
    "i would not",
    "why should i",
)
PAST = (
    "turned on",
    "switched off",
    "opened",
    "closed",
    "broke",
    "repaired",
    "bought",
    "dimmed",
    "shut",
    "sold",
    "forgot",
)
OFFERED = (
    "turn on",
    "turn off",
    "switch on",
    "switch off",
    "open",
    "close",
    "start",
    "stop",
    "buy",
    "fetch",
    "clean",
    "find",
    "call",
    "sell",
)
# Sentences of tests, which are never trained on.
EVERYDAY = [Path(__file__).resolve().parents[2] / "tests" / "host" / name for name in ("everyday.tsv", "ordinary.tsv")]
LETTERS = "abcdefghijklmnoprstuvwxyz"  # the vocabulary has no q


def number(rng: random.Random, n: int) -> str:
    """In digits or in words."""
    if rng.random() < 0.5:
        return str(n)
    if n < len(ONES):
        return ONES[n]
    if n == 100:
        return rng.choice(("hundred", "a hundred", "one hundred"))
    tens, ones = TENS[n // 10 - 2], n % 10
    return f"{tens}{rng.choice((' ', '-'))}{ONES[ones]}" if ones else tens


def placed(rng: random.Random, thing: str) -> tuple[str, str]:
    """A thing in a room, or in no room, which means all: its name, its words, and the room of the call."""
    if rng.random() < 0.08:
        return rng.choice((f"the {thing}", f"all {thing}", f"the {thing} everywhere")), "all"
    said, room = rng.choice(list(ROOMS.items()))
    forms = (f"the {said} {thing}", f"the {thing} in the {said}", f"the {thing} of the {said}", f"{said} {thing}")
    return rng.choice(forms), room


def switched(rng: random.Random) -> Pair:
    kind = rng.choice(list(THINGS))
    said, room = placed(rng, rng.choice(THINGS[kind]))
    on = rng.random() < 0.5
    word = "on" if on else "off"
    forms = [
        f"turn {word} {said}",
        f"turn {said} {word}",
        f"switch {word} {said}",
        f"switch {said} {word}",
        f"{said} {word}",
    ]
    forms += (
        [f"put on {said}", f"start {said}", f"enable {said}"]
        if on
        else [f"shut off {said}", f"stop {said}", f"disable {said}"]
    )
    return rng.choice(forms), f"{kind} {room} {word}"


def felt(rng: random.Random) -> Pair:
    """A person's remark about a room, and the call that would help."""
    said, room = rng.choice(list(ROOMS.items()))
    words, call = rng.choice((
        (("too dark", "so dark", "dark"), "light {} on"), (("too bright", "so bright"), "light {} off"),
        (("too cold", "freezing", "cold"), "heater {} on"), (("too hot", "too warm", "hot"), "fan {} on"),
    ))  # fmt: skip
    start = rng.choice(("it's", "its", "it is"))
    return f"{start} {rng.choice(words)} in the {said}", call.format(room)


def moved(rng: random.Random) -> Pair:
    kind = rng.choice(list(MOVED))
    said, room = placed(rng, rng.choice(MOVED[kind]))
    opened = rng.random() < 0.5
    verb = rng.choice(("open", "raise") if opened else ("close", "shut", "lower"))
    return f"{verb} {said}", f"{kind} {room} {'open' if opened else 'close'}"


def dimmed(rng: random.Random) -> Pair:
    n = rng.randint(0, 100)
    said, room = placed(rng, rng.choice(("light", "lamp", "brightness")))
    verb, to = rng.choice((("dim", " to"), ("set", " to"), ("make", "")))
    return f"{verb} {said}{to} {number(rng, n)}{rng.choice((' percent', ' percent', ''))}", f"light {room} {n}"


def heated(rng: random.Random) -> Pair:
    n = rng.randint(5, 30)
    said, room = rng.choice([*ROOMS.items(), ("house", "all")])
    degrees = f"{number(rng, n)}{rng.choice((' degrees', ''))}"
    forms = (
        f"heat the {said} to {degrees}",
        f"set the temperature in the {said} to {degrees}",
        f"make the {said} {number(rng, n)} degrees",
    )
    return rng.choice(forms), f"heat {room} {n}"


def timed(rng: random.Random) -> Pair:
    n = rng.randint(1, 60)
    unit = rng.choice(("second", "minute", "hour")) + ("s" if n > 1 else "")
    start = rng.choice(("set a timer for", "timer", "remind me in", "wake me in"))
    return f"{start} {number(rng, n)} {unit}", f"timer {n}{unit[0]}"


def asked(rng: random.Random) -> Pair:
    what = rng.choice(("temperature", "humidity", "light"))
    said, room = rng.choice([*ROOMS.items(), ("", "all")])
    if said and what != "light" and rng.random() < 0.3:
        felt = ("cold", "warm", "hot", "chilly") if what == "temperature" else ("dry", "damp", "humid")
        return f"is it {rng.choice(felt)} in the {said}", f"ask {what} {room}"
    start = rng.choice(("what is the", "tell me the", "how is the", "what's the"))
    return f"{start} {what}{f' in the {said}' if said else ''}", f"ask {what} {room}"


def nothing(rng: random.Random) -> Pair:
    """Talk, remarks about a house, forbidden or past actions, missing things, parts of sentences, and noise."""
    room, thing = (
        rng.choice(list(ROOMS)),
        rng.choice([t for names in (*THINGS.values(), *MOVED.values()) for t in names]),
    )
    who, did, what = rng.choice(WHO), rng.choice(DID), rng.choice(WHAT)
    there = rng.choice(
        ("", "", f" in the {room}", f" from the {room}", f" near the {room}", " yesterday", " again", " every day")
    )
    made = rng.randrange(19) // 2  # noise half as often: a call with typing errors looks like it
    if made == 0:
        said = rng.choice(TALK)
    elif made == 1:
        said = rng.choice((f"{who} {did} {what}{there}", f"{rng.choice(ASKS)} {who} {did} {what}{there}"))
    elif made == 2:
        said = f"{rng.choice(FORBIDDEN)} {rng.choice((switched, moved, dimmed, heated))(rng)[0]}"
    elif made == 3:
        said = f"{rng.choice((who, 'who'))} {rng.choice(PAST)} the {rng.choice((thing, f'{room} {thing}'))}{there}"
    elif made == 4:
        said = f"{rng.choice(ASKED)}{rng.choice(OFFERED)} the {rng.choice(ELSEWHERE)}{there}"
    elif made == 5:
        said = rng.choice(
            (f"{rng.choice(ASKED)}{did} {what}{there}", f"{rng.choice(ASKS)} {did} {what}", f"{what} {there}", what)
        )
    elif made == 6:
        said = rng.choice(
            (
                f"the {room} {did} {what}",
                f"the {thing} {did} {what}",
                f"{who} {did} the {thing}",
                f"{who} {did} the {room}",
            )
        )
    elif made == 7:
        said = rng.choice(
            (rng.choice(OFFERED).split()[0], f"the {room}", f"in the {room} please", f"{who} is in the {room}", who)
        )
    elif made == 8:
        said = " ".join(
            rng.choices(
                [w for text in (*TALK, *WHO, *DID, *WHAT, *ASKS, *ELSEWHERE) for w in text.split()], k=rng.randint(1, 6)
            )
        )
    else:
        words = ["".join(rng.choices(LETTERS, k=rng.randint(1, 7))) for _ in range(rng.randint(1, 4))]
        made_up = "".join(rng.choice("bcdfghklmnprstvwz") + rng.choice("aeiou") for _ in range(rng.randint(1, 3)))
        said = rng.choice((" ".join(words), " ".join([made_up] * rng.randint(1, 4))))
    return " ".join(said.split()), "none"


def sentence(rng: random.Random) -> Pair:
    """One sentence and its call; four of ten have typing errors, of those that ask for nothing one."""
    made = rng.choice(
        (
            switched,
            switched,
            switched,
            felt,
            moved,
            moved,
            dimmed,
            dimmed,
            heated,
            heated,
            timed,
            asked,
            *(nothing,) * 4,
        )
    )
    text, call = made(rng)
    if made not in (felt, asked, nothing):
        text = rng.choice(ASKED) + text + rng.choice(ENDINGS)
    for _ in range(rng.choice((0,) * 6 + (1, 1, 2, 3)) if call != "none" else rng.random() < 0.1):
        text = mistyped(rng, text)
    return text, call


def mistyped(rng: random.Random, text: str) -> str:
    """A letter left out, twice, another, or two in the other order."""
    places = [i for i in range(1, len(text) - 1) if text[i].isalpha() and text[i + 1].isalpha()]
    if not places:
        return text
    i = rng.choice(places)
    return text[:i] + rng.choice(("", text[i] * 2, rng.choice(LETTERS), text[i + 1] + text[i])) + text[i + 1 :]


def left_out(call: str) -> bool:
    """Return True if a call is one of LEFT_OUT: of a thing in a room, or of a number in any room."""
    kind, room, value = [*call.split(" "), "", ""][:3]
    return f"{kind} {room}" in LEFT_OUT or f"{kind} {value}" in LEFT_OUT


def sentences(n: int, more: Sequence[Pair] = ()) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """To train with, `more` among them; kept apart; and those with calls that training never sees.
    No sentence twice, none of EVERYDAY."""
    rng = random.Random(SEED)
    everyday = {
        line.split("\t")[0].lower() for path in EVERYDAY for line in path.read_text(encoding="utf-8").splitlines()
    }
    pairs = [p for p in dict.fromkeys((*(sentence(rng) for _ in range(n)), *more)) if p[0] not in everyday]
    hard = [p for p in pairs if left_out(p[1])]
    rest = [p for p in pairs if not left_out(p[1])]
    return [p for i, p in enumerate(rest) if i % 20], rest[::20], hard


# --- tokens -----------------------------------------------------------------------------------------------------------


def encode(pieces: Sequence[str], text: str) -> list[int]:
    """The longest piece that fits, from the left."""
    number_of, longest = {p: i for i, p in enumerate(pieces)}, max(map(len, pieces))
    found, at = [], 0
    while at < len(text):
        n = next(n for n in range(min(longest, len(text) - at), 0, -1) if text[at : at + n] in number_of)
        found.append(number_of[text[at : at + n]])
        at += n
    return found


def as_tokens(pieces: Sequence[str], pair: Pair) -> list[int]:
    return [END, *encode(pieces, pair[0] + "\n"), *encode(pieces, pair[1]), END]


# --- network ----------------------------------------------------------------------------------------------------------


def angles() -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines [POSITIONS, half a head]."""
    half = WIDTH // HEADS // 2
    turn = np.arange(POSITIONS)[:, None] * 10_000.0 ** (-np.arange(half) / half)
    return np.cos(turn).astype(np.float32), np.sin(turn).astype(np.float32)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_a, self.norm_f = (nn.RMSNorm(WIDTH, eps=EPSILON) for _ in range(2))
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        n, t, _ = x.shape
        h = self.norm_a(x)
        q, k, v = (m(h).view(n, t, HEADS, -1).transpose(1, 2) for m in (self.q, self.k, self.v))
        y = functional.scaled_dot_product_attention(turned(q, cos, sin), turned(k, cos, sin), v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(n, t, WIDTH))
        h = self.norm_f(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Command(nn.Module):
    def __init__(self, pieces: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(pieces, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, eps=EPSILON)
        cos, sin = angles()
        self.register_buffer("cos", torch.from_numpy(cos))
        self.register_buffer("sin", torch.from_numpy(sin))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens [n, t] -> scores of the next ones [n, t, pieces]."""
        x, t = self.embedding(tokens), tokens.shape[1]
        for layer in self.layers:
            x = layer(x, self.cos[:t], self.sin[:t])
        return self.norm(x) @ self.head()

    def head(self) -> torch.Tensor:
        """Weights of the scores [WIDTH, pieces]: the embedding's."""
        return self.embedding.weight.T / math.sqrt(WIDTH)


# --- weights that are there -------------------------------------------------------------------------------------------


def load(model: Command, path: Path) -> None:
    """The weights of such a file, which lie in the order of the network."""
    arrays = {i.name: torch.tensor(numpy_helper.to_array(i)) for i in onnx.load(path).graph.initializer}
    left = iter(
        [a for name, a in arrays.items() if a.is_floating_point() and name not in ("cos", "sin", "embedding", "head")]
    )
    with torch.no_grad():
        model.embedding.weight.copy_(arrays["embedding"])
        for layer in model.layers:
            for part in (
                layer.norm_a,
                layer.q,
                layer.k,
                layer.v,
                layer.o,
                layer.norm_f,
                layer.gate,
                layer.up,
                layer.down,
            ):
                weight = next(left)
                part.weight.copy_(weight.T if weight.ndim == 2 else weight)
        model.norm.weight.copy_(next(left))


@torch.no_grad()
def remembered(model: Command, pieces: Sequence[str], n: int) -> list[Pair]:
    """Sentences that the model makes up, as those it was trained on, each with the call that it finds likeliest."""
    pairs = set()
    for _ in range(-(-n // 1000)):
        x = torch.full((1000, 1), END)
        called = torch.zeros(1000, dtype=torch.bool)
        for _ in range(48):
            scores = model(x)[:, -1]
            drawn = torch.multinomial(scores.softmax(1), 1)[:, 0]
            x = torch.cat([x, torch.where(called, scores.argmax(1), drawn)[:, None]], 1)
            over = called & (x == END).sum(1).gt(1)
            called |= x[:, -1] == NEW_LINE
            if over.all():
                break
        for row in x.tolist():
            said, _, call = "".join(pieces[t] for t in row[1:]).split(pieces[END])[0].partition("\n")
            if call:
                pairs.add((said, call))
    return sorted(pairs)


# --- training ---------------------------------------------------------------------------------------------------------


def train(model: Command, texts: list[list[int]], steps: int, rate: float) -> None:
    """Sentences of about one length share a batch. The call counts whole, the sentence a quarter."""
    rng = random.Random(SEED)
    texts = sorted(texts, key=len)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda k: min((k + 1) / 50, 0.5 + 0.5 * math.cos(math.pi * k / steps))
    )
    began = time.monotonic()
    for k in range(steps):
        at = rng.randrange(max(len(texts) - BATCH, 1))
        batch = texts[at : at + BATCH]
        longest = max(map(len, batch))
        x = torch.tensor([t + [END] * (longest - len(t)) for t in batch])
        weight = torch.tensor([
            [1.0 if NEW_LINE in t[: i + 1] else 0.25 for i in range(len(t) - 1)] + [0.0] * (longest - len(t))
            for t in batch
        ])  # fmt: skip
        loss = functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten(), reduction="none")
        loss = (loss * weight.flatten()).sum() / weight.sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if k % 250 == 0 or k == steps - 1:
            print(f"step {k}: loss {loss.item():.3f}, {time.monotonic() - began:.0f} s", flush=True)


NEW_LINE = 1  # its token


@torch.no_grad()
def share_right(model: Command, pieces: Sequence[str], pairs: Sequence[Pair]) -> float:
    """Share of the sentences that become their call, word for word; by the likeliest token each."""
    right = 0
    for said, call in pairs:
        tokens = [END, *encode(pieces, said + "\n")]
        start = len(tokens)
        while len(tokens) < start + 20:
            tokens.append(int(model(torch.tensor([tokens]))[0, -1].argmax()))
            if tokens[-1] == END:
                break
        right += "".join(pieces[t] for t in tokens[start:-1]) == call
    return right / max(len(pairs), 1)


# --- files ------------------------------------------------------------------------------------------------------------


def step_graph(model: Command) -> onnx.ModelProto:
    """One token in, the scores of the next out; caches as TensorScatter writes them (opset 24)."""
    made: dict[str, np.ndarray] = {}
    nodes: list[onnx.NodeProto] = []
    width = WIDTH // HEADS

    def constant(name: str, value: np.ndarray) -> str:
        made[name] = value
        return name

    def node(op: str, name: str, inputs: list[str], **attributes: object) -> str:
        nodes.append(helper.make_node(op, inputs, [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def product(name: str, x: str, linear: nn.Linear) -> str:
        return node("MatMul", name, [x, constant(f"{name}_w", linear.weight.detach().numpy().T.copy())])

    def norm(name: str, x: str, by: nn.RMSNorm) -> str:
        gain = constant(f"{name}_g", by.weight.detach().numpy())
        return node("RMSNormalization", name, [x, gain], axis=-1, epsilon=EPSILON)

    table = constant("embedding", model.embedding.weight.detach().numpy())
    cos, sin = (constant(n, a) for n, a in zip(("cos", "sin"), angles(), strict=True))
    one, heads, row = (
        constant(n, np.array(v)) for n, v in (("one", [1, 1]), ("heads", [1, HEADS, 1, width]), ("row", [1, WIDTH]))
    )
    place = node("Reshape", "position_ids", ["position", one])
    x = node("Gather", "embed", [table, "token"], axis=0)
    caches: list[str] = []
    for i, layer in enumerate(model.layers):
        h = norm(f"norm_a{i}", x, layer.norm_a)
        parts = {c: node("Reshape", f"{c}{i}_heads", [product(f"{c}{i}", h, getattr(layer, c)), heads]) for c in "qkv"}
        for c in "qk":
            parts[c] = node("RotaryEmbedding", f"{c}{i}_rope", [parts[c], cos, sin, place])
        after = [f"{c}{i}_after" for c in "kv"]
        for c, out in zip("kv", after, strict=True):
            inputs = [f"{c}{i}_cache", parts[c], "position"]
            nodes.append(
                helper.make_node("TensorScatter", inputs, [out], name=f"{c}{i}_write", axis=2, mode="circular")
            )
            caches.append(f"{c}{i}")
        y = node("Attention", f"attention{i}", [parts["q"], *after, "", "", "", "length"])
        x = node("Add", f"res_a{i}", [x, product(f"o{i}", node("Reshape", f"joined{i}", [y, row]), layer.o)])
        h = norm(f"norm_f{i}", x, layer.norm_f)
        gate = node("Swish", f"silu{i}", [product(f"gate{i}", h, layer.gate)])
        x = node(
            "Add",
            f"res_f{i}",
            [x, product(f"down{i}", node("Mul", f"glu{i}", [gate, product(f"up{i}", h, layer.up)]), layer.down)],
        )
    weights = constant("head", model.head().detach().numpy().copy())
    nodes.append(helper.make_node("MatMul", [norm("norm_out", x, model.norm), weights], ["logits"], name="head"))
    numbers = [helper.make_tensor_value_info(n, TensorProto.INT64, [1]) for n in ("token", "position", "length")]
    shape = [1, HEADS, ROWS, width]
    states = {
        end: [helper.make_tensor_value_info(c + end, TensorProto.FLOAT, shape) for c in caches]
        for end in ("_cache", "_after")
    }
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, model.embedding.num_embeddings])
    data = [numpy_helper.from_array(a, n) for n, a in made.items()]
    graph = helper.make_graph(nodes, "step", numbers + states["_cache"], [logits, *states["_after"]], data)
    found = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
    onnx.checker.check_model(found)
    return found


def calibration(texts: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
    """Consecutive runs: commands one after the other, each as far as the table of positions reaches."""
    tokens = [t for text in texts for t in text[:-1]][:CALIBRATION]
    position = np.arange(len(tokens)) % POSITIONS
    columns = {"token": np.array(tokens), "position": position, "length": np.minimum(position + 1, ROWS)}
    return {name: a[:, None].astype(np.int64) for name, a in columns.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder that the files are written to")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    parser.add_argument(
        "--from",
        type=Path,
        dest="start",
        help="go on from the weights of this command.onnx, and remember what it knows",
    )
    args = parser.parse_args()
    torch.manual_seed(SEED)
    pieces = json.loads((DEMO / "command_vocab.json").read_text(encoding="utf-8"))
    assert pieces[NEW_LINE] == "\n"
    model = Command(len(pieces))
    known: list[Pair] = []
    if args.start:
        load(model, args.start)
        known = remembered(model, pieces, args.sentences // 8)
    training, held, hard = sentences(args.sentences, known)
    texts = [as_tokens(pieces, pair) for pair in training]
    print(f"{len(training)} sentences; {sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    train(model, texts, args.steps, 1e-3 if args.start else 4e-3)
    for name, pairs in (("kept apart", held[:300]), ("of calls that were left out", hard[:300])):
        print(f"sentences {name}: {share_right(model, pieces, pairs):.3f} of {len(pairs)} right", flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    onnx.save(step_graph(model), args.out / "command.onnx")
    np.savez_compressed(args.out / "command_calib.npz", **calibration(random.Random(SEED).sample(texts, 60)))
    (args.out / "command_vocab.json").write_text(json.dumps(pieces), encoding="utf-8")


if __name__ == "__main__":
    main()
