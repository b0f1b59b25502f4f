package operations

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/id"
	"steward/internal/rotation"
	"steward/internal/seal"
	"steward/internal/waittest"
)

// nextMasterKey is the key that tests rotate to.
var nextMasterKey = strings.Repeat("5a", 32)

func ringOf(s *installation.Steward, keys ...string) *seal.Ring {
	s.T.Helper()
	var all [][]byte
	for _, key := range keys {
		raw, err := hex.DecodeString(key)
		s.Must(err)
		all = append(all, raw)
	}
	ring, err := seal.NewRing(all...)
	s.Must(err)
	return ring
}

// setMasterKeys sets the master key of the next start, and the old ones.
func setMasterKeys(s *installation.Steward, current string, old ...string) {
	s.Env = slices.DeleteFunc(slices.Clone(s.Env), func(line string) bool {
		return strings.HasPrefix(line, "STEWARD_MASTER_KEY=") || strings.HasPrefix(line, "STEWARD_OLD_MASTER_KEYS=")
	})
	s.Env = append(s.Env, "STEWARD_MASTER_KEY="+current)
	if len(old) > 0 {
		s.Env = append(s.Env, "STEWARD_OLD_MASTER_KEYS="+strings.Join(old, ","))
	}
}

// secretsCommand returns a command with the keys of the installation.
func secretsCommand(s *installation.Steward, args ...string) *exec.Cmd {
	cmd := s.Command(append([]string{"secrets"}, args...)...)
	cmd.Env = append(cmd.Env, s.Env...)
	return cmd
}

// rotateSecrets runs steward secrets rotate, which must succeed.
func rotateSecrets(s *installation.Steward) string {
	s.T.Helper()
	out, err := secretsCommand(s, "rotate").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "All secrets are encrypted with the master key") {
		s.T.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// sealedColumns returns the columns of a stopped installation that have values in the form of one that was
// sealed with a key, and how many. It does not know where such values are meant to be.
func sealedColumns(s *installation.Steward, keyID string) map[string]int {
	s.T.Helper()
	rows := openRaw(s)
	defer func() { _ = rows.Close() }()
	found := map[string]int{}
	for table := range countRows(s, rows) {
		countSealed(s, rows, table, keyID, found)
	}
	return found
}

func countSealed(s *installation.Steward, from *sql.DB, table, keyID string, found map[string]int) {
	s.T.Helper()
	rows, err := from.Query(`SELECT * FROM ` + table)
	s.Must(err)
	columns, err := rows.Columns()
	s.Must(err)
	for rows.Next() {
		values := make([]any, len(columns))
		dest := make([]any, len(columns))
		for i := range values {
			dest[i] = &values[i]
		}
		s.Must(rows.Scan(dest...))
		for i, value := range values {
			if hasForm(value, keyID) {
				found[table+"."+columns[i]]++
			}
		}
	}
	s.Must(errors.Join(rows.Err(), rows.Close()))
}

// hasForm reports whether a value is sealed with a key: as bytes, or as text in base64.
func hasForm(value any, keyID string) bool {
	var candidates [][]byte
	switch v := value.(type) {
	case []byte:
		candidates = append(candidates, v)
	case string:
		candidates = append(candidates, []byte(v))
	}
	for _, raw := range candidates {
		for _, encoding := range []*base64.Encoding{
			base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding,
		} {
			if decoded, err := encoding.DecodeString(string(raw)); err == nil {
				candidates = append(candidates, decoded)
			}
		}
	}
	return slices.ContainsFunc(candidates, func(c []byte) bool {
		found, ok := seal.KeyOf(c)
		return ok && found == keyID
	})
}

// TestEverySealedColumnIsRotated looks for sealed values in all columns of an installation that has
// a secret of each kind, and rotates them while the server is stopped.
func TestEverySealedColumnIsRotated(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			s := installation.PrepareSecrets(t, name)
			s.Start()
			s.PlantSecrets()
			s.Stop()
			oldKey, newKey := ringOf(s, installation.MasterKey).KeyID(), ringOf(s, nextMasterKey).KeyID()
			before := sealedColumns(s, oldKey)
			want := rotation.Columns()
			slices.Sort(want)
			if got := slices.Sorted(maps.Keys(before)); !slices.Equal(got, want) {
				t.Errorf("values are sealed in\n%v\nand the rotation knows\n%v", got, want)
			}
			setMasterKeys(s, nextMasterKey, installation.MasterKey)
			checkDoctor(s, "master key +warning +secrets are encrypted with the key "+oldKey+".*run steward secrets rotate")
			rotateSecrets(s)
			checkDoctor(s, "master key +ok")
			if left := sealedColumns(s, oldKey); len(left) > 0 {
				t.Errorf("sealed with the old key: %v", left)
			}
			if after := sealedColumns(s, newKey); !maps.Equal(after, before) {
				t.Errorf("sealed with the new key: %v, want %v", after, before)
			}
			setMasterKeys(s, installation.MasterKey, nextMasterKey)
			checkRefused(s, "was replaced")
			setMasterKeys(s, nextMasterKey)
			s.Start()
			checkPlanted(s)
		})
	}
}

