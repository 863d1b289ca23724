"""Commands of clients are read, and answers of servers are written."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.amf.amf0 import UNDEFINED, AmfDate, AmfValue, EcmaArray
from rtmprelay.wire.commands import (
    CheckBandwidth,
    ClientCommand,
    CloseStream,
    Connect,
    CreateStream,
    DeleteStream,
    FCPublish,
    FCSubscribe,
    FCUnpublish,
    GetStreamLength,
    Pause,
    Play,
    Play2,
    Publish,
    ReceiveAudio,
    ReceiveVideo,
    ReleaseStream,
    StatusCode,
    UnknownCommand,
    error,
    on_status,
    read_client_command,
    result,
    status_of,
)
from rtmprelay.wire.messages import Command, from_raw, to_raw

#: What a client sends, and the value that is read from it.
SENT: list[tuple[Command, ClientCommand]] = [
    (Command("connect", 1.0, {"app": "live"}), Connect(1.0, {"app": "live"})),
    (Command("connect", 1.0, {}, ("user", "pass")), Connect(1.0, {})),
    (Command("createStream", 4.0), CreateStream(4.0)),
    (Command("releaseStream", 2.0, None, ("key",)), ReleaseStream(2.0)),
    (Command("FCPublish", 3.0, None, ("key",)), FCPublish(3.0)),
    (Command("FCUnpublish", 6.0, None, ("key",)), FCUnpublish(6.0)),
    (Command("FCSubscribe", 6.0, None, ("key",)), FCSubscribe(6.0)),
    (Command("getStreamLength", 6.0, None, ("key",)), GetStreamLength(6.0)),
    (Command("publish", 5.0, None, ("key", "live"), 1), Publish(5.0, 1, "key")),
    (Command("publish", 5.0, None, ("key", "record"), 7), Publish(5.0, 7, "key")),
    (Command("play", 5.0, None, ("key", -2.0, -1.0, True), 1), Play(5.0, 1, "key", True)),
    (Command("play", 5.0, None, ("key", 10.0, 20.0, False), 1), Play(5.0, 1, "key", False)),
    (Command("play2", 5.0, None, ({"streamName": "key"},), 1), Play2(5.0, 1, "key")),
    (Command("pause", 5.0, None, (True, 1234.0), 1), Pause(5.0, 1, True)),
    (Command("pause", 5.0, None, (False, 0.0), 1), Pause(5.0, 1, False)),
    (Command("receiveAudio", 5.0, None, (False,), 1), ReceiveAudio(5.0, 1, False)),
    (Command("receiveVideo", 5.0, None, (True,), 1), ReceiveVideo(5.0, 1, True)),
    (Command("closeStream", 0.0, None, (), 3), CloseStream(0.0, 3)),
    (Command("deleteStream", 7.0, None, (3.0,)), DeleteStream(7.0, 3)),
    (Command("_checkbw", 8.0), CheckBandwidth(8.0)),
]


def over_the_wire(command: Command) -> Command:
    received = from_raw(to_raw(command))
    assert isinstance(received, Command)
    return received


@pytest.mark.parametrize(("command", "value"), SENT, ids=[f"{i}-{c.name}" for i, (c, _) in enumerate(SENT)])
def test_commands_of_clients_are_read(command: Command, value: ClientCommand) -> None:
    read = read_client_command(over_the_wire(command))
    assert read == value
    assert type(read) is type(value)


#: Incomplete or wrong arguments, with transaction id 9 and message stream 1, and the value that is read from them.
LENIENT: list[tuple[str, tuple[AmfValue, ...], ClientCommand]] = [
    ("publish", ("key",), Publish(9.0, 1, "key")),
    ("publish", ("key", None), Publish(9.0, 1, "key")),
    ("publish", ("key", 1.0), Publish(9.0, 1, "key")),
    ("publish", (), Publish(9.0, 1, "")),
    ("publish", (None, "live"), Publish(9.0, 1, "")),
    ("play", ("key", -1.0, 5.0, False), Play(9.0, 1, "key", False)),
    ("play", ("key", -1.0, 5.0), Play(9.0, 1, "key", True)),
    ("play", ("key", -1.0), Play(9.0, 1, "key", True)),
    ("play", ("key",), Play(9.0, 1, "key", True)),
    ("play", (), Play(9.0, 1, "", True)),
    ("play", (None, None, None, None), Play(9.0, 1, "", True)),
    ("play", ("key", "x", {}, "y"), Play(9.0, 1, "key", True)),
    ("play", ("key", True, False, 0.0), Play(9.0, 1, "key", False)),
    ("play2", (), Play2(9.0, 1, "")),
    ("play2", ({},), Play2(9.0, 1, "")),
    ("play2", ({"streamName": None},), Play2(9.0, 1, "")),
    ("play2", ("key",), Play2(9.0, 1, "")),
    ("play2", (EcmaArray({"streamName": "key"}),), Play2(9.0, 1, "key")),
    ("pause", (), Pause(9.0, 1, True)),
    ("pause", (False,), Pause(9.0, 1, False)),
    ("pause", (None, None), Pause(9.0, 1, True)),
    ("pauseRaw", (False, 5.0), Pause(9.0, 1, False)),
    ("receiveAudio", (), ReceiveAudio(9.0, 1, True)),
    ("receiveAudio", (0.0,), ReceiveAudio(9.0, 1, False)),
    ("receiveVideo", (), ReceiveVideo(9.0, 1, True)),
    ("receiveVideo", (None,), ReceiveVideo(9.0, 1, True)),
    ("releaseStream", (), ReleaseStream(9.0)),
    ("FCPublish", (None,), FCPublish(9.0)),
    ("FCUnpublish", (5.0,), FCUnpublish(9.0)),
    ("FCSubscribe", ({},), FCSubscribe(9.0)),
    ("getStreamLength", (), GetStreamLength(9.0)),
    ("createStream", ("ignored",), CreateStream(9.0)),
    ("closeStream", (1.0,), CloseStream(9.0, 1)),
    ("connect", (), Connect(9.0, {})),
]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"), LENIENT, ids=[f"{name}{arguments}" for name, arguments, _ in LENIENT]
)
def test_missing_and_wrong_arguments_get_their_defaults(
    name: str, arguments: tuple[AmfValue, ...], expected: ClientCommand
) -> None:
    assert read_client_command(over_the_wire(Command(name, 9.0, None, arguments, 1))) == expected


@pytest.mark.parametrize("properties", [None, "live", 1.0, [], UNDEFINED], ids=repr)
def test_connect_without_an_object_has_no_properties(properties: AmfValue) -> None:
    assert read_client_command(Command("connect", 1.0, properties)) == Connect(1.0, {})


STREAM_IDS: list[tuple[AmfValue, int]] = [
    (3.0, 3),
    (0.0, 0),
    (3.9, 3),
    (float(2**32 - 1), 2**32 - 1),
    (float(2**32), -1),
    (1e308, -1),
    (-1.0, -1),
    (-0.5, -1),
    (math.nan, -1),
    (math.inf, -1),
    (-math.inf, -1),
    # Without a number it means the message stream on which it arrived.
    (None, 5),
    ("3", 5),
    ({}, 5),
]


@pytest.mark.parametrize(("number", "stream_id"), STREAM_IDS, ids=[repr(number) for number, _ in STREAM_IDS])
def test_delete_stream_takes_any_number_that_can_be_a_stream_id(number: AmfValue, stream_id: int) -> None:
    command = over_the_wire(Command("deleteStream", 0.0, None, (number,), 5))
    assert read_client_command(command) == DeleteStream(0.0, stream_id)


def test_delete_stream_without_an_argument_means_its_own_stream() -> None:
    assert read_client_command(Command("deleteStream", 0.0, None, (), 5)) == DeleteStream(0.0, 5)


@pytest.mark.parametrize("name", ["", "Publish", "onStatus", "_result", "__class__", "получить", "x" * 1000])
def test_unknown_commands_keep_their_name(name: str) -> None:
    assert read_client_command(Command(name, 3.0, {"a": 1.0}, ("b",), 1)) == UnknownCommand(3.0, name)


@pytest.mark.parametrize("kind", [Publish, Play, Play2])
def test_stream_names_are_not_in_the_repr(kind: type[Publish | Play | Play2]) -> None:
    assert "SECRET" not in repr(kind(1.0, 1, "cam?key=SECRET"))


# -- answers -----------------------------------------------------------------------------------------------------


def test_result_contains_its_arguments() -> None:
    assert result(4.0, None, 1.0) == Command("_result", 4.0, None, (1.0,))
    assert result(4.0) == Command("_result", 4.0)
    assert result(4.0, {"fmsVer": "x"}, 1.0) == Command("_result", 4.0, {"fmsVer": "x"}, (1.0,))


def test_error_contains_its_status() -> None:
    command = over_the_wire(error(4.0, StatusCode.CALL_FAILED, "no"))
    assert (command.name, command.transaction_id, command.command_object) == ("_error", 4.0, None)
    assert status_of(command) == ("error", "NetConnection.Call.Failed", "no")


def test_on_status_contains_its_status() -> None:
    command = over_the_wire(on_status(1, "status", StatusCode.PUBLISH_START, "go"))
    assert (command.name, command.transaction_id, command.stream_id) == ("onStatus", 0.0, 1)
    assert status_of(command) == ("status", "NetStream.Publish.Start", "go")
    assert command.arguments == ({"level": "status", "code": "NetStream.Publish.Start", "description": "go"},)


STATUSES: list[tuple[tuple[AmfValue, ...], tuple[str, str, str]]] = [
    ((), ("", "", "")),
    ((None, 1.0, "text"), ("", "", "")),
    (({},), ("", "", "")),
    (({"code": "c"},), ("", "c", "")),
    (({"level": 1.0, "code": None, "description": []},), ("", "", "")),
    ((None, {"level": "error", "code": "c", "description": "d"}), ("error", "c", "d")),
    ((EcmaArray({"level": "l"}), {"level": "ignored"}), ("l", "", "")),
]


@pytest.mark.parametrize(("arguments", "expected"), STATUSES)
def test_status_is_read_from_the_first_object(
    arguments: tuple[AmfValue, ...], expected: tuple[str, str, str]
) -> None:
    assert status_of(Command("onStatus", 0.0, None, arguments)) == expected


# -- anything ----------------------------------------------------------------------------------------------------

#: Integers come from AMF3 only and have 29 bits there.
PLAIN_VALUES: st.SearchStrategy[AmfValue] = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.integers(-(2**28), 2**28 - 1),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.just(UNDEFINED),
    st.builds(AmfDate, st.floats()),
)
VALUES: st.SearchStrategy[AmfValue] = st.recursive(
    PLAIN_VALUES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["streamName", "level", "code"]), inner, max_size=3),
    ),
    max_leaves=5,
)
NAMES = st.sampled_from([*(command.name for command, _ in SENT), "pauseRaw", "other"])
COMMANDS = st.builds(
    Command, NAMES, st.floats(), VALUES, st.lists(VALUES, max_size=5).map(tuple), st.integers(0, 2**32 - 1)
)


@given(COMMANDS)
def test_arbitrary_arguments_raise_no_error(command: Command) -> None:
    read = read_client_command(command)
    assert isinstance(read, UnknownCommand) == (command.name == "other")
    assert all(isinstance(text, str) for text in status_of(command))
