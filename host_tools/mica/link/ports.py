"""Serial ports of this computer: which there are, and why one of them cannot be opened."""

import errno
import os
import sys
from pathlib import Path

import serial
import serial.tools.list_ports

from mica.errors import MicaError


def is_port_name(target: str) -> bool:
    """True if `target` is written like a port: a path, an address, or COM and a number."""
    if "/" in target or "://" in target:
        return True
    return target[:3].upper() == "COM" and target[3:].isdigit()


def usb_ports() -> list[str]:
    """Ports that are plugged in by USB."""
    return sorted(port.device for port in serial.tools.list_ports.comports() if port.vid is not None)


def example_port(system: str = sys.platform) -> str:
    """Name of a port on this system, as an example."""
    return {"win32": "COM5", "darwin": "/dev/cu.usbmodem101"}.get(system, "/dev/ttyACM0")


def the_only_port() -> str:
    """The port that `auto` stands for."""
    ports = usb_ports()
    if not ports:
        raise _no_board()
    if len(ports) > 1:
        raise MicaError(f"several boards are plugged in: {', '.join(ports)}", todo=f"choose one: --on {ports[0]}")
    return ports[0]


def _no_board() -> MicaError:
    """Why there is no port: a board in its boot loader shows a drive instead."""
    from mica.link import drives

    for drive in drives.find():
        board = "RPI_PICO" if drive.chip == "RP2040" else "RPI_PICO2"
        return MicaError(
            f"a board in BOOTSEL mode shows the drive {drive}, and no port",
            todo=f"put firmware onto it: mica flash --board {board}, or unplug it and plug it in without the button",
        )
    return MicaError(
        "no board is plugged in by USB",
        todo=f"plug one in with a cable that carries data, or give its port, such as --on {example_port()}",
    )


def check_port(port: str) -> None:
    """Raise MicaError when the port is missing, forbidden, or held by another program."""
    if "://" in port or os.name != "posix":
        return
    path = Path(port)
    try:
        mode_ok = os.access(path, os.R_OK | os.W_OK)
        path.stat()
    except FileNotFoundError:
        raise MicaError(f"there is no port {port}", todo=_plugged()) from None
    except OSError as error:
        raise MicaError(f"cannot use port {port}: {error.strerror}") from None
    if not path.is_char_device() or not _is_tty(path):
        hint = "a board's folder has a board.toml" if path.is_dir() else ""
        raise MicaError(f"{port} is not a serial port", todo=hint)
    if not mode_ok:
        raise MicaError(f"no permission for {port}", todo=_permission_hint(path))
    holder = _holder(path)
    if holder:
        raise MicaError(f"port {port} is held by {holder}", todo="end that program first")


def explain_failure(port: str, error: Exception | None = None) -> MicaError:
    """Say why opening `port` has failed, by trying once more and looking at the error itself."""
    try:
        check_port(port)
        serial.serial_for_url(port, exclusive=True).close()
    except MicaError as found:
        return found
    except (OSError, ValueError) as found:
        if os.name != "posix":
            return _explain_windows(port, found)
        if isinstance(found, PermissionError) or getattr(found, "errno", None) in (errno.EACCES, errno.EPERM):
            return MicaError(f"no permission for {port}", todo=_permission_hint(Path(port)))
        if getattr(found, "errno", None) in (errno.EAGAIN, errno.EBUSY):
            return MicaError(f"port {port} is held by another program", todo="end that program first")
        if "://" in port:
            return MicaError(f"nothing answers at {port}", todo="is the program there running?")
        return MicaError(f"cannot open port {port}: {found}")
    return MicaError(f"cannot open port {port}{f': {error}' if error else ''}", todo="try again")


def _explain_windows(port: str, error: Exception) -> MicaError:
    """pyserial passes Windows's own error on as text. There, only a port that is in use is refused."""
    text = str(error)
    if "PermissionError" in text:
        return MicaError(f"port {port} is held by another program", todo="end that program first")
    if "FileNotFoundError" in text:
        return MicaError(f"there is no port {port}", todo=_plugged())
    return MicaError(f"cannot open port {port}: {text}")


def _plugged() -> str:
    ports = usb_ports()
    return f"plugged in are {', '.join(ports)}" if ports else "no board is plugged in by USB"


def _is_tty(path: Path) -> bool:
    """True if a device is a terminal, or if that is unknown (not on Linux). Opening it could reset a board."""
    known = Path("/sys/class/tty")
    device = path.resolve()
    return not known.is_dir() or device.parent == Path("/dev/pts") or (known / device.name).exists()


def _permission_hint(path: Path) -> str:
    try:
        import grp

        group = grp.getgrgid(path.stat().st_gid).gr_name
    except (ImportError, KeyError, OSError):
        group = "dialout"
    if group in ("root", "tty"):
        return "it belongs to another user"
    return f"type: sudo usermod -aG {group} $USER   and log in again"


def _holder(path: Path) -> str | None:
    """Name and id of another process that has the port open, where Linux lets us see it.

    Most programs lock the port, but two readers without locks would take each other's bytes unnoticed.
    """
    try:
        device = path.stat().st_rdev
        processes = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    except OSError:
        return None
    for process in processes:
        if process.name == str(os.getpid()):
            continue
        try:
            for descriptor in (process / "fd").iterdir():
                target = os.readlink(descriptor)
                if target.startswith("/dev/") and os.stat(target).st_rdev == device:
                    name = (process / "comm").read_text(encoding="utf-8").strip()
                    return f"{name} (process {process.name})"
        except OSError:
            continue  # not ours to look into, or ended meanwhile
    return None
