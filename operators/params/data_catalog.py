"""Catalog of the parameters of sources and sinks, see `operators.params.catalog`."""

from __future__ import annotations

from dataclasses import replace

from bridge.formats.formats import FORMATS
from operators.params.catalog import ML_ENVIRONMENT_ID, OVERWRITE_SINK
from operators.params.checks import (
    any_text,
    character,
    count,
    files,
    filled_text,
    flag,
    interval,
    names,
    one_file,
    one_of,
    predicate,
    some_seconds,
    stream_schema_text,
    text,
    text_or_texts,
    time_zone,
)
from operators.params.param import Param

NUM_ROWS = Param("numRows", "Number of rows.", count(0))
NUM_COLS = Param("numCols", "Number of random columns.", count(1))
OUTPUT_COLS = Param(
    "outputCols", "Names of the random columns; col0, col1 and so on if unset.", names, None
)
OUTPUT_COL_CONFS = Param(
    "outputColConfs",
    'Distributions of columns: "name:uniform(0,1);name:gauss(0,1,nullper=0.1)"; also uniform_open,'
    " weight_set, poisson.",
    text,
    None,
)
ID_COL = Param(
    "idCol",
    "Name of a BIGINT column that counts the rows from 0; no such column if unset.",
    filled_text,
    None,
)
MAX_ROWS = Param("maxRows", "Number of rows after which the stream ends.", count(0))
STREAM_ID_COL = Param(
    "idCol", "Name of a BIGINT column that counts the rows from 1.", filled_text, "num"
)
TIME_PER_SAMPLE = Param(
    "timePerSample",
    "Seconds from one row to the next; as fast as they are taken if unset.",
    some_seconds,
    None,
)
TIME_ZONES = Param(
    "timeZones",
    "Least and most seconds from one row to the next; rows come in the middle of them, one like the"
    " other.",
    interval,
    None,
)
CSV_PATH = Param(
    "filePath",
    "Path of a file or folder, a pattern, an address that fsspec reaches, or http(s), which this"
    " program reads.",
    filled_text,
)
AK_PATH = replace(
    CSV_PATH,
    doc="Path of an .ak file or a folder of them, or an address: http(s), or what fsspec reaches.",
)
SCHEMA_STR = Param(
    "schemaStr",
    'Columns: "name type, name type". A stream may have an event time, as in `outputSchemaStr`:'
    ' "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts".',
    stream_schema_text,
    aliases=("schema", "tableSchema"),
)
FIELD_DELIMITER = Param("fieldDelimiter", "Character between fields.", character, ",")
QUOTE_CHAR = Param("quoteChar", "Character around fields that hold a delimiter.", character, '"')
IGNORE_FIRST_LINE = Param("ignoreFirstLine", "Leave out the first line of each file.", flag, False)
ROW_DELIMITER = Param("rowDelimiter", "What stands between rows.", any_text, "\n")
SKIP_BLANK_LINE = Param(
    "skipBlankLine", "Leave out lines that are empty or hold only spaces.", flag, True
)
NULL_LITERAL = Param(
    "nullLiteral",
    "Text of cells that are null, as empty ones are: a string or several, or USUAL_NULLS, the list"
    " of pandas.",
    text_or_texts,
    (),
)
LENIENT = Param("lenient", "Take what cannot be read as null, instead of failing.", flag, False)
AK_TIME_ZONE = Param(
    "timeZone",
    'Time zone of DATE, TIME and TIMESTAMP in the file, such as "Asia/Shanghai"; that of the'
    " session if unset.",
    time_zone,
    None,
)
SOURCE_PATHS = Param(
    "filePath",
    "Files, folders and patterns such as data/*.parquet, one or a list: paths on all hosts, or"
    " addresses for fsspec.",
    files,
)
FORMAT = Param(
    "format",
    f"{', '.join(FORMATS)}; by the name of the first file when it is not set.",
    one_of(*FORMATS),
    None,
)
READ_COLS = Param(
    "selectedCols",
    "Columns to read, in this order; all when it is not set.",
    names,
    None,
    aliases=("columns",),
)
FILTER = Param(
    "filter",
    "Rows to read: a predicate such as \"price > 1.5 AND city IN ('Rome', 'Oslo')\", or an"
    " expression of pyarrow.",
    predicate,
    None,
)
FILES_SCHEMA_STR = replace(
    SCHEMA_STR,
    default=None,
    doc=(
        'Columns, "name type, name type", whose cells are cast where files have another type; by'
        ' the first file when it is not set. A stream may have an event time: "..., ts'
        ' TIMESTAMP(3), WATERMARK FOR ts AS ts".'
    ),
)
SCAN_INTERVAL = Param(
    "scanInterval",
    "Seconds between looks for new files; the stream ends after the present ones when it is not"
    " set.",
    some_seconds,
    None,
)
SINK_PATH = Param("filePath", "Path of a file on the host of this program.", filled_text)
NUM_FILES = Param("numFiles", "Number of files: always 1.", one_file, 1)
FILES_PATH = Param(
    "filePath",
    "Path of a file, or of a folder for the files of all subtasks if it ends with /; or an address"
    " that fsspec reaches.",
    filled_text,
)
SUBTASKS = Param(
    "numFiles",
    "Number of subtasks that write. Each writes files of its own into a folder if there are"
    " several, or if `partitionBy` or `maxFileBytes` is set; the parallelism of the input when it"
    " is not set and `filePath` is a folder.",
    count(1),
    None,
)
PARTITION_BY = Param(
    "partitionBy",
    "Columns whose values name folders, as in Hive (day=2024-05-31/); files leave these columns"
    " out.",
    names,
    (),
    aliases=("partitionCols",),
)
MAX_FILE_BYTES = Param(
    "maxFileBytes", "Size of a file in bytes, about, after which the next begins.", count(1), None
)
TABLE_NAME = Param(
    "tableName", "Name of a table of the environment, see `execute_sql`.", filled_text
)

