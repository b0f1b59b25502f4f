package installation

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"steward/e2e/process"
)

// SQLDatabase is a libSQL database with its credentials.
type SQLDatabase struct {
	*Steward
	Name    string
	Address string
	Token   string
}

// NewDatabase creates a database in the region local.
func (s *Steward) NewDatabase(name string) *SQLDatabase {
	s.T.Helper()
	created := s.Call("POST", "/resource/"+s.OrgID+"/local", map[string]any{"resources": []map[string]any{{"type": "db", "name": name}}}).Want(201)
	d := &SQLDatabase{
		Steward: s, Name: created.At("created.0.name"),
		Address: created.At("created.0.env.DATABASE_URL"), Token: created.At("created.0.env.DATABASE_AUTH_TOKEN"),
	}
	if created.At("created.0.url") != d.Address || created.At("created.0.password") != d.Token || created.At("created.0.engine") != "libsql" {
		s.T.Errorf("created %s", created.Body)
	}
	if !strings.HasPrefix(d.Address, s.URL+"/db/") || !strings.HasSuffix(d.Address, "/") {
		s.T.Errorf("the URL is %s", d.Address)
	}
	return d
}

// Pipeline sends requests as a client does.
func (d *SQLDatabase) Pipeline(baton any, requests ...map[string]any) *Response {
	d.T.Helper()
	body, err := json.Marshal(map[string]any{"baton": baton, "requests": requests})
	d.Must(err)
	r, err := http.NewRequest("POST", d.Address+"v2/pipeline", strings.NewReader(string(body)))
	d.Must(err)
	r.Header.Set("Authorization", "Bearer "+d.Token)
	res, err := Client.Do(r)
	d.Must(err)
	defer func() { _ = res.Body.Close() }()
	got, err := ReadResponse(d.T, res)
	d.Must(err)
	return got
}

// ExecuteSQL returns a pipeline request that executes a statement.
func ExecuteSQL(sql string) map[string]any {
	return map[string]any{"type": "execute", "stmt": map[string]any{"sql": sql}}
}

// Exec executes a statement, which must succeed.
func (d *SQLDatabase) Exec(sql string) *Response {
	d.T.Helper()
	got := d.Pipeline(nil, ExecuteSQL(sql), map[string]any{"type": "close"}).Want(200)
	if got.At("results.0.type") != "ok" {
		d.T.Fatalf("%s: %s", sql, got.Body)
	}
	return got
}

// At returns the string at a path in the body, or "". Keys in the path may be array indices.
func (r *Response) At(path string) string {
	r.T.Helper()
	var value any
	r.Decode(&value)
	for key := range strings.SplitSeq(path, ".") {
		if list, ok := value.([]any); ok {
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(list) {
				return ""
			}
			value = list[i]
			continue
		}
		members, _ := value.(map[string]any)
		value = members[key]
	}
	text, _ := value.(string)
	return text
}

// FollowPort follows the server to its new port after a restart.
func (d *SQLDatabase) FollowPort() {
	_, path, _ := strings.Cut(d.Address, "/db/")
	d.Address = d.URL + "/db/" + path
}

// Remove deletes the database.
func (d *SQLDatabase) Remove() {
	d.T.Helper()
	d.Call("DELETE", "/resource/"+d.OrgID+"/local", map[string]any{"resources": []map[string]any{{"type": "db", "name": d.Name}}}).Want(204)
}

// WantCount fails unless a table has this number of rows.
func (d *SQLDatabase) WantCount(table, want string) {
	d.T.Helper()
	got := d.Exec("SELECT count(*) FROM " + table).At("results.0.response.result.rows.0.0.value")
	if got != want {
		d.T.Errorf("%s has %s rows, want %s", table, got, want)
	}
}

// RunScript runs a script from e2e/clients with the database.
func (d *SQLDatabase) RunScript(script string) {
	d.T.Helper()
	dir := filepath.Join(process.Root(d.T), "e2e/clients")
	if _, err := os.Stat(filepath.Join(dir, "node_modules/@libsql/client")); err != nil {
		d.T.Fatal("@libsql/client is not installed: run `make deps`")
	}
	out, err := exec.CommandContext(d.T.Context(), "node", filepath.Join(dir, script), d.Address, d.Token).CombinedOutput()
	if err != nil {
		d.T.Errorf("%s: %v\n%s", script, err, out)
	}
}
