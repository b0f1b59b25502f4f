package app

import (
	"steward/internal/alert"
	"steward/internal/mail"
	"steward/internal/status"
	"steward/internal/webhook"
)

// alerts holds the alert slice's parts.
type alerts struct {
	evaluator *alert.Evaluator
	worker    *alert.Worker
	handler   *alert.Handler
}

// wireAlerts returns the alert slice's parts. processes know how full their disks are, and hooks sends
// tests.
func (p *parts) wireAlerts(processes *status.Processes, hooks *webhook.Handler) alerts {
	store := &alert.Store{
		DB: p.db, Ring: p.ring, Now: p.now, Audit: p.auditLog, Accounts: p.accounts, Mail: p.mailQueue(), HasBackups: p.backups != nil,
	}
	evaluator := &alert.Evaluator{
		Store: store, Webhooks: p.webhooks.store, Counts: hooks.Stats, Evals: p.evals, Processes: processes, Log: p.log,
	}
	if p.backups != nil {
		evaluator.Backup = p.backups.status
	}
	return alerts{
		evaluator: evaluator,
		worker:    &alert.Worker{Store: store, Network: p.webhooks.sender.Network, Log: p.log},
		handler:   &alert.Handler{Store: store, SendTest: hooks.SendTest},
	}
}

// mailQueue returns the queue of mail, or nil if no mail server is set.
func (p *parts) mailQueue() *mail.Store {
	if p.mail == nil {
		return nil
	}
	return p.mail.store
}
