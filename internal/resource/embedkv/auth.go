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
	"steward/internal/resource"
)

const (
	// maxLogins is the number of logins that are checked at once. Addresses take turns.
	maxLogins = 16
	// maxFailures is the number of failures after which a connection is closed.
	maxFailures = 5
	// failureDelay is how long the reply to the first failure is delayed. It doubles.
	failureDelay = 50 * time.Millisecond
	// loginTimeout is how long a lookup may take.
	loginTimeout = 5 * time.Second
)

// replyError is an error in the words of Redis.
type replyError string

func (e replyError) Error() string { return string(e) }

const errWrongPassword replyError = "WRONGPASS invalid username-password pair or user is disabled."

func passwordHash(password string) [sha256.Size]byte { return sha256.Sum256([]byte(password)) }

// login makes a session one of the store of a user and password. If that fails, it stays what it was.
//
// A store may be deleted, or its password changed, between lookup and join. Both count the generation
// up before they close connections: so either they see this session, or login sees their count and
// looks again.
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
		if err := e.sessions.join(s, p.ID, hash, e.Connections.Charge(p.OrgID, p.ID)); err != nil {
			return err
		}
		if e.generation.Load() == generation {
			s.own(p.OrgID, p.ID)
			s.in.args = maxArgs
			s.in.bytes = e.Limits.Request
			s.failures = 0
			return nil
		}
		s.forget()
	}
	return errors.New("ERR stores are changing too fast, try again")
}

// forget makes the session one that has not authenticated. It is closed if there are too many.
func (s *session) forget() {
	e := s.engine
	s.quit = !e.sessions.forget(s, e.Unauthenticated.Charge(s.address, "")) || s.quit
}

// failed delays the reply to a wrong password, and closes the connection after some of them.
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

// lookup returns the store of a user, or of a password alone. Its errors are replies.
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
	if p.Node != e.Node {
		return nil, fmt.Errorf("ERR store %s is on another node of this installation (%s), connect to that one", p.ID, p.Node)
	}
	return p, nil
}

func (e *Engine) find(ctx context.Context, user string, hash [sha256.Size]byte) (*resource.Provisioned, error) {
	if user == "default" {
		return e.ByPassword(ctx, hash[:])
	}
	if !id.Is(id.KVStore, user) {
		return nil, errs.Missing("key-value store", "")
	}
	return e.ByID(ctx, user)
}
