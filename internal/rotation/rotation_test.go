package rotation

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/seal"
	"steward/internal/stamp"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ring returns a ring whose keys repeat a byte.
func ring(t testing.TB, keys ...byte) *seal.Ring {
	t.Helper()
	var all [][]byte
	for _, k := range keys {
		all = append(all, bytes.Repeat([]byte{k}, seal.KeySize))
	}
	r, err := seal.NewRing(all...)
	must(t, err)
	return r
}

// start does what a server does that starts with a ring.
func start(t testing.TB, d *db.DB, r *seal.Ring) (unneeded []string, err error) {
	t.Helper()
	err = d.Write(t.Context(), func(tx *db.Tx) error {
		if unneeded, err = Admit(tx, r, ring(t, 1).KeyID(), stamp.Of(time.Now())); err != nil {
			return err
		}
		return CheckOldKeys(tx, r)
	})
	return unneeded, err
}

// position returns the position of a table in sources.
func position(table string) int {
	return slices.IndexFunc(sources(), func(s source) bool { return s.table == table })
}

func newRotation(d *db.DB, r *seal.Ring) *Rotation {
	return &Rotation{DB: d, Ring: r, Now: time.Now, Alive: func(db.Querier) ([]Process, error) { return nil, nil }}
}

// rotate runs steps until the rotation is completed. Each of them does one batch.
func rotate(t testing.TB, r *Rotation) (steps int) {
	t.Helper()
	for in := (Request{Start: true}); ; in.Start = false {
		p, err := r.Step(t.Context(), in)
		must(t, err)
		if steps++; p.Done {
			return steps
		}
	}
}

const (
	threadText  = "what the agent remembers"
	headerText  = `{"x-api-key":"a credential"}`
	answerText  = "an answer"
	receiptRows = 2*maxRows + 1
)

var hookID = id.New(id.Webhook)

// fill adds rows that are sealed with a ring, a receipt of a version that did not seal headers, and the claim of a
// request that has no response yet.
func fill(t testing.TB, d *db.DB, r *seal.Ring) {
	t.Helper()
	must(t, d.Write(t.Context(), func(tx *db.Tx) error {
		for i := range receiptRows {
			sealed := base64.RawStdEncoding.EncodeToString(r.Seal("webhook.receipt.headers:"+hookID, []byte(headerText)))
			if i == 7 {
				sealed = headerText
			}
			if err := tx.Send(`INSERT INTO webhook_receipts (key, date, method, query, remote_addr, content_type, size, headers, body)
				VALUES ($1, 0, 'POST', '', '', '', $2, $3, $4)`,
				hookID[3:]+id.New(id.Receipt)[4:], 4, sealed, []byte("body")); err != nil {
				return err
			}
		}
		if err := tx.Send(`INSERT INTO idempotency (org_id, scope, body_hash, status, answer, created_at) VALUES ('org', $1, $1, 0, $2, 0)`,
			[]byte("claim"), []byte("owner of the claim")); err != nil {
			return err
		}
		for i := range 20 {
			if err := tx.Send(`INSERT INTO idempotency (org_id, scope, body_hash, status, answer, created_at) VALUES ('org', $1, $1, 200, $2, 0)`,
				[]byte{0xff, byte(i)}, r.Seal("idempotency.response", []byte(answerText))); err != nil {
				return err
			}
			var data []byte
			if i > 0 {
				data = r.Seal("thread.user_data", []byte(threadText))
			}
			if err := tx.Send(`INSERT INTO threads
				(org_id, id, project_id, created_at, updated_at, deleted, version, terms, user_data_size, user_data)
				VALUES ('org', $1, 'p', 0, 0, FALSE, 1, $2, 0, $3)`, fmt.Sprintf("t%02d", i), []byte{}, data); err != nil {
				return err
			}
		}
		return nil
	}))
}

// check checks that a ring opens all that fill has added.
func check(t testing.TB, d *db.DB, r *seal.Ring) {
	t.Helper()
	q := d.Read(t.Context())
	headers, err := db.Collect(q, db.Value[string], `SELECT headers FROM webhook_receipts`)
	must(t, err)
	for _, text := range headers {
		if text == headerText {
			continue
		}
		sealed, err := base64.RawStdEncoding.DecodeString(text)
		must(t, err)
		if plain, err := r.Open("webhook.receipt.headers:"+hookID, sealed); err != nil || string(plain) != headerText {
			t.Fatalf("headers: %q, %v", plain, err)
		}
	}
	for query, want := range map[string][2]string{
		`SELECT answer FROM idempotency WHERE status <> 0`:          {"idempotency.response", answerText},
		`SELECT user_data FROM threads WHERE user_data IS NOT NULL`: {"thread.user_data", threadText},
	} {
		values, err := db.Collect(q, db.Value[[]byte], query)
		must(t, err)
		for _, sealed := range values {
			if plain, err := r.Open(want[0], sealed); err != nil || !strings.HasPrefix(string(plain), want[1]) {
				t.Fatalf("%s: %q, %v", query, plain, err)
			}
		}
	}
	if len(headers) != receiptRows {
		t.Errorf("%d receipts", len(headers))
	}
}

