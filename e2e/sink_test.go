package e2e

import (
	"time"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

// arrived returns the number of requests for each receipt of these webhooks, which are named by path.
func arrived(k *sink.Sink, hooks map[string]installation.Hook) map[string]int {
	n := map[string]int{}
	for path := range hooks {
		for _, a := range k.Requests(path) {
			n[a.Header.Get("Webhook-Id")]++
		}
	}
	return n
}

// latest returns the time of the last request for these webhooks.
func latest(k *sink.Sink, hooks map[string]installation.Hook) (at time.Time) {
	for path := range hooks {
		for _, a := range k.Requests(path) {
			if a.At.After(at) {
				at = a.At
			}
		}
	}
	return at
}
