//go:build bench

package bench

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// An event is a JSON body of eventSize bytes. Its number and the time at which it was sent are at fixed
// places, so that the sink need not parse it.
const (
	eventSize   = 450
	eventHead   = `{"number":"`
	eventMiddle = `","sent":"`
	eventDigits = 16
	numberFrom  = len(eventHead)
	sentFrom    = numberFrom + eventDigits + len(eventMiddle)
)

func newEvent() []byte {
	zeros := fmt.Sprintf("%0*d", eventDigits, 0)
	body := append([]byte(eventHead+zeros+eventMiddle+zeros+`","text":"`), bytes.Repeat([]byte("x"), eventSize)...)
	return append(body[:eventSize-2], `"}`...)
}

// mark writes the number and the time of sending into an event, or into a request that ends with one.
func mark(b []byte, number int64, sent time.Time) {
	body := b[len(b)-eventSize:]
	putDigits(body[numberFrom:numberFrom+eventDigits], number)
	putDigits(body[sentFrom:sentFrom+eventDigits], sent.UnixMicro())
}

func putDigits(b []byte, n int64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
}

func digits(b []byte) (n int64) {
	for _, c := range b {
		n = n*10 + int64(c-'0')
	}
	return n
}

// feed numbers the events of all loads that use it.
type feed struct{ last atomic.Int64 }

// events returns events that are sent without a pause.
func (f *feed) events(path string, conns int) source {
	return f.timed(request("POST", path, "", newEvent()), conns, func(int, int) time.Time { return time.Now() })
}

// signed returns events that are signed as GitHub does it with a secret.
func (f *feed) signed(path, secret string, conns int) source {
	const name = "X-Hub-Signature-256: sha256="
	line, rest, _ := bytes.Cut(request("POST", path, "", newEvent()), []byte("\r\n"))
	head := append(slices.Clone(line), "\r\n"+name...)
	at := len(head)
	template := slices.Concat(head, bytes.Repeat([]byte("0"), hex.EncodedLen(sha256.Size)), []byte("\r\n"), rest)
	next := f.timed(template, conns, func(int, int) time.Time { return time.Now() })
	return func(conn, i int) []byte {
		b := next(conn, i)
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(b[len(b)-eventSize:])
		hex.Encode(b[at:], mac.Sum(nil))
		return b
	}
}

// deliveries returns events with the headers of deliveries.
func (f *feed) deliveries(conns int) source {
	head := "POST / HTTP/1.1\r\nHost: 127.0.0.1:12345\r\nContent-Length: " + strconv.Itoa(eventSize) + "\r\nUser-Agent: Steward/1\r\n" +
		"Content-Type: application/json\r\nWebhook-Id: whrc_01jcq3v5w8z9d6y4k2m7n0p1rt\r\nWebhook-Timestamp: 1794731400\r\n" +
		"Webhook-Signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=\r\nSteward-Delivery: whdv_01jcq3v5w8z9d6y4k2m7n0p1rt\r\n" +
		"Steward-Attempt: 0\r\n\r\n"
	return f.timed(append([]byte(head), newEvent()...), conns, func(int, int) time.Time { return time.Now() })
}

// paced returns events that are sent at a fixed rate. The time of an event that is sent late, since its
// connection was busy, counts from when it was due.
func (f *feed) paced(path string, conns, perSecond int) source {
	start := time.Now()
	return f.timed(request("POST", path, "", newEvent()), conns, func(conn, i int) time.Time {
		due := start.Add(time.Duration(i*conns+conn) * time.Second / time.Duration(perSecond))
		time.Sleep(time.Until(due))
		return due
	})
}

// timed returns copies of a request, one for each connection, with number and time.
func (f *feed) timed(template []byte, conns int, sent func(conn, i int) time.Time) source {
	requests := make([][]byte, conns)
	for i := range requests {
		requests[i] = slices.Clone(template)
	}
	return func(conn, i int) []byte {
		at := sent(conn, i)
		mark(requests[conn], f.last.Add(1), at)
		return requests[conn]
	}
}
