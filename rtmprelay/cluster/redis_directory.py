"""The directory in a server with the Redis protocol: Redis, Valkey, KeyDB.

Every change is one Lua script, so that nothing happens between a look and a change. All keys have the hash tag
`{rtmprelay}`, so that a Redis Cluster keeps them together:

- `{rtmprelay}:version`: the version of the records.
- `{rtmprelay}:epoch`: the last epoch; counts up for ever.
- `{rtmprelay}:nodes`: a hash, node name to record as JSON.
- `{rtmprelay}:lease:INSTANCE`: exists while a node holds its lease.
- `{rtmprelay}:owners`: a hash, stream key to `EPOCH SILENT INSTANCE`.

A lease belongs to a run of a node, and a stream to a run: so a renewal is a dozen commands, however many streams there are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import txredisapi
from twisted.internet.defer import Deferred, TimeoutError, maybeDeferred
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.error import ConnectError, ConnectionDone, ConnectionLost, DNSLookupError
from twisted.internet.ssl import optionsForClientTLS
from zope.interface import implementer

from rtmprelay.cluster.directory import (
    LEASE,
    VERSION,
    ClaimAnswer,
    DirectoryLostError,
    DirectoryRefusedError,
    IStreamDirectory,
    NodeRecord,
    Ownership,
    Snapshot,
)
from rtmprelay.cluster.settings import DirectoryAddress

#: Seconds that an answer may take. Redis answers in less than a millisecond; one that is frozen must not cost a lease.
ANSWER_TIMEOUT = 1.0

_PREFIX = "{rtmprelay}:"

#: Milliseconds after the end of its lease when a node and its streams are forgotten.
_FORGET_AFTER = 60_000

_COMMON = """
local prefix = '{rtmprelay}:'
local function holds(instance) return redis.call('EXISTS', prefix .. 'lease:' .. instance) == 1 end
local function owner_of(key)
  local value = redis.call('HGET', prefix .. 'owners', key)
  if not value then return nil end
  local epoch, silent, instance = string.match(value, '^(%d+) (%d) (.+)$')
  return {epoch = epoch, silent = silent, instance = instance}
end
local function set_owner(key, epoch, silent, instance)
  redis.call('HSET', prefix .. 'owners', key, epoch .. ' ' .. silent .. ' ' .. instance)
end
"""

# KEYS: none beside those with the prefix. ARGV: name, instance, record, lease in ms, then key and 0 or 1 for each stream.
_RENEW = (
    _COMMON
    + """
local name, instance, record, lease = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local nodes = redis.call('HGETALL', prefix .. 'nodes')
local live, dead = {}, {}
for index = 1, #nodes, 2 do
  local other = cjson.decode(nodes[index + 1])
  if other.instance ~= instance then
    -- As long as its lease exists; one command for each of many nodes would be too much.
    if now - other.renewed_at < tonumber(lease) then
      if nodes[index] == name then return {'taken', other.url} end
      table.insert(live, nodes[index + 1])
    elseif now - other.renewed_at > tonumber(ARGV[5]) then
      redis.call('HDEL', prefix .. 'nodes', nodes[index])
      dead[other.instance] = true
    end
  end
end
local own = cjson.decode(record)
own.renewed_at = now
record = cjson.encode(own)
redis.call('HSET', prefix .. 'nodes', name, record)
if tonumber(redis.call('GET', prefix .. 'epoch') or '0') < own.highest_epoch then
  redis.call('SET', prefix .. 'epoch', string.format('%.0f', own.highest_epoch))
end
redis.call('SET', prefix .. 'lease:' .. instance, name, 'PX', lease)
table.insert(live, record)
for index = 6, #ARGV, 2 do
  local owner = owner_of(ARGV[index])
  if owner and owner.instance == instance then set_owner(ARGV[index], owner.epoch, ARGV[index + 1], instance) end
end
local owners = redis.call('HGETALL', prefix .. 'owners')
for index = 1, #owners, 2 do
  local instance_of = string.match(owners[index + 1], '^%d+ %d (.+)$')
  if dead[instance_of] then redis.call('HDEL', prefix .. 'owners', owners[index]) end
