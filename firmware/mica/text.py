"""Text from a language model, piece by piece: mica.generate() and mica.complete().

    for piece in mica.generate(m, "Once upon a time", max_tokens=100, temperature=0.8, top_k=40, seed=1):
        print(piece, end="")

A seed gives the same text on every board and on the host: tokens are drawn in integers (SPEC.md, TOKENS). What was said goes on:
the next generate() continues the text, until m.reset().
"""

from array import array

import _mica


class Said:
    """How far the text of a model is: the next position, and the last token, which the model has not been given yet."""

    def __init__(self):
        self.at = 0
        self.last = None


class Text:
    """An iterator over new text, each a str of whole characters; `for` and `async for` alike.

    What raises in the middle of a token (Ctrl-C, a hook) leaves the text where it was: to go on with the iterator, or with
    another one, makes the same token again. tokens: how many there are so far.
    """

    def __init__(self, model, prompt, max_tokens, temperature, top_k, stop, seed, slice_us):
        m = model._m
        facts = m.tokens()
        said = model._text
        if said is None:
            said = Said()
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
        todo = m.encode(prompt)
        if said.at:
            todo.insert(0, said.last)
        elif facts.begin is not None:
            todo.insert(0, facts.begin)
        if not todo:
            raise ValueError("generate: the prompt is empty, and this model has no token to begin with")
        if facts.positions:
            left = facts.positions - said.at - len(todo) + 1
            if left < (max_tokens or 1):
                raise ValueError(
                    f"generate: a prompt of {len(todo)} tokens and {max_tokens or 1} more at position {said.at}, but this model has {facts.positions} positions; m.reset() begins again"
                )
            max_tokens = max_tokens or left
        self._model = model
        self._said = model._text = said
        self._facts = facts
        self._scale = m.tensor(m.outputs[facts.output]).scale
        self._todo = todo
        self._left = max_tokens
        self._milli = int(temperature * 1000 + 0.5)
        self._top_k = top_k or facts.count
        self._state = array("I", [(seed * 2654435761 + 2654435769) & 0xFFFFFFFF or 1])
        self._stops = stops
        self._slice_us = slice_us
        self._bytes = b""  # of a character that is not whole yet
        self._held = ""  # what may be the beginning of a stop
        self._over = False
        self.tokens = 0

    def __iter__(self):
        return self

    def __aiter__(self):
        return self

    def __next__(self):
        while not self._over:
            text = self._step()
            if text:
                return text
        raise StopIteration

    async def __anext__(self):
        while not self._over:
            text = await self._slices()
            if text:
                return text
        raise StopAsyncIteration

    def _inputs(self):
        """Return what the inputs of the model are given for the next token."""
        said = self._said
        if self._model._text is not said:
            raise RuntimeError("generate: the model was reset since; begin another text")
        facts = self._facts
        inputs = [None] * (1 + (facts.position is not None) + (facts.length is not None))
        inputs[facts.token] = (self._todo[0],)
        if facts.position is not None:
            inputs[facts.position] = (said.at,)
        if facts.length is not None:
            inputs[facts.length] = (min(said.at + 1, facts.window),)
        return inputs

    def _step(self):
        inputs = self._inputs()
        model = self._model
        m = model._m
        m.begin()
        try:
            model._write(inputs)
            for step in model._steps:
                step()
            return self._take(m)
        finally:
            m.end()

    async def _slices(self):
        from asyncio import sleep_ms

        from mica.slices import start

        model = self._model
        start(model, self._inputs())
        try:
            run = model._run
            while run.resume(self._slice_us):
                await sleep_ms(0)
                if model._run is not run:
                    raise RuntimeError("generate: stop() gave the run up")
            text = self._take(model._m)
        finally:
            model._m.end()
            model._run = None
        await sleep_ms(0)
        return text

    def _take(self, m):
        """Count the token that the model was given, and draw the next; return the new text."""
        said = self._said
        facts = self._facts
        more = len(self._todo) > 1
        token = None
        if not more:
            token = _mica.sample(m.output(facts.output), self._scale, self._milli, self._top_k, self._state)
        # Nothing below raises but for want of memory: the run has been, and counts.
        said.at += 1
        self._todo.pop(0)
        if more:
            return ""
        said.last = token
        self._todo.append(token)
        self.tokens += 1
        data = self._bytes
        if token == facts.end:
            self._over = True
        else:
            data += m.piece(token)
            if self._left is not None:
                self._left -= 1
                self._over = self._left == 0
        n = len(data) if self._over else whole(data)
        self._bytes = data[n:]
        return self._unstopped(self._held + decode(data[:n]))

    def _unstopped(self, text):
        """Cut the text at a stop, and hold back what may be the beginning of one."""
        end = len(text)
        for s in self._stops:
            at = text.find(s)
            if 0 <= at < end:
                end = at
        if end < len(text):
            self._over = True
            return text[:end]
        keep = 0
        if not self._over:
            for s in self._stops:
                for n in range(min(len(s) - 1, len(text)), keep, -1):
                    if text.endswith(s[:n]):
                        keep = n
                        break
        self._held = text[len(text) - keep :] if keep else ""
        return text[: len(text) - keep] if keep else text


def whole(data):
    """Return how many bytes are whole characters: all but a last one of which more may come."""
    for back in range(1, min(3, len(data)) + 1):
        lead = data[-back]
        if lead & 0xC0 != 0x80:
            need = 2 if 0xC2 <= lead < 0xE0 else 3 if 0xE0 <= lead < 0xF0 else 4 if 0xF0 <= lead < 0xF5 else 1
            return len(data) - back if need > back else len(data)
    return len(data)


def decode(data):
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


def generate(model, prompt, max_tokens=None, temperature=0, top_k=0, stop=None, seed=0, slice_us=1000):
    """Return an iterator over the text that follows the prompt, for `for` and `async for`; it ends at the end of the text.

    At temperature 0 each token is the likeliest, else it is drawn, among the top_k likeliest (0: all). stop: text, or several, at
    which it ends too; that text is left out. slice_us: how long `async for` runs before it lets other tasks run.
    """
    return Text(model, prompt, max_tokens, temperature, top_k, stop, seed, slice_us)


def complete(model, prompt, max_tokens=None, temperature=0, top_k=0, stop=None, seed=0):
    """Return the text that follows a prompt as one str; of what was said before nothing counts."""
    model.reset()
    return "".join([text for text in generate(model, prompt, max_tokens, temperature, top_k, stop, seed)])
