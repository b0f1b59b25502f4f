"""Uses a key-value store by REDIS_URL and REDIS_KEY_PREFIX with redis-py: a cache, locks, transactions with WATCH, pipelines,
messages, streams and scripts. It exits with 1 if a reply is not what Redis sends."""

import os
import threading

import redis
from redis.exceptions import LockError, LockNotOwnedError, NoScriptError, ResponseError, WatchError

PREFIX = os.environ.get("REDIS_KEY_PREFIX", "")
client = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True, socket_timeout=100, client_name="redis-py")


def key(name):
    return f"{PREFIX}py:{name}"


def equal(got, want):
    if got != want:
        raise SystemExit(f"got {got!r}, want {want!r}")


def raises(error, call, *args, **kwargs):
    try:
        got = call(*args, **kwargs)
    except error as err:
        return str(err)
    raise SystemExit(f"got {got!r}, want {error.__name__}")


def cache():
    equal(client.set(key("page"), "grüße", ex=3600), True)
    equal(client.get(key("page")), "grüße")
    equal(client.ttl(key("page")) > 3500, True)
    equal(client.getex(key("page"), persist=True), "grüße")
    equal(client.ttl(key("page")), -1)
    equal(client.hset(key("user"), mapping={"name": "Ada", "born": 1815}), 2)
    equal(client.hgetall(key("user")), {"name": "Ada", "born": "1815"})
    equal(client.zadd(key("top"), {"a": 1.5, "b": float("inf")}), 2)
    equal(client.zrange(key("top"), 0, -1, withscores=True), [("a", 1.5), ("b", float("inf"))])
    equal(client.client_getname(), "redis-py")
    if PREFIX == "":  # a scan shows all keys of a server, so a store with a prefix has none
        equal(list(client.scan_iter(match=key("t*"), _type="zset")), [key("top")])
        server = client.info("server")
        equal((server["redis_version"].split(".")[0], server["arch_bits"]), ("7", 64))
        equal(client.dbsize(), 3)
    binary = redis.Redis.from_url(os.environ["REDIS_URL"])
    equal(binary.set(key("bytes"), bytes(range(256))), True)
    equal(binary.get(key("bytes")), bytes(range(256)))
    binary.close()


def locks():
    lock = client.lock(key("lock"), timeout=300)
    equal(lock.acquire(), True)
    equal(client.lock(key("lock"), timeout=300).acquire(blocking=False), False)
    equal(client.lock(key("lock"), timeout=300, blocking_timeout=0.2).acquire(), False)
    equal(lock.extend(300), True)
    equal(client.pttl(key("lock")) > 500_000, True)
    equal(lock.reacquire(), True)
    equal(lock.owned(), True)
    lock.release()
    raises(LockError, lock.release)
    total = []

    def add():
        with client.lock(key("mutex"), timeout=300, sleep=0.01):
            value = int(client.get(key("sum")) or 0)
            client.set(key("sum"), value + 1)
            total.append(value)

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(client.get(key("sum")), "8")
    equal(sorted(total), list(range(8)))
    stolen = client.lock(key("stolen"), timeout=300)
    equal(stolen.acquire(), True)
    client.set(key("stolen"), "another's")
    raises(LockNotOwnedError, stolen.release)


def transactions():
    client.set(key("balance"), 100)
    with client.pipeline() as pipe:
        pipe.watch(key("balance"))
        client.decrby(key("balance"), 10)
        pipe.multi()
        pipe.set(key("balance"), 0)
        raises(WatchError, pipe.execute)
    attempts = []

    def withdraw(pipe):
        balance = int(pipe.get(key("balance")))
        if not attempts:
            client.incr(key("balance"))
        attempts.append(balance)
        pipe.multi()
        pipe.set(key("balance"), balance - 50)
        pipe.get(key("balance"))

    equal(client.transaction(withdraw, key("balance")), [True, "41"])
    equal(attempts, [90, 91])
    with client.pipeline(transaction=False) as pipe:
        for i in range(200):
            pipe.rpush(key("list"), i)
        pipe.lrange(key("list"), 0, -1)
        replies = pipe.execute()
    equal(replies, [*range(1, 201), [str(i) for i in range(200)]])
    with client.pipeline() as pipe:
        pipe.incr(key("list")).incr(key("n"))
        replies = pipe.execute(raise_on_error=False)
    equal((type(replies[0]), replies[1]), (ResponseError, 1))


