from akdl.wire import exchange_pb2 as _exchange_pb2
from akdl.wire import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Serving(_message.Message):
    __slots__ = ["model", "input_columns", "output_columns", "function", "function_folder", "models_from_ms", "graph_def_tag", "signature_def_key", "input_signature_defs", "output_signature_defs", "cells_hold_batches", "infer_batch_size", "infer_batch_bytes", "intra_op_parallelism", "defaults", "infer_timeout", "user_params", "model_col", "model_key_col", "default_model", "model_cache_bytes", "candidate_path", "candidate_share", "model_stream_file_path", "model_stream_scan_interval", "trusted"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    INPUT_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FOLDER_FIELD_NUMBER: _ClassVar[int]
    MODELS_FROM_MS_FIELD_NUMBER: _ClassVar[int]
    GRAPH_DEF_TAG_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_DEF_KEY_FIELD_NUMBER: _ClassVar[int]
    INPUT_SIGNATURE_DEFS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SIGNATURE_DEFS_FIELD_NUMBER: _ClassVar[int]
    CELLS_HOLD_BATCHES_FIELD_NUMBER: _ClassVar[int]
    INFER_BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    INFER_BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    INTRA_OP_PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    INFER_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    USER_PARAMS_FIELD_NUMBER: _ClassVar[int]
    MODEL_COL_FIELD_NUMBER: _ClassVar[int]
    MODEL_KEY_COL_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_CACHE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_PATH_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_SHARE_FIELD_NUMBER: _ClassVar[int]
    MODEL_STREAM_FILE_PATH_FIELD_NUMBER: _ClassVar[int]
    MODEL_STREAM_SCAN_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    TRUSTED_FIELD_NUMBER: _ClassVar[int]
    model: str
    input_columns: _containers.RepeatedCompositeFieldContainer[_task_pb2.TableColumn]
    output_columns: _containers.RepeatedCompositeFieldContainer[_task_pb2.TableColumn]
    function: str
    function_folder: str
    models_from_ms: int
    graph_def_tag: str
    signature_def_key: str
    input_signature_defs: _containers.RepeatedScalarFieldContainer[str]
    output_signature_defs: _containers.RepeatedScalarFieldContainer[str]
    cells_hold_batches: bool
    infer_batch_size: int
    infer_batch_bytes: int
    intra_op_parallelism: int
    defaults: str
    infer_timeout: float
    user_params: str
    model_col: str
    model_key_col: str
    default_model: str
    model_cache_bytes: int
    candidate_path: str
    candidate_share: float
    model_stream_file_path: str
    model_stream_scan_interval: float
    trusted: bool
    def __init__(self, model: _Optional[str] = ..., input_columns: _Optional[_Iterable[_Union[_task_pb2.TableColumn, _Mapping]]] = ..., output_columns: _Optional[_Iterable[_Union[_task_pb2.TableColumn, _Mapping]]] = ..., function: _Optional[str] = ..., function_folder: _Optional[str] = ..., models_from_ms: _Optional[int] = ..., graph_def_tag: _Optional[str] = ..., signature_def_key: _Optional[str] = ..., input_signature_defs: _Optional[_Iterable[str]] = ..., output_signature_defs: _Optional[_Iterable[str]] = ..., cells_hold_batches: bool = ..., infer_batch_size: _Optional[int] = ..., infer_batch_bytes: _Optional[int] = ..., intra_op_parallelism: _Optional[int] = ..., defaults: _Optional[str] = ..., infer_timeout: _Optional[float] = ..., user_params: _Optional[str] = ..., model_col: _Optional[str] = ..., model_key_col: _Optional[str] = ..., default_model: _Optional[str] = ..., model_cache_bytes: _Optional[int] = ..., candidate_path: _Optional[str] = ..., candidate_share: _Optional[float] = ..., model_stream_file_path: _Optional[str] = ..., model_stream_scan_interval: _Optional[float] = ..., trusted: bool = ...) -> None: ...

class Description(_message.Message):
    __slots__ = ["load_s", "failure", "gpus"]
    LOAD_S_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    load_s: float
    failure: _task_pb2.Failure
    gpus: str
    def __init__(self, load_s: _Optional[float] = ..., failure: _Optional[_Union[_task_pb2.Failure, _Mapping]] = ..., gpus: _Optional[str] = ...) -> None: ...

class BadRow(_message.Message):
    __slots__ = ["row", "message"]
    ROW_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    row: int
    message: str
    def __init__(self, row: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class Prediction(_message.Message):
    __slots__ = ["rows", "bad_rows", "failure", "notices", "model", "kind", "device"]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BAD_ROWS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    rows: _exchange_pb2.Rows
    bad_rows: _containers.RepeatedCompositeFieldContainer[BadRow]
    failure: _task_pb2.Failure
    notices: _containers.RepeatedCompositeFieldContainer[Notice]
    model: int
    kind: str
    device: str
    def __init__(self, rows: _Optional[_Union[_exchange_pb2.Rows, _Mapping]] = ..., bad_rows: _Optional[_Iterable[_Union[BadRow, _Mapping]]] = ..., failure: _Optional[_Union[_task_pb2.Failure, _Mapping]] = ..., notices: _Optional[_Iterable[_Union[Notice, _Mapping]]] = ..., model: _Optional[int] = ..., kind: _Optional[str] = ..., device: _Optional[str] = ...) -> None: ...

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
