"""The head on this board goes to the fleet, and the sum of all boards' heads comes back (`mica fleet teach`).

    mica/F/to/B/teach     HMAC-SHA256 and a blank, as of a want (push.py); JSON: board, generation, path, given;
                          a newline; and the
                          state of the sum, or nothing where the fleet asks for this board's head
    mica/F/from/B/head    JSON: generation, taken (that of the last sum here), reason; a newline;
                          and the state that was asked for

given: the CRC-32 of the state that this board gave, in 8 digits. A head that has learnt more since is not written over.
A sum
is taken once: its generation is kept before it is written. A Learner takes it up where it is made, or by restore().
"""

import json
from binascii import crc32

MOST = 32000  # bytes of a state


def answer(pusher: Any, letter: Any) -> bytes:
    """The report for a letter. Whatever the letter is, there is one."""
    say = {"generation": 0, "taken": 0, "reason": ""}
    state = b""
    try:
        from mica import learn

        text, total = pusher.signed(letter).split(b"\n", 1)
        asked = json.loads(text)
        if asked["board"] != pusher.agent.name:
            raise ValueError("it is for another board")
        generation, path = max(0, int(asked["generation"])), asked["path"]
        heads = pusher.have.get("heads", {})
        say["generation"], say["taken"] = generation, heads.get(path, 0)
        pusher.agent.unload()  # memory for states
        head = learn.load(path)
        if len(head) > MOST:
            raise ValueError(f"the head has {len(head)} bytes, more than {MOST}")
        state = head
        if len(total):
            last, given, state = say["taken"], crc32(state) & 0xFFFFFFFF, b""
            if generation <= last:
                raise ValueError("it is older than the last one")
            if f"{given:08x}" != asked["given"]:
                raise ValueError("the head has learnt more meanwhile")
            pusher.keep(heads=dict(heads, **{path: generation}))
            learn.store(path, total)
            say["taken"] = generation
    except ImportError:
        say["reason"] = "this firmware was built without learning"
    except Exception as e:
        pusher.agent.errors += 1
        say["reason"] = str(e) if isinstance(e, ValueError) else f"{type(e).__name__}: {e}"
    return json.dumps(say).encode() + b"\n" + state
