"""Everything that one group of TensorFlow processes is told, as one frozen value that travels with the Flink job."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field

from bridge.schema import Schema, quoted

OFF, PAD, REPEAT, DROP = "off", "pad", "repeat", "drop"
EQUAL_STEP_MODES = (OFF, PAD, REPEAT, DROP)
UNTAKEN, UNCOMMITTED = "untaken", "uncommitted"
REPLAYS = (UNTAKEN, UNCOMMITTED)
MAX_UNCOMMITTED = 256 << 20  # Flink writes them with each checkpoint, and keeps them in memory or in RocksDB
DRAIN, FAIL, RESTART = "drain", "fail", "restart"
ON_RETURNS = (DRAIN, FAIL, RESTART)


@dataclass(frozen=True)
class UserFile:
    """A user's file as it was when the job was built; it reaches every host with the job.

    Args:
        path: Path relative to the folder of user files in the work directory.
        carried: Path of a large file on the driver's host, see `bridge.host.shipped`; else empty.
    """

    path: str
    content: bytes = field(repr=False)  # a script made of a function has its values
    carried: str = ""


@dataclass(frozen=True)
class PythonArchive:
    """A Python environment in an archive, which each host unpacks for as long as processes use it.

    Args:
        path: The archive on the driver's host; on others its name counts, see `bridge.host.shipped`.
    """

    path: str
    sha256: str
    origin: str


TLS_NAME = "akdl-group"  # that certificates are for: hosts of a cluster have names that nobody knows beforehand


@dataclass(frozen=True)
class Certificate:
    """A key, and the certificate that it has signed for itself, as PEM; whoever has the key belongs to the group."""

    key: bytes = field(repr=False)
    certificate: bytes = field(repr=False)


@dataclass(frozen=True)
class GroupSettings:
    """What one operator's group of TensorFlow processes needs to know.

    Args:
        chief_coordinates: The chief gets no rows, and the group ends with it; the other workers serve it.
        input_schema: Columns of the table that reach the script, in order.
        extra_schemas: Columns of each extra input, which every process gets whole.
        user_files: All files of the user, the main script among them.
        python: Interpreter for the TensorFlow processes, or an archive with one; None stands for the interpreter that runs
            Flink's Python functions.
        env_vars: Variables that the processes get besides the ones that are always passed on. "NAME" passes the host's value
            on, "NAME=value" sets another value.
        read_once: The script reads its rows once, so they are not kept on disk.
        exact_doubles: DOUBLE columns keep all 8 bytes, as a bytes feature, instead of becoming float32.
        equal_steps: How shares of different size are made equal: "off", "pad", "repeat" or "drop", see `group.equal_steps`.
        weight_column: Name of the feature that is 0 in rows that only fill up a share; None unless equal_steps is "pad".
        trains_apart: Workers that nobody asked for train each on its share, and only the chief's model stays.
        host_network: Network, such as "10.1.0.0/16", in which each host's address is looked for; None for any.
        gpus_per_worker: GPUs that each worker leases; None stands for one where one is free.
        checkpoint_dir: Where the script keeps checkpoints: a local path or an address; None for nowhere.
        certificate: What the group's line is encrypted with; None for no encryption.
        model_dir: Where the chief writes the model of a training, so that its table only names it: a local path or an address;
            None for a table that carries the model.
        log_dir: Where the script may log for TensorBoard: a local path or an address; None for nowhere.
        tmp_dirs: Flink's `io.tmp.dirs` where the job runs in the program itself; on clusters, hosts have their own.
        token: The secret by which members of the group know each other.
        watermark: Column of a stream's output that is its event time, and the SQL expression of its watermark.
        replay: Rows that checkpoints of a stream keep: rows that the script has not taken, or rows that it has not committed.
        max_uncommitted: With replay "uncommitted": bytes of rows without a commit after which a process gets no more rows.
        on_return: What becomes of rows of a stream after the script has returned: drop them, fail, or start it again.
        chunk_rows: How many rows of a stream travel together at most.
        chunk_wait_s: How long rows of a stream may wait for others to travel with.
        start_timeout_s: How long the group may take from the start of a process until all have connected.
        stall_timeout_s: How long the group may go without progress; 0 sets no limit.
        stop_timeout_s: How long a process may take to end after it was asked to, before it is killed.
        queue_bytes: How many bytes of rows may wait for one process on either way before the sender has to wait.
        log_lines: How many of the last lines a process printed are kept for its error.
        log_file_bytes: Size at which the log file of a process is full, and a new one is begun.
        log_files: How many log files of a process are kept; None for as many as Flink keeps of its own.
    """

    operator: str
    kind: str
    num_workers: int
    num_ps: int
    input_schema: Schema
    output_schema: Schema
    main_script: str
    user_files: tuple[UserFile, ...]
    extra_schemas: tuple[Schema, ...] = ()
    chief_coordinates: bool = False
    user_params: str = field(default="{}", repr=False)  # may hold a password
    python: str | PythonArchive | None = None
    env_vars: tuple[str, ...] = field(default=(), repr=False)
    intra_op_parallelism: int = 4
    read_once: bool = False
    exact_doubles: bool = False
    print_process_info: bool = False
    equal_steps: str = "off"
    weight_column: str | None = None
    trains_apart: bool = False
    host_network: str | None = None
    gpus_per_worker: int | None = None
    checkpoint_dir: str | None = field(default=None, repr=False)  # an address may hold a password
    certificate: Certificate | None = None
    model_dir: str | None = field(default=None, repr=False)  # an address may hold a password
    log_dir: str | None = field(default=None, repr=False)
    tmp_dirs: str = ""
    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    watermark: tuple[str, str] | None = None
    replay: str = UNTAKEN
    max_uncommitted: int = MAX_UNCOMMITTED
    on_return: str = DRAIN
    chunk_rows: int = 8000
    chunk_wait_s: float = 0.01
    start_timeout_s: float = 300.0
    stall_timeout_s: float = 600.0
    stop_timeout_s: float = 10.0
    queue_bytes: int = 16 << 20  # a dozen chunks: enough to hide the latency of one call, too little to matter in memory
    log_lines: int = 100
    log_file_bytes: int = 100 << 20
    log_files: int | None = None

    @property
    def carried(self) -> list[str]:
        """Files of the driver's host that the job has to take along."""
        files = [file.carried for file in self.user_files if file.carried]
        return files + ([self.python.path] if isinstance(self.python, PythonArchive) else [])

    @property
    def carries_event_time(self) -> bool:
        """Whether the watermarks of the input are those of the output."""
        return self.watermark is not None and re.sub(r"\s+", "", self.watermark[1]).upper() == "SOURCE_WATERMARK()"

    @property
    def size(self) -> int:
        """Number of processes in the group."""
        return self.num_workers + self.num_ps

    @property
    def fed(self) -> range:
        """Members that get rows."""
        return range(1 if self.chief_coordinates else 0, self.num_workers)

    @property
    def deciding(self) -> range:
        """Members whose scripts decide when the group is done; the others serve these until then, and are stopped."""
        return range(1 if self.chief_coordinates else self.num_workers)

    @property
    def script_schema(self) -> Schema:
        """Columns that the script finds in its rows."""
        if self.weight_column is None or self.weight_column in self.input_schema.names:
            return self.input_schema
        return Schema((*self.input_schema, *Schema.parse(f"{quoted(self.weight_column)} FLOAT NOT NULL")))
