"""Made by scripts/build_stubs.py from operators/params/catalog.py and data_catalog.py; do not edit."""
from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import Self

from operators.params.function_script import FunctionScript
from operators.params.param import WithParams

ALL: tuple[type[WithParams], ...]


class ScriptParams(WithParams):
    """Parameters of operators that run a script."""

    def __init__(
        self,
        *,
        userFiles: Sequence[str] | str = ...,
        userFile: Sequence[str] | str = ...,
        scriptFiles: Sequence[str] | str = ...,
        mainScriptFile: str | Callable[[Any], Any] = ...,
        userParams: str | dict[str, Any] = ...,
        outputSchemaStr: str = ...,
        schemaStr: str = ...,
        schema: str = ...,
        tableSchema: str = ...,
        selectedCols: Sequence[str] = ...,
        selectedColNames: Sequence[str] = ...,
        numWorkers: int = ...,
        numPSs: int = ...,
        pythonEnv: str | Sequence[str] = ...,
        envVars: Sequence[str] = ...,
        exactDoubles: bool = ...,
        intraOpParallelism: int = ...,
        chiefCoordinates: bool = ...,
        equalSteps: str = ...,
        weightCol: str = ...,
        shuffleParts: int = ...,
        hostNetwork: str = ...,
        groupTls: bool = ...,
        gpusPerWorker: int = ...,
        checkpointDir: str = ...,
        checkpoint_dir: str = ...,
        startTimeout: float = ...,
        stallTimeout: float = ...,
        progress: bool = ...,
        logDir: str = ...,
        keepFailedRows: bool = ...,
        logFileSize: int = ...,
        logFileCount: int = ...,
        readOnce: bool = ...,
        MLEnvironmentId: int = ...,
    ) -> None: ...
    def setUserFiles(self, value: Sequence[str] | str) -> Self:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def getUserFiles(self) -> list[str]:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def setUserFile(self, value: Sequence[str] | str) -> Self:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def getUserFile(self) -> list[str]:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def setScriptFiles(self, value: Sequence[str] | str) -> Self:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def getScriptFiles(self) -> list[str]:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def setMainScriptFile(self, value: str | Callable[[Any], Any]) -> Self:
        """Path of the script that defines `main(task_config)`; or a function to call so, which travels as source with the imports, functions and plain values that it uses. (required)"""

    def getMainScriptFile(self) -> str | FunctionScript:
        """Path of the script that defines `main(task_config)`; or a function to call so, which travels as source with the imports, functions and plain values that it uses. (required)"""

    def setUserParams(self, value: str | dict[str, Any]) -> Self:
        """A JSON object: `task_config.user_params`. (default '{}')"""

    def getUserParams(self) -> str:
        """A JSON object: `task_config.user_params`. (default '{}')"""

    def setOutputSchemaStr(self, value: str) -> Self:
        """Columns of the rows that the script writes: "name type, name type". (required)"""

    def getOutputSchemaStr(self) -> str:
        """Columns of the rows that the script writes: "name type, name type". (required)"""

    def setSchemaStr(self, value: str) -> Self:
        """Columns of the rows that the script writes: "name type, name type". (required)"""

    def setSchema(self, value: str) -> Self:
        """Columns of the rows that the script writes: "name type, name type". (required)"""

    def getSchema(self) -> str:
        """Columns of the rows that the script writes: "name type, name type". (required)"""

    def setTableSchema(self, value: str) -> Self:
        """Columns of the rows that the script writes: "name type, name type". (required)"""

    def getTableSchema(self) -> str:
        """Columns of the rows that the script writes: "name type, name type". (required)"""

    def setSelectedCols(self, value: Sequence[str]) -> Self:
        """Columns that reach the script; all if unset. (default None)"""

    def getSelectedCols(self) -> list[str] | None:
        """Columns that reach the script; all if unset. (default None)"""

    def setSelectedColNames(self, value: Sequence[str]) -> Self:
        """Columns that reach the script; all if unset. (default None)"""

    def getSelectedColNames(self) -> list[str] | None:
        """Columns that reach the script; all if unset. (default None)"""

    def setNumWorkers(self, value: int) -> Self:
        """Number of processes that get rows; from the parallelism if unset. (default None)"""

    def getNumWorkers(self) -> int | None:
        """Number of processes that get rows; from the parallelism if unset. (default None)"""

    def setNumPSs(self, value: int) -> Self:
        """Number of parameter servers; from the parallelism if unset. (default None)"""

    def getNumPSs(self) -> int | None:
        """Number of parameter servers; from the parallelism if unset. (default None)"""

    def setPythonEnv(self, value: str | Sequence[str]) -> Self:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def getPythonEnv(self) -> str | list[str]:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def setEnvVars(self, value: Sequence[str]) -> Self:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def getEnvVars(self) -> list[str]:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def setExactDoubles(self, value: bool) -> Self:
        """Send DOUBLE columns as 8 bytes in a bytes feature, not as float32. (default False)"""

    def getExactDoubles(self) -> bool:
        """Send DOUBLE columns as 8 bytes in a bytes feature, not as float32. (default False)"""

    def setIntraOpParallelism(self, value: int) -> Self:
        """Threads of one TensorFlow operation. (default 4)"""

    def getIntraOpParallelism(self) -> int:
        """Threads of one TensorFlow operation. (default 4)"""

    def setChiefCoordinates(self, value: bool) -> Self:
        """For tf.distribute.ParameterServerStrategy: the chief gets no rows, and the group ends when its script does. (default False)"""

    def getChiefCoordinates(self) -> bool:
        """For tf.distribute.ParameterServerStrategy: the chief gets no rows, and the group ends when its script does. (default False)"""

    def setEqualSteps(self, value: str) -> Self:
        """Give all workers the same number of rows: "pad" adds rows of weight 0 to short shares, "repeat" adds copies of rows, "drop" leaves out rows of long shares, "off" leaves shares as they are. (default 'off')"""

    def getEqualSteps(self) -> str:
        """Give all workers the same number of rows: "pad" adds rows of weight 0 to short shares, "repeat" adds copies of rows, "drop" leaves out rows of long shares, "off" leaves shares as they are. (default 'off')"""

    def setWeightCol(self, value: str) -> Self:
        """With equalSteps "pad": the feature that is 0 in added rows and 1 in all others; or a FLOAT column of the table, which keeps its values and is 0 in added rows. (default 'weight')"""

    def getWeightCol(self) -> str:
        """With equalSteps "pad": the feature that is 0 in added rows and 1 in all others; or a FLOAT column of the table, which keeps its values and is 0 in added rows. (default 'weight')"""

    def setShuffleParts(self, value: int) -> Self:
        """Seed for the order of the row groups of files; by default, the order of paths. (default None)"""

    def getShuffleParts(self) -> int | None:
        """Seed for the order of the row groups of files; by default, the order of paths. (default None)"""

    def setHostNetwork(self, value: str) -> Self:
        """Network of the addresses that processes use, such as "10.1.0.0/16". (default None)"""

    def getHostNetwork(self) -> str | None:
        """Network of the addresses that processes use, such as "10.1.0.0/16". (default None)"""

    def setGroupTls(self, value: bool) -> Self:
        """Encrypt the messages between Flink's Python workers of a group, with a certificate that the job makes and carries. It needs the extra `tls`, and does not encrypt TensorFlow's own connections between processes. (default False)"""

    def getGroupTls(self) -> bool:
        """Encrypt the messages between Flink's Python workers of a group, with a certificate that the job makes and carries. It needs the extra `tls`, and does not encrypt TensorFlow's own connections between processes. (default False)"""

    def setGpusPerWorker(self, value: int) -> Self:
        """GPUs that each worker has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def getGpusPerWorker(self) -> int | None:
        """GPUs that each worker has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def setCheckpointDir(self, value: str) -> Self:
        """Where a training keeps checkpoints, from which it continues after a restart, and in the next job: a folder that all hosts share, or an address of a storage. None if unset. (default None)"""

    def getCheckpointDir(self) -> str | None:
        """Where a training keeps checkpoints, from which it continues after a restart, and in the next job: a folder that all hosts share, or an address of a storage. None if unset. (default None)"""

    def setCheckpoint_dir(self, value: str) -> Self:
        """Where a training keeps checkpoints, from which it continues after a restart, and in the next job: a folder that all hosts share, or an address of a storage. None if unset. (default None)"""

    def getCheckpoint_dir(self) -> str | None:
        """Where a training keeps checkpoints, from which it continues after a restart, and in the next job: a folder that all hosts share, or an address of a storage. None if unset. (default None)"""

    def setStartTimeout(self, value: float) -> Self:
        """Seconds within which all processes have to be connected. (default 300.0)"""

    def getStartTimeout(self) -> float:
        """Seconds within which all processes have to be connected. (default 300.0)"""

    def setStallTimeout(self, value: float) -> Self:
        """Seconds without progress of any process after which the job fails, with stacks; 0 for never. (default 1800.0)"""

    def getStallTimeout(self) -> float:
        """Seconds without progress of any process after which the job fails, with stacks; 0 for never. (default 1800.0)"""

    def setProgress(self, value: bool) -> Self:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def getProgress(self) -> bool:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def setLogDir(self, value: str) -> Self:
        """Where the record of a run stays, which `akdl-report` makes a page of, and what a script logs for TensorBoard into `task_config.log_dir`: a folder, or an address of a storage. None if unset. (default None)"""

    def getLogDir(self) -> str | None:
        """Where the record of a run stays, which `akdl-report` makes a page of, and what a script logs for TensorBoard into `task_config.log_dir`: a folder, or an address of a storage. None if unset. (default None)"""

    def setKeepFailedRows(self, value: bool) -> Self:
        """With logDir: a script that fails leaves a file there with the rows that it read last, its files, parameters and environment, which `akdl-replay` runs again. Variables and parameters with secrets are left out or masked. (default False)"""

    def getKeepFailedRows(self) -> bool:
        """With logDir: a script that fails leaves a file there with the rows that it read last, its files, parameters and environment, which `akdl-replay` runs again. Variables and parameters with secrets are left out or masked. (default False)"""

    def setLogFileSize(self, value: int) -> Self:
        """Bytes of a process's log file; then a new one is begun. (default 104857600)"""

    def getLogFileSize(self) -> int:
        """Bytes of a process's log file; then a new one is begun. (default 104857600)"""

    def setLogFileCount(self, value: int) -> Self:
        """Log files of a process; by default as many as Flink keeps. (default None)"""

    def getLogFileCount(self) -> int | None:
        """Log files of a process; by default as many as Flink keeps. (default None)"""

    def setReadOnce(self, value: bool) -> Self:
        """The script reads its rows once: they wait in Flink, not on disk. (default False)"""

    def getReadOnce(self) -> bool:
        """The script reads its rows once: they wait in Flink, not on disk. (default False)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

class StreamParams(WithParams):
    """Parameters of operators that run a script on a stream."""

    def __init__(
        self,
        *,
        userFiles: Sequence[str] | str = ...,
        userFile: Sequence[str] | str = ...,
        scriptFiles: Sequence[str] | str = ...,
        mainScriptFile: str | Callable[[Any], Any] = ...,
        userParams: str | dict[str, Any] = ...,
        outputSchemaStr: str = ...,
        schemaStr: str = ...,
        schema: str = ...,
        tableSchema: str = ...,
        selectedCols: Sequence[str] = ...,
        selectedColNames: Sequence[str] = ...,
        numWorkers: int = ...,
        numPSs: int = ...,
        pythonEnv: str | Sequence[str] = ...,
        envVars: Sequence[str] = ...,
        exactDoubles: bool = ...,
        intraOpParallelism: int = ...,
        chiefCoordinates: bool = ...,
        hostNetwork: str = ...,
        groupTls: bool = ...,
        gpusPerWorker: int = ...,
        checkpointDir: str = ...,
        checkpoint_dir: str = ...,
        startTimeout: float = ...,
        stallTimeout: float = ...,
        progress: bool = ...,
        logDir: str = ...,
        keepFailedRows: bool = ...,
        logFileSize: int = ...,
        logFileCount: int = ...,
        MLEnvironmentId: int = ...,
        chunkWait: float = ...,
        chunkRows: int = ...,
        replay: str = ...,
        maxUncommitted: int = ...,
        onReturn: str = ...,
    ) -> None: ...
    def setUserFiles(self, value: Sequence[str] | str) -> Self:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def getUserFiles(self) -> list[str]:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def setUserFile(self, value: Sequence[str] | str) -> Self:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def getUserFile(self) -> list[str]:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def setScriptFiles(self, value: Sequence[str] | str) -> Self:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def getScriptFiles(self) -> list[str]:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def setMainScriptFile(self, value: str | Callable[[Any], Any]) -> Self:
        """Path of the script that defines `main(task_config)`; or a function to call so, which travels as source with the imports, functions and plain values that it uses. (required)"""

    def getMainScriptFile(self) -> str | FunctionScript:
        """Path of the script that defines `main(task_config)`; or a function to call so, which travels as source with the imports, functions and plain values that it uses. (required)"""

    def setUserParams(self, value: str | dict[str, Any]) -> Self:
        """A JSON object: `task_config.user_params`. (default '{}')"""

    def getUserParams(self) -> str:
        """A JSON object: `task_config.user_params`. (default '{}')"""

    def setOutputSchemaStr(self, value: str) -> Self:
        """Columns of the rows that the script writes: "name type, name type"; an event time is declared as in SQL: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS SOURCE_WATERMARK()", with the watermarks of the input. (required)"""

    def getOutputSchemaStr(self) -> str:
        """Columns of the rows that the script writes: "name type, name type"; an event time is declared as in SQL: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS SOURCE_WATERMARK()", with the watermarks of the input. (required)"""

    def setSchemaStr(self, value: str) -> Self:
        """Columns of the rows that the script writes: "name type, name type"; an event time is declared as in SQL: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS SOURCE_WATERMARK()", with the watermarks of the input. (required)"""

    def setSchema(self, value: str) -> Self:
        """Columns of the rows that the script writes: "name type, name type"; an event time is declared as in SQL: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS SOURCE_WATERMARK()", with the watermarks of the input. (required)"""

    def getSchema(self) -> str:
        """Columns of the rows that the script writes: "name type, name type"; an event time is declared as in SQL: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS SOURCE_WATERMARK()", with the watermarks of the input. (required)"""

    def setTableSchema(self, value: str) -> Self:
        """Columns of the rows that the script writes: "name type, name type"; an event time is declared as in SQL: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS SOURCE_WATERMARK()", with the watermarks of the input. (required)"""

    def getTableSchema(self) -> str:
        """Columns of the rows that the script writes: "name type, name type"; an event time is declared as in SQL: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS SOURCE_WATERMARK()", with the watermarks of the input. (required)"""

    def setSelectedCols(self, value: Sequence[str]) -> Self:
        """Columns that reach the script; all if unset. (default None)"""

    def getSelectedCols(self) -> list[str] | None:
        """Columns that reach the script; all if unset. (default None)"""

    def setSelectedColNames(self, value: Sequence[str]) -> Self:
        """Columns that reach the script; all if unset. (default None)"""

    def getSelectedColNames(self) -> list[str] | None:
        """Columns that reach the script; all if unset. (default None)"""

    def setNumWorkers(self, value: int) -> Self:
        """Number of processes that get rows; from the parallelism if unset. (default None)"""

    def getNumWorkers(self) -> int | None:
        """Number of processes that get rows; from the parallelism if unset. (default None)"""

    def setNumPSs(self, value: int) -> Self:
        """Number of parameter servers; from the parallelism if unset. (default None)"""

    def getNumPSs(self) -> int | None:
        """Number of parameter servers; from the parallelism if unset. (default None)"""

    def setPythonEnv(self, value: str | Sequence[str]) -> Self:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def getPythonEnv(self) -> str | list[str]:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def setEnvVars(self, value: Sequence[str]) -> Self:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def getEnvVars(self) -> list[str]:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def setExactDoubles(self, value: bool) -> Self:
        """Send DOUBLE columns as 8 bytes in a bytes feature, not as float32. (default False)"""

    def getExactDoubles(self) -> bool:
        """Send DOUBLE columns as 8 bytes in a bytes feature, not as float32. (default False)"""

    def setIntraOpParallelism(self, value: int) -> Self:
        """Threads of one TensorFlow operation. (default 4)"""

    def getIntraOpParallelism(self) -> int:
        """Threads of one TensorFlow operation. (default 4)"""

    def setChiefCoordinates(self, value: bool) -> Self:
        """For tf.distribute.ParameterServerStrategy: the chief gets no rows, and the group ends when its script does. (default False)"""

    def getChiefCoordinates(self) -> bool:
        """For tf.distribute.ParameterServerStrategy: the chief gets no rows, and the group ends when its script does. (default False)"""

    def setHostNetwork(self, value: str) -> Self:
        """Network of the addresses that processes use, such as "10.1.0.0/16". (default None)"""

    def getHostNetwork(self) -> str | None:
        """Network of the addresses that processes use, such as "10.1.0.0/16". (default None)"""

    def setGroupTls(self, value: bool) -> Self:
        """Encrypt the messages between Flink's Python workers of a group, with a certificate that the job makes and carries. It needs the extra `tls`, and does not encrypt TensorFlow's own connections between processes. (default False)"""

    def getGroupTls(self) -> bool:
        """Encrypt the messages between Flink's Python workers of a group, with a certificate that the job makes and carries. It needs the extra `tls`, and does not encrypt TensorFlow's own connections between processes. (default False)"""

    def setGpusPerWorker(self, value: int) -> Self:
        """GPUs that each worker has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def getGpusPerWorker(self) -> int | None:
        """GPUs that each worker has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def setCheckpointDir(self, value: str) -> Self:
        """Where a training keeps checkpoints, from which it continues after a restart, and in the next job: a folder that all hosts share, or an address of a storage. None if unset. (default None)"""

    def getCheckpointDir(self) -> str | None:
        """Where a training keeps checkpoints, from which it continues after a restart, and in the next job: a folder that all hosts share, or an address of a storage. None if unset. (default None)"""

    def setCheckpoint_dir(self, value: str) -> Self:
        """Where a training keeps checkpoints, from which it continues after a restart, and in the next job: a folder that all hosts share, or an address of a storage. None if unset. (default None)"""

    def getCheckpoint_dir(self) -> str | None:
        """Where a training keeps checkpoints, from which it continues after a restart, and in the next job: a folder that all hosts share, or an address of a storage. None if unset. (default None)"""

    def setStartTimeout(self, value: float) -> Self:
        """Seconds within which all processes have to be connected. (default 300.0)"""

    def getStartTimeout(self) -> float:
        """Seconds within which all processes have to be connected. (default 300.0)"""

    def setStallTimeout(self, value: float) -> Self:
        """Seconds without progress of any process after which the job fails, with stacks; 0 for never. (default 1800.0)"""

    def getStallTimeout(self) -> float:
        """Seconds without progress of any process after which the job fails, with stacks; 0 for never. (default 1800.0)"""

    def setProgress(self, value: bool) -> Self:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def getProgress(self) -> bool:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def setLogDir(self, value: str) -> Self:
        """Where the record of a run stays, which `akdl-report` makes a page of, and what a script logs for TensorBoard into `task_config.log_dir`: a folder, or an address of a storage. None if unset. (default None)"""

    def getLogDir(self) -> str | None:
        """Where the record of a run stays, which `akdl-report` makes a page of, and what a script logs for TensorBoard into `task_config.log_dir`: a folder, or an address of a storage. None if unset. (default None)"""

    def setKeepFailedRows(self, value: bool) -> Self:
        """With logDir: a script that fails leaves a file there with the rows that it read last, its files, parameters and environment, which `akdl-replay` runs again. Variables and parameters with secrets are left out or masked. (default False)"""

    def getKeepFailedRows(self) -> bool:
        """With logDir: a script that fails leaves a file there with the rows that it read last, its files, parameters and environment, which `akdl-replay` runs again. Variables and parameters with secrets are left out or masked. (default False)"""

    def setLogFileSize(self, value: int) -> Self:
        """Bytes of a process's log file; then a new one is begun. (default 104857600)"""

    def getLogFileSize(self) -> int:
        """Bytes of a process's log file; then a new one is begun. (default 104857600)"""

    def setLogFileCount(self, value: int) -> Self:
        """Log files of a process; by default as many as Flink keeps. (default None)"""

    def getLogFileCount(self) -> int | None:
        """Log files of a process; by default as many as Flink keeps. (default None)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

    def setChunkWait(self, value: float) -> Self:
        """Most seconds that rows wait on their way to the script, and back, to travel together; the job takes the shortest of all its operators. (default 0.01)"""

    def getChunkWait(self) -> float:
        """Most seconds that rows wait on their way to the script, and back, to travel together; the job takes the shortest of all its operators. (default 0.01)"""

    def setChunkRows(self, value: int) -> Self:
        """Most rows that travel together. (default 8000)"""

    def getChunkRows(self) -> int:
        """Most rows that travel together. (default 8000)"""

    def setReplay(self, value: str) -> Self:
        """Rows that a checkpoint keeps for the script that starts after a failure. "untaken": rows that the script had not taken from its dataset. "uncommitted": rows that it had not committed with `task_config.commit()`. (default 'untaken')"""

    def getReplay(self) -> str:
        """Rows that a checkpoint keeps for the script that starts after a failure. "untaken": rows that the script had not taken from its dataset. "uncommitted": rows that it had not committed with `task_config.commit()`. (default 'untaken')"""

    def setMaxUncommitted(self, value: int) -> Self:
        """With replay "uncommitted": bytes of rows that a process may have without a commit, before it gets no more. (default 268435456)"""

    def getMaxUncommitted(self) -> int:
        """With replay "uncommitted": bytes of rows that a process may have without a commit, before it gets no more. (default 268435456)"""

    def setOnReturn(self, value: str) -> Self:
        """What becomes of further rows when the script returns before its input ends: "drain" drops them, "fail" fails the job, "restart" starts the script again for them. (default 'drain')"""

    def getOnReturn(self) -> str:
        """What becomes of further rows when the script returns before its input ends: "drain" drops them, "fail" fails the job, "restart" starts the script again for them. (default 'drain')"""

class TrainParams(WithParams):
    """Parameters of operators whose script trains a model."""

    def __init__(
        self,
        *,
        userFiles: Sequence[str] | str = ...,
        userFile: Sequence[str] | str = ...,
        scriptFiles: Sequence[str] | str = ...,
        mainScriptFile: str | Callable[[Any], Any] = ...,
        userParams: str | dict[str, Any] = ...,
        selectedCols: Sequence[str] = ...,
        selectedColNames: Sequence[str] = ...,
        numWorkers: int | tuple[int, int] = ...,
        numPSs: int = ...,
        pythonEnv: str | Sequence[str] = ...,
        envVars: Sequence[str] = ...,
        exactDoubles: bool = ...,
        intraOpParallelism: int = ...,
        chiefCoordinates: bool = ...,
        equalSteps: str = ...,
        weightCol: str = ...,
        shuffleParts: int = ...,
        hostNetwork: str = ...,
        groupTls: bool = ...,
        gpusPerWorker: int = ...,
        checkpointDir: str = ...,
        checkpoint_dir: str = ...,
        startTimeout: float = ...,
        stallTimeout: float = ...,
        progress: bool = ...,
        logDir: str = ...,
        keepFailedRows: bool = ...,
        logFileSize: int = ...,
        logFileCount: int = ...,
        readOnce: bool = ...,
        MLEnvironmentId: int = ...,
        modelDir: str = ...,
        elasticWait: float = ...,
    ) -> None: ...
    def setUserFiles(self, value: Sequence[str] | str) -> Self:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def getUserFiles(self) -> list[str]:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def setUserFile(self, value: Sequence[str] | str) -> Self:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def getUserFile(self) -> list[str]:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def setScriptFiles(self, value: Sequence[str] | str) -> Self:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def getScriptFiles(self) -> list[str]:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def setMainScriptFile(self, value: str | Callable[[Any], Any]) -> Self:
        """Path of the script that defines `main(task_config)`; or a function to call so, which travels as source with the imports, functions and plain values that it uses. (required)"""

    def getMainScriptFile(self) -> str | FunctionScript:
        """Path of the script that defines `main(task_config)`; or a function to call so, which travels as source with the imports, functions and plain values that it uses. (required)"""

    def setUserParams(self, value: str | dict[str, Any]) -> Self:
        """A JSON object: `task_config.user_params`. (default '{}')"""

    def getUserParams(self) -> str:
        """A JSON object: `task_config.user_params`. (default '{}')"""

    def setSelectedCols(self, value: Sequence[str]) -> Self:
        """Columns that reach the script; all if unset. (default None)"""

    def getSelectedCols(self) -> list[str] | None:
        """Columns that reach the script; all if unset. (default None)"""

    def setSelectedColNames(self, value: Sequence[str]) -> Self:
        """Columns that reach the script; all if unset. (default None)"""

    def getSelectedColNames(self) -> list[str] | None:
        """Columns that reach the script; all if unset. (default None)"""

    def setNumWorkers(self, value: int | tuple[int, int]) -> Self:
        """Number of processes that get rows; from the parallelism if unset. A pair for a training that takes the slots there are, between its two numbers, and continues from checkpointDir with others. (default None)"""

    def getNumWorkers(self) -> int | tuple[int, int] | None:
        """Number of processes that get rows; from the parallelism if unset. A pair for a training that takes the slots there are, between its two numbers, and continues from checkpointDir with others. (default None)"""

    def setNumPSs(self, value: int) -> Self:
        """Number of parameter servers; from the parallelism if unset. (default None)"""

    def getNumPSs(self) -> int | None:
        """Number of parameter servers; from the parallelism if unset. (default None)"""

    def setPythonEnv(self, value: str | Sequence[str]) -> Self:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def getPythonEnv(self) -> str | list[str]:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def setEnvVars(self, value: Sequence[str]) -> Self:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def getEnvVars(self) -> list[str]:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def setExactDoubles(self, value: bool) -> Self:
        """Send DOUBLE columns as 8 bytes in a bytes feature, not as float32. (default False)"""

    def getExactDoubles(self) -> bool:
        """Send DOUBLE columns as 8 bytes in a bytes feature, not as float32. (default False)"""

    def setIntraOpParallelism(self, value: int) -> Self:
        """Threads of one TensorFlow operation. (default 4)"""

    def getIntraOpParallelism(self) -> int:
        """Threads of one TensorFlow operation. (default 4)"""

    def setChiefCoordinates(self, value: bool) -> Self:
        """For tf.distribute.ParameterServerStrategy: the chief gets no rows, and the group ends when its script does. (default False)"""

    def getChiefCoordinates(self) -> bool:
        """For tf.distribute.ParameterServerStrategy: the chief gets no rows, and the group ends when its script does. (default False)"""

    def setEqualSteps(self, value: str) -> Self:
        """Give all workers the same number of rows: "pad" adds rows of weight 0 to short shares, "repeat" adds copies of rows, "drop" leaves out rows of long shares, "off" leaves shares as they are. (default 'off')"""

    def getEqualSteps(self) -> str:
        """Give all workers the same number of rows: "pad" adds rows of weight 0 to short shares, "repeat" adds copies of rows, "drop" leaves out rows of long shares, "off" leaves shares as they are. (default 'off')"""

    def setWeightCol(self, value: str) -> Self:
        """With equalSteps "pad": the feature that is 0 in added rows and 1 in all others; or a FLOAT column of the table, which keeps its values and is 0 in added rows. (default 'weight')"""

    def getWeightCol(self) -> str:
        """With equalSteps "pad": the feature that is 0 in added rows and 1 in all others; or a FLOAT column of the table, which keeps its values and is 0 in added rows. (default 'weight')"""

    def setShuffleParts(self, value: int) -> Self:
        """Seed for the order of the row groups of files; by default, the order of paths. (default None)"""

    def getShuffleParts(self) -> int | None:
        """Seed for the order of the row groups of files; by default, the order of paths. (default None)"""

    def setHostNetwork(self, value: str) -> Self:
        """Network of the addresses that processes use, such as "10.1.0.0/16". (default None)"""

    def getHostNetwork(self) -> str | None:
        """Network of the addresses that processes use, such as "10.1.0.0/16". (default None)"""

    def setGroupTls(self, value: bool) -> Self:
        """Encrypt the messages between Flink's Python workers of a group, with a certificate that the job makes and carries. It needs the extra `tls`, and does not encrypt TensorFlow's own connections between processes. (default False)"""

    def getGroupTls(self) -> bool:
        """Encrypt the messages between Flink's Python workers of a group, with a certificate that the job makes and carries. It needs the extra `tls`, and does not encrypt TensorFlow's own connections between processes. (default False)"""

    def setGpusPerWorker(self, value: int) -> Self:
        """GPUs that each worker has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def getGpusPerWorker(self) -> int | None:
        """GPUs that each worker has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def setCheckpointDir(self, value: str) -> Self:
        """Where a training keeps checkpoints, from which it continues after a restart, and in the next job: a folder that all hosts share, or an address of a storage. None if unset. (default None)"""

    def getCheckpointDir(self) -> str | None:
        """Where a training keeps checkpoints, from which it continues after a restart, and in the next job: a folder that all hosts share, or an address of a storage. None if unset. (default None)"""

    def setCheckpoint_dir(self, value: str) -> Self:
        """Where a training keeps checkpoints, from which it continues after a restart, and in the next job: a folder that all hosts share, or an address of a storage. None if unset. (default None)"""

    def getCheckpoint_dir(self) -> str | None:
        """Where a training keeps checkpoints, from which it continues after a restart, and in the next job: a folder that all hosts share, or an address of a storage. None if unset. (default None)"""

    def setStartTimeout(self, value: float) -> Self:
        """Seconds within which all processes have to be connected. (default 300.0)"""

    def getStartTimeout(self) -> float:
        """Seconds within which all processes have to be connected. (default 300.0)"""

    def setStallTimeout(self, value: float) -> Self:
        """Seconds without progress of any process after which the job fails, with stacks; 0 for never. (default 1800.0)"""

    def getStallTimeout(self) -> float:
        """Seconds without progress of any process after which the job fails, with stacks; 0 for never. (default 1800.0)"""

    def setProgress(self, value: bool) -> Self:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def getProgress(self) -> bool:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def setLogDir(self, value: str) -> Self:
        """Where the record of a run stays, which `akdl-report` makes a page of, and what a script logs for TensorBoard into `task_config.log_dir`: a folder, or an address of a storage. None if unset. (default None)"""

    def getLogDir(self) -> str | None:
        """Where the record of a run stays, which `akdl-report` makes a page of, and what a script logs for TensorBoard into `task_config.log_dir`: a folder, or an address of a storage. None if unset. (default None)"""

    def setKeepFailedRows(self, value: bool) -> Self:
        """With logDir: a script that fails leaves a file there with the rows that it read last, its files, parameters and environment, which `akdl-replay` runs again. Variables and parameters with secrets are left out or masked. (default False)"""

    def getKeepFailedRows(self) -> bool:
        """With logDir: a script that fails leaves a file there with the rows that it read last, its files, parameters and environment, which `akdl-replay` runs again. Variables and parameters with secrets are left out or masked. (default False)"""

    def setLogFileSize(self, value: int) -> Self:
        """Bytes of a process's log file; then a new one is begun. (default 104857600)"""

    def getLogFileSize(self) -> int:
        """Bytes of a process's log file; then a new one is begun. (default 104857600)"""

    def setLogFileCount(self, value: int) -> Self:
        """Log files of a process; by default as many as Flink keeps. (default None)"""

    def getLogFileCount(self) -> int | None:
        """Log files of a process; by default as many as Flink keeps. (default None)"""

    def setReadOnce(self, value: bool) -> Self:
        """The script reads its rows once: they wait in Flink, not on disk. (default False)"""

    def getReadOnce(self) -> bool:
        """The script reads its rows once: they wait in Flink, not on disk. (default False)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

    def setModelDir(self, value: str) -> Self:
        """Folder or address that hosts and this program reach, for the model; else its table carries it, at about 10 MB/s. (default None)"""

    def getModelDir(self) -> str | None:
        """Folder or address that hosts and this program reach, for the model; else its table carries it, at about 10 MB/s. (default None)"""

    def setElasticWait(self, value: float) -> Self:
        """With a pair as numWorkers: seconds that slots are missing, or free, before the training continues with fewer or more workers. (default 60.0)"""

    def getElasticWait(self) -> float:
        """With a pair as numWorkers: seconds that slots are missing, or free, before the training continues with fewer or more workers. (default 60.0)"""

class TrainerParams(WithParams):
    """Parameters of pipeline stages that train a model."""

    def __init__(
        self,
        *,
        userFiles: Sequence[str] | str = ...,
        userFile: Sequence[str] | str = ...,
        scriptFiles: Sequence[str] | str = ...,
        mainScriptFile: str | Callable[[Any], Any] = ...,
        userParams: str | dict[str, Any] = ...,
        selectedCols: Sequence[str] = ...,
        selectedColNames: Sequence[str] = ...,
        numWorkers: int | tuple[int, int] = ...,
        numPSs: int = ...,
        pythonEnv: str | Sequence[str] = ...,
        envVars: Sequence[str] = ...,
        exactDoubles: bool = ...,
        intraOpParallelism: int = ...,
        chiefCoordinates: bool = ...,
        equalSteps: str = ...,
        weightCol: str = ...,
        shuffleParts: int = ...,
        hostNetwork: str = ...,
        groupTls: bool = ...,
        gpusPerWorker: int = ...,
        checkpointDir: str = ...,
        checkpoint_dir: str = ...,
        startTimeout: float = ...,
        stallTimeout: float = ...,
        progress: bool = ...,
        logDir: str = ...,
        keepFailedRows: bool = ...,
        logFileSize: int = ...,
        logFileCount: int = ...,
        readOnce: bool = ...,
        MLEnvironmentId: int = ...,
        modelDir: str = ...,
        elasticWait: float = ...,
        inferSelectedCols: Sequence[str] = ...,
        outputSchemaStr: str = ...,
        schemaStr: str = ...,
        schema: str = ...,
        tableSchema: str = ...,
        outputSignatureDefs: Sequence[str] = ...,
        inputSignatureDefs: Sequence[str] = ...,
        signatureDefKey: str = ...,
        graphDefTag: str = ...,
        reservedCols: Sequence[str] = ...,
        keepColNames: Sequence[str] = ...,
        defaults: str | dict[str, Any] = ...,
        inferBatchSize: int = ...,
        inferBatchBytes: int = ...,
        errorCol: str = ...,
        cellsHoldBatches: bool = ...,
        gpusPerModel: int = ...,
        inferProcesses: int = ...,
        inferTimeout: float = ...,
        modelCol: str = ...,
        modelStreamFilePath: str = ...,
        modelStreamScanInterval: float = ...,
        modelStreamStartTime: str = ...,
        chunkWait: float = ...,
        chunkRows: int = ...,
        modelFilePath: str = ...,
        overwriteSink: bool = ...,
    ) -> None: ...
    def setUserFiles(self, value: Sequence[str] | str) -> Self:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def getUserFiles(self) -> list[str]:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def setUserFile(self, value: Sequence[str] | str) -> Self:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def getUserFile(self) -> list[str]:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def setScriptFiles(self, value: Sequence[str] | str) -> Self:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def getScriptFiles(self) -> list[str]:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def setMainScriptFile(self, value: str | Callable[[Any], Any]) -> Self:
        """Path of the script that defines `main(task_config)`; or a function to call so, which travels as source with the imports, functions and plain values that it uses. (required)"""

    def getMainScriptFile(self) -> str | FunctionScript:
        """Path of the script that defines `main(task_config)`; or a function to call so, which travels as source with the imports, functions and plain values that it uses. (required)"""

    def setUserParams(self, value: str | dict[str, Any]) -> Self:
        """A JSON object: `task_config.user_params`. (default '{}')"""

    def getUserParams(self) -> str:
        """A JSON object: `task_config.user_params`. (default '{}')"""

    def setSelectedCols(self, value: Sequence[str]) -> Self:
        """Columns that reach the script; all if unset. (default None)"""

    def getSelectedCols(self) -> list[str] | None:
        """Columns that reach the script; all if unset. (default None)"""

    def setSelectedColNames(self, value: Sequence[str]) -> Self:
        """Columns that reach the script; all if unset. (default None)"""

    def getSelectedColNames(self) -> list[str] | None:
        """Columns that reach the script; all if unset. (default None)"""

    def setNumWorkers(self, value: int | tuple[int, int]) -> Self:
        """Number of processes that get rows; from the parallelism if unset. A pair for a training that takes the slots there are, between its two numbers, and continues from checkpointDir with others. (default None)"""

    def getNumWorkers(self) -> int | tuple[int, int] | None:
        """Number of processes that get rows; from the parallelism if unset. A pair for a training that takes the slots there are, between its two numbers, and continues from checkpointDir with others. (default None)"""

    def setNumPSs(self, value: int) -> Self:
        """Number of parameter servers; from the parallelism if unset. (default None)"""

    def getNumPSs(self) -> int | None:
        """Number of parameter servers; from the parallelism if unset. (default None)"""

    def setPythonEnv(self, value: str | Sequence[str]) -> Self:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def getPythonEnv(self) -> str | list[str]:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def setEnvVars(self, value: Sequence[str]) -> Self:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def getEnvVars(self) -> list[str]:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def setExactDoubles(self, value: bool) -> Self:
        """Send DOUBLE columns as 8 bytes in a bytes feature, not as float32. (default False)"""

    def getExactDoubles(self) -> bool:
        """Send DOUBLE columns as 8 bytes in a bytes feature, not as float32. (default False)"""

    def setIntraOpParallelism(self, value: int) -> Self:
        """Threads of one TensorFlow operation. (default 4)"""

    def getIntraOpParallelism(self) -> int:
        """Threads of one TensorFlow operation. (default 4)"""

    def setChiefCoordinates(self, value: bool) -> Self:
        """For tf.distribute.ParameterServerStrategy: the chief gets no rows, and the group ends when its script does. (default False)"""

    def getChiefCoordinates(self) -> bool:
        """For tf.distribute.ParameterServerStrategy: the chief gets no rows, and the group ends when its script does. (default False)"""

    def setEqualSteps(self, value: str) -> Self:
        """Give all workers the same number of rows: "pad" adds rows of weight 0 to short shares, "repeat" adds copies of rows, "drop" leaves out rows of long shares, "off" leaves shares as they are. (default 'off')"""

    def getEqualSteps(self) -> str:
        """Give all workers the same number of rows: "pad" adds rows of weight 0 to short shares, "repeat" adds copies of rows, "drop" leaves out rows of long shares, "off" leaves shares as they are. (default 'off')"""

    def setWeightCol(self, value: str) -> Self:
        """With equalSteps "pad": the feature that is 0 in added rows and 1 in all others; or a FLOAT column of the table, which keeps its values and is 0 in added rows. (default 'weight')"""

    def getWeightCol(self) -> str:
        """With equalSteps "pad": the feature that is 0 in added rows and 1 in all others; or a FLOAT column of the table, which keeps its values and is 0 in added rows. (default 'weight')"""

    def setShuffleParts(self, value: int) -> Self:
        """Seed for the order of the row groups of files; by default, the order of paths. (default None)"""

    def getShuffleParts(self) -> int | None:
        """Seed for the order of the row groups of files; by default, the order of paths. (default None)"""

    def setHostNetwork(self, value: str) -> Self:
        """Network of the addresses that processes use, such as "10.1.0.0/16". (default None)"""

    def getHostNetwork(self) -> str | None:
        """Network of the addresses that processes use, such as "10.1.0.0/16". (default None)"""

    def setGroupTls(self, value: bool) -> Self:
        """Encrypt the messages between Flink's Python workers of a group, with a certificate that the job makes and carries. It needs the extra `tls`, and does not encrypt TensorFlow's own connections between processes. (default False)"""

    def getGroupTls(self) -> bool:
        """Encrypt the messages between Flink's Python workers of a group, with a certificate that the job makes and carries. It needs the extra `tls`, and does not encrypt TensorFlow's own connections between processes. (default False)"""

    def setGpusPerWorker(self, value: int) -> Self:
        """GPUs that each worker has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def getGpusPerWorker(self) -> int | None:
        """GPUs that each worker has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def setCheckpointDir(self, value: str) -> Self:
        """Where a training keeps checkpoints, from which it continues after a restart, and in the next job: a folder that all hosts share, or an address of a storage. None if unset. (default None)"""

    def getCheckpointDir(self) -> str | None:
        """Where a training keeps checkpoints, from which it continues after a restart, and in the next job: a folder that all hosts share, or an address of a storage. None if unset. (default None)"""

    def setCheckpoint_dir(self, value: str) -> Self:
        """Where a training keeps checkpoints, from which it continues after a restart, and in the next job: a folder that all hosts share, or an address of a storage. None if unset. (default None)"""

    def getCheckpoint_dir(self) -> str | None:
        """Where a training keeps checkpoints, from which it continues after a restart, and in the next job: a folder that all hosts share, or an address of a storage. None if unset. (default None)"""

    def setStartTimeout(self, value: float) -> Self:
        """Seconds within which all processes have to be connected. (default 300.0)"""

    def getStartTimeout(self) -> float:
        """Seconds within which all processes have to be connected. (default 300.0)"""

    def setStallTimeout(self, value: float) -> Self:
        """Seconds without progress of any process after which the job fails, with stacks; 0 for never. (default 1800.0)"""

    def getStallTimeout(self) -> float:
        """Seconds without progress of any process after which the job fails, with stacks; 0 for never. (default 1800.0)"""

    def setProgress(self, value: bool) -> Self:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def getProgress(self) -> bool:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def setLogDir(self, value: str) -> Self:
        """Where the record of a run stays, which `akdl-report` makes a page of, and what a script logs for TensorBoard into `task_config.log_dir`: a folder, or an address of a storage. None if unset. (default None)"""

    def getLogDir(self) -> str | None:
        """Where the record of a run stays, which `akdl-report` makes a page of, and what a script logs for TensorBoard into `task_config.log_dir`: a folder, or an address of a storage. None if unset. (default None)"""

    def setKeepFailedRows(self, value: bool) -> Self:
        """With logDir: a script that fails leaves a file there with the rows that it read last, its files, parameters and environment, which `akdl-replay` runs again. Variables and parameters with secrets are left out or masked. (default False)"""

    def getKeepFailedRows(self) -> bool:
        """With logDir: a script that fails leaves a file there with the rows that it read last, its files, parameters and environment, which `akdl-replay` runs again. Variables and parameters with secrets are left out or masked. (default False)"""

    def setLogFileSize(self, value: int) -> Self:
        """Bytes of a process's log file; then a new one is begun. (default 104857600)"""

    def getLogFileSize(self) -> int:
        """Bytes of a process's log file; then a new one is begun. (default 104857600)"""

    def setLogFileCount(self, value: int) -> Self:
        """Log files of a process; by default as many as Flink keeps. (default None)"""

    def getLogFileCount(self) -> int | None:
        """Log files of a process; by default as many as Flink keeps. (default None)"""

    def setReadOnce(self, value: bool) -> Self:
        """The script reads its rows once: they wait in Flink, not on disk. (default False)"""

    def getReadOnce(self) -> bool:
        """The script reads its rows once: they wait in Flink, not on disk. (default False)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

    def setModelDir(self, value: str) -> Self:
        """Folder or address that hosts and this program reach, for the model; else its table carries it, at about 10 MB/s. (default None)"""

    def getModelDir(self) -> str | None:
        """Folder or address that hosts and this program reach, for the model; else its table carries it, at about 10 MB/s. (default None)"""

    def setElasticWait(self, value: float) -> Self:
        """With a pair as numWorkers: seconds that slots are missing, or free, before the training continues with fewer or more workers. (default 60.0)"""

    def getElasticWait(self) -> float:
        """With a pair as numWorkers: seconds that slots are missing, or free, before the training continues with fewer or more workers. (default 60.0)"""

    def setInferSelectedCols(self, value: Sequence[str]) -> Self:
        """Columns to predict with; all if unset. (default None)"""

    def getInferSelectedCols(self) -> list[str] | None:
        """Columns to predict with; all if unset. (default None)"""

    def setOutputSchemaStr(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getOutputSchemaStr(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setSchemaStr(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setSchema(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getSchema(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setTableSchema(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getTableSchema(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setOutputSignatureDefs(self, value: Sequence[str]) -> Self:
        """The signature's outputs that the columns of outputSchemaStr show, in their order; if unset, the outputs of the same names, or the only output. (default None)"""

    def getOutputSignatureDefs(self) -> list[str] | None:
        """The signature's outputs that the columns of outputSchemaStr show, in their order; if unset, the outputs of the same names, or the only output. (default None)"""

    def setInputSignatureDefs(self, value: Sequence[str]) -> Self:
        """The signature's inputs that selectedCols feed, in their order; if unset, the inputs of the same names, or the only input, in which several columns of numbers are stacked. (default None)"""

    def getInputSignatureDefs(self) -> list[str] | None:
        """The signature's inputs that selectedCols feed, in their order; if unset, the inputs of the same names, or the only input, in which several columns of numbers are stacked. (default None)"""

    def setSignatureDefKey(self, value: str) -> Self:
        """Name of the signature. (default 'serving_default')"""

    def getSignatureDefKey(self) -> str:
        """Name of the signature. (default 'serving_default')"""

    def setGraphDefTag(self, value: str) -> Self:
        """Tag of the graph. (default 'serve')"""

    def getGraphDefTag(self) -> str:
        """Tag of the graph. (default 'serve')"""

    def setReservedCols(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getReservedCols(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setKeepColNames(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getKeepColNames(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setDefaults(self, value: str | dict[str, Any]) -> Self:
        """Columns that feed the model, and the value that stands for null in each; in other columns a null is an error of its row. (default '{}')"""

    def getDefaults(self) -> str:
        """Columns that feed the model, and the value that stands for null in each; in other columns a null is an error of its row. (default '{}')"""

    def setInferBatchSize(self, value: int) -> Self:
        """Most rows in one call of the model. (default 256)"""

    def getInferBatchSize(self) -> int:
        """Most rows in one call of the model. (default 256)"""

    def setInferBatchBytes(self, value: int) -> Self:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def getInferBatchBytes(self) -> int:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def setErrorCol(self, value: str) -> Self:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def getErrorCol(self) -> str | None:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def setCellsHoldBatches(self, value: bool) -> Self:
        """A cell is a whole tensor with the batch dimension, such as [1, 28, 28, 1], as Alink's SavedModel operators take it. (default False)"""

    def getCellsHoldBatches(self) -> bool:
        """A cell is a whole tensor with the batch dimension, such as [1, 28, 28, 1], as Alink's SavedModel operators take it. (default False)"""

    def setGpusPerModel(self, value: int) -> Self:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def getGpusPerModel(self) -> int | None:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def setInferProcesses(self, value: int) -> Self:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def getInferProcesses(self) -> int:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def setInferTimeout(self, value: float) -> Self:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def getInferTimeout(self) -> float | None:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def setModelCol(self, value: str) -> Self:
        """STRING column with the file or folder of the model that predicted a row. (default None)"""

    def getModelCol(self) -> str | None:
        """STRING column with the file or folder of the model that predicted a row. (default None)"""

    def setModelStreamFilePath(self, value: str) -> Self:
        """Folder in which newer models appear, as SavedModel folders or zip or tar files of them; the newest takes over. Every host has to have it. (default None)"""

    def getModelStreamFilePath(self) -> str | None:
        """Folder in which newer models appear, as SavedModel folders or zip or tar files of them; the newest takes over. Every host has to have it. (default None)"""

    def setModelStreamScanInterval(self, value: float) -> Self:
        """Seconds between looks into modelStreamFilePath. (default 10.0)"""

    def getModelStreamScanInterval(self) -> float:
        """Seconds between looks into modelStreamFilePath. (default 10.0)"""

    def setModelStreamStartTime(self, value: str) -> Self:
        """Models in modelStreamFilePath that are older do not count: "2024-05-31 18:00:00", local time; now if unset. (default None)"""

    def getModelStreamStartTime(self) -> str | None:
        """Models in modelStreamFilePath that are older do not count: "2024-05-31 18:00:00", local time; now if unset. (default None)"""

    def setChunkWait(self, value: float) -> Self:
        """Most seconds that rows wait on their way to the model, and back, to travel together; the job takes the shortest of all its operators. (default 0.01)"""

    def getChunkWait(self) -> float:
        """Most seconds that rows wait on their way to the model, and back, to travel together; the job takes the shortest of all its operators. (default 0.01)"""

    def setChunkRows(self, value: int) -> Self:
        """Most rows that travel together. (default 8000)"""

    def getChunkRows(self) -> int:
        """Most rows that travel together. (default 8000)"""

    def setModelFilePath(self, value: str) -> Self:
        """Path of an .ak file into which the next job writes the trained model. (default None)"""

    def getModelFilePath(self) -> str | None:
        """Path of an .ak file into which the next job writes the trained model. (default None)"""

    def setOverwriteSink(self, value: bool) -> Self:
        """Replace a file that exists; otherwise it is an error. (default False)"""

    def getOverwriteSink(self) -> bool:
        """Replace a file that exists; otherwise it is an error. (default False)"""

class PredictParams(WithParams):
    """Parameters of operators that predict."""

    def __init__(
        self,
        *,
        outputSchemaStr: str = ...,
        schemaStr: str = ...,
        schema: str = ...,
        tableSchema: str = ...,
        outputSignatureDefs: Sequence[str] = ...,
        selectedCols: Sequence[str] = ...,
        selectedColNames: Sequence[str] = ...,
        inputSignatureDefs: Sequence[str] = ...,
        signatureDefKey: str = ...,
        graphDefTag: str = ...,
        reservedCols: Sequence[str] = ...,
        keepColNames: Sequence[str] = ...,
        defaults: str | dict[str, Any] = ...,
        inferBatchSize: int = ...,
        inferBatchBytes: int = ...,
        intraOpParallelism: int = ...,
        errorCol: str = ...,
        cellsHoldBatches: bool = ...,
        pythonEnv: str | Sequence[str] = ...,
        envVars: Sequence[str] = ...,
        gpusPerModel: int = ...,
        inferProcesses: int = ...,
        startTimeout: float = ...,
        stallTimeout: float = ...,
        inferTimeout: float = ...,
        progress: bool = ...,
        MLEnvironmentId: int = ...,
        modelCol: str = ...,
        modelKeyCol: str = ...,
        defaultModel: str = ...,
        modelCacheBytes: int = ...,
    ) -> None: ...
    def setOutputSchemaStr(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getOutputSchemaStr(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setSchemaStr(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setSchema(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getSchema(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setTableSchema(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getTableSchema(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setOutputSignatureDefs(self, value: Sequence[str]) -> Self:
        """The signature's outputs that the columns of outputSchemaStr show, in their order; if unset, the outputs of the same names, or the only output. (default None)"""

    def getOutputSignatureDefs(self) -> list[str] | None:
        """The signature's outputs that the columns of outputSchemaStr show, in their order; if unset, the outputs of the same names, or the only output. (default None)"""

    def setSelectedCols(self, value: Sequence[str]) -> Self:
        """Columns that feed the model; all if unset. (default None)"""

    def getSelectedCols(self) -> list[str] | None:
        """Columns that feed the model; all if unset. (default None)"""

    def setSelectedColNames(self, value: Sequence[str]) -> Self:
        """Columns that feed the model; all if unset. (default None)"""

    def getSelectedColNames(self) -> list[str] | None:
        """Columns that feed the model; all if unset. (default None)"""

    def setInputSignatureDefs(self, value: Sequence[str]) -> Self:
        """The signature's inputs that selectedCols feed, in their order; if unset, the inputs of the same names, or the only input, in which several columns of numbers are stacked. (default None)"""

    def getInputSignatureDefs(self) -> list[str] | None:
        """The signature's inputs that selectedCols feed, in their order; if unset, the inputs of the same names, or the only input, in which several columns of numbers are stacked. (default None)"""

    def setSignatureDefKey(self, value: str) -> Self:
        """Name of the signature. (default 'serving_default')"""

    def getSignatureDefKey(self) -> str:
        """Name of the signature. (default 'serving_default')"""

    def setGraphDefTag(self, value: str) -> Self:
        """Tag of the graph. (default 'serve')"""

    def getGraphDefTag(self) -> str:
        """Tag of the graph. (default 'serve')"""

    def setReservedCols(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getReservedCols(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setKeepColNames(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getKeepColNames(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setDefaults(self, value: str | dict[str, Any]) -> Self:
        """Columns that feed the model, and the value that stands for null in each; in other columns a null is an error of its row. (default '{}')"""

    def getDefaults(self) -> str:
        """Columns that feed the model, and the value that stands for null in each; in other columns a null is an error of its row. (default '{}')"""

    def setInferBatchSize(self, value: int) -> Self:
        """Most rows in one call of the model. (default 256)"""

    def getInferBatchSize(self) -> int:
        """Most rows in one call of the model. (default 256)"""

    def setInferBatchBytes(self, value: int) -> Self:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def getInferBatchBytes(self) -> int:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def setIntraOpParallelism(self, value: int) -> Self:
        """Threads of one operation; TensorFlow's choice if unset. (default None)"""

    def getIntraOpParallelism(self) -> int | None:
        """Threads of one operation; TensorFlow's choice if unset. (default None)"""

    def setErrorCol(self, value: str) -> Self:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def getErrorCol(self) -> str | None:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def setCellsHoldBatches(self, value: bool) -> Self:
        """A cell is a whole tensor with the batch dimension, such as [1, 28, 28, 1], as Alink's SavedModel operators take it. (default False)"""

    def getCellsHoldBatches(self) -> bool:
        """A cell is a whole tensor with the batch dimension, such as [1, 28, 28, 1], as Alink's SavedModel operators take it. (default False)"""

    def setPythonEnv(self, value: str | Sequence[str]) -> Self:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def getPythonEnv(self) -> str | list[str]:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def setEnvVars(self, value: Sequence[str]) -> Self:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def getEnvVars(self) -> list[str]:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def setGpusPerModel(self, value: int) -> Self:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def getGpusPerModel(self) -> int | None:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def setInferProcesses(self, value: int) -> Self:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def getInferProcesses(self) -> int:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def setStartTimeout(self, value: float) -> Self:
        """Seconds within which the process with the model has to have loaded it. (default 300.0)"""

    def getStartTimeout(self) -> float:
        """Seconds within which the process with the model has to have loaded it. (default 300.0)"""

    def setStallTimeout(self, value: float) -> Self:
        """Seconds for which the process with the model may make no progress with a batch, before it is killed and the job fails; 0 for never. (default 600.0)"""

    def getStallTimeout(self) -> float:
        """Seconds for which the process with the model may make no progress with a batch, before it is killed and the job fails; 0 for never. (default 600.0)"""

    def setInferTimeout(self, value: float) -> Self:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def getInferTimeout(self) -> float | None:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def setProgress(self, value: bool) -> Self:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def getProgress(self) -> bool:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

    def setModelCol(self, value: str) -> Self:
        """STRING column with the file or folder of the model that predicted a row. (default None)"""

    def getModelCol(self) -> str | None:
        """STRING column with the file or folder of the model that predicted a row. (default None)"""

    def setModelKeyCol(self, value: str) -> Self:
        """Column of integers or texts, which feeds no model, with the model of each row: a subfolder of modelPath, or a zip or tar file in it. If unset, modelPath is one model. (default None)"""

    def getModelKeyCol(self) -> str | None:
        """Column of integers or texts, which feeds no model, with the model of each row: a subfolder of modelPath, or a zip or tar file in it. If unset, modelPath is one model. (default None)"""

    def setDefaultModel(self, value: str) -> Self:
        """With modelKeyCol: model of rows whose own is missing. (default None)"""

    def getDefaultModel(self) -> str | None:
        """With modelKeyCol: model of rows whose own is missing. (default None)"""

    def setModelCacheBytes(self, value: int) -> Self:
        """With modelKeyCol: most bytes of memory for the loaded models of a host. (default 1073741824)"""

    def getModelCacheBytes(self) -> int:
        """With modelKeyCol: most bytes of memory for the loaded models of a host. (default 1073741824)"""

class SavedModelPredictParams(WithParams):
    """Parameters of operators that predict with a SavedModel."""

    def __init__(
        self,
        *,
        modelPath: str = ...,
        outputSchemaStr: str = ...,
        schemaStr: str = ...,
        schema: str = ...,
        tableSchema: str = ...,
        outputSignatureDefs: Sequence[str] = ...,
        selectedCols: Sequence[str] = ...,
        selectedColNames: Sequence[str] = ...,
        inputSignatureDefs: Sequence[str] = ...,
        signatureDefKey: str = ...,
        graphDefTag: str = ...,
        reservedCols: Sequence[str] = ...,
        keepColNames: Sequence[str] = ...,
        defaults: str | dict[str, Any] = ...,
        inferBatchSize: int = ...,
        inferBatchBytes: int = ...,
        intraOpParallelism: int = ...,
        errorCol: str = ...,
        cellsHoldBatches: bool = ...,
        pythonEnv: str | Sequence[str] = ...,
        envVars: Sequence[str] = ...,
        gpusPerModel: int = ...,
        inferProcesses: int = ...,
        startTimeout: float = ...,
        stallTimeout: float = ...,
        inferTimeout: float = ...,
        progress: bool = ...,
        MLEnvironmentId: int = ...,
        modelCol: str = ...,
        modelKeyCol: str = ...,
        defaultModel: str = ...,
        modelCacheBytes: int = ...,
        resumeDir: str = ...,
        idCol: str = ...,
        candidatePath: str = ...,
        candidateShare: float = ...,
    ) -> None: ...
    def setModelPath(self, value: str) -> Self:
        """Folder of a SavedModel, a zip or tar file of one, or a model table in an .ak file, at any address. (required)"""

    def getModelPath(self) -> str:
        """Folder of a SavedModel, a zip or tar file of one, or a model table in an .ak file, at any address. (required)"""

    def setOutputSchemaStr(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getOutputSchemaStr(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setSchemaStr(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setSchema(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getSchema(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setTableSchema(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getTableSchema(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setOutputSignatureDefs(self, value: Sequence[str]) -> Self:
        """The signature's outputs that the columns of outputSchemaStr show, in their order; if unset, the outputs of the same names, or the only output. (default None)"""

    def getOutputSignatureDefs(self) -> list[str] | None:
        """The signature's outputs that the columns of outputSchemaStr show, in their order; if unset, the outputs of the same names, or the only output. (default None)"""

    def setSelectedCols(self, value: Sequence[str]) -> Self:
        """Columns that feed the model; all if unset. (default None)"""

    def getSelectedCols(self) -> list[str] | None:
        """Columns that feed the model; all if unset. (default None)"""

    def setSelectedColNames(self, value: Sequence[str]) -> Self:
        """Columns that feed the model; all if unset. (default None)"""

    def getSelectedColNames(self) -> list[str] | None:
        """Columns that feed the model; all if unset. (default None)"""

    def setInputSignatureDefs(self, value: Sequence[str]) -> Self:
        """The signature's inputs that selectedCols feed, in their order; if unset, the inputs of the same names, or the only input, in which several columns of numbers are stacked. (default None)"""

    def getInputSignatureDefs(self) -> list[str] | None:
        """The signature's inputs that selectedCols feed, in their order; if unset, the inputs of the same names, or the only input, in which several columns of numbers are stacked. (default None)"""

    def setSignatureDefKey(self, value: str) -> Self:
        """Name of the signature. (default 'serving_default')"""

    def getSignatureDefKey(self) -> str:
        """Name of the signature. (default 'serving_default')"""

    def setGraphDefTag(self, value: str) -> Self:
        """Tag of the graph. (default 'serve')"""

    def getGraphDefTag(self) -> str:
        """Tag of the graph. (default 'serve')"""

    def setReservedCols(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getReservedCols(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setKeepColNames(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getKeepColNames(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setDefaults(self, value: str | dict[str, Any]) -> Self:
        """Columns that feed the model, and the value that stands for null in each; in other columns a null is an error of its row. (default '{}')"""

    def getDefaults(self) -> str:
        """Columns that feed the model, and the value that stands for null in each; in other columns a null is an error of its row. (default '{}')"""

    def setInferBatchSize(self, value: int) -> Self:
        """Most rows in one call of the model. (default 256)"""

    def getInferBatchSize(self) -> int:
        """Most rows in one call of the model. (default 256)"""

    def setInferBatchBytes(self, value: int) -> Self:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def getInferBatchBytes(self) -> int:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def setIntraOpParallelism(self, value: int) -> Self:
        """Threads of one operation; TensorFlow's choice if unset. (default None)"""

    def getIntraOpParallelism(self) -> int | None:
        """Threads of one operation; TensorFlow's choice if unset. (default None)"""

    def setErrorCol(self, value: str) -> Self:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def getErrorCol(self) -> str | None:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def setCellsHoldBatches(self, value: bool) -> Self:
        """A cell is a whole tensor with the batch dimension, such as [1, 28, 28, 1], as Alink's SavedModel operators take it. (default False)"""

    def getCellsHoldBatches(self) -> bool:
        """A cell is a whole tensor with the batch dimension, such as [1, 28, 28, 1], as Alink's SavedModel operators take it. (default False)"""

    def setPythonEnv(self, value: str | Sequence[str]) -> Self:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def getPythonEnv(self) -> str | list[str]:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def setEnvVars(self, value: Sequence[str]) -> Self:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def getEnvVars(self) -> list[str]:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def setGpusPerModel(self, value: int) -> Self:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def getGpusPerModel(self) -> int | None:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def setInferProcesses(self, value: int) -> Self:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def getInferProcesses(self) -> int:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def setStartTimeout(self, value: float) -> Self:
        """Seconds within which the process with the model has to have loaded it. (default 300.0)"""

    def getStartTimeout(self) -> float:
        """Seconds within which the process with the model has to have loaded it. (default 300.0)"""

    def setStallTimeout(self, value: float) -> Self:
        """Seconds for which the process with the model may make no progress with a batch, before it is killed and the job fails; 0 for never. (default 600.0)"""

    def getStallTimeout(self) -> float:
        """Seconds for which the process with the model may make no progress with a batch, before it is killed and the job fails; 0 for never. (default 600.0)"""

    def setInferTimeout(self, value: float) -> Self:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def getInferTimeout(self) -> float | None:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def setProgress(self, value: bool) -> Self:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def getProgress(self) -> bool:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

    def setModelCol(self, value: str) -> Self:
        """STRING column with the file or folder of the model that predicted a row. (default None)"""

    def getModelCol(self) -> str | None:
        """STRING column with the file or folder of the model that predicted a row. (default None)"""

    def setModelKeyCol(self, value: str) -> Self:
        """Column of integers or texts, which feeds no model, with the model of each row: a subfolder of modelPath, or a zip or tar file in it. If unset, modelPath is one model. (default None)"""

    def getModelKeyCol(self) -> str | None:
        """Column of integers or texts, which feeds no model, with the model of each row: a subfolder of modelPath, or a zip or tar file in it. If unset, modelPath is one model. (default None)"""

    def setDefaultModel(self, value: str) -> Self:
        """With modelKeyCol: model of rows whose own is missing. (default None)"""

    def getDefaultModel(self) -> str | None:
        """With modelKeyCol: model of rows whose own is missing. (default None)"""

    def setModelCacheBytes(self, value: int) -> Self:
        """With modelKeyCol: most bytes of memory for the loaded models of a host. (default 1073741824)"""

    def getModelCacheBytes(self) -> int:
        """With modelKeyCol: most bytes of memory for the loaded models of a host. (default 1073741824)"""

    def setResumeDir(self, value: str) -> Self:
        """Folder that hosts and this program reach, or an address of a storage, which keeps predictions for the next run after a failure; needs idCol. (default None)"""

    def getResumeDir(self) -> str | None:
        """Folder that hosts and this program reach, or an address of a storage, which keeps predictions for the next run after a failure; needs idCol. (default None)"""

    def setIdCol(self, value: str) -> Self:
        """With resumeDir: column of integers or texts whose values tell rows apart. (default None)"""

    def getIdCol(self) -> str | None:
        """With resumeDir: column of integers or texts whose values tell rows apart. (default None)"""

    def setCandidatePath(self, value: str) -> Self:
        """SavedModel that predicts a share of the rows too, for columns `shadow_NAME`: a folder or archive that all hosts reach. (default None)"""

    def getCandidatePath(self) -> str | None:
        """SavedModel that predicts a share of the rows too, for columns `shadow_NAME`: a folder or archive that all hosts reach. (default None)"""

    def setCandidateShare(self, value: float) -> Self:
        """Share of the rows that both models predict. (default 0.1)"""

    def getCandidateShare(self) -> float:
        """Share of the rows that both models predict. (default 0.1)"""

class PredictStreamParams(WithParams):
    """Parameters of operators that predict a stream."""

    def __init__(
        self,
        *,
        outputSchemaStr: str = ...,
        schemaStr: str = ...,
        schema: str = ...,
        tableSchema: str = ...,
        outputSignatureDefs: Sequence[str] = ...,
        selectedCols: Sequence[str] = ...,
        selectedColNames: Sequence[str] = ...,
        inputSignatureDefs: Sequence[str] = ...,
        signatureDefKey: str = ...,
        graphDefTag: str = ...,
        reservedCols: Sequence[str] = ...,
        keepColNames: Sequence[str] = ...,
        defaults: str | dict[str, Any] = ...,
        inferBatchSize: int = ...,
        inferBatchBytes: int = ...,
        intraOpParallelism: int = ...,
        errorCol: str = ...,
        cellsHoldBatches: bool = ...,
        pythonEnv: str | Sequence[str] = ...,
        envVars: Sequence[str] = ...,
        gpusPerModel: int = ...,
        inferProcesses: int = ...,
        startTimeout: float = ...,
        stallTimeout: float = ...,
        inferTimeout: float = ...,
        progress: bool = ...,
        MLEnvironmentId: int = ...,
        modelCol: str = ...,
        modelKeyCol: str = ...,
        defaultModel: str = ...,
        modelCacheBytes: int = ...,
        modelFilePath: str = ...,
        modelStreamFilePath: str = ...,
        modelStreamScanInterval: float = ...,
        modelStreamStartTime: str = ...,
        chunkWait: float = ...,
        chunkRows: int = ...,
    ) -> None: ...
    def setOutputSchemaStr(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getOutputSchemaStr(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setSchemaStr(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setSchema(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getSchema(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setTableSchema(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getTableSchema(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setOutputSignatureDefs(self, value: Sequence[str]) -> Self:
        """The signature's outputs that the columns of outputSchemaStr show, in their order; if unset, the outputs of the same names, or the only output. (default None)"""

    def getOutputSignatureDefs(self) -> list[str] | None:
        """The signature's outputs that the columns of outputSchemaStr show, in their order; if unset, the outputs of the same names, or the only output. (default None)"""

    def setSelectedCols(self, value: Sequence[str]) -> Self:
        """Columns that feed the model; all if unset. (default None)"""

    def getSelectedCols(self) -> list[str] | None:
        """Columns that feed the model; all if unset. (default None)"""

    def setSelectedColNames(self, value: Sequence[str]) -> Self:
        """Columns that feed the model; all if unset. (default None)"""

    def getSelectedColNames(self) -> list[str] | None:
        """Columns that feed the model; all if unset. (default None)"""

    def setInputSignatureDefs(self, value: Sequence[str]) -> Self:
        """The signature's inputs that selectedCols feed, in their order; if unset, the inputs of the same names, or the only input, in which several columns of numbers are stacked. (default None)"""

    def getInputSignatureDefs(self) -> list[str] | None:
        """The signature's inputs that selectedCols feed, in their order; if unset, the inputs of the same names, or the only input, in which several columns of numbers are stacked. (default None)"""

    def setSignatureDefKey(self, value: str) -> Self:
        """Name of the signature. (default 'serving_default')"""

    def getSignatureDefKey(self) -> str:
        """Name of the signature. (default 'serving_default')"""

    def setGraphDefTag(self, value: str) -> Self:
        """Tag of the graph. (default 'serve')"""

    def getGraphDefTag(self) -> str:
        """Tag of the graph. (default 'serve')"""

    def setReservedCols(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getReservedCols(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setKeepColNames(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getKeepColNames(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setDefaults(self, value: str | dict[str, Any]) -> Self:
        """Columns that feed the model, and the value that stands for null in each; in other columns a null is an error of its row. (default '{}')"""

    def getDefaults(self) -> str:
        """Columns that feed the model, and the value that stands for null in each; in other columns a null is an error of its row. (default '{}')"""

    def setInferBatchSize(self, value: int) -> Self:
        """Most rows in one call of the model. (default 256)"""

    def getInferBatchSize(self) -> int:
        """Most rows in one call of the model. (default 256)"""

    def setInferBatchBytes(self, value: int) -> Self:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def getInferBatchBytes(self) -> int:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def setIntraOpParallelism(self, value: int) -> Self:
        """Threads of one operation; TensorFlow's choice if unset. (default None)"""

    def getIntraOpParallelism(self) -> int | None:
        """Threads of one operation; TensorFlow's choice if unset. (default None)"""

    def setErrorCol(self, value: str) -> Self:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def getErrorCol(self) -> str | None:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def setCellsHoldBatches(self, value: bool) -> Self:
        """A cell is a whole tensor with the batch dimension, such as [1, 28, 28, 1], as Alink's SavedModel operators take it. (default False)"""

    def getCellsHoldBatches(self) -> bool:
        """A cell is a whole tensor with the batch dimension, such as [1, 28, 28, 1], as Alink's SavedModel operators take it. (default False)"""

    def setPythonEnv(self, value: str | Sequence[str]) -> Self:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def getPythonEnv(self) -> str | list[str]:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def setEnvVars(self, value: Sequence[str]) -> Self:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def getEnvVars(self) -> list[str]:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def setGpusPerModel(self, value: int) -> Self:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def getGpusPerModel(self) -> int | None:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def setInferProcesses(self, value: int) -> Self:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def getInferProcesses(self) -> int:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def setStartTimeout(self, value: float) -> Self:
        """Seconds within which the process with the model has to have loaded it. (default 300.0)"""

    def getStartTimeout(self) -> float:
        """Seconds within which the process with the model has to have loaded it. (default 300.0)"""

    def setStallTimeout(self, value: float) -> Self:
        """Seconds for which the process with the model may make no progress with a batch, before it is killed and the job fails; 0 for never. (default 600.0)"""

    def getStallTimeout(self) -> float:
        """Seconds for which the process with the model may make no progress with a batch, before it is killed and the job fails; 0 for never. (default 600.0)"""

    def setInferTimeout(self, value: float) -> Self:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def getInferTimeout(self) -> float | None:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def setProgress(self, value: bool) -> Self:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def getProgress(self) -> bool:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

    def setModelCol(self, value: str) -> Self:
        """STRING column with the file or folder of the model that predicted a row. (default None)"""

    def getModelCol(self) -> str | None:
        """STRING column with the file or folder of the model that predicted a row. (default None)"""

    def setModelKeyCol(self, value: str) -> Self:
        """Column of integers or texts, which feeds no model, with the model of each row: a subfolder of modelPath, or a zip or tar file in it. If unset, modelPath is one model. (default None)"""

    def getModelKeyCol(self) -> str | None:
        """Column of integers or texts, which feeds no model, with the model of each row: a subfolder of modelPath, or a zip or tar file in it. If unset, modelPath is one model. (default None)"""

    def setDefaultModel(self, value: str) -> Self:
        """With modelKeyCol: model of rows whose own is missing. (default None)"""

    def getDefaultModel(self) -> str | None:
        """With modelKeyCol: model of rows whose own is missing. (default None)"""

    def setModelCacheBytes(self, value: int) -> Self:
        """With modelKeyCol: most bytes of memory for the loaded models of a host. (default 1073741824)"""

    def getModelCacheBytes(self) -> int:
        """With modelKeyCol: most bytes of memory for the loaded models of a host. (default 1073741824)"""

    def setModelFilePath(self, value: str) -> Self:
        """Address of an .ak file with a model, or of a SavedModel. (default None)"""

    def getModelFilePath(self) -> str | None:
        """Address of an .ak file with a model, or of a SavedModel. (default None)"""

    def setModelStreamFilePath(self, value: str) -> Self:
        """Folder in which newer models appear, as SavedModel folders or zip or tar files of them; the newest takes over. Every host has to have it. (default None)"""

    def getModelStreamFilePath(self) -> str | None:
        """Folder in which newer models appear, as SavedModel folders or zip or tar files of them; the newest takes over. Every host has to have it. (default None)"""

    def setModelStreamScanInterval(self, value: float) -> Self:
        """Seconds between looks into modelStreamFilePath. (default 10.0)"""

    def getModelStreamScanInterval(self) -> float:
        """Seconds between looks into modelStreamFilePath. (default 10.0)"""

    def setModelStreamStartTime(self, value: str) -> Self:
        """Models in modelStreamFilePath that are older do not count: "2024-05-31 18:00:00", local time; now if unset. (default None)"""

    def getModelStreamStartTime(self) -> str | None:
        """Models in modelStreamFilePath that are older do not count: "2024-05-31 18:00:00", local time; now if unset. (default None)"""

    def setChunkWait(self, value: float) -> Self:
        """Most seconds that rows wait on their way to the model, and back, to travel together; the job takes the shortest of all its operators. (default 0.01)"""

    def getChunkWait(self) -> float:
        """Most seconds that rows wait on their way to the model, and back, to travel together; the job takes the shortest of all its operators. (default 0.01)"""

    def setChunkRows(self, value: int) -> Self:
        """Most rows that travel together. (default 8000)"""

    def getChunkRows(self) -> int:
        """Most rows that travel together. (default 8000)"""

class SavedModelPredictStreamParams(WithParams):
    """Parameters of operators that predict a stream with a SavedModel."""

    def __init__(
        self,
        *,
        modelPath: str = ...,
        outputSchemaStr: str = ...,
        schemaStr: str = ...,
        schema: str = ...,
        tableSchema: str = ...,
        outputSignatureDefs: Sequence[str] = ...,
        selectedCols: Sequence[str] = ...,
        selectedColNames: Sequence[str] = ...,
        inputSignatureDefs: Sequence[str] = ...,
        signatureDefKey: str = ...,
        graphDefTag: str = ...,
        reservedCols: Sequence[str] = ...,
        keepColNames: Sequence[str] = ...,
        defaults: str | dict[str, Any] = ...,
        inferBatchSize: int = ...,
        inferBatchBytes: int = ...,
        intraOpParallelism: int = ...,
        errorCol: str = ...,
        cellsHoldBatches: bool = ...,
        pythonEnv: str | Sequence[str] = ...,
        envVars: Sequence[str] = ...,
        gpusPerModel: int = ...,
        inferProcesses: int = ...,
        startTimeout: float = ...,
        stallTimeout: float = ...,
        inferTimeout: float = ...,
        progress: bool = ...,
        MLEnvironmentId: int = ...,
        modelCol: str = ...,
        modelKeyCol: str = ...,
        defaultModel: str = ...,
        modelCacheBytes: int = ...,
        candidatePath: str = ...,
        candidateShare: float = ...,
        modelStreamFilePath: str = ...,
        modelStreamScanInterval: float = ...,
        modelStreamStartTime: str = ...,
        chunkWait: float = ...,
        chunkRows: int = ...,
    ) -> None: ...
    def setModelPath(self, value: str) -> Self:
        """Folder of a SavedModel, a zip or tar file of one, or a model table in an .ak file, at any address. (required)"""

    def getModelPath(self) -> str:
        """Folder of a SavedModel, a zip or tar file of one, or a model table in an .ak file, at any address. (required)"""

    def setOutputSchemaStr(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getOutputSchemaStr(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setSchemaStr(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setSchema(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getSchema(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setTableSchema(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getTableSchema(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setOutputSignatureDefs(self, value: Sequence[str]) -> Self:
        """The signature's outputs that the columns of outputSchemaStr show, in their order; if unset, the outputs of the same names, or the only output. (default None)"""

    def getOutputSignatureDefs(self) -> list[str] | None:
        """The signature's outputs that the columns of outputSchemaStr show, in their order; if unset, the outputs of the same names, or the only output. (default None)"""

    def setSelectedCols(self, value: Sequence[str]) -> Self:
        """Columns that feed the model; all if unset. (default None)"""

    def getSelectedCols(self) -> list[str] | None:
        """Columns that feed the model; all if unset. (default None)"""

    def setSelectedColNames(self, value: Sequence[str]) -> Self:
        """Columns that feed the model; all if unset. (default None)"""

    def getSelectedColNames(self) -> list[str] | None:
        """Columns that feed the model; all if unset. (default None)"""

    def setInputSignatureDefs(self, value: Sequence[str]) -> Self:
        """The signature's inputs that selectedCols feed, in their order; if unset, the inputs of the same names, or the only input, in which several columns of numbers are stacked. (default None)"""

    def getInputSignatureDefs(self) -> list[str] | None:
        """The signature's inputs that selectedCols feed, in their order; if unset, the inputs of the same names, or the only input, in which several columns of numbers are stacked. (default None)"""

    def setSignatureDefKey(self, value: str) -> Self:
        """Name of the signature. (default 'serving_default')"""

    def getSignatureDefKey(self) -> str:
        """Name of the signature. (default 'serving_default')"""

    def setGraphDefTag(self, value: str) -> Self:
        """Tag of the graph. (default 'serve')"""

    def getGraphDefTag(self) -> str:
        """Tag of the graph. (default 'serve')"""

    def setReservedCols(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getReservedCols(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setKeepColNames(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getKeepColNames(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setDefaults(self, value: str | dict[str, Any]) -> Self:
        """Columns that feed the model, and the value that stands for null in each; in other columns a null is an error of its row. (default '{}')"""

    def getDefaults(self) -> str:
        """Columns that feed the model, and the value that stands for null in each; in other columns a null is an error of its row. (default '{}')"""

    def setInferBatchSize(self, value: int) -> Self:
        """Most rows in one call of the model. (default 256)"""

    def getInferBatchSize(self) -> int:
        """Most rows in one call of the model. (default 256)"""

    def setInferBatchBytes(self, value: int) -> Self:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def getInferBatchBytes(self) -> int:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def setIntraOpParallelism(self, value: int) -> Self:
        """Threads of one operation; TensorFlow's choice if unset. (default None)"""

    def getIntraOpParallelism(self) -> int | None:
        """Threads of one operation; TensorFlow's choice if unset. (default None)"""

    def setErrorCol(self, value: str) -> Self:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def getErrorCol(self) -> str | None:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def setCellsHoldBatches(self, value: bool) -> Self:
        """A cell is a whole tensor with the batch dimension, such as [1, 28, 28, 1], as Alink's SavedModel operators take it. (default False)"""

    def getCellsHoldBatches(self) -> bool:
        """A cell is a whole tensor with the batch dimension, such as [1, 28, 28, 1], as Alink's SavedModel operators take it. (default False)"""

    def setPythonEnv(self, value: str | Sequence[str]) -> Self:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def getPythonEnv(self) -> str | list[str]:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def setEnvVars(self, value: Sequence[str]) -> Self:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def getEnvVars(self) -> list[str]:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def setGpusPerModel(self, value: int) -> Self:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def getGpusPerModel(self) -> int | None:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def setInferProcesses(self, value: int) -> Self:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def getInferProcesses(self) -> int:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def setStartTimeout(self, value: float) -> Self:
        """Seconds within which the process with the model has to have loaded it. (default 300.0)"""

    def getStartTimeout(self) -> float:
        """Seconds within which the process with the model has to have loaded it. (default 300.0)"""

    def setStallTimeout(self, value: float) -> Self:
        """Seconds for which the process with the model may make no progress with a batch, before it is killed and the job fails; 0 for never. (default 600.0)"""

    def getStallTimeout(self) -> float:
        """Seconds for which the process with the model may make no progress with a batch, before it is killed and the job fails; 0 for never. (default 600.0)"""

    def setInferTimeout(self, value: float) -> Self:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def getInferTimeout(self) -> float | None:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def setProgress(self, value: bool) -> Self:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def getProgress(self) -> bool:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

    def setModelCol(self, value: str) -> Self:
        """STRING column with the file or folder of the model that predicted a row. (default None)"""

    def getModelCol(self) -> str | None:
        """STRING column with the file or folder of the model that predicted a row. (default None)"""

    def setModelKeyCol(self, value: str) -> Self:
        """Column of integers or texts, which feeds no model, with the model of each row: a subfolder of modelPath, or a zip or tar file in it. If unset, modelPath is one model. (default None)"""

    def getModelKeyCol(self) -> str | None:
        """Column of integers or texts, which feeds no model, with the model of each row: a subfolder of modelPath, or a zip or tar file in it. If unset, modelPath is one model. (default None)"""

    def setDefaultModel(self, value: str) -> Self:
        """With modelKeyCol: model of rows whose own is missing. (default None)"""

    def getDefaultModel(self) -> str | None:
        """With modelKeyCol: model of rows whose own is missing. (default None)"""

    def setModelCacheBytes(self, value: int) -> Self:
        """With modelKeyCol: most bytes of memory for the loaded models of a host. (default 1073741824)"""

    def getModelCacheBytes(self) -> int:
        """With modelKeyCol: most bytes of memory for the loaded models of a host. (default 1073741824)"""

    def setCandidatePath(self, value: str) -> Self:
        """SavedModel that predicts a share of the rows too, for columns `shadow_NAME`: a folder or archive that all hosts reach. (default None)"""

    def getCandidatePath(self) -> str | None:
        """SavedModel that predicts a share of the rows too, for columns `shadow_NAME`: a folder or archive that all hosts reach. (default None)"""

    def setCandidateShare(self, value: float) -> Self:
        """Share of the rows that both models predict. (default 0.1)"""

    def getCandidateShare(self) -> float:
        """Share of the rows that both models predict. (default 0.1)"""

    def setModelStreamFilePath(self, value: str) -> Self:
        """Folder in which newer models appear, as SavedModel folders or zip or tar files of them; the newest takes over. Every host has to have it. (default None)"""

    def getModelStreamFilePath(self) -> str | None:
        """Folder in which newer models appear, as SavedModel folders or zip or tar files of them; the newest takes over. Every host has to have it. (default None)"""

    def setModelStreamScanInterval(self, value: float) -> Self:
        """Seconds between looks into modelStreamFilePath. (default 10.0)"""

    def getModelStreamScanInterval(self) -> float:
        """Seconds between looks into modelStreamFilePath. (default 10.0)"""

    def setModelStreamStartTime(self, value: str) -> Self:
        """Models in modelStreamFilePath that are older do not count: "2024-05-31 18:00:00", local time; now if unset. (default None)"""

    def getModelStreamStartTime(self) -> str | None:
        """Models in modelStreamFilePath that are older do not count: "2024-05-31 18:00:00", local time; now if unset. (default None)"""

    def setChunkWait(self, value: float) -> Self:
        """Most seconds that rows wait on their way to the model, and back, to travel together; the job takes the shortest of all its operators. (default 0.01)"""

    def getChunkWait(self) -> float:
        """Most seconds that rows wait on their way to the model, and back, to travel together; the job takes the shortest of all its operators. (default 0.01)"""

    def setChunkRows(self, value: int) -> Self:
        """Most rows that travel together. (default 8000)"""

    def getChunkRows(self) -> int:
        """Most rows that travel together. (default 8000)"""

class FunctionPredictParams(WithParams):
    """Parameters of operators that predict with a function."""

    def __init__(
        self,
        *,
        predictFn: str | Callable[..., Any] = ...,
        userFiles: Sequence[str] | str = ...,
        userFile: Sequence[str] | str = ...,
        scriptFiles: Sequence[str] | str = ...,
        userParams: str | dict[str, Any] = ...,
        outputSchemaStr: str = ...,
        schemaStr: str = ...,
        schema: str = ...,
        tableSchema: str = ...,
        selectedCols: Sequence[str] = ...,
        selectedColNames: Sequence[str] = ...,
        reservedCols: Sequence[str] = ...,
        keepColNames: Sequence[str] = ...,
        defaults: str | dict[str, Any] = ...,
        inferBatchSize: int = ...,
        inferBatchBytes: int = ...,
        errorCol: str = ...,
        pythonEnv: str | Sequence[str] = ...,
        envVars: Sequence[str] = ...,
        gpusPerModel: int = ...,
        inferProcesses: int = ...,
        startTimeout: float = ...,
        stallTimeout: float = ...,
        inferTimeout: float = ...,
        progress: bool = ...,
        MLEnvironmentId: int = ...,
        modelCol: str = ...,
        resumeDir: str = ...,
        idCol: str = ...,
    ) -> None: ...
    def setPredictFn(self, value: str | Callable[..., Any]) -> Self:
        """A function, as "score.py:load", that is called once in each process, with userParams as arguments, and returns `predict(batch)`, from a dict of arrays by column to a dict of the outputs; or the function itself, which travels as source with the imports, functions and plain values that it uses. (required)"""

    def getPredictFn(self) -> str | FunctionScript:
        """A function, as "score.py:load", that is called once in each process, with userParams as arguments, and returns `predict(batch)`, from a dict of arrays by column to a dict of the outputs; or the function itself, which travels as source with the imports, functions and plain values that it uses. (required)"""

    def setUserFiles(self, value: Sequence[str] | str) -> Self:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def getUserFiles(self) -> list[str]:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def setUserFile(self, value: Sequence[str] | str) -> Self:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def getUserFile(self) -> list[str]:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def setScriptFiles(self, value: Sequence[str] | str) -> Self:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def getScriptFiles(self) -> list[str]:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def setUserParams(self, value: str | dict[str, Any]) -> Self:
        """Arguments of the function by name: a JSON object. (default '{}')"""

    def getUserParams(self) -> str:
        """Arguments of the function by name: a JSON object. (default '{}')"""

    def setOutputSchemaStr(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getOutputSchemaStr(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setSchemaStr(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setSchema(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getSchema(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setTableSchema(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getTableSchema(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setSelectedCols(self, value: Sequence[str]) -> Self:
        """Columns that feed the model; all if unset. (default None)"""

    def getSelectedCols(self) -> list[str] | None:
        """Columns that feed the model; all if unset. (default None)"""

    def setSelectedColNames(self, value: Sequence[str]) -> Self:
        """Columns that feed the model; all if unset. (default None)"""

    def getSelectedColNames(self) -> list[str] | None:
        """Columns that feed the model; all if unset. (default None)"""

    def setReservedCols(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getReservedCols(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setKeepColNames(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getKeepColNames(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setDefaults(self, value: str | dict[str, Any]) -> Self:
        """Columns that feed the model, and the value that stands for null in each; in other columns a null is an error of its row. (default '{}')"""

    def getDefaults(self) -> str:
        """Columns that feed the model, and the value that stands for null in each; in other columns a null is an error of its row. (default '{}')"""

    def setInferBatchSize(self, value: int) -> Self:
        """Most rows in one call of the model. (default 256)"""

    def getInferBatchSize(self) -> int:
        """Most rows in one call of the model. (default 256)"""

    def setInferBatchBytes(self, value: int) -> Self:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def getInferBatchBytes(self) -> int:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def setErrorCol(self, value: str) -> Self:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def getErrorCol(self) -> str | None:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def setPythonEnv(self, value: str | Sequence[str]) -> Self:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def getPythonEnv(self) -> str | list[str]:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def setEnvVars(self, value: Sequence[str]) -> Self:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def getEnvVars(self) -> list[str]:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def setGpusPerModel(self, value: int) -> Self:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def getGpusPerModel(self) -> int | None:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def setInferProcesses(self, value: int) -> Self:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def getInferProcesses(self) -> int:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def setStartTimeout(self, value: float) -> Self:
        """Seconds within which the process with the model has to have loaded it. (default 300.0)"""

    def getStartTimeout(self) -> float:
        """Seconds within which the process with the model has to have loaded it. (default 300.0)"""

    def setStallTimeout(self, value: float) -> Self:
        """Seconds for which the process with the model may make no progress with a batch, before it is killed and the job fails; 0 for never. (default 600.0)"""

    def getStallTimeout(self) -> float:
        """Seconds for which the process with the model may make no progress with a batch, before it is killed and the job fails; 0 for never. (default 600.0)"""

    def setInferTimeout(self, value: float) -> Self:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def getInferTimeout(self) -> float | None:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def setProgress(self, value: bool) -> Self:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def getProgress(self) -> bool:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

    def setModelCol(self, value: str) -> Self:
        """STRING column with the file or folder of the model that predicted a row. (default None)"""

    def getModelCol(self) -> str | None:
        """STRING column with the file or folder of the model that predicted a row. (default None)"""

    def setResumeDir(self, value: str) -> Self:
        """Folder that hosts and this program reach, or an address of a storage, which keeps predictions for the next run after a failure; needs idCol. (default None)"""

    def getResumeDir(self) -> str | None:
        """Folder that hosts and this program reach, or an address of a storage, which keeps predictions for the next run after a failure; needs idCol. (default None)"""

    def setIdCol(self, value: str) -> Self:
        """With resumeDir: column of integers or texts whose values tell rows apart. (default None)"""

    def getIdCol(self) -> str | None:
        """With resumeDir: column of integers or texts whose values tell rows apart. (default None)"""

class FunctionPredictStreamParams(WithParams):
    """Parameters of operators that predict a stream with a function."""

    def __init__(
        self,
        *,
        predictFn: str | Callable[..., Any] = ...,
        userFiles: Sequence[str] | str = ...,
        userFile: Sequence[str] | str = ...,
        scriptFiles: Sequence[str] | str = ...,
        userParams: str | dict[str, Any] = ...,
        outputSchemaStr: str = ...,
        schemaStr: str = ...,
        schema: str = ...,
        tableSchema: str = ...,
        selectedCols: Sequence[str] = ...,
        selectedColNames: Sequence[str] = ...,
        reservedCols: Sequence[str] = ...,
        keepColNames: Sequence[str] = ...,
        defaults: str | dict[str, Any] = ...,
        inferBatchSize: int = ...,
        inferBatchBytes: int = ...,
        errorCol: str = ...,
        pythonEnv: str | Sequence[str] = ...,
        envVars: Sequence[str] = ...,
        gpusPerModel: int = ...,
        inferProcesses: int = ...,
        startTimeout: float = ...,
        stallTimeout: float = ...,
        inferTimeout: float = ...,
        progress: bool = ...,
        MLEnvironmentId: int = ...,
        modelCol: str = ...,
        chunkWait: float = ...,
        chunkRows: int = ...,
    ) -> None: ...
    def setPredictFn(self, value: str | Callable[..., Any]) -> Self:
        """A function, as "score.py:load", that is called once in each process, with userParams as arguments, and returns `predict(batch)`, from a dict of arrays by column to a dict of the outputs; or the function itself, which travels as source with the imports, functions and plain values that it uses. (required)"""

    def getPredictFn(self) -> str | FunctionScript:
        """A function, as "score.py:load", that is called once in each process, with userParams as arguments, and returns `predict(batch)`, from a dict of arrays by column to a dict of the outputs; or the function itself, which travels as source with the imports, functions and plain values that it uses. (required)"""

    def setUserFiles(self, value: Sequence[str] | str) -> Self:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def getUserFiles(self) -> list[str]:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def setUserFile(self, value: Sequence[str] | str) -> Self:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def getUserFile(self) -> list[str]:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def setScriptFiles(self, value: Sequence[str] | str) -> Self:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def getScriptFiles(self) -> list[str]:
        """Paths of the files that the script needs; the script may be among them. (default ())"""

    def setUserParams(self, value: str | dict[str, Any]) -> Self:
        """Arguments of the function by name: a JSON object. (default '{}')"""

    def getUserParams(self) -> str:
        """Arguments of the function by name: a JSON object. (default '{}')"""

    def setOutputSchemaStr(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getOutputSchemaStr(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setSchemaStr(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setSchema(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getSchema(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setTableSchema(self, value: str) -> Self:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def getTableSchema(self) -> str:
        """Columns that show the outputs of the model: "name type, name type". (required)"""

    def setSelectedCols(self, value: Sequence[str]) -> Self:
        """Columns that feed the model; all if unset. (default None)"""

    def getSelectedCols(self) -> list[str] | None:
        """Columns that feed the model; all if unset. (default None)"""

    def setSelectedColNames(self, value: Sequence[str]) -> Self:
        """Columns that feed the model; all if unset. (default None)"""

    def getSelectedColNames(self) -> list[str] | None:
        """Columns that feed the model; all if unset. (default None)"""

    def setReservedCols(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getReservedCols(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setKeepColNames(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getKeepColNames(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setDefaults(self, value: str | dict[str, Any]) -> Self:
        """Columns that feed the model, and the value that stands for null in each; in other columns a null is an error of its row. (default '{}')"""

    def getDefaults(self) -> str:
        """Columns that feed the model, and the value that stands for null in each; in other columns a null is an error of its row. (default '{}')"""

    def setInferBatchSize(self, value: int) -> Self:
        """Most rows in one call of the model. (default 256)"""

    def getInferBatchSize(self) -> int:
        """Most rows in one call of the model. (default 256)"""

    def setInferBatchBytes(self, value: int) -> Self:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def getInferBatchBytes(self) -> int:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def setErrorCol(self, value: str) -> Self:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def getErrorCol(self) -> str | None:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def setPythonEnv(self, value: str | Sequence[str]) -> Self:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def getPythonEnv(self) -> str | list[str]:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def setEnvVars(self, value: Sequence[str]) -> Self:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def getEnvVars(self) -> list[str]:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def setGpusPerModel(self, value: int) -> Self:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def getGpusPerModel(self) -> int | None:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def setInferProcesses(self, value: int) -> Self:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def getInferProcesses(self) -> int:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def setStartTimeout(self, value: float) -> Self:
        """Seconds within which the process with the model has to have loaded it. (default 300.0)"""

    def getStartTimeout(self) -> float:
        """Seconds within which the process with the model has to have loaded it. (default 300.0)"""

    def setStallTimeout(self, value: float) -> Self:
        """Seconds for which the process with the model may make no progress with a batch, before it is killed and the job fails; 0 for never. (default 600.0)"""

    def getStallTimeout(self) -> float:
        """Seconds for which the process with the model may make no progress with a batch, before it is killed and the job fails; 0 for never. (default 600.0)"""

    def setInferTimeout(self, value: float) -> Self:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def getInferTimeout(self) -> float | None:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def setProgress(self, value: bool) -> Self:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def getProgress(self) -> bool:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

    def setModelCol(self, value: str) -> Self:
        """STRING column with the file or folder of the model that predicted a row. (default None)"""

    def getModelCol(self) -> str | None:
        """STRING column with the file or folder of the model that predicted a row. (default None)"""

    def setChunkWait(self, value: float) -> Self:
        """Most seconds that rows wait on their way to the model, and back, to travel together; the job takes the shortest of all its operators. (default 0.01)"""

    def getChunkWait(self) -> float:
        """Most seconds that rows wait on their way to the model, and back, to travel together; the job takes the shortest of all its operators. (default 0.01)"""

    def setChunkRows(self, value: int) -> Self:
        """Most rows that travel together. (default 8000)"""

    def getChunkRows(self) -> int:
        """Most rows that travel together. (default 8000)"""

class KerasTrainParams(WithParams):
    """Parameters of operators that train a Keras model of layers."""

    def __init__(
        self,
        *,
        tensorCol: str = ...,
        labelCol: str = ...,
        layers: Sequence[str] = ...,
        optimizer: str = ...,
        learningRate: float = ...,
        numEpochs: int = ...,
        batchSize: int = ...,
        validationSplit: float = ...,
        saveBestOnly: bool = ...,
        bestMetric: str = ...,
        saveCheckpointsEpochs: float = ...,
        saveCheckpointsSecs: float = ...,
        checkpointFilePath: str = ...,
        removeCheckpointBeforeTraining: bool = ...,
        seed: int = ...,
        numWorkers: int = ...,
        numPSs: int = ...,
        pythonEnv: str | Sequence[str] = ...,
        envVars: Sequence[str] = ...,
        intraOpParallelism: int = ...,
        hostNetwork: str = ...,
        groupTls: bool = ...,
        gpusPerWorker: int = ...,
        startTimeout: float = ...,
        stallTimeout: float = ...,
        progress: bool = ...,
        logDir: str = ...,
        modelDir: str = ...,
        MLEnvironmentId: int = ...,
    ) -> None: ...
    def setTensorCol(self, value: str) -> Self:
        """ARRAY column of numbers that feeds the model; all cells have one length. (required)"""

    def getTensorCol(self) -> str:
        """ARRAY column of numbers that feeds the model; all cells have one length. (required)"""

    def setLabelCol(self, value: str) -> Self:
        """Column with what the model learns. (required)"""

    def getLabelCol(self) -> str:
        """Column with what the model learns. (required)"""

    def setLayers(self, value: Sequence[str]) -> Self:
        """Layers as text, such as ["Dense(64, activation='relu')"]: names of tf.keras.layers with literals. The output layer is added. (required)"""

    def getLayers(self) -> list[str]:
        """Layers as text, such as ["Dense(64, activation='relu')"]: names of tf.keras.layers with literals. The output layer is added. (required)"""

    def setOptimizer(self, value: str) -> Self:
        """Optimizer of tf.keras.optimizers as text, such as "Adam(0.01)". (default 'Adam()')"""

    def getOptimizer(self) -> str:
        """Optimizer of tf.keras.optimizers as text, such as "Adam(0.01)". (default 'Adam()')"""

    def setLearningRate(self, value: float) -> Self:
        """Learning rate, unless the optimizer's text sets it. (default None)"""

    def getLearningRate(self) -> float | None:
        """Learning rate, unless the optimizer's text sets it. (default None)"""

    def setNumEpochs(self, value: int) -> Self:
        """Passes over the rows. (default 10)"""

    def getNumEpochs(self) -> int:
        """Passes over the rows. (default 10)"""

    def setBatchSize(self, value: int) -> Self:
        """Rows in a step of all workers together. (default 128)"""

    def getBatchSize(self) -> int:
        """Rows in a step of all workers together. (default 128)"""

    def setValidationSplit(self, value: float) -> Self:
        """Leading fraction of the rows, for evaluation; with one worker. (default 0.0)"""

    def getValidationSplit(self) -> float:
        """Leading fraction of the rows, for evaluation; with one worker. (default 0.0)"""

    def setSaveBestOnly(self, value: bool) -> Self:
        """Keep the best model by bestMetric; needs validationSplit. (default False)"""

    def getSaveBestOnly(self) -> bool:
        """Keep the best model by bestMetric; needs validationSplit. (default False)"""

    def setBestMetric(self, value: str) -> Self:
        """Metric of the validation rows for saveBestOnly, such as "auc". (default 'loss')"""

    def getBestMetric(self) -> str:
        """Metric of the validation rows for saveBestOnly, such as "auc". (default 'loss')"""

    def setSaveCheckpointsEpochs(self, value: float) -> Self:
        """Epochs between checkpoints, rounded, at least 1. (default 1.0)"""

    def getSaveCheckpointsEpochs(self) -> float:
        """Epochs between checkpoints, rounded, at least 1. (default 1.0)"""

    def setSaveCheckpointsSecs(self, value: float) -> Self:
        """Seconds between checkpoints; with one worker. (default None)"""

    def getSaveCheckpointsSecs(self) -> float | None:
        """Seconds between checkpoints; with one worker. (default None)"""

    def setCheckpointFilePath(self, value: str) -> Self:
        """Folder for the latest checkpoint, for all hosts. (default None)"""

    def getCheckpointFilePath(self) -> str | None:
        """Folder for the latest checkpoint, for all hosts. (default None)"""

    def setRemoveCheckpointBeforeTraining(self, value: bool) -> Self:
        """Start from scratch, not from the checkpoint in checkpointFilePath. (default True)"""

    def getRemoveCheckpointBeforeTraining(self) -> bool:
        """Start from scratch, not from the checkpoint in checkpointFilePath. (default True)"""

    def setSeed(self, value: int) -> Self:
        """Seed of weights and shuffling. (default None)"""

    def getSeed(self) -> int | None:
        """Seed of weights and shuffling. (default None)"""

    def setNumWorkers(self, value: int) -> Self:
        """Number of processes that get rows; from the parallelism if unset. (default None)"""

    def getNumWorkers(self) -> int | None:
        """Number of processes that get rows; from the parallelism if unset. (default None)"""

    def setNumPSs(self, value: int) -> Self:
        """Number of parameter servers: 0, since workers train in step. (default 0)"""

    def getNumPSs(self) -> int:
        """Number of parameter servers: 0, since workers train in step. (default 0)"""

    def setPythonEnv(self, value: str | Sequence[str]) -> Self:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def getPythonEnv(self) -> str | list[str]:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def setEnvVars(self, value: Sequence[str]) -> Self:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def getEnvVars(self) -> list[str]:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def setIntraOpParallelism(self, value: int) -> Self:
        """Threads of one TensorFlow operation. (default 4)"""

    def getIntraOpParallelism(self) -> int:
        """Threads of one TensorFlow operation. (default 4)"""

    def setHostNetwork(self, value: str) -> Self:
        """Network of the addresses that processes use, such as "10.1.0.0/16". (default None)"""

    def getHostNetwork(self) -> str | None:
        """Network of the addresses that processes use, such as "10.1.0.0/16". (default None)"""

    def setGroupTls(self, value: bool) -> Self:
        """Encrypt the messages between Flink's Python workers of a group, with a certificate that the job makes and carries. It needs the extra `tls`, and does not encrypt TensorFlow's own connections between processes. (default False)"""

    def getGroupTls(self) -> bool:
        """Encrypt the messages between Flink's Python workers of a group, with a certificate that the job makes and carries. It needs the extra `tls`, and does not encrypt TensorFlow's own connections between processes. (default False)"""

    def setGpusPerWorker(self, value: int) -> Self:
        """GPUs that each worker has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def getGpusPerWorker(self) -> int | None:
        """GPUs that each worker has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def setStartTimeout(self, value: float) -> Self:
        """Seconds within which all processes have to be connected. (default 300.0)"""

    def getStartTimeout(self) -> float:
        """Seconds within which all processes have to be connected. (default 300.0)"""

    def setStallTimeout(self, value: float) -> Self:
        """Seconds without progress of any process after which the job fails, with stacks; 0 for never. (default 1800.0)"""

    def getStallTimeout(self) -> float:
        """Seconds without progress of any process after which the job fails, with stacks; 0 for never. (default 1800.0)"""

    def setProgress(self, value: bool) -> Self:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def getProgress(self) -> bool:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def setLogDir(self, value: str) -> Self:
        """Where the record of a run stays, which `akdl-report` makes a page of, and what a script logs for TensorBoard into `task_config.log_dir`: a folder, or an address of a storage. None if unset. (default None)"""

    def getLogDir(self) -> str | None:
        """Where the record of a run stays, which `akdl-report` makes a page of, and what a script logs for TensorBoard into `task_config.log_dir`: a folder, or an address of a storage. None if unset. (default None)"""

    def setModelDir(self, value: str) -> Self:
        """Folder or address that hosts and this program reach, for the model; else its table carries it, at about 10 MB/s. (default None)"""

    def getModelDir(self) -> str | None:
        """Folder or address that hosts and this program reach, for the model; else its table carries it, at about 10 MB/s. (default None)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

class KerasTrainerParams(WithParams):
    """Parameters of pipeline stages that train a Keras model of layers."""

    def __init__(
        self,
        *,
        tensorCol: str = ...,
        labelCol: str = ...,
        layers: Sequence[str] = ...,
        optimizer: str = ...,
        learningRate: float = ...,
        numEpochs: int = ...,
        batchSize: int = ...,
        validationSplit: float = ...,
        saveBestOnly: bool = ...,
        bestMetric: str = ...,
        saveCheckpointsEpochs: float = ...,
        saveCheckpointsSecs: float = ...,
        checkpointFilePath: str = ...,
        removeCheckpointBeforeTraining: bool = ...,
        seed: int = ...,
        numWorkers: int = ...,
        numPSs: int = ...,
        pythonEnv: str | Sequence[str] = ...,
        envVars: Sequence[str] = ...,
        intraOpParallelism: int = ...,
        hostNetwork: str = ...,
        groupTls: bool = ...,
        gpusPerWorker: int = ...,
        startTimeout: float = ...,
        stallTimeout: float = ...,
        progress: bool = ...,
        logDir: str = ...,
        modelDir: str = ...,
        MLEnvironmentId: int = ...,
        predictionCol: str = ...,
        predictionDetailCol: str = ...,
        reservedCols: Sequence[str] = ...,
        keepColNames: Sequence[str] = ...,
        inferBatchSize: int = ...,
        inferBatchBytes: int = ...,
        errorCol: str = ...,
        gpusPerModel: int = ...,
        inferProcesses: int = ...,
        inferTimeout: float = ...,
        modelStreamFilePath: str = ...,
        modelStreamScanInterval: float = ...,
        modelStreamStartTime: str = ...,
        chunkWait: float = ...,
        chunkRows: int = ...,
        modelFilePath: str = ...,
        overwriteSink: bool = ...,
    ) -> None: ...
    def setTensorCol(self, value: str) -> Self:
        """ARRAY column of numbers that feeds the model; all cells have one length. (required)"""

    def getTensorCol(self) -> str:
        """ARRAY column of numbers that feeds the model; all cells have one length. (required)"""

    def setLabelCol(self, value: str) -> Self:
        """Column with what the model learns. (required)"""

    def getLabelCol(self) -> str:
        """Column with what the model learns. (required)"""

    def setLayers(self, value: Sequence[str]) -> Self:
        """Layers as text, such as ["Dense(64, activation='relu')"]: names of tf.keras.layers with literals. The output layer is added. (required)"""

    def getLayers(self) -> list[str]:
        """Layers as text, such as ["Dense(64, activation='relu')"]: names of tf.keras.layers with literals. The output layer is added. (required)"""

    def setOptimizer(self, value: str) -> Self:
        """Optimizer of tf.keras.optimizers as text, such as "Adam(0.01)". (default 'Adam()')"""

    def getOptimizer(self) -> str:
        """Optimizer of tf.keras.optimizers as text, such as "Adam(0.01)". (default 'Adam()')"""

    def setLearningRate(self, value: float) -> Self:
        """Learning rate, unless the optimizer's text sets it. (default None)"""

    def getLearningRate(self) -> float | None:
        """Learning rate, unless the optimizer's text sets it. (default None)"""

    def setNumEpochs(self, value: int) -> Self:
        """Passes over the rows. (default 10)"""

    def getNumEpochs(self) -> int:
        """Passes over the rows. (default 10)"""

    def setBatchSize(self, value: int) -> Self:
        """Rows in a step of all workers together. (default 128)"""

    def getBatchSize(self) -> int:
        """Rows in a step of all workers together. (default 128)"""

    def setValidationSplit(self, value: float) -> Self:
        """Leading fraction of the rows, for evaluation; with one worker. (default 0.0)"""

    def getValidationSplit(self) -> float:
        """Leading fraction of the rows, for evaluation; with one worker. (default 0.0)"""

    def setSaveBestOnly(self, value: bool) -> Self:
        """Keep the best model by bestMetric; needs validationSplit. (default False)"""

    def getSaveBestOnly(self) -> bool:
        """Keep the best model by bestMetric; needs validationSplit. (default False)"""

    def setBestMetric(self, value: str) -> Self:
        """Metric of the validation rows for saveBestOnly, such as "auc". (default 'loss')"""

    def getBestMetric(self) -> str:
        """Metric of the validation rows for saveBestOnly, such as "auc". (default 'loss')"""

    def setSaveCheckpointsEpochs(self, value: float) -> Self:
        """Epochs between checkpoints, rounded, at least 1. (default 1.0)"""

    def getSaveCheckpointsEpochs(self) -> float:
        """Epochs between checkpoints, rounded, at least 1. (default 1.0)"""

    def setSaveCheckpointsSecs(self, value: float) -> Self:
        """Seconds between checkpoints; with one worker. (default None)"""

    def getSaveCheckpointsSecs(self) -> float | None:
        """Seconds between checkpoints; with one worker. (default None)"""

    def setCheckpointFilePath(self, value: str) -> Self:
        """Folder for the latest checkpoint, for all hosts. (default None)"""

    def getCheckpointFilePath(self) -> str | None:
        """Folder for the latest checkpoint, for all hosts. (default None)"""

    def setRemoveCheckpointBeforeTraining(self, value: bool) -> Self:
        """Start from scratch, not from the checkpoint in checkpointFilePath. (default True)"""

    def getRemoveCheckpointBeforeTraining(self) -> bool:
        """Start from scratch, not from the checkpoint in checkpointFilePath. (default True)"""

    def setSeed(self, value: int) -> Self:
        """Seed of weights and shuffling. (default None)"""

    def getSeed(self) -> int | None:
        """Seed of weights and shuffling. (default None)"""

    def setNumWorkers(self, value: int) -> Self:
        """Number of processes that get rows; from the parallelism if unset. (default None)"""

    def getNumWorkers(self) -> int | None:
        """Number of processes that get rows; from the parallelism if unset. (default None)"""

    def setNumPSs(self, value: int) -> Self:
        """Number of parameter servers: 0, since workers train in step. (default 0)"""

    def getNumPSs(self) -> int:
        """Number of parameter servers: 0, since workers train in step. (default 0)"""

    def setPythonEnv(self, value: str | Sequence[str]) -> Self:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def getPythonEnv(self) -> str | list[str]:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def setEnvVars(self, value: Sequence[str]) -> Self:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def getEnvVars(self) -> list[str]:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def setIntraOpParallelism(self, value: int) -> Self:
        """Threads of one TensorFlow operation. (default 4)"""

    def getIntraOpParallelism(self) -> int:
        """Threads of one TensorFlow operation. (default 4)"""

    def setHostNetwork(self, value: str) -> Self:
        """Network of the addresses that processes use, such as "10.1.0.0/16". (default None)"""

    def getHostNetwork(self) -> str | None:
        """Network of the addresses that processes use, such as "10.1.0.0/16". (default None)"""

    def setGroupTls(self, value: bool) -> Self:
        """Encrypt the messages between Flink's Python workers of a group, with a certificate that the job makes and carries. It needs the extra `tls`, and does not encrypt TensorFlow's own connections between processes. (default False)"""

    def getGroupTls(self) -> bool:
        """Encrypt the messages between Flink's Python workers of a group, with a certificate that the job makes and carries. It needs the extra `tls`, and does not encrypt TensorFlow's own connections between processes. (default False)"""

    def setGpusPerWorker(self, value: int) -> Self:
        """GPUs that each worker has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def getGpusPerWorker(self) -> int | None:
        """GPUs that each worker has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def setStartTimeout(self, value: float) -> Self:
        """Seconds within which all processes have to be connected. (default 300.0)"""

    def getStartTimeout(self) -> float:
        """Seconds within which all processes have to be connected. (default 300.0)"""

    def setStallTimeout(self, value: float) -> Self:
        """Seconds without progress of any process after which the job fails, with stacks; 0 for never. (default 1800.0)"""

    def getStallTimeout(self) -> float:
        """Seconds without progress of any process after which the job fails, with stacks; 0 for never. (default 1800.0)"""

    def setProgress(self, value: bool) -> Self:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def getProgress(self) -> bool:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def setLogDir(self, value: str) -> Self:
        """Where the record of a run stays, which `akdl-report` makes a page of, and what a script logs for TensorBoard into `task_config.log_dir`: a folder, or an address of a storage. None if unset. (default None)"""

    def getLogDir(self) -> str | None:
        """Where the record of a run stays, which `akdl-report` makes a page of, and what a script logs for TensorBoard into `task_config.log_dir`: a folder, or an address of a storage. None if unset. (default None)"""

    def setModelDir(self, value: str) -> Self:
        """Folder or address that hosts and this program reach, for the model; else its table carries it, at about 10 MB/s. (default None)"""

    def getModelDir(self) -> str | None:
        """Folder or address that hosts and this program reach, for the model; else its table carries it, at about 10 MB/s. (default None)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

    def setPredictionCol(self, value: str) -> Self:
        """Column of the result with the label or the number. (required)"""

    def getPredictionCol(self) -> str:
        """Column of the result with the label or the number. (required)"""

    def setPredictionDetailCol(self, value: str) -> Self:
        """Column of the result with the probability of each label as a JSON object; no such column if unset. (default None)"""

    def getPredictionDetailCol(self) -> str | None:
        """Column of the result with the probability of each label as a JSON object; no such column if unset. (default None)"""

    def setReservedCols(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getReservedCols(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setKeepColNames(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getKeepColNames(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setInferBatchSize(self, value: int) -> Self:
        """Most rows in one call of the model. (default 256)"""

    def getInferBatchSize(self) -> int:
        """Most rows in one call of the model. (default 256)"""

    def setInferBatchBytes(self, value: int) -> Self:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def getInferBatchBytes(self) -> int:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def setErrorCol(self, value: str) -> Self:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def getErrorCol(self) -> str | None:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def setGpusPerModel(self, value: int) -> Self:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def getGpusPerModel(self) -> int | None:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def setInferProcesses(self, value: int) -> Self:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def getInferProcesses(self) -> int:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def setInferTimeout(self, value: float) -> Self:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def getInferTimeout(self) -> float | None:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def setModelStreamFilePath(self, value: str) -> Self:
        """Folder in which newer models appear, as SavedModel folders or zip or tar files of them; the newest takes over. Every host has to have it. (default None)"""

    def getModelStreamFilePath(self) -> str | None:
        """Folder in which newer models appear, as SavedModel folders or zip or tar files of them; the newest takes over. Every host has to have it. (default None)"""

    def setModelStreamScanInterval(self, value: float) -> Self:
        """Seconds between looks into modelStreamFilePath. (default 10.0)"""

    def getModelStreamScanInterval(self) -> float:
        """Seconds between looks into modelStreamFilePath. (default 10.0)"""

    def setModelStreamStartTime(self, value: str) -> Self:
        """Models in modelStreamFilePath that are older do not count: "2024-05-31 18:00:00", local time; now if unset. (default None)"""

    def getModelStreamStartTime(self) -> str | None:
        """Models in modelStreamFilePath that are older do not count: "2024-05-31 18:00:00", local time; now if unset. (default None)"""

    def setChunkWait(self, value: float) -> Self:
        """Most seconds that rows wait on their way to the model, and back, to travel together; the job takes the shortest of all its operators. (default 0.01)"""

    def getChunkWait(self) -> float:
        """Most seconds that rows wait on their way to the model, and back, to travel together; the job takes the shortest of all its operators. (default 0.01)"""

    def setChunkRows(self, value: int) -> Self:
        """Most rows that travel together. (default 8000)"""

    def getChunkRows(self) -> int:
        """Most rows that travel together. (default 8000)"""

    def setModelFilePath(self, value: str) -> Self:
        """Path of an .ak file into which the next job writes the trained model. (default None)"""

    def getModelFilePath(self) -> str | None:
        """Path of an .ak file into which the next job writes the trained model. (default None)"""

    def setOverwriteSink(self, value: bool) -> Self:
        """Replace a file that exists; otherwise it is an error. (default False)"""

    def getOverwriteSink(self) -> bool:
        """Replace a file that exists; otherwise it is an error. (default False)"""

class KerasPredictParams(WithParams):
    """Parameters of operators that predict with a Keras model of layers."""

    def __init__(
        self,
        *,
        predictionCol: str = ...,
        predictionDetailCol: str = ...,
        reservedCols: Sequence[str] = ...,
        keepColNames: Sequence[str] = ...,
        inferBatchSize: int = ...,
        inferBatchBytes: int = ...,
        intraOpParallelism: int = ...,
        errorCol: str = ...,
        pythonEnv: str | Sequence[str] = ...,
        envVars: Sequence[str] = ...,
        gpusPerModel: int = ...,
        inferProcesses: int = ...,
        startTimeout: float = ...,
        stallTimeout: float = ...,
        inferTimeout: float = ...,
        progress: bool = ...,
        MLEnvironmentId: int = ...,
    ) -> None: ...
    def setPredictionCol(self, value: str) -> Self:
        """Column of the result with the label or the number. (required)"""

    def getPredictionCol(self) -> str:
        """Column of the result with the label or the number. (required)"""

    def setPredictionDetailCol(self, value: str) -> Self:
        """Column of the result with the probability of each label as a JSON object; no such column if unset. (default None)"""

    def getPredictionDetailCol(self) -> str | None:
        """Column of the result with the probability of each label as a JSON object; no such column if unset. (default None)"""

    def setReservedCols(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getReservedCols(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setKeepColNames(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getKeepColNames(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setInferBatchSize(self, value: int) -> Self:
        """Most rows in one call of the model. (default 256)"""

    def getInferBatchSize(self) -> int:
        """Most rows in one call of the model. (default 256)"""

    def setInferBatchBytes(self, value: int) -> Self:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def getInferBatchBytes(self) -> int:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def setIntraOpParallelism(self, value: int) -> Self:
        """Threads of one operation; TensorFlow's choice if unset. (default None)"""

    def getIntraOpParallelism(self) -> int | None:
        """Threads of one operation; TensorFlow's choice if unset. (default None)"""

    def setErrorCol(self, value: str) -> Self:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def getErrorCol(self) -> str | None:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def setPythonEnv(self, value: str | Sequence[str]) -> Self:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def getPythonEnv(self) -> str | list[str]:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def setEnvVars(self, value: Sequence[str]) -> Self:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def getEnvVars(self) -> list[str]:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def setGpusPerModel(self, value: int) -> Self:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def getGpusPerModel(self) -> int | None:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def setInferProcesses(self, value: int) -> Self:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def getInferProcesses(self) -> int:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def setStartTimeout(self, value: float) -> Self:
        """Seconds within which the process with the model has to have loaded it. (default 300.0)"""

    def getStartTimeout(self) -> float:
        """Seconds within which the process with the model has to have loaded it. (default 300.0)"""

    def setStallTimeout(self, value: float) -> Self:
        """Seconds for which the process with the model may make no progress with a batch, before it is killed and the job fails; 0 for never. (default 600.0)"""

    def getStallTimeout(self) -> float:
        """Seconds for which the process with the model may make no progress with a batch, before it is killed and the job fails; 0 for never. (default 600.0)"""

    def setInferTimeout(self, value: float) -> Self:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def getInferTimeout(self) -> float | None:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def setProgress(self, value: bool) -> Self:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def getProgress(self) -> bool:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

class KerasPredictStreamParams(WithParams):
    """Parameters of operators that predict a stream with a Keras model of layers."""

    def __init__(
        self,
        *,
        predictionCol: str = ...,
        predictionDetailCol: str = ...,
        reservedCols: Sequence[str] = ...,
        keepColNames: Sequence[str] = ...,
        inferBatchSize: int = ...,
        inferBatchBytes: int = ...,
        intraOpParallelism: int = ...,
        errorCol: str = ...,
        pythonEnv: str | Sequence[str] = ...,
        envVars: Sequence[str] = ...,
        gpusPerModel: int = ...,
        inferProcesses: int = ...,
        startTimeout: float = ...,
        stallTimeout: float = ...,
        inferTimeout: float = ...,
        progress: bool = ...,
        MLEnvironmentId: int = ...,
        modelFilePath: str = ...,
        modelStreamFilePath: str = ...,
        modelStreamScanInterval: float = ...,
        modelStreamStartTime: str = ...,
        chunkWait: float = ...,
        chunkRows: int = ...,
    ) -> None: ...
    def setPredictionCol(self, value: str) -> Self:
        """Column of the result with the label or the number. (required)"""

    def getPredictionCol(self) -> str:
        """Column of the result with the label or the number. (required)"""

    def setPredictionDetailCol(self, value: str) -> Self:
        """Column of the result with the probability of each label as a JSON object; no such column if unset. (default None)"""

    def getPredictionDetailCol(self) -> str | None:
        """Column of the result with the probability of each label as a JSON object; no such column if unset. (default None)"""

    def setReservedCols(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getReservedCols(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setKeepColNames(self, value: Sequence[str]) -> Self:
        """Input columns to keep; all if unset. (default None)"""

    def getKeepColNames(self) -> list[str] | None:
        """Input columns to keep; all if unset. (default None)"""

    def setInferBatchSize(self, value: int) -> Self:
        """Most rows in one call of the model. (default 256)"""

    def getInferBatchSize(self) -> int:
        """Most rows in one call of the model. (default 256)"""

    def setInferBatchBytes(self, value: int) -> Self:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def getInferBatchBytes(self) -> int:
        """Most bytes of values in one call of the model; a single row may have more. (default 67108864)"""

    def setIntraOpParallelism(self, value: int) -> Self:
        """Threads of one operation; TensorFlow's choice if unset. (default None)"""

    def getIntraOpParallelism(self) -> int | None:
        """Threads of one operation; TensorFlow's choice if unset. (default None)"""

    def setErrorCol(self, value: str) -> Self:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def getErrorCol(self) -> str | None:
        """Name of a STRING column that says why a row could not be predicted, whose outputs are null then; if unset, such a row fails the job. (default None)"""

    def setPythonEnv(self, value: str | Sequence[str]) -> Self:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def getPythonEnv(self) -> str | list[str]:
        """A Python environment with TensorFlow: folder, interpreter, or archive at any address; or requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the metadata in the main script or the default. (default '')"""

    def setEnvVars(self, value: Sequence[str]) -> Self:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def getEnvVars(self) -> list[str]:
        """Environment variables that processes get in addition to the usual ones: "NAME" as it is on their host, or "NAME=value". (default ())"""

    def setGpusPerModel(self, value: int) -> Self:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def getGpusPerModel(self) -> int | None:
        """GPUs that the process with the model has for itself, 0 for none; if unset, one where the host has a free one. (default None)"""

    def setInferProcesses(self, value: int) -> Self:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def getInferProcesses(self) -> int:
        """Processes on each host that hold the model, each with GPUs of its own; batches go to the one with the least work. (default 1)"""

    def setStartTimeout(self, value: float) -> Self:
        """Seconds within which the process with the model has to have loaded it. (default 300.0)"""

    def getStartTimeout(self) -> float:
        """Seconds within which the process with the model has to have loaded it. (default 300.0)"""

    def setStallTimeout(self, value: float) -> Self:
        """Seconds for which the process with the model may make no progress with a batch, before it is killed and the job fails; 0 for never. (default 600.0)"""

    def getStallTimeout(self) -> float:
        """Seconds for which the process with the model may make no progress with a batch, before it is killed and the job fails; 0 for never. (default 600.0)"""

    def setInferTimeout(self, value: float) -> Self:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def getInferTimeout(self) -> float | None:
        """Seconds within which the model has to finish a batch; a batch that takes longer is tried again in a fresh process, then halved, until the row is found; 0 for no limit. If unset, stallTimeout. (default None)"""

    def setProgress(self, value: bool) -> Self:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def getProgress(self) -> bool:
        """Show the progress of the job: on a terminal, in a notebook, or in a log. (default True)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

    def setModelFilePath(self, value: str) -> Self:
        """Address of an .ak file with a model, or of a SavedModel. (default None)"""

    def getModelFilePath(self) -> str | None:
        """Address of an .ak file with a model, or of a SavedModel. (default None)"""

    def setModelStreamFilePath(self, value: str) -> Self:
        """Folder in which newer models appear, as SavedModel folders or zip or tar files of them; the newest takes over. Every host has to have it. (default None)"""

    def getModelStreamFilePath(self) -> str | None:
        """Folder in which newer models appear, as SavedModel folders or zip or tar files of them; the newest takes over. Every host has to have it. (default None)"""

    def setModelStreamScanInterval(self, value: float) -> Self:
        """Seconds between looks into modelStreamFilePath. (default 10.0)"""

    def getModelStreamScanInterval(self) -> float:
        """Seconds between looks into modelStreamFilePath. (default 10.0)"""

    def setModelStreamStartTime(self, value: str) -> Self:
        """Models in modelStreamFilePath that are older do not count: "2024-05-31 18:00:00", local time; now if unset. (default None)"""

    def getModelStreamStartTime(self) -> str | None:
        """Models in modelStreamFilePath that are older do not count: "2024-05-31 18:00:00", local time; now if unset. (default None)"""

    def setChunkWait(self, value: float) -> Self:
        """Most seconds that rows wait on their way to the model, and back, to travel together; the job takes the shortest of all its operators. (default 0.01)"""

    def getChunkWait(self) -> float:
        """Most seconds that rows wait on their way to the model, and back, to travel together; the job takes the shortest of all its operators. (default 0.01)"""

    def setChunkRows(self, value: int) -> Self:
        """Most rows that travel together. (default 8000)"""

    def getChunkRows(self) -> int:
        """Most rows that travel together. (default 8000)"""

class RandomTableParams(WithParams):
    """Parameters of random tables."""

    def __init__(
        self,
        *,
        numRows: int = ...,
        numCols: int = ...,
        outputCols: Sequence[str] = ...,
        outputColConfs: str = ...,
        idCol: str = ...,
        MLEnvironmentId: int = ...,
    ) -> None: ...
    def setNumRows(self, value: int) -> Self:
        """Number of rows. (required)"""

    def getNumRows(self) -> int:
        """Number of rows. (required)"""

    def setNumCols(self, value: int) -> Self:
        """Number of random columns. (required)"""

    def getNumCols(self) -> int:
        """Number of random columns. (required)"""

    def setOutputCols(self, value: Sequence[str]) -> Self:
        """Names of the random columns; col0, col1 and so on if unset. (default None)"""

    def getOutputCols(self) -> list[str] | None:
        """Names of the random columns; col0, col1 and so on if unset. (default None)"""

    def setOutputColConfs(self, value: str) -> Self:
        """Distributions of columns: "name:uniform(0,1);name:gauss(0,1,nullper=0.1)"; also uniform_open, weight_set, poisson. (default None)"""

    def getOutputColConfs(self) -> str | None:
        """Distributions of columns: "name:uniform(0,1);name:gauss(0,1,nullper=0.1)"; also uniform_open, weight_set, poisson. (default None)"""

    def setIdCol(self, value: str) -> Self:
        """Name of a BIGINT column that counts the rows from 0; no such column if unset. (default None)"""

    def getIdCol(self) -> str | None:
        """Name of a BIGINT column that counts the rows from 0; no such column if unset. (default None)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

class RandomStreamParams(WithParams):
    """Parameters of random streams."""

    def __init__(
        self,
        *,
        maxRows: int = ...,
        numCols: int = ...,
        outputCols: Sequence[str] = ...,
        outputColConfs: str = ...,
        idCol: str = ...,
        timePerSample: float = ...,
        timeZones: Sequence[float] = ...,
        MLEnvironmentId: int = ...,
    ) -> None: ...
    def setMaxRows(self, value: int) -> Self:
        """Number of rows after which the stream ends. (required)"""

    def getMaxRows(self) -> int:
        """Number of rows after which the stream ends. (required)"""

    def setNumCols(self, value: int) -> Self:
        """Number of random columns. (required)"""

    def getNumCols(self) -> int:
        """Number of random columns. (required)"""

    def setOutputCols(self, value: Sequence[str]) -> Self:
        """Names of the random columns; col0, col1 and so on if unset. (default None)"""

    def getOutputCols(self) -> list[str] | None:
        """Names of the random columns; col0, col1 and so on if unset. (default None)"""

    def setOutputColConfs(self, value: str) -> Self:
        """Distributions of columns: "name:uniform(0,1);name:gauss(0,1,nullper=0.1)"; also uniform_open, weight_set, poisson. (default None)"""

    def getOutputColConfs(self) -> str | None:
        """Distributions of columns: "name:uniform(0,1);name:gauss(0,1,nullper=0.1)"; also uniform_open, weight_set, poisson. (default None)"""

    def setIdCol(self, value: str) -> Self:
        """Name of a BIGINT column that counts the rows from 1. (default 'num')"""

    def getIdCol(self) -> str:
        """Name of a BIGINT column that counts the rows from 1. (default 'num')"""

    def setTimePerSample(self, value: float) -> Self:
        """Seconds from one row to the next; as fast as they are taken if unset. (default None)"""

    def getTimePerSample(self) -> float | None:
        """Seconds from one row to the next; as fast as they are taken if unset. (default None)"""

    def setTimeZones(self, value: Sequence[float]) -> Self:
        """Least and most seconds from one row to the next; rows come in the middle of them, one like the other. (default None)"""

    def getTimeZones(self) -> list[float] | None:
        """Least and most seconds from one row to the next; rows come in the middle of them, one like the other. (default None)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

class CsvParams(WithParams):
    """Parameters of CSV sources."""

    def __init__(
        self,
        *,
        filePath: str = ...,
        schemaStr: str = ...,
        schema: str = ...,
        tableSchema: str = ...,
        fieldDelimiter: str = ...,
        quoteChar: str = ...,
        ignoreFirstLine: bool = ...,
        rowDelimiter: str = ...,
        skipBlankLine: bool = ...,
        lenient: bool = ...,
        nullLiteral: Sequence[str] | str = ...,
        MLEnvironmentId: int = ...,
    ) -> None: ...
    def setFilePath(self, value: str) -> Self:
        """Path of a file or folder, any address that Flink reads, or http(s), which this program reads. (required)"""

    def getFilePath(self) -> str:
        """Path of a file or folder, any address that Flink reads, or http(s), which this program reads. (required)"""

    def setSchemaStr(self, value: str) -> Self:
        """Columns: "name type, name type". A stream may have an event time, as in `outputSchemaStr`: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (required)"""

    def setSchema(self, value: str) -> Self:
        """Columns: "name type, name type". A stream may have an event time, as in `outputSchemaStr`: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (required)"""

    def getSchema(self) -> str:
        """Columns: "name type, name type". A stream may have an event time, as in `outputSchemaStr`: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (required)"""

    def setTableSchema(self, value: str) -> Self:
        """Columns: "name type, name type". A stream may have an event time, as in `outputSchemaStr`: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (required)"""

    def getTableSchema(self) -> str:
        """Columns: "name type, name type". A stream may have an event time, as in `outputSchemaStr`: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (required)"""

    def setFieldDelimiter(self, value: str) -> Self:
        """Character between fields. (default ',')"""

    def getFieldDelimiter(self) -> str:
        """Character between fields. (default ',')"""

    def setQuoteChar(self, value: str) -> Self:
        """Character around fields that hold a delimiter. (default '"')"""

    def getQuoteChar(self) -> str:
        """Character around fields that hold a delimiter. (default '"')"""

    def setIgnoreFirstLine(self, value: bool) -> Self:
        """Leave out the first line of each file. (default False)"""

    def getIgnoreFirstLine(self) -> bool:
        """Leave out the first line of each file. (default False)"""

    def setRowDelimiter(self, value: str) -> Self:
        """What stands between rows. (default '\n')"""

    def getRowDelimiter(self) -> str:
        """What stands between rows. (default '\n')"""

    def setSkipBlankLine(self, value: bool) -> Self:
        """Leave out lines that are empty or hold only spaces. (default True)"""

    def getSkipBlankLine(self) -> bool:
        """Leave out lines that are empty or hold only spaces. (default True)"""

    def setLenient(self, value: bool) -> Self:
        """Take what cannot be read as null, instead of failing. (default False)"""

    def getLenient(self) -> bool:
        """Take what cannot be read as null, instead of failing. (default False)"""

    def setNullLiteral(self, value: Sequence[str] | str) -> Self:
        """Text of cells that are null, as empty ones are: a string or several, or USUAL_NULLS, the list of pandas. (default ())"""

    def getNullLiteral(self) -> list[str]:
        """Text of cells that are null, as empty ones are: a string or several, or USUAL_NULLS, the list of pandas. (default ())"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

class TypedFilesParams(WithParams):
    """Parameters of sources of files of one format."""

    def __init__(
        self,
        *,
        filePath: Sequence[str] | str = ...,
        selectedCols: Sequence[str] = ...,
        columns: Sequence[str] = ...,
        filter: Any = ...,
        schemaStr: str = ...,
        schema: str = ...,
        tableSchema: str = ...,
        MLEnvironmentId: int = ...,
    ) -> None: ...
    def setFilePath(self, value: Sequence[str] | str) -> Self:
        """Files, folders and patterns such as data/*.parquet, one or a list: paths on all hosts, or addresses for fsspec. (required)"""

    def getFilePath(self) -> list[str]:
        """Files, folders and patterns such as data/*.parquet, one or a list: paths on all hosts, or addresses for fsspec. (required)"""

    def setSelectedCols(self, value: Sequence[str]) -> Self:
        """Columns to read, in this order; all when it is not set. (default None)"""

    def getSelectedCols(self) -> list[str] | None:
        """Columns to read, in this order; all when it is not set. (default None)"""

    def setColumns(self, value: Sequence[str]) -> Self:
        """Columns to read, in this order; all when it is not set. (default None)"""

    def getColumns(self) -> list[str] | None:
        """Columns to read, in this order; all when it is not set. (default None)"""

    def setFilter(self, value: Any) -> Self:
        """Rows to read: a predicate such as "price > 1.5 AND city IN ('Rome', 'Oslo')", or an expression of pyarrow. (default None)"""

    def getFilter(self) -> Any | None:
        """Rows to read: a predicate such as "price > 1.5 AND city IN ('Rome', 'Oslo')", or an expression of pyarrow. (default None)"""

    def setSchemaStr(self, value: str) -> Self:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def setSchema(self, value: str) -> Self:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def getSchema(self) -> str | None:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def setTableSchema(self, value: str) -> Self:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def getTableSchema(self) -> str | None:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

class TypedFilesStreamParams(WithParams):
    """Parameters of streams of files of one format."""

    def __init__(
        self,
        *,
        filePath: Sequence[str] | str = ...,
        selectedCols: Sequence[str] = ...,
        columns: Sequence[str] = ...,
        filter: Any = ...,
        schemaStr: str = ...,
        schema: str = ...,
        tableSchema: str = ...,
        MLEnvironmentId: int = ...,
        scanInterval: float = ...,
    ) -> None: ...
    def setFilePath(self, value: Sequence[str] | str) -> Self:
        """Files, folders and patterns such as data/*.parquet, one or a list: paths on all hosts, or addresses for fsspec. (required)"""

    def getFilePath(self) -> list[str]:
        """Files, folders and patterns such as data/*.parquet, one or a list: paths on all hosts, or addresses for fsspec. (required)"""

    def setSelectedCols(self, value: Sequence[str]) -> Self:
        """Columns to read, in this order; all when it is not set. (default None)"""

    def getSelectedCols(self) -> list[str] | None:
        """Columns to read, in this order; all when it is not set. (default None)"""

    def setColumns(self, value: Sequence[str]) -> Self:
        """Columns to read, in this order; all when it is not set. (default None)"""

    def getColumns(self) -> list[str] | None:
        """Columns to read, in this order; all when it is not set. (default None)"""

    def setFilter(self, value: Any) -> Self:
        """Rows to read: a predicate such as "price > 1.5 AND city IN ('Rome', 'Oslo')", or an expression of pyarrow. (default None)"""

    def getFilter(self) -> Any | None:
        """Rows to read: a predicate such as "price > 1.5 AND city IN ('Rome', 'Oslo')", or an expression of pyarrow. (default None)"""

    def setSchemaStr(self, value: str) -> Self:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def setSchema(self, value: str) -> Self:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def getSchema(self) -> str | None:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def setTableSchema(self, value: str) -> Self:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def getTableSchema(self) -> str | None:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

    def setScanInterval(self, value: float) -> Self:
        """Seconds between looks for new files; the stream ends after the present ones when it is not set. (default None)"""

    def getScanInterval(self) -> float | None:
        """Seconds between looks for new files; the stream ends after the present ones when it is not set. (default None)"""

class FilesParams(WithParams):
    """Parameters of sources of files."""

    def __init__(
        self,
        *,
        filePath: Sequence[str] | str = ...,
        format: str = ...,
        selectedCols: Sequence[str] = ...,
        columns: Sequence[str] = ...,
        filter: Any = ...,
        schemaStr: str = ...,
        schema: str = ...,
        tableSchema: str = ...,
        MLEnvironmentId: int = ...,
    ) -> None: ...
    def setFilePath(self, value: Sequence[str] | str) -> Self:
        """Files, folders and patterns such as data/*.parquet, one or a list: paths on all hosts, or addresses for fsspec. (required)"""

    def getFilePath(self) -> list[str]:
        """Files, folders and patterns such as data/*.parquet, one or a list: paths on all hosts, or addresses for fsspec. (required)"""

    def setFormat(self, value: str) -> Self:
        """parquet, feather, orc, json or csv; by the name of the first file when it is not set. (default None)"""

    def getFormat(self) -> str | None:
        """parquet, feather, orc, json or csv; by the name of the first file when it is not set. (default None)"""

    def setSelectedCols(self, value: Sequence[str]) -> Self:
        """Columns to read, in this order; all when it is not set. (default None)"""

    def getSelectedCols(self) -> list[str] | None:
        """Columns to read, in this order; all when it is not set. (default None)"""

    def setColumns(self, value: Sequence[str]) -> Self:
        """Columns to read, in this order; all when it is not set. (default None)"""

    def getColumns(self) -> list[str] | None:
        """Columns to read, in this order; all when it is not set. (default None)"""

    def setFilter(self, value: Any) -> Self:
        """Rows to read: a predicate such as "price > 1.5 AND city IN ('Rome', 'Oslo')", or an expression of pyarrow. (default None)"""

    def getFilter(self) -> Any | None:
        """Rows to read: a predicate such as "price > 1.5 AND city IN ('Rome', 'Oslo')", or an expression of pyarrow. (default None)"""

    def setSchemaStr(self, value: str) -> Self:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def setSchema(self, value: str) -> Self:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def getSchema(self) -> str | None:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def setTableSchema(self, value: str) -> Self:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def getTableSchema(self) -> str | None:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

class FilesStreamParams(WithParams):
    """Parameters of streams of files."""

    def __init__(
        self,
        *,
        filePath: Sequence[str] | str = ...,
        format: str = ...,
        selectedCols: Sequence[str] = ...,
        columns: Sequence[str] = ...,
        filter: Any = ...,
        schemaStr: str = ...,
        schema: str = ...,
        tableSchema: str = ...,
        MLEnvironmentId: int = ...,
        scanInterval: float = ...,
    ) -> None: ...
    def setFilePath(self, value: Sequence[str] | str) -> Self:
        """Files, folders and patterns such as data/*.parquet, one or a list: paths on all hosts, or addresses for fsspec. (required)"""

    def getFilePath(self) -> list[str]:
        """Files, folders and patterns such as data/*.parquet, one or a list: paths on all hosts, or addresses for fsspec. (required)"""

    def setFormat(self, value: str) -> Self:
        """parquet, feather, orc, json or csv; by the name of the first file when it is not set. (default None)"""

    def getFormat(self) -> str | None:
        """parquet, feather, orc, json or csv; by the name of the first file when it is not set. (default None)"""

    def setSelectedCols(self, value: Sequence[str]) -> Self:
        """Columns to read, in this order; all when it is not set. (default None)"""

    def getSelectedCols(self) -> list[str] | None:
        """Columns to read, in this order; all when it is not set. (default None)"""

    def setColumns(self, value: Sequence[str]) -> Self:
        """Columns to read, in this order; all when it is not set. (default None)"""

    def getColumns(self) -> list[str] | None:
        """Columns to read, in this order; all when it is not set. (default None)"""

    def setFilter(self, value: Any) -> Self:
        """Rows to read: a predicate such as "price > 1.5 AND city IN ('Rome', 'Oslo')", or an expression of pyarrow. (default None)"""

    def getFilter(self) -> Any | None:
        """Rows to read: a predicate such as "price > 1.5 AND city IN ('Rome', 'Oslo')", or an expression of pyarrow. (default None)"""

    def setSchemaStr(self, value: str) -> Self:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def setSchema(self, value: str) -> Self:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def getSchema(self) -> str | None:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def setTableSchema(self, value: str) -> Self:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def getTableSchema(self) -> str | None:
        """Columns, "name type, name type", whose cells are cast where files have another type; by the first file when it is not set. A stream may have an event time: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts". (default None)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

    def setScanInterval(self, value: float) -> Self:
        """Seconds between looks for new files; the stream ends after the present ones when it is not set. (default None)"""

    def getScanInterval(self) -> float | None:
        """Seconds between looks for new files; the stream ends after the present ones when it is not set. (default None)"""

class AkSourceParams(WithParams):
    """Parameters of sources of .ak files."""

    def __init__(
        self,
        *,
        filePath: str = ...,
        timeZone: str = ...,
        MLEnvironmentId: int = ...,
    ) -> None: ...
    def setFilePath(self, value: str) -> Self:
        """Path of an .ak file or a folder of them, or an address: http(s), or what fsspec reaches. (required)"""

    def getFilePath(self) -> str:
        """Path of an .ak file or a folder of them, or an address: http(s), or what fsspec reaches. (required)"""

    def setTimeZone(self, value: str) -> Self:
        """Time zone of DATE, TIME and TIMESTAMP in the file, such as "Asia/Shanghai"; that of the session if unset. (default None)"""

    def getTimeZone(self) -> str | None:
        """Time zone of DATE, TIME and TIMESTAMP in the file, such as "Asia/Shanghai"; that of the session if unset. (default None)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

class AkSinkParams(WithParams):
    """Parameters of sinks of .ak files."""

    def __init__(
        self,
        *,
        filePath: str = ...,
        timeZone: str = ...,
        overwriteSink: bool = ...,
        numFiles: int = ...,
        MLEnvironmentId: int = ...,
    ) -> None: ...
    def setFilePath(self, value: str) -> Self:
        """Path of a file on the host of this program. (required)"""

    def getFilePath(self) -> str:
        """Path of a file on the host of this program. (required)"""

    def setTimeZone(self, value: str) -> Self:
        """Time zone of DATE, TIME and TIMESTAMP in the file, such as "Asia/Shanghai"; that of the session if unset. (default None)"""

    def getTimeZone(self) -> str | None:
        """Time zone of DATE, TIME and TIMESTAMP in the file, such as "Asia/Shanghai"; that of the session if unset. (default None)"""

    def setOverwriteSink(self, value: bool) -> Self:
        """Replace a file that exists; otherwise it is an error. (default False)"""

    def getOverwriteSink(self) -> bool:
        """Replace a file that exists; otherwise it is an error. (default False)"""

    def setNumFiles(self, value: int) -> Self:
        """Number of files: always 1. (default 1)"""

    def getNumFiles(self) -> int:
        """Number of files: always 1. (default 1)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

class FilesSinkParams(WithParams):
    """Parameters of sinks of Parquet, Feather and JSON files."""

    def __init__(
        self,
        *,
        filePath: str = ...,
        partitionBy: Sequence[str] = ...,
        partitionCols: Sequence[str] = ...,
        maxFileBytes: int = ...,
        overwriteSink: bool = ...,
        numFiles: int = ...,
        MLEnvironmentId: int = ...,
    ) -> None: ...
    def setFilePath(self, value: str) -> Self:
        """Path of a file, or of a folder for the files of all subtasks if it ends with /; or an address that fsspec reaches. (required)"""

    def getFilePath(self) -> str:
        """Path of a file, or of a folder for the files of all subtasks if it ends with /; or an address that fsspec reaches. (required)"""

    def setPartitionBy(self, value: Sequence[str]) -> Self:
        """Columns whose values name folders, as in Hive (day=2024-05-31/); files leave these columns out. (default ())"""

    def getPartitionBy(self) -> list[str]:
        """Columns whose values name folders, as in Hive (day=2024-05-31/); files leave these columns out. (default ())"""

    def setPartitionCols(self, value: Sequence[str]) -> Self:
        """Columns whose values name folders, as in Hive (day=2024-05-31/); files leave these columns out. (default ())"""

    def getPartitionCols(self) -> list[str]:
        """Columns whose values name folders, as in Hive (day=2024-05-31/); files leave these columns out. (default ())"""

    def setMaxFileBytes(self, value: int) -> Self:
        """Size of a file in bytes, about, after which the next begins. (default None)"""

    def getMaxFileBytes(self) -> int | None:
        """Size of a file in bytes, about, after which the next begins. (default None)"""

    def setOverwriteSink(self, value: bool) -> Self:
        """Replace a file that exists; otherwise it is an error. (default False)"""

    def getOverwriteSink(self) -> bool:
        """Replace a file that exists; otherwise it is an error. (default False)"""

    def setNumFiles(self, value: int) -> Self:
        """Number of subtasks that write. Each writes files of its own into a folder if there are several, or if `partitionBy` or `maxFileBytes` is set; the parallelism of the input when it is not set and `filePath` is a folder. (default None)"""

    def getNumFiles(self) -> int | None:
        """Number of subtasks that write. Each writes files of its own into a folder if there are several, or if `partitionBy` or `maxFileBytes` is set; the parallelism of the input when it is not set and `filePath` is a folder. (default None)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

class CsvSinkParams(WithParams):
    """Parameters of CSV sinks."""

    def __init__(
        self,
        *,
        fieldDelimiter: str = ...,
        quoteChar: str = ...,
        rowDelimiter: str = ...,
        filePath: str = ...,
        partitionBy: Sequence[str] = ...,
        partitionCols: Sequence[str] = ...,
        maxFileBytes: int = ...,
        overwriteSink: bool = ...,
        numFiles: int = ...,
        MLEnvironmentId: int = ...,
    ) -> None: ...
    def setFieldDelimiter(self, value: str) -> Self:
        """Character between fields. (default ',')"""

    def getFieldDelimiter(self) -> str:
        """Character between fields. (default ',')"""

    def setQuoteChar(self, value: str) -> Self:
        """Character around fields that hold a delimiter. (default '"')"""

    def getQuoteChar(self) -> str:
        """Character around fields that hold a delimiter. (default '"')"""

    def setRowDelimiter(self, value: str) -> Self:
        """What stands between rows. (default '\n')"""

    def getRowDelimiter(self) -> str:
        """What stands between rows. (default '\n')"""

    def setFilePath(self, value: str) -> Self:
        """Path of a file, or of a folder for the files of all subtasks if it ends with /; or an address that fsspec reaches. (required)"""

    def getFilePath(self) -> str:
        """Path of a file, or of a folder for the files of all subtasks if it ends with /; or an address that fsspec reaches. (required)"""

    def setPartitionBy(self, value: Sequence[str]) -> Self:
        """Columns whose values name folders, as in Hive (day=2024-05-31/); files leave these columns out. (default ())"""

    def getPartitionBy(self) -> list[str]:
        """Columns whose values name folders, as in Hive (day=2024-05-31/); files leave these columns out. (default ())"""

    def setPartitionCols(self, value: Sequence[str]) -> Self:
        """Columns whose values name folders, as in Hive (day=2024-05-31/); files leave these columns out. (default ())"""

    def getPartitionCols(self) -> list[str]:
        """Columns whose values name folders, as in Hive (day=2024-05-31/); files leave these columns out. (default ())"""

    def setMaxFileBytes(self, value: int) -> Self:
        """Size of a file in bytes, about, after which the next begins. (default None)"""

    def getMaxFileBytes(self) -> int | None:
        """Size of a file in bytes, about, after which the next begins. (default None)"""

    def setOverwriteSink(self, value: bool) -> Self:
        """Replace a file that exists; otherwise it is an error. (default False)"""

    def getOverwriteSink(self) -> bool:
        """Replace a file that exists; otherwise it is an error. (default False)"""

    def setNumFiles(self, value: int) -> Self:
        """Number of subtasks that write. Each writes files of its own into a folder if there are several, or if `partitionBy` or `maxFileBytes` is set; the parallelism of the input when it is not set and `filePath` is a folder. (default None)"""

    def getNumFiles(self) -> int | None:
        """Number of subtasks that write. Each writes files of its own into a folder if there are several, or if `partitionBy` or `maxFileBytes` is set; the parallelism of the input when it is not set and `filePath` is a folder. (default None)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""

class TableSinkParams(WithParams):
    """Parameters of sinks into tables of Flink."""

    def __init__(
        self,
        *,
        tableName: str = ...,
        MLEnvironmentId: int = ...,
    ) -> None: ...
    def setTableName(self, value: str) -> Self:
        """Name of a table of the environment, see `execute_sql`. (required)"""

    def getTableName(self) -> str:
        """Name of a table of the environment, see `execute_sql`. (required)"""

    def setMLEnvironmentId(self, value: int) -> Self:
        """Always 0: a program has one environment. (default 0)"""

    def getMLEnvironmentId(self) -> int:
        """Always 0: a program has one environment. (default 0)"""
