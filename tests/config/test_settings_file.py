"""The settings file: what it may say, how the command line decides over it, and how all mistakes are told at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtmprelay.config.options import Options
from rtmprelay.config.relay import RelayConfig
from rtmprelay.errors import ConfigError
from rtmprelay.files.free_space import DEFAULT_KEEP_FREE
from rtmprelay.recording.settings import RecordingSettings


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    return tmp_path / "relay.toml"


def read(settings: Path, text: str, *arguments: str) -> Options:
    settings.write_text(text)
    options = Options()
    options.parseOptions(["--config", str(settings), *arguments])
    return options


def config(settings: Path, text: str, *arguments: str) -> RelayConfig:
    made: RelayConfig = read(settings, text, *arguments)["config"]
    return made


def mistakes(settings: Path, text: str, *arguments: str) -> list[str]:
    with pytest.raises(SystemExit) as ended:
        read(settings, text, *arguments)
    return str(ended.value).replace(f"{settings}", "relay.toml").splitlines()


def test_every_kind_of_option_may_stand_in_the_file(settings: Path) -> None:
    made = config(
        settings,
        """
        listen = ["127.0.0.1:1936", ":1937"]
        chunk-size = 4096
        record-all = true
        event-log-gzip = false
        http-status = ":8080"
        relay-to = "rtmp://live.example/app/key"
        """,
    )
    assert made.listen == (
        "tcp:1936:interface=127.0.0.1:backlog=1024",
        "tcp:1937:backlog=1024",
    )
    assert made.chunk_size == 4096
    assert made.recording.record_all
    assert made.http.listen is not None
    assert [str(one.url.host) for one in made.destinations] == ["live.example"]


def test_limits_and_destinations_have_tables(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "abc")
    made = config(
        settings,
        """
        [limits]
        max_connections = 17
        idle_timeout = "90s"

        [[destinations]]
        name = "One"
        url = "rtmp://live.example/app"
        stream_key = "${SOME_KEY}"
        """,
    )
    assert made.admission_limits.max_connections == 17
    assert made.connection_limits.idle_timeout == 90
    assert [one.name for one in made.destinations] == ["One"]


def test_command_line_decides_over_the_file(settings: Path) -> None:
    made = config(
        settings, 'listen = [":1936", ":1937"]\nchunk-size = 4096\n', "--listen", ":1", "--chunk-size=128"
    )
    assert made.listen == ("tcp:1:backlog=1024",)
    assert made.chunk_size == 128


def test_empty_file_changes_nothing(settings: Path) -> None:
    assert config(settings, "# nothing\n") == RelayConfig(
        listen=("tcp:1935:backlog=1024",),
        recording=RecordingSettings(keep_free=DEFAULT_KEEP_FREE, shortest=1.0),
    )


def test_key_files_are_found_beside_the_settings(settings: Path) -> None:
    (settings.parent / "one.key").write_text("secret\n")
    text = '[[destinations]]\nname = "One"\nurl = "rtmp://live.example/app"\nstream_key_file = "one.key"\n'
    assert len(config(settings, text).destinations) == 1


def test_all_mistakes_of_the_form_are_told_with_their_lines(settings: Path) -> None:
    text = """
record-all = "yes"
lisen = 4
chunk-size = true
log-level = ["info"]
version = true

[[destinations]]
name = "One"
url = "rtmp://live.example/app"
stream_ky = "secret"
"""
    told = mistakes(settings, text)
    assert told == [
        "rtmprelay: relay.toml, line 2: record-all is either true or false",
        "rtmprelay: relay.toml, line 3: there is no option 'lisen'; did you mean 'listen'?",
        "rtmprelay: relay.toml, line 4: chunk-size must be text or a number",
        "rtmprelay: relay.toml, line 5: log-level must be text or a number",
        "rtmprelay: relay.toml, line 6: there is no option 'version'",
        "rtmprelay: relay.toml, line 11: unknown field 'stream_ky' @ $.destinations[0]",
    ]


def test_all_bad_values_are_told_with_their_lines(settings: Path) -> None:
    text = """listen = [":1936", "localhost"]
chunk-size = 12
http-status = ":99999"

