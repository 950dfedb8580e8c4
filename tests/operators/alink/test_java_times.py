"""Local times as Java's classes keep them: Java itself says what is right."""

from __future__ import annotations

import datetime
import random

import pytest

from operators import MLEnv
from operators.alink.java_times import JavaClock, zone_of

ZONES = [
    "UTC",
    "Asia/Shanghai",
    "America/New_York",
    "Europe/Dublin",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "GMT+08:00",
]
# 1582-10-15 00:00 in UTC, the first day of Java's Gregorian calendar
CHANGE_MS = -12_219_292_800_000
YEAR_1900_MS = -2_208_988_800_000


@pytest.mark.flink
def test_instants_and_clocks_agree_with_java(env: MLEnv) -> None:
    assert env.btenv
    from pyflink.java_gateway import get_gateway

    jvm, rng = get_gateway().jvm, random.Random(7)
    for name in ZONES:
        form = jvm.java.text.SimpleDateFormat("yyyy-MM-dd HH:mm:ss.SSS")
        form.setTimeZone(jvm.java.util.TimeZone.getTimeZone(name))
        clock, day = JavaClock(zone_of(name)), 86_400_000
        instants = [rng.randrange(-62_000_000_000_000, 253_402_200_000_000) for _ in range(10)]
        instants += [rng.randrange(0, 4_000_000_000_000) for _ in range(10)]
        instants += [
            edge + rng.randrange(-2 * day, 2 * day)
            for edge in (CHANGE_MS, YEAR_1900_MS)
            for _ in range(10)
        ]
        for instant in instants:
            shown = form.format(jvm.java.util.Date(instant))
            local = clock.local(instant)
            assert f"{local.year:04}" + local.strftime("-%m-%d %H:%M:%S.%f")[:-3] == shown, (
                name,
                instant,
            )
            assert clock.milliseconds(local) == form.parse(shown).getTime(), (name, shown)


@pytest.mark.parametrize(
    ("zone", "date", "milliseconds"),
    [
        ("UTC", datetime.date(1970, 1, 2), 86_400_000),
        ("Asia/Shanghai", datetime.date(2020, 2, 3), 1_580_659_200_000),
        # a day that begins at one o'clock
        ("America/Sao_Paulo", datetime.date(2017, 10, 15), 1_508_036_400_000),
        ("UTC", datetime.date(1, 1, 1), -62_135_769_600_000),
    ],
)
def test_dates_are_midnights_of_the_time_zone(
    zone: str, date: datetime.date, milliseconds: int
) -> None:
    clock = JavaClock(zone_of(zone))
    assert (
        clock.milliseconds_of_date(date) == milliseconds
        and clock.local(milliseconds).date() == date
    )


@pytest.mark.parametrize(
    ("zone", "local"),
    [
        ("America/New_York", datetime.datetime(2024, 3, 10, 2, 30)),
        ("Pacific/Apia", datetime.datetime(2011, 12, 30)),
        ("UTC", datetime.datetime(1582, 10, 5)),
    ],
)
def test_local_times_that_do_not_exist_are_refused(zone: str, local: datetime.datetime) -> None:
    with pytest.raises(ValueError, match=f"{local} does not exist in {zone}"):
        JavaClock(zone_of(zone)).milliseconds(local)


@pytest.mark.parametrize("milliseconds", [2**62, -(2**63), -14_825_894_400_000])
def test_instants_outside_the_dates_of_python_are_refused(milliseconds: int) -> None:
    with pytest.raises(
        ValueError, match="a date outside the years 1 to 9999, or a leap day of the Julian calendar"
    ):
        JavaClock(zone_of("UTC")).local(milliseconds)


def test_java_clock_uses_the_time_zone_of_the_program_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        clock = JavaClock(None)
        assert (
            clock.local(0) == datetime.datetime(1970, 1, 1, 8)
            and clock.milliseconds(datetime.datetime(1970, 1, 1, 8)) == 0
        )
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("name", "hours"), [("GMT-03:00", -3), ("+08:00", 8), ("UTC+5", 5), ("Z", 0)]
)
def test_time_zones_may_be_given_by_their_offset(name: str, hours: int) -> None:
    assert zone_of(name).utcoffset(None) or zone_of(name).utcoffset(
        datetime.datetime.min
    ) == datetime.timedelta(hours=hours)


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "../etc/passwd", "GMT+99:00"])
def test_unknown_time_zones_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a time zone such as .* is unknown"):
        zone_of(name)
