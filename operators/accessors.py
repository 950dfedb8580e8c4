"""Setters and getters of each kind of operator; `accessors.pyi`, made by scripts/build_stubs.py, shows them to editors."""

from operators import catalog
from operators.param import with_params

ScriptParams = with_params("ScriptParams", "Parameters of operators that run a script.", catalog.SCRIPT)
TrainParams = with_params("TrainParams", "Parameters of operators whose script trains a model.", catalog.TRAIN)
PredictParams = with_params("PredictParams", "Parameters of operators that predict.", catalog.PREDICT)
SavedModelPredictParams = with_params(
    "SavedModelPredictParams", "Parameters of operators that predict with a SavedModel.", catalog.SAVED_MODEL_PREDICT
)
TrainerParams = with_params("TrainerParams", "Parameters of pipeline stages that train a model.", catalog.TRAINER)
RandomTableParams = with_params("RandomTableParams", "Parameters of random tables.", catalog.RANDOM_TABLE)
CsvParams = with_params("CsvParams", "Parameters of CSV sources.", catalog.CSV)

ALL = (ScriptParams, TrainParams, TrainerParams, PredictParams, SavedModelPredictParams, RandomTableParams, CsvParams)
