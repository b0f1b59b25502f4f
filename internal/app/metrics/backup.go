package metrics

// Backups has the scheduled backups' values. Times are in seconds since 1970.
type Backups struct {
	// LastSuccess is 0 before the first backup.
	LastSuccess float64
	// Duration and Bytes belong to the last successful backup.
	Duration, Bytes float64
	// Due is when a backup is or was due.
	Due float64
}

// Backups registers the scheduled backups' gauges, which are read at each scrape.
func (m *Metrics) Backups(read func() Backups) {
	m.registry.MustRegister(m.backupFailures)
	m.gauge("steward_backup_last_success_timestamp_seconds",
		"When the last backup at a schedule was completed; 0 before the first one.", func() float64 { return read().LastSuccess })
	m.gauge("steward_backup_last_duration_seconds", "Time that the last backup at a schedule took.", func() float64 { return read().Duration })
	m.gauge("steward_backup_last_size_bytes", "What the last backup at a schedule has written.", func() float64 { return read().Bytes })
	m.gauge("steward_backup_due_timestamp_seconds", "When a backup is due by the schedule, or was and is not made yet.",
		func() float64 { return read().Due })
}

// BackupFailed counts a scheduled backup that failed, or did not remove older ones.
func (m *Metrics) BackupFailed() { m.backupFailures.Inc() }
