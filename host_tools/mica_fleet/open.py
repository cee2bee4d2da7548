"""A fleet by what people call it.

usb:all                                 every MicroPython board that is plugged in
fleet:UNIX*3,MPS2_AN385,/dev/ttyACM0    these targets, each as `--on` takes it;
                                        *n for an emulated one that is started n times
fleet:plant                             the boards behind a broker that plant.toml names (`mica fleet init`)
fleet:plant,/dev/ttyACM0                those, and these targets
"""

import re
from collections.abc import Callable, Sequence
from functools import partial

from mica.boards import emulated_boards
from mica.custom import NO_CUSTOM, CustomOps
from mica.errors import MicaError
from mica.link.board import Say
from mica.link.ports import usb_ports
from mica.link.targets import check_target
from mica.run.host import open_runner
from mica.toolchain.build import build
from mica.toolchain.cache import quiet
from mica_fleet.coordinator import FleetRunner
from mica_fleet.dispatch import Settings
from mica_fleet.journal import Journal
from mica_fleet.links import Events, Link, RunnerLink
from mica_fleet.mqtt_link import MqttLink
from mica_fleet.site import Site, is_site, path_of, read_site

_MOST = 64  # boards that one command starts


def is_fleet(target: str) -> bool:
    return target.startswith(("fleet:", "usb:"))


def targets_of(target: str) -> dict[str, str]:
    """The fleet's boards: name -> target. Raises MicaError where there are none, or a target can only fail."""
    kind, _, listed = target.partition(":")
    if kind == "usb":
        if listed != "all":
            raise MicaError(
                f"{target!r}: expected usb:all, or fleet: with the ports, such as fleet:/dev/ttyACM0,/dev/ttyACM1"
            )
        ports = usb_ports()
        if not ports:
            raise MicaError("usb:all: no board is plugged in", todo="mica doctor says what it sees")
        return {port: port for port in ports}
    found: dict[str, str] = {}
    for word in filter(None, (w.strip() for w in listed.split(","))):
        match = re.fullmatch(r"(.+?)(?:\*(\d+))?", word)
        assert match is not None
        name, times = match[1], int(match[2] or 1)
        if not 1 <= times <= _MOST:
            raise MicaError(f"{word}: expected *1 to *{_MOST}")
        if times > 1 and name not in emulated_boards() and name != "host":
            raise MicaError(f"{word}: {name} is one board", todo="*n starts an emulated one n times")
        if name != "host":
            try:
                check_target(name)
            except MicaError as e:
                if re.fullmatch(r"[\w.-]+", listed):
                    raise e.then(f"and there is no {path_of(listed)} here, which `mica fleet init` makes") from None
                raise
        for i in range(times):
            label = f"{name}#{i + 1}" if times > 1 else name
            if label in found:
                raise MicaError(f"{target}: {label} is named twice", todo=f"{name}*2 starts it twice")
            found[label] = name
    if not found:
        raise MicaError(f"{target!r} names no board", todo="expected such as fleet:UNIX*3,MPS2_AN385")
    if len(found) > _MOST:
        raise MicaError(f"{len(found)} boards", todo=f"one command drives {_MOST} at most")
    return found


def open_fleet(
    data: bytes,
    target: str,
    say: Say | None = None,
    settings: Settings | None = None,
    custom: CustomOps = NO_CUSTOM,
    journal: Journal | None = None,
    others: Sequence[bytes] = (),
) -> FleetRunner:
    """The model on all boards of a fleet; custom: operators of the user's own;
    others: the other parts of a model that was cut. Raises MicaError;
    a board that fails later is the fleet's to get over."""
    open_links = links_of([data, *others], target, say, custom, spread=True)
    return FleetRunner(data, target, open_links, say, settings, custom, journal, others)


def links_of(
    models: Sequence[bytes],
    target: str,
    say: Say | None = None,
    custom: CustomOps = NO_CUSTOM,
    spread: bool = False,
) -> Callable[[Events], Sequence[Link]]:
    """Return a function that links to the fleet's boards. Boards without a broker take one model each: the only one,
    or, with `spread`, in turn. Raises MicaError."""
    site, target = _site_in(target)
    if site is not None and not target:
        return lambda events: [MqttLink(site, events)]
    boards = targets_of(target)
    if site is not None and (both := set(boards) & set(site.boards)):
        raise MicaError(f"{', '.join(sorted(both))} is a board of {site.fleet}, too", todo="give one another name")
    if spread and site is None and len(models) > len(boards):
        raise MicaError(f"{target}: {len(boards)} boards for {len(models)} parts", todo="each part needs one")
    if len(models) != 1 and not spread:
        raise MicaError(f"{target}: {len(models)} models", todo="boards without a broker take one; see mica fleet init")
    known = emulated_boards()
    for one in dict.fromkeys(boards.values()):
        if one in known:  # once for all of them, before anybody waits for an answer
            build(known[one], progress=say or quiet)

    def links(events: Events) -> Sequence[Link]:
        behind: list[Link] = [] if site is None else [MqttLink(site, events)]
        return behind + [
            RunnerLink(name, partial(open_runner, models[k % len(models)], one, custom=custom), events, machine=one)
            for k, (name, one) in enumerate(boards.items())
        ]

    return links


def _site_in(target: str) -> tuple[Site | None, str]:
    """The fleet with a broker that a target names, if there is one, and the target without it ("" where that is all).
    Raises MicaError."""
    kind, _, listed = target.partition(":")
    if kind != "fleet":
        return None, target
    if is_site(listed):
        return read_site(listed), ""
    words = [w.strip() for w in listed.split(",")]
    sites = [w for w in words if w and is_site(w)]
    if not sites:
        return None, target
    if len(sites) > 1:
        raise MicaError(f"{target}: {', '.join(sites)} are fleets, each with a broker", todo="name one of them")
    return read_site(sites[0]), "fleet:" + ",".join(w for w in words if w != sites[0])
