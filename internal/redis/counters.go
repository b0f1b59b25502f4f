package redis

import "sync/atomic"

// Counters counts the work that stores do, for metrics. A reopened store may continue with its old
// counters, and stores may share them.
type Counters struct {
	// Commands counts the commands that ran, and Refused those for which there was no room in memory or
	// on disk.
	Commands, Refused atomic.Int64
	// Memory counts the bytes in open stores' keys and values, and Disk the bytes in their logs.
	Memory, Disk atomic.Int64
}

// reported is a store's share in the counters.
type reported struct{ commands, memory, disk int64 }

// report adds the work since the last report to the counters.
func (s *Store) report() { s.reportAs(reported{s.stats.commands, s.keys.memory, s.log.size}) }

func (s *Store) reportAs(now reported) {
	c := s.options.Counters
	c.Commands.Add(now.commands - s.reported.commands)
	c.Memory.Add(now.memory - s.reported.memory)
	c.Disk.Add(now.disk - s.reported.disk)
	s.reported = now
}
