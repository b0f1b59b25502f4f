"""Uses a key-value store by REDIS_URL, with its setting cluster-enabled, with redis-py's cluster client. It exits with 1 if a
reply is not what a Redis cluster sends."""

import os

import redis


def equal(got, want):
    if got != want:
        raise SystemExit(f"got {got!r}, want {want!r}")


cluster = redis.RedisCluster.from_url(os.environ["REDIS_URL"], decode_responses=True, socket_timeout=100)
names = [f"py:{i}" for i in range(100)]  # in as many slots
for name in names:
    equal(cluster.set(name, name), True)
equal(cluster.mget_nonatomic(names), names)
equal(cluster.delete(*names[:10]), 10)
with cluster.pipeline() as pipe:
    for name in names[10:]:
        pipe.get(name)
    equal(pipe.execute(), names[10:])
equal(sorted(cluster.scan_iter(match="py:*")), sorted(names[10:]))
equal(cluster.cluster_keyslot("a"), 15495)
equal(cluster.register_script("return redis.call('GET', KEYS[1])")(keys=[names[50]]), names[50])
equal(len(cluster.get_nodes()), 1)
cluster.close()
