package app

import (
	"context"
	"math"

	"steward/internal/app/backups"
	"steward/internal/app/metrics"
	"steward/internal/backup"
	"steward/internal/stamp"
	"steward/internal/status"
)

// backupSource returns this installation as a source for backups.
func (b base) backupSource() *backups.Source {
	return &backups.Source{
		DB: b.db, Blobs: b.blobs, Config: b.cfg, Node: b.node, Version: Version(), BaseURL: b.addresses.BaseURL, KeyID: b.ring.KeyID(),
		Now: b.now,
	}
}

// scheduled connects the scheduled backups with the status and the metrics.
type scheduled struct{ *backups.Periodic }

// wireBackups returns the scheduled backups, or nil if no target is set.
func (b base) wireBackups() *scheduled {
	if b.cfg.BackupTo == "" {
		return nil
	}
	return &scheduled{&backups.Periodic{
		Source: b.backupSource(), Environ: b.environ, Target: b.cfg.BackupTo, Schedule: b.cfg.BackupSchedule,
		Keep: b.cfg.BackupKeep, Encryption: backup.Encryption{Recipients: b.cfg.BackupRecipients}, Log: b.log,
	}}
}

// status returns the backups' state for the status.
func (s *scheduled) status(ctx context.Context) (status.Backup, error) {
	state, err := s.State(ctx)
	return status.Backup{
		LastSuccessAt: state.SucceededAt, LastError: state.Error, NextAt: stamp.Of(s.Next(state)), Missing: state.Elsewhere,
	}, err
}

// measure connects the backups with the metrics. Each replica reports all of them, but only its own
// failures.
func (s *scheduled) measure(m *metrics.Metrics) {
	s.Failed = m.BackupFailed
	m.Backups(func() metrics.Backups {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
		defer cancel()
		state, err := s.State(ctx)
		if err != nil {
			return metrics.Backups{LastSuccess: math.NaN(), Duration: math.NaN(), Bytes: math.NaN(), Due: math.NaN()}
		}
		return metrics.Backups{
			LastSuccess: seconds(state.SucceededAt), Duration: seconds(state.SucceededAt) - seconds(state.BeganAt),
			Bytes: float64(state.Bytes), Due: float64(s.Due(state).Unix()),
		}
	})
}

// seconds returns a time in seconds since 1970, or 0 for none.
func seconds(at *stamp.Time) float64 {
	if at == nil {
		return 0
	}
	return float64(at.Std().UnixMicro()) / 1e6
}
