"""The settings of a group of TensorFlow processes, which travel with the Flink job."""

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
    """A user's file as of the time when the job was built; the job carries it to every host.

    Args:
        path: Path relative to the folder of user files in the work directory.
        shipped: Path of a large file on the driver's host, see `bridge.host.shipped`; else empty.
    """

    path: str
    content: bytes = field(repr=False)  # the script of a function contains the function's values
    shipped: str = ""


@dataclass(frozen=True)
class PythonArchive:
    """A Python environment in an archive, which each host unpacks while processes use it.

    Args:
        path: The archive on the driver's host; other hosts use its name, see `bridge.host.shipped`.
    """

    path: str
    sha256: str
    origin: str


TLS_NAME = "akdl-group"  # the name in certificates: host names of a cluster are not known beforehand


@dataclass(frozen=True)
class Certificate:
    """A key and its self-signed certificate, as PEM. Members of a group share both."""

    key: bytes = field(repr=False)
    certificate: bytes = field(repr=False)


@dataclass(frozen=True)
class GroupSettings:
    """The settings of one operator's group of TensorFlow processes.

    Args:
        chief_coordinates: The chief gets no rows, and the group ends with its script; the other workers serve it.
        input_schema: Columns of the table that reach the script, in order.
        extra_schemas: Columns of each extra input; every process gets all its rows.
        user_files: All files of the user, the main script among them.
        python: Interpreter for the TensorFlow processes, or an archive with one; None stands for the interpreter that runs
            Flink's Python functions.
        env_vars: Variables of the processes, in addition to the standard ones. "NAME" passes the host's value,
            "NAME=value" sets another value.
        read_once: The script reads its rows once, so they are not stored on disk.
        exact_doubles: DOUBLE columns become a bytes feature of all 8 bytes instead of float32.
        equal_steps: "off", "pad", "repeat" or "drop", see `bridge.group.equal_steps`.
        weight_column: Feature with weight 0 in rows added by equal_steps "pad"; else None.
        trains_apart: The number of workers was not set, each trains on its share, and only the chief's model is kept.
        host_network: Network of each host's address, such as "10.1.0.0/16"; None for any.
        gpus_per_worker: GPUs that each worker leases; None for one if one is free.
        checkpoint_dir: Local path or address of the script's checkpoints; None for no checkpoints.
        certificate: Certificate that encrypts the group's channel; None for no encryption.
        model_dir: Local path or address to which the chief writes the model; None for a table that contains the model.
        log_dir: Local path or address of logs for TensorBoard; None for no logs.
        tmp_dirs: Flink's `io.tmp.dirs` for a job in the program itself; on clusters, hosts have their own.
        token: The secret that members of the group share.
        watermark: Column of a stream's output that is its event time, and the SQL expression of its watermark.
        replay: Rows that checkpoints of a stream store: rows that the script has not taken, or has not committed.
        max_uncommitted: With replay "uncommitted", bytes of uncommitted rows after which a process gets no more rows.
        on_return: Treatment of rows of a stream after the script has returned: drop them, fail, or start the script again.
        chunk_rows: Most rows of a stream in one chunk.
        chunk_wait_s: Longest time that a row of a stream waits for its chunk to fill.
        start_timeout_s: Time limit from the start of a process until all processes of the group have connected.
        stall_timeout_s: Time limit of the group without progress; 0 for no limit.
        stop_timeout_s: Time that a process has to exit before it is killed.
        queue_bytes: Bytes of rows that may be queued for one process in each direction before the sender waits.
        log_lines: Number of last printed lines that an error contains.
        log_file_bytes: Size at which a new log file of a process is started.
        log_files: Number of log files of a process; None for Flink's own number.
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
    queue_bytes: int = 16 << 20  # a dozen chunks hide the latency of a call, and are small compared with other memory
    log_lines: int = 100
    log_file_bytes: int = 100 << 20
    log_files: int | None = None

    @property
    def shipped(self) -> list[str]:
        """Paths of files on the driver's host that are shipped with the job."""
        files = [file.shipped for file in self.user_files if file.shipped]
        return files + ([self.python.path] if isinstance(self.python, PythonArchive) else [])

    @property
    def carries_event_time(self) -> bool:
        """The watermarks of the input are those of the output."""
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
        """Members whose scripts decide when the group is done; the others serve them until then, and are stopped."""
        return range(1 if self.chief_coordinates else self.num_workers)

    @property
    def script_schema(self) -> Schema:
        """Columns of the rows that the script reads."""
        if self.weight_column is None or self.weight_column in self.input_schema.names:
            return self.input_schema
        return Schema((*self.input_schema, *Schema.parse(f"{quoted(self.weight_column)} FLOAT NOT NULL")))
