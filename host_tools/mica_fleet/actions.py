"""Actions that dispatch.py asks of its caller, and the settings by which it decides."""

from dataclasses import dataclass

from mica.errors import MicaError
from mica_fleet.wire import Key, Request


@dataclass(frozen=True)
class Send:
    board: str
    request: Request


@dataclass(frozen=True)
class Done:
    """The answer of a request. `board` is "host" where an audit has replaced a wrong one."""

    key: Key
    outputs: bytes
    board: str


@dataclass(frozen=True)
class Withdrawn:
    """The last Done of this request is void: its board gives wrong answers. Another Done follows."""

    key: Key


@dataclass(frozen=True)
class Failed:
    """The request is given up; `reason` is for people."""

    key: Key
    reason: str


@dataclass(frozen=True)
class Audit:
    """Compute this on the host, and call `audited` with the outputs."""

    key: Key
    model: int
    inputs: bytes


@dataclass(frozen=True)
class Quarantined:
    board: str
    asked_again: int  # its answers that nobody had audited


Action = Send | Done | Withdrawn | Failed | Audit | Quarantined


@dataclass(frozen=True)
class Settings:
    """Seconds, and counts. `audit` is the share of answers that the host computes again."""

    credit: int = 2
    least_lease: float = 0.5
    lease_of_expected: float = 4.0  # times the seconds that the caller expects
    lease_of_p99: float = 3.0  # times the 99th percentile of what was measured
    hedge_of_p99: float = 1.5
    audit: float = 0.01
    first_audits: int = 3  # of each board, whatever `audit` says
    late_leases: int = 3  # until a board is suspect, and gets one request at a time
    deaths: int = 3  # boards lost while they worked on one request: it is set aside
    most_deaths: int = 8  # for each board lost on something else meanwhile one more is allowed, up to so many
    failures: int = 3  # answers that say FAILED or BAD_REQUEST
    busy_seconds: float = 0.05  # until a board that was busy is asked again

    def __post_init__(self) -> None:
        if self.credit < 1 or not 0 <= self.audit <= 1:
            raise MicaError(f"credit {self.credit}, audit {self.audit}: expected 1 or more, and a share from 0 to 1")
