"""The settings file of a fleet with a broker, NAME.toml: where the broker is, and who may say what there.

    fleet = "plant"            host, port: of the broker        password: the coordinator's, whose user name is "mica"
    watch                      the password of those who only watch (Home Assistant), whose user name is "watch"
    key                        what pushes are signed with, 64 hexadecimal digits
    [boards]                   name = "password" of each board, which is its user name as well

It holds passwords, so only its owner may read it. `mica fleet init` makes it, `mica fleet join` adds boards.
"""

import base64
import contextlib
import hashlib
import json
import os
import re
import secrets
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mica.errors import MicaError, writing
from mica_fleet.desired import board_key
from mica_fleet.wire import LARGEST_MESSAGE

COORDINATOR = "mica"  # the coordinator's user name
WATCHER = "watch"  # who may read what boards say of themselves, and write nothing
PORT = 1883
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")


def check_name(name: str, what: str) -> str:
    """A name that can stand in a topic. Raises MicaError."""
    if not NAME.fullmatch(name) or (what == "board" and name in (COORDINATOR, WATCHER)):
        raise MicaError(
            f"{name!r} is no name for a {what}", todo=f"up to 32 letters, digits, - and _; not {COORDINATOR}, {WATCHER}"
        )
    return name


def new_password() -> str:
    return secrets.token_urlsafe(18)


