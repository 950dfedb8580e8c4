"""The settings of a group of TensorFlow processes, which travel with the Flink job.

They are made and checked once, in the driver, and passed as one frozen object to the graph, the
functions and the processes of the members. So a new setting needs no argument on the way.
"""

from __future__ import annotations

import math
import re
import secrets
from dataclasses import dataclass, field

from bridge.schema import Schema, quoted

OFF, PAD, REPEAT, DROP = EQUAL_STEP_MODES = "off", "pad", "repeat", "drop"
UNTAKEN, UNCOMMITTED = REPLAYS = "untaken", "uncommitted"
# Flink writes uncommitted rows with each checkpoint, and keeps them in memory or in RocksDB.
MAX_UNCOMMITTED = 256 << 20
DRAIN, FAIL, RESTART = ON_RETURNS = "drain", "fail", "restart"
CHUNK_BYTES = 1 << 20
# Keys are chosen for this number of key groups, so all keyed operators are set to it. Groups with
# more members have as many key groups as members.
MAX_PARALLELISM = 128


@dataclass(frozen=True)
class Gathering:
    """Limits of a chunk; a single row may have more bytes than `bytes`. With `by_row`, receivers
    get rows in turn.
    """

    rows: int = 1 << 16
    # A factory reads the constant when an object is made, so that tests and benchmarks can set it.
    bytes: int = field(default_factory=lambda: CHUNK_BYTES)
    wait_s: float = 1.0
    by_row: bool = False

    @property
    def wait_ms(self) -> int:
        """At least 1, or 0 where nothing limits the wait."""
        return math.ceil(self.wait_s * 1000)


@dataclass(frozen=True)
class UserFile:
    """A user's file as of the time when the job was built; the job carries it to every host."""

    # The path is relative to the work folder of a process.
    path: str
    # The script of a function contains values of the program, so its text is not shown.
    content: bytes = field(repr=False)
    # A large file is not in `content`. This is its path on the driver's host, see
    # `bridge.host.shipped`.
    shipped: str = ""


@dataclass(frozen=True)
class PythonArchive:
    """A Python environment in an archive, which each host unpacks while processes use it."""

    # The path is that on the driver's host. Other hosts use its name, see `bridge.host.shipped`.
    path: str
    sha256: str
    origin: str


# Certificates have this name, because the host names of a cluster are not known beforehand.
TLS_NAME = "akdl-group"


@dataclass(frozen=True)
class Certificate:
    """A key and its self-signed certificate, as PEM. Members of a group share both."""

    key: bytes = field(repr=False)
    certificate: bytes = field(repr=False)


@dataclass(frozen=True)
class GroupSettings:
    """Settings of the processes of one operator.

    Values that may hold a password are left out of the object's text, which may reach a log.
    """

    operator: str
    kind: str
    num_workers: int
    num_ps: int
    input_schema: Schema
    output_schema: Schema
    main_script: str
    user_files: tuple[UserFile, ...]  # the main script among them
    extra_schemas: tuple[Schema, ...] = ()
    chief_coordinates: bool = False  # the chief gets no rows, and the group ends with its script
    user_params: str = field(default="{}", repr=False)  # may hold a password
    # None means the interpreter that runs Flink's Python functions.
    python: str | PythonArchive | None = None
    # "NAME" passes the host's value, and "NAME=value" sets another one.
    env_vars: tuple[str, ...] = field(default=(), repr=False)
    intra_op_parallelism: int = 4
    # The script reads its rows once, so they are not stored on disk.
    read_once: bool = False
    # An Example has no 64-bit floats. With this, DOUBLE columns become a bytes feature of 8 bytes
    # instead of float32.
    exact_doubles: bool = False
    print_process_info: bool = False
    equal_steps: str = OFF
    # PAD adds rows to a share, and gives them the weight 0 in this column.
    weight_column: str | None = None
    # With this seed, groups of rows in files are dealt in a random order.
    shuffle_parts: int | None = None
    # An elastic training sets this, because its next job may have another number of workers.
    least_workers: int | None = None
    # With this, the number of workers was not set, the workers do not train together, and only the
    # chief's model is used.
    trains_apart: bool = False
    # A host with several addresses announces the one in this network, such as "10.1.0.0/16".
    host_network: str | None = None
    gpus_per_worker: int | None = None  # None for one if one is free
    checkpoint_dir: str | None = field(default=None, repr=False)  # an address may hold a password
    certificate: Certificate | None = None
    model_dir: str | None = field(default=None, repr=False)  # an address may hold a password
    log_dir: str | None = field(default=None, repr=False)
    # A script that fails leaves its last rows in log_dir, for `akdl replay`.
    keep_failed_rows: bool = False
    tmp_dirs: str = ""  # Flink's `io.tmp.dirs` for a local job; on clusters, hosts have their own
    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    watermark: tuple[str, str] | None = None  # column of a stream's output, and SQL expression
    # The checkpoints of a stream store these rows.
    replay: str = UNTAKEN
    # After so many bytes of uncommitted rows a process gets no more rows. A larger state of a
    # script cannot be saved.
    max_uncommitted: int = MAX_UNCOMMITTED
    save_every_s: float = 10.0  # between saves of a script's state
    publish_dir: str | None = None  # for models of what the script has learnt
    publish_every_s: float = 60.0
    # Only published models name event times, so this is empty in other streams.
    time_column: str = ""
    on_return: str = DRAIN  # treatment of a stream's rows after the script has returned
    chunk_rows: int = 8000
    chunk_wait_s: float = 0.01
    start_timeout_s: float = 300.0  # until all processes of the group have connected
    stall_timeout_s: float = 1800.0  # without progress of the group; 0 for no limit
    stop_timeout_s: float = 10.0
    # A dozen chunks hide the latency of a call, and are small compared with other memory.
    queue_bytes: int = 16 << 20
    log_lines: int = 100
    log_file_size: int = 100 << 20
    log_file_count: int | None = None  # None for Flink's own number

    @property
    def shipped(self) -> list[str]:
        """Paths of files that are too large for the job, and travel by Flink's own distribution."""
        files = [file.shipped for file in self.user_files if file.shipped]
        return files + ([self.python.path] if isinstance(self.python, PythonArchive) else [])

    @property
    def carries_event_time(self) -> bool:
        """True where the watermarks of the input become the watermarks of the output."""
        return (
            self.watermark is not None
            and re.sub(r"\s+", "", self.watermark[1]).upper() == "SOURCE_WATERMARK()"
        )

    @property
    def size(self) -> int:
        return self.num_workers + self.num_ps

    @property
    def fed(self) -> range:
        """Members that get rows: all workers, but for a chief that coordinates them."""
        return range(1 if self.chief_coordinates else 0, self.num_workers)

    @property
    def deciding(self) -> range:
        """Members whose scripts decide when the group is done; the others serve them until then,
        and are stopped.
        """
        return range(1 if self.chief_coordinates else self.num_workers)

    @property
    def script_schema(self) -> Schema:
        """Columns that the script gets: the input, and the weights of padded rows."""
        if self.weight_column is None or self.weight_column in self.input_schema.names:
            return self.input_schema
        return Schema(
            (*self.input_schema, *Schema.parse(f"{quoted(self.weight_column)} FLOAT NOT NULL"))
        )
