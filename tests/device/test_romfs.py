"""ROMFS images: MicroPython's own VfsRom reads our images, and finds every file's data at a multiple of 16."""

from __future__ import annotations

import binascii
import random
from pathlib import Path

import pytest
from mpremote.romfs import VfsRomWriter

from mica.errors import MicaError
from mica.images import romfs
from mica.link.board import Link

# Mounts `image`, walks it, and prints for each file its path, place, length and CRC-32.
WALK = """
import binascii, os, uctypes, vfs
vfs.mount(vfs.VfsRom(image), "/image")
def walk(folder):
    for name, kind, _, size in os.ilistdir(folder):
        path = folder + "/" + name
        if kind == 0x4000:
            walk(path)
        else:
            data = memoryview(open(path, "rb"))
            at = uctypes.addressof(data) - uctypes.addressof(image)
            print(at, len(data), size, binascii.crc32(data), os.stat(path)[6], path[7:])
walk("/image")
vfs.umount("/image")
"""


def read(board: Link, image: bytes) -> dict[str, tuple[int, bytes]]:
    """Path to (offset, data), as MicroPython sees them."""
    board.put(image, "image")
    found = {}
    for line in board.exec(WALK).decode().splitlines():
        at, length, size, crc, stat_size, path = line.split(" ", 5)
        data = image[int(at) : int(at) + int(length)]
        assert binascii.crc32(data) == int(crc)
        assert length == size == stat_size
        found[path] = (int(at), data)
    return found


def check(board: Link, files: dict[str, bytes], align: int = 16) -> bytes:
    image = romfs.build(files, align=align)
    found = read(board, image)
    assert {path: data for path, (_, data) in found.items()} == files
    for path, (at, data) in found.items():
        if data:
            assert at % align == 0, path
    assert len(image) % 2 == 0
    return image


def test_folders(unix_board: Link) -> None:
    files = {
        "model.mica": bytes(range(256)) * 40,
        "lib/one.py": b"print(1)\n",
        "lib/deep/er/two.bin": b"2" * 17,
        "empty": b"",
        "größe.txt": b"name of ten bytes",
    }
    check(unix_board, files)


def test_nothing(unix_board: Link) -> None:
    assert check(unix_board, {}) == b"\xd2\xcd\x31\x80\x80\x80\x03\x01\x01\x00"


# Where a length gains a byte, the data move, and with them the padding that the length counts.
@pytest.mark.parametrize("around", [0x7F, 0x3FFF, 0x1FFFFF])
def test_lengths_at_their_edges(unix_board: Link, around: int) -> None:
    step = 1 if around < 0x4000 else 11
    for size in range(around - 44, around + 4, step):
        check(unix_board, {"a": bytes([size & 0xFF]) * size, "b": b"behind"})
        check(unix_board, {"in/a": b"x" * size})


@pytest.mark.parametrize("seed", range(20))
def test_random(unix_board: Link, seed: int) -> None:
    rng = random.Random(seed)
    files = {}
    for i in range(rng.randrange(1, 12)):
        folder = "".join(f"d{rng.randrange(3)}{'x' * rng.randrange(40)}/" for _ in range(rng.randrange(3)))
        files[f"{folder}f{i}{'y' * rng.randrange(30)}"] = rng.randbytes(rng.choice([0, 1, 15, 16, 127, 128, 5000]))
    check(unix_board, files, align=rng.choice([16, 4, 64]))


def test_same_files_as_mpremotes_writer(unix_board: Link) -> None:
    """An image of MicroPython's usual writer reads the same, except for the places of its files."""
    files = {"a.bin": b"a" * 300, "lib/b.bin": b"b" * 5}
    theirs = mpremote_image(files)
    ours = romfs.build(files)
    assert [data for _, data in read(unix_board, theirs).values()] == [
        data for _, data in read(unix_board, ours).values()
    ]


def mpremote_image(files: dict[str, bytes]) -> bytes:
    writer = VfsRomWriter()
    writer.mkfile("a.bin", files["a.bin"])
    writer.opendir("lib")
    writer.mkfile("b.bin", files["lib/b.bin"])
    writer.closedir()
    return bytes(writer.finalise())


@pytest.mark.parametrize("name", ["", "/", "/a", "../a", "a/../b", "a/.."])
def test_bad_paths(name: str) -> None:
    with pytest.raises(MicaError, match="not a path"):
        romfs.build({name: b""})


def test_file_and_folder_of_one_name() -> None:
    with pytest.raises(MicaError, match="'a' is a file"):
        romfs.build({"a": b"", "a/b": b""})


def test_too_large() -> None:
    with pytest.raises(MicaError, match=r"5,0\d\d bytes, and its partition 4,096"):
        romfs.build({"a": bytes(5000)}, size=4096)


def test_read_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_bytes(b"one")
    (tmp_path / "b.txt").write_bytes(b"two")
    assert romfs.read_folder(tmp_path) == {"b.txt": b"two", "sub/a.txt": b"one"}
    with pytest.raises(MicaError, match="not a folder"):
        romfs.read_folder(tmp_path / "b.txt")