end
return {'renewed', live, owners}
"""
)

# ARGV: key, instance.
_CLAIM = (
    _COMMON
    + """
local key, instance = ARGV[1], ARGV[2]
if not holds(instance) then return {'no lease'} end
local owner = owner_of(key)
if owner and owner.instance == instance then
  set_owner(key, owner.epoch, '0', instance)
  return {'owned', owner.epoch, '0', instance}
end
if owner and holds(owner.instance) and owner.silent == '0' then
  return {'owned', owner.epoch, owner.silent, owner.instance}
end
local epoch = redis.call('INCR', prefix .. 'epoch')
set_owner(key, epoch, '0', instance)
local previous = ''
if owner then
  local nodes = redis.call('HVALS', prefix .. 'nodes')
  for _, record in ipairs(nodes) do
    if cjson.decode(record).instance == owner.instance then previous = record end
  end
end
return {'claimed', tostring(epoch), '0', instance, previous}
"""
)

# ARGV: instance, then keys.
_RELEASE = (
    _COMMON
    + """
for index = 2, #ARGV do
  local owner = owner_of(ARGV[index])
  if owner and owner.instance == ARGV[1] then redis.call('HDEL', prefix .. 'owners', ARGV[index]) end
end
return 1
"""
)

# ARGV: name, instance.
_LEAVE = (
    _COMMON
    + """
redis.call('DEL', prefix .. 'lease:' .. ARGV[2])
local record = redis.call('HGET', prefix .. 'nodes', ARGV[1])
if record and cjson.decode(record).instance == ARGV[2] then redis.call('HDEL', prefix .. 'nodes', ARGV[1]) end
local owners = redis.call('HGETALL', prefix .. 'owners')
for index = 1, #owners, 2 do
  if string.match(owners[index + 1], '^%d+ %d (.+)$') == ARGV[2] then
    redis.call('HDEL', prefix .. 'owners', owners[index])
  end
