"""Runs tasks with Celery in a key-value store by REDIS_URL and REDIS_KEY_PREFIX, as broker and as backend of results: a worker of its
own process, tasks that succeed, fail, are tried again, wait, and depend on others. It exits with 1 if a result is wrong."""

import os
import pathlib
import subprocess
import sys
import time

from celery import Celery, chain, chord, group
from celery.backends.redis import RedisBackend
from kombu import Connection, Exchange, Queue

PREFIX = os.environ.get("REDIS_KEY_PREFIX", "")
URL = os.environ["REDIS_URL"]
OPTIONS = {"global_keyprefix": PREFIX}


class Backend(RedisBackend):
    """Keeps results under the prefix. Celery has a setting for it from version 5.3 on."""

    task_keyprefix = PREFIX + RedisBackend.task_keyprefix
    group_keyprefix = PREFIX + RedisBackend.group_keyprefix
    chord_keyprefix = PREFIX + RedisBackend.chord_keyprefix


app = Celery("celery_tasks", broker=URL, backend=f"celery_tasks:Backend+{URL}" if PREFIX else URL)
app.conf.update(
    broker_transport_options=OPTIONS,
    broker_connection_retry_on_startup=False,
    result_expires=600,
    # Celery subscribes to patterns for it, of which a store with a prefix permits the whole prefix only.
    worker_enable_remote_control=PREFIX == "",
)


@app.task
def add(x, y):
    return x + y


@app.task
def total(values):
    return sum(values)


@app.task
def broken():
    raise ValueError("always")


@app.task(bind=True, max_retries=3)
def flaky(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0.05)
    return self.request.retries


def equal(got, want):
    if got != want:
        raise SystemExit(f"got {got!r}, want {want!r}")


def tasks():
    equal(add.delay(2, 3).get(timeout=100), 5)
    equal(group(add.s(i, i) for i in range(10)).apply_async().get(timeout=100), [2 * i for i in range(10)])
    equal(chain(add.s(1, 2), add.s(3), add.s(4)).apply_async().get(timeout=100), 10)
    equal(chord((add.s(i, 1) for i in range(5)), total.s()).apply_async().get(timeout=100), 15)
    failed = broken.delay()
    try:
        failed.get(timeout=100)
        raise SystemExit("a task that fails has succeeded")
    except ValueError as err:
        equal(str(err), "always")
    equal(failed.state, "FAILURE")
    equal(flaky.delay().get(timeout=100), 2)
    begin = time.monotonic()
    equal(add.apply_async((1, 1), countdown=0.5).get(timeout=100), 2)
    equal(time.monotonic() - begin >= 0.4, True)
    result = add.delay(1, 1)
    result.get(timeout=100)
    result.forget()
    equal(app.AsyncResult(result.id).state, "PENDING")
    if PREFIX == "":
        equal([list(reply.values()) for reply in app.control.ping(timeout=100, limit=1)], [[{"ok": "pong"}]])


def messages():
    """Sends messages with kombu alone."""
    with Connection(URL, transport_options=OPTIONS) as connection:
        queue = connection.SimpleQueue("plain")
        for i in range(5):
            queue.put({"n": i})
        for i in range(5):
            message = queue.get(timeout=10)
            equal(message.payload, {"n": i})
            message.ack()
        queue.close()
        if PREFIX == "":
            broadcast(connection)


def broadcast(connection):
    received = []
    exchange = Exchange("announce", type="fanout")
    queues = [Queue(f"announce-{i}", exchange, exclusive=True) for i in range(2)]
    with connection.Consumer(queues, callbacks=[lambda body, message: (received.append(body), message.ack())]):
        with connection.clone() as other:
            producer = other.Producer()
            end = time.monotonic() + 100
            while len(received) < 2:  # the subscriptions may come after the first message
                equal(time.monotonic() < end, True)
                producer.publish("hello", exchange=exchange, declare=[exchange])
                try:
                    connection.drain_events(timeout=0.2)
                    connection.drain_events(timeout=0.2)
                except OSError:
                    pass
    equal(set(received), {"hello"})


def main():
    messages()
    command = [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "--concurrency=2", "--loglevel=WARNING"]
    if PREFIX:
        command += ["--without-gossip", "--without-mingle"]
    with subprocess.Popen(command, cwd=pathlib.Path(__file__).parent) as worker:
        try:
            tasks()
        finally:
            worker.terminate()
        equal(worker.wait(timeout=100), 0)


if __name__ == "__main__":
    main()
