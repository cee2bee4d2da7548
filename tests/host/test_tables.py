"""Tables, .csv and .tsv: the rules of tables.py on files as spreadsheets, loggers and pandas write them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from nets import Net
from onnx import helper

from mica.cli.main import main
from mica.data.calibration import load_calibration, read_arrays
from mica.data.tables import Inputs
from mica.errors import MicaError
from mica.run import evaluation

ROWS = np.array([[20.5, -1.25, 3.0], [1e-3, 2.0, 0.5], [7.0, 8.0, 9.0], [-4.0, 0.0, 100.25]], np.float32)
TRIALS = Path(__file__).resolve().parents[2].parent / "shared" / "trials" / "csv-kinds"


def text(rows: np.ndarray = ROWS, between: str = ",", comma: bool = False, head: str = "a,b,c\n") -> str:
    body = "\n".join(between.join(f"{v:.7g}" for v in row) for row in rows)
    return head.replace(",", between) + (body.replace(".", ",") if comma else body) + "\n"


def saved(folder: Path, data: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def read(
    folder: Path, data: str | bytes, shape: tuple[int, ...] = (1, 3), name: str = "t.csv"
) -> dict[str, np.ndarray]:
    return read_arrays(saved(folder, data, name), Inputs({"x": shape}))


SAME = {
    "header": text(),
    "no header": text(head=""),
    "semicolons": text(between=";"),
    "decimal commas": text(between=";", comma=True),
    "decimal commas without a header": text(between=";", comma=True, head=""),
    "tabs and decimal commas": text(between="\t", comma=True),
    "a mark": b"\xef\xbb\xbf" + text().encode(),
    "UTF-16 with its mark": text(between=";", comma=True).encode("utf-16"),
    "ends of lines of Windows": text().replace("\n", "\r\n"),
    "a delimiter at the end": text().replace("\n", ",\n"),
    "empty lines and remarks": "# of a logger\n\n" + text().replace("\n", "\n\n"),
    "sep=": "sep=|\n" + text(between="|"),
    "quotes": '"a, in C","b; ""x""",c\n' + text(head="").replace("20.5", '"20.5"'),
    "pandas, index and numbers of columns": ",0,1,2\n" + "".join(f"{k},{r}\n" for k,
                                                                 r in enumerate(text(head="").split())),
    "pandas without an index": text(head="0,1,2\n"),
    "an index by its name": "id,a,b,c\n" + "".join(f"{k},{r}\n" for k, r in enumerate(text(head="").split())),
    "time stamps": "when,a,b,c\n" + "".join(f"2026-11-25T12:0{k}:00.5Z,{r}\n" for k,
                                            r in enumerate(text(head="").split())),
    "dates, no header": "".join(f"25.11.2026 12:0{k},{r}\n" for k, r in enumerate(text(head="").split())),
    "seconds": "Time,a,b,c\n" + "".join(f"{k / 10},{r}\n" for k, r in enumerate(text(head="").split())),
}  # fmt: skip


@pytest.mark.parametrize("kind", SAME)
def test_the_same_numbers(kind: str, tmp_path: Path) -> None:
    arrays = read(tmp_path, SAME[kind])
    assert list(arrays) == ["x"] and arrays["x"].dtype == np.float32
    np.testing.assert_array_equal(arrays["x"], ROWS)


def with_column(name: str, values: list[str]) -> str:
    return f"a,b,c,{name}\n" + "".join(f"{r},{v}\n" for r, v in zip(text(head="").split(), values, strict=True))


@pytest.mark.parametrize("name", ("label", "Class", "target", "y"))
def test_labels_by_name(name: str, tmp_path: Path) -> None:
    arrays = read(tmp_path, with_column(name, ["0", "2", "1", "1"]))
    np.testing.assert_array_equal(arrays["x"], ROWS)
    assert arrays["y"].tolist() == [0, 2, 1, 1] and arrays["y"].dtype == np.int64


