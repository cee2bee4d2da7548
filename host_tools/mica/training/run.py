"""The whole of `mica train`: examples, a split, a search, the final training, the pack, and the figures on what was
held out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mica import whole
from mica.boards import load_board, parse_size
from mica.compile.job import Watch
from mica.errors import MicaError
from mica.run.model import Model as PackedModel
from mica.training import augment, examples, onnx_file, search, split, wake
from mica.training.families import FEATURES, SPOKEN, WORDS_RATE, Model, Plan, learnt, plans
from mica.training.forest import Forest
from mica.training.layers import Array, Network
from mica.training.optimise import Settings, Training
from mica.training.saved import EVERY, Saved, Stop, fingerprint
from mica.training.search import Candidate, Contract

USUAL_BOARD = "RPI_PICO"  # whose milliseconds are shown where no board is named
CALIBRATION = 200  # examples that the ranges of tensors come from
JUDGED = 256  # changed examples, beside the plain ones, that a candidate is judged by
FINISH = 0.15  # of the minutes: for packing, and the figures at the end
SEARCH = 0.6  # of the minutes: after them the final training begins
PACE_AFTER = 60  # steps that are timed before the rest is planned


@dataclass(frozen=True)
class Options:
    """The options of a training; each has the name and meaning of the option of `mica train`."""

    kind: str | None = None
    board: str | None = None
    ms: float | None = None
    ram: int | str | None = None
    flash: int | str | None = None
    minutes: float = 5.0
    seed: int = 0
    weights: int = 8
    noise: str | Path | None = None
    other: bool = False  # sound: make examples of all else
    name: str = "trained"
    resume: str | Path | None = None  # the file that lets a second run go on

    def contract(self) -> Contract:
        """Return the limits. Raises MicaError."""
        if (self.ms is not None and not self.ms > 0) or not self.minutes > 0:
            raise MicaError("--ms and --minutes: expected more than 0")
        if self.weights not in (4, 8):
            raise MicaError(f"--weights {self.weights}", todo="expected 8 or 4")
        sizes = [None if v is None else parse_size(v, o) for o, v in (("--ram", self.ram), ("--flash", self.flash))]
        return Contract(load_board(self.board or USUAL_BOARD), self.ms, *sizes)


@dataclass(frozen=True)
class Result:
    """A trained model, and all that its page shows.

    packed: bytes of the .mica file. onnx: of the float network. tried: all candidates. history: (step, mean loss) of
    the final training. answers, float_answers: probabilities of the packed model and of the float network on `held`;
    accuracy, float_accuracy: shares of it that are right. cost: of the packed model on `board`.
    """

    network: Model
    packed: bytes
    onnx: bytes
    board: str
    tried: tuple[Candidate, ...]
    history: tuple[tuple[int, float], ...]
    train: examples.Examples
    held: examples.Examples
    answers: Array
    float_answers: Array
    cost: Candidate
    seconds: float
    notes: tuple[str, ...] = ()
    recipe: Any = field(default=None, repr=False)
    saved: Saved | None = field(default=None, repr=False)  # of a run that came to its end: nobody needs it now

    @property
    def labels(self) -> tuple[str, ...]:
        return self.held.names

    @property
    def kind(self) -> str:
        return self.held.kind

    @property
    def accuracy(self) -> float:
        return float(np.mean(self.answers.argmax(axis=1) == self.held.labels))

    @property
    def confusion(self) -> Array:
        """Return how often each label was answered with each, int64 [labels, labels]."""
        counts = np.zeros((len(self.labels), len(self.labels)), np.int64)
        np.add.at(counts, (self.held.labels, self.answers.argmax(axis=1)), 1)
        return counts

    @property
    def float_accuracy(self) -> float:
        return float(np.mean(self.float_answers.argmax(axis=1) == self.held.labels))

    def save(self, path: str | Path) -> Path:
        """Write the .mica file, and the float network as .onnx beside it; returns the first. Raises MicaError."""
        path = Path(path)
        whole.write(path.with_suffix(".onnx"), self.onnx)
        whole.write(path, self.packed)
        return path


Say = Callable[[str], None]
Progress = Callable[[str, int, int, float], None]  # what, done, of, seconds left


def train(
    data: str | Path,
    options: Options | None = None,
    say: Say = lambda _: None,
    progress: Progress = lambda *_: None,
    watch: Watch | None = None,
) -> Result:
    """Train a model on a folder or table, and pack it. Raises MicaError, and Unsupported where no network keeps the
    contract."""
    options = options or Options()
    contract = options.contract()
    found = examples.read(Path(data), options.kind)
    if options.other:
        found = wake.with_other(found, None if options.noise is None else Path(options.noise))
    for line in found.notes:
        say(line)
    with Stop().listening() as stop:
        return _Run(found, options, contract, say, progress, stop).result(watch)


class _Run:
    """One training, from its examples on."""

    def __init__(
        self, found: examples.Examples, options: Options, contract: Contract, say: Say, progress: Progress, stop: Stop
    ) -> None:
        self._begun = time.monotonic()
        self._options, self._contract, self._progress, self._stop = options, contract, progress, stop
        self._notes: list[str] = []
        self._tell = say
        self._train, self._held = split.split(found, options.seed)
        try:
            self._fit, self._choose = split.split(self._train, options.seed + 1)
        except MicaError:  # too few groups for a third part
            self._fit = self._choose = self._train
            self._say(
                "too few recordings to choose a network on others than it learns from: take the figures with care"
            )
        key = fingerprint(found.inputs, found.labels, replace(options, minutes=1, resume=None, name=""))
        self._saved = Saved(None if options.resume is None else Path(options.resume), key)
        if self._saved.goes_on:
            self._tell("going on where the last run was stopped")
        self._recipes: dict[tuple[str, str | None], Any] = {}

    def _say(self, line: str) -> None:
        self._notes.append(line)
        self._tell(line)

    def _recipe(self, part: str, plan: Plan) -> Any:
        """Return the recipe of a part of the examples: "train", "fit" or "choose", for a plan's front end."""
        key = (part, plan.front_end)
        if key not in self._recipes:
            of = {"train": self._train, "fit": self._fit, "choose": self._choose}[part]
            noise = None if self._options.noise is None else Path(self._options.noise)
            self._recipes[key] = augment.recipe_of(of, noise, plan.front_end)
        return self._recipes[key]

    def _new(self, plan: Plan, part: str) -> Model:
        """Return a network with weights by chance; a forest, which needs no steps, has learnt already."""
        recipe, labels, seed = self._recipe(part, plan), len(self._train.names), self._options.seed
        if plan.family == "forest":
            of = self._fit if part == "fit" else self._train
            return Forest.grown(recipe.plain(of.inputs), of.labels, labels, plan.sizes, seed)
        network = plan.build(np.random.default_rng(seed), recipe.shape, labels, recipe.mean, recipe.spread)
        if plan.family == "spoken" and self._train.background.any():
            network.bank, network.of_bank = learnt()["bank"], int(np.argmax(self._train.background))
        return network

    def result(self, watch: Watch | None) -> Result:
        """Search, train, pack and measure. Raises MicaError and Unsupported."""
        tried = self._judge()
        ranked, tried, trainings = self._search(tried)
        last: MicaError | None = None
        for k in ranked:
            model, history = self._final(k, tried[k].plan, trainings.get(k))
            self._saved.write()
            unfinished = self._stop.stopped
            recipe = self._recipe("train", tried[k].plan)
            onnx = onnx_file.model(model, recipe.shape, self._train.names)
            packed, cost = self._packed(tried[k].plan, onnx, recipe, watch)
            if not cost.fault:
                break
            last = MicaError(f"{tried[k].name}, packed, breaks the contract: {cost.fault}")
        else:
            raise last or MicaError("nothing was trained")
        tried[k] = replace(tried[k], chosen=True)
        if unfinished:
            self._say("stopped: this is the best so far; the same command goes on")
        answers = np.asarray(PackedModel(packed).predict(given(recipe, self._held.inputs)))
        answers = answers.reshape(len(self._held.labels), -1)
        return Result(
            model,
            packed,
            onnx,
            self._contract.board.name,
            tuple(tried),
            history,
            self._train,
            self._held,
            answers,
            model.probabilities(recipe.plain(self._held.inputs)),
            cost,
            time.monotonic() - self._begun,
            tuple(self._notes),
            recipe,
            None if unfinished else self._saved,
        )

    def _judge(self) -> list[Candidate]:
        """Return all candidates with their costs."""
        some = plans(self._train.kind, self._train.inputs.shape[1:])
        rate = round(self._train.rate) == WORDS_RATE
        whole = bool((self._train.inputs == np.rint(self._train.inputs)).all())
        listed = [p for p in some if (p.front_end != FEATURES or whole) and (p.family not in SPOKEN or rate)]
        found = []
        for k, plan in enumerate(listed):
            if self._stop.stopped:
                raise KeyboardInterrupt  # there is nothing to keep yet
            self._progress("weighing candidates", k, len(listed), 0.0)
            recipe = self._recipe("fit", plan)
            samples = given(recipe, spread(self._fit, search.MADE_UP))
            model = self._new(plan, "fit")
            found.append(search.judged(plan, model, recipe, samples, self._train.names, self._contract))
        return found

    def _search(self, tried: list[Candidate]) -> tuple[list[int], list[Candidate], dict[int, Training]]:
        """Return the places of the candidates, the best first; all candidates with their accuracies; and how far their
        networks came."""
        entered = search.entrants(tried)
        places = [k for k, c in enumerate(tried) if c in entered]
        models = {k: self._new(tried[k].plan, "fit") for k in places}
        trainings = {
            k: self._saved.add(
                f"{k}", Training(m, Settings(search.RUNG * 2, cycle=search.RUNG, seed=self._options.seed))
            )
            for k, m in models.items()
            if isinstance(m, Network)
        }
        alive, scores, rung = list(places), dict.fromkeys(places, 0.0), 1
        until = self._begun + 60 * self._options.minutes * SEARCH
        while len(alive) > 1 and not self._stop.stopped:
            for n, k in enumerate(alive):
                if (training := trainings.get(k)) is not None:
                    what = f"{tried[k].name} ({n + 1} of {len(alive)})"
                    self._steps(training, self._recipe("fit", tried[k].plan), rung * search.RUNG, what, until)
                    if training.done < rung * search.RUNG and not training.finished:
                        break  # Ctrl-C, or the time is over: what has not had its steps cannot be compared
                scores[k] = self._score(models[k], tried[k].plan)
                tried[k] = replace(tried[k], accuracy=scores[k], steps=training.done if training else 0)
            alive = search.better_half({k: scores[k] for k in alive}, tried)
            rung += 1
        first = search.preferred(alive[0], scores, tried, len(self._choose.labels))
        ranked = sorted(places, key=lambda k: (k != first, -scores[k], search.size(tried[k])))
        return ranked, tried, trainings

    def _score(self, model: Model, plan: Plan) -> float:
        """Return the accuracy on examples that the candidate did not learn from, as they are and changed, each label
        alike."""
        recipe = self._recipe("choose", plan)
        rng = np.random.default_rng(self._options.seed)
        pairs = [(recipe.plain(self._choose.inputs), self._choose.labels), recipe.batch(rng, JUDGED)]
        found = []
        for x, y in pairs:
            right = model.probabilities(x).argmax(axis=1) == y
            found.append(np.mean([right[y == label].mean() for label in np.unique(y)]))
        return float(np.mean(found))

    def _final(self, place: int, plan: Plan, chosen: Training | None) -> tuple[Model, tuple[tuple[int, float], ...]]:
        """Return the candidate, trained on all examples that are not held out; after Ctrl-C whichever came further,
        this one or that of the search."""
        model = self._new(plan, "train")
        if not isinstance(model, Network):
            return model, ()
        settings = Settings(plan.steps, seed=self._options.seed)
        training = self._saved.add(f"final {place}", Training(model, settings))
        recipe = self._recipe("train", plan)
        if chosen is not None and chosen.done:
            recipe = recipe.harder(chosen.network)
        until = self._begun + 60 * self._options.minutes * (1 - FINISH)
        self._steps(training, recipe, min(training.done + PACE_AFTER, plan.steps), f"training {plan.name}", np.inf)
        left = (until - time.monotonic()) / max(self._pace, 1e-6)
        if training.done + left < plan.steps and not training.finished and not self._stop.stopped:
            steps = max(training.done + 2, int(training.done + left))
            self._say(f"time for {steps} of {plan.steps} steps: more --minutes may do better")
            training.settings = replace(settings, steps=steps)
        self._steps(training, recipe, training.settings.steps, f"training {plan.name}", np.inf)
        if self._stop.stopped and not training.finished:
            training = max(training, chosen or training, key=lambda t: t.done)
            if not training.done:
                raise KeyboardInterrupt  # there is nothing to keep yet
        return training.network, training.history()

    _pace = 0.0  # seconds a step, of the latest steps

    def _steps(self, training: Training, recipe: Any, until: int, what: str, deadline: float) -> None:
        begun, first = time.monotonic(), training.done

        def go_on(t: Training) -> bool:
            now = time.monotonic()
            self._saved.write(EVERY)
            if t.done > first:
                self._pace = (now - begun) / (t.done - first)
            self._progress(what, t.done, until, (until - t.done) * self._pace)
            return not self._stop.stopped and now < deadline

        training.run(recipe.batch, until, go_on)

    def _packed(self, plan: Plan, onnx: bytes, recipe: Any, watch: Watch | None) -> tuple[bytes, Candidate]:
        samples = given(recipe, spread(self._train, CALIBRATION))
        options = search.front_end(recipe) | {
            "labels": self._train.names,
            "name": self._options.name,
            "weights": self._options.weights,
        }
        state = search.compiled(onnx, samples, self._contract, watch, **options)
        return state.compiled.data, search.costs(plan, state, self._contract)


def given(recipe: Any, inputs: Array) -> Array:
    """Return examples as the packed model takes them: pictures with their channels first."""
    x = recipe.raw(inputs)
    return np.asarray(x.transpose(0, 3, 1, 2) if x.ndim == 4 else x)


def spread(of: examples.Examples, most: int) -> Array:
    """Return inputs of some examples, from all labels alike."""
    turn = np.empty(len(of.labels), int)
    for label in np.unique(of.labels):
        rows = np.flatnonzero(of.labels == label)
        turn[rows] = np.arange(len(rows))
    return of.inputs[np.sort(np.argsort(turn, kind="stable")[:most])]


def options_of(options: Mapping[str, Any]) -> Options:
    """Return the options of `mica.train`. Raises MicaError."""
    known = Options.__dataclass_fields__
    if unknown := set(options) - set(known):
        raise MicaError(f"train(): no option '{min(unknown)}'", todo=f"known are {', '.join(known)}")
    return Options(**options)
