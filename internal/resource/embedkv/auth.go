package embedkv

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/redis"
	"steward/internal/resource"
)

const (
	// maxLogins caps the logins that are checked at once. Addresses take turns.
	maxLogins = 16
	// maxFailures is how many failed logins close a connection.
	maxFailures = 5
	// failureDelay delays the reply to the first failed login. It doubles with each failure.
	failureDelay = 50 * time.Millisecond
	// loginTimeout bounds a lookup.
	loginTimeout = 5 * time.Second
)

// replyError is an error in Redis's words.
type replyError string

func (e replyError) Error() string { return string(e) }

// Authentication errors, in Redis's words.
const (
	errNoAuth        replyError = "NOAUTH Authentication required."
	errNoAuthHello   replyError = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
	errAuthArgs      replyError = "ERR wrong number of arguments for 'auth' command"
	errSyntax        replyError = "ERR syntax error"
	errWrongPassword replyError = "WRONGPASS invalid username-password pair or user is disabled."
)

// auth handles AUTH [username] password.
func (s *session) auth(args []string) {
	var err error
	switch len(args) {
	case 2:
		err = s.login("default", args[1])
	case 3:
		err = s.login(args[1], args[2])
	case 1:
		err = errAuthArgs
	default:
		err = errSyntax
	}
	if err != nil {
		s.fail(err)
		return
	}
	if s.forwards() {
		s.replay(args)
		return
	}
	s.ok("OK")
}

// hello handles HELLO [protover [AUTH username password] [SETNAME clientname]]. Once the client has
// authenticated, the store answers it.
func (s *session) hello(args []string) {
	h, err := redis.ParseHello(args)
	if err == nil && h.Auth {
		err = s.login(h.User, h.Password)
	}
	if err == nil && s.store == "" {
		err = errNoAuthHello
	}
	if err != nil {
		s.fail(err)
		return
	}
	if s.forwards() {
		s.replay(args)
		return
	}
	_ = s.client.Do(h.Request()) // an error recurs in the next read
}

func passwordHash(password string) [sha256.Size]byte { return sha256.Sum256([]byte(password)) }

// login authenticates a session for a store. If that fails, the session keeps the store it had.
//
// The store may be deleted, or its password changed, between lookup and join. Both increment the
// generation before they close connections. So either they see this session, or login sees the new
// generation and looks again.
func (s *session) login(user, password string) error {
	e := s.engine
	hash := passwordHash(password)
	for range 10 {
		generation := e.generation.Load()
		p, err := e.lookup(s.address, user, hash)
		if err != nil {
			s.failed()
			return err
		}
		if err := s.check(p); err != nil {
			return err
		}
		if err := e.sessions.join(s, p.ID, hash, e.Connections.Charge(p.OrgID, p.ID)); err != nil {
			e.usage.Of(p.OrgID, p.ID).refused.Add(1)
			return err
		}
		if e.generation.Load() == generation {
			s.failures = 0
			return s.open(p)
		}
		s.client.Detach()
		s.forget()
	}
	return errors.New("ERR stores are changing too fast, try again")
}

// open connects the session to its store, here or on another node.
func (s *session) open(p *resource.Provisioned) error {
	if p.Node != s.engine.Node {
		return s.connect(p)
	}
	s.attach(p)
	return nil
}

// attach lets a store run the session's requests. It does nothing if that store already does.
func (s *session) attach(p *resource.Provisioned) {
	if s.attached == p.ID {
		return
	}
	e := s.engine
	s.client.Attach(redis.Access{
		User:    p.ID,
		URL:     e.URL,
		Open:    func() (*redis.Store, error) { return e.pool.get(p) },
		Clients: e.sessions.clients(s),
		Memory:  e.Memory.Charge(p.OrgID, p.ID),
	})
	s.attached = p.ID
	s.setUse(e.usage.Of(p.OrgID, p.ID))
	s.in.Args = maxArgs
	s.in.Bytes = e.Limits.Request
}

// forget makes the session unauthenticated again. It closes the session if there are already too many of
// these.
func (s *session) forget() {
	e := s.engine
	s.quit = !e.sessions.forget(s, e.Unauthenticated.Charge(s.address, "")) || s.quit
	s.attached = ""
	s.setUse(nil)
	s.in.Args = loginArgs
	s.in.Bytes = loginBytes
	s.began = time.Now()
}

// failed delays the reply to a wrong password, and closes the connection after maxFailures.
func (s *session) failed() {
	delay := time.NewTimer(failureDelay << s.failures)
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-s.engine.closed:
	}
	s.failures++
	s.quit = s.failures >= maxFailures
}

// lookup finds a store by user, or by password alone for the default user. Its errors are replies.
func (e *Engine) lookup(address, user string, hash [sha256.Size]byte) (*resource.Provisioned, error) {
	ctx, cancel := context.WithTimeout(context.Background(), loginTimeout)
	defer cancel()
	if err := e.logins.Enter(ctx, address, ""); err != nil {
		return nil, errors.New("ERR too many clients authenticate at once, try again")
	}
	defer e.logins.Leave(address)
	p, err := e.find(ctx, user, hash)
	if errs.KindOf(err) == errs.NotFound {
		return nil, errWrongPassword
	}
	if err != nil {
		e.Log.Error("look up key-value store", "error", err)
		return nil, errors.New("ERR authentication is not available, try again")
	}
	want := passwordHash(p.Password)
	if subtle.ConstantTimeCompare(want[:], hash[:]) == 0 {
		return nil, errWrongPassword
	}
	if err := e.Active.Check(ctx, p.OrgID); err != nil {
		return nil, fmt.Errorf("NOPERM %w", err)
	}
	return p, nil
}

func (e *Engine) find(ctx context.Context, user string, hash [sha256.Size]byte) (*resource.Provisioned, error) {
	if user == "default" {
		return e.Rows.ByPassword(ctx, hash[:])
	}
	if !id.Is(id.KVStore, user) {
		return nil, errs.Missing("key-value store", "")
	}
	return e.Rows.ByID(ctx, user)
}