// checkDoctor checks what steward doctor says.
func checkDoctor(s *installation.Steward, want string) {
	s.T.Helper()
	cmd := s.Command("doctor")
	cmd.Env = append(cmd.Env, s.Env...)
	out, err := cmd.CombinedOutput()
	if !regexp.MustCompile(want).Match(out) {
		s.T.Errorf("the doctor says %s, %v; want %s", out, err, want)
	}
}

// checkRefused checks that a start fails with a message.
func checkRefused(s *installation.Steward, want string) {
	s.T.Helper()
	cmd := s.Serve(s.Args...)
	cmd.Env = append(cmd.Env, s.Env...)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
		s.T.Errorf("a start ends with %v, %s; want %q", err, out, want)
	}
}

// checkPlanted checks that what PlantSecrets made is readable.
func checkPlanted(s *installation.Steward) {
	s.T.Helper()
	if got := s.Call("GET", "/thread/planted", nil).Want(200).Text("user_data"); !strings.Contains(got, "planted") {
		s.T.Errorf("the user data is %s", got)
	}
	body := object{"name": "planted"}
	s.Call("POST", "/cli/apikey", body, "Idempotency-Key", "planted").Want(201)
	s.NewBrowser().EnterConsole()
	b := s.NewBucket("after")
	b.Put("a", "b")
	kv := installation.KVStore{Steward: s, Name: "planted"}.Again()
	s.Must(kv.Client().Set(s.T.Context(), "k", "v", 0).Err())
	var list []struct{ ID string }
	s.Call("GET", "/webhook/list", nil).Want(200).Decode(&list)
	receipts := s.Call("GET", "/webhook/receipt-list/"+list[len(list)-1].ID, nil).Want(200)
	if !bytes.Contains(receipts.Body, []byte("planted-sender-credential")) {
		s.T.Errorf("the receipts are %s", receipts.Body)
	}
}

// TestRotationWaitsForAllReplicas rotates on two replicas under load.
func TestRotationWaitsForAllReplicas(t *testing.T) {
	t.Parallel()
	s := installation.PrepareSecrets(t, "postgres")
	s.Start()
	h := s.NewHook("orders")
	other := &installation.Steward{Steward: sameDatabase(s), T: t, Key: s.Key}
	setMasterKeys(other, installation.MasterKey, nextMasterKey) // knows the new key before anything has it
	other.Start()
	s.Ingest(h, "{}", "X-Api-Key", "first")
	s.Stop()
	setMasterKeys(s, nextMasterKey, installation.MasterKey)
	s.Start()
	out, err := secretsCommand(s, "rotate").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "has the master key "+ringOf(s, installation.MasterKey).KeyID()) {
		t.Fatalf("with a replica that has the old key: %v: %s", err, out)
	}
	other.Stop()
	setMasterKeys(other, nextMasterKey, installation.MasterKey)
	other.Start()
	load := startLoad(h, s, other)
	rotateSecrets(other)
	saved := load.stop()
	for _, replica := range []*installation.Steward{s, other} {
		replica.Stop()
	}
	if left := sealedColumns(s, ringOf(s, installation.MasterKey).KeyID()); len(left) > 0 {
		t.Errorf("sealed with the old key: %v", left)
	}
	if got := sealedColumns(s, ringOf(s, nextMasterKey).KeyID())["webhook_receipts.headers"]; got != saved+1 {
		t.Errorf("%d receipts, want %d", got, saved+1)
	}
	setMasterKeys(s, nextMasterKey)
	s.Start()
	load.check(s)
}

// sameDatabase returns a second process on the database of an installation, which is not started yet.
func sameDatabase(s *installation.Steward) *process.Steward {
	return &process.Steward{T: s.T, Dir: s.T.TempDir(), Database: s.Database, Key: s.Steward.Key, Args: s.Args, Env: s.Env}
}

