"""Batch operators: printing and collecting."""

from __future__ import annotations

import pandas as pd
import pytest

from bridge.exceptions import ConfigurationError
from operators import BatchOperator, getMLEnv


def numbers(table_env, count):
    values = ", ".join(f"({number})" for number in range(count))
    return BatchOperator.fromTable(table_env.sql_query(f"SELECT n FROM (VALUES {values}) AS v(n)"))


def test_executing_nothing():
    with pytest.raises(ConfigurationError, match="nothing to run: call lazyPrint"):
        BatchOperator.execute()


@pytest.mark.flink
def test_print_shows_all_of_a_small_table(people, capsys):
    assert people.print(title="People") is people
    assert capsys.readouterr().out == ("People\n   id  name score\n0   1   ann   0.5\n1   2   bob   1.5\n2   3  None   2.5\n")


@pytest.mark.flink
def test_print_shows_both_ends_of_a_large_table(table_env, capsys):
    numbers(table_env, 21).print()
    assert len(capsys.readouterr().out.splitlines()) == 1 + 21
    numbers(table_env, 22).print()
    lines = capsys.readouterr().out.splitlines()
    shown = [line.split()[-1] for line in lines[1:]]
    assert shown == [*map(str, range(10)), "..", *map(str, range(12, 22))]


@pytest.mark.flink
def test_print_n_of_a_sorted_table_shows_its_first(table_env, capsys):
    table_env.create_temporary_view("unsorted", numbers(table_env, 9).getOutputTable())
    by_size = BatchOperator.fromTable(table_env.sql_query("SELECT n FROM unsorted ORDER BY n DESC"))
    table_env.drop_temporary_view("unsorted")
    by_size.print(2)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [["n"], ["0", "8"], ["1", "7"]]
    for wrong in (-1, "2", True):
        with pytest.raises(ConfigurationError, match="print: expected a number of rows of at least 0"):
            by_size.print(wrong)


@pytest.mark.flink
def test_lazy_print_waits_for_execute(people, capsys):
    assert people.lazyPrint(title="later") is people
    assert capsys.readouterr().out == ""
    BatchOperator.execute()
    assert capsys.readouterr().out.startswith("later\n")
    with pytest.raises(ConfigurationError):
        BatchOperator.execute()


@pytest.mark.flink
def test_an_empty_result_keeps_its_columns(people, capsys):
    nobody = people.where("id > 9")
    assert list(nobody.collectToDataframe().columns) == ["id", "name", "score"]
    assert len(nobody.print().collectToDataframe()) == 0
    assert capsys.readouterr().out == "id, name, score\n(no rows)\n"


@pytest.mark.flink
def test_a_dataframe_goes_in_and_comes_out(table_env):
    assert getMLEnv().btenv is table_env
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    back = BatchOperator.fromDataframe(frame, "id LONG, name STRING").collectToDataframe()
    assert back.id.tolist() == [1, 2] and back.name.tolist() == ["x", None]
