from akdl.wire import exchange_pb2 as _exchange_pb2
from akdl.wire import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Serving(_message.Message):
    __slots__ = ["model", "tag", "signature", "input_columns", "input_keys", "output_columns", "output_keys", "cells_hold_batches", "batch_size", "intra_op_parallelism", "model_folder", "scan_interval_s", "models_from_ms", "defaults", "batch_bytes", "infer_timeout_s", "function", "user_params", "model_column", "model_key", "default_model", "model_cache_bytes", "candidate", "candidate_share"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    INPUT_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    INPUT_KEYS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_KEYS_FIELD_NUMBER: _ClassVar[int]
    CELLS_HOLD_BATCHES_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    INTRA_OP_PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    MODEL_FOLDER_FIELD_NUMBER: _ClassVar[int]
    SCAN_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    MODELS_FROM_MS_FIELD_NUMBER: _ClassVar[int]
    DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    INFER_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    USER_PARAMS_FIELD_NUMBER: _ClassVar[int]
    MODEL_COLUMN_FIELD_NUMBER: _ClassVar[int]
    MODEL_KEY_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_CACHE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_SHARE_FIELD_NUMBER: _ClassVar[int]
    model: str
    tag: str
    signature: str
    input_columns: _containers.RepeatedCompositeFieldContainer[_task_pb2.TableColumn]
    input_keys: _containers.RepeatedScalarFieldContainer[str]
    output_columns: _containers.RepeatedCompositeFieldContainer[_task_pb2.TableColumn]
    output_keys: _containers.RepeatedScalarFieldContainer[str]
    cells_hold_batches: bool
    batch_size: int
    intra_op_parallelism: int
    model_folder: str
    scan_interval_s: float
    models_from_ms: int
    defaults: str
    batch_bytes: int
    infer_timeout_s: float
    function: str
    user_params: str
    model_column: str
    model_key: str
    default_model: str
    model_cache_bytes: int
    candidate: str
    candidate_share: float
    def __init__(self, model: _Optional[str] = ..., tag: _Optional[str] = ..., signature: _Optional[str] = ..., input_columns: _Optional[_Iterable[_Union[_task_pb2.TableColumn, _Mapping]]] = ..., input_keys: _Optional[_Iterable[str]] = ..., output_columns: _Optional[_Iterable[_Union[_task_pb2.TableColumn, _Mapping]]] = ..., output_keys: _Optional[_Iterable[str]] = ..., cells_hold_batches: bool = ..., batch_size: _Optional[int] = ..., intra_op_parallelism: _Optional[int] = ..., model_folder: _Optional[str] = ..., scan_interval_s: _Optional[float] = ..., models_from_ms: _Optional[int] = ..., defaults: _Optional[str] = ..., batch_bytes: _Optional[int] = ..., infer_timeout_s: _Optional[float] = ..., function: _Optional[str] = ..., user_params: _Optional[str] = ..., model_column: _Optional[str] = ..., model_key: _Optional[str] = ..., default_model: _Optional[str] = ..., model_cache_bytes: _Optional[int] = ..., candidate: _Optional[str] = ..., candidate_share: _Optional[float] = ...) -> None: ...

class ServedTensor(_message.Message):
    __slots__ = ["column", "key", "dtype", "shape", "unknown_rank"]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_RANK_FIELD_NUMBER: _ClassVar[int]
    column: str
    key: str
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    unknown_rank: bool
    def __init__(self, column: _Optional[str] = ..., key: _Optional[str] = ..., dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., unknown_rank: bool = ...) -> None: ...

class Description(_message.Message):
    __slots__ = ["inputs", "outputs", "load_s", "failure", "gpus"]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    LOAD_S_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedCompositeFieldContainer[ServedTensor]
    outputs: _containers.RepeatedCompositeFieldContainer[ServedTensor]
    load_s: float
    failure: _task_pb2.Failure
    gpus: str
    def __init__(self, inputs: _Optional[_Iterable[_Union[ServedTensor, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[ServedTensor, _Mapping]]] = ..., load_s: _Optional[float] = ..., failure: _Optional[_Union[_task_pb2.Failure, _Mapping]] = ..., gpus: _Optional[str] = ...) -> None: ...

class BadRow(_message.Message):
    __slots__ = ["row", "message"]
    ROW_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    row: int
    message: str
    def __init__(self, row: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class Prediction(_message.Message):
    __slots__ = ["rows", "bad_rows", "failure", "notices", "model"]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BAD_ROWS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    rows: _exchange_pb2.Rows
    bad_rows: _containers.RepeatedCompositeFieldContainer[BadRow]
    failure: _task_pb2.Failure
    notices: _containers.RepeatedCompositeFieldContainer[Notice]
    model: int
    def __init__(self, rows: _Optional[_Union[_exchange_pb2.Rows, _Mapping]] = ..., bad_rows: _Optional[_Iterable[_Union[BadRow, _Mapping]]] = ..., failure: _Optional[_Union[_task_pb2.Failure, _Mapping]] = ..., notices: _Optional[_Iterable[_Union[Notice, _Mapping]]] = ..., model: _Optional[int] = ...) -> None: ...

class Notice(_message.Message):
    __slots__ = ["level", "text"]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    level: int
    text: str
    def __init__(self, level: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class Notices(_message.Message):
    __slots__ = ["notices"]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    notices: _containers.RepeatedCompositeFieldContainer[Notice]
    def __init__(self, notices: _Optional[_Iterable[_Union[Notice, _Mapping]]] = ...) -> None: ...

class Offer(_message.Message):
    __slots__ = ["model", "name"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    model: str
    name: str
    def __init__(self, model: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...
