from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Hello(_message.Message):
    __slots__ = ["pid", "python_version", "attempt", "protocol"]
    PID_FIELD_NUMBER: _ClassVar[int]
    PYTHON_VERSION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    pid: int
    python_version: str
    attempt: int
    protocol: int
    def __init__(self, pid: _Optional[int] = ..., python_version: _Optional[str] = ..., attempt: _Optional[int] = ..., protocol: _Optional[int] = ...) -> None: ...

class TableColumn(_message.Message):
    __slots__ = ["name", "type"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ...) -> None: ...

class ExtraInput(_message.Message):
    __slots__ = ["columns"]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedCompositeFieldContainer[TableColumn]
    def __init__(self, columns: _Optional[_Iterable[_Union[TableColumn, _Mapping]]] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ["operator", "kind", "work_dir", "main_script", "user_params", "num_workers", "exact_doubles", "input_columns", "output_columns", "extra_inputs", "chunk_wait_ms", "commits", "checkpoint_dir", "model_dir", "read_once", "save_every_ms", "most_unsaved", "publish_dir", "publish_every_ms", "time_column", "keeps_failure", "log_dir"]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    WORK_DIR_FIELD_NUMBER: _ClassVar[int]
    MAIN_SCRIPT_FIELD_NUMBER: _ClassVar[int]
    USER_PARAMS_FIELD_NUMBER: _ClassVar[int]
    NUM_WORKERS_FIELD_NUMBER: _ClassVar[int]
    EXACT_DOUBLES_FIELD_NUMBER: _ClassVar[int]
    INPUT_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_INPUTS_FIELD_NUMBER: _ClassVar[int]
    CHUNK_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_DIR_FIELD_NUMBER: _ClassVar[int]
    MODEL_DIR_FIELD_NUMBER: _ClassVar[int]
    READ_ONCE_FIELD_NUMBER: _ClassVar[int]
    SAVE_EVERY_MS_FIELD_NUMBER: _ClassVar[int]
    MOST_UNSAVED_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_DIR_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_EVERY_MS_FIELD_NUMBER: _ClassVar[int]
    TIME_COLUMN_FIELD_NUMBER: _ClassVar[int]
    KEEPS_FAILURE_FIELD_NUMBER: _ClassVar[int]
    LOG_DIR_FIELD_NUMBER: _ClassVar[int]
    operator: str
    kind: str
    work_dir: str
    main_script: str
    user_params: str
    num_workers: int
    exact_doubles: bool
    input_columns: _containers.RepeatedCompositeFieldContainer[TableColumn]
    output_columns: _containers.RepeatedCompositeFieldContainer[TableColumn]
    extra_inputs: _containers.RepeatedCompositeFieldContainer[ExtraInput]
    chunk_wait_ms: int
    commits: bool
    checkpoint_dir: str
    model_dir: str
    read_once: bool
    save_every_ms: int
    most_unsaved: int
    publish_dir: str
    publish_every_ms: int
    time_column: str
    keeps_failure: bool
    log_dir: str
    def __init__(self, operator: _Optional[str] = ..., kind: _Optional[str] = ..., work_dir: _Optional[str] = ..., main_script: _Optional[str] = ..., user_params: _Optional[str] = ..., num_workers: _Optional[int] = ..., exact_doubles: bool = ..., input_columns: _Optional[_Iterable[_Union[TableColumn, _Mapping]]] = ..., output_columns: _Optional[_Iterable[_Union[TableColumn, _Mapping]]] = ..., extra_inputs: _Optional[_Iterable[_Union[ExtraInput, _Mapping]]] = ..., chunk_wait_ms: _Optional[int] = ..., commits: bool = ..., checkpoint_dir: _Optional[str] = ..., model_dir: _Optional[str] = ..., read_once: bool = ..., save_every_ms: _Optional[int] = ..., most_unsaved: _Optional[int] = ..., publish_dir: _Optional[str] = ..., publish_every_ms: _Optional[int] = ..., time_column: _Optional[str] = ..., keeps_failure: bool = ..., log_dir: _Optional[str] = ...) -> None: ...

class Cluster(_message.Message):
    __slots__ = ["tf_config", "extra_folder", "waits_for_files", "state"]
    TF_CONFIG_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FOLDER_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FILES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    tf_config: str
    extra_folder: str
    waits_for_files: bool
    state: bytes
    def __init__(self, tf_config: _Optional[str] = ..., extra_folder: _Optional[str] = ..., waits_for_files: bool = ..., state: _Optional[bytes] = ...) -> None: ...

class Success(_message.Message):
    __slots__ = ["rows_read", "rows_written", "warnings"]
    ROWS_READ_FIELD_NUMBER: _ClassVar[int]
    ROWS_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    rows_read: int
    rows_written: int
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, rows_read: _Optional[int] = ..., rows_written: _Optional[int] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ["type", "message", "traceback"]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    type: str
    message: str
    traceback: str
    def __init__(self, type: _Optional[str] = ..., message: _Optional[str] = ..., traceback: _Optional[str] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ["success", "failure"]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    success: Success
    failure: Failure
    def __init__(self, success: _Optional[_Union[Success, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...
