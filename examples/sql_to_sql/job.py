"""A script on two workers is one step of a SQL pipeline that starts and ends in plain PyFlink.

    python examples/sql_to_sql/job.py

prints

    +-------------+----------------------+
    |      length |                words |
    +-------------+----------------------+
    |           2 |                    6 |
    |           3 |                    1 |
    |           4 |                    1 |
    +-------------+----------------------+
    3 rows in set
"""

import pathlib

from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.table import EnvironmentSettings, StreamTableEnvironment

from operators import BatchOperator, TensorFlow2BatchOp, useCustomEnv

script = str(pathlib.Path(__file__).with_name("word_length.py"))

stream_env = StreamExecutionEnvironment.get_execution_environment()
stream_env.set_runtime_mode(RuntimeExecutionMode.BATCH)
table_env = StreamTableEnvironment.create(stream_env, EnvironmentSettings.in_batch_mode())
useCustomEnv(stream_env, table_env)

words = table_env.sql_query(
    "SELECT word FROM (VALUES ('to'), ('be'), ('or'), ('not'), ('to'), ('be'), ('that'), ('is')) AS"
    " v(word)"
)
lengths = (
    BatchOperator.fromTable(words)
    .link(
        TensorFlow2BatchOp()
        .setUserFiles([script])
        .setMainScriptFile(script)
        .setOutputSchemaStr("word STRING, length INT")
        .setNumWorkers(2)
        .setNumPSs(0)
    )
    .getOutputTable()
)

table_env.create_temporary_view("lengths", lengths)
table_env.sql_query(
    "SELECT length, COUNT(*) AS words FROM lengths GROUP BY length ORDER BY length"
).execute().print()
