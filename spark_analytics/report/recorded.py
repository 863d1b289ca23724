"""The section about how much was recorded: bars of days, or of minutes where there is no more than minutes."""

from __future__ import annotations

from spark_analytics.report import plots
from spark_analytics.report.curves import Period
from spark_analytics.report.data import ReportData
from spark_analytics.report.pieces import both, duration, moment, quantity, section

#: What a bar stands for.
_BARS = ((86_400, "day"), (3600, "hour"), (60, "minute"))

#: What bars are measured in.
_UNITS = ((3600, "Hours"), (60, "Minutes"), (1, "Seconds"))

_DAY = 86_400


def recorded_over_time(data: ReportData, period: Period) -> str:
    """What was recorded in each piece of the time."""
    total, step, best = data.recorded_seconds, data.bars.step, data.bars.best
    if not total or best is None:
        return section("Nothing was recorded", "There is no recording in this time.", "")
    highest = max(seconds for _, seconds in data.bars.bars)
    unit, name = next((unit, name) for unit, name in _UNITS if highest >= 2 * unit or unit == 1)
    bars = [
        plots.Bar(
            f"{time.day} {time:%b}" if step >= _DAY else f"{time:%H:%M}\n{time.day} {time:%b}",
            seconds / unit,
            f"{time:%A}, {moment(time)}: {duration(seconds)} recorded",
        )
        for time, seconds in data.bars.bars
    ]
    whole = f"{quantity(total / 3600)} hours" if total >= 3600 else duration(total)
    title = f"{whole} {'was' if whole.startswith('1 ') else 'were'} recorded"
    if step >= _DAY:
        most = quantity(best[1] / 3600) if total >= 3600 else duration(best[1])
        title += f"; {best[0].day} {best[0]:%B} has most: {most}"
    unit_of_bar, what = next((one, word) for one, word in _BARS if step >= one)
    each = what if step == unit_of_bar else f"{step // unit_of_bar} {what}s"
    return section(
        title,
        f"{name} of all streams together, a bar for each {each} (UTC).",
        both(lambda width: plots.bar_chart(bars, width, f"{name} recorded, a bar for each {each}")),
    )
