"""Text from a language model, piece by piece: mica.generate() and mica.complete().

    for piece in mica.generate(m, "Once upon a time", max_tokens=100, temperature=0.8, top_k=40, seed=1):
        print(piece, end="")

A seed gives the same text on every board and on the host: tokens are drawn in integers (SPEC.md, TOKENS).
What was said goes on: the next generate() continues the text, until m.reset().
"""

from array import array

try:
    from _mica import sample
except ImportError:  # a computer, which has its own
    sample = None


class Said:
    """Position of a model in its text.

    now: (next position; last token, which the model has not taken yet, or None; the Text that made it; progress of that
    Text). It is replaced as a whole when a token is done, so an interrupted token leaves the text as it was before.
    """

    def __init__(self, m: Any, facts: Any) -> None:
        self.now: tuple[Any, ...] = (0, None, None, None)
        # A token that is made again writes the same rows of a cache again.
        # A state without positions has to be put back before.
        self._state = m.state if facts.position is None else None
        self._kept = None if self._state is None else bytearray(self._state)
        self._kept_at = None  # the `now` that the copy is of

    def prepare(self, m: Any) -> None:
        """Have the state as it was when the last token was done."""
        if self._kept is None:
            return
        if self._kept_at is self.now:
            m.put_state(self._kept)
        else:
            self._kept[:] = self._state
            self._kept_at = self.now


class Text:
    """An iterator over the text that follows the prompt, each a str of whole characters; `for` and `async for` alike.

    It ends at the end of the text. At temperature 0 each token is the likeliest, else it is drawn,
    among the top_k likeliest (0: all).
    stop: text, or several, at which it ends too; that text is left out.
    slice_us: how long `async for` runs before it lets other tasks run.

    What raises in the middle of a token (Ctrl-C, a hook, want of memory)
    leaves the text where it was: to go on with the iterator, or with another one, makes the same token again.
    tokens: how many there are so far.
    """

    def __init__(
        self,
        model: Model,
        prompt: str,
        max_tokens: int | None = None,
        temperature: float = 0,
        top_k: int = 0,
        stop: str | Sequence[str] | None = None,
        seed: int = 0,
        slice_us: int = 1000,
    ) -> None:
        m = model._m
        facts = m.tokens()
        if facts.padding is not None:
            raise ValueError("generate: this model classifies texts; mica.classify() asks it")
        said = model._text
        if said is None:
            said = Said(m, facts)
        if not isinstance(prompt, str):
            raise TypeError("generate: the prompt is a str")
        if not isinstance(temperature, (int, float)) or not 0 <= temperature <= 10:
            raise ValueError("generate: temperature is 0 (the likeliest token) to 10")
        if not isinstance(top_k, int) or not 0 <= top_k <= facts.count:
            raise ValueError(f"generate: top_k is 1 to {facts.count}, or 0 for all")
        if not isinstance(seed, int) or not 0 <= seed < 1 << 32:
            raise ValueError("generate: seed is 0 to 4294967295")
        if max_tokens is not None and (not isinstance(max_tokens, int) or max_tokens < 1):
            raise ValueError("generate: max_tokens is 1 or more, or None for as many as there are positions")
        stops = (stop,) if isinstance(stop, str) else stop or ()
        for s in stops:
            if not isinstance(s, str) or not s:
                raise ValueError("generate: stop is a text, or several, none of them empty")
        at, last = said.now[:2]
        todo = m.encode(prompt)
        if not at and facts.begin is not None:
            todo.insert(0, facts.begin)
        n = len(todo) + (last is not None)
        if not n:
            raise ValueError("generate: the prompt is empty, and this model has no token to begin with")
        if facts.positions:
            left = facts.positions - at - n + 1
            if left < (max_tokens or 1):
                raise ValueError(
                    f"generate: a prompt of {n} tokens and {max_tokens or 1} more at position {at}, but this model has "
                    f"{facts.positions} positions; m.reset() begins again"
                )
            max_tokens = max_tokens or left
        self._model = model
        self._said = model._text = said
        self._facts = facts
        self._scale = m.tensor(m.outputs[facts.output]).scale
        self._prompt = todo
        self._most = max_tokens
        self._milli = int(temperature * 1000 + 0.5)
        self._top_k = top_k or facts.count
        self._random = array("I", [(seed * 2654435761 + 2654435769) & 0xFFFFFFFF or 1])
        self._stops = stops
        self._slice_us = slice_us
        # Where another Text made the last token: how many tokens of the prompt the model was given; random state;
        # tokens made; bytes of a character that is not whole yet; text that may be the beginning of a stop;
        # whether it is over.
        self._far = (0, self._random[0], 0, b"", "", False)

    def _own(self):
        now = self._said.now
        return now[3] if now[2] is self else self._far

    @property
    def tokens(self) -> int:
        return self._own()[2]

    def __iter__(self) -> Self:
        return self

    def __aiter__(self) -> Self:
        return self

    # Nothing can come between the token that is done and the return of its text: no jump, no allocation, no call.

    def __next__(self) -> str:
        said = self._said
        while not self._own()[5]:
            now, text = self._step()
            if text:
                said.now = now
                return text
            said.now = now
        raise StopIteration

    async def __anext__(self) -> str:
        said = self._said
        while not self._own()[5]:
            now, text = await self._slices()
            if text:
                said.now = now
                return text
            said.now = now
        raise StopAsyncIteration

    def _inputs(self):
        """Return the inputs of the model for the next token."""
        said = self._said
        model = self._model
        if model._text is not said:
            raise RuntimeError("generate: the model was reset since; begin another text")
        facts = self._facts
        at, last, other, far = said.now
        if other is not None and other is not self:
            other._far = far
        inputs = [None] * (1 + (facts.position is not None) + (facts.length is not None))
        inputs[facts.token] = (self._prompt[self._own()[0]] if last is None else last,)
        if facts.position is not None:
            inputs[facts.position] = (at,)
        if facts.length is not None:
            inputs[facts.length] = (min(at + 1, facts.window),)
        said.prepare(model._m)
        return inputs

    def _step(self):
        model = self._model
        m = model._m
        m.begin()
        try:
            model._write(self._inputs())
            for step in model._steps:
                step()
            return self._drawn(m)
        finally:
            m.end()

    async def _slices(self):
        from asyncio import sleep_ms

        from mica.slices import start

        model = self._model
        await sleep_ms(0)
        start(model, None)
        try:
            model._write(self._inputs())
            run = model._run
            while run.resume(self._slice_us):
                await sleep_ms(0)
                if model._run is not run:
                    raise RuntimeError("generate: stop() gave the run up")
            return self._drawn(model._m)
        finally:
            model._m.end()
            model._run = None

    def _drawn(self, m):
        """Draw the token behind the one that the model was given: return Said's new `now`, and the new text.
        Changes nothing that counts."""
        facts = self._facts
        at, last = self._said.now[:2]
        fed, random, tokens, data, held, _ = self._own()
        if last is None:
            fed += 1
        if fed < len(self._prompt):
            return (at + 1, None, self, (fed, random, tokens, data, held, False)), ""
        self._random[0] = random
        token = sample(m.output(facts.output), self._scale, self._milli, self._top_k, self._random)
        tokens += 1
        over = token == facts.end or tokens == self._most
        if token != facts.end:
            data += m.piece(token)
        n = len(data) if over else whole(data)
        text, held, over = self._unstopped(held + decode(data[:n]), over)
        return (at + 1, token, self, (fed, self._random[0], tokens, data[n:], held, over)), text

    def _unstopped(self, text, over):
        """Cut the text at a stop, and hold back a possible beginning of one. Return both; True if the text is over."""
        end = len(text)
        for s in self._stops:
            at = text.find(s)
            if 0 <= at < end:
                end = at
        if end < len(text):
            return text[:end], "", True
        keep = 0
        if not over:
            for s in self._stops:
                for n in range(min(len(s) - 1, len(text)), keep, -1):
                    if text.endswith(s[:n]):
                        keep = n
                        break
        return text[: len(text) - keep], text[len(text) - keep :], over