RANDOM_TABLE = (NUM_ROWS, NUM_COLS, OUTPUT_COLS, OUTPUT_COL_CONFS, ID_COL, ML_ENVIRONMENT_ID)
RANDOM_STREAM = (
    MAX_ROWS,
    NUM_COLS,
    OUTPUT_COLS,
    OUTPUT_COL_CONFS,
    STREAM_ID_COL,
    TIME_PER_SAMPLE,
    TIME_ZONES,
    ML_ENVIRONMENT_ID,
)
CSV = (
    CSV_PATH,
    SCHEMA_STR,
    FIELD_DELIMITER,
    QUOTE_CHAR,
    IGNORE_FIRST_LINE,
    ROW_DELIMITER,
    SKIP_BLANK_LINE,
    LENIENT,
    NULL_LITERAL,
    ML_ENVIRONMENT_ID,
)
TYPED_FILES = (SOURCE_PATHS, READ_COLS, FILTER, FILES_SCHEMA_STR, ML_ENVIRONMENT_ID)
FILES = (SOURCE_PATHS, FORMAT, *TYPED_FILES[1:])
AK_SOURCE = (AK_PATH, AK_TIME_ZONE, ML_ENVIRONMENT_ID)
AK_SINK = (SINK_PATH, AK_TIME_ZONE, OVERWRITE_SINK, NUM_FILES, ML_ENVIRONMENT_ID)
FILES_SINK = (FILES_PATH, PARTITION_BY, MAX_FILE_BYTES, OVERWRITE_SINK, SUBTASKS, ML_ENVIRONMENT_ID)
CSV_SINK = (FIELD_DELIMITER, QUOTE_CHAR, ROW_DELIMITER, *FILES_SINK)
TABLE_SINK = (TABLE_NAME, ML_ENVIRONMENT_ID)
