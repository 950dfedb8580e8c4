"""A child that ends, or does not end, in the way its first argument says."""

import os
import signal
import subprocess
import sys
import time

way = sys.argv[1]
print("way:", way, flush=True)
if way == "exit":
    sys.exit(int(sys.argv[2]))
if way == "signal":
    os.kill(os.getpid(), int(sys.argv[2]))
if way == "ignore-term":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if way == "grandchild":
    grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print("grandchild:", grandchild.pid, flush=True)
    sys.exit(0)
if way == "daemon":  # in another session, and without the variable by which it could be found
    daemon = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], env={}, start_new_session=True
    )
    print("daemon:", daemon.pid, flush=True)
    sys.exit(0)
if way == "lines":
    for number in range(int(sys.argv[2])):
        print("line", number)
    sys.exit(0)
print("ready", flush=True)
time.sleep(600)
