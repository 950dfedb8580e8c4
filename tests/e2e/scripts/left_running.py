"""A program that ends while its stream runs on two workers. Its last line tells what Python's other
threads do then.
"""

import atexit
import sys
from itertools import chain
from traceback import walk_stack


@atexit.register  # the first, and so the last to be called
def _show_what_runs() -> None:
    frames = chain.from_iterable(walk_stack(frame) for frame in sys._current_frames().values())
    of_workers = {
        frame.f_code.co_name
        for frame, _ in frames
        if frame.f_globals["__name__"].endswith(".sdk_worker")
    }
    print("at work:", sorted(of_workers & {"process_bundle", "run"}))


from operators import useLocalEnv  # noqa: E402  after the registration
from tests.e2e.streams import counting, stream_op  # noqa: E402

environments = useLocalEnv(2)
stream = counting(environments.stenv, 1_000_000, per_second=100)
rows = stream.link(stream_op("without_tensorflow.py", 2)).getOutputTable().execute().collect()
for row in (next(rows) for _ in range(10)):
    print(row[1])
