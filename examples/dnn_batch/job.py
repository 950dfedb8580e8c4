"""Train a DNN classifier inside a Flink job; the trained model comes back as a table.

    python examples/dnn_batch/job.py

prints the rows of the model table: row 0 is the name of the archive, the others are its base64-encoded parts, such as

       model_id                                         model_info
    0         0                                ....zip
    1         1  UEsDBBQAAAAIAAAAIQ...
"""
import json
import pathlib

from operators import *  # noqa: F403

useLocalEnv(1)

script = str(pathlib.Path(__file__).with_name("tf_dnn_batch.py"))
source = RandomTableSourceBatchOp() \
    .setNumRows(100) \
    .setNumCols(10)

colNames = source.getColNames()
label = "label"

userParams = {
    'featureCols': json.dumps(colNames),
    'labelCol': label,
    'batch_size': 16,
    'num_epochs': 1
}

tensorFlowBatchOp = TensorFlowBatchOp() \
    .setUserFiles([script]) \
    .setMainScriptFile(script) \
    .setUserParams(json.dumps(userParams)) \
    .setOutputSchemaStr("model_id long, model_info string") \
    .setNumWorkers(1) \
    .setNumPSs(0)

source = source.select("*, case when RAND() > 0.5 then 1. else 0. end as label") \
    .link(tensorFlowBatchOp) \
    .print()
