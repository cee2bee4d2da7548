# A head that learns while memory runs out or Ctrl-C comes: it is whole, with the example or without,
# and so is what it saved.
# Runs behind board_scenarios.py, and adds to its SCENARIOS.
import os

taught = mica.Model(embedding, arena=mica.Arena(512))
examples = [mica.Quantised(bytes((k * 37 + i * 53) & 255 for i in range(64))) for k in range(6)]
HEAD = "learnt_in_faults"


def learner(kind):
    h = mica.Learner(taught, kind, HEAD, keep=3, fresh=True)
    for k in range(4):
        h.teach([examples[k]], "ab"[k & 1])
    return h


def one_of(h, *states):
    """Expect one of these states, and a head that goes on."""

    def after(failed):
        if taught.arena.busy:
            return "the arena is busy"
        if h.state() not in (states if failed else states[-1:]):
            return f"another state: {h}"
        h.teach([examples[5]], "c")
        if h.predict([examples[5]]) is None or h.labels[-1] != "c":
            return "it does not learn any more"

    return after


def changed(kind, change):
    h, other = learner(kind), learner(kind)
    before = h.state()
    change(other)
    return (lambda: change(h)), one_of(h, before, other.state())


def teach_again():
    return changed("prototype", lambda h: h.teach([examples[4]], "b"))


def teach_softmax():
    return changed("softmax", lambda h: h.teach([examples[4]], "a"))


def teach_new():
    return changed("prototype", lambda h: h.teach([examples[4]], "new"))


def forget():
    return changed("softmax", lambda h: h.forget("a"))


def learn_and_judge():
    def change(h):
        h.fit()
        h.predict([examples[1]])

    return changed("softmax", change)


def restore():
    other = learner("softmax")
    other.teach([examples[4]], "other")
    state = other.state()
    return changed("softmax", lambda h: h.restore(state))


def save():
    h = learner("softmax")
    h.save()
    before = h.state()
    h.teach([examples[4]], "b")
    new = h.state()

    def after(failed):
        found = mica.Learner(taught, "softmax", HEAD).state()
        if found not in ((before, new) if failed else (new,)):
            return "another state is saved"
        h.save()
        if mica.Learner(taught, "softmax", HEAD).state() != new:
            return "it cannot be saved again"
        for k in (0, 1):
            try:
                os.remove(f"{HEAD}.{k}")
            except OSError:
                pass

    return h.save, after


SCENARIOS += (teach_again, teach_softmax, teach_new, forget, learn_and_judge, restore, save)
