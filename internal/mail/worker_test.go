package mail

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	netmail "net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/job"
	"steward/internal/mail/mailtest"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// fixture is a queue with a worker and a mail server.
type fixture struct {
	t      *testing.T
	worker *Worker
	server *mailtest.Server
	log    bytes.Buffer

	mu                    sync.Mutex
	now                   time.Time
	sent, failed, dropped int
}

func each(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ring, err := seal.NewRing(make([]byte, seal.KeySize))
		must(t, err)
		f := &fixture{t: t, server: mailtest.Prepare(t), now: time.Now().Truncate(time.Millisecond)}
		f.worker = &Worker{
			Store:   &Store{DB: d, Ring: ring, Now: f.clock},
			Server:  serverAt(t, f.server.URL()),
			Log:     slog.New(slog.NewTextHandler(&f.log, nil)),
			Compose: compose,
			Tried: func(_ Kind, sent, dropped bool) {
				if sent {
					f.sent++
				} else {
					f.failed++
				}
				if dropped {
					f.dropped++
				}
			},
		}
		test(t, f)
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func serverAt(t testing.TB, url string) *Server {
	t.Helper()
	s, err := ParseURL(url)
	must(t, err)
	s.From = &netmail.Address{Name: "Steward", Address: "steward@example.com"}
	return s
}

// compose makes a mail that says what was asked for.
func compose(_ context.Context, r Request) (Letter, error) {
	if r.To == "gone@example.com" {
		return Letter{}, errs.New(errs.NotFound, "nobody")
	}
	return Letter{To: r.To, Content: Content{Subject: string(r.Notice), Paragraphs: []string{"about " + string(r.Notice)}}}, nil
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func (f *fixture) add(r Request) {
	f.t.Helper()
	must(f.t, f.worker.Store.DB.Write(f.t.Context(), func(tx *db.Tx) error { return f.worker.Store.Add(tx, r) }))
}

func (f *fixture) notice(to, subject string) {
	f.t.Helper()
	f.add(Request{Kind: KindNotice, To: to, Notice: Event(subject)})
}

func (f *fixture) run() {
	f.t.Helper()
	must(f.t, f.worker.Run(f.t.Context()))
}

func (f *fixture) wantQueued(want int64) {
	f.t.Helper()
	if n, err := f.worker.Store.Queued(f.t.Context()); n != want || err != nil {
		f.t.Fatalf("%d mails are queued (%v), want %d", n, err, want)
	}
}

func (f *fixture) wantPending(want bool) {
	f.t.Helper()
	if got, err := f.worker.Store.Pending(f.t.Context()); got != want || err != nil {
		f.t.Fatalf("pending: %t, %v", got, err)
	}
}

func TestDeadServerLosesNothing(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.wantPending(false)
		for range 3 {
			f.notice("ada@example.com", "hello")
		}
		f.notice("gone@example.com", "hello") // is not kept for a server that is dead
		f.run()
		f.wantQueued(3)
		f.wantPending(false)
		for range 10 { // it is dead for a day
			f.advance(maxPause)
			f.wantPending(true)
			f.run()
		}
		f.wantQueued(3)
		f.server.Start()
		f.advance(maxPause)
		f.run()
		f.wantQueued(0)
		if n := len(f.server.Mails("ada@example.com")); n != 3 || f.sent != 3 || f.failed != 33 || f.dropped != 0 {
			t.Errorf("%d arrived; sent %d, failed %d, dropped %d", n, f.sent, f.failed, f.dropped)
		}
	})
}

func TestMailIsGivenUpAfterSomeDays(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.notice("ada@example.com", "hello")
		f.advance(maxAge)
		f.run()
		f.wantQueued(1)
		f.advance(maxPause)
		f.run()
		f.wantQueued(0)
		if f.dropped != 1 || !strings.Contains(f.log.String(), "given up") {
			t.Errorf("dropped %d; the log has %s", f.dropped, &f.log)
		}
	})
}

func TestRefusedRecipientDelaysNoOther(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.server.Refuse = func(to string) error {
			if to != "unknown@example.com" {
				return nil
			}
			return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: to + ": no such user"}
		}
		f.server.Start()
		f.notice("ada@example.com", "first")
		f.notice("unknown@example.com", "second")
		f.notice("ada@example.com", "third")
		f.run()
		f.wantQueued(1)
		if n := len(f.server.Mails("ada@example.com")); n != 2 {
			t.Errorf("%d mails arrived", n)
		}
		var problem string
		must(t, f.worker.Store.DB.Read(t.Context()).Row(`SELECT last_error FROM mails`).Scan(&problem))
		if !strings.Contains(problem, "no such user") || strings.Contains(problem+f.log.String(), "unknown@") {
			t.Errorf("stored error %q, log %s", problem, &f.log)
		}
	})
}

func TestUsersDoNotWaitForInvitations(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.server.Start()
		for range batch + 5 {
			f.add(Request{Kind: KindInvitation, To: "many@example.com", Notice: "invitation"})
		}
		f.notice("ada@example.com", "urgent")
		list, err := f.worker.Store.due(t.Context(), batch)
		must(t, err)
		if list[0].kind != KindNotice {
			t.Errorf("the first is %s", list[0].kind)
		}
		f.run()
		if f.server.All() != batch+6 {
			t.Errorf("%d mails arrived", f.server.All())
		}
	})
}

