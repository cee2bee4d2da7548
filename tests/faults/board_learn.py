# A head that learns while memory runs out or Ctrl-C comes: it is whole, with the example or without,
# and so is what it saved.
# Runs behind board_scenarios.py, and adds to its SCENARIOS.
import os

HEAD = "learnt_in_faults"


def examples(width):
    return [mica.Quantised(bytes((k * 37 + i * 53) & 255 for i in range(width))) for k in range(6)]


# A model, and examples for it; those of 7 numbers fill no whole word.
WIDE = mica.Model(embedding, arena=mica.Arena(512)), examples(64)
NARROW = mica.Model(narrow7, arena=mica.Arena(512)), examples(7)


def learner(kind, of=WIDE):
    h = mica.Learner(of[0], kind, HEAD, keep=3, fresh=True)
    for k in range(4):
        h.teach([of[1][k]], "ab"[k & 1])
    return h


def one_of(h, of, *states):
    """Expect one of these states, and a head that goes on."""

    def after(failed):
        if of[0].arena.busy:
            return "the arena is busy"
        if h.state() not in (states if failed else states[-1:]):
            return f"another state: {h}"
        h.teach([of[1][5]], "c")
        if h.predict([of[1][5]]) is None or h.labels[-1] != "c":
            return "it does not learn any more"

    return after


def changed(kind, change, of=WIDE):
    h, other = learner(kind, of), learner(kind, of)
    before = h.state()
    change(other)
    return (lambda: change(h)), one_of(h, of, before, other.state())


def teach_again():
    return changed("prototype", lambda h: h.teach([WIDE[1][4]], "b"))


def teach_softmax():
    return changed("softmax", lambda h: h.teach([WIDE[1][4]], "a"))


def teach_narrow():
    return changed("softmax", lambda h: h.teach([NARROW[1][4]], "new"), NARROW)


def teach_new():
    return changed("prototype", lambda h: h.teach([WIDE[1][4]], "new"))


def forget():
    return changed("softmax", lambda h: h.forget("a"))


def learn_and_judge():
    def change(h):
        h.fit()
        h.predict([WIDE[1][1]])

    return changed("softmax", change)


def restore():
    other = learner("softmax")
    other.teach([WIDE[1][4]], "other")
    state = other.state()
    return changed("softmax", lambda h: h.restore(state))


def save(of=WIDE):
    h = learner("softmax", of)
    h.save()
    before = h.state()
    h.teach([of[1][4]], "b")
    new = h.state()

    def after(failed):
        found = mica.Learner(of[0], "softmax", HEAD).state()
        if found not in ((before, new) if failed else (new,)):
            return "another state is saved"
        h.save()
        if mica.Learner(of[0], "softmax", HEAD).state() != new:
            return "it cannot be saved again"
        for k in (0, 1):
            try:
                os.remove(f"{HEAD}.{k}")
            except OSError:
                pass

    return h.save, after


def save_narrow():
    return save(NARROW)


SCENARIOS += (teach_again, teach_softmax, teach_narrow, teach_new, forget, learn_and_judge, restore, save, save_narrow)
