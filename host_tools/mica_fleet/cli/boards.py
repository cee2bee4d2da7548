"""The actions of `mica fleet` that have to do with a broker and its boards; fleet.py has their arguments."""

import argparse
import contextlib
import os
import re
import sys
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from mica.boards import emulated_boards
from mica.cli import eval as eval_command
from mica.cli import target, text
from mica.cli.text import say
from mica.data.calibration import decode, fit_any, read_arrays
from mica.errors import MicaError, reading, writing
from mica.file import codec
from mica.format.names import printable
from mica.link.targets import open_board
from mica.run import accuracy, evaluation, given
from mica_fleet import broker, departure
from mica_fleet import push as rollout
from mica_fleet.cli.secret import asked_for, first_line
from mica_fleet.coordinator import FleetRunner
from mica_fleet.inventory import Inventory, examine
from mica_fleet.journal import Journal
from mica_fleet.member import Member, firmware, install
from mica_fleet.mqtt_link import await_entry
from mica_fleet.open import open_fleet, targets_of
from mica_fleet.push import Fleet, Outcome
from mica_fleet.rollout import State as BoardState
from mica_fleet.rollout import Terms
from mica_fleet.site import Site, check_name, new_password, new_site, read_site
from mica_fleet.store import Store

_BACK_SECONDS = 16  # firmware/mica_fleet: the longest pause before a board connects again
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def init(args: argparse.Namespace) -> int:
    site = new_site(args.fleet, args.broker)
    if args.json:
        text.emit_json({"fleet": site.fleet, "file": str(site.path), "broker": site.where})
    else:
        print(f"{site.path}: fleet {site.fleet}, broker {site.where}. It has passwords in it: keep it to yourself")
        print(f"next: mica fleet broker {args.fleet}")
    return 0


def run_broker(args: argparse.Namespace) -> int:
    site = read_site(args.fleet)
    process = broker.start(site)
    if args.json:
        text.emit_json({"broker": site.where, "pid": process.pid})
    else:
        print(f"the broker of {site.fleet} is at {site.where}", flush=True)
    say("Ctrl-C ends it")
    sys.stdout.flush()
    if site.path.with_suffix(".models").exists():
        _state_again(site)
    broker.watch(site, process, say, until=_orphaned())
    return 0


def _state_again(site: Site) -> None:
    """Send earlier pushes to the broker again, which has forgotten them. If that fails, the broker still runs."""
    try:
        with Fleet(site, say) as fleet:
            n = fleet.state_again()
        say(f"{n} boards are told again what they are to have")
    except MicaError as e:
        say(f"warning: what was pushed before is not told again: {e}")


def join(args: argparse.Namespace) -> int:
    """Emulated boards run until Ctrl-C; a board at a port keeps what it is given."""
    site = read_site(args.fleet)
    targets = targets_of(f"fleet:{args.on}")
    models = {Path(m).name: target.read_model(m) for m in args.model}
    if args.name is not None and len(targets) > 1:
        check_name(args.name, "board")
    names = {}
    for number, label in enumerate(targets, 1):
        plain = args.name or label.partition("#")[0].removesuffix("@emu").rsplit("/", 1)[-1].lower().replace("_", "-")
        name = f"{plain}-{number}" if len(targets) > 1 or args.name is None else plain
        names[check_name(name, "board")] = targets[label]
    emulated = emulated_boards()
    for one in dict.fromkeys(names.values()):
        if one == "host" or (one in emulated and not emulated[one].port.program):
            raise MicaError(f"{one} has no network", todo=f"it needs no broker: mica eval M D --on fleet:{one}")
        if one not in emulated and site.host in _LOOPBACK:
            todo = "make the fleet with --broker mqtt:// and this computer's address"
            raise MicaError(f"the broker is at {site.host}, where no other machine reaches it", todo=todo)
    ports = {name: one for name, one in names.items() if one not in emulated}
    wifi = [args.wifi, _wifi_password(args)] if args.wifi and ports else None
    for name, port in ports.items():
        site.boards.setdefault(name, new_password())  # in the file when the board has it
        settings = site.board_settings(name)
        if wifi:
            settings["wifi"] = wifi
        with open_board(port) as board:
            install(board, settings, models)
        _enter(site, [name], models)
        say(f"{name} has joined at {port}")
    if len(ports) < len(names):
        return _run_members(args, site, {n: t for n, t in names.items() if n not in ports}, models)
    if args.json:
        text.emit_json({"boards": list(names)})
    return 0


