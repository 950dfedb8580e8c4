"""Catalog of the parameters of sources and sinks, see `operators.params.catalog`."""

from __future__ import annotations

from dataclasses import replace

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
from operators.params.param import REQUIRED, Param


def file_format(value: str) -> str:
    """Check the name of a format of files."""
    # Each installation makes stubs of these parameters, in an environment without pyarrow.
    from bridge.formats.formats import FORMATS

    return one_of(*FORMATS)(value)


NUM_COLS = Param("numCols", "Number of random columns.", count(1), REQUIRED)
OUTPUT_COLS = Param(
    "outputCols", "Names of the random columns; col0, col1 and so on if unset.", names
)
OUTPUT_COL_CONFS = Param(
    "outputColConfs",
    'Distributions of columns: "name:uniform(0,1);name:gauss(0,1,nullper=0.1)"; also uniform_open,'
    " weight_set, poisson.",
    text,
)
CSV_PATH = Param(
    "filePath",
    "Path of a file or folder, a pattern, an address that fsspec reaches, or http(s), which this"
    " program reads.",
    filled_text,
    REQUIRED,
)
SCHEMA_STR = Param(
    "schemaStr",
    'Columns: "name type, name type". A stream may have an event time, as in `outputSchemaStr`:'
    ' "..., ts TIMESTAMP(3), WATERMARK FOR ts AS ts".',
    stream_schema_text,
    REQUIRED,
    aliases=("schema", "tableSchema"),
)
FIELD_DELIMITER = Param("fieldDelimiter", "Character between fields.", character, ",")
QUOTE_CHAR = Param("quoteChar", "Character around fields that hold a delimiter.", character, '"')
ROW_DELIMITER = Param("rowDelimiter", "What stands between rows.", any_text, "\n")
AK_TIME_ZONE = Param(
    "timeZone",
    'Time zone of DATE, TIME and TIMESTAMP in the file, such as "Asia/Shanghai"; that of the'
    " session if unset.",
    time_zone,
)
SOURCE_PATHS = Param(
    "filePath",
    "Files, folders and patterns such as data/*.parquet, one or a list: paths on all hosts, or"
    " addresses for fsspec.",
    files,
    REQUIRED,
)
SCAN_INTERVAL = Param(
    "scanInterval",
    "Seconds between looks for new files; the stream ends after the present ones when it is not"
    " set.",
    some_seconds,
)

RANDOM_TABLE = (
    Param("numRows", "Number of rows.", count(0), REQUIRED),
    NUM_COLS,
    OUTPUT_COLS,
    OUTPUT_COL_CONFS,
    Param(
        "idCol",
        "Name of a BIGINT column that counts the rows from 0; no such column if unset.",
        filled_text,
    ),
    ML_ENVIRONMENT_ID,
)
RANDOM_STREAM = (
    Param("maxRows", "Number of rows after which the stream ends.", count(0), REQUIRED),
    NUM_COLS,
    OUTPUT_COLS,
    OUTPUT_COL_CONFS,
    Param("idCol", "Name of a BIGINT column that counts the rows from 1.", filled_text, "num"),
    Param(
        "timePerSample",
        "Seconds from one row to the next; as fast as they are taken if unset.",
        some_seconds,
    ),
    Param(
        "timeZones",
        "Least and most seconds from one row to the next; rows come in the middle of them, one like"
        " the other.",
        interval,
    ),
    ML_ENVIRONMENT_ID,
)
CSV = (
    CSV_PATH,
    SCHEMA_STR,
    FIELD_DELIMITER,
    QUOTE_CHAR,
    Param("ignoreFirstLine", "Leave out the first line of each file.", flag, False),
    ROW_DELIMITER,
    Param("skipBlankLine", "Leave out lines that are empty or hold only spaces.", flag, True),
    Param("lenient", "Take what cannot be read as null, instead of failing.", flag, False),
    Param(
        "nullLiteral",
        "Text of cells that are null, as empty ones are: a string or several, or USUAL_NULLS, the"
        " list of pandas.",
        text_or_texts,
        (),
    ),
    ML_ENVIRONMENT_ID,
)
TYPED_FILES = (
    SOURCE_PATHS,
    Param(
        "selectedCols",
        "Columns to read, in this order; all when it is not set.",
        names,
        aliases=("columns",),
    ),
    Param(
        "filter",
        "Rows to read: a predicate such as \"price > 1.5 AND city IN ('Rome', 'Oslo')\", or an"
        " expression of pyarrow.",
        predicate,
    ),
    replace(
        SCHEMA_STR,
        default=None,
        doc=(
            'Columns, "name type, name type", whose cells are cast where files have another type;'
            ' by the first file when it is not set. A stream may have an event time: "..., ts'
            ' TIMESTAMP(3), WATERMARK FOR ts AS ts".'
        ),
    ),
    ML_ENVIRONMENT_ID,
)
TYPED_FILES_STREAM = (*TYPED_FILES, SCAN_INTERVAL)
FILES = (
    SOURCE_PATHS,
    Param(
        "format",
        "Such as csv, json or parquet; by the name of the first file when it is not set.",
        file_format,
    ),
    *TYPED_FILES[1:],
)
FILES_STREAM = (*FILES, SCAN_INTERVAL)
AK_SOURCE = (
    replace(
        CSV_PATH,
        doc="Path of an .ak file or a folder of them, or an address: http(s), or what fsspec"
        " reaches.",
    ),
    AK_TIME_ZONE,
    ML_ENVIRONMENT_ID,
)
AK_SINK = (
    Param("filePath", "Path of a file on the host of this program.", filled_text, REQUIRED),
    AK_TIME_ZONE,
    OVERWRITE_SINK,
    Param("numFiles", "Number of files: always 1.", one_file, 1),
    ML_ENVIRONMENT_ID,
)
FILES_SINK = (
    Param(
        "filePath",
        "Path of a file, or of a folder for the files of all subtasks if it ends with /; or an"
        " address that fsspec reaches.",
        filled_text,
        REQUIRED,
    ),
    Param(
        "partitionBy",
        "Columns whose values name folders, as in Hive (day=2024-05-31/); files leave these columns"
        " out.",
        names,
        (),
        aliases=("partitionCols",),
    ),
    Param("maxFileBytes", "Size of a file in bytes, about, after which the next begins.", count(1)),
    OVERWRITE_SINK,
    Param(
        "numFiles",
        "Number of subtasks that write. Each writes files of its own into a folder if there are"
        " several, or if `partitionBy` or `maxFileBytes` is set; the parallelism of the input when"
        " it is not set and `filePath` is a folder.",
        count(1),
    ),
    ML_ENVIRONMENT_ID,
)
CSV_SINK = (FIELD_DELIMITER, QUOTE_CHAR, ROW_DELIMITER, *FILES_SINK)
TABLE_SINK = (
    Param(
        "tableName", "Name of a table of the environment, see `execute_sql`.", filled_text, REQUIRED
    ),
    ML_ENVIRONMENT_ID,
)