def whole(data: bytes) -> int:
    """Return how many bytes are whole characters: all but a last one of which more may come."""
    for back in range(1, min(3, len(data)) + 1):
        lead = data[-back]
        if lead & 0xC0 != 0x80:
            need = 2 if 0xC2 <= lead < 0xE0 else 3 if 0xE0 <= lead < 0xF0 else 4 if 0xF0 <= lead < 0xF5 else 1
            return len(data) - back if need > back else len(data)
    return len(data)


def decode(data: bytes) -> str:
    """Return bytes as a str: each that is part of no character becomes U+FFFD."""
    for c in data:
        if c >= 128:
            break
    else:
        return str(data, "utf-8")
    text = ""
    at = 0
    while at < len(data):
        lead = data[at]
        n = (
            1
            if lead < 128
            else 2
            if 0xC2 <= lead < 0xE0
            else 3
            if 0xE0 <= lead < 0xF0
            else 4
            if 0xF0 <= lead < 0xF5
            else 0
        )
        part = data[at : at + n]
        good = len(part) == n > 0
        for c in part[1:]:
            good = good and c & 0xC0 == 0x80
        if good and n > 2:  # no form longer than need be, no half of a pair, nothing beyond the last character
            second = part[1]
            good = not (
                (lead == 0xE0 and second < 0xA0)
                or (lead == 0xED and second > 0x9F)
                or (lead == 0xF0 and second < 0x90)
                or (lead == 0xF4 and second > 0x8F)
            )
        text += str(part, "utf-8") if good else "\ufffd"
        at += n if good else 1
    return text


generate = Text


def complete(
    model: Model,
    prompt: str,
    max_tokens: int | None = None,
    temperature: float = 0,
    top_k: int = 0,
    stop: str | Sequence[str] | None = None,
    seed: int = 0,
) -> str:
    """Return the text that follows a prompt as one str. Earlier prompts and texts do not count."""
    model.reset()
    return "".join(generate(model, prompt, max_tokens, temperature, top_k, stop, seed))
