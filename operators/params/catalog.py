"""Catalog of parameters. Names, defaults and aliases are Alink's where Alink has the parameter.

A parameter of several kinds of operators has a name here; any other one stands in the tuple of its
kind.
"""

from __future__ import annotations

from dataclasses import replace

from bridge.settings import (
    DRAIN,
    EQUAL_STEP_MODES,
    OFF,
    ON_RETURNS,
    REPLAYS,
    UNTAKEN,
    GroupSettings,
)
from operators.params.checks import (
    count,
    default_environment,
    environment,
    files,
    filled_text,
    flag,
    fraction,
    json_object,
    main_script,
    names,
    network,
    number_of_workers,
    one_number_of_workers,
    one_of,
    only_zero,
    positive,
    predict_function,
    schema_text,
    seconds,
    share,
    some_seconds,
    stream_schema_text,
    texts,
    time_text,
    variables,
)
from operators.params.param import REQUIRED, Param

USER_FILES = Param(
    "userFiles",
    "Paths of the files that the script needs; the script may be among them.",
    files,
    (),
    aliases=("userFile", "scriptFiles"),
)
USER_PARAMS = Param("userParams", "A JSON object: `task_config.user_params`.", json_object, "{}")
OUTPUT_SCHEMA_STR = Param(
    "outputSchemaStr",
    'Columns of the rows that the script writes: "name type, name type".',
    schema_text,
    REQUIRED,
    aliases=("schemaStr", "schema", "tableSchema"),
)
SELECTED_COLS = Param(
    "selectedCols",
    "Columns that reach the script; all if unset.",
    names,
    aliases=("selectedColNames",),
)
# None stands for the rest of the parallelism, see `counts` in operators/prepare/plan.py.
NUM_WORKERS = Param(
    "numWorkers",
    "Number of processes that get rows; from the parallelism if unset.",
    one_number_of_workers,
)
TRAIN_WORKERS = replace(
    NUM_WORKERS,
    convert=number_of_workers,
    doc=(
        "Number of processes that get rows; from the parallelism if unset. A pair for a training"
        " that takes the slots there are, between its two numbers, and continues from checkpointDir"
        " with others."
    ),
)
EQUAL_STEPS = Param(
    "equalSteps",
    'Give all workers the same number of rows: "pad" adds rows of weight 0 to short shares,'
    ' "repeat" adds copies of rows, "drop" leaves out rows of long shares, "off" leaves shares as'
    " they are.",
    one_of(*EQUAL_STEP_MODES),
    OFF,
)
WEIGHT_COL = Param(
    "weightCol",
    'With equalSteps "pad": the feature that is 0 in added rows and 1 in all others; or a FLOAT'
    " column of the table, which keeps its values and is 0 in added rows.",
    filled_text,
    "weight",
)
SHUFFLE_PARTS = Param(
    "shuffleParts",
    "Seed for the order of the row groups of files; by default, the order of paths.",
    count(0),
)
HOST_NETWORK = Param(
    "hostNetwork", 'Network of the addresses that processes use, such as "10.1.0.0/16".', network
)
GROUP_TLS = Param(
    "groupTls",
    "Encrypt the messages between Flink's Python workers of a group, with a certificate that the"
    " job makes and carries. It needs the extra `tls`, and does not encrypt TensorFlow's own"
    " connections between processes.",
    flag,
    False,
)
GPUS_PER_WORKER = Param(
    "gpusPerWorker",
    "GPUs that each worker has for itself, 0 for none; if unset, one where the host has a free"
    " one.",
    count(0),
)
# The job takes the shortest wait, because Flink's interval of bundles belongs to the environment
# and not to an operator.
CHUNK_WAIT = Param(
    "chunkWait",
    "Most seconds that rows wait on their way to the script, and back, to travel together; the job"
    " takes the shortest of all its operators.",
    some_seconds,
    0.01,
)
CHUNK_ROWS = Param("chunkRows", "Most rows that travel together.", count(1), 8000)
MODEL_DIR = Param(
    "modelDir",
    "Folder or address that hosts and this program reach, for the model; else its table carries it,"
    " at about 10 MB/s.",
    filled_text,
)
START_TIMEOUT = Param(
    "startTimeout", "Seconds within which all processes have to be connected.", some_seconds, 300.0
)
STALL_TIMEOUT = Param(
    "stallTimeout",
    "Seconds without progress of any process after which the job fails, with stacks; 0 for never.",
    seconds,
    1800.0,
)
LOG_DIR = Param(
    "logDir",
    "Where the record of a run stays, which `akdl report` makes a page of, and what a script logs"
    " for TensorBoard into `task_config.log_dir`: a folder, or an address of a storage. None if"
    " unset.",
    filled_text,
)
PROGRESS = Param(
    "progress",
    "Show the progress of the job: on a terminal, in a notebook, or in a log.",
    flag,
    True,
)
PYTHON_ENV = Param(
    "pythonEnv",
    "A Python environment of scripts: folder, interpreter, or archive at any address; or"
    " requirements to make one from, also as a requirements.txt or pyproject.toml. If empty, the"
    " metadata in the main script or the default.",
    environment,
    "",
)
ENV_VARS = Param(
    "envVars",
    'Environment variables that processes get in addition to the usual ones: "NAME" as it is on'
    ' their host, or "NAME=value".',
    variables,
    (),
)
INTRA_OP_PARALLELISM = Param(
    "intraOpParallelism", "Threads of one TensorFlow operation.", count(1), 4
)
READ_ONCE = Param(
    "readOnce", "The script reads its rows once: they wait in Flink, not on disk.", flag, False
)