func TestEveryValueIsSealedWithTheNewKeyAndTheOldOneIsRefused(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		_, err := start(t, d, ring(t, 1))
		must(t, err)
		fill(t, d, ring(t, 1))
		both := ring(t, 2, 1)
		_, err = start(t, d, both)
		must(t, err)
		r := newRotation(d, both)
		if steps := rotate(t, r); steps < len(sources()) {
			t.Errorf("%d steps", steps)
		}
		check(t, d, ring(t, 2))
		s, err := r.Status(t.Context())
		must(t, err)
		if len(s.Keys) != 2 || s.Keys[0].RetiredAt == nil || s.Keys[1].RotatedAt == nil || s.Rotation.Tables[position("webhook_receipts")].Resealed != receiptRows-1 {
			t.Errorf("%+v", s)
		}
		for _, refused := range []*seal.Ring{ring(t, 1), ring(t, 1, 2)} {
			if _, err := start(t, d, refused); errs.KindOf(err) != errs.Conflict || !strings.Contains(err.Error(), "was replaced") {
				t.Errorf("a start with the old key returns %v", err)
			}
		}
		for keyID, want := range map[string]bool{ring(t, 1).KeyID(): true, ring(t, 2).KeyID(): false} {
			if got, err := Replaced(d.Read(t.Context()), keyID); err != nil || got != want {
				t.Errorf("%s is replaced: %t, %v", keyID, got, err)
			}
		}
		unneeded, err := start(t, d, both)
		if err != nil || len(unneeded) != 1 || unneeded[0] != ring(t, 1).KeyID() {
			t.Errorf("a start that names the old key returns %v, %v", unneeded, err)
		}
	})
}

// TestRotationContinues has other processes do one step each, some of them at the same time.
func TestRotationContinues(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fill(t, d, ring(t, 1))
		both := ring(t, 2, 1)
		_, err := start(t, d, both)
		must(t, err)
		_, err = newRotation(d, both).Step(t.Context(), Request{Start: true})
		must(t, err)
		if _, err := start(t, d, ring(t, 1, 2)); errs.KindOf(err) != errs.Conflict {
			t.Errorf("a start with the old key returns %v while the rotation is under way", err)
		}
		if _, err := start(t, d, ring(t, 2)); errs.KindOf(err) != errs.Conflict || !strings.Contains(err.Error(), "STEWARD_OLD_MASTER_KEYS") {
			t.Errorf("a start without the old key returns %v while the rotation is under way", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := newRotation(d, both).Step(ctx, Request{}); !errors.Is(err, context.Canceled) {
			t.Errorf("an interrupted step returns %v", err)
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { rotate(t, newRotation(d, both)) })
		}
		all.Wait()
		check(t, d, ring(t, 2))
		if _, err := start(t, d, ring(t, 2)); err != nil {
			t.Errorf("a start without the old key returns %v after the rotation", err)
		}
	})
}

// TestTablesOfALaterVersionAreAdded continues a rotation that was begun by a version which did not know a table.
func TestTablesOfALaterVersionAreAdded(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fill(t, d, ring(t, 1))
		both := ring(t, 2, 1)
		_, err := start(t, d, both)
		must(t, err)
		r := newRotation(d, both)
		_, err = r.Step(t.Context(), Request{Start: true})
		must(t, err)
		_, err = d.Exec(t.Context(), `DELETE FROM master_key_progress WHERE source = 'threads'`)
		must(t, err)
		_, err = d.Exec(t.Context(), `UPDATE master_key_progress SET pass = 2`)
		must(t, err)
		rotate(t, r)
		check(t, d, ring(t, 2))
	})
}

// TestRotationThatWasBegunAgainIsNotCompleted has a process complete a pass that another one has begun again.
func TestRotationThatWasBegunAgainIsNotCompleted(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fill(t, d, ring(t, 1))
		both := ring(t, 2, 1)
		_, err := start(t, d, both)
		must(t, err)
		r := newRotation(d, both)
		must(t, d.Write(t.Context(), func(tx *db.Tx) error { return r.begin(tx, true) }))
		must(t, d.Write(t.Context(), r.finish))
		if p, err := r.progress(t.Context()); err != nil || p.Done {
			t.Errorf("%+v, %v", p, err)
		}
		rotate(t, r)
		check(t, d, ring(t, 2))
	})
}