@dataclass
class Site:
    """`path` is where the file lies. Names of boards -> their passwords."""

    path: Path
    fleet: str
    host: str
    port: int
    password: str
    boards: dict[str, str] = field(default_factory=dict)
    key: str = ""  # of a fleet that was made before there were pushes
    watch: str = field(default_factory=new_password)  # of a fleet that was made before there were watchers: new

    @property
    def where(self) -> str:
        """The broker, for people."""
        return f"{self.host}:{self.port}"

    @property
    def broker_folder(self) -> Path:
        return self.path.with_suffix(".broker")

    def board_settings(self, name: str, models: list[str] | None = None) -> dict[str, Any]:
        """Contents of a board's fleet.json."""
        settings: dict[str, Any] = {"fleet": self.fleet, "name": name, "host": self.host, "port": self.port}
        settings["password"] = self.boards[name]
        if self.key:
            settings["key"] = board_key(self.key, name)
        return settings | ({"models": models} if models is not None else {})

    def join(self, names: Iterable[str]) -> None:
        """Add boards, and those that other commands have added since the file was read;
        save it and the broker's files."""
        with _alone(self.path):
            if self.path.is_file():
                self.boards = {**self.boards, **read_site(str(self.path)).boards}
            for name in names:
                self.boards.setdefault(name, new_password())
            self.save()

    def leave(self, names: Collection[str]) -> None:
        """Take boards away: the broker lets them in no more. Saves it and the broker's files."""
        with _alone(self.path):
            self.boards = {b: p for b, p in read_site(str(self.path)).boards.items() if b not in names}
            self.save()

    def password_of(self, user: str) -> str:
        return {COORDINATOR: self.password, WATCHER: self.watch, **self.boards}[user]

    def save(self) -> None:
        text = "# A fleet of mica's; mica fleet join adds boards. Passwords: for nobody else.\n"
        text += f"fleet = {json.dumps(self.fleet)}\n"
        text += f"host = {json.dumps(self.host)}\nport = {self.port}\npassword = {json.dumps(self.password)}\n"
        text += f"key = {json.dumps(self.key)}\nwatch = {json.dumps(self.watch)}\n\n[boards]\n"
        text += "".join(f"{name} = {json.dumps(password)}\n" for name, password in self.boards.items())
        write_private(self.path, text)
        self._write_broker_files()

    def _write_broker_files(self) -> None:
        """mosquitto's settings, passwords and ACL. A board reads what is for it, and writes what is from it; no more.
        Who watches reads what boards say of themselves."""
        folder = self.broker_folder
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as e:
            raise MicaError(f"{folder}: cannot be made: {e.strerror}") from None
        users = {COORDINATOR: self.password, WATCHER: self.watch, **self.boards}
        write_private(folder / "passwords", "".join(f"{u}:{_hashed(p)}\n" for u, p in users.items()))
        write_private(
            folder / "acl",
            f"pattern read mica/{self.fleet}/to/%u/#\n"
            + "".join(
                f"pattern write mica/{self.fleet}/from/%u/{what}\n"
                for what in ("state", "stat", "have", "head", "out", "event")
            )
            + f"pattern read mica/{self.fleet}/blob/#\n"
            f"\nuser {COORDINATOR}\ntopic readwrite mica/{self.fleet}/#\ntopic readwrite "
            f"homeassistant/device/+/config\n\nuser {WATCHER}\n"
            + "".join(f"topic read mica/{self.fleet}/from/+/{what}\n" for what in ("state", "stat", "have", "event"))
            + f"topic read mica/{self.fleet}/said/#\ntopic read homeassistant/#\n"
            # The patterns above are of every user.
            + "".join(
                f"topic deny mica/{self.fleet}/{what}/#\n" for what in ("blob", f"from/{WATCHER}", f"to/{WATCHER}")
            ),
        )
        bind = self.host if self.host in ("127.0.0.1", "::1", "localhost") else ""
        lines = [
            f"listener {self.port} {bind}".rstrip(),
            "allow_anonymous false",
            f"password_file {folder.resolve() / 'passwords'}",
            f"acl_file {folder.resolve() / 'acl'}",
            "persistence false",  # boards and coordinator say again what they said
            "set_tcp_nodelay true",
            f"message_size_limit {LARGEST_MESSAGE}",
            f"max_packet_size {LARGEST_MESSAGE + 1024}",  # with its topic: whoever sends a larger one is cut off
        ]
        if hasattr(os, "getuid") and os.getuid() == 0:
            lines.append("user root")  # it could not read these files as another
        write_private(folder / "mosquitto.conf", "\n".join(lines) + "\n")


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """No other command changes this file meanwhile: `broker` and `join` may be started at once."""
    if os.name != "posix":
        yield
        return
    import fcntl

    with writing(path):
        lock = path.with_name(path.name + ".lock").open("w")
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _hashed(password: str) -> str:
    """Hash as mosquitto_passwd does: PBKDF2 with SHA-512, 101 rounds. These passwords are random, not chosen."""
    salt = secrets.token_bytes(12)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 101)
    return f"$7$101${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def write_private(path: Path, text: str) -> None:
    """Replace a file by one that only its owner reads. Raises MicaError."""
    other = path.with_name(path.name + ".new")
    with writing(path):
        descriptor = os.open(other, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as f:
            f.write(text)
        os.replace(other, path)


def path_of(name: str) -> Path:
    """plant -> plant.toml, here; plant.toml and dir/plant.toml are themselves."""
    return Path(name if name.endswith(".toml") else f"{name}.toml")


def is_site(name: str) -> bool:
    """True if `fleet:name` means a settings file."""
    return path_of(name).is_file()


def read_site(name: str) -> Site:
    """Raises MicaError where the file is missing or is not as it should be."""
    path = path_of(name)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MicaError(f"{path} is missing", todo=f"make one with `mica fleet init {path.stem}`") from None
    except OSError as e:
        raise MicaError(f"{path}: cannot be read: {e.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise MicaError(f"{path}: damaged: {e}") from None
    boards = table.get("boards", {})
    for key, kind in (("fleet", str), ("host", str), ("port", int), ("password", str)):
        if type(table.get(key)) is not kind:
            found = "is missing" if key not in table else f"is {table[key]!r}"
            raise MicaError(f"{path}: {key} {found}", todo="expected what `mica fleet init` writes")
    if not isinstance(boards, Mapping) or not all(isinstance(p, str) for p in boards.values()):
        raise MicaError(f"{path}: [boards] is damaged", todo='expected lines such as bench-1 = "password"')
    if not 0 < table["port"] < 65536:
        raise MicaError(f"{path}: port is {table['port']}", todo="expected 1 to 65535")
    check_name(table["fleet"], "fleet")
    for board in boards:
        check_name(board, "board")
    key = table.get("key", "")
    if not isinstance(key, str) or not re.fullmatch(r"([0-9a-f]{64})?", key):
        raise MicaError(f"{path}: key is damaged", todo="expected 64 hexadecimal digits, as `mica fleet init` writes")
    watch = table.get("watch", "")
    if not isinstance(watch, str):
        raise MicaError(f"{path}: watch is {watch!r}", todo="expected what `mica fleet init` writes")
    return Site(
        path,
        table["fleet"],
        table["host"],
        table["port"],
        table["password"],
        dict(boards),
        key,
        watch or new_password(),
    )


def new_site(name: str, broker: str) -> Site:
    """`broker`: mqtt://HOST[:PORT]. Raises MicaError where there is such a fleet already."""
    path = path_of(name)
    if path.exists():
        raise MicaError(f"{path} is there already", todo="give another name, or take it away")
    match = re.fullmatch(r"(?:mqtt://)?([A-Za-z0-9_.-]+)(?::(\d{1,5}))?/?", broker)
    if match is None or not 0 < int(match[2] or PORT) < 65536:
        raise MicaError(f"--broker {broker}: expected such as mqtt://192.168.1.5 or mqtt://pi.local:{PORT}")
    site = Site(
        path, check_name(path.stem, "fleet"), match[1], int(match[2] or PORT), new_password(), key=secrets.token_hex(32)
    )
    site.save()
    return site
