"""Everything that one group of TensorFlow processes is told, as one frozen value that travels with the Flink job."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.schema import Schema


@dataclass(frozen=True)
class UserFile:
    """A user's file as it was when the job was built; the job carries its content to every host.

    Args:
        path: Path relative to the folder of user files in the work directory.
        content: The bytes of the file.
    """

    path: str
    content: bytes


@dataclass(frozen=True)
class GroupSettings:
    """What one operator's group of TensorFlow processes needs to know.

    Args:
        operator: Name of the operator, for messages.
        kind: Which task config `main` gets: "batch", "stream" or "train".
        num_workers: Processes that receive rows, at least 1.
        num_ps: Parameter servers, which receive none.
        input_schema: Columns that reach the script, in order.
        output_schema: Columns that come back, in order.
        main_script: `UserFile.path` of the script that defines `main`.
        user_files: All files of the user, the main script among them.
        user_params: JSON object as the user wrote it.
        python: Interpreter for the TensorFlow processes; None stands for the one that runs Flink's Python functions.
        intra_op_parallelism: Threads of one TensorFlow operation in one process.
        exact_doubles: DOUBLE columns keep all 8 bytes, as a bytes feature, instead of becoming float32.
        print_process_info: Show what the processes print on the driver's console.
        start_timeout_s: How long a process may take from its start until it has connected.
        stop_timeout_s: How long a process may take to end after it was asked to, before it is killed.
        queue_bytes: How many bytes of rows may wait for one process on either way before the sender has to wait.
        log_lines: How many of the last lines a process printed are kept for its error.
    """

    operator: str
    kind: str
    num_workers: int
    num_ps: int
    input_schema: Schema
    output_schema: Schema
    main_script: str
    user_files: tuple[UserFile, ...]
    user_params: str = "{}"
    python: str | None = None
    intra_op_parallelism: int = 4
    exact_doubles: bool = False
    print_process_info: bool = False
    start_timeout_s: float = 120.0  # a cold import of TensorFlow took up to 10 s on two busy cores
    stop_timeout_s: float = 10.0
    queue_bytes: int = 16 << 20  # a dozen chunks: enough to hide the latency of one call, too little to matter in memory
    log_lines: int = 100

    @property
    def size(self) -> int:
        """Number of processes in the group."""
        return self.num_workers + self.num_ps