// TestConcurrentChangesStay changes rows while they are sealed again.
func TestConcurrentChangesStay(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fill(t, d, ring(t, 1))
		both := ring(t, 2, 1)
		_, err := start(t, d, both)
		must(t, err)
		var changes sync.WaitGroup
		changes.Go(func() {
			for i := range 19 {
				if _, err := d.Exec(t.Context(), `UPDATE threads SET user_data = $2 WHERE org_id = 'org' AND id = $1`, fmt.Sprintf("t%02d", i+1),
					both.Seal("thread.user_data", []byte(threadText+" since"))); err != nil {
					t.Error(err)
				}
			}
		})
		rotate(t, newRotation(d, both))
		changes.Wait()
		check(t, d, ring(t, 2))
		values, err := db.Collect(d.Read(t.Context()), db.Value[[]byte], `SELECT user_data FROM threads WHERE user_data IS NOT NULL`)
		must(t, err)
		for _, sealed := range values {
			if plain, _ := both.Open("thread.user_data", sealed); !strings.HasSuffix(string(plain), "since") {
				t.Errorf("a change was lost: %q", plain)
			}
		}
	})
}

// TestStaleValueIsNotWritten has a value that changes between the read and the write of a batch.
func TestStaleValueIsNotWritten(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fill(t, d, ring(t, 1))
		r := newRotation(d, ring(t, 2, 1))
		s := sources()[position("threads")]
		rows, _, err := r.list(t.Context(), s, nil)
		must(t, err)
		changes, err := r.reseal(t.Context(), s, nil, rows[len(rows)-1].key)
		must(t, err)
		if len(changes) != 19 {
			t.Fatalf("%d changes of %s", len(changes), s.table)
		}
		fresh := r.Ring.Seal("thread.user_data", []byte("fresh"))
		_, err = d.Exec(t.Context(), `UPDATE threads SET user_data = $1 WHERE id = 't05'`, fresh)
		must(t, err)
		must(t, d.Write(t.Context(), func(tx *db.Tx) error { return s.write(tx, changes) }))
		var stored []byte
		must(t, d.Read(t.Context()).Row(`SELECT user_data FROM threads WHERE id = 't05'`).Scan(&stored))
		if !bytes.Equal(stored, fresh) {
			t.Error("the change was overwritten")
		}
	})
}

func TestRotationWaitsForProcessesWithAnotherKey(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fill(t, d, ring(t, 1))
		both := ring(t, 2, 1)
		_, err := start(t, d, both)
		must(t, err)
		r := newRotation(d, both)
		for keyID, want := range map[string]string{"": "earlier version", ring(t, 1).KeyID(): "has the master key"} {
			r.Alive = func(db.Querier) ([]Process, error) {
				return []Process{{ID: "rep_1", KeyID: both.KeyID()}, {ID: "rep_2", KeyID: keyID}}, nil
			}
			if _, err := r.Step(t.Context(), Request{Start: true}); errs.KindOf(err) != errs.Conflict || !strings.Contains(err.Error(), want) {
				t.Errorf("with a process of key %q, a step returns %v", keyID, err)
			}
		}
		check(t, d, ring(t, 1))
		if _, err := start(t, d, ring(t, 1, 2)); err != nil {
			t.Errorf("a rotation that did not begin refuses a start: %v", err)
		}
	})
}

func TestUnreadableValuesAreNamed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fill(t, d, ring(t, 1))
		_, err := d.Exec(t.Context(), `UPDATE threads SET user_data = $1 WHERE id = 't03'`, ring(t, 9).Seal("thread.user_data", []byte(threadText)))
		must(t, err)
		both := ring(t, 2, 1)
		_, err = start(t, d, both)
		must(t, err)
		step := Request{Start: true, For: time.Minute}
		for range 2 {
			_, err = newRotation(d, both).Step(t.Context(), step)
			if errs.KindOf(err) != errs.Conflict || !strings.Contains(err.Error(), "1 values") || !strings.Contains(err.Error(), "(threads)") {
				t.Errorf("a step returns %v", err)
			}
		}
		_, err = newRotation(d, ring(t, 2, 1, 9)).Step(t.Context(), step)
		must(t, err)
		check(t, d, ring(t, 2))
		_, err = d.Exec(t.Context(), `UPDATE threads SET user_data = $1 WHERE id = 't03'`, []byte("nonsense"))
		must(t, err)
		step.SkipUnreadable = true
		if p, err := newRotation(d, both).Step(t.Context(), step); err != nil || !p.Done {
			t.Errorf("%+v, %v", p, err)
		}
	})
}
