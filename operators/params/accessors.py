"""Setters and getters of each kind of operator; `accessors.pyi`, made by scripts/build_stubs.py,
shows them to editors.
"""

from operators.params import catalog, data_catalog
from operators.params.param import with_params

# Each entry becomes a class: its name, the users of its parameters for the class's docstring, and
# the parameters.
_KINDS = {
    "ScriptParams": ("operators that run a script", catalog.SCRIPT),
    "StreamParams": ("operators that run a script on a stream", catalog.STREAM),
    "TrainParams": ("operators whose script trains a model", catalog.TRAIN),
    "TrainerParams": ("pipeline stages that train a model", catalog.TRAINER),
    "PredictParams": ("operators that predict", catalog.PREDICT),
    "SavedModelPredictParams": (
        "operators that predict with a SavedModel",
        catalog.SAVED_MODEL_PREDICT,
    ),
    "PredictStreamParams": ("operators that predict a stream", catalog.PREDICT_STREAM),
    "SavedModelPredictStreamParams": (
        "operators that predict a stream with a SavedModel",
        catalog.SAVED_MODEL_PREDICT_STREAM,
    ),
    "AnyPredictParams": ("operators that predict with a model of any kind", catalog.ANY_PREDICT),
    "AnyPredictStreamParams": (
        "operators that predict a stream with a model of any kind",
        catalog.ANY_PREDICT_STREAM,
    ),
    "KerasTrainParams": ("operators that train a Keras model of layers", catalog.KERAS_TRAIN),
    "KerasTrainerParams": (
        "pipeline stages that train a Keras model of layers",
        catalog.KERAS_TRAINER,
    ),
    "KerasPredictParams": (
        "operators that predict with a Keras model of layers",
        catalog.KERAS_PREDICT,
    ),
    "KerasPredictStreamParams": (
        "operators that predict a stream with a Keras model of layers",
        catalog.KERAS_PREDICT_STREAM,
    ),
    "RandomTableParams": ("random tables", data_catalog.RANDOM_TABLE),
    "RandomStreamParams": ("random streams", data_catalog.RANDOM_STREAM),
    "CsvParams": ("CSV sources", data_catalog.CSV),
    "TypedFilesParams": ("sources of files of one format", data_catalog.TYPED_FILES),
    "TypedFilesStreamParams": (
        "streams of files of one format",
        (*data_catalog.TYPED_FILES, data_catalog.SCAN_INTERVAL),
    ),
    "FilesParams": ("sources of files", data_catalog.FILES),
    "FilesStreamParams": ("streams of files", (*data_catalog.FILES, data_catalog.SCAN_INTERVAL)),
    "AkSourceParams": ("sources of .ak files", data_catalog.AK_SOURCE),
    "AkSinkParams": ("sinks of .ak files", data_catalog.AK_SINK),
    "FilesSinkParams": ("sinks of Parquet, Feather and JSON files", data_catalog.FILES_SINK),
    "CsvSinkParams": ("CSV sinks", data_catalog.CSV_SINK),
    "TableSinkParams": ("sinks into tables of Flink", data_catalog.TABLE_SINK),
}

ALL = tuple(
    with_params(name, f"Parameters of {users}.", params) for name, (users, params) in _KINDS.items()
)
# Operators import these classes by name, so the names have to be attributes of the module. mypy and
# editors know them from `accessors.pyi`.
globals().update((kind.__name__, kind) for kind in ALL)