RESERVED_COLS = Param(
    "reservedCols", "Input columns to keep; all if unset.", texts, aliases=("keepColNames",)
)
INFER_BATCH_SIZE = Param("inferBatchSize", "Most rows in one call of the model.", count(1), 256)
INFER_BATCH_BYTES = Param(
    "inferBatchBytes",
    "Most bytes of values in one call of the model; a single row may have more.",
    count(1),
    64 << 20,
)
MODEL_THREADS = Param(
    "intraOpParallelism", "Threads of one operation; TensorFlow's choice if unset.", count(1)
)
ERROR_COL = Param(
    "errorCol",
    "Name of a STRING column that says why a row could not be predicted, whose outputs are null"
    " then; if unset, such a row fails the job.",
    filled_text,
)
RESUME_DIR = Param(
    "resumeDir",
    "Folder that hosts and this program reach, or an address of a storage, which keeps predictions"
    " for the next run after a failure; needs idCol.",
    filled_text,
)
ID_COL = Param(
    "idCol",
    "With resumeDir: column of integers or texts whose values tell rows apart.",
    filled_text,
)
MODEL_PATH = Param(
    "modelPath",
    "Folder of a SavedModel or of MLflow, a .keras, .onnx, .pt2 or TorchScript file, a zip or tar"
    " file of one, or a model table in an .ak file, at any address; or models:/NAME/VERSION or"
    " models:/NAME@ALIAS in a registry of MLflow.",
    filled_text,
    REQUIRED,
)
SCAN_INTERVAL = Param(
    "modelStreamScanInterval", "Seconds between looks for newer models.", some_seconds, 10.0
)
PREDICT_STALL_TIMEOUT = Param(
    "stallTimeout",
    "Seconds for which the process with the model may make no progress with a batch, before it is"
    " killed and the job fails; 0 for never.",
    seconds,
    600.0,
)
INFER_TIMEOUT = Param(
    "inferTimeout",
    "Seconds within which the model has to finish a batch; a batch that takes longer is tried again"
    " in a fresh process, then halved, until the row is found; 0 for no limit. If unset,"
    " stallTimeout.",
    seconds,
)
GPUS_PER_MODEL = replace(
    GPUS_PER_WORKER,
    name="gpusPerModel",
    doc=(
        "GPUs that the process with the model has for itself, 0 for none; if unset, one where the"
        " host has a free one."
    ),
)
INFER_PROCESSES = Param(
    "inferProcesses",
    "Processes on each host that hold the model, each with GPUs of its own; batches go to the one"
    " with the least work.",
    count(1),
    1,
)
PREDICT_START_TIMEOUT = replace(
    START_TIMEOUT, doc="Seconds within which the process with the model has to have loaded it."
)

ML_ENVIRONMENT_ID = Param(
    "MLEnvironmentId", "Always 0: a program has one environment.", default_environment, 0
)
MODEL_FILE_PATH = Param(
    "modelFilePath", "Address of an .ak file with a model, or of a SavedModel.", filled_text
)
OVERWRITE_SINK = Param(
    "overwriteSink", "Replace a file that exists; otherwise it is an error.", flag, False
)

