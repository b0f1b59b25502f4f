package e2e

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/e2e/sink"
	"steward/internal/db"
)

const local = "http://localhost:8080"

// TestStartWithoutSettingsIsOnLocalhost starts the binary as a new user does, with a data directory
// alone, and uses it by each name that a loopback address has.
func TestStartWithoutSettingsIsOnLocalhost(t *testing.T) {
	if !process.OwnNetwork(t) {
		return
	}
	s := installation.Prepare(t, "sqlite")
	first, stop := outputOf(s, s.Command("serve"))
	key := regexp.MustCompile(`Root key +(sk_\w{49})`).FindStringSubmatch(first)
	link := setupLink.FindString(first)
	if key == nil || !strings.Contains(first, " API           "+local+"\n") || !strings.HasPrefix(link, "Set up  "+local+"/console/setup#") {
		t.Fatalf("the first start prints:\n%s", first)
	}
	s.Key = key[1]
	s.URL = local
	var discovered struct{ Issuer string }
	s.Call("GET", "/.well-known/openid-configuration", nil).Want(200).Decode(&discovered)
	if discovered.Issuer != local {
		t.Errorf("the issuer is %s", discovered.Issuer)
	}
	b := s.NewBrowser()
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		there := "http://" + host + ":8080"
		if p := b.Do("GET", there+"/readyz", nil); p.Status != http.StatusOK {
			t.Errorf("%s: %d %s", there, p.Status, p.Body)
		}
		for _, path := range []string{"/console/", "/console/setup", "/console/keys?x=1"} {
			if p := b.Do("GET", there+path, nil); p.Location != local+path {
				t.Errorf("%s%s leads to %d %q", there, path, p.Status, p.Location)
			}
		}
	}

	k := sink.New(t)
	hook := s.Call("POST", "/webhook/create", map[string]any{"name": "orders"}).Want(201)
	id := hook.Text("id")
	if url := hook.Text("url"); !strings.HasPrefix(url, local+"/in/") {
		t.Errorf("the ingest URL is %s", url)
	}
	try := func(url string) *installation.Response {
		t.Helper()
		destination := s.Call("POST", "/webhook/destination-create/"+id, map[string]any{"type": "url", "config": map[string]any{"url": url}}).Want(201)
		return s.Call("POST", "/webhook/destination-test/"+id+"/"+destination.Text("id"), nil).Want(200)
	}
	if got := try(k.URL + "/hooks"); len(k.Wait("/hooks", 1)) != 1 {
		t.Errorf("a destination on this machine: %s", got.Body)
	}
	for _, url := range []string{local, "http://127.0.0.1:8080", "http://[::1]:8080"} {
		if got := try(url + "/readyz"); !strings.Contains(string(got.Body), "belongs to Steward itself") {
			t.Errorf("%s: %s", url, got.Body)
		}
	}
	stop()

	if second, stop := outputOf(s, s.Command("serve")); !strings.Contains(second, " API           "+local+"\n") {
		t.Errorf("the second start prints:\n%s", second)
	} else {
		stop()
	}
	taken, err := net.Listen("tcp", "[::1]:8080")
	s.Must(err)
	out, err := s.Command("serve").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--listen: listen tcp [::1]:8080: ") || !strings.Contains(string(out), "in use") {
		t.Errorf("a start beside another program on ::1: %v: %s", err, out)
	}
	third, stop := outputOf(s, s.Command("serve", "--listen", "127.0.0.1:8080")) // does not need ::1
	stop()
	if !strings.Contains(third, " API           http://127.0.0.1:8080\n") {
		t.Errorf("a start with --listen prints:\n%s", third)
	}
	s.Must(taken.Close())

	s.Must(os.WriteFile("/proc/sys/net/ipv6/conf/lo/disable_ipv6", []byte("1"), 0))
	fourth, stop := outputOf(s, s.Command("serve"))
	if p := b.Do("GET", "http://127.0.0.1:8080/readyz", nil); p.Status != http.StatusOK || !strings.Contains(fourth, " API           "+local+"\n") {
		t.Errorf("without ::1: %d %s", p.Status, fourth)
	}
	stop()
}

// TestInstallationWithAnAddressKeepsIt starts an installation that began before localhost was the
// default.
func TestInstallationWithAnAddressKeepsIt(t *testing.T) {
	if !process.OwnNetwork(t) {
		return
	}
	s := installation.Prepare(t, "sqlite")
	_, stop := outputOf(s, s.Command("serve"))
	stop()
	d, err := db.Open(context.Background(), db.Options{Path: filepath.Join(s.Dir, "steward.db")})
	s.Must(err)
	_, err = d.Exec(context.Background(), `DELETE FROM meta WHERE key = 'base_url'`)
	s.Must(err)
	s.Must(d.Close())
	output, stop := outputOf(s, s.Command("serve"))
	defer stop()
	if !strings.Contains(output, " API           http://127.0.0.1:8080\n") {
		t.Errorf("the start prints:\n%s", output)
	}
	if c, err := net.Dial("tcp", "[::1]:8080"); err == nil {
		_ = c.Close()
		t.Error("it listens on ::1")
	}
}
