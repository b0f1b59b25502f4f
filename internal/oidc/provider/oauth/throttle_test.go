package oauth

import (
	"fmt"
	"testing"
	"time"
)

// limits are like those for passwords: for a pair of account and address, for an account, for an address.
func limits(account, address string) []Limit {
	return []Limit{
		{Key: "pair " + address + " " + account, Burst: 10, Every: 20 * time.Second},
		{Key: "account " + account, Burst: 100, Every: 5 * time.Second},
		{Key: "address " + address, Burst: 300, Every: 500 * time.Millisecond},
	}
}

// TestThrottleCannotBeFlooded checks that an exhausted limit survives many other tries, whether they
// are refused or come from many addresses.
func TestThrottleCannotBeFlooded(t *testing.T) {
	now := time.Now()
	var l Throttle
	const victim, attacker = "a@example.com", "10.255.0.1"
	try := func() bool { return l.Take(now, limits(victim, attacker)...) == 0 }
	for range 10 {
		try()
	}
	for i := range 2 * maxBuckets {
		l.Take(now, limits(fmt.Sprintf("u%d@example.com", i), attacker)...)
	}
	if try() {
		t.Error("refused tries have evicted an exhausted bucket")
	}
	for i := range 2 * maxBuckets {
		address := fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
		l.Take(now, limits(fmt.Sprintf("u%d@example.com", i), address)...)
	}
	if try() {
		t.Error("tries from many addresses have evicted an exhausted bucket")
	}
	if len(l.buckets) > maxBuckets+3 {
		t.Errorf("the throttle has %d buckets", len(l.buckets))
	}
}

func TestRefundRestoresATry(t *testing.T) {
	now := time.Now()
	var l Throttle
	limit := Limit{Key: "k", Burst: 1, Every: time.Minute}
	for i := range 3 {
		if l.Take(now, limit) != 0 {
			t.Fatalf("try %d was refused", i)
		}
		l.Refund(limit)
	}
	if l.Take(now, limit) != 0 || l.Take(now.Add(15*time.Second), limit) != 45*time.Second {
		t.Error("a try without a refund does not count")
	}
}
