"""Who is who in a group, and what of its settings must not be seen."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from bridge.schema import Schema
from bridge.settings import GroupSettings, PythonArchive, UserFile


def settings(**changes: Any) -> GroupSettings:
    schema = Schema.parse("id BIGINT")
    values: dict[str, Any] = {"num_workers": 3, "num_ps": 2, "user_files": (), **changes}
    return GroupSettings(
        operator="Op",
        kind="batch",
        input_schema=schema,
        output_schema=schema,
        main_script="main.py",
        **values,
    )


@pytest.mark.parametrize(
    ("chief_coordinates", "fed", "deciding"), [(False, [0, 1, 2], [0, 1, 2]), (True, [1, 2], [0])]
)  # fmt: skip
def test_coordinating_chief_gets_no_rows_and_ends_the_group_alone(
    chief_coordinates: bool, fed: list[int], deciding: list[int]
) -> None:
    group = settings(chief_coordinates=chief_coordinates)
    assert (group.size, list(group.fed), list(group.deciding)) == (5, fed, deciding)


def test_large_files_and_archives_travel_with_the_job() -> None:
    files = (UserFile("small.py", b"x"), UserFile("words.txt", b"", shipped="/cache/words-1"))
    assert settings(user_files=files).shipped == ["/cache/words-1"]
    assert settings(user_files=files, python="/usr/bin/python3").shipped == ["/cache/words-1"]
    archive = PythonArchive("/cache/env-2.tar.gz", "2", "env.tar.gz")
    assert settings(user_files=files, python=archive).shipped == [
        "/cache/words-1",
        "/cache/env-2.tar.gz",
    ]


def test_a_weight_is_a_column_of_the_script_unless_the_table_has_it() -> None:
    assert settings().script_schema.names == ["id"]
    assert settings(weight_column="id").script_schema.names == ["id"]
    added = settings(weight_column="my weight").script_schema
    assert added.names == ["id", "my weight"]
    assert (added.columns[1].type.sql, added.columns[1].type.nullable) == ("FLOAT NOT NULL", False)


def test_groups_have_secrets_of_their_own_that_travel_and_are_not_shown() -> None:
    one, other = settings(env_vars=("KEY=hidden",)), settings()
    assert one.token != other.token and len(one.token) == 32
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.token not in repr(one) and "hidden" not in repr(one)
