"""mica run: one input through a model, on any target."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mica.cli import target, text
from mica.cli.text import say
from mica.data import calibration, sounds
from mica.data import pictures as picture_files
from mica.data.calibration import decode, fit_any, read_arrays
from mica.errors import MicaError
from mica.file import scores
from mica.file.codec import ModelFile
from mica.format import output_groups
from mica.printable import printable_lines, some
from mica.run import evaluation, pictures, sound
from mica.run import given as numbers

TOP = 5

JSON_KEYS = "target, outputs[]; of a folder: target, pictures[] (file, outputs[])"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="M.mica")
    parser.add_argument(
        "input",
        metavar="INPUT",
        nargs="?",
        help=".npy or .npz (array x, or one array per input), a table (.csv, .tsv), or sound (.wav, .flac, .ogg). "
        "Or a picture (.png, .jpg, .bmp, .gif, .webp, .tif) or a folder of pictures. Of several samples see --sample",
    )
    parser.add_argument(
        "--text", help="a text in the place of INPUT, for a model that classifies texts (packed with --tokens)"
    )
    target.add_on(parser)
    parser.add_argument("--sample", metavar="K", type=int, default=0, help="which sample of the file (default 0)")


def run(args: argparse.Namespace) -> int:
    custom = target.custom_of(args)
    if (args.text is None) == (args.input is None):
        raise MicaError("run: expected an INPUT or a --text", todo="give one of them")
    given = None if args.text is None else _text(args)
    folder = given is None and Path(args.input).is_dir()
    if folder and not picture_files.files(Path(args.input)):
        raise MicaError(f"{args.input}: holds no {pictures.WHAT}", todo="give those, or one file")
    seen = folder or (given is None and picture_files.is_picture(args.input))
    is_sound = given is None and not seen and sounds.is_sound(args.input)
    if is_sound:  # before a target is opened, which may take minutes
        arrays: Mapping[str, np.ndarray] = sound.read(args.input, target.whole_model(args.model), say)
    else:
        arrays = (
            {}
            if seen
            else given
            if given is not None
            else dict(read_arrays(args.input, target.table_inputs(args.model, args.input)))  # several looks at each
        )

    def check(model: ModelFile) -> object:
        return arrays and not is_sound and pick(model, arrays, args.sample, args.input)

    with target.open_model(args.model, args.on, custom=custom, check=check) as runner:
        if seen:
            picture = pictures.input_of(runner.model, args.input)
            paths = _pictures(Path(args.input), folder, args.sample)
            read = picture_files.readable(paths, picture.load)
            paths, samples = [path for path, _ in read], [[picture.quantised(x)] for _, x in read]
        else:
            if is_sound:
                step = sound.input_of(runner.model, args.input).step
                arrays = {name: x * np.float32(step) for name, x in arrays.items()}
            samples = [pick(runner.model, arrays, args.sample, args.input)]
            for line in numbers.saturating(runner.model, samples[0]):
                say(f"warning: {line}")
        answers = [outputs_of(runner.model, runner.run([runner.quantise(sample)])[0]) for sample in samples]
        if not (seen or args.sample) and (n := _count(runner.model, arrays)) > 1:
            say(f"sample 0 of {n} in {args.input}; --sample K takes another, mica eval all")
    model = runner.model
    result: dict[str, Any] = {"target": runner.target, "outputs": answers[0]}
    if folder:
        found = [{"file": path.name, "outputs": outputs} for path, outputs in zip(paths, answers, strict=True)]
        result = {"target": runner.target, "pictures": found}
    if args.json:
        text.emit_json(result)
    elif folder:
        print(printable_lines("\n".join(_line(one, model) for one in result["pictures"])))
    else:
        print(report(result, model))
    return 0


def _text(args: argparse.Namespace) -> dict[str, np.ndarray]:
    """The inputs that --text becomes. Raises MicaError."""
    texts = evaluation.table_inputs(target.whole_model(args.model)).texts
    if texts is None:
        raise MicaError(f"--text: {args.model} does not classify texts", todo="pack it with --tokens, or give an INPUT")
    return texts([args.text])


def _count(model: ModelFile, arrays: Mapping[str, np.ndarray]) -> int:
    """Return the number of samples in a file, as pick() counts them."""
    t = model.tensors[model.inputs[0]]
    x = arrays[t.name] if t.name in arrays else decode(arrays)
    return x.size // max(1, int(np.prod(t.dims)))


def _pictures(path: Path, folder: bool, sample: int) -> list[Path]:
    """The picture, or all of a folder. Raises MicaError."""
    if sample:
        raise MicaError(f"{path}: --sample is for files of several samples")
    found = picture_files.files(path) if folder else [path]
    if not folder and not path.is_file():
        raise MicaError(f"{path}: no such file")
    return found


def _line(one: dict[str, Any], model: ModelFile) -> str:
    """A picture's name, and its class with the largest score; of a model without scores the first output's class."""
    out = one["outputs"][max(scores.place(model), 0)]
    values = np.array(out["values"])
    k = 0 if "int32" in out else int(np.argmax(values))
    return f"{one['file']}: {_names(model, out)[k]}" + ("" if "int32" in out else f" {values[k]:.6g}")


def _names(model: ModelFile, out: dict[str, Any]) -> list[str]:
    """Names of an output's values; where an ArgMax found classes, the names of these."""
    labels = scores.labels(model)
    if "int32" in out:
        return [labels[k] if 0 <= k < len(labels) else str(k) for k in out["int32"]]
    found = scores.names(model, len(out["values"]))
    return found if found[0] in labels else [f"[{k}]" for k in range(len(found))]


