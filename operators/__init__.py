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
from operators.local_predictor import LocalPredictor
from operators.operator import BatchOperator
from operators.pipeline import (
    Pipeline,
    PipelineModel,
    TF2TableModelTrainer,
    TFSavedModelPredictor,
    TFTableModelPredictor,
    TFTableModelTrainer,
)
from operators.predict import TFSavedModelPredictBatchOp, TFTableModelPredictBatchOp
from operators.sources import CsvSourceBatchOp, MemSourceBatchOp, RandomTableSourceBatchOp, TableSourceBatchOp

__all__ = [
    "AlinkGlobalConfiguration",
    "BatchOperator",
    "CsvSourceBatchOp",
    "LocalPredictor",
    "MLEnv",
    "MemSourceBatchOp",
    "Pipeline",
    "PipelineModel",
    "RandomTableSourceBatchOp",
    "TF2TableModelTrainBatchOp",
    "TF2TableModelTrainer",
    "TFSavedModelPredictBatchOp",
    "TFSavedModelPredictor",
    "TFTableModelPredictBatchOp",
    "TFTableModelPredictor",
    "TFTableModelTrainBatchOp",
    "TFTableModelTrainer",
    "TableSourceBatchOp",
    "TensorFlow2BatchOp",
    "TensorFlowBatchOp",
    "getMLEnv",
    "resetEnv",
    "useCustomEnv",
    "useLocalEnv",
    "useRemoteEnv",
]
