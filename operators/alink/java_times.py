"""Local times as java.sql has them: Julian before 1582-10-15, with today's standard offset of a
zone before 1900. Pure.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo

_EPOCH = datetime.datetime(1970, 1, 1)
_SECOND = datetime.timedelta(seconds=1)
_DAY_S = 86_400
_1900 = -2_208_988_800
_FIRST_GREGORIAN_DAY = datetime.date(1582, 10, 15).toordinal()
# After 400 years the calendar and the rules of zones repeat.
_CYCLE_S = 146_097 * _DAY_S
# From this second on, about in the year 9970, times are computed one cycle earlier, because Python
# cannot convert the last instants of the year 9999 between zones.
_FAR = 8000 * _CYCLE_S // 400
# Every fourth year is a leap year in the Julian calendar, as 2004 is the fourth year from here on.
_JULIAN_CYCLE = datetime.date(2001, 1, 1).toordinal()
_JULIAN_CYCLE_DAYS = 1461
_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2}):?(\d{2})?")


def zone_of(name: str) -> datetime.tzinfo:
    match = _OFFSET.fullmatch(name)
    try:
        if match is not None:
            offset = datetime.timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
            return datetime.timezone(-offset if match[1] == "-" else offset)
        return zoneinfo.ZoneInfo("UTC" if name == "Z" else name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"a time zone such as Asia/Shanghai or GMT+08:00, {name!r} is unknown"
        ) from None


class JavaClock:
    def __init__(self, zone: datetime.tzinfo | None) -> None:
        self._zone = zone
        year = datetime.date.today().year
        # The standard offset is the smallest offset of a year, since summer time moves clocks
        # forward.
        days = [
            datetime.datetime(year, month, day, 12) for month in range(1, 13) for day in (1, 15)
        ]
        self._standard_s = min(self._offset_s((day - _EPOCH) // _SECOND) for day in days)

    def local(self, milliseconds: int) -> datetime.datetime:
        seconds, rest = divmod(milliseconds, 1000)
        try:
            days, second = divmod(seconds + self._offset_of(seconds), _DAY_S)
            ordinal = days + _EPOCH.toordinal()
            date = (
                datetime.date.fromordinal(ordinal)
                if ordinal >= _FIRST_GREGORIAN_DAY
                else _julian_date(ordinal)
            )
        except (ValueError, OverflowError):
            raise ValueError(
                "a date outside the years 1 to 9999, or a leap day of the Julian calendar"
                f" ({milliseconds} ms)"
            ) from None
        return datetime.datetime.combine(date, datetime.time()) + datetime.timedelta(
            seconds=second, milliseconds=rest
        )

    def milliseconds(self, local: datetime.datetime) -> int:
        """Instant of a local time in whole milliseconds; ValueError for a time that the
        zone skips.
        """
        for seconds in self._candidates(local):
            instant_ms = seconds * 1000 + local.microsecond // 1000
            # A candidate counts only if it leads back to the same local time, which no candidate
            # does for a time that the zone skips.
            if self.local(instant_ms) == local:
                return instant_ms
        raise ValueError(f"{local} does not exist in {self._name}")

    def milliseconds_of_date(self, date: datetime.date) -> int:
        for seconds in self._candidates(datetime.datetime.combine(date, datetime.time())):
            if self.local(seconds * 1000).date() == date:
                return seconds * 1000
        raise ValueError(f"{date} does not exist in {self._name}")

    @property
    def _name(self) -> str:
        return "the time zone of this program" if self._zone is None else str(self._zone)

    def _candidates(self, local: datetime.datetime) -> list[int]:
        """Instants that may have a local time. Of a repeated hour, Java takes the later one."""
        date = local.date()
        days = (
            date.toordinal() if date.toordinal() >= _FIRST_GREGORIAN_DAY else _julian_ordinal(date)
        )
        seconds = (
            (days - _EPOCH.toordinal()) * _DAY_S
            + local.hour * 3600
            + local.minute * 60
            + local.second
        )
        # The margin of a day covers all offsets. Near 1900 both ways are tried.
        if seconds < _1900 - _DAY_S:
            return [seconds - self._standard_s]
        far = _CYCLE_S if seconds >= _FAR else 0
        near = _EPOCH + (seconds - far) * _SECOND
        # The fold 1 comes first, because Java takes the later one of two instants with the same
        # local time.
        folds = [
            int(near.replace(tzinfo=self._zone, fold=fold).timestamp()) + far for fold in (1, 0)
        ]
        return [*folds, seconds - self._standard_s]

    def _offset_of(self, seconds: int) -> int:
        if seconds < _1900:
            return self._standard_s
        return self._offset_s(seconds - _CYCLE_S if seconds >= _FAR else seconds)

    def _offset_s(self, seconds: int) -> int:
        offset = (
            datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
            .astimezone(self._zone)
            .utcoffset()
        )
        assert offset is not None
        return offset // _SECOND


def _julian_date(ordinal: int) -> datetime.date:
    cycles, days = divmod(ordinal + 1, _JULIAN_CYCLE_DAYS)  # the Julian 0001-01-01 is day -1
    # The years 2001 to 2004 have the months and leap day of any four Julian years, so `datetime`
    # finds the day in them.
    date = datetime.date.fromordinal(_JULIAN_CYCLE + days)
    return date.replace(year=date.year - 2000 + 4 * cycles)


def _julian_ordinal(date: datetime.date) -> int:
    cycles, years = divmod(date.year - 1, 4)
    return (
        cycles * _JULIAN_CYCLE_DAYS
        + date.replace(year=2001 + years).toordinal()
        - _JULIAN_CYCLE
        - 1
    )
