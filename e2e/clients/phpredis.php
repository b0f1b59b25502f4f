<?php
// Uses a key-value store by REDIS_URL and REDIS_KEY_PREFIX with phpredis: values, a transaction with WATCH, a pipeline, a
// stream, a script, messages and scans. It exits with 1 if a reply is not what Redis sends.

const COUNT = 2500;
$url = parse_url(getenv('REDIS_URL'));
$prefix = getenv('REDIS_KEY_PREFIX') ?: '';

function connect(): Redis {
	global $url;
	$redis = new Redis();
	$redis->connect($url['host'], $url['port'], 100);
	$redis->auth([urldecode($url['user']), urldecode($url['pass'])]);
	return $redis;
}

function key_of(string $name): string {
	global $prefix;
	return "{$prefix}php:$name";
}

function equal($got, $want): void {
	if ($got !== $want) {
		fwrite(STDERR, 'got ' . var_export($got, true) . ', want ' . var_export($want, true) . "\n" . (new Exception())->getTraceAsString() . "\n");
		exit(1);
	}
}

// found checks the names that a scan has found.
function found(array $names): void {
	$names = array_values(array_unique(array_map('strval', $names)));
	sort($names);
	$want = array_map(fn($i) => "m$i", range(1, COUNT));
	sort($want);
	equal(count($names), COUNT);
	equal($names, $want);
}

// pages calls a scan until it returns false, and returns all that it has returned.
function pages(callable $scan): array {
	$all = [];
	$cursor = null;
	while (($page = $scan($cursor)) !== false) {
		array_push($all, ...$page);
	}
	return $all;
}

$redis = connect();
equal($redis->set(key_of('page'), 'grüße', ['nx', 'ex' => 3600]), true);
equal($redis->get(key_of('page')), 'grüße');
equal($redis->get(key_of('none')), false);
equal($redis->hMSet(key_of('user'), ['name' => 'Ada', 'born' => '1815']), true);
equal($redis->hGetAll(key_of('user')), ['name' => 'Ada', 'born' => '1815']);
equal($redis->rPush(key_of('list'), 'a', 'b', 'c'), 3);
equal($redis->blPop([key_of('list')], 10), [key_of('list'), 'a']);
equal($redis->lRange(key_of('list'), 0, -1), ['b', 'c']);

$redis->set(key_of('t'), '1');
equal($redis->multi()->incr(key_of('t'))->get(key_of('t'))->exec(), [2, '2']);
$redis->watch(key_of('t'));
$other = connect();
$other->set(key_of('t'), '10');
equal($redis->multi()->incr(key_of('t'))->exec(), false);
$pipe = $redis->multi(Redis::PIPELINE);
for ($i = 1; $i <= 500; $i++) {
	$pipe->incr(key_of('n'));
}
equal($pipe->exec(), range(1, 500));

equal($redis->xGroup('CREATE', key_of('events'), 'workers', '$', true), true);
$id = $redis->xAdd(key_of('events'), '*', ['kind' => 'order']);
equal($redis->xReadGroup('workers', 'w1', [key_of('events') => '>'], 10, 1000), [key_of('events') => [$id => ['kind' => 'order']]]);
equal($redis->xAck(key_of('events'), 'workers', [$id]), 1);

$script = 'return {redis.call("INCRBY", KEYS[1], ARGV[1]), "x", false}';
equal($redis->eval($script, [key_of('scripted'), 5], 1), [5, 'x', false]);
equal($redis->evalSha(sha1($script), [key_of('scripted'), 5], 1), [10, 'x', false]);

// A client that subscribes runs nothing else: it publishes from another process.
$child = proc_open([PHP_BINARY, '-r', '$r = new Redis(); $r->connect($argv[1], (int) $argv[2], 100); $r->auth([$argv[3], $argv[4]]);
	while ($r->publish($argv[5], "hello") < 1) usleep(1000);', $url['host'], (string) $url['port'], urldecode($url['user']), urldecode($url['pass']), key_of('news')], [], $pipes);
$received = null;
try {
	$other->subscribe([key_of('news')], function (Redis $r, string $channel, string $text) use (&$received) {
		$received = [$channel, $text];
		$r->close(); // nothing else ends the loop
	});
} catch (RedisException) {
}
equal($received, [key_of('news'), 'hello']);
equal(proc_close($child), 0);

for ($i = 1; $i <= COUNT; $i++) {
	$redis->multi(Redis::PIPELINE)->hSet(key_of('hash'), "m$i", $i)->sAdd(key_of('set'), "m$i")->zAdd(key_of('zset'), $i, "m$i")->set(key_of("many:m$i"), $i)->exec();
}
$redis->setOption(Redis::OPT_SCAN, Redis::SCAN_RETRY);
found(pages(fn(&$cursor) => ($page = $redis->hScan(key_of('hash'), $cursor)) === false ? false : array_keys($page)));
found(pages(fn(&$cursor) => $redis->sScan(key_of('set'), $cursor)));
found(pages(fn(&$cursor) => ($page = $redis->zScan(key_of('zset'), $cursor)) === false ? false : array_keys($page)));
if ($prefix === '') { // a scan shows all keys of a server, so a store with a prefix has none
	$many = key_of('many:');
	found(array_map(fn($name) => substr($name, strlen($many)), pages(fn(&$cursor) => $redis->scan($cursor, "$many*"))));
}
