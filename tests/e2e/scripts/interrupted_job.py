"""A program that is interrupted twice and goes on, as a notebook does: `interrupted_job.py FOLDER_OF_SCRIPTS`."""

import os
import signal
import sys
import threading

from operators import BatchOperator, StreamOperator, TensorFlow2BatchOp, TensorFlow2StreamOp, useLocalEnv

WAITS = """
import pathlib, time

def main(config):
    pathlib.Path(config.user_params["begun"]).touch()
    time.sleep(600)
"""


def main(scripts: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a program in the background may have been told to ignore it
    environments = useLocalEnv(1)
    for table_env in (environments.stenv, environments.btenv):
        rows = 1_000_000 if table_env is environments.stenv else 10
        table_env.execute_sql(
            "CREATE TEMPORARY TABLE ids (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100', "
            f"'number-of-rows' = '{rows}', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '{rows - 1}')"
        )
    files = [os.path.join(scripts, "stream", "identity.py"), os.path.join(scripts, "tfrecords.py")]
    op = TensorFlow2StreamOp(
        userFiles=files, mainScriptFile=files[0], outputSchemaStr="worker INT, id BIGINT", numWorkers=1, numPSs=0
    )
    StreamOperator.fromTable(environments.stenv.from_path("ids")).link(op).print()
    try:
        StreamOperator.execute()
    except KeyboardInterrupt:
        print("the stream was interrupted", flush=True)
    assert not any(thread.name == "akdl-print" for thread in threading.enumerate())

    with open("waits.py", "w") as file:
        file.write(WAITS)
    for number in range(2):
        waits = TensorFlow2BatchOp(
            userFiles=["waits.py"], mainScriptFile="waits.py", outputSchemaStr="x INT", numWorkers=1, numPSs=0,
            userParams={"begun": os.path.abspath(f"begun{number}")},
        )  # fmt: skip
        try:
            BatchOperator.fromTable(environments.btenv.from_path("ids")).link(waits).collectToDataframe()
        except KeyboardInterrupt:
            print("the job was interrupted", flush=True)
        with environments.btenv.sql_query("SELECT SUM(id) FROM ids").execute().collect() as found:
            print("the sum is", *(row[0] for row in found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
