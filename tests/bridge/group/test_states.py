"""What follows from the states of members, without processes."""

from __future__ import annotations

from typing import Any

import pytest

from akdl.wire import ENDED, FAILED, RUNNING, STARTING, MemberState, Phase
from bridge.group.states import LEFT_ALONE_S, MISSED_S, KnownStates
from bridge.schema import Schema
from bridge.settings import GroupSettings


def group(*states: MemberState, workers: int = 2, servers: int = 1, **changes: Any) -> KnownStates:
    schema = Schema.parse("id BIGINT")
    made = KnownStates(
        GroupSettings(
            operator="Op", kind="batch", num_workers=workers, num_ps=servers, input_schema=schema, output_schema=schema,
            main_script="s.py", user_files=(), **changes,
        )
    )  # fmt: skip
    made.update(states)
    return made


def state(index: int, phase: Phase = RUNNING, **values: Any) -> MemberState:
    return MemberState(index=index, phase=phase, **values)


def test_a_group_is_formed_when_all_have_connected() -> None:
    assert not group(state(0), state(1)).is_formed, "the server has not reported"
    assert not group(state(0), state(1), state(2, STARTING)).is_formed
    assert group(state(0), state(1, ENDED), state(2, FAILED)).is_formed
    assert group(state(0), state(1, STARTING)).unformed == ["worker 0", "ps 0"]


def test_a_script_that_starts_again_does_not_dissolve_its_group() -> None:
    made = group(state(0), state(1), state(2))
    assert made.is_formed
    made.update([state(1, STARTING)])
    assert made.is_formed and made.unformed == ["worker 0"]


def test_returned_names_workers_that_ended_but_no_servers() -> None:
    made = group(state(0, FAILED), state(1, ENDED), state(2, ENDED), state(3, ENDED), workers=3)
    assert made.returned(0) == ["worker 0", "worker 1"], "a server that ends is not missed"
    assert made.returned(1) == ["worker 1"]


def test_stalled_process_is_informed_of_workers_that_returned() -> None:
    still = state(0, idle_s=MISSED_S)
    assert group(still, state(1, ENDED), state(2)).wishes(0).returned == "worker 0"
    assert group(still, state(1), state(2, ENDED)).wishes(0).returned == "", (
        "a server is not missed"
    )
    assert group(state(0), state(1, ENDED), state(2)).wishes(0).returned == "", "it computes"
    assert group(state(0, idle_s=60, waiting=True), state(1, ENDED)).wishes(0).returned == "", (
        "it waits for rows"
    )


def test_newer_states_replace_older_ones() -> None:
    made = group(state(0), state(1), state(2))
    assert not made.have_ended(range(2))
    made.update([state(0, ENDED), state(1, ENDED)])
    assert made.have_ended(range(2)) and not made.have_ended(range(3))


def test_input_of_a_group_has_ended_when_every_worker_with_rows_has_them_all() -> None:
    assert not group(state(0, input_ended=True), state(1)).input_has_ended
    assert group(state(0, input_ended=True), state(1, input_ended=True)).input_has_ended, (
        "a server gets none"
    )
    assert not group(state(0, input_ended=True)).input_has_ended, (
        "a worker that has not reported may still get rows"
    )
    assert group(state(1, input_ended=True), chief_coordinates=True).input_has_ended, (
        "nor does a coordinating chief"
    )


def test_shares_are_known_when_all_inputs_are_complete() -> None:
    first = state(0, rows=3, dataset_file="/a", dataset_complete=True)
    assert group(first, state(1, rows=4, dataset_file="/b")).shares is None
    second = state(1, rows=4, dataset_file="/b", dataset_complete=True)
    assert [(share.path, share.rows) for share in group(first, second).shares.shares] == [
        ("/a", 3),
        ("/b", 4),
    ]
    assert group(first, second).share_sizes == [3, 4]


@pytest.mark.parametrize(
    ("rows", "giver"),
    [([3, 0], 0), ([0, 3], 1), ([3, 4], None), ([0, 0], None)],
    ids=["first", "second", "nobody needs", "nobody"],
)
def test_first_worker_with_rows_gives_a_sample_to_an_empty_share(
    rows: list[int], giver: int | None
) -> None:
    assert group(*(state(index, rows=count) for index, count in enumerate(rows))).giver == giver


def test_members_are_not_stalled_until_their_progress_is_known() -> None:
    made = group(state(0, idle_s=11), state(1, idle_s=11), state(2, idle_s=11))
    assert made.lagging(10) is not None
    made.update_essence([state(1, idle_s=11)])
    assert made.lagging(10) is None
    made.update([state(1, idle_s=12)])
    assert made.lagging(10) == 1
    made.forget_progress()
    assert made.lagging(10) is None


def test_files_are_made_when_one_member_wants_them() -> None:
    assert not group(state(0), state(1)).wishes(0).dataset_file
    assert group(state(0), state(1, wants_files=True)).wishes(0).dataset_file


