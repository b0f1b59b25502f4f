package redis

import "sync/atomic"

// Counters count what a store does, for metrics. A store that is opened again may go on with those it had.
type Counters struct {
	// Commands is the number of commands that ran, and Refused that of those for which there was no room in memory
	// or on disk.
	Commands, Refused atomic.Int64
	// Memory is the number of bytes of keys and values, 0 while the store is closed, and Disk that of the log.
	Memory, Disk atomic.Int64
}

// report adds what was done since the last report to the counters.
func (s *Store) report() {
	c := s.options.Counters
	c.Commands.Add(s.stats.commands - s.stats.reported)
	s.stats.reported = s.stats.commands
	c.Memory.Store(s.keys.memory)
	c.Disk.Store(s.log.size)
}
