from akdl.wire import exchange_pb2 as _exchange_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
    STARTING: _ClassVar[Phase]
    RUNNING: _ClassVar[Phase]
    ENDED: _ClassVar[Phase]
    FAILED: _ClassVar[Phase]
STARTING: Phase
RUNNING: Phase
ENDED: Phase
FAILED: Phase

class MemberState(_message.Message):
    __slots__ = ["index", "attempt", "phase", "failure", "rows", "input_ended", "rows_read", "idle_s", "waiting", "input_full", "dataset_file", "dataset_complete", "wants_files", "silent_s", "spinning", "calling"]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    INPUT_ENDED_FIELD_NUMBER: _ClassVar[int]
    ROWS_READ_FIELD_NUMBER: _ClassVar[int]
    IDLE_S_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    INPUT_FULL_FIELD_NUMBER: _ClassVar[int]
    DATASET_FILE_FIELD_NUMBER: _ClassVar[int]
    DATASET_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    WANTS_FILES_FIELD_NUMBER: _ClassVar[int]
    SILENT_S_FIELD_NUMBER: _ClassVar[int]
    SPINNING_FIELD_NUMBER: _ClassVar[int]
    CALLING_FIELD_NUMBER: _ClassVar[int]
    index: int
    attempt: int
    phase: Phase
    failure: str
    rows: int
    input_ended: bool
    rows_read: int
    idle_s: float
    waiting: bool
    input_full: bool
    dataset_file: str
    dataset_complete: bool
    wants_files: bool
    silent_s: float
    spinning: bool
    calling: bool
    def __init__(self, index: _Optional[int] = ..., attempt: _Optional[int] = ..., phase: _Optional[_Union[Phase, str]] = ..., failure: _Optional[str] = ..., rows: _Optional[int] = ..., input_ended: bool = ..., rows_read: _Optional[int] = ..., idle_s: _Optional[float] = ..., waiting: bool = ..., input_full: bool = ..., dataset_file: _Optional[str] = ..., dataset_complete: bool = ..., wants_files: bool = ..., silent_s: _Optional[float] = ..., spinning: bool = ..., calling: bool = ...) -> None: ...

class MemberReport(_message.Message):
    __slots__ = ["state", "version", "wants_all", "sample", "wants_sample"]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WANTS_ALL_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    WANTS_SAMPLE_FIELD_NUMBER: _ClassVar[int]
    state: MemberState
    version: int
    wants_all: bool
    sample: bytes
    wants_sample: bool
    def __init__(self, state: _Optional[_Union[MemberState, _Mapping]] = ..., version: _Optional[int] = ..., wants_all: bool = ..., sample: _Optional[bytes] = ..., wants_sample: bool = ...) -> None: ...

class GroupState(_message.Message):
    __slots__ = ["members", "version", "is_all", "sample"]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    IS_ALL_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[MemberState]
    version: int
    is_all: bool
    sample: bytes
    def __init__(self, members: _Optional[_Iterable[_Union[MemberState, _Mapping]]] = ..., version: _Optional[int] = ..., is_all: bool = ..., sample: _Optional[bytes] = ...) -> None: ...

class ExtraInputsRequest(_message.Message):
    __slots__ = ["attempt", "taken"]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    taken: int
    def __init__(self, attempt: _Optional[int] = ..., taken: _Optional[int] = ...) -> None: ...
