"""For all tests of hwmatrix."""

from __future__ import annotations

import signal

# A shell starts background jobs with SIGINT ignored, and nohup ignores SIGHUP; both would pass on
# to every process that a test starts, and hwmatrix leaves ignored signals ignored.
for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(
            _number,
            signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL,
        )
