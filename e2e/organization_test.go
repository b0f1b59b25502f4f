package e2e

import (
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"steward/e2e/installation"
	"steward/e2e/sink"
	"steward/internal/waittest"
)

// TestDeletedOrganizationIsRefusedByEveryProtocol deletes an organization while its clients are connected,
// and restores it: nothing is lost, and nothing was taken in or sent meanwhile.
func TestDeletedOrganizationIsRefusedByEveryProtocol(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		o := s.SecondOrganization()
		bucket := o.NewBucket("second-bucket")
		bucket.Put("a", "kept")
		database := o.NewDatabase("a")
		database.Exec("CREATE TABLE a (b)")
		store := o.NewKVStore("a")
		connected := store.Client()
		s.Must(connected.Set(t.Context(), "a", "kept", 0).Err())
		app, machine := machineClient(o, object{"scopes": []string{"webhook:read"}})
		machine.Call("GET", "/webhook/list", nil).Want(200)
		token, _ := o.NewRelyingParty(o.NewApplication(object{}), "openid").SignIn(s.NewBrowser())
		k := sink.New(t)
		hook := o.NewHook("a")
		destination, _ := o.NewDestination(hook, k.URL+"/a", "max_retries", 20)
		k.Status("/a", 503)
		o.Ingest(hook, `{}`)
		k.Wait("/a", 1)

		o.Call("DELETE", "/cli/organization/"+o.OrgID, nil).Want(200)
		for _, caller := range []*installation.Steward{o, machine} {
			if got := caller.Call("GET", "/webhook/list", nil).Want(403); !strings.Contains(string(got.Body), "can restore it until") {
				t.Errorf("the refusal is %s", got.Body)
			}
		}
		bucket.WantCode("a deleted organization's bucket", bucket.TryPut("b", "lost", minio.PutObjectOptions{}), "AccessDenied")
		if got := database.Pipeline(nil, installation.ExecuteSQL("SELECT 1")); got.Status != 403 {
			t.Errorf("the database: %d %s", got.Status, got.Body)
		}
		if err := store.Client().Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("the store: %v", err)
		}
		waittest.True(t, "the end of the open connection", func() bool { return connected.Get(t.Context(), "a").Err() != nil })
		if got := o.TokenResponse(app, clientCredentials, nil, ""); got.Status != 401 {
			t.Errorf("the token endpoint: %d %s", got.Status, got.Body)
		}
		if got := o.UserinfoStatus(token.AccessToken); got != 401 {
			t.Errorf("userinfo: %d", got)
		}
		s.As("").Call("POST", strings.TrimPrefix(hook.URL, s.URL), object{}).Want(404)
		s.Call("GET", "/webhook/list", nil).Want(200)
		sent := k.Count("/a")
		k.Status("/a", 200)

		o.Call("POST", "/cli/organization/"+o.OrgID+"/restore", nil).Want(200)
		if got := bucket.Get("a"); got != "kept" {
			t.Errorf("the object is %q", got)
		}
		database.Exec("INSERT INTO a VALUES (1)")
		if got, err := store.Client().Get(t.Context(), "a").Result(); err != nil || got != "kept" {
			t.Errorf("the value is %q, %v", got, err)
		}
		machine.Call("GET", "/webhook/list", nil).Want(200)
		if got := o.UserinfoStatus(token.AccessToken); got != 200 {
			t.Errorf("userinfo after the restoration: %d", got)
		}
		o.Call("POST", "/webhook/destination-recover/"+hook.ID+"/"+destination, object{}).Want(200)
		k.Wait("/a", sent+1)
	})
}
