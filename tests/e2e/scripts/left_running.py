"""A program that ends while its stream runs on two workers."""

from operators import useLocalEnv
from tests.e2e.streams import counting, stream_op

environments = useLocalEnv(2)
stream = counting(environments.stenv, 1_000_000, per_second=100)
rows = stream.link(stream_op("identity.py", 2, userParams={"batch_size": 1})).getOutputTable().execute().collect()
for row in (next(rows) for _ in range(10)):
    print(row[1])