def _enter(site: Site, names: list[str], models: dict[str, bytes]) -> None:
    """Write boards into the fleet's file, and their models beside it."""
    site.join(names)
    store = Store(site)
    given = {name: store.add(data) for name, data in models.items()}
    for name in names:
        store.known[name] = dict(given)  # so that a push can be taken back
    store.save()


def _wifi_password(args: argparse.Namespace) -> str:
    """Return the network's password, "" if it has none. Raises MicaError."""
    if args.wifi_password_file:
        return first_line(args.wifi_password_file)
    if args.wifi_password is not None:
        say("warning: other users see --wifi-password in the list of processes; take --wifi-password-file")
        return str(args.wifi_password)
    return asked_for(f"password of {args.wifi} (none: Enter)")


def leave(args: argparse.Namespace) -> int:
    site = read_site(args.fleet)
    names = list(dict.fromkeys(b.strip() for b in args.boards.split(",")))
    departure.leave(site, names, say)
    if args.json:
        text.emit_json({"boards": names})
    else:
        print(f"{', '.join(names)} left {site.fleet}")
    return 0


def _run_members(args: argparse.Namespace, site: Site, names: dict[str, str], models: dict[str, bytes]) -> int:
    emulated = emulated_boards()
    images = {one: firmware(emulated[one], say) for one in dict.fromkeys(names.values())}
    over = _orphaned()
    _enter(site, list(names), models)
    await_entry(site, list(names))
    with contextlib.ExitStack() as stack:
        for name, one in names.items():
            member = Member(emulated[one], images[one], site.board_settings(name), models, say)
            stack.callback(member.close)
        if args.json:
            text.emit_json({"boards": list(names)})
        else:
            print(f"{', '.join(names)} joined {site.fleet}", flush=True)
        sys.stdout.flush()
        say("they run here until Ctrl-C")
        while not over():
            time.sleep(0.2)
    return 0


def _orphaned() -> Any:
    """A function that is true once the parent process has ended: then nobody can press Ctrl-C."""
    parent = os.getppid()
    return lambda: os.getppid() != parent


def ls(args: argparse.Namespace) -> int:
    site = read_site(args.fleet)
    inventory = Inventory(site)
    try:
        while True:
            rows = inventory.look()
            if args.json:
                text.emit_json({"fleet": site.fleet, "broker": site.where, "boards": rows})
            else:
                print(
                    _table(rows)
                    if rows
                    else f"no board has joined {site.fleet}: mica fleet join {args.fleet} --on UNIX*3"
                )
            if not args.watch:
                return 0
            sys.stdout.flush()
            time.sleep(1.5)
    finally:
        inventory.close()


def _table(rows: list[dict[str, Any]]) -> str:
    cells = [
        (
            r["board"],
            r["problem"] or r["state"],
            r["core"],
            r["mica"],
            ", ".join(f"{path} {crc}" for path, crc in r["models"].items()) or "-",
            "-" if r["session"] is None else r["session"],
            "-" if r["runs"] is None else r["runs"],
            "-" if r["errors"] is None else r["errors"],
            "-" if r["ms"] is None else f"{r['ms']:.0f}",
        )
        for r in rows
    ]
    table = text.table(
        ("board", "state", "core", "mica", "models", "session", "runs", "errors", "ms"), cells, "lllllrrrr"
    )
    if any(r["state"] == "not seen" and not r["problem"] for r in rows):
        table += f"\nnot seen: not since the broker started; a board that has power comes back within {_BACK_SECONDS} s"
    return table


def doctor(args: argparse.Namespace) -> int:
    findings = examine(read_site(args.fleet), args.seconds)
    if args.json:
        text.emit_json({"findings": [{"found": f.what, "ok": f.ok, "todo": f.todo} for f in findings]})
    else:
        for f in findings:
            print(f"{'ok' if f.ok else '!!'}  {f.what}{'; ' + f.todo if f.todo else ''}")
    return 0 if all(f.ok for f in findings) else 1


