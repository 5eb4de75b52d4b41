"""Counters of this process, in the text format of OpenMetrics."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from typing import Final, final

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@final
class Metrics:
    """Counts requests and answers. Its methods may be called from any thread.

    Example:
        >>> metrics = Metrics()
        >>> metrics.request("/v1/answers", 200, 0.02)
        >>> print(metrics.text({"ace_server_in_flight": 1}).splitlines()[1])
        ace_server_requests_total{route="/v1/answers",status="200"} 1
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}
        self._tokens: Counter[str] = Counter()
        self._cost = 0.0

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request.

        Args:
            route: The path of its route, without the values in it.
            status: The status of the response.
            seconds: How long it took.
        """
        with self._lock:
            self._requests[route, status] += 1
            buckets = self._buckets.setdefault(route, [0] * (len(_BUCKETS) + 1))
            buckets[bisect_left(_BUCKETS, seconds)] += 1
            self._seconds[route] = self._seconds.get(route, 0.0) + seconds

    def model(self, input_tokens: int, output_tokens: int, cost: float) -> None:
        """Count what an answer has used.

        Args:
            input_tokens: The tokens of the prompts.
            output_tokens: The tokens of the answers.
            cost: The cost in USD.
        """
        with self._lock:
            self._tokens["input"] += input_tokens
            self._tokens["output"] += output_tokens
            self._cost += cost

    def text(self, gauges: Mapping[str, float]) -> str:
        """Return all counters as text.

        Args:
            gauges: Further values of this moment, by name.
        """
        with self._lock:
            lines = ["# TYPE ace_server_requests counter"]
            lines += [
                f'ace_server_requests_total{{route="{route}",status="{status}"}} {count}'
                for (route, status), count in sorted(self._requests.items())
            ]
            lines.append("# TYPE ace_server_request_seconds histogram")
            for route, buckets in sorted(self._buckets.items()):
                lines += self._histogram(route, buckets)
            lines.append("# TYPE ace_server_tokens counter")
            lines += [
                f'ace_server_tokens_total{{kind="{kind}"}} {count}' for kind, count in sorted(self._tokens.items())
            ]
            lines += ["# TYPE ace_server_cost_usd counter", f"ace_server_cost_usd_total {self._cost:g}"]
        for name, value in gauges.items():
            lines += [f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join([*lines, "# EOF", ""])

    def _histogram(self, route: str, buckets: list[int]) -> list[str]:
        lines, total = [], 0
        for limit, count in zip((*_BUCKETS, "+Inf"), buckets, strict=True):
            total += count
            lines.append(f'ace_server_request_seconds_bucket{{route="{route}",le="{limit}"}} {total}')
        lines.append(f'ace_server_request_seconds_count{{route="{route}"}} {total}')
        lines.append(f'ace_server_request_seconds_sum{{route="{route}"}} {self._seconds[route]:g}')
        return lines