@pytest.mark.parametrize(
    ("states", "lagging"),
    [
        # the chief still works
        ([state(0, idle_s=9), state(1, idle_s=11), state(2, idle_s=99)], None),
        # has read least
        (
            [
                state(0, idle_s=11, rows_read=5),
                state(1, idle_s=11, rows_read=4),
                state(2, idle_s=99),
            ],
            1,
        ),
        ([state(0, idle_s=12), state(1, idle_s=11), state(2, idle_s=99)], 0),  # stood still first
        # in an endless loop
        ([state(0, idle_s=12), state(1, idle_s=11, spinning=True), state(2, idle_s=99)], 1),
        (
            [
                state(0, idle_s=12, spinning=True),
                state(1, idle_s=11, spinning=True),
                state(2, idle_s=99),
            ],
            0,
        ),
        # 0 is in a collective
        ([state(0, idle_s=12, calling=True), state(1, idle_s=11), state(2, idle_s=99)], 1),
        # which polls
        (
            [
                state(0, idle_s=12, calling=True, spinning=True),
                state(1, idle_s=11),
                state(2, idle_s=99),
            ],
            1,
        ),
        # and has not come to reading
        ([state(0, idle_s=12), state(1, idle_s=11, rows_read=1), state(2, idle_s=99)], 0),
        ([state(0, ENDED, idle_s=99), state(1, idle_s=11), state(2, idle_s=99)], 1),
        # they may have waited for its end
        ([state(0, ENDED, idle_s=9), state(1, idle_s=11), state(2, idle_s=99)], None),
        # since then they might go on
        ([state(0, ENDED, idle_s=9, silent_s=2), state(1, idle_s=11), state(2, idle_s=99)], 1),
        # its error is on the way
        ([state(0, FAILED), state(1, idle_s=11), state(2, idle_s=99)], None),
        # or has been lost
        ([state(0, FAILED, silent_s=11), state(1, idle_s=11), state(2, idle_s=99)], 1),
        # the source may be slow
        ([state(0, idle_s=11), state(1, idle_s=11, waiting=True), state(2, idle_s=99)], None),
        # no: 0 blocks it
        (
            [
                state(0, idle_s=11, input_full=True),
                state(1, idle_s=11, waiting=True),
                state(2, idle_s=99),
            ],
            0,
        ),
        # the server computes
        ([state(0, idle_s=11), state(1, idle_s=11), state(2, idle_s=1)], None),
        ([state(0, ENDED), state(1, ENDED), state(2, idle_s=99)], None),
        ([state(0, STARTING, idle_s=11), state(1, STARTING, idle_s=11)], None),
    ],
)
def test_lagging_names_the_member_that_holds_up_a_stalled_group(
    states: list[MemberState], lagging: int | None
) -> None:
    assert group(*states).lagging(10) == lagging


def test_member_that_sleeps_or_spins_unlike_the_rest_lags() -> None:
    sleeps, spins = {"idle_s": 12}, {"idle_s": 11, "spinning": True}
    assert (
        group(
            *(state(index, **(spins if index == 1 else sleeps)) for index in range(3)), workers=3
        ).lagging(10)
        == 1
    )
    assert (
        group(
            *(state(index, **(sleeps if index == 1 else spins)) for index in range(3)), workers=3
        ).lagging(10)
        == 1
    )


def test_only_the_chief_can_lag_when_it_coordinates() -> None:
    states = [state(0, idle_s=11, rows_read=9), state(1, idle_s=99), state(2, idle_s=99)]
    assert group(*states, chief_coordinates=True).lagging(10) == 0


def test_server_that_ended_has_deserted_stalled_workers() -> None:
    still, moves = LEFT_ALONE_S + 1, LEFT_ALONE_S - 1
    assert group(state(0, idle_s=still), state(1, idle_s=still), state(2)).is_deserted_by(2)
    assert group(state(0, idle_s=still), state(1, ENDED), state(2)).is_deserted_by(2)
    assert not group(state(0, idle_s=still), state(1, idle_s=moves), state(2)).is_deserted_by(2)
    for works in ("waiting", "spinning"):
        assert not group(
            state(0, idle_s=still), state(1, idle_s=still, **{works: True}), state(2)
        ).is_deserted_by(2)
    assert not group(state(0, ENDED), state(1, ENDED), state(2)).is_deserted_by(2)
    assert not group(state(0, idle_s=still), state(1, idle_s=still), state(2)).is_deserted_by(1), (
        "workers may end early"
    )


def test_group_can_do_without_a_failed_server_unless_a_worker_failed() -> None:
    assert group(state(0), state(1, ENDED)).can_do_without(2)
    assert not group(state(0), state(1, FAILED)).can_do_without(2), "perhaps because the server has"
    assert not group(state(0), state(1)).can_do_without(1), "a worker's rows would be lost"
    assert group(state(0), state(1, FAILED), chief_coordinates=True).can_do_without(2), (
        "the chief decides"
    )
    assert not group(state(0), state(1), chief_coordinates=True).can_do_without(1), (
        "nor is a worker of a coordinator a server"
    )


def test_description_has_a_line_for_each_member() -> None:
    made = group(
        state(0, rows_read=2, rows=9, waiting=True), state(1, FAILED, failure="it broke"), workers=3,
    )  # fmt: skip
    made.update([state(2, rows_read=9, rows=9, idle_s=8, calling=True, spinning=True)])
    made.hosts = ["host0", "host1", "host2", "host3"]
    assert made.describe().splitlines() == [
        "chief 0 on host0: has read 2 of 9 rows, waits for Flink",
        "worker 0 on host1: failed: it broke",
        "worker 1 on host2: has read 9 of 9 rows, last progress 8 s ago, in a call of TensorFlow, uses the processor",
        "ps 0 on host3: has not reported",
    ]