def test_labels_of_words_and_targets(tmp_path: Path) -> None:
    assert read(tmp_path, with_column("species", ["cat", "dog", "cat", "owl"]))["y"].tolist() == [
        "cat",
        "dog",
        "cat",
        "owl",
    ]
    targets = read(tmp_path, with_column("target", ["0.5", "1.5", "2", "-1"]))
    assert targets["metric"] == "mse" and targets["y"].tolist() == [0.5, 1.5, 2, -1]
    # y is a feature where the model takes as many columns: those of an accelerometer.
    assert list(read(tmp_path, text(head="x,y,z\n"))) == ["x"]
    with pytest.raises(MicaError, match=r"row 3, column 'label': the label is missing"):
        read(tmp_path, with_column("label", ["0", "", "1", "1"]))


def test_windows_of_rows(tmp_path: Path) -> None:
    rows = np.arange(33, dtype=np.float32).reshape(11, 3) / 4
    for shape, axes in (((1, 4, 3), (0, 1, 2)), ((1, 3, 4), (0, 2, 1)), ((1, 1, 4, 3), (0, 1, 2))):
        x = read(tmp_path, text(rows), shape)["x"]
        np.testing.assert_array_equal(x, rows[:8].reshape(2, 4, 3).transpose(axes).reshape(-1, *shape[1:]))
    np.testing.assert_array_equal(
        read(tmp_path, text(rows[:, :1], head="ecg\n"), (1, 5))["x"], rows[:10, 0].reshape(2, 5)
    )
    flat = read(tmp_path, text(rows.reshape(-1)[:24].reshape(2, 12), head=""), (1, 4, 3))["x"]
    np.testing.assert_array_equal(flat, rows[:8].reshape(2, 4, 3))
    labelled = "a,b,c,label\n" + "".join(f"{k},0,0,{k // 3}\n" for k in range(9))
    found = read(tmp_path, labelled, (1, 2, 3))  # rows 2 and 3 have two labels
    assert found["y"].tolist() == [0, 1, 2] and found["x"][:, 0, 0].tolist() == [0, 4, 6]
    with pytest.raises(MicaError, match="has 11 rows; the model takes windows of 20"):
        read(tmp_path, text(rows), (1, 20, 3))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("", "holds no rows"),
        ("a,b,c\n", "has a header and no rows"),
        ("a,b,c\n1,2,3\n4,5\n", "row 3: has 2 columns; expected 3, as in row 1, with commas"),
        ("a,b,c\n1,2,3\n4,x5,6\n", r"row 3, column 'b': 'x5' is not a number; expected one such as 2\.5"),
        ("a;b;c\n1;2;3\n4;1.234,5;6\n", r"row 3, column 'b': '1\.234,5' is not a number"),
        ('a,b,c\n1,"2,5",3\n', "row 2, column 'b': '2,5' is not a number"),
        ("a,b,c\n1,1e99,3\n", "'1e99' is not a number"),
        ("a,b,c\n1,2,3\n1,,3\n,2,3\n", r"row 3, column 'b': a value is missing \(2 in the table\), and the model "
                                       r"has not learnt"),
        ("1,2,3\n1,NaN,3\n", "row 2, column '2': a value is missing"),
        ("a,b\n1,2\n", r"has 2 columns of numbers \(a, b\); the model takes 1 or 3"),
        ("a,b,c,d,e\n1,2,3,4,5\n", "has 5 columns of numbers"),
        ("a,a,c\n1,2,3\n", "two columns are named 'a'"),
        ("größe,b,c\n1,2,3\n".encode("latin-1"), r"is not in UTF-8 \(byte 2\); save it with that encoding"),
        ("a,b,c\n1,2,3\n".encode("utf-16-le"), "is not in UTF-8"),
    ],
)  # fmt: skip
def test_refused(data: str | bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(MicaError, match=said):
        read(tmp_path, data)


def test_several_inputs(tmp_path: Path) -> None:
    path = saved(tmp_path, "b;when;a\n1;12:00;2,5\n3;12:01;4,5\n")
    found = load_calibration(path, ["a", "b"], {"a": (1, 1), "b": (1, 1)})
    assert found["a"].tolist() == [[2.5], [4.5]] and found["b"].tolist() == [[1], [3]]
    with pytest.raises(MicaError, match="has no column 'c'"):
        load_calibration(path, ["a", "c"], {"a": (1, 1), "c": (1, 1)})


def test_a_folder_of_recordings(tmp_path: Path) -> None:
    saved(tmp_path, text(ROWS[:2]), "1.csv")
    saved(tmp_path, text(ROWS[2:], "\t"), "2.csv")
    np.testing.assert_array_equal(load_calibration(tmp_path, ["x"], {"x": (1, 2, 3)})["x"], ROWS.reshape(2, 1, 2, 3))


def dense(folder: Path, imputed: bool = False) -> Path:
    net = Net()
    x = net.input([1, 3])
    if imputed:
        net.nodes.append(
            helper.make_node("Imputer", [x], ["whole"], domain="ai.onnx.ml", imputed_value_floats=[0.0],
                             replaced_value_float=np.nan)
        )  # fmt: skip
        net.domains["ai.onnx.ml"] = 3
        x = "whole"
    net.output(net.add("Gemm", x, net.random(3, 2)))
    return net.save(folder)


def test_commands_read_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """pack, run, eval, verify, report, compare and fit give the same results as for the same numbers in .npz."""
    model, packed = dense(tmp_path), str(tmp_path / "m.mica")
    rows = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    table = saved(
        tmp_path, "a,b,c,label\n" + "".join(f"{','.join(f'{v:.9g}' for v in r)},{k % 2}\n" for k, r in enumerate(rows))
    )
    np.savez(tmp_path / "t.npz", x=rows, y=np.arange(40) % 2)
    found = []
    for data in (str(table), str(tmp_path / "t.npz")):
        out = []
        for command in (
            ["pack", str(model), "--calib", data, "--eval", data, "--golden", "2", "-o", packed, "--json"],
            ["run", packed, data, "--sample", "7", "--json"],
            ["eval", packed, data, "--json"],
            ["verify", packed, "--data", data, "--json"],
            ["compare", packed, packed, data, "--json"],
            ["fit", str(model), "--calib", data, "--board", "RPI_PICO", "--json"],
            ["report", packed, "--data", data, "-o", str(tmp_path / "r.html"), "--json"],
        ):
            assert main(command) == 0, command
            out.append(json.loads(capsys.readouterr().out))
        for facts in (out[0], out[-1], out[4]["a"], out[4]["b"], out[5]["flash"]):
            for key in ("metadata", "size", "file"):
                facts.pop(key, None)  # the names of the file and of its columns are in them
        found.append(out)
    assert found[0] == found[1]
    main(["run", packed, str(table), "--sample", "7"])
    assert "40 rows of a, b, c; labels: label" in capsys.readouterr().err


def ordered(names: str, rows: np.ndarray, y: np.ndarray | None = None) -> str:
    """A table of columns a, b ... of `rows` and label, in the order of `names`."""
    columns = {chr(97 + k): [f"{v:.9g}" for v in rows[:, k]] for k in range(rows.shape[1])}
    columns["label"] = [str(v) for v in (y if y is not None else np.arange(len(rows)) % 2)]
    wanted = [columns.get(name, ["1"] * len(rows)) for name in names.split(",")]
    return names + "\n" + "".join(",".join(cells) + "\n" for cells in zip(*wanted, strict=True))


def test_columns_in_another_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command that reads a table takes columns by the names that stood in the table of `pack`, and says so."""
    packed, rows = str(tmp_path / "m.mica"), np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    first = str(saved(tmp_path, ordered("a,b,c,label", rows)))
    other = str(saved(tmp_path, ordered("label,c,more,a,b", rows), "other.csv"))
    assert main(["pack", str(dense(tmp_path)), "--calib", first, "--golden", "2", "-o", packed]) == 0
    for words in (["run", packed, "DATA", "--sample", "7"], ["eval", packed, "DATA"],
                  ["compare", packed, packed, "DATA"],
                  ["verify", packed, "--data", "DATA"], ["report", packed, "--data", "DATA", "-o",
                                                         str(tmp_path / "r")]):  # fmt: skip
        out = []
        for data in (first, other):
            capsys.readouterr()
            assert main([data if word == "DATA" else word for word in words] + ["--json"]) == 0
            said = capsys.readouterr()
            out.append(said.out)
        assert out[0] == out[1] and "put in the order of the table that the model was packed with" in said.err, words
    assert main(["run", packed, str(saved(tmp_path, ordered("a,b,d,label", rows), "less.csv"))]) == 1
    assert "has no column 'c'; the model was packed with the columns a, b, c" in capsys.readouterr().err
    assert main(["run", packed, str(saved(tmp_path, text(head=""), "bare.csv"))]) == 0
    assert "they have no names: taken in the order" in capsys.readouterr().err


def test_labelled_data_of_pack_in_another_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The order is that of the calibration's table: --eval gives the same accuracy, and a line says why."""
    rows, model, found = np.random.default_rng(1).standard_normal((60, 3)).astype(np.float32), dense(tmp_path), []
    calib = str(saved(tmp_path, ordered("a,b,c", rows)))
    for names in ("a,b,c,label", "c,label,b,a"):
        y = (rows @ [3, 1, -2] > 0).astype(int)
        test = str(saved(tmp_path, ordered(names, rows, y), "test.csv"))
        assert (
            main(["pack", str(model), "--calib", calib, "--eval", test, "-o", str(tmp_path / "m.mica"), "--json"]) == 0
        )
        said = capsys.readouterr()
        found.append(json.loads(said.out)["accuracy"])
        assert ("has its columns in another order than" in said.err) == (names[0] == "c")
    assert found[0] == found[1]


def test_many_columns(tmp_path: Path) -> None:
    """Of many long names a model's file keeps a digest: another order is refused, since nobody knows the right one."""
    names = [f"a long name of column {k}" for k in range(60)]
    head, body = ",".join(names), ",".join(str(k) for k in range(60))
    asked = Inputs({"x": (1, 60)})
    read_arrays(saved(tmp_path, f"{head}\n{body}\n"), asked)
    assert len(asked.columns) == 1 and len(asked.columns[0]) == 71
    read_arrays(saved(tmp_path, f"{head}\n{body}\n"), asked)
    with pytest.raises(MicaError, match="its columns, or their order, are not those"):
        read_arrays(saved(tmp_path, f"{','.join(names[::-1])}\n{body}\n"), asked)


def test_missing_values_of_a_model_that_has_learnt_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file says so, so that run and eval take them too; other models refuse them by row and column."""
    table = str(saved(tmp_path, "a,b,c,label\n1,2,3,0\n,5,6,1\n4,NA,6,1\n1,1,1,0\n"))
    packed = str(tmp_path / "m.mica")
    for imputed in (True, False):
        code = main(["pack", str(dense(tmp_path, imputed)), "--calib", table, "-o", packed])
        assert code == (0 if imputed else 1)
        told = capsys.readouterr().err
        assert "row 3, column 'a'" in told and ("2 missing values" in told) == imputed
    assert main(["run", packed, table, "--sample", "1", "--json"]) == 0
    np.savez(tmp_path / "zero.npz", x=np.array([[0, 5, 6]], np.float32))  # the Imputer's value
    with_nan = json.loads(capsys.readouterr().out)
    assert main(["run", packed, str(tmp_path / "zero.npz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == with_nan
    assert main(["eval", packed, table]) == 0
    assert len(evaluation.load(table, Inputs({"x": (1, 3)}, missing=True))) == 4


@pytest.mark.skipif(not TRIALS.is_dir(), reason="the folder ../shared/trials is missing")
def test_the_trial() -> None:
    expected = np.load(TRIALS / "calib.npz")
    asked = Inputs({"x": (1, 4)})
    for name in ("header", "semicolons-decimal-commas"):
        np.testing.assert_allclose(read_arrays(TRIALS / f"{name}.csv", asked)["x"], expected["x"], atol=1e-3)
    with pytest.raises(MicaError, match="row 2, column 'hum': a value is missing"):
        read_arrays(TRIALS / "missing.csv", asked)