TRAIN = (
    USER_FILES,
    Param(
        "mainScriptFile",
        "Path of the script that defines `main(task_config)`; or a function to call so, which"
        " travels as source with the imports, functions and plain values that it uses.",
        main_script,
        REQUIRED,
    ),
    USER_PARAMS,
    SELECTED_COLS,
    TRAIN_WORKERS,
    Param("numPSs", "Number of parameter servers; from the parallelism if unset.", count(0)),
    PYTHON_ENV,
    ENV_VARS,
    Param(
        "exactDoubles",
        "Send DOUBLE columns as 8 bytes in a bytes feature, not as float32.",
        flag,
        False,
    ),
    INTRA_OP_PARALLELISM,
    Param(
        "chiefCoordinates",
        "For tf.distribute.ParameterServerStrategy: the chief gets no rows, and the group ends when"
        " its script does.",
        flag,
        False,
    ),
    EQUAL_STEPS,
    WEIGHT_COL,
    SHUFFLE_PARTS,
    HOST_NETWORK,
    GROUP_TLS,
    GPUS_PER_WORKER,
    Param(
        "checkpointDir",
        "Where a training keeps checkpoints, from which it continues after a restart, and in the"
        " next job: a folder that all hosts share, or an address of a storage. None if unset.",
        filled_text,
        aliases=("checkpoint_dir",),
    ),
    START_TIMEOUT,
    STALL_TIMEOUT,
    PROGRESS,
    LOG_DIR,
    Param(
        "keepFailedRows",
        "With logDir: a script that fails leaves a file there with the rows that it read last, its"
        " files, parameters and environment, which `akdl replay` runs again. Variables and"
        " parameters with secrets are left out or masked.",
        flag,
        False,
    ),
    Param(
        "logFileSize",
        "Bytes of a process's log file; then a new one is begun.",
        count(1),
        100 << 20,
    ),
    Param("logFileCount", "Log files of a process; by default as many as Flink keeps.", count(1)),
    READ_ONCE,
    ML_ENVIRONMENT_ID,
    MODEL_DIR,
    Param(
        "elasticWait",
        "With a pair as numWorkers: seconds that slots are missing, or free, before the training"
        " continues with fewer or more workers.",
        some_seconds,
        60.0,
    ),
)
# Only trainings change their number of workers and export a model. modelDir and elasticWait are the
# last two parameters of TRAIN, which other scripts leave out.
_SCRIPT = tuple(NUM_WORKERS if each is TRAIN_WORKERS else each for each in TRAIN[:-2])
# The order is that of constructors in help and completion, so the schema stands after the
# parameters that name the script.
SCRIPT = (*_SCRIPT[:3], OUTPUT_SCHEMA_STR, *_SCRIPT[3:])
# These need the end of the input or its files, and a stream may have neither.
_OF_TABLES = (EQUAL_STEPS, WEIGHT_COL, SHUFFLE_PARTS, READ_ONCE)
STREAM = (
    *_SCRIPT[:3],
    replace(
        OUTPUT_SCHEMA_STR,
        convert=stream_schema_text,
        doc=(
            'Columns of the rows that the script writes: "name type, name type"; an event time is'
            ' declared as in SQL: "..., ts TIMESTAMP(3), WATERMARK FOR ts AS SOURCE_WATERMARK()",'
            " with the watermarks of the input."
        ),
    ),
    *(each for each in _SCRIPT[3:] if each not in _OF_TABLES),
    CHUNK_WAIT,
    CHUNK_ROWS,
    Param(
        "replay",
        'Rows that a checkpoint keeps for the script that starts after a failure. "untaken": rows'
        " of batches that the script had not finished, which it has when it asks"
        " `tf_context.batches` for the next one; of `dataset_fn()`, rows that it had not taken."
        ' "uncommitted": rows that it had not committed with `task_config.commit()`.',
        one_of(*REPLAYS),
        UNTAKEN,
    ),
    Param(
        "maxUncommitted",
        'With replay "uncommitted": bytes of rows that a process may have without a commit, before'
        " it gets no more. With `task_config.checkpoint`: bytes without a saved state, before the"
        " job fails; at half of them the state is saved early.",
        count(1),
        GroupSettings.max_uncommitted,
    ),
    Param(
        "saveEvery",
        "Seconds between two saves of the state of a script that calls `task_config.checkpoint`,"
        " whose output leaves with them; with 0 each batch is saved.",
        seconds,
        GroupSettings.save_every_s,
    ),
    Param(
        "publishDir",
        "Folder that all hosts share, for models of a script that calls `task_config.checkpoint`:"
        " each appears there whole, and the newest ten stay. A predictor takes them with"
        " modelStreamFilePath.",
        filled_text,
    ),
    Param(
        "publishEvery",
        "Seconds between two models in publishDir.",
        seconds,
        GroupSettings.publish_every_s,
    ),
    Param(
        "onReturn",
        'What becomes of further rows when the script returns before its input ends: "drain" drops'
        ' them, "fail" fails the job, "restart" starts the script again for them.',
        one_of(*ON_RETURNS),
        DRAIN,
    ),
)
_SHADOW = (
    Param(
        "candidatePath",
        "Model that predicts a share of the rows too, for columns `shadow_NAME`: a folder, file or"
        " archive that all hosts reach.",
        filled_text,
    ),
    Param("candidateShare", "Share of the rows that both models predict.", share, 0.1),
)
_KEYED = (
    Param(
        "modelKeyCol",
        "Column of integers or texts, which feeds no model, with the model of each row: a subfolder"
        " of modelPath, or a zip or tar file in it. If unset, modelPath is one model.",
        filled_text,
    ),
    Param("defaultModel", "With modelKeyCol: model of rows whose own is missing.", filled_text),
    Param(
        "modelCacheBytes",
        "With modelKeyCol: most bytes of memory for the loaded models of a host.",
        count(1),
        1 << 30,
    ),
)
PREDICT = (
    # A parameter that differs in its words or its default alone is made from the other, so that
    # type, check and aliases cannot differ.
    replace(
        OUTPUT_SCHEMA_STR, doc='Columns that show the outputs of the model: "name type, name type".'
    ),
    Param(
        "outputSignatureDefs",
        "The signature's outputs that the columns of outputSchemaStr show, in their order; if"
        " unset, the outputs of the same names, or the only output.",
        names,
    ),
    replace(SELECTED_COLS, doc="Columns that feed the model; all if unset."),
    Param(
        "inputSignatureDefs",
        "The signature's inputs that selectedCols feed, in their order; if unset, the inputs of the"
        " same names, or the only input, in which several columns of numbers are stacked.",
        names,
    ),
    Param("signatureDefKey", "Name of the signature.", filled_text, "serving_default"),
    Param("graphDefTag", "Tag of the graph.", filled_text, "serve"),
    RESERVED_COLS,
    Param(
        "defaults",
        "Columns that feed the model, and the value that stands for null in each; in other columns"
        " a null is an error of its row.",
        json_object,
        "{}",
    ),
    INFER_BATCH_SIZE,
    INFER_BATCH_BYTES,
    MODEL_THREADS,
    ERROR_COL,
    Param(
        "cellsHoldBatches",
        "A cell is a whole tensor with the batch dimension, such as [1, 28, 28, 1], as Alink's"
        " SavedModel operators take it.",
        flag,
        False,
    ),
    PYTHON_ENV,
    ENV_VARS,
    GPUS_PER_MODEL,
    INFER_PROCESSES,
    PREDICT_START_TIMEOUT,
    PREDICT_STALL_TIMEOUT,
    INFER_TIMEOUT,
    PROGRESS,
    ML_ENVIRONMENT_ID,
    Param(
        "modelCol",
        "STRING column with the file or folder of the model that predicted a row, its kind and"
        " device.",
        filled_text,
    ),
    Param(
        "trusted",
        "Run code that a .keras file of modelPath holds, such as that of Lambda layers, and load a"
        " .pt2 file, parts of which PyTorch unpickles, or a model of MLflow, which does so too.",
        flag,
        False,
    ),
    *_KEYED,
)
KERAS_TRAIN = (
    Param(
        "tensorCol",
        "ARRAY column of numbers that feeds the model; all cells have one length.",
        filled_text,
        REQUIRED,
    ),
    Param("labelCol", "Column with what the model learns.", filled_text, REQUIRED),
    Param(
        "layers",
        "Layers as text, such as [\"Dense(64, activation='relu')\"]: names of tf.keras.layers with"
        " literals. The output layer is added.",
        texts,
        REQUIRED,
    ),
    Param(
        "optimizer",
        'Optimizer of tf.keras.optimizers as text, such as "Adam(0.01)".',
        filled_text,
        "Adam()",
    ),
    Param("learningRate", "Learning rate, unless the optimizer's text sets it.", positive),
    Param("numEpochs", "Passes over the rows.", count(1), 10),
    Param("batchSize", "Rows in a step of all workers together.", count(1), 128),
    Param(
        "validationSplit",
        "Leading fraction of the rows, for evaluation; with one worker.",
        fraction,
        0.0,
    ),
    Param("saveBestOnly", "Keep the best model by bestMetric; needs validationSplit.", flag, False),
    Param(
        "bestMetric",
        'Metric of the validation rows for saveBestOnly, such as "auc".',
        filled_text,
        "loss",
    ),
    Param(
        "saveCheckpointsEpochs", "Epochs between checkpoints, rounded, at least 1.", positive, 1.0
    ),
    Param("saveCheckpointsSecs", "Seconds between checkpoints; with one worker.", some_seconds),
    Param("checkpointFilePath", "Folder for the latest checkpoint, for all hosts.", filled_text),
    Param(
        "removeCheckpointBeforeTraining",
        "Start from scratch, not from the checkpoint in checkpointFilePath.",
        flag,
        True,
    ),
    Param("seed", "Seed of weights and shuffling.", count(0)),
    NUM_WORKERS,
    Param("numPSs", "Number of parameter servers: 0, since workers train in step.", only_zero, 0),
    PYTHON_ENV,
    ENV_VARS,
    INTRA_OP_PARALLELISM,
    HOST_NETWORK,
    GROUP_TLS,
    GPUS_PER_WORKER,
    START_TIMEOUT,
    STALL_TIMEOUT,
    PROGRESS,
    LOG_DIR,
    MODEL_DIR,
    ML_ENVIRONMENT_ID,
)
KERAS_PREDICT = (
    Param(
        "predictionCol", "Column of the result with the label or the number.", filled_text, REQUIRED
    ),
    Param(
        "predictionDetailCol",
        "Column of the result with the probability of each label as a JSON object; no such column"
        " if unset.",
        filled_text,
    ),
    RESERVED_COLS,
    INFER_BATCH_SIZE,
    INFER_BATCH_BYTES,
    MODEL_THREADS,
    ERROR_COL,
    PYTHON_ENV,
    ENV_VARS,
    GPUS_PER_MODEL,
    INFER_PROCESSES,
    PREDICT_START_TIMEOUT,
    PREDICT_STALL_TIMEOUT,
    INFER_TIMEOUT,
    PROGRESS,
    ML_ENVIRONMENT_ID,
)
SAVED_MODEL_PREDICT = (MODEL_PATH, *PREDICT, RESUME_DIR, ID_COL, *_SHADOW)
_ANY_PREDICT = (
    replace(
        MODEL_PATH,
        default=None,
        doc=f"{MODEL_PATH.doc} With predictFn: any folder or file,"
        " or an archive, for the function, which gets a folder.",
    ),
    Param(
        "predictFn",
        'A function, as "score.py:load", that is called once for each model in each process, with'
        " the path of modelPath, if it is set, and userParams as arguments, and returns"
        " `predict(batch)`, from a dict of arrays by column to a dict of the outputs; or the"
        " function itself, which travels as source with the imports, functions and plain values"
        " that it uses.",
        predict_function,
    ),
    USER_FILES,
    replace(USER_PARAMS, doc="Arguments of the function by name: a JSON object."),
    *PREDICT,
    *_SHADOW,
)
_OF_STREAMS = (
    Param(
        "modelStreamFilePath",
        "Folder in which newer models appear, as folders or files of modelPath; the newest takes"
        " over. Every host has to have it.",
        filled_text,
    ),
    SCAN_INTERVAL,
    Param(
        "modelStreamStartTime",
        'Models in modelStreamFilePath that are older do not count: "2024-05-31 18:00:00", local'
        " time; now if unset.",
        time_text,
    ),
    replace(CHUNK_WAIT, doc=CHUNK_WAIT.doc.replace("the script", "the model")),
    CHUNK_ROWS,
)
_OF_TRAINERS = (
    *_OF_STREAMS,
    replace(
        MODEL_FILE_PATH, doc="Path of an .ak file into which the next job writes the trained model."
    ),
    OVERWRITE_SINK,
)
ANY_PREDICT = (*_ANY_PREDICT, RESUME_DIR, ID_COL)
ANY_PREDICT_STREAM = (*_ANY_PREDICT, *_OF_STREAMS)
SAVED_MODEL_PREDICT_STREAM = (MODEL_PATH, *PREDICT, *_SHADOW, *_OF_STREAMS)
PREDICT_STREAM = (*PREDICT, MODEL_FILE_PATH, *_OF_STREAMS)
# Of a trainer, which trains with some columns and parameters and predicts with others.
TRAINER = (
    *TRAIN,
    Param("inferSelectedCols", "Columns to predict with; all if unset.", names),
    # A parameter of the same name, such as pythonEnv, is given once and used for both. A training
    # makes one model, so there are no keys to choose by.
    *(each for each in PREDICT if each not in _KEYED and each.name not in {p.name for p in TRAIN}),
    *_OF_TRAINERS,
)
KERAS_PREDICT_STREAM = (*KERAS_PREDICT, MODEL_FILE_PATH, *_OF_STREAMS)
KERAS_TRAINER = (
    *KERAS_TRAIN,
    *(param for param in KERAS_PREDICT if param.name not in {each.name for each in KERAS_TRAIN}),
    *_OF_TRAINERS,
)
