package e2e

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"

	api "steward/client"
	"steward/e2e/installation"
)

// proxiedClient returns a client that reaches the installation through a proxy. Before a request is passed
// on, disturb may answer instead, given its number from 1; it returns false then.
func proxiedClient(s *installation.Steward, disturb func(w http.ResponseWriter, n int32, pass func()) bool) (*api.Client, *atomic.Int32) {
	s.T.Helper()
	target, err := url.Parse(s.URL)
	s.Must(err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	requests := &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pass := func() { proxy.ServeHTTP(httptest.NewRecorder(), r) }
		if disturb(w, requests.Add(1), pass) {
			proxy.ServeHTTP(w, r)
		}
	}))
	s.T.Cleanup(server.Close)
	return api.New(server.URL, s.Key), requests
}

func TestClientRepeatsWhenTheServerIsUnavailable(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	for _, status := range []int{429, 503} {
		c, requests := proxiedClient(s, func(w http.ResponseWriter, n int32, _ func()) bool {
			if n <= 2 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(status)
			}
			return n > 2
		})
		project := ok(c.CreateProject(t.Context(), api.NewProject{Name: strconv.Itoa(status)}))(t)
		if requests.Load() != 3 || project.Name != strconv.Itoa(status) {
			t.Errorf("%d requests, %+v", requests.Load(), project)
		}
	}
	if all := everything(t, newAPIClient(s).AllProjects(t.Context(), nil)); len(all) != 3 { // and that of the first start
		t.Errorf("%+v", all)
	}
}

// TestClientPostsOnceOverLostConnections loses the responses of requests that were processed.
func TestClientPostsOnceOverLostConnections(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	c, requests := proxiedClient(s, func(_ http.ResponseWriter, n int32, pass func()) bool {
		if n <= 2 {
			pass()
			panic(http.ErrAbortHandler)
		}
		return true
	})
	made := ok(c.CreateAPIKey(t.Context(), api.NewAPIKey{Name: "once"}))(t)
	if requests.Load() != 3 {
		t.Errorf("%d requests", requests.Load())
	}
	keys := everything(t, newAPIClient(s).AllAPIKeys(t.Context(), nil))
	if len(keys) != 2 { // and the root key
		t.Errorf("%+v", keys)
	}
	ok(api.New(s.URL, made.Value).ListWebhooks(t.Context(), nil))(t) // the response has the key that is stored
}

func TestClientDoSendsWhatItIsGiven(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	c := newAPIClient(s)
	res := ok(c.Do(t.Context(), "POST", "/webhook/create", []byte(`{"name":"raw"}`)))(t)
	direct := s.Call("GET", "/webhook/list", nil).Want(200)
	listed := ok(c.Do(t.Context(), "GET", "/webhook/list?limit=5", nil))(t)
	if res.Status != 201 || !bytes.Equal(listed.Body, direct.Body) {
		t.Errorf("%d, %s, want %s", res.Status, listed.Body, direct.Body)
	}
	if _, err := c.Do(t.Context(), "POST", "/webhook/create", object{"name": 1}); !api.IsInvalid(err) {
		t.Error(err)
	}
}
