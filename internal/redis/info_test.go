package redis

import (
	"fmt"
	"strings"
	"testing"
)

// TestInfoTellsWhatClientsRead looks for the fields that clients decide by: BullMQ and Sidekiq by the
// version and the policy, ioredis by loading, redis-py by the rest.
func TestInfoTellsWhatClientsRead(t *testing.T) {
	r := newRunner(t)
	text := fmt.Sprint(r.run(r.client(1), "INFO"))
	for _, line := range []string{
		"redis_version:7.0.15", "arch_bits:64", "maxmemory_policy:noeviction", "loading:0", "role:master", "cluster_enabled:0",
	} {
		if !strings.Contains(text, line+"\r\n") {
			t.Errorf("%s is missing in\n%s", line, text)
		}
	}
}
