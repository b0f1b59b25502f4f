package operations

import (
	"bytes"
	"encoding/hex"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/app/config"
	"steward/internal/app/tracing/tracingtest"
	"steward/internal/backup"
	"steward/internal/id"
)

// TestSecretsAreNowhere plants a secret of each kind, sends requests that fail with them, and looks for them
// in errors, and wherever else search.everywhere does.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			traces := tracingtest.New(t)
			s := installation.PrepareSecrets(t, name, observed(traces)...)
			secrets := s.PlantRegion()
			s.Start()
			secrets = append(secrets, s.PlantSecrets()...)
			if len(secrets) < 37 {
				t.Errorf("only %d secrets were planted", len(secrets))
			}
			look := &search{s: s, traces: traces, secrets: secrets}
			for i, text := range misuseSecrets(s, secrets) {
				look.in("the error of "+secrets[i/len(misuses)].Name, text)
			}
			for _, kind := range []string{"db", "kv"} { // of engines that do not answer
				body := object{"resources": []object{{"type": kind, "name": "planted-" + kind}}}
				r := s.Call("POST", "/resource/"+s.OrgID+"/far", body)
				if r.Status < 500 {
					t.Errorf("%s: %d %s", r.What, r.Status, r.Body)
				}
				look.in("the error of an engine", r.Body)
			}
			look.everywhere()
			if !strings.Contains(s.Log(), "level=DEBUG") || len(traces.Find("db.write")) == 0 {
				t.Error("the log or the traces have no details")
			}
		})
	}
}

// TestSetupLinkIsNowhere looks for the token of the link with which an installation is set up.
func TestSetupLinkIsNowhere(t *testing.T) {
	t.Parallel()
	traces := tracingtest.New(t)
	s := installation.Prepare(t, "sqlite", observed(traces)...)
	s.Env = []string{"STEWARD_MASTER_KEY=" + installation.MasterKey}
	s.Start()
	cmd := s.Command("setup-link")
	cmd.Env = append(cmd.Env, s.Env...)
	out, err := cmd.Output()
	s.Must(err)
	_, token, found := strings.Cut(strings.Fields(string(out))[0], "#")
	if !found {
		t.Fatalf("steward setup-link prints %s", out)
	}
	secrets := []installation.Secret{{Name: "setup link", Value: token}}
	look := &search{s: s, traces: traces, secrets: secrets}
	for _, text := range misuseSecrets(s, secrets) {
		look.in("an error", text)
	}
	s.NewBrowser().Do("GET", s.URL+"/console/setup?"+token, nil)
	look.everywhere()
}

// observed returns the flags of a server that tells all it can of what it does.
func observed(traces *tracingtest.Receiver) []string {
	return []string{"--log-level", "debug", "--metrics-listen", "127.0.0.1:0", "--otlp-endpoint", traces.URL}
}

// search looks for secrets of an installation.
type search struct {
	s       *installation.Steward
	traces  *tracingtest.Receiver
	secrets []installation.Secret
}

// in looks into a text.
func (l *search) in(where string, text []byte) {
	l.s.T.Helper()
	if found := installation.FindSecrets(text, l.secrets); len(found) > 0 {
		l.s.T.Errorf("%s has: %s", where, strings.Join(found, ", "))
	}
}

// everywhere looks into metrics, what commands print, backups, traces, the log with all its detail, and the
// database. It stops the installation.
func (l *search) everywhere() {
	s := l.s
	s.T.Helper()
	l.in("the metrics", s.Metrics())
	for _, path := range []string{"/status", "/cli/region", "/audit"} {
		l.in(path, s.Call("GET", path, nil).Want(200).Body)
	}
	for _, args := range [][]string{{"config"}, {"config", "-o", "json"}, {"doctor"}, {"secrets", "status"}} {
		l.run(args...)
	}
	l.inBackups()
	s.Stop()
	l.in("the log", []byte(s.Log()))
	if len(l.traces.Raw()) == 0 {
		s.T.Error("there are no traces")
	}
	l.in("the traces", l.traces.Raw())
	l.in("the text of the traces", []byte(l.traces.Text()))
	for path, content := range dataFiles(s) {
		l.in(path, content)
	}
	if s.Database != "" {
		dump, err := exec.Command("pg_dump", "--inserts", s.Database).Output()
		s.Must(err)
		l.in("the dump", dump)
	}
}

// run runs a command and looks into what it prints.
func (l *search) run(args ...string) {
	s := l.s
	s.T.Helper()
	cmd := s.Command(args...)
	cmd.Env = append(append(cmd.Env, "STEWARD_ROOT_KEY="+s.Key, config.EnvBackupPassphrase+"="+backupPassphrase), s.Env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.T.Errorf("steward %v: %v: %s", args, err, out)
	}
	l.in("steward "+strings.Join(args, " "), out)
}