func TestInvitationsOfAnOrganizationAreBounded(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		invite := func(orgID string, n int) {
			must(t, f.worker.Store.DB.Write(t.Context(), func(tx *db.Tx) error {
				for range n {
					if err := f.worker.Store.AddInvitation(tx, orgID, "inv_1"); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		invite("org_1", maxForOrg+10)
		f.wantQueued(maxForOrg)
		invite("org_2", 1)
		f.wantQueued(maxForOrg + 1)
		f.advance(24 * time.Hour)
		invite("org_1", 1)
		f.wantQueued(maxForOrg + 2)
	})
}

// TestQueueHasNoPlainText looks at the stored row.
func TestQueueHasNoPlainText(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.notice("ada@example.com", "the subject")
		var body []byte
		must(t, f.worker.Store.DB.Read(t.Context()).Row(`SELECT body FROM mails`).Scan(&body))
		if bytes.Contains(body, []byte("ada@")) || bytes.Contains(body, []byte("subject")) {
			t.Errorf("the row has %q", body)
		}
		f.server.Start()
		f.run()
		f.wantQueued(0)
	})
}

// TestReplicasSendOnce has two replicas whose jobs run at the same time.
func TestReplicasSendOnce(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.server.Start()
		f.worker.Tried = nil
		const n = 30
		for range n {
			f.notice("ada@example.com", "hello")
		}
		var replicas job.Group
		for _, owner := range []string{"a", "b"} {
			lease := job.Lease{DB: f.worker.Store.DB, Now: time.Now, Name: "mail", Owner: owner, TTL: 30 * time.Second}
			replicas.Go((&job.Job{
				Lease: lease, Log: f.worker.Log, Interval: time.Millisecond, Pending: f.worker.Store.Pending, Do: f.worker.Run,
			}).Run)
		}
		f.server.Wait("ada@example.com", n)
		replicas.Stop()
		f.wantQueued(0)
		if f.server.All() != n {
			t.Errorf("%d mails arrived, want %d", f.server.All(), n)
		}
	})
}

func TestLineBreaksDoNotReachHeaders(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.server.Start()
		for _, r := range []Request{
			{Kind: KindNotice, To: "ada@example.com", Notice: "hello\r\nBcc: eve@example.com"},
			{Kind: KindNotice, To: "ada@example.com", Notice: "hello\nBcc: eve@example.com"},
			{Kind: KindNotice, To: "ada@example.com\r\nRCPT TO:<eve@example.com>", Notice: "hello"},
		} {
			f.add(r)
		}
		f.run()
		f.wantQueued(0)
		if f.server.All() != 0 || f.dropped != 3 {
			t.Errorf("%d mails arrived, %d were dropped", f.server.All(), f.dropped)
		}
	})
}

func TestMailHasTextAndHTML(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.server.User = "steward"
		f.server.Password = "p@ss:word"
		f.server.Start()
		f.worker.Server = serverAt(t, "smtp://steward:p%40ss%3Aword@"+f.server.Address)
		link := "https://steward.example.com/invite/" + strings.Repeat("x", 43)
		f.worker.Compose = func(context.Context, Request) (Letter, error) {
			i := Invitation{
				Org: "Ümläut & <b>Söhne", Role: "member", Inviter: "Ada", Link: link, Expires: stamp.Of(f.clock()),
			}
			return Letter{To: "ada@example.com", Content: i.Content()}, nil
		}
		f.add(Request{Kind: KindInvitation})
		f.run()
		m := f.server.Wait("ada@example.com", 1)
		if m.Subject != "You are invited to Ümläut & <b>Söhne" {
			t.Errorf("the subject is %q", m.Subject)
		}
		if m.Link() != link || !strings.Contains(m.HTML, `href="`+link+`"`) || strings.Contains(m.HTML, "<b>") {
			t.Errorf("text %s\nHTML %s", m.Text, m.HTML)
		}
		for name, want := range map[string]string{
			"From": `"Steward" <steward@example.com>`, "To": "<ada@example.com>", "Auto-Submitted": "auto-generated",
		} {
			if got := m.Header.Get(name); got != want {
				t.Errorf("%s is %q", name, got)
			}
		}
		if m.From != "steward@example.com" || f.server.Logins() != 1 || !strings.HasPrefix(m.Header.Get("Message-Id"), "<mail_") {
			t.Errorf("from %s, %d sign-ins, message %s", m.From, f.server.Logins(), m.Header.Get("Message-Id"))
		}
	})
}

func TestStoppedWorkerKeepsMail(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.notice("ada@example.com", "hello")
		ctx, cancel := context.WithCancel(t.Context())
		f.worker.Compose = func(ctx context.Context, _ Request) (Letter, error) {
			cancel()
			return Letter{}, ctx.Err()
		}
		if err := f.worker.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		f.wantQueued(1)
		f.wantPending(true)
	})
}