def outputs_of(model: ModelFile, outputs: Sequence[np.ndarray]) -> list[dict[str, Any]]:
    """Outputs of a run, as `mica run --json` shows them."""
    result: list[dict[str, Any]] = []
    for group in output_groups.read(model):
        tensors = [model.tensors[t] for t in model.outputs]
        parts = [
            {"name": t.name, "shape": list(t.dims), t.dtype: q.reshape(-1).tolist()}
            for t, q in list(zip(tensors, outputs, strict=True))[group.first : group.first + group.parts]
        ]
        values = output_groups.joined(model, group, list(outputs)).reshape(-1).tolist()
        if group.parts == 1:
            result.append({**parts[0], "values": values})
        else:  # integers of unlike scales are not one array
            result.append({"name": group.name, "shape": list(group.shape), "parts": parts, "values": values})
    return result


def pick(model: ModelFile, arrays: Mapping[str, np.ndarray], k: int, where: str) -> list[np.ndarray]:
    """Sample k for every model input, each of the input's shape. Raises MicaError."""
    sample = []
    for tensor_id in model.inputs:
        t = model.tensors[tensor_id]
        if t.name in arrays:
            x = calibration.numbers(t.name, np.asarray(arrays[t.name]), where)
        elif len(model.inputs) == 1:
            x = decode(arrays, where)
        else:
            raise MicaError(f"{where}: holds {some(arrays)}", todo=f"the model needs an array '{t.name}'")
        x = fit_any(t.name, x, t.dims, f"{where}: ")
        if not 0 <= k < len(x):
            raise MicaError(f"{where}: has samples 0 to {len(x) - 1}, not {k}")
        one = x[k]
        if numbers.odd(one, evaluation.MISSING in model.metadata):
            raise MicaError(f"{where}: sample {k} holds NaN or infinity")
        sample.append(one)
    return sample


def report(result: dict[str, Any], model: ModelFile) -> str:
    """The largest values of each output, with their labels."""
    lines = []
    for out in result["outputs"]:
        values, names = np.array(out["values"]), _names(model, out)
        lines.append(f"{out['name']} {text.shape(out['shape'])}")
        if "int32" in out:
            lines += [f"  {name}" for name in names[:TOP]]
            continue
        lines += [f"  {names[i]:12} {values[i]:.6g}" for i in np.argsort(-values, kind="stable")[:TOP]]
    return printable_lines("\n".join(lines))
