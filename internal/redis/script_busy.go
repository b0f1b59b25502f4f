package redis

import (
	"slices"
	"strings"
	"time"

	"steward/internal/redis/lua"
)

// busyPause is how long a script runs before it looks at other clients' requests again.
const busyPause = 2 * time.Millisecond

// Errors for SCRIPT KILL and FUNCTION KILL, and for requests while a long script runs.
const (
	errBusyScript   replyError = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	errBusyFunction replyError = "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
	errNotBusy      replyError = "NOTBUSY No scripts in execution right now."
	errUnkillable   replyError = "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."
)

// busyError returns the error for other clients while the script runs long.
func (r *scriptRun) busyError() error {
	if r.isFunction() {
		return errBusyFunction
	}
	return errBusyScript
}

func (r *scriptRun) isFunction() bool { return strings.HasPrefix(r.x.cmd.name, "fcall") }

// poll is called over and over while a script runs. Once the script has run longer than
// busy-reply-threshold, poll refuses other clients' requests, except those that end the script. It
// returns the reason why the script must end, or "".
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
	own := *x // x may be the current call, which others overwrite
	r.x = &own
	for _, c := range clients {
		s.runClient(c)
	}
	s.running, s.current, r.x = running, current, x
	s.sendBusy(running)
	return r.killed
}

// sendBusy sends answers to other clients while the script's own client still waits. Their changes from
// before the script must be durable by then. If we cannot write them, the turn fails once the script
// has ended.
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

// kill ends the script or function that runs.
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
	return x.replyOK()
}