const backupPassphrase = "planted-passphrase-of-a-backup"

// inBackups looks into a backup, and into one with the master key that is encrypted: it has that key alone.
func (l *search) inBackups() {
	s := l.s
	s.T.Helper()
	l.secrets = append(l.secrets, installation.Secret{Name: "passphrase of a backup", Value: backupPassphrase})
	plain := filepath.Join(s.T.TempDir(), "plain")
	encrypted := filepath.Join(s.T.TempDir(), "encrypted")
	l.run("backup", plain)
	l.run("backup", encrypted, "--passphrase", "--with-key")
	l.in("the content of the backup", unpackBackup(s, plain))
	file, err := os.ReadFile(encrypted)
	s.Must(err)
	l.in("the encrypted backup", file)
	content := unpackBackup(s, encrypted)
	key, err := hex.DecodeString(installation.MasterKey)
	s.Must(err)
	if !bytes.Contains(content, key) {
		s.T.Error("the backup with the master key does not have it")
	}
	l.in("the backup besides the master key", bytes.ReplaceAll(content, key, nil))
}

// unpackBackup returns the tar in a backup.
func unpackBackup(s *installation.Steward, path string) []byte {
	s.T.Helper()
	file, err := os.Open(path)
	s.Must(err)
	defer func() { _ = file.Close() }()
	plain, err := backup.Decryption{Passphrase: func() (string, error) { return backupPassphrase, nil }}.Decrypt(file)
	s.Must(err)
	compressed, err := zstd.NewReader(plain)
	s.Must(err)
	defer compressed.Close()
	content, err := io.ReadAll(compressed)
	s.Must(err)
	if !bytes.Contains(content, []byte(s.OrgID)) {
		s.T.Errorf("%s does not have the rows", path)
	}
	return content
}

// misuses are requests with a secret where it does not belong, which fail.
var misuses = []func(s *installation.Steward, secret string) (*installation.Response, error){
	func(s *installation.Steward, secret string) (*installation.Response, error) {
		return s.As(strings.ToValidUTF8(plain(secret), "")+"x").Try("GET", "/oidc/org/members", nil)
	},
	func(s *installation.Steward, secret string) (*installation.Response, error) {
		return s.Try("POST", "/webhook/create", object{"name": object{"value": plain(secret)}})
	},
	func(s *installation.Steward, secret string) (*installation.Response, error) {
		return s.Try("POST", "/cli/apikey", object{"name": "x", "expiresAt": plain(secret), plain(secret): 1})
	},
	func(s *installation.Steward, secret string) (*installation.Response, error) {
		return s.As(plain(secret)+"x").Try("POST", "/db/planted/v2/pipeline", object{"requests": []object{}})
	},
	func(s *installation.Steward, secret string) (*installation.Response, error) {
		return s.Send("POST", "/in/"+id.New(id.Webhook)+"/"+url.PathEscape(plain(secret)), strings.NewReader("{}"))
	},
	func(s *installation.Steward, secret string) (*installation.Response, error) {
		return s.Try("PUT", "/thread/t", `{"user_data": "`+plain(secret))
	},
	func(s *installation.Steward, secret string) (*installation.Response, error) {
		return s.Send("POST", "/token", strings.NewReader("grant_type=client_credentials&client_id=x&client_secret="+plain(secret)),
			"Content-Type", "application/x-www-form-urlencoded")
	},
	func(s *installation.Steward, secret string) (*installation.Response, error) {
		return s.Send("POST", "/sign-in", strings.NewReader("email=ada@example.com&password="+plain(secret)),
			"Content-Type", "application/x-www-form-urlencoded")
	},
}

// plain returns a secret without what JSON and headers cannot have.
func plain(secret string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, secret)
}

// misuseSecrets returns the bodies of the responses to all misuses of all secrets.
func misuseSecrets(s *installation.Steward, secrets []installation.Secret) [][]byte {
	s.T.Helper()
	var bodies [][]byte
	for _, secret := range secrets {
		for _, misuse := range misuses {
			r, err := misuse(s, secret.Value)
			s.Must(err)
			if r.Status < 400 {
				s.T.Errorf("%s with the %s: %d", r.What, secret.Name, r.Status)
			}
			bodies = append(bodies, r.Body)
		}
	}
	return bodies
}

// dataFiles returns the files of a data directory.
func dataFiles(s *installation.Steward) map[string][]byte {
	s.T.Helper()
	files := map[string][]byte{}
	s.Must(filepath.WalkDir(s.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		files[path], err = os.ReadFile(path)
		return err
	}))
	if s.Database == "" && !bytes.Contains(files[filepath.Join(s.Dir, "steward.db")], []byte(s.OrgID)) {
		s.T.Error("the database does not have what was stored")
	}
	return files
}
