"""TensorFlow scripts as operators of Flink tables: `from operators import *`.

Errors derive from `BridgeError`; see `bridge.exceptions` for the hierarchy.
"""

import operators.errors.shadowed_packages as _shadowed_packages  # noqa: F401  first: checks the packages imported below

# isort: split
from bridge.exceptions import (
    BridgeError,
    ConfigurationError,
    JobError,
    RowError,
    SchemaError,
    TaskError,
)
from bridge.formats.csv_cells import USUAL_NULLS
from operators.alink.settings import AlinkGlobalConfiguration
from operators.batch_operator import BatchOperator, MemSourceBatchOp, TableSourceBatchOp
from operators.data.column_functions import AlinkDataTypes, udf, udtf
from operators.data.file_sources import (
    CsvSourceBatchOp,
    CsvSourceStreamOp,
    FeatherSourceBatchOp,
    FeatherSourceStreamOp,
    FileSourceBatchOp,
    FileSourceStreamOp,
    JsonSourceBatchOp,
    JsonSourceStreamOp,
    OrcSourceBatchOp,
    OrcSourceStreamOp,
    ParquetSourceBatchOp,
    ParquetSourceStreamOp,
)
from operators.data.sinks import (
    AkSinkBatchOp,
    CsvSinkBatchOp,
    CsvSinkStreamOp,
    FeatherSinkBatchOp,
    FeatherSinkStreamOp,
    JsonSinkBatchOp,
    JsonSinkStreamOp,
    ParquetSinkBatchOp,
    ParquetSinkStreamOp,
    TableSinkBatchOp,
)
from operators.data.sources import (
    AkSourceBatchOp,
    AkSourceStreamOp,
    RandomTableSourceBatchOp,
    RandomTableSourceStreamOp,
)
from operators.errors.uncaught import show_briefly as _show_briefly
from operators.flink.env import MLEnv, getMLEnv, resetEnv, useCustomEnv, useLocalEnv, useRemoteEnv
from operators.keras_sequential import (
    KerasSequentialClassificationModel,
    KerasSequentialClassifier,
    KerasSequentialClassifierPredictBatchOp,
    KerasSequentialClassifierPredictStreamOp,
    KerasSequentialClassifierTrainBatchOp,
    KerasSequentialRegressionModel,
    KerasSequentialRegressor,
    KerasSequentialRegressorPredictBatchOp,
    KerasSequentialRegressorPredictStreamOp,
    KerasSequentialRegressorTrainBatchOp,
)
from operators.local_predictor import LocalPredictor
from operators.model_function import model_function
from operators.pipeline import (
    Pipeline,
    PipelineModel,
    Predictor,
    TF2TableModelTrainer,
    TFSavedModelPredictor,
    TFTableModelPredictor,
    TFTableModelTrainer,
)
from operators.predict_batch import (
    PredictBatchOp,
    TFSavedModelPredictBatchOp,
    TFTableModelPredictBatchOp,
)
from operators.predict_stream import (
    PredictStreamOp,
    TFSavedModelPredictStreamOp,
    TFTableModelPredictStreamOp,
)
from operators.progress.waiting import waitForJob
from operators.script import (
    TensorFlow2BatchOp,
    TensorFlow2StreamOp,
    TensorFlowBatchOp,
    TensorFlowStreamOp,
    TF2TableModelTrainBatchOp,
    TFTableModelTrainBatchOp,
)
from operators.stream_operator import MemSourceStreamOp, StreamOperator, TableSourceStreamOp

__all__ = [
    "AkSinkBatchOp",
    "AkSourceBatchOp",
    "AkSourceStreamOp",
    "AlinkDataTypes",
    "AlinkGlobalConfiguration",
    "BatchOperator",
    "BridgeError",
    "ConfigurationError",
    "CsvSinkBatchOp",
    "CsvSinkStreamOp",
    "CsvSourceBatchOp",
    "CsvSourceStreamOp",
    "FeatherSinkBatchOp",
    "FeatherSinkStreamOp",
    "FeatherSourceBatchOp",
    "FeatherSourceStreamOp",
    "FileSourceBatchOp",
    "FileSourceStreamOp",
    "JobError",
    "JsonSinkBatchOp",
    "JsonSinkStreamOp",
    "JsonSourceBatchOp",
    "JsonSourceStreamOp",
    "KerasSequentialClassificationModel",
    "KerasSequentialClassifier",
    "KerasSequentialClassifierPredictBatchOp",
    "KerasSequentialClassifierPredictStreamOp",
    "KerasSequentialClassifierTrainBatchOp",
    "KerasSequentialRegressionModel",
    "KerasSequentialRegressor",
    "KerasSequentialRegressorPredictBatchOp",
    "KerasSequentialRegressorPredictStreamOp",
    "KerasSequentialRegressorTrainBatchOp",
    "LocalPredictor",
    "MLEnv",
    "MemSourceBatchOp",
    "MemSourceStreamOp",
    "OrcSourceBatchOp",
    "OrcSourceStreamOp",
    "ParquetSinkBatchOp",
    "ParquetSinkStreamOp",
    "ParquetSourceBatchOp",
    "ParquetSourceStreamOp",
    "Pipeline",
    "PipelineModel",
    "PredictBatchOp",
    "PredictStreamOp",
    "Predictor",
    "RandomTableSourceBatchOp",
    "RandomTableSourceStreamOp",
    "RowError",
    "SchemaError",
    "StreamOperator",
    "TF2TableModelTrainBatchOp",
    "TF2TableModelTrainer",
    "TFSavedModelPredictBatchOp",
    "TFSavedModelPredictStreamOp",
    "TFSavedModelPredictor",
    "TFTableModelPredictBatchOp",
    "TFTableModelPredictStreamOp",
    "TFTableModelPredictor",
    "TFTableModelTrainBatchOp",
    "TFTableModelTrainer",
    "TableSinkBatchOp",
    "TableSourceBatchOp",
    "TableSourceStreamOp",
    "TaskError",
    "TensorFlow2BatchOp",
    "TensorFlow2StreamOp",
    "TensorFlowBatchOp",
    "TensorFlowStreamOp",
    "USUAL_NULLS",
    "getMLEnv",
    "model_function",
    "resetEnv",
    "udf",
    "udtf",
    "useCustomEnv",
    "useLocalEnv",
    "useRemoteEnv",
    "waitForJob",
]

_show_briefly()
