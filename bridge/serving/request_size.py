"""Sizes of requests to a model process, by which each one is answered within about a second. Pure.

A chunk may have 64,000 rows. As one request it would take 18 hours with a model that needs a second
for a row, and a failure would lose all of its predictions.
"""

_TARGET_S = 1.0
# A request may take as long as so many of the fastest ones. With fewer rows than that, most of its
# time would be the cost that a model has for each call.
_LATENCIES = 3
_GROWTH = 4
# An answer counts less with each further one. The weight is high, because a model that computes
# requests side by side answers in bursts.
_OLDER = 0.75


class RequestSize:
    """Learns from the answers of one model: a request has `least` rows at first, and more while
    that is fast enough.

    A model may need ten seconds for a call of any size, for example on a busy accelerator. The
    limit of time then follows the fastest requests, because smaller ones would not be answered
    sooner.
    """

    def __init__(self, least: int) -> None:
        self.rows = self._least = least
        self._seen_rows = self._seen_s = self._answers = 0.0
        self._fastest_s = float("inf")

    def note(self, rows: int, seconds: float) -> None:
        """Adjust `rows` to a request of so many rows, and the time from the previous answer to its
        own.
        """
        self._seen_rows = _OLDER * self._seen_rows + rows
        self._seen_s = _OLDER * self._seen_s + seconds
        self._answers = _OLDER * self._answers + 1
        self._fastest_s = min(self._fastest_s, self._seen_s / self._answers)
        limit_s = max(_TARGET_S, _LATENCIES * self._fastest_s)
        fits = limit_s * self._seen_rows // max(self._seen_s, 1e-9)
        # A short request, such as the end of a chunk, shows too little about long ones to grow by
        # it.
        batches = int(min(fits, max(self.rows, _GROWTH * rows))) // self._least
        self.rows = max(1, batches) * self._least
