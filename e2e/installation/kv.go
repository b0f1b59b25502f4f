package installation

import "github.com/redis/go-redis/v9"

// KVStore is one of an installation's key-value stores.
type KVStore struct {
	*Steward
	Name, Address string
}

// NewKVStore creates a key-value store.
func (s *Steward) NewKVStore(name string) KVStore {
	s.T.Helper()
	var made struct {
		Created []struct {
			Type, Name, URL string
			Env             map[string]string
		}
	}
	body := map[string]any{"resources": []map[string]any{{"type": "kv", "name": name}}}
	s.Call("POST", "/resource/"+s.OrgID+"/local", body).Want(201).Decode(&made)
	entry := made.Created[0]
	if entry.URL == "" || entry.Env["REDIS_URL"] != entry.URL {
		s.T.Errorf("REDIS_URL is %q, url %q", entry.Env["REDIS_URL"], entry.URL)
	}
	return KVStore{s, name, entry.URL}
}

// Again returns the store as the installation lists it now, because a restart changes its port.
func (k KVStore) Again() KVStore {
	k.T.Helper()
	var list struct{ KV []struct{ Name, URL string } }
	k.Call("GET", "/resource/"+k.OrgID+"/local", nil).Want(200).Decode(&list)
	for _, entry := range list.KV {
		if entry.Name == k.Name {
			k.Address = entry.URL
			return k
		}
	}
	k.T.Fatalf("%s is not listed", k.Name)
	return k
}

// Client returns a go-redis client that does not retry.
func (k KVStore) Client() *redis.Client {
	k.T.Helper()
	options, err := redis.ParseURL(k.Address)
	k.Must(err)
	options.MaxRetries = -1
	options.DialTimeout = RequestTimeout
	options.ReadTimeout = RequestTimeout
	options.WriteTimeout = RequestTimeout
	c := redis.NewClient(options)
	k.T.Cleanup(func() { _ = c.Close() })
	return c
}

// WantValue fails the test unless a key has this value.
func (k KVStore) WantValue(key, want string) {
	k.T.Helper()
	if got, err := k.Client().Get(k.T.Context(), key).Result(); err != nil || got != want {
		k.T.Errorf("%s: got %q (%v), want %q", key, got, err, want)
	}
}
