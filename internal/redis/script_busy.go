package redis

import (
	"slices"
	"strings"
	"time"

	"steward/internal/redis/lua"
)

// busyPause is how long a script runs between two looks at the requests of other clients.
const busyPause = 2 * time.Millisecond

// The errors of SCRIPT KILL and FUNCTION KILL, and of requests while a script runs for long.
const (
	errBusyScript   replyError = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	errBusyFunction replyError = "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
	errNotBusy      replyError = "NOTBUSY No scripts in execution right now."
	errUnkillable   replyError = "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."
)

// busyError returns what other clients are told while the script runs for long.
func (r *scriptRun) busyError() error {
	if r.isFunction() {
		return errBusyFunction
	}
	return errBusyScript
}

func (r *scriptRun) isFunction() bool { return strings.HasPrefix(r.x.cmd.name, "fcall") }

// poll is called again and again while a script runs. Once it has taken longer than busy-reply-threshold, requests of
// other clients are refused, but for those that end the script. It returns why the script has to end, or "".
func (r *scriptRun) poll(elapsed time.Duration) lua.StopError {
	s := r.x.Store
	if elapsed < time.Duration(s.limits.busyReplyThreshold)*time.Millisecond || elapsed-r.polled < busyPause {
		return ""
	}
	r.polled = elapsed
	s.mu.Lock()
	clients := slices.Concat(s.rest, s.runnable)
	s.runnable = nil
	s.mu.Unlock()
	s.rest = nil
	if len(clients) == 0 {
		return ""
	}
	running, current, x := s.running, s.current, r.x
	own := *x // x may be the current call, whose place others take
	r.x = &own
	for _, c := range clients {
		s.runClient(c)
	}
	s.running, s.current, r.x = running, current, x
	s.sendBusy(running)
	return r.killed
}

// sendBusy sends what clients have been answered while the client of a script waits for its reply. What they have changed
// before the script began must be durable then. If it cannot be written, the turn fails when the script has ended.
func (s *Store) sendBusy(running *Client) {
	if s.log.sync() != nil {
		return
	}
	for _, c := range s.turn {
		if c != running {
			c.flush()
		}
	}
	clear(s.turn)
	s.turn = append(s.turn[:0], running)
}

func scriptKill(x *call) error { return x.kill("SCRIPT KILL", false) }

func functionKill(x *call) error { return x.kill("FUNCTION KILL", true) }

// kill ends the script that runs, or the function.
func (x *call) kill(command string, function bool) error {
	r := x.scripts.running
	switch {
	case r == nil:
		return errNotBusy
	case r.dirty:
		return errUnkillable
	case r.isFunction() != function:
		return r.busyError()
	}
	r.killed = lua.StopError("Script killed by user with " + command + ".")
	x.out.ok()
	return nil
}
