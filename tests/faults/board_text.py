# Text from a language model while memory runs out or Ctrl-C comes: it goes on,
# and all of it is the text without a fault.
# Runs behind board_scenarios.py, and adds to its SCENARIOS.

# Temperature, seed, stop: pieces that end within a character, a stop of which a beginning comes, one that comes.
HOW = ((2, 10, None), (2, 3, ("zz", "o")), (0.9, 2, "the"))
PROMPT = "the a"
MOST = 10  # tokens; all of them beyond the first four pieces come after the fault

speakers = [mica.Model(language), mica.Model(remembering, arena=mica.Arena(512))]


def begin(m, how):
    m.reset()
    return mica.generate(m, PROMPT, MOST, how[0], 0, how[2], how[1])


def rest(m, g):
    if m.arena.busy:
        m.stop()  # as the error says
    return "".join([piece for piece in box if piece]) + "".join(g)


whole_texts = [["".join(begin(m, how)) for how in HOW] for m in speakers]


def compared(m, g, expected, tokens):
    def after(failed):
        said = rest(m, g)
        if said != expected or g.tokens != tokens:
            return f"{said!r} of {g.tokens} tokens, not {expected!r} of {tokens}"
        if next(g, None) is not None:
            return "text behind its end"
        m.reset()

    return after


def tokens_of(m, how):
    g = begin(m, how)
    "".join(g)
    return g.tokens


def plainly(k, j):
    m, how = speakers[k], HOW[j]
    tokens = tokens_of(m, how)
    g = begin(m, how)

    def body():
        # Nothing can come between a piece and its place.
        box[0] = next(g, None)
        box[1] = next(g, None)
        box[2] = next(g, None)
        box[3] = next(g, None)

    return body, compared(m, g, whole_texts[k][j], tokens)


async def piece_of(g):
    try:
        return await g.__anext__()
    except StopAsyncIteration:
        return None


async def beside():
    for _ in range(9):
        await asyncio.sleep_ms(0)


def in_slices(k, j):
    m, how = speakers[k], HOW[j]
    tokens = tokens_of(m, how)
    g = begin(m, how)

    async def some():
        box[0] = await piece_of(g)
        box[1] = await piece_of(g)

    async def main():
        await asyncio.gather(some(), beside())

    def body():
        asyncio.run(main())

    check = compared(m, g, whole_texts[k][j], tokens)

    def after(failed):
        asyncio.new_event_loop()
        return check(failed)

    return body, after


def text_language():
    return plainly(0, 0)


def text_language_stop():
    return plainly(0, 1)


def text_language_cut():
    return plainly(0, 2)


def text_state():
    return plainly(1, 0)


def text_state_stop():
    return plainly(1, 1)


def text_slices():
    return in_slices(0, 0)


def text_slices_state():
    return in_slices(1, 0)


def text_cancelled():
    """A task that makes text is cancelled wherever it waits, and another one goes on."""
    m, how = speakers[0], HOW[0]
    tokens = tokens_of(m, how)
    g = begin(m, how)

    async def some():
        box[0] = box[0] or await piece_of(g)
        box[1] = box[1] or await piece_of(g)
        box[2] = box[2] or await piece_of(g)

    async def main():
        for waits in range(9):
            t = asyncio.create_task(some())
            for _ in range(waits):
                await asyncio.sleep_ms(0)
            t.cancel()
            try:
                await t
            except asyncio.CancelledError:
                pass

    def body():
        asyncio.run(main())

    check = compared(m, g, whole_texts[0][0], tokens)

    def after(failed):
        asyncio.new_event_loop()
        return check(failed)

    return body, after


def text_goes_on():
    """Another iterator goes on with the text, in the middle of the first one's prompt too."""
    m = speakers[1]

    def say(prompt):
        return mica.generate(m, prompt, 4, 0.9, 0, None, 7)

    m.reset()
    first = "".join(say(PROMPT))
    expected = first, "".join(say(" a"))
    m.reset()
    g = say(PROMPT)

    def body():
        box[0] = next(g, None)
        box[1] = say(" a")

    def after(failed):
        if m.arena.busy:
            m.stop()
        said = (box[0] or "") + "".join(g)
        again = "".join(say(" a"))
        if (said, again) != expected:
            return f"{said!r} and {again!r}, not {expected}"

    return body, after


def text_complete():
    m, how = speakers[1], HOW[0]

    def body():
        box[0] = mica.complete(m, PROMPT, MOST, how[0], 0, how[2], how[1])

    def after(failed):
        if m.arena.busy:
            m.stop()
        if failed:
            body()
        if box[0] != whole_texts[1][0]:
            return "another text"

    return body, after


TEXTS = (
    text_language, text_language_stop, text_language_cut, text_state, text_state_stop, text_slices, text_slices_state,
    text_cancelled,
    text_goes_on, text_complete,
)  # fmt: skip
SCENARIOS += TEXTS
