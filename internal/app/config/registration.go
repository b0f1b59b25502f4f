package config

import (
	"slices"

	"steward/internal/oidc/registration"
)

func registrationMode(v string) (registration.Mode, error) {
	if m := registration.Mode(v); slices.Contains(registration.Modes(), m) {
		return m, nil
	}
	return "", mustBe("off, token or loopback")
}
