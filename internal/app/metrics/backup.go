package metrics

// Backups are the values of backups at a schedule, which are read at each scrape. Times are in seconds since
// 1970.
type Backups struct {
	// LastSuccess is 0 before the first backup.
	LastSuccess func() float64
	// Duration and Bytes are of the last backup that succeeded.
	Duration, Bytes func() float64
	// Due is when a backup is or was due.
	Due func() float64
}

// Backups registers how the backups at a schedule are doing.
func (m *Metrics) Backups(b Backups) {
	m.registry.MustRegister(m.backupFailures)
	m.gauge("steward_backup_last_success_timestamp_seconds",
		"When the last backup at a schedule was completed; 0 before the first one.", b.LastSuccess)
	m.gauge("steward_backup_last_duration_seconds", "Time that the last backup at a schedule took.", b.Duration)
	m.gauge("steward_backup_last_size_bytes", "What the last backup at a schedule has written.", b.Bytes)
	m.gauge("steward_backup_due_timestamp_seconds", "When a backup is due by the schedule, or was and is not made yet.", b.Due)
}

// BackupFailed counts a backup at a schedule that failed, or did not remove older ones.
func (m *Metrics) BackupFailed() { m.backupFailures.Inc() }
