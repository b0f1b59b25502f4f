package load

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"steward/e2e/installation"
)

// stallInFrame opens a socket whose client announces a frame of 4 MiB, sends 1 MiB of it, and stalls.
func stallInFrame(s *installation.Steward) {
	s.T.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	s.Must(err)
	s.T.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, "GET /thread/ws HTTP/1.1\r\nHost: steward\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c3Rld2FyZCBiZW5jaG1hcg==\r\n\r\n")
	s.Must(err)
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	s.Must(err)
	if res.StatusCode != http.StatusSwitchingProtocols {
		s.T.Fatalf("no upgrade: %s", res.Status)
	}
	first := fmt.Appendf(nil, `{"authorization":%q}`, s.Key)
	// The masks, which clients must send, are zero.
	_, err = conn.Write(append([]byte{0x81, 0x80 | byte(len(first)), 0, 0, 0, 0}, first...))
	s.Must(err)
	if text, err := in.ReadString('}'); err != nil || !strings.Contains(text, `"success":true`) {
		s.T.Fatalf("the key was refused: %q, %v", text, err)
	}
	head := append(binary.BigEndian.AppendUint64([]byte{0x81, 0x80 | 127}, 4<<20), 0, 0, 0, 0)
	go func() { _, _ = conn.Write(append(head, strings.Repeat("x", 1<<20)...)) }() // the server may close it
}

// TestStalledSocketsDoNotStopOthers has sockets of one organization that stall inside of frames, some with a
// key that may only read. Another one saves and restores large threads.
func TestStalledSocketsDoNotStopOthers(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		victim := s.SecondOrganization().OpenSocket()
		viewer := s.As(s.Call("POST", "/cli/apikey", object{"name": "viewer", "scopes": []string{"thread:read"}}).Want(201).Text("value"))
		for range 40 {
			stallInFrame(s)
			stallInFrame(viewer)
		}
		large := `"` + strings.Repeat("x", 1<<20-2) + `"`
		for i := range 5 {
			victim.Do("save", object{"thread_id": fmt.Sprint(i), "user_data": large})
			if got := victim.Do("restore", object{"thread_id": fmt.Sprint(i)}); got == nil || *got != large {
				t.Fatal("not what was saved")
			}
		}
		if rss := s.RSS(); rss > memoryLimit {
			t.Errorf("%d bytes of memory", rss)
		}
	})
}

// TestSilentRedisConnectionsDoNotStopLogins has an address with more connections than may wait for a
// password. Another organization signs in from another address.
func TestSilentRedisConnectionsDoNotStopLogins(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	store := s.SecondOrganization().NewKVStore("cache")
	u, err := url.Parse(store.Address)
	s.Must(err)
	for range 1005 {
		conn, err := net.Dial("tcp", u.Host)
		s.Must(err)
		t.Cleanup(func() { conn.Close() })
	}
	options, err := redis.ParseURL(store.Address)
	s.Must(err)
	options.MaxRetries = -1
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}, Timeout: time.Minute}
	options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, address)
	}
	for i := range 20 {
		c := redis.NewClient(options)
		s.Must(c.Set(t.Context(), fmt.Sprint(i), "v", 0).Err())
		s.Must(c.Close())
	}
	if rss := s.RSS(); rss > memoryLimit {
		t.Errorf("%d bytes of memory", rss)
	}
}
