package embedkv

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"steward/internal/budget"
	"steward/internal/redis"
)

// Serve accepts connections until Close.
func (e *Engine) Serve(listener net.Listener) error {
	go func() {
		<-e.closed
		_ = listener.Close()
	}()
	for {
		c, err := listener.Accept()
		if err == nil {
			e.accept(c)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return e.endOfServe(err)
		}
		e.Log.Warn("accept connection to a key-value store", "error", err)
		time.Sleep(100 * time.Millisecond) // for example, too many open files
	}
}

// endOfServe returns nil after Close.
func (e *Engine) endOfServe(err error) error {
	select {
	case <-e.closed:
		return nil
	default:
		return fmt.Errorf("serve key-value stores: %w", err)
	}
}

// accept serves a connection in the background. It refuses the connection if there are too many.
func (e *Engine) accept(c net.Conn) { e.begin(e.newSession(c)) }

// begin serves a session in the background. It refuses the session if there are too many.
func (e *Engine) begin(s *session) {
	if err := e.sessions.enter(s); err != nil {
		_ = s.net.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = fmt.Fprintf(s.net, "-%s\r\n", err)
		_ = belowTLS(s.net).Close()
		return
	}
	go s.serve()
}

var errTooManyClients = errors.New("ERR max number of clients reached")

// sessions holds the clients' connections.
type sessions struct {
	mu     sync.Mutex
	all    map[*session]bool
	closed bool
	// byStore holds the authenticated ones.
	byStore map[string]*members
}

// members holds a store's sessions and clients.
type members struct {
	sessions map[*session]bool
	clients  redis.Clients
}

// enter adds a new session, which has not authenticated yet.
func (r *sessions) enter(s *session) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || !s.slot.Take(1) {
		return errTooManyClients
	}
	r.all[s] = true
	return nil
}

// join moves a session to a store and the store's slot. It leaves the store that it had before.
func (r *sessions) join(s *session, store string, hash [sha256.Size]byte, slot *budget.Charge) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.store != store && !slot.Take(1) {
		return errTooManyClients
	}
	if s.store != store {
		r.part(s, slot)
	}
	if r.byStore[store] == nil {
		r.byStore[store] = &members{sessions: map[*session]bool{}}
	}
	r.byStore[store].sessions[s] = true
	s.store = store
	s.hash = hash
	return nil
}

// clients returns the clients of the session's store.
func (r *sessions) clients(s *session) *redis.Clients {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &r.byStore[s.store].clients
}

// part removes a session from its store and gives it another slot. The caller holds mu.
func (r *sessions) part(s *session, slot *budget.Charge) {
	s.slot.Release()
	s.slot = slot
	if m := r.byStore[s.store]; m != nil {
		delete(m.sessions, s)
		if len(m.sessions) == 0 {
			delete(r.byStore, s.store)
		}
	}
	s.store = ""
}

// forget removes a session from its store. It reports whether there was a slot for an unauthenticated client.
func (r *sessions) forget(s *session, slot *budget.Charge) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := slot.Take(1)
	r.part(s, slot)
	return taken
}

// leave removes a session.
func (r *sessions) leave(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.part(s, s.slot)
	delete(r.all, s)
}

// cut closes a store's connections, except those that used the password with this hash.
func (r *sessions) cut(store string, hash [sha256.Size]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.byStore[store]
	if m == nil {
		return
	}
	for s := range m.sessions {
		if s.hash != hash {
			s.client.Kill()
		}
	}
}

// stores returns the ids of the stores that have clients.
func (r *sessions) stores() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := make([]string, 0, len(r.byStore))
	for id := range r.byStore {
		ids = append(ids, id)
	}
	return ids
}

// close closes all connections, and refuses new ones.
func (r *sessions) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for s := range r.all {
		s.client.Kill()
	}
}