def push(args: argparse.Namespace) -> int:
    terms = _terms(args)
    models: dict[str, bytes] = {}
    for path in args.models:
        if models.setdefault(Path(path).name, data := target.read_model(path)) is not data:
            raise MicaError(f"{Path(path).name} is named twice")
        if not codec.decode(data).golden:
            say(f"{path} has no golden vectors: its trial is to load and run once (mica pack --golden 4 makes some)")
    boards = [b.strip() for b in args.boards.split(",")] if args.boards else None
    with Fleet(read_site(args.fleet), say) as fleet:
        return _rolled_out(args, fleet, rollout.push(fleet, models, terms, say, boards))


def rollback(args: argparse.Namespace) -> int:
    terms = _terms(args)
    with Fleet(read_site(args.fleet), say) as fleet:
        return _rolled_out(args, fleet, rollout.rollback(fleet, terms, say))


def _rolled_out(args: argparse.Namespace, fleet: Fleet, outcome: Outcome) -> int:
    rows = [{"board": b, "state": str(s), "reason": printable(why)} for b, (s, why) in outcome.boards.items()]
    if args.json:
        about = {"fleet": fleet.site.fleet, "reason": outcome.reason, "seconds": outcome.seconds}
        text.emit_json(about | {"boards": rows})
    else:
        counts = Counter(row["state"] for row in rows)
        what = f"stopped: {outcome.reason}" if outcome.reason else "done"
        print(f"{what}; {', '.join(f'{n} {state}' for state, n in counts.items())}, in {outcome.seconds:.1f} s")
        for row in rows:
            if row["state"] == BoardState.LEFT_OUT:
                print(f"{row['board']} was left out: {row['reason']}")
    return 1 if outcome.reason or BoardState.LEFT_OUT in (row["state"] for row in rows) else 0


def _terms(args: argparse.Namespace) -> Terms:
    share = re.fullmatch(r"(\d+(?:\.\d+)?)%", args.abort)
    if share is None:
        raise MicaError(f"--abort {args.abort}", todo="expected such as 2%")
    span = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", args.timeout)
    if span is None:
        raise MicaError(f"--timeout {args.timeout}", todo="expected such as 90s, 15m or 2h")
    seconds = float(span[1]) * {"s": 1, "m": 60, "h": 3600}[span[2]]
    waves = tuple(w.strip() for w in args.waves.split(","))
    return Terms(waves, float(share[1]) / 100, args.min, seconds, args.retry, args.rate)


def evaluate(args: argparse.Namespace) -> int:
    data = evaluation.load(args.data, target.table_inputs(args.model, args.data)).first(args.samples)
    with _open(args) as runner, text.watch() as watch:
        result = accuracy.compare(data, runner, None, watch.progress, watch.warn)
    if args.json:
        text.emit_json(result)
    else:
        print(eval_command.report(result))
    return 0


def run(args: argparse.Namespace) -> int:
    x = decode(read_arrays(args.data, target.table_inputs(args.model, args.data)), args.data)
    with _open(args) as runner:
        t = runner.model.tensors[runner.model.inputs[0]]
        x = fit_any(t.name, x, t.dims, f"{args.data}: ")
        if not len(x) or given.odd(x, evaluation.MISSING in runner.model.metadata):
            raise MicaError(f"{args.data}: {'holds NaN or infinity' if len(x) else 'holds no samples'}")
        for line in given.saturating(runner.model, [x]):
            say(f"warning: {line}")
        begun = time.monotonic()
        y = runner.predict(x)
        seconds = time.monotonic() - begun
    if args.output:
        with writing(args.output), open(args.output, "wb") as f:
            np.save(f, y)
    if args.json:
        text.emit_json({"target": runner.target, "samples": len(y), "seconds": seconds, "output": args.output})
    else:
        print(
            f"{len(y)} answers in {seconds:.1f} s, {len(y) / seconds:.0f} a "
            f"second{', in ' + args.output if args.output else ''}"
        )
    return 0


def _open(args: argparse.Namespace) -> FleetRunner:
    read_site(args.fleet)  # its errors first
    data, *others = target.read_parts(args.model)
    journal = None
    if args.journal:
        with reading(args.data):
            about = {
                "model": zlib.crc32(b"".join(sorted([data, *others]))),
                "data": zlib.crc32(Path(args.data).read_bytes()),
            }
        journal = Journal(Path(args.journal), about | {"samples": getattr(args, "samples", None)})
        if journal.answers:
            say(f"{len(journal.answers)} answers are in {args.journal} already")
    try:
        return open_fleet(data, f"fleet:{args.fleet}", say, journal=journal, others=others)
    except BaseException:
        if journal is not None:
            journal.close()
        raise
