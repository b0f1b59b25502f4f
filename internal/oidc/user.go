package oidc

import "steward/internal/stamp"

// User is a user account as the protocol uses it. The accounts themselves belong to another part of
// Steward.
type User struct {
	ID        string
	Email     string
	FirstName string
	LastName  string
	PhotoURL  string
	// PasswordHash is empty until the user has set a password.
	PasswordHash string
	UpdatedAt    stamp.Time
	// EmailVerified is whether the user has used a link that was mailed to the address.
	EmailVerified bool
}