[limits]
max_connections = "x"
max_conections = 3
"""
    expected = {
        1: "--listen: 'localhost' is not an endpoint to listen on: write a port, HOST:PORT, or",
        2: "--chunk-size: '12' is not a number of bytes",
        3: "--http-status: 99999 is not a port",
        6: "--limit: max_connections: 'x' is not a whole number",
        7: "--limit: unknown limit 'max_conections'; did you mean 'max_connections'?",
    }
    told = sorted(mistakes(settings, text))
    assert len(told) == len(expected)
    for line, (number, message) in zip(told, expected.items(), strict=True):
        assert line.startswith(f"rtmprelay: relay.toml, line {number}: {message}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("listen = [", "it is not valid TOML: "),
        ("limits = 3", "line 1: limits is a table: write [limits]"),
        ("destinations = 3", "line 1: destinations is a list of tables: write [[destinations]]"),
    ],
)
def test_malformed_file_is_refused_in_one_line(settings: Path, text: str, reason: str) -> None:
    (told,) = mistakes(settings, text)
    assert reason in told


def test_missing_file_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="cannot be read: No such file or directory"):
        Options().parseOptions(["--config", str(tmp_path / "none.toml")])


def test_no_mistake_shows_a_key(settings: Path) -> None:
    text = (
        '[[destinations]]\nname = "One"\nurl = "rtmp://live.example/app"\nstream_key = "hidden"\nbackup = 3\n'
    )
    assert "hidden" not in "\n".join(mistakes(settings, text))


def test_reading_again_finds_destinations_and_names_what_needs_a_restart(settings: Path) -> None:
    entry = '[[destinations]]\nname = "{}"\nurl = "rtmp://live.example/{}"\nstream_key = "x"\n'
    options = read(settings, 'chunk-size = 4096\nlog-level = "warn"\n' + entry.format("One", "a"))
    settings.write_text('chunk-size = 128\nlog-level = "warn"\n' + entry.format("Two", "b"))
    assert options.reread_settings_file() == ([], ["chunk-size"])
    assert [one.name for one in options.destinations()] == ["Two"]
    # Told until the restart.
    assert options.reread_settings_file() == ([], ["chunk-size"])


def test_bad_file_that_is_read_again_changes_nothing(settings: Path) -> None:
    options = read(
        settings, '[[destinations]]\nname = "One"\nurl = "rtmp://live.example/a"\nstream_key = "x"\n'
    )
    settings.write_text("chunk-size = [\n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        options.reread_settings_file()
    assert [one.name for one in options.destinations()] == ["One"]


@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        ("--lisen", "did you mean --listen?"),
        ("--port", "did you mean --listen?"),
        ("--record-al", ""),
        ("-n", "such as -n, stand before the word rtmprelay"),
    ],
)
def test_unknown_option_gets_a_hint(argument: str, hint: str) -> None:
    with pytest.raises(SystemExit) as ended:
        Options().parseOptions([argument, "1"])
    assert hint in str(ended.value)
    assert "\n" not in str(ended.value)


def test_reading_again_applies_options_that_may_change_while_it_runs(settings: Path) -> None:
    options = read(
        settings, 'relay-to = "rtmp://one.example/app/key"\nlog-level = "info"\nchunk-size = 128\n'
    )
    settings.write_text(
        'relay-to = "rtmp://two.example/app/key"\nlog-level = "debug"\nchunk-size = 4096\npull = "a/*=rtmp://h/a"\n'
    )
    assert options.reread_settings_file() == (["log-level", "pull", "relay-to"], ["chunk-size"])
    assert [one.url.host for one in options.destinations()] == ["two.example"]
    assert len(options.pulls()) == 1
    assert options["log-level"] == "debug"
    assert options.reread_settings_file() == ([], ["chunk-size"])


def test_reading_again_leaves_what_the_command_line_says(settings: Path) -> None:
    options = read(settings, 'log-level = "warn"\n', "--log-level", "error")
    settings.write_text('log-level = "debug"\n')
    assert options.reread_settings_file() == ([], [])
    assert options["log-level"] == "error"


def test_bad_values_that_are_read_again_change_nothing_and_are_told_with_their_lines(settings: Path) -> None:
    options = read(settings, 'log-level = "warn"\n')
    settings.write_text('log-level = "loud"\nchunk-size = 3\nrelay-to = "x"\n')
    with pytest.raises(ConfigError) as refused:
        options.reread_settings_file()
    assert [line.partition(": ")[2] for line in str(refused.value).splitlines()] == [
        f"{settings}, line 1: --log-level: 'loud' is not one of debug, info, warn, error",
        f"{settings}, line 2: --chunk-size: '3' is not a number of bytes from 128 to 65536",
        f"{settings}, line 3: --relay-to (number 1): it is not an RTMP URL: rtmp://host/app/key or"
        " rtmps://host/app/key is expected",
    ]
    assert options["log-level"] == "warn"


def test_each_destination_with_a_mistake_is_told_with_its_line(settings: Path) -> None:
    text = """
[[destinations]]
name = "One"
url = "rtmp://live.example/app"
stream_key = "${NO_SUCH_VARIABLE}"

[[destinations]]
name = "Two"
url = "http://live.example/app"
stream_key = "x"
nam = "y"

[[destinations]]
name = "Three"
url = "rtmp://live.example/app"
stream_key = "x"
max_retries = -1
"""
    assert mistakes(settings, text) == [
        "rtmprelay: relay.toml, line 5: destinations[0] ('One'): stream_key: the environment has no"
        " NO_SUCH_VARIABLE",
        "rtmprelay: relay.toml, line 11: unknown field 'nam' @ $.destinations[1]",
        "rtmprelay: relay.toml, line 17: destinations[2] ('Three'): max_retries and linger must not be"
        " negative, and failures_before_backup must be positive",
    ]
