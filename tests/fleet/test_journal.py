"""A coordinator's journal: its records are read again, also from a file that is cut at any byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from mica.errors import MicaError
from mica_fleet.journal import ANSWER, FAILED, WITHDRAWN, Journal
from mica_fleet.wire import Answer, Key, Status, decode_answer

ABOUT = {"model": 17, "data": 4}


def filled(path: Path) -> bytes:
    with Journal(path, ABOUT) as j:
        j.write(ANSWER, Key(1, 0), b"abc")
        j.write(ANSWER, Key(1, 1), b"")
        j.write(WITHDRAWN, Key(1, 0))
        j.write(FAILED, Key(1, 2, 3), b"set aside")
        j.write(ANSWER, Key(1, 0), b"right")
    return path.read_bytes()


def test_the_last_record_of_a_request_counts(tmp_path: Path) -> None:
    filled(tmp_path / "j")
    with Journal(tmp_path / "j", ABOUT) as j:
        assert j.answers == {Key(1, 0): b"right", Key(1, 1): b""}
        assert j.failed == {Key(1, 2, 3): "set aside"}


def test_records_reach_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is in the file at once; what is older than 0.2 s when the next one comes, and all at the end, was synced."""
    now, synced = [100.0], [0]
    path = tmp_path / "j"
    monkeypatch.setattr("mica_fleet.journal.time.monotonic", lambda: now[0])
    monkeypatch.setattr("mica_fleet.journal.os.fsync", lambda fd: synced.append(path.stat().st_size))
    sizes = []
    with Journal(path, ABOUT) as j:
        for n in range(10):
            j.write(ANSWER, Key(1, n), bytes(50))
            sizes.append(path.stat().st_size)
            assert sizes[-1] > 50 * (n + 1), "a killed process would lose it"
            assert n < 3 or synced[-1] >= sizes[n - 3], "power that fails would lose what is older than 0.3 s"
            now[0] += 0.1
        calls = len(synced)
        assert calls < 8, "not each record waits for the disk"
    assert len(synced) == calls + 1 and synced[-1] == sizes[-1], "the end is synced"


def test_a_journal_cut_at_any_byte_goes_on_from_its_last_whole_record(tmp_path: Path) -> None:
    whole = filled(tmp_path / "j")
    kept = []
    for n in range(len(whole)):
        path = tmp_path / "cut"
        path.write_bytes(whole[:n])
        with Journal(path, ABOUT) as j:
            kept.append(len(j.answers) + len(j.failed))
            j.write(ANSWER, Key(9, 9), b"new")
        with Journal(path, ABOUT) as j:
            assert j.answers[Key(9, 9)] == b"new"
    assert kept[0] == 0 and max(kept) == 2 and kept[-1] == 2  # the third is whole with the last byte only


def test_a_changed_byte_ends_what_is_read(tmp_path: Path) -> None:
    whole = bytearray(filled(tmp_path / "j"))
    whole[-6] ^= 1
    (tmp_path / "j").write_bytes(whole)
    with Journal(tmp_path / "j", ABOUT) as j:
        assert j.answers == {Key(1, 1): b""}


def test_a_file_of_another_job_or_kind_is_left_alone(tmp_path: Path) -> None:
    before = filled(tmp_path / "j")
    with pytest.raises(MicaError, match="another job"):
        Journal(tmp_path / "j", {"model": 18})
    assert (tmp_path / "j").read_bytes() == before
    (tmp_path / "net.onnx").write_bytes(b"x" * 100)
    with pytest.raises(MicaError, match="no journal"):
        Journal(tmp_path / "net.onnx", ABOUT)
    assert (tmp_path / "net.onnx").read_bytes() == b"x" * 100
    with pytest.raises(MicaError, match="cannot be opened"):
        Journal(tmp_path / "no" / "where", ABOUT)


def test_answers_come_back_and_damaged_ones_do_not() -> None:
    message = Answer(Key(1, 2, 3), 0xDEADBEEF, 4, Status.FAILED, 5, 6, b"text", 1)
    whole = message.encode()
    assert decode_answer(whole) == message
    for n in range(len(whole)):
        with pytest.raises(MicaError):
            decode_answer(whole[:n])
        damaged = bytearray(whole)
        damaged[n] ^= 1 << (n % 8)
        with pytest.raises(MicaError):
            decode_answer(bytes(damaged))