end
return 1
"""
)

_RECORD_FIELDS = frozenset(field.name for field in attrs.fields(NodeRecord))


class _Factory(txredisapi.RedisFactory):  # type: ignore[misc]
    """Tries again soon: a node without its directory takes no publishers."""

    initialDelay = 0.2  # noqa: N815
    maxDelay = 1.0  # noqa: N815
    #: Why the server refused the last connection, if it did: then no other attempt follows by itself.
    refusal: str | None = None

    def connectionError(self, why: str) -> None:  # noqa: N802
        """Called when a connection cannot be used: the password is wrong, or the server does not answer."""
        reason = why.rpartition(": ")[2]
        # Redis begins an error with a word in capitals.
        self.refusal = reason if reason.partition(" ")[0].isupper() else None


@implementer(IStreamDirectory)
class RedisDirectory:
    """One connection to the directory, made anew whenever it is lost."""

    def __init__(self, reactor: Any, address: DirectoryAddress) -> None:
        self._reactor = reactor
        self._address = address
        self._factory: Any = None

    def open(self) -> Deferred[None]:
        self._connect()
        return Deferred.fromCoroutine(self._check())

    def _connect(self) -> None:
        address = self._address
        factory = self._factory = _Factory(
            address.location,
            address.database or None,
            1,
            isLazy=True,
            charset="utf-8",
            password=address.password.reveal() or None,
            username=address.user or None,
            replyTimeout=ANSWER_TIMEOUT,
            convertNumbers=False,
        )
        endpoint: Any = HostnameEndpoint(
            self._reactor, address.host.encode(), address.port, timeout=ANSWER_TIMEOUT
        )
        if address.secure:
            endpoint = wrapClientTLS(optionsForClientTLS(address.host), endpoint)
        factory.startConnecting(endpoint)

    async def _check(self) -> None:
        """Find out whether it is a directory that can be used."""
        version = _PREFIX + "version"
        # The first connection takes longer than an answer.
        await self._ask(lambda redis: redis.setnx(version, VERSION), timeout=3 * ANSWER_TIMEOUT)
        found = await self._ask(lambda redis: redis.get(version))
        if found != VERSION:
            raise DirectoryRefusedError(
                f"the directory at {self._address.location} has version {str(found)[:20]!r}, and this relay needs"
                f" {VERSION}"
            )

    async def _ask(self, request: Callable[[Any], Any], timeout: float = ANSWER_TIMEOUT) -> Any:
        if self._factory is None:
            raise DirectoryLostError("the directory is closed")
        if self._factory.stopped:
            self._connect()
        answer: Deferred[Any] = maybeDeferred(request, self._factory.handler)
        answer.addTimeout(timeout, self._reactor)
        try:
            return await answer
        except txredisapi.ResponseError as error:
            raise self._understood(str(error)) from None
        except (
            TimeoutError,
            txredisapi.RedisError,
            ConnectError,
            ConnectionDone,
            ConnectionLost,
            DNSLookupError,
            OSError,
        ) as error:
            where = self._address.location
            if self._factory is not None and self._factory.refusal is not None:
                raise self._understood(self._factory.refusal) from None
            raise DirectoryLostError(
                f"the directory at {where} does not answer ({_sentence(error)})"
            ) from None

    def _understood(self, answer: str) -> Exception:
        where = self._address.location
        if answer.startswith(("WRONGPASS", "NOAUTH", "NOPERM", "ERR AUTH", "ERR invalid password")):
            return DirectoryRefusedError(f"the directory at {where} refuses the user or the password")
        if answer.startswith(("LOADING", "MASTERDOWN", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "BUSY")):
            return DirectoryLostError(f"the directory at {where} is not ready ({answer.split()[0]})")
        return DirectoryRefusedError(f"the server at {where} cannot be the directory ({answer[:80]})")

    async def _run(self, script: str, *arguments: object) -> Any:
        return await self._ask(lambda redis: redis.eval(script, [], list(arguments)))

    def renew(self, node: NodeRecord, silent: Mapping[str, bool]) -> Deferred[Snapshot]:
        return Deferred.fromCoroutine(self._renew(node, silent))

    async def _renew(self, node: NodeRecord, silent: Mapping[str, bool]) -> Snapshot:
        flags = [part for key, is_silent in silent.items() for part in (key, "1" if is_silent else "0")]
        lease = int(LEASE * 1000)
        record = json.dumps(attrs.asdict(node))
        result, *rest = await self._run(
            _RENEW, node.name, node.instance, record, lease, _FORGET_AFTER, *flags
        )
        if result == "taken":
            raise DirectoryRefusedError(f"another node is called {node.name!r} ({rest[0]})")
        live, owners = rest
        nodes = [_record(text) for text in live]
        pairs = zip(owners[::2], owners[1::2], strict=True)
        return Snapshot({one.name: one for one in nodes}, {key: _ownership(text) for key, text in pairs})

    def claim(self, key: str, node: NodeRecord) -> Deferred[ClaimAnswer]:
        return Deferred.fromCoroutine(self._claim(key, node))

    async def _claim(self, key: str, node: NodeRecord) -> ClaimAnswer:
        answer = await self._run(_CLAIM, key, node.instance)
        if answer[0] == "no lease":
            raise DirectoryLostError("this node has lost its lease, and renews it")
        owner = Ownership(answer[3], int(answer[1]), answer[2] == "1")
        previous = _record(answer[4]) if len(answer) > 4 and answer[4] else None
        return ClaimAnswer(owner, previous)

    def release(self, keys: Sequence[str], node: NodeRecord) -> Deferred[None]:
        return Deferred.fromCoroutine(self._run(_RELEASE, node.instance, *keys))

    def leave(self, node: NodeRecord) -> Deferred[None]:
        return Deferred.fromCoroutine(self._run(_LEAVE, node.name, node.instance))

    def close(self) -> Deferred[None]:
        factory, self._factory = self._factory, None
        if factory is None:
            return maybeDeferred(lambda: None)
        closed: Deferred[None] = factory.disconnect()
        return closed.addErrback(lambda failure: None).addCallback(lambda _: None)


def _record(text: str) -> NodeRecord:
    fields = json.loads(text)
    return NodeRecord(**{name: value for name, value in fields.items() if name in _RECORD_FIELDS})


def _ownership(text: str) -> Ownership:
    epoch, silent, instance = text.split(" ", 2)
    return Ownership(instance, int(epoch), silent == "1")


def _sentence(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__
