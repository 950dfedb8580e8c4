"""TensorFlow scripts as operators of Flink tables: `from operators import *`."""

from operators.batch import TensorFlow2BatchOp, TensorFlowBatchOp, TF2TableModelTrainBatchOp, TFTableModelTrainBatchOp
from operators.env import (
    AlinkGlobalConfiguration,
    MLEnv,
    getMLEnv,
    resetEnv,
    useCustomEnv,
    useLocalEnv,
    useRemoteEnv,
)
from operators.operator import BatchOperator
from operators.predict import TFSavedModelPredictBatchOp, TFTableModelPredictBatchOp
from operators.sources import CsvSourceBatchOp, MemSourceBatchOp, RandomTableSourceBatchOp, TableSourceBatchOp

__all__ = [
    "AlinkGlobalConfiguration",
    "BatchOperator",
    "CsvSourceBatchOp",
    "MLEnv",
    "MemSourceBatchOp",
    "RandomTableSourceBatchOp",
    "TF2TableModelTrainBatchOp",
    "TFSavedModelPredictBatchOp",
    "TFTableModelPredictBatchOp",
    "TFTableModelTrainBatchOp",
    "TableSourceBatchOp",
    "TensorFlow2BatchOp",
    "TensorFlowBatchOp",
    "getMLEnv",
    "resetEnv",
    "useCustomEnv",
    "useLocalEnv",
    "useRemoteEnv",
]
