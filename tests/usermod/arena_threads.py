# models: many
# Two threads, one arena: one runs, the other is refused, and every finished run has the right answer.
import mica


def work(me):
    for _ in range(400):
        try:
            if m.predict([[0, 1, 2, 3]]) == want:
                ran[me] += 1
            else:
                wrong[me] += 1
        except RuntimeError:
            refused[me] += 1
    done[me] = True


m = mica.Model(many, arena=mica.Arena(256))
want = m.predict([[0, 1, 2, 3]])
ran = [0, 0]
refused = [0, 0]
wrong = [0, 0]
done = [False, False]
_ = 0  # where there is no global lock, a new name moves the others while the thread looks for them
try:
    import _thread
    import time

    _thread.start_new_thread(work, (1,))
except (ImportError, OSError):
    print("SKIP")
else:
    work(0)
    for _ in range(1000):
        if done[1]:
            break
        time.sleep(0.01)
    print("done", done, "wrong", wrong, ran[0] + refused[0], ran[1] + refused[1], ran[0] + ran[1] > 0)
    print(m.arena.busy, m.predict([[0, 1, 2, 3]]) == want)
