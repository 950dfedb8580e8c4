from akdl.wire import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ValueType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
    BOOL: _ClassVar[ValueType]
    INT8: _ClassVar[ValueType]
    INT16: _ClassVar[ValueType]
    INT32: _ClassVar[ValueType]
    INT64: _ClassVar[ValueType]
    FLOAT32: _ClassVar[ValueType]
    FLOAT64: _ClassVar[ValueType]
    BYTES: _ClassVar[ValueType]

class Activity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
    IMPORTING: _ClassVar[Activity]
    WORKING: _ClassVar[Activity]
    READING: _ClassVar[Activity]
    AWAITING: _ClassVar[Activity]
    STILL: _ClassVar[Activity]
    CALLING: _ClassVar[Activity]
BOOL: ValueType
INT8: ValueType
INT16: ValueType
INT32: ValueType
INT64: ValueType
FLOAT32: ValueType
FLOAT64: ValueType
BYTES: ValueType
IMPORTING: Activity
WORKING: Activity
READING: Activity
AWAITING: Activity
STILL: Activity
CALLING: Activity

class Empty(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class Chunk(_message.Message):
    __slots__ = ["rows", "columns", "end", "input"]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    rows: int
    columns: bytes
    end: EndOfInput
    input: int
    def __init__(self, rows: _Optional[int] = ..., columns: _Optional[bytes] = ..., end: _Optional[_Union[EndOfInput, _Mapping]] = ..., input: _Optional[int] = ...) -> None: ...

class EndOfInput(_message.Message):
    __slots__ = ["rows", "checksum"]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    rows: int
    checksum: int
    def __init__(self, rows: _Optional[int] = ..., checksum: _Optional[int] = ...) -> None: ...

class Output(_message.Message):
    __slots__ = ["rows", "cut", "state", "loose"]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    CUT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LOOSE_FIELD_NUMBER: _ClassVar[int]
    rows: Rows
    cut: int
    state: bytes
    loose: bool
    def __init__(self, rows: _Optional[_Union[Rows, _Mapping]] = ..., cut: _Optional[int] = ..., state: _Optional[bytes] = ..., loose: bool = ...) -> None: ...

class Rows(_message.Message):
    __slots__ = ["rows", "columns"]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    columns: _containers.RepeatedCompositeFieldContainer[Column]
    def __init__(self, rows: _Optional[int] = ..., columns: _Optional[_Iterable[_Union[Column, _Mapping]]] = ...) -> None: ...

class Column(_message.Message):
    __slots__ = ["name", "type", "valid", "cell_offsets", "value_offsets", "values"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    VALID_FIELD_NUMBER: _ClassVar[int]
    CELL_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    VALUE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: ValueType
    valid: bytes
    cell_offsets: bytes
    value_offsets: bytes
    values: bytes
    def __init__(self, name: _Optional[str] = ..., type: _Optional[_Union[ValueType, str]] = ..., valid: _Optional[bytes] = ..., cell_offsets: _Optional[bytes] = ..., value_offsets: _Optional[bytes] = ..., values: _Optional[bytes] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ["rows_read", "waiting", "dataset_file", "dataset_complete", "report", "exporting", "worked_s", "stack", "activity", "place"]
    ROWS_READ_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    DATASET_FILE_FIELD_NUMBER: _ClassVar[int]
    DATASET_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    EXPORTING_FIELD_NUMBER: _ClassVar[int]
    WORKED_S_FIELD_NUMBER: _ClassVar[int]
    STACK_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    rows_read: int
    waiting: bool
    dataset_file: str
    dataset_complete: bool
    report: Report
    exporting: bool
    worked_s: float
    stack: str
    activity: Activity
    place: str
    def __init__(self, rows_read: _Optional[int] = ..., waiting: bool = ..., dataset_file: _Optional[str] = ..., dataset_complete: bool = ..., report: _Optional[_Union[Report, _Mapping]] = ..., exporting: bool = ..., worked_s: _Optional[float] = ..., stack: _Optional[str] = ..., activity: _Optional[_Union[Activity, str]] = ..., place: _Optional[str] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ["number", "step", "metrics", "first_step"]
    class MetricsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    number: int
    step: int
    metrics: _containers.ScalarMap[str, float]
    first_step: int
    def __init__(self, number: _Optional[int] = ..., step: _Optional[int] = ..., metrics: _Optional[_Mapping[str, float]] = ..., first_step: _Optional[int] = ...) -> None: ...

class Wishes(_message.Message):
    __slots__ = ["dataset_file", "returned"]
    DATASET_FILE_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    dataset_file: bool
    returned: str
    def __init__(self, dataset_file: bool = ..., returned: _Optional[str] = ...) -> None: ...

class Share(_message.Message):
    __slots__ = ["path", "rows"]
    PATH_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    path: str
    rows: int
    def __init__(self, path: _Optional[str] = ..., rows: _Optional[int] = ...) -> None: ...

class Shares(_message.Message):
    __slots__ = ["shares"]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    shares: _containers.RepeatedCompositeFieldContainer[Share]
    def __init__(self, shares: _Optional[_Iterable[_Union[Share, _Mapping]]] = ...) -> None: ...
