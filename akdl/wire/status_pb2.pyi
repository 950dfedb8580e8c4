from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class MemberStatus(_message.Message):
    __slots__ = ["group", "index", "label", "is_worker", "attempt", "phase", "failed", "rows_in", "rows_read", "rows_out", "step", "metrics", "age_s", "cpu_s", "memory_bytes", "gpus", "lines_before", "lines", "operator", "waiting", "idle_s", "spinning", "stack", "time_s", "place_s", "rows_done", "first_step", "calling"]
    class MetricsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class TimeSEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class PlaceSEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    IS_WORKER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    ROWS_IN_FIELD_NUMBER: _ClassVar[int]
    ROWS_READ_FIELD_NUMBER: _ClassVar[int]
    ROWS_OUT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    LINES_BEFORE_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    IDLE_S_FIELD_NUMBER: _ClassVar[int]
    SPINNING_FIELD_NUMBER: _ClassVar[int]
    STACK_FIELD_NUMBER: _ClassVar[int]
    TIME_S_FIELD_NUMBER: _ClassVar[int]
    PLACE_S_FIELD_NUMBER: _ClassVar[int]
    ROWS_DONE_FIELD_NUMBER: _ClassVar[int]
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    CALLING_FIELD_NUMBER: _ClassVar[int]
    group: str
    index: int
    label: str
    is_worker: bool
    attempt: int
    phase: str
    failed: bool
    rows_in: int
    rows_read: int
    rows_out: int
    step: int
    metrics: _containers.ScalarMap[str, float]
    age_s: float
    cpu_s: float
    memory_bytes: int
    gpus: str
    lines_before: int
    lines: _containers.RepeatedScalarFieldContainer[str]
    operator: str
    waiting: bool
    idle_s: float
    spinning: bool
    stack: str
    time_s: _containers.ScalarMap[str, float]
    place_s: _containers.ScalarMap[str, float]
    rows_done: int
    first_step: int
    calling: bool
    def __init__(self, group: _Optional[str] = ..., index: _Optional[int] = ..., label: _Optional[str] = ..., is_worker: bool = ..., attempt: _Optional[int] = ..., phase: _Optional[str] = ..., failed: bool = ..., rows_in: _Optional[int] = ..., rows_read: _Optional[int] = ..., rows_out: _Optional[int] = ..., step: _Optional[int] = ..., metrics: _Optional[_Mapping[str, float]] = ..., age_s: _Optional[float] = ..., cpu_s: _Optional[float] = ..., memory_bytes: _Optional[int] = ..., gpus: _Optional[str] = ..., lines_before: _Optional[int] = ..., lines: _Optional[_Iterable[str]] = ..., operator: _Optional[str] = ..., waiting: bool = ..., idle_s: _Optional[float] = ..., spinning: bool = ..., stack: _Optional[str] = ..., time_s: _Optional[_Mapping[str, float]] = ..., place_s: _Optional[_Mapping[str, float]] = ..., rows_done: _Optional[int] = ..., first_step: _Optional[int] = ..., calling: bool = ...) -> None: ...

class RecordLine(_message.Message):
    __slots__ = ["kind", "version", "name", "started", "size", "t", "failed"]
    KIND_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    T_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    kind: str
    version: int
    name: str
    started: str
    size: int
    t: float
    failed: bool
    def __init__(self, kind: _Optional[str] = ..., version: _Optional[int] = ..., name: _Optional[str] = ..., started: _Optional[str] = ..., size: _Optional[int] = ..., t: _Optional[float] = ..., failed: bool = ...) -> None: ...
