"""Setters and getters of each kind of operator; `accessors.pyi`, made by scripts/build_stubs.py, shows them to editors."""

from operators.params import catalog, data_catalog
from operators.params.param import with_params

ScriptParams = with_params("ScriptParams", "Parameters of operators that run a script.", catalog.SCRIPT)
StreamParams = with_params("StreamParams", "Parameters of operators that run a script on a stream.", catalog.STREAM)
TrainParams = with_params("TrainParams", "Parameters of operators whose script trains a model.", catalog.TRAIN)
PredictParams = with_params("PredictParams", "Parameters of operators that predict.", catalog.PREDICT)
SavedModelPredictParams = with_params(
    "SavedModelPredictParams", "Parameters of operators that predict with a SavedModel.", catalog.SAVED_MODEL_PREDICT
)
PredictStreamParams = with_params(
    "PredictStreamParams", "Parameters of operators that predict a stream.", catalog.PREDICT_STREAM
)
SavedModelPredictStreamParams = with_params(
    "SavedModelPredictStreamParams",
    "Parameters of operators that predict a stream with a SavedModel.",
    catalog.SAVED_MODEL_PREDICT_STREAM,
)
TrainerParams = with_params("TrainerParams", "Parameters of pipeline stages that train a model.", catalog.TRAINER)
KerasTrainParams = with_params(
    "KerasTrainParams", "Parameters of operators that train a Keras model of layers.", catalog.KERAS_TRAIN
)
KerasPredictParams = with_params(
    "KerasPredictParams", "Parameters of operators that predict with such a model.", catalog.KERAS_PREDICT
)
KerasPredictStreamParams = with_params(
    "KerasPredictStreamParams", "Parameters of operators that predict a stream with such a model.", catalog.KERAS_PREDICT_STREAM
)
KerasTrainerParams = with_params(
    "KerasTrainerParams", "Parameters of pipeline stages that train such a model.", catalog.KERAS_TRAINER
)
RandomTableParams = with_params("RandomTableParams", "Parameters of random tables.", data_catalog.RANDOM_TABLE)
RandomStreamParams = with_params("RandomStreamParams", "Parameters of random streams.", data_catalog.RANDOM_STREAM)
CsvParams = with_params("CsvParams", "Parameters of CSV sources.", data_catalog.CSV)
ParquetParams = with_params("ParquetParams", "Parameters of Parquet sources.", data_catalog.PARQUET)
AkSourceParams = with_params("AkSourceParams", "Parameters of sources of .ak files.", data_catalog.AK_SOURCE)
AkSinkParams = with_params("AkSinkParams", "Parameters of sinks of .ak files.", data_catalog.AK_SINK)
CsvSinkParams = with_params("CsvSinkParams", "Parameters of CSV sinks.", data_catalog.CSV_SINK)
TableSinkParams = with_params("TableSinkParams", "Parameters of sinks into tables of Flink.", data_catalog.TABLE_SINK)

ALL = (
    ScriptParams,
    StreamParams,
    TrainParams,
    TrainerParams,
    PredictParams,
    SavedModelPredictParams,
    PredictStreamParams,
    SavedModelPredictStreamParams,
    KerasTrainParams,
    KerasTrainerParams,
    KerasPredictParams,
    KerasPredictStreamParams,
    RandomTableParams,
    RandomStreamParams,
    CsvParams,
    ParquetParams,
    AkSourceParams,
    AkSinkParams,
    CsvSinkParams,
    TableSinkParams,
)
