package app

import "testing"

func TestMemoryLimit(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct{ live, keys, allowed, want int64 }{
		{10 * mb, 0, 24_000 * mb, 240 * mb},
		{400 * mb, 0, 24_000 * mb, 500 * mb},         // an attack
		{450 * mb, 400 * mb, 24_000 * mb, 1440 * mb}, // open stores
		{450 * mb, 400 * mb, 1000 * mb, 600 * mb},
		{10 * mb, 0, 200 * mb, 120 * mb},
	} {
		if got := memoryLimit(c.live, c.keys, c.allowed); got != c.want {
			t.Errorf("%+v: %d MiB", c, got/mb)
		}
	}
}
