"""Metrics of a server for Prometheus, in its text format 0.0.4."""

import threading
from collections import Counter
from collections.abc import Mapping

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def _labels(**labels: str) -> str:
    quoted = (
        f'{k}="{v.translate({92: chr(92) * 2, 34: chr(92) + chr(34), 10: chr(92) + "n"})}"' for k, v in labels.items()
    )
    return "{" + ",".join(quoted) + "}"


class Metrics:
    """Counts of one server; any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, str]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()

    def request(self, model: str, board: str, status: str, seconds: float) -> None:
        """One sample: `board` is "" where none has answered."""
        with self._lock:
            self._requests[model, board, status] += 1
            buckets = self._buckets.setdefault(model, [0] * (len(_SECONDS) + 1))
            for i, most in enumerate((*_SECONDS, float("inf"))):
                buckets[i] += seconds <= most
            self._sums[model] += seconds  # type: ignore[assignment]

    def text(self, boards: Mapping[str, str], counts: Mapping[str, int]) -> str:
        """`boards` and `counts`: the dispatcher's."""
        with self._lock:
            lines = ["# HELP mica_requests_total Samples, by who answered.", "# TYPE mica_requests_total counter"]
            for (model, board, status), n in sorted(self._requests.items()):
                lines.append(f"mica_requests_total{_labels(model=model, board=board, status=status)} {n}")
            lines += [
                "# HELP mica_request_seconds From a request's arrival to its answer.",
                "# TYPE mica_request_seconds histogram",
            ]
            for model, buckets in sorted(self._buckets.items()):
                for most, n in zip((*map(str, _SECONDS), "+Inf"), buckets, strict=True):
                    lines.append(f"mica_request_seconds_bucket{_labels(model=model, le=most)} {n}")
                lines.append(f"mica_request_seconds_sum{_labels(model=model)} {self._sums[model]}")
                lines.append(f"mica_request_seconds_count{_labels(model=model)} {buckets[-1]}")
        lines += ["# HELP mica_board_up Whether a board is at work.", "# TYPE mica_board_up gauge"]
        for board, state in sorted(boards.items()):
            lines.append(f"mica_board_up{_labels(board=board)} {int(state in ('up', 'suspect'))}")
        for name, key, what in (
            ("mica_reissued_total", "asked_again", "Requests that were asked again."),
            ("mica_audits_total", "audits", "Answers that the host computed again."),
            ("mica_audit_failures_total", "quarantined", "Boards that answered wrongly."),
            ("mica_unasked_total", "unasked", "Answers of boards that were not asked, which count for nothing."),
            ("mica_boards_lost_total", "lost_boards", "Boards that went away."),
        ):
            lines += [f"# HELP {name} {what}", f"# TYPE {name} counter", f"{name} {counts.get(key, 0)}"]
        return "\n".join(lines) + "\n"