def messages():
    listener = client.pubsub(ignore_subscribe_messages=True)
    listener.subscribe(key("news"))
    listener.psubscribe(f"{PREFIX}*")
    listener.get_message(timeout=100)
    listener.get_message(timeout=100)
    equal(client.publish(key("news"), "hello"), 2)
    received = [listener.get_message(timeout=100), listener.get_message(timeout=100)]
    equal([(m["type"], m["pattern"], m["channel"], m["data"]) for m in received],
          [("message", None, key("news"), "hello"), ("pmessage", f"{PREFIX}*", key("news"), "hello")])
    done = threading.Event()
    handled = client.pubsub()
    handled.subscribe(**{key("handled"): lambda message: done.set()})
    thread = handled.run_in_thread(sleep_time=0.01, daemon=True)
    while client.publish(key("handled"), "x") < 2:  # until the subscription is there
        pass
    equal(done.wait(100), True)
    thread.stop()
    thread.join()
    listener.close()


def streams():
    name = key("events")
    equal(client.xgroup_create(name, "workers", mkstream=True), True)
    equal("already exists" in raises(ResponseError, client.xgroup_create, name, "workers"), True)
    ids = [client.xadd(name, {"n": i}, maxlen=100) for i in range(5)]
    equal(client.xreadgroup("workers", "a", {name: ">"}, count=3, block=1000), [[name, [(ids[i], {"n": str(i)}) for i in range(3)]]])
    equal(client.xack(name, "workers", ids[0]), 1)
    equal(client.xpending(name, "workers"), {"pending": 2, "min": ids[1], "max": ids[2], "consumers": [{"name": "a", "pending": 2}]})
    equal([p["message_id"] for p in client.xpending_range(name, "workers", "-", "+", 10)], ids[1:3])
    equal(client.xautoclaim(name, "workers", "b", 0, count=1)[1], [(ids[1], {"n": "1"})])
    equal(client.xclaim(name, "workers", "b", 0, [ids[2]], justid=True), [ids[2]])
    equal([(g["name"], g["pending"], g["consumers"], g["lag"]) for g in client.xinfo_groups(name)], [("workers", 2, 2, 2)])
    equal(client.xinfo_stream(name, full=True)["length"], 5)
    equal(client.xtrim(name, maxlen=2, approximate=False), 3)
    equal(client.xrange(name), [(ids[3], {"n": "3"}), (ids[4], {"n": "4"})])
    equal(client.xread({name: ids[4]}, block=20), [])


def scripts():
    script = client.register_script("return {redis.call('INCRBY', KEYS[1], ARGV[1]), cjson.encode({ok = true})}")
    equal(script(keys=[key("scripted")], args=[5]), [5, '{"ok":true}'])
    equal(client.script_exists(script.sha), [True])
    raises(NoScriptError, client.evalsha, "0" * 40, 0)
    with client.pipeline() as pipe:
        script(keys=[key("scripted")], args=[1], client=pipe)
        equal(pipe.execute()[0][0], 6)


def scans():
    names = [f"m{i}" for i in range(2500)]
    client.hset(key("many"), mapping=dict.fromkeys(names, "x"))
    client.sadd(key("members"), *names)
    client.zadd(key("scores"), {name: i for i, name in enumerate(names)})
    found = {
        "HSCAN": [field for field, _ in client.hscan_iter(key("many"))],
        "SSCAN": client.sscan_iter(key("members")),
        "ZSCAN": [member for member, _ in client.zscan_iter(key("scores"))],
    }
    if PREFIX == "":
        client.mset({key(f"many:{name}"): name for name in names})
        found["SCAN"] = [name.removeprefix(key("many:")) for name in client.scan_iter(key("many:*"))]
    for command, got in found.items():
        equal((command, sorted(set(got))), (command, sorted(names)))


for part in (cache, locks, transactions, messages, streams, scripts, scans):
    part()
client.close()