// load saves threads and sends events while something else goes on.
type load struct {
	ended    chan struct{}
	all      sync.WaitGroup
	received atomic.Int64
	threads  []atomic.Int64 // the last number that was saved in each thread
}

func startLoad(h installation.Hook, replicas ...*installation.Steward) *load {
	l := &load{ended: make(chan struct{}), threads: make([]atomic.Int64, len(replicas))}
	for i, s := range replicas {
		l.all.Go(func() {
			for n := int64(1); ; n++ {
				select {
				case <-l.ended:
					return
				default:
				}
				s.Ingest(h, "{}", "X-Api-Key", "under load")
				l.received.Add(1)
				s.Call("PUT", fmt.Sprintf("/thread/load%d", i), object{"project_id": "p1", "user_data": fmt.Sprint(n)}).Want(200)
				l.threads[i].Store(n)
			}
		})
	}
	return l
}

// stop ends the load and returns how many events were acknowledged.
func (l *load) stop() int {
	close(l.ended)
	l.all.Wait()
	return int(l.received.Load())
}

// check checks that the last save of each thread is there.
func (l *load) check(s *installation.Steward) {
	s.T.Helper()
	for i := range l.threads {
		want := l.threads[i].Load()
		if got := s.Call("GET", fmt.Sprintf("/thread/load%d", i), nil).Want(200).Text("user_data"); got != fmt.Sprint(want) || want == 0 {
			s.T.Errorf("thread %d has %s, want %d", i, got, want)
		}
	}
}

// TestRotationContinuesAfterAKill kills the server in the middle of a rotation, which continues under load.
func TestRotationContinuesAfterAKill(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			const receipts = 30_000
			s := installation.PrepareSecrets(t, name)
			s.Start()
			h := s.NewHook("orders")
			s.Stop()
			insertReceipts(s, h, receipts)
			setMasterKeys(s, nextMasterKey, installation.MasterKey)
			s.Start()
			ended := make(chan error, 1)
			go func() { ended <- secretsCommand(s, "rotate").Run() }()
			waittest.True(t, "the rotation to reach the receipts", func() bool { return rowsRotated(s) > 1000 })
			s.Kill()
			if err := waittest.Receive(t, "the command to end", ended); err == nil {
				t.Error("the command succeeds although the server was killed")
			}
			oldKey, newKey := ringOf(s, installation.MasterKey).KeyID(), ringOf(s, nextMasterKey).KeyID()
			if done := sealedColumns(s, newKey)["webhook_receipts.headers"]; done == 0 || done == receipts {
				t.Errorf("%d of %d receipts were sealed with the new key before the kill", done, receipts)
			}
			s.Start()
			load := startLoad(h, s)
			rotateSecrets(s)
			received := load.stop()
			load.check(s)
			s.Stop()
			if left := sealedColumns(s, oldKey); len(left) > 0 {
				t.Errorf("sealed with the old key: %v", left)
			}
			if got := sealedColumns(s, newKey)["webhook_receipts.headers"]; got != receipts+received {
				t.Errorf("%d receipts, want %d", got, receipts+received)
			}
		})
	}
}

// rowsRotated returns how many rows a rotation has read, as steward secrets status shows it.
func rowsRotated(s *installation.Steward) int {
	s.T.Helper()
	out, err := secretsCommand(s, "status").Output()
	s.Must(err)
	shown := regexp.MustCompile(`re-encrypting .* (\d+) of \d+`).FindSubmatch(out)
	if shown == nil {
		return 0
	}
	n, err := strconv.Atoi(string(shown[1]))
	s.Must(err)
	return n
}

// insertReceipts adds receipts to the database of a stopped installation.
func insertReceipts(s *installation.Steward, h installation.Hook, n int) {
	s.T.Helper()
	ring := ringOf(s, installation.MasterKey)
	rows := openRaw(s)
	tx, err := rows.Begin()
	s.Must(err)
	for range n {
		_, rowID, _ := strings.Cut(id.New(id.Receipt), "_")
		_, hookID, _ := strings.Cut(h.ID, "_")
		headers := base64.RawStdEncoding.EncodeToString(ring.Seal("webhook.receipt.headers:"+h.ID, []byte(`{}`)))
		_, err := tx.Exec(`INSERT INTO webhook_receipts (key, date, method, query, remote_addr, content_type, size, headers, body)
			VALUES ($1, 0, 'POST', '', '', '', 0, $2, $3)`, hookID+rowID, headers, []byte{})
		s.Must(err)
	}
	s.Must(tx.Commit())
	s.Must(rows.Close())
}
