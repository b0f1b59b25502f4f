package redis

import "sync/atomic"

// Counters count what stores do, for metrics. A store that is opened again may go on with those it had, and several may
// share them.
type Counters struct {
	// Commands is the number of commands that ran, and Refused that of those for which there was no room in memory
	// or on disk.
	Commands, Refused atomic.Int64
	// Memory is the number of bytes of keys and values of open stores, and Disk that of their logs.
	Memory, Disk atomic.Int64
}

// reported is what a store has added to the counters.
type reported struct{ commands, memory, disk int64 }

// report adds to the counters what was done since the last report.
func (s *Store) report() { s.reportAs(reported{s.stats.commands, s.keys.memory, s.log.size}) }

func (s *Store) reportAs(now reported) {
	c := s.options.Counters
	c.Commands.Add(now.commands - s.reported.commands)
	c.Memory.Add(now.memory - s.reported.memory)
	c.Disk.Add(now.disk - s.reported.disk)
	s.reported = now
}
