package config

import "net"

// pair names two settings.
type pair struct{ name, other string }

// requirements returns the settings that mean nothing without another one.
func requirements() []pair {
	return []pair{
		{"admin-password", "admin-email"},
		{"smtp-url", "mail-from"},
		{"tls-cert", "tls-key"},
		{"tls-key", "tls-cert"},
		{"acme-ca", "acme"},
		{"acme-email", "acme"},
		{"internal-advertise", "internal-listen"},
		{"database-pooler", "database-url"},
		{"blob-access-key", "blob-secret-key"},
		{"blob-secret-key", "blob-access-key"},
		{"backup-schedule", "backup-to"},
		{"backup-keep", "backup-to"},
		{"backup-recipients", "backup-to"},
	}
}

// alternatives returns pairs of settings that say the same thing in two ways.
func alternatives() []pair {
	return []pair{{"acme", "tls-cert"}, {"master-key-command", "master-key"}}
}

// given reports whether a setting has a value that is not its default.
func (l *loader) given(name string) bool { return l.texts[name] != "" }

// checkPairs checks settings that depend on whether another one is given.
func (l *loader) checkPairs() {
	for _, p := range requirements() {
		l.faults.Check(!l.given(p.name) || l.given(p.other), l.sources[p.name], "requires %s", l.nameOf(p.other))
	}
	for _, p := range alternatives() {
		l.faults.Check(!l.given(p.name) || !l.given(p.other), l.sources[p.name], "must not be set together with %s", l.sources[p.other])
	}
}

// nameOf returns the name that a user gives a setting by: its flag, or its variable if it is a
// secret.
func (l *loader) nameOf(name string) string {
	for _, s := range l.settings {
		if s.name == name && s.kind == secret {
			return s.env()
		}
	}
	return "--" + name
}

// checkInternal checks that we can tell other replicas an address for their listener.
func (l *loader) checkInternal(c *Config) {
	host, _, err := net.SplitHostPort(c.InternalListen)
	l.faults.Check(err != nil || !isUnspecified(host) || l.given("internal-advertise"), l.sources["internal-listen"],
		"requires --internal-advertise, since it listens on all interfaces")
}
